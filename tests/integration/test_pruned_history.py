"""A sweep removes history beyond its retention, and the quarantine's old snapshots; nothing that anybody needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest
import time_machine

from tests.support.cli_runner import winnow
from tests.support.world import TOPIC, FakeClock, World, build_versions, list_visible_rows, open_world, record
from winnow.clock import read_wall_clock_ms
from winnow.files import storage
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.admin.sweep_report import SweepReport
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.compaction.validate import validate_attempt
from winnow.store import RunState
from winnow.values.results import Receipt
from winnow.values.topic_state import RetiredFile

GRACE_MS = 3_600_000
RETENTION_MS = 10 * GRACE_MS

# GX imports deprecated modules of the standard library.
pytestmark = pytest.mark.filterwarnings("ignore:module .sre_[a-z]+. is deprecated:DeprecationWarning")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    lake = {"WINNOW_HISTORY__RETENTION_MS": str(RETENTION_MS)}
    with open_world(tmp_path, FakeClock(read_wall_clock_ms()), lake) as opened:
        opened.create(
            1, min_cleanable_dirty_ratio="0", winnow_retired_grace_ms=str(GRACE_MS), winnow_keyless="quarantine"
        )
        opened.ingest(build_versions(0, 12))
        yield opened


def after(world: World, ms: int) -> SweepReport:
    """Sweep when ``ms`` have passed, for the catalog too."""
    world.clock.now_ms += ms
    with time_machine.travel(world.clock() / 1_000):
        (report,) = sweep_topics(world.installation, [TOPIC])
    return report


def compacted(world: World) -> Receipt:
    receipt = world.compact()
    assert receipt is not None
    assert receipt.plan_id is not None
    return receipt


def test_the_run_of_an_old_publication_goes_and_its_receipt_answers(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`receipts` and `why` go by the table's own receipts; publishing it again is still no second publication."""
    receipt = compacted(world)
    for _ in range(3):
        after(world, 2 * GRACE_MS)
    assert world.installation.store.runs.list_runs(TOPIC) != []
    report = after(world, RETENTION_MS)
    assert report.history_rows_removed > 0
    assert "of history older than history.retention_ms removed." in report.message
    assert world.installation.store.runs.list_runs(TOPIC) == []
    assert world.installation.store.verdicts.list_verdicts(TOPIC) == []
    assert world.installation.store.runs.list_attempts(receipt.plan_id or "") == frozenset()
    assert world.installation.store.assessments.list_latest([TOPIC]) != []
    assert world.installation.store.retired_files.list_retired(TOPIC, pending_only=False) == []
    assert world.installation.store.projection.list_receipts(TOPIC) == [receipt]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINNOW_HOME", str(world.installation.settings.home))
    assert [found["plan_id"] for found in winnow("receipts", TOPIC, "--json").document] == [receipt.plan_id]
    assert winnow("why", TOPIC, "--partition", "0", "--offset", "0").stdout != ""
    world.ingest(build_versions(12, 6))
    assert compacted(world).plan_id != receipt.plan_id


def test_a_run_whose_folder_was_not_found_empty_twice_stays_beyond_the_retention(world: World) -> None:
    """A zombie may have written into it; the row is what leads the next sweeps to the files."""
    plan = world.plan(world.clock())
    assert plan is not None
    manifest = world.stage(plan)
    left = [file.path for part in manifest.partitions for rewrite in part.rewrites for file in rewrite.outputs]
    after(world, 2 * GRACE_MS)  # settles the run
    after(world, 2 * RETENTION_MS)
    assert left
    assert not any(storage.exists(path) for path in left)
    assert [run.status for run in world.installation.store.runs.list_runs(TOPIC)] == [RunState.VOID]
    storage.write_bytes(left[0], b"written by a process that was thought dead")
    after(world, GRACE_MS)
    assert not storage.exists(left[0])
    assert len(world.installation.store.runs.list_runs(TOPIC)) == 1
    for _ in range(2):
        after(world, GRACE_MS)
    assert world.installation.store.runs.list_runs(TOPIC) == []


