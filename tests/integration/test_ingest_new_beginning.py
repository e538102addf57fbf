"""A source topic whose offsets begin again is refused with the reason: deleted and created again, or a mirror."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.sample_archives import unpack_sample
from tests.support.world import NOW_MS, TOPIC, World, build_versions, open_world, write_jsonl
from winnow.errors import BadInputError
from winnow.log.reference_chains import read_ledgers
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.ingest.request import IngestReport
from winnow.sources.formats.timestamps import format_milliseconds
from winnow.values.model import Record

REASON = "deleted and created again, or this is a mirror"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with open_world(tmp_path / "home") as opened:
        opened.create(1, min_cleanable_dirty_ratio="0.01")
        yield opened


def live(first_ms: int, count: int, word: str, first_offset: int = 0) -> list[Record]:
    """A topic's records, one a second from ``first_ms`` on."""
    return [
        replace(each, timestamp_ms=first_ms + 1000 * number, value=f"{word}-{each.offset}".encode())
        for number, each in enumerate(build_versions(first_offset, count))
    ]


def ingest(world: World, *paths: str | Path, topic: str = TOPIC, source_topic: str | None = None) -> IngestReport:
    return ingest_files(
        world.installation, topic, [str(path) for path in paths], as_of_ms=NOW_MS, source_topic=source_topic
    )


def refuse(world: World, *paths: str | Path) -> str:
    """The sentence with which an ingest is refused that leaves nothing behind."""
    before = (world.listing(), world.snapshot_ids())
    with pytest.raises(BadInputError) as caught:
        ingest(world, *paths)
    assert (world.listing(), world.snapshot_ids()) == before
    assert "Nothing of this call landed" in str(caught.value)
    return str(caught.value)


def test_later_records_under_smaller_offsets_are_a_new_beginning(world: World) -> None:
    world.ingest(live(1_000, 10, "old"))
    said = refuse(world, write_jsonl(world.path(), live(60_000, 4, "new")))
    assert REASON in said
    assert "create another topic" in said
    assert "partition 0, offset 0" in said


def test_so_are_later_records_in_places_that_a_compaction_emptied(world: World) -> None:
    """With --trust-compacted they would be taken for compacted away, and lost; so that is not offered."""
    world.ingest(live(1_000, 12, "old"))
    world.clock.now_ms += 30 * 86_400_000
    world.ingest(live(40_000, 3, "old", first_offset=12))
    world.compact()
    assert min(each.offset for each in world.read()) > 4
    said = refuse(world, write_jsonl(world.path(), live(60_000, 4, "new")))
    assert REASON in said
    assert "--trust-compacted" not in said


def test_another_record_that_is_not_later_is_no_new_beginning(world: World) -> None:
    world.ingest(live(1_000, 10, "old"))
    said = refuse(world, write_jsonl(world.path(), live(1_000, 4, "other")))
    assert REASON not in said
    assert "holds another record at this offset" in said


def test_files_in_the_wrong_order_are_no_new_beginning(world: World) -> None:
    world.ingest(live(20_000, 10, "old", first_offset=10))
    said = refuse(world, write_jsonl(world.path(), live(1_000, 4, "old")))
    assert REASON not in said
    assert "wrong order" in said


def write_object(path: Path, records: Sequence[Record]) -> None:
    """An object of Aiven's sink, as JSON lines."""
    lines = [
        {
            "key": f"k!{each.offset % 3}",
            "offset": each.offset,
            "timestamp": format_milliseconds(each.timestamp_ms or 0),
            "value": f"{(each.value or b'').decode()}!",
        }
        for each in records
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(map(json.dumps, lines)))


@pytest.mark.parametrize(("first_ms", "is_new"), [(120_000, True), (1_000, False)])
def test_two_lives_of_a_topic_in_one_archive_are_told_apart(
    world: World, tmp_path: Path, first_ms: int, is_new: bool
) -> None:
    write_object(tmp_path / "archive" / "1" / f"{TOPIC}-0-0.json", live(1_000, 10, "old"))
    write_object(tmp_path / "archive" / "2" / f"{TOPIC}-0-0.json", live(first_ms, 5, "new"))
    said = refuse(world, tmp_path / "archive")
    assert (REASON in said) is is_new
    assert "two different records have the same offset" in said


def unpack_log(folder: Path, topic_id: str | None) -> Path:
    """A broker's log directory with another topic id; None: the genuine one."""
    unpack_sample("logdirs/hot", folder)
    for path in folder.glob("codec-zstd-*/partition.metadata"):
        if topic_id is not None:
            path.write_text(re.sub(r"topic_id: .*", f"topic_id: {topic_id}", path.read_text()))
    return folder


def test_a_log_directory_of_another_topic_id_is_refused(world: World, tmp_path: Path) -> None:
    """Even where its records would fit: a topic of the same name goes on where the deleted one was."""
    world.create(2, "codec-zstd", cleanup_policy="delete")
    first = unpack_log(tmp_path / "first", None)
    second = unpack_log(tmp_path / "second", "A" * 22)
    report = ingest(world, first / "codec-zstd-0", topic="codec-zstd")
    assert report.records_appended > 0
    (ledger,) = read_ledgers(world.head("codec-zstd").state)
    assert len(ledger.choices["topic-id"]) == 22
    with pytest.raises(BadInputError, match=REASON) as caught:
        ingest(world, second / "codec-zstd-1", topic="codec-zstd")
    assert "A" * 22 in str(caught.value)
    assert ingest(world, first / "codec-zstd-1", topic="codec-zstd").records_appended > 0


def test_partitions_of_two_topic_ids_are_refused_in_one_call(world: World, tmp_path: Path) -> None:
    world.create(2, "codec-zstd", cleanup_policy="delete")
    first = unpack_log(tmp_path / "first", None)
    second = unpack_log(tmp_path / "second", "A" * 22)
    with pytest.raises(BadInputError, match=REASON):
        ingest(world, first / "codec-zstd-0", second / "codec-zstd-1", topic="codec-zstd")
    assert world.read(topic="codec-zstd") == []
