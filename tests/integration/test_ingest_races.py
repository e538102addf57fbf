"""Ingest against ingest and against publish: nothing lands twice, nothing is lost. No lease is in play."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.world import (
    TOPIC,
    World,
    build_versions,
    compute_survivors,
    define_world,
    list_visible_rows,
    record,
    run_between_head_and_commit,
    write_jsonl,
)
from winnow.errors import BadInputError
from winnow.log.head import Change, Committed, Head
from winnow.log.topic_log import TopicLog
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.ingest.request import IngestReport
from winnow.pipeline.installation import open_installation

world = define_world(1, min_cleanable_dirty_ratio="0")


def ingest_elsewhere(world: World, path: str) -> IngestReport:
    """As another process would: with a catalog and a store of its own."""
    with open_installation(world.installation.settings, now_ms=world.clock) as installation:
        return ingest_files(installation, TOPIC, [path], as_of_ms=world.clock())


def at_once(actions: list[Callable[[], IngestReport]]) -> list[IngestReport]:
    """Run ``actions`` side by side so that all have looked at the same head before the first commits."""
    genuine = TopicLog._try
    barrier = threading.Barrier(len(actions))
    met = threading.local()

    def attempt(log: TopicLog, head: Head, change: Change) -> Committed | None:
        if not getattr(met, "once", False):
            met.once = True
            barrier.wait(60)
        return genuine(log, head, change)

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(len(actions)) as pool:
        patch.setattr(TopicLog, "_try", attempt)
        return [done.result() for done in [pool.submit(action) for action in actions]]


@pytest.mark.parametrize("with_offset", [True, False])
def test_one_file_ingested_by_two_at_once_lands_once(world: World, tmp_path: Path, with_offset: bool) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", build_versions(0, 20), with_offset=with_offset)
    reports = at_once([lambda: ingest_elsewhere(world, path)] * 2)
    assert sorted(report.records_appended for report in reports) == [0, 20]
    assert sorted(report.records_skipped for report in reports) == [0, 20]
    assert world.read() == build_versions(0, 20)
    assert len(world.snapshot_ids()) == 1


def test_two_files_without_offsets_ingested_at_once_both_land_one_after_the_other(world: World, tmp_path: Path) -> None:
    paths = [write_jsonl(tmp_path / f"{n}.jsonl", build_versions(100 * n, 20), with_offset=False) for n in range(2)]
    reports = at_once([lambda path=path: ingest_elsewhere(world, path) for path in paths])  # type: ignore[misc]
    assert [report.records_appended for report in reports] == [20, 20]
    read = world.read()
    assert [each.offset for each in read] == list(range(40))
    halves = [[each.value for each in read[:20]], [each.value for each in read[20:]]]
    assert sorted(halves, key=repr) == [[each.value for each in build_versions(100 * n, 20)] for n in range(2)]


def test_two_ingests_of_different_partitions_at_once_both_land(world: World, tmp_path: Path) -> None:
    world.create(2, topic="wide")

    def into(partition: int) -> IngestReport:
        path = write_jsonl(tmp_path / f"{partition}.jsonl", build_versions(0, 5, partition=partition))
        with open_installation(world.installation.settings, now_ms=world.clock) as installation:
            return ingest_files(installation, "wide", [path], as_of_ms=world.clock())

    at_once([lambda: into(0), lambda: into(1)])
    assert world.read(topic="wide") == [*build_versions(0, 5), *build_versions(0, 5, partition=1)]
    assert len(world.head("wide").state.ingests) == 2


def test_two_ingests_that_quarantine_at_once_both_keep_their_records(world: World, tmp_path: Path) -> None:
    """The side table takes two appends at once, also when both are its first."""
    world.create(2, topic="wide", winnow_keyless="quarantine")

    def into(partition: int) -> IngestReport:
        aside = record(5, None, f"lost-{partition}".encode(), partition=partition)
        path = write_jsonl(tmp_path / f"{partition}.jsonl", [*build_versions(0, 5, partition=partition), aside])
        with open_installation(world.installation.settings, now_ms=world.clock) as installation:
            return ingest_files(installation, "wide", [path], as_of_ms=world.clock())

    at_once([lambda: into(0), lambda: into(1)])
    rows = list_visible_rows(world.installation.log.quarantine("wide"), world.head("wide").state)
    assert sorted(rows.column("value").to_pylist()) == [b"lost-0", b"lost-1"]
    assert len(world.read(topic="wide")) == 10


def test_a_later_file_that_comes_first_makes_the_earlier_one_refused(world: World, tmp_path: Path) -> None:
    """The other committer went beyond the offsets of this call: it was checked against a head that is gone."""
    early = write_jsonl(tmp_path / "early.jsonl", build_versions(0, 5))
    late = write_jsonl(tmp_path / "late.jsonl", build_versions(5, 5))
    with (
        run_between_head_and_commit(lambda: ingest_elsewhere(world, late)),
        pytest.raises(BadInputError, match=r"row 1 \(partition 0, offset 0\)"),
    ):
        ingest_files(world.installation, TOPIC, [early], as_of_ms=world.clock())
    assert world.read() == build_versions(5, 5)


def test_an_ingest_that_lost_many_races_still_lands_at_the_end(world: World, tmp_path: Path) -> None:
    others = iter(
        [write_jsonl(tmp_path / f"{n}.jsonl", build_versions(10 * n, 10), with_offset=False) for n in range(4)]
    )
    mine = write_jsonl(tmp_path / "mine.jsonl", build_versions(900, 3), with_offset=False)
    with run_between_head_and_commit(lambda: ingest_elsewhere(world, next(others)), times=4):
        # The others' own commits count as looks too, so fewer races are run than are offered.
        ingest_files(world.installation, TOPIC, [mine], as_of_ms=world.clock())
    read = world.read()
    assert [each.offset for each in read] == list(range(len(read)))
    assert [each.value for each in read[-3:]] == [each.value for each in build_versions(900, 3)]
    leftovers = [path for path in world.listing() if path.endswith(".parquet")]
    assert len(leftovers) == len(world.segments())


def test_keyless_records_without_offsets_ingested_twice_are_quarantined_once(world: World, tmp_path: Path) -> None:
    """They move no offset, so only the digest of their file tells."""
    world.create(1, topic="aside", winnow_keyless="quarantine")
    path = write_jsonl(tmp_path / "a.jsonl", [record(0, None, b"lost")], with_offset=False)

    def ingest() -> IngestReport:
        with open_installation(world.installation.settings, now_ms=world.clock) as installation:
            return ingest_files(installation, "aside", [path], as_of_ms=world.clock())

    reports = at_once([ingest, ingest])
    assert sorted(report.records_quarantined for report in reports) == [0, 1]
    assert list_visible_rows(world.installation.log.quarantine("aside"), world.head("aside").state).num_rows == 1


def test_an_ingest_during_a_publish_loses_neither(world: World, tmp_path: Path) -> None:
    """The publish begins again from the head with the append, and keeps it."""
    world.ingest(build_versions(0, 12))
    path = write_jsonl(tmp_path / "late.jsonl", build_versions(12, 6))
    with run_between_head_and_commit(lambda: ingest_elsewhere(world, path)):
        receipt = world.compact()
    assert receipt is not None
    assert world.read() == [*compute_survivors(build_versions(0, 12)), *build_versions(12, 6)]
    state = world.state()
    assert (state.first_dirty_offset, state.log_end_offset) == (12, 18)
    assert [entry.first_offset for entry in state.appends] == [12]
    assert len(world.head().state.receipts) == 1
    world.compact()
    assert world.read() == compute_survivors(build_versions(0, 18))


def test_a_publish_during_an_ingest_loses_neither(world: World, tmp_path: Path) -> None:
    """The ingest begins again from the head with the compaction, and keeps its checkpoint and receipt."""
    world.ingest(build_versions(0, 12))
    path = write_jsonl(tmp_path / "late.jsonl", build_versions(6, 12))
    with run_between_head_and_commit(world.compact):
        report = ingest_files(world.installation, TOPIC, [path], as_of_ms=world.clock(), trust_compacted=True)
    assert (report.records_appended, report.records_skipped) == (6, 6)
    assert world.read() == [*compute_survivors(build_versions(0, 12)), *build_versions(12, 6)]
    assert (world.state().first_dirty_offset, len(world.head().state.receipts)) == (12, 1)


def test_a_file_without_offsets_ingested_during_its_own_ingest_lands_once(world: World, tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", build_versions(0, 4), with_offset=False)
    with run_between_head_and_commit(lambda: ingest_elsewhere(world, path)):
        report = ingest_files(world.installation, TOPIC, [path], as_of_ms=world.clock())
    assert (report.records_appended, report.records_skipped) == (0, 4)
    assert len(world.read()) == 4
