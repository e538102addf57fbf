"""Keyless records of a compacted topic: refused by default, kept aside when the topic says so, never dropped."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyiceberg.exceptions import CommitFailedException

from tests.support.world import (
    TOPIC,
    World,
    build_versions,
    compute_survivors,
    define_world,
    json_line,
    list_visible_rows,
    record,
    run_between_head_and_commit,
    write_jsonl,
)
from winnow.clock import read_wall_clock_ms
from winnow.errors import BadInputError, CommitConflictError, DamagedMetadataError
from winnow.files import storage
from winnow.log import quarantine, sql_catalog
from winnow.log.sql_catalog import MAXIMUM_COMMIT_AGE_MS
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.ingest.request import IngestReport
from winnow.values.model import Record

KEYLESS = [record(2, None, b"lost-1", timestamp_ms=None), record(5, None, b"lost-2", headers=(("h", None),))]
MIXED = [*build_versions(0, 2), KEYLESS[0], *build_versions(3, 2), KEYLESS[1]]


world = define_world(1, min_cleanable_dirty_ratio="0", winnow_keyless="quarantine")


def ingest(world: World, path: Path, records: list[Record], *, with_offset: bool = True) -> IngestReport:
    written = write_jsonl(path, records, with_offset=with_offset)
    return ingest_files(world.installation, TOPIC, [written], as_of_ms=world.clock())


def quarantined(world: World) -> Counter[tuple[int | None, int | None, bytes]]:
    rows = list_visible_rows(world.installation.log.quarantine(TOPIC), world.head().state).to_pylist()
    return Counter((row["partition"], row["offset"], row["value"]) for row in rows)


@pytest.mark.kafka("113")
def test_keyless_records_are_quarantined_and_the_others_land(world: World, tmp_path: Path) -> None:
    report = ingest(world, tmp_path / "a.jsonl", MIXED)
    assert (report.records_appended, report.records_quarantined, report.records_skipped) == (4, 2, 0)
    assert world.read() == [*build_versions(0, 2), *build_versions(3, 2)]
    assert quarantined(world) == Counter({(0, 2, b"lost-1"): 1, (0, 5, b"lost-2"): 1})
    assert world.state().log_end_offset == 6


def test_a_quarantined_record_without_an_offset_takes_none(world: World, tmp_path: Path) -> None:
    ingest(world, tmp_path / "a.jsonl", MIXED, with_offset=False)
    assert [each.offset for each in world.read()] == [0, 1, 2, 3]
    assert quarantined(world) == Counter({(0, None, b"lost-1"): 1, (0, None, b"lost-2"): 1})


@pytest.mark.parametrize("with_offset", [True, False])
def test_ingesting_quarantined_records_again_changes_nothing(world: World, tmp_path: Path, with_offset: bool) -> None:
    ingest(world, tmp_path / "a.jsonl", MIXED, with_offset=with_offset)
    before, aside = world.listing(), quarantined(world)
    again = ingest(world, tmp_path / "a.jsonl", MIXED, with_offset=with_offset)
    assert (again.records_appended, again.records_quarantined, again.records_skipped) == (0, 0, 6)
    assert again.snapshot_id is None
    assert (world.listing(), quarantined(world)) == (before, aside)


def test_missing_and_empty_headers_of_quarantined_records_are_told_apart(world: World, tmp_path: Path) -> None:
    """Records aside stay what they were, or their file would be refused when it comes again."""
    found = [record(0, None, b"a"), record(1, None, b"b", headers=()), record(2, None, None, headers=(("", b""),))]
    ingest(world, tmp_path / "a.jsonl", found)
    rows = list_visible_rows(world.installation.log.quarantine(TOPIC), world.head().state).sort_by("offset").to_pylist()
    assert [row["headers"] for row in rows] == [None, [], [{"key": "", "value": b""}]]
    assert ingest(world, tmp_path / "a.jsonl", found).records_skipped == 3


def test_quarantined_records_are_known_after_a_compaction_too(world: World, tmp_path: Path) -> None:
    """What is gone from the log and what never was in it are both accounted for."""
    records = [*build_versions(0, 9), record(9, None, b"lost"), *build_versions(10, 2)]
    ingest(world, tmp_path / "a.jsonl", records)
    world.compact()
    keyed = [each for each in records if each.key is not None]
    assert world.read() == compute_survivors(keyed)
    again = ingest(world, tmp_path / "a.jsonl", records)
    assert (again.records_skipped, again.snapshot_id) == (12, None)


def test_a_file_of_keyless_records_alone_is_one_commit_that_takes_their_offsets(world: World, tmp_path: Path) -> None:
    report = ingest(world, tmp_path / "a.jsonl", KEYLESS)
    assert (report.records_appended, report.records_quarantined) == (0, 2)
    assert (world.state().log_start_offset, world.state().log_end_offset, world.read()) == (2, 6, [])
    assert ingest(world, tmp_path / "a.jsonl", KEYLESS).snapshot_id is None
    with pytest.raises(BadInputError, match=r"\(partition 0, offset 3\)"):
        ingest(world, tmp_path / "late.jsonl", build_versions(3, 1))


def test_a_keyless_record_that_names_no_partition_is_quarantined_without_one(world: World, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    line = json_line(record(0, None, b"nowhere"), with_offset=False).replace('"partition": 0, ', "")
    path.write_text(line + "\n")
    ingest_files(world.installation, TOPIC, [str(path)], as_of_ms=world.clock())
    assert quarantined(world) == Counter({(None, None, b"nowhere"): 1})


@pytest.mark.parametrize(
    "records",
    [
        [*build_versions(0, 1), record(3, None, b"x"), record(2, None, b"y")],
        [record(1, None, b"x"), record(1, None, b"y")],
        [*build_versions(0, 3), record(2, None, b"x")],
        [record(2, None, b"x"), *build_versions(2, 1)],
        [*build_versions(4, 1), record(3, None, b"x")],
    ],
    ids=[
        "keyless after keyless",
        "keyless twice",
        "keyless at a key's offset",
        "key at a keyless offset",
        "keyless late",
    ],
)
def test_offsets_must_increase_over_keyless_records_too(world: World, tmp_path: Path, records: list[Record]) -> None:
    """Else an offset could be there twice, once in the log and once aside."""
    before = world.listing()
    with pytest.raises(BadInputError, match="offsets must increase within a partition") as refused:
        ingest(world, tmp_path / "a.jsonl", records)
    assert f"row {len(records)} (partition 0, offset {records[-1].offset})" in str(refused.value)
    assert world.listing() == before


def test_rows_of_a_call_that_died_before_its_commit_are_seen_by_nobody(world: World, tmp_path: Path) -> None:
    """The side table is written first; it counts when the state of the log names the call."""

    def die() -> None:
        raise KeyboardInterrupt

    with run_between_head_and_commit(die), pytest.raises(KeyboardInterrupt):
        ingest(world, tmp_path / "a.jsonl", MIXED)
    assert quarantined(world) == Counter()
    assert world.read() == []
    side_table = world.installation.log.catalog.load_table(("winnow_quarantine", TOPIC))
    assert side_table.scan().to_arrow().num_rows == 2
    ingest(world, tmp_path / "a.jsonl", MIXED)
    assert quarantined(world) == Counter({(0, 2, b"lost-1"): 1, (0, 5, b"lost-2"): 1})


@pytest.mark.kafka("113")
def test_an_append_to_the_quarantine_that_stood_still_is_made_again(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalog takes no commit that was prepared long ago; the rows are there once all the same."""
    clocks = iter([read_wall_clock_ms() + MAXIMUM_COMMIT_AGE_MS + 60_000])
    monkeypatch.setattr(sql_catalog, "read_wall_clock_ms", lambda: next(clocks, read_wall_clock_ms()))
    ingest(world, tmp_path / "a.jsonl", MIXED)
    assert next(clocks, None) is None
    assert quarantined(world) == Counter({(0, 2, b"lost-1"): 1, (0, 5, b"lost-2"): 1})


