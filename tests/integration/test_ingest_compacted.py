"""Offsets that come again after a compaction removed their records: known, refused, or trusted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.world import TOPIC, World, build_versions, compute_survivors, open_world, write_jsonl
from winnow.errors import BadInputError
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.ingest.request import IngestReport
from winnow.values.model import Record

OLD = build_versions(0, 12)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A log of twelve records, of which the compaction left three."""
    with open_world(tmp_path) as opened:
        opened.create(1, min_cleanable_dirty_ratio="0")
        ingest(opened, tmp_path / "old.jsonl", OLD)
        opened.compact()
        assert opened.read() == compute_survivors(OLD) == OLD[-3:]
        yield opened


def ingest(world: World, path: Path, records: list[Record], *, trust: bool = False) -> IngestReport:
    return ingest_files(
        world.installation, TOPIC, [write_jsonl(path, records)], as_of_ms=world.clock(), trust_compacted=trust
    )


def test_the_same_file_changes_nothing_although_most_of_its_records_are_gone(world: World, tmp_path: Path) -> None:
    before = world.listing()
    report = ingest(world, tmp_path / "old.jsonl", OLD)
    assert (report.records_appended, report.records_skipped, report.snapshot_id) == (0, 12, None)
    assert world.listing() == before


def test_the_same_file_is_still_known_years_and_compactions_later(world: World, tmp_path: Path) -> None:
    for round_number in range(1, 4):
        world.clock.now_ms += 400 * 86_400_000
        world.ingest(build_versions(12 * round_number, 12))
        world.compact()
    read = world.read()
    assert ingest(world, tmp_path / "old.jsonl", OLD).records_skipped == 12
    assert world.read() == read


def test_another_file_with_absent_offsets_is_refused_with_its_first_absent_record(world: World, tmp_path: Path) -> None:
    before = world.listing()
    path = tmp_path / "other.jsonl"
    with pytest.raises(BadInputError) as refused:
        ingest(world, path, OLD[3:])
    assert refused.value.exit_code == 3
    assert str(refused.value).startswith(f"{path}, row 1 (partition 0, offset 3): ")
    assert "--trust-compacted" in str(refused.value)
    assert world.listing() == before


def test_another_file_with_absent_offsets_is_skipped_when_the_caller_trusts_it(world: World, tmp_path: Path) -> None:
    report = ingest(world, tmp_path / "other.jsonl", [*OLD[3:], *build_versions(12, 2)], trust=True)
    assert (report.records_appended, report.records_skipped) == (2, 9)
    assert world.read() == [*OLD[-3:], *build_versions(12, 2)]


def test_trust_does_not_reach_beyond_the_first_dirty_offset(world: World, tmp_path: Path) -> None:
    """A hole in what was never compacted cannot have been compacted away."""
    world.ingest(build_versions(20, 2))
    before = world.listing()
    with pytest.raises(BadInputError, match=r"row 1 \(partition 0, offset 14\)"):
        ingest(world, tmp_path / "hole.jsonl", build_versions(14, 2), trust=True)
    assert world.listing() == before


def test_trust_does_not_take_other_bytes_at_an_offset_that_survived(world: World, tmp_path: Path) -> None:
    wrong = [Record(11, OLD[11].key, b"another", 1_000)]
    with pytest.raises(BadInputError, match="holds another record at this offset"):
        ingest(world, tmp_path / "wrong.jsonl", wrong, trust=True)


def test_a_file_that_only_overlaps_the_survivors_is_remembered_by_one_snapshot_without_files(
    world: World, tmp_path: Path
) -> None:
    segments = world.segments()
    report = ingest(world, tmp_path / "tail.jsonl", OLD[-3:])
    assert (report.records_appended, report.records_skipped) == (0, 3)
    assert report.snapshot_id == world.head().snapshot_id
    assert world.segments() == segments
    before = world.listing()
    for _ in range(2):
        again = ingest(world, tmp_path / "tail.jsonl", OLD[-3:])
        assert (again.records_skipped, again.snapshot_id) == (3, None)
    assert world.listing() == before


def test_a_file_that_added_nothing_is_known_after_a_compaction_took_its_records_away(
    world: World, tmp_path: Path
) -> None:
    """Cut differently from the file that brought the records, so only its own digest can tell."""
    ingest(world, tmp_path / "tail.jsonl", OLD[-3:])
    world.ingest([replace(each, offset=each.offset + 12) for each in OLD])
    world.compact()
    assert {each.offset for each in world.read()} == {21, 22, 23}
    again = ingest(world, tmp_path / "tail.jsonl", OLD[-3:])
    assert (again.records_skipped, again.snapshot_id) == (3, None)


def test_a_file_that_was_trusted_once_needs_no_trust_again(world: World, tmp_path: Path) -> None:
    """Whoever vouched for a file vouched for its content."""
    assert ingest(world, tmp_path / "other.jsonl", OLD[3:], trust=True).records_skipped == 9
    again = ingest(world, tmp_path / "other.jsonl", OLD[3:])
    assert (again.records_skipped, again.snapshot_id) == (9, None)


def test_the_digest_of_a_file_that_added_nothing_is_no_append(world: World, tmp_path: Path) -> None:
    """What is dirty, and since when, is decided by what was appended."""
    appends = world.state().appends
    ingest(world, tmp_path / "tail.jsonl", OLD[-3:])
    assert world.state().appends == appends


def test_the_same_content_for_another_partition_is_not_known_there(world: World, tmp_path: Path) -> None:
    """Two partitions may hold equal keys and values; having seen them in one says nothing of the other."""
    world.create(2, topic="twin", min_cleanable_dirty_ratio="0")
    other = [replace(each, value=b"other") for each in build_versions(0, 12, partition=1)]
    for name, records in (("a", OLD[:9]), ("b", OLD[9:]), ("c", other)):
        ingest_files(
            world.installation, "twin", [write_jsonl(tmp_path / name / "f.jsonl", records)], as_of_ms=world.clock()
        )
    world.compact(topic="twin")
    moved = write_jsonl(tmp_path / "moved.jsonl", [replace(each, partition=1) for each in OLD[:9]])
    with pytest.raises(BadInputError, match=r"moved\.jsonl, row 1 \(partition 1, offset 0\)"):
        ingest_files(world.installation, "twin", [moved], as_of_ms=world.clock())


def test_a_file_known_only_for_another_partition_is_refused(world: World, tmp_path: Path) -> None:
    """Identity goes by the slice of the partition."""
    world.create(2, topic="wide", min_cleanable_dirty_ratio="0")
    zero = write_jsonl(tmp_path / "zero.jsonl", OLD)
    one = write_jsonl(tmp_path / "one.jsonl", build_versions(0, 12, partition=1))
    ingest_files(world.installation, "wide", [zero, one], as_of_ms=world.clock())
    world.compact(topic="wide")
    mixed = write_jsonl(tmp_path / "mixed.jsonl", [*OLD, *build_versions(0, 6, partition=1)])
    with pytest.raises(BadInputError, match=r"mixed\.jsonl, row 13 \(partition 1, offset 0\)"):
        ingest_files(world.installation, "wide", [mixed], as_of_ms=world.clock())
    both = write_jsonl(tmp_path / "both.jsonl", [*OLD, *build_versions(0, 12, partition=1)])
    assert ingest_files(world.installation, "wide", [both], as_of_ms=world.clock()).records_skipped == 24