def test_data_docs_of_old_verdicts_go_with_them_and_the_index_names_the_others(world: World) -> None:
    """Great Expectations judges both; the pages are its own."""
    pages, removed = [], 0
    for first, sweeps in ((12, 3), (18, 1)):
        world.ingest(build_versions(first, 6))
        plan = world.plan(world.clock())
        assert plan is not None
        world.stage(plan)
        pages.append(validate_attempt(world.installation, plan.plan_id, "a1").data_docs or "")
        publish_attempt(world.installation, plan.plan_id, "a1")
        for _ in range(sweeps):
            removed += after(world, 4 * GRACE_MS).pages_removed
    assert removed == 1
    old, new = (Path(unquote(urlparse(page).path)) for page in pages)
    assert (old.exists(), new.exists()) == (False, True)
    index = unquote((world.installation.settings.data_docs / "site" / "index.html").read_text())
    assert (old.parts[-3] in index, new.parts[-3] in index) == (False, True)
    assert world.installation.store.verdicts.list_verdicts(TOPIC)[0].data_docs == pages[1]


def test_old_snapshots_of_the_quarantine_go_with_their_lists_and_every_row_stays(world: World) -> None:
    for first in (12, 16, 20):
        keyless = replace(record(first + 3, None, b"lost-%d" % first), timestamp_ms=None)
        world.ingest([*build_versions(first, 3), keyless])
    quarantine = world.installation.log.quarantine(TOPIC)
    table = quarantine.table()
    assert table is not None
    lists = [snapshot.manifest_list for snapshot in table.metadata.snapshots]
    assert len(lists) == 3
    assert after(world, GRACE_MS // 2).snapshots_expired == 0
    assert all(storage.exists(path) for path in lists)
    after(world, 2 * GRACE_MS)
    table = quarantine.table()
    assert table is not None
    assert [snapshot.manifest_list for snapshot in table.metadata.snapshots] == lists[2:]
    assert [storage.exists(path) for path in lists] == [False, False, True]
    rows = list_visible_rows(quarantine, world.head().state).to_pylist()
    assert sorted(row["value"] for row in rows) == [b"lost-12", b"lost-16", b"lost-20"]
    world.ingest([record(24, None, b"lost-24")])
    assert len(list_visible_rows(quarantine, world.head().state)) == 4


def test_a_sweep_that_dies_after_expiring_the_quarantine_leaves_its_lists_to_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were written down before."""
    for first in (12, 14):
        world.ingest([*build_versions(first, 1), record(first + 1, None, b"lost")])
    table = world.installation.log.quarantine(TOPIC).table()
    assert table is not None
    old = table.metadata.snapshots[0].manifest_list

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("winnow.pipeline.admin.sweep._list_leftovers", die)
        with pytest.raises(KeyboardInterrupt):
            after(world, 2 * GRACE_MS)
    assert storage.exists(old)
    after(world, GRACE_MS)
    assert not storage.exists(old)


def test_a_list_of_the_quarantine_that_a_snapshot_still_names_stays_though_it_was_written_down(
    world: World,
) -> None:
    """A sweep that wrote it down died before it expired the snapshot."""
    world.ingest([record(12, None, b"lost")])
    table = world.installation.log.quarantine(TOPIC).table()
    assert table is not None
    named = table.metadata.snapshots[-1].manifest_list
    world.installation.store.retired_files.record(
        TOPIC, [RetiredFile(named, 1, world.clock(), "expiry")], "manifest_list"
    )
    after(world, 2 * GRACE_MS)
    assert storage.exists(named)


def test_folders_of_which_every_file_was_swept_go_too(world: World) -> None:
    compacted(world)
    world.ingest(build_versions(12, 6))
    compacted(world)
    after(world, 2 * GRACE_MS)
    after(world, 2 * GRACE_MS)
    data = storage.parse_local_path(storage.join(world.head().location, "data"))
    live = {storage.parse_local_path(segment.path).parent for segment in world.segments()}
    assert {folder for folder in data.rglob("*") if folder.is_dir() and not any(folder.iterdir())} == set()
    assert all(folder.is_dir() for folder in live)