def test_an_append_that_others_always_overtake_ingests_nothing_and_says_so(world: World, tmp_path: Path) -> None:
    """Neither half of the call is seen, and it can be made again."""

    def lose(*_: object) -> None:
        raise CommitFailedException("another one came first")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quarantine, "_add_once", lose)
        with pytest.raises(CommitConflictError, match="came first") as raised:
            ingest(world, tmp_path / "a.jsonl", MIXED)
    assert raised.value.left == "Nothing was ingested."
    assert (world.read(), quarantined(world)) == ([], Counter())
    assert ingest(world, tmp_path / "a.jsonl", MIXED).records_quarantined == 2


def test_an_append_over_a_damaged_manifest_list_names_it_and_ingests_nothing(world: World, tmp_path: Path) -> None:
    ingest(world, tmp_path / "a.jsonl", [record(0, None, b"first")])
    table = world.installation.log.quarantine(TOPIC).table()
    snapshot = table.current_snapshot() if table is not None else None
    assert snapshot is not None
    listed = storage.parse_local_path(snapshot.manifest_list)
    sound = listed.read_bytes()
    listed.write_bytes(sound.replace(b'"field-id"', b'#field-id"', 1))
    with pytest.raises(DamagedMetadataError, match=listed.name):
        ingest(world, tmp_path / "b.jsonl", [record(1, None, b"second")])
    assert world.state().log_end_offset == 1
    listed.write_bytes(sound)
    ingest(world, tmp_path / "b.jsonl", [record(1, None, b"second")])
    assert quarantined(world) == Counter({(0, 0, b"first"): 1, (0, 1, b"second"): 1})


def test_a_topic_that_does_not_quarantine_refuses_with_coordinates(world: World, tmp_path: Path) -> None:
    world.create(1, topic="strict")
    path = write_jsonl(tmp_path / "a.jsonl", MIXED)
    with pytest.raises(BadInputError) as refused:
        ingest_files(world.installation, "strict", [path], as_of_ms=world.clock())
    assert str(refused.value).startswith(f"{path}, row 3 (partition 0, offset 2): a record without a key; 2 in this")
    assert "lost" not in str(refused.value)
    assert world.head("strict").snapshot_id is None


def test_a_topic_that_is_not_compacted_takes_keyless_records_as_they_are(world: World, tmp_path: Path) -> None:
    world.create(1, topic="plain", cleanup_policy="delete")
    path = write_jsonl(tmp_path / "a.jsonl", MIXED)
    ingest_files(world.installation, "plain", [path], as_of_ms=world.clock())
    assert world.read(topic="plain") == MIXED
