"""A process that was stopped (SIGSTOP) at the worst moment and goes on after others have worked on its topic.

Its lease has run out, its clock stands still, and it finishes what it began. Every record is still there.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pyarrow as pa
import pytest

from tests.faults.forked_processes import ForkedProcess, ForkServer
from tests.support.world import (
    TOPIC,
    World,
    build_versions,
    compute_survivors,
    define_world,
    record,
    write_jsonl,
)
from winnow.engine import staging
from winnow.errors import DamagedMetadataError, OutdatedHeadError, PlanVoidError, TopicBusyError
from winnow.files import storage
from winnow.files.quarantine_files import QUARANTINE_SCHEMA
from winnow.log.topic_configuration import set_config
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.compaction import validate
from winnow.pipeline.compaction.open_runs import settle_open_runs
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.latest.table import update_latest_table
from winnow.pipeline.topics.leases import hold_lease
from winnow.store import RunState
from winnow.values.model import Record

GRACE_MS = 3_600_000
AHEAD_MS = 61 * 60_000
RECORDS = build_versions(0, 12)
KEYLESS = [record(12, None, b"nobody's"), record(13, b"key-1", b"value-0-13")]
DIE = Path(__file__).with_name("crash_points.py")
PUBLISH_BEFORE = "publish before the commit"


world = define_world(
    1, RECORDS, in_the_present=True, min_cleanable_dirty_ratio="0", winnow_retired_grace_ms=str(GRACE_MS)
)


Stop = Callable[[World, str], AbstractContextManager[ForkedProcess]]


@pytest.fixture
def stopped(fork_server: ForkServer) -> Stop:
    """Lets another process work on the log until a moment, at which it stops."""

    @contextmanager
    def stop(world: World, moment: str) -> Iterator[ForkedProcess]:
        process = fork_server.start(world.folder, moment, str(world.folder), str(world.clock()), "stop")
        try:
            assert process.wait() is None, f"it ended before {moment}: {process.errors}"
            yield process
        finally:
            process.kill()

    return stop


def sweep_after_grace(world: World) -> None:
    world.clock.now_ms += 2 * GRACE_MS
    sweep_topics(world.installation, [TOPIC])


def assert_everything_is_there(world: World, records: Sequence[Record] = RECORDS, *, rounds: int = 2) -> None:
    """However often the topic is compacted and swept from here on, readers see what the oracle keeps."""
    expected = compute_survivors(records)
    for _ in range(rounds):
        world.compact()
        assert world.read() == expected
        sweep_after_grace(world)
        assert world.read() == expected


# ---------------------------------------------------------------------------------------------------------- publish


@pytest.mark.parametrize("passed_ms", [0, AHEAD_MS, 30 * 86_400_000], ids=["taken over", "61 minutes", "a month"])
def test_a_publisher_that_was_stopped_before_its_commit_publishes_nothing_once_its_run_is_void(
    world: World, stopped: Stop, passed_ms: int
) -> None:
    """Its lease ran out or another clock is ahead, its staged files are swept, and its commit does not land."""
    with stopped(world, PUBLISH_BEFORE) as publisher:
        world.clock.now_ms += world.installation.settings.lease_ms + passed_ms
        (run,) = world.installation.store.runs.list_open(TOPIC)
        assert run.status is RunState.PUBLISHING
        with hold_lease(world.installation, TOPIC):
            assert settle_open_runs(world.installation, TOPIC) == []
        sweep_after_grace(world)
        assert not storage.list_files(storage.join(world.head().location, "data", run.plan_id))
        exit_code, told = publisher.go_on()
    assert exit_code == PlanVoidError.exit_code
    assert "fence" in told
    assert world.read() == RECORDS
    ended = world.installation.store.runs.find(run.plan_id)
    assert ended is not None
    assert ended.status is RunState.VOID
    assert_everything_is_there(world)


@pytest.mark.parametrize(
    "moment", ["publish with the head at hand", "publish with the change at hand", "publish with its files checked"]
)
def test_a_publisher_whose_head_expired_while_it_was_stopped_is_told_of_the_fence_and_not_of_a_loss(
    world: World, stopped: Stop, moment: str
) -> None:
    """Nothing is lost: the files of an older head went with its snapshot, and no backup is needed."""
    with stopped(world, moment) as publisher:
        world.clock.now_ms += world.installation.settings.lease_ms
        with hold_lease(world.installation, TOPIC):
            settle_open_runs(world.installation, TOPIC)
        world.ingest(build_versions(12, 6))
        sweep_after_grace(world)
        sweep_after_grace(world)
        exit_code, told = publisher.go_on()
    assert exit_code == PlanVoidError.exit_code, told
    assert "fence" in told
    assert "backup" not in told
    assert_everything_is_there(world, build_versions(0, 18))


def test_a_validation_whose_head_expires_meanwhile_is_run_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = world.plan(world.clock(), "a1")
    assert plan is not None
    manifest = world.stage(plan, "a1")
    (run,) = world.installation.store.runs.list_open(TOPIC)

    def expire(*_: object, **__: object) -> object:
        world.ingest(build_versions(12, 6))
        sweep_after_grace(world)
        return None

    monkeypatch.setattr(validate, "build_limits", expire)
    with pytest.raises(OutdatedHeadError, match="Run it again"):
        validate.add_plan_limits(world.installation, run, staging.read_plan(plan.uri), manifest, [])


def test_an_ingest_whose_head_expired_while_it_was_stopped_starts_over_and_lands_once(
    world: World, stopped: Stop
) -> None:
    write_jsonl(world.folder / "late.jsonl", build_versions(12, 4))
    with stopped(world, "ingest with the change at hand") as ingest:
        world.compact()
        sweep_after_grace(world)
        sweep_after_grace(world)
        exit_code, told = ingest.go_on()
    assert exit_code == 0, told
    assert_everything_is_there(world, build_versions(0, 16))


def test_an_update_of_the_latest_state_that_was_stopped_puts_no_older_row_back(world: World, stopped: Stop) -> None:
    """Others have brought the table further and a sweep has taken its files: its commit does not land."""
    set_config(world.installation.log.open(TOPIC), {"winnow.latest.table": "true"}, [])
    update_latest_table(world.installation, TOPIC)
    world.ingest([record(12, b"key-0", b"older")])
    with stopped(world, "latest table before its commit") as publisher:
        world.clock.now_ms += world.installation.settings.lease_ms + AHEAD_MS
        world.ingest([record(13, b"key-0", b"newer"), record(14, b"key-1", None)])
        with hold_lease(world.installation, TOPIC):
            assert settle_open_runs(world.installation, TOPIC) == []
            assert update_latest_table(world.installation, TOPIC).changed
        sweep_after_grace(world)
        exit_code, told = publisher.go_on()
    assert (exit_code, told) == (0, "")
    table = world.installation.log.latest_table(TOPIC).table()
    assert table is not None
    rows = table.scan().to_arrow().to_pylist()
    assert sorted((row["offset"], row["value"]) for row in rows) == [(11, b"value-0-11"), (13, b"newer")]


def test_an_update_of_the_latest_state_whose_files_were_swept_while_it_was_stopped_starts_over(
    world: World, stopped: Stop
) -> None:
    """Another update and a sweep came: what it had written is gone, and that is no error."""
    set_config(world.installation.log.open(TOPIC), {"winnow.latest.table": "true"}, [])
    update_latest_table(world.installation, TOPIC)
    world.ingest([record(12, b"key-0", b"newer")])
    with stopped(world, "latest table with its files written") as updater:
        world.clock.now_ms += world.installation.settings.lease_ms + AHEAD_MS
        assert update_latest_table(world.installation, TOPIC).changed
        sweep_after_grace(world)
        exit_code, told = updater.go_on()
    assert (exit_code, told) == (0, "")
    table = world.installation.log.latest_table(TOPIC).table()
    assert table is not None
    assert (12, b"newer") in {(row["offset"], row["value"]) for row in table.scan().to_arrow().to_pylist()}


def test_a_publisher_that_was_stopped_after_its_commit_is_published(world: World, stopped: Stop) -> None:
    """Settling finds the receipt first, and raises no fence."""
    with stopped(world, "publish after the commit") as publisher:
        world.clock.now_ms += world.installation.settings.lease_ms
        with hold_lease(world.installation, TOPIC):
            (receipt,) = settle_open_runs(world.installation, TOPIC)
        assert world.head().fence == 0
        sweep_after_grace(world)
        exit_code, _ = publisher.go_on()
    assert exit_code == 0
    assert world.installation.store.projection.list_receipts(TOPIC) == [receipt]
    assert_everything_is_there(world)


def test_a_plan_that_another_process_tried_again_is_published_by_one_of_them(world: World, stopped: Stop) -> None:
    """The same decision has the same plan id; the stopped attempt is void, the new one counts."""
    as_of_ms = world.clock()
    with stopped(world, PUBLISH_BEFORE) as publisher:
        world.clock.now_ms += world.installation.settings.lease_ms
        with hold_lease(world.installation, TOPIC):
            settle_open_runs(world.installation, TOPIC)
            plan = world.plan(as_of_ms, "a2")
            assert plan is not None
            world.stage(plan, "a2")
            world.accept(plan, "a2")
            receipt = publish_attempt(world.installation, plan.plan_id, "a2")
        exit_code, _ = publisher.go_on()
    assert exit_code == 0, "the plan is published; by whom does not matter"
    assert world.installation.store.projection.list_receipts(TOPIC) == [receipt]
    assert receipt.attempt == "a2"
    assert_everything_is_there(world)


def test_keyless_records_that_a_void_attempt_moved_stay_in_the_log(world: World, stopped: Stop) -> None:
    """The quarantine has adopted the files of an attempt that is not published; a sweep takes them out again."""
    set_config(world.installation.log.open(TOPIC), {"cleanup.policy": "delete"}, ())
    world.ingest(KEYLESS)
    set_config(world.installation.log.open(TOPIC), {"cleanup.policy": "compact", "winnow.keyless": "quarantine"}, ())
    with stopped(world, "publish after adopting keyless records") as publisher:
        world.clock.now_ms += world.installation.settings.lease_ms
        with hold_lease(world.installation, TOPIC):
            settle_open_runs(world.installation, TOPIC)
        sweep_after_grace(world)
        assert not world.listing(below=f"{world.quarantine_folder()}/data")
        exit_code, _ = publisher.go_on()
    assert exit_code == PlanVoidError.exit_code
    assert world.read() == [*RECORDS, *KEYLESS]
    world.compact()
    assert world.read() == compute_survivors([*RECORDS, KEYLESS[1]])
    quarantine = world.installation.log.quarantine(TOPIC)
    (row,) = [row for batch in quarantine.read(world.head().state.quarantine_ingests) for row in batch.to_pylist()]
    assert (row["offset"], row["value"]) == (12, b"nobody's")


# ------------------------------------------------------------------------------------------------------------ sweep


@pytest.mark.parametrize("moment", ["sweep before listing", "sweep before condemning", "sweep before deletion"])
def test_a_sweep_that_was_stopped_deletes_nothing_of_a_later_attempt(world: World, stopped: Stop, moment: str) -> None:
    """A plan id comes again with a repeated backfill, and its folder with it."""
    as_of_ms = world.clock()
    plan = world.plan(as_of_ms, "a1")
    assert plan is not None
    world.stage(plan, "a1")
    settle_open_runs(world.installation, TOPIC)
    world.clock.now_ms += 2 * GRACE_MS
    with stopped(world, moment) as sweeper:
        world.clock.now_ms += world.installation.settings.lease_ms
        with hold_lease(world.installation, TOPIC):
            again = world.plan(as_of_ms, "a2")
            assert again is not None
            assert again.plan_id == plan.plan_id
            world.stage(again, "a2")
            world.accept(again, "a2")
            publish_attempt(world.installation, again.plan_id, "a2")
        expected = world.read()
        exit_code, told = sweeper.go_on()
    assert exit_code == 0, told
    assert world.read() == expected == compute_survivors(RECORDS)
    assert_everything_is_there(world)


def test_two_sweeps_at_once_delete_what_is_retired_and_nothing_else(world: World, stopped: Stop) -> None:
    world.compact()
    world.clock.now_ms += 2 * GRACE_MS
    with stopped(world, "sweep before deletion") as sweeper:
        world.clock.now_ms += world.installation.settings.lease_ms
        world.ingest(build_versions(12, 6))
        world.compact()
        sweep_after_grace(world)
        exit_code, told = sweeper.go_on()
    assert exit_code == 0, told
    assert_everything_is_there(world, build_versions(0, 18))


# ----------------------------------------------------------------------------------------------------------- ingest


@pytest.mark.parametrize("with_offset", [True, False])
def test_an_ingest_that_was_taken_for_dead_starts_over_and_lands_once(
    world: World, stopped: Stop, with_offset: bool
) -> None:
    """Its files are swept only behind a commit that voids it, and that it meets."""
    write_jsonl(world.folder / "late.jsonl", build_versions(12, 4), with_offset=with_offset)
    with stopped(world, "ingest before its commit") as ingest:
        sweep_after_grace(world)
        assert not [
            path for path in world.listing(below=f"{world.log_folder()}/data") if "00000000000000000012" in path
        ]
        exit_code, told = ingest.go_on()
    assert exit_code == 0, told
    assert world.read() == build_versions(0, 16)
    assert_everything_is_there(world, build_versions(0, 16))
    assert world.installation.store.ingests.list_open(TOPIC) == []


def test_an_ingest_that_was_taken_for_dead_quarantines_its_keyless_records_once(world: World, stopped: Stop) -> None:
    set_config(world.installation.log.open(TOPIC), {"winnow.keyless": "quarantine"}, ())
    write_jsonl(world.folder / "late.jsonl", KEYLESS)
    with stopped(world, "ingest after quarantining") as ingest:
        sweep_after_grace(world)
        assert not world.listing(below=f"{world.quarantine_folder()}/data")
        exit_code, told = ingest.go_on()
    assert exit_code == 0, told
    assert world.read() == [*RECORDS, KEYLESS[1]]
    quarantine = world.installation.log.quarantine(TOPIC)
    (row,) = [row for batch in quarantine.read(world.head().state.quarantine_ingests) for row in batch.to_pylist()]
    assert row["offset"] == 12


def test_an_ingest_at_work_is_not_voided_by_the_voiding_of_a_compaction(world: World, stopped: Stop) -> None:
    """The fence is about attempts; an hour of ingesting is not lost to it."""
    write_jsonl(world.folder / "late.jsonl", build_versions(12, 4))
    with stopped(world, "ingest before its commit") as ingest:
        plan = world.plan(world.clock(), "a1")
        assert plan is not None
        world.stage(plan, "a1")
        world.accept(plan, "a1")
        world.installation.store.runs.set_state(plan.plan_id, RunState.PUBLISHING, world.clock(), attempt="a1")
        settle_open_runs(world.installation, TOPIC)
        assert world.head().fence == 1
        written = {path for path in world.listing(below=f"{world.log_folder()}/data") if path.startswith("ingest-")}
        exit_code, told = ingest.go_on()
    assert exit_code == 0, told
    live = {segment.path.split("/data/")[1] for segment in world.segments()}
    assert live == written, "the very files that it had written before"


def test_a_name_that_a_paused_process_left_in_the_quarantine_goes_with_the_next_sweep(world: World) -> None:
    """It adopted a file that a sweep had deleted. Until then reading the quarantine says what is missing."""
    quarantine = world.installation.log.quarantine(TOPIC)
    ingest_id = "dead" * 8
    rows = pa.Table.from_pylist([{"ingest_id": ingest_id}], schema=QUARANTINE_SCHEMA)
    world.installation.store.ingests.open(ingest_id, TOPIC, least_number=0, holder="nobody", now_ms=world.clock())
    quarantine.append(rows, ingest_id)
    (file,) = quarantine.files()
    storage.delete(file.path)
    with pytest.raises(DamagedMetadataError, match="winnow sweep orders"):
        list(quarantine.read(["somebody's"]))
    sweep_after_grace(world)
    assert quarantine.files() == []
    assert list(quarantine.read(["somebody's"])) == []


# ----------------------------------------------------------------------------------------------------------- leases


def test_a_holder_in_another_process_namespace_is_not_taken_for_dead(world: World) -> None:
    """It has the host's name, and its process id is nobody's here. Where namespaces cannot be made, its name is."""
    unshare = shutil.which("unshare")
    prefix = (
        [unshare, "--pid", "--fork", "--kill-child", "sh", "-c", '"$@"; exit $?', "sh"] if unshare is not None else []
    )
    if not prefix or subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")[:12]
        world.installation.store.leases.acquire(
            TOPIC, f"{os.uname().nodename}:4194304:0@{boot}.1.1", world.clock(), 60_000
        )
        with pytest.raises(TopicBusyError), hold_lease(world.installation, TOPIC):
            pass
        return
    process = subprocess.Popen(
        [*prefix, sys.executable, str(DIE), PUBLISH_BEFORE, str(world.folder), str(world.clock()), "stop"],
        env={"PYTHONPATH": str(DIE.parents[2]), "PATH": os.environ["PATH"]},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        (worker,) = _wait_for_stopped_child(process)
        with pytest.raises(TopicBusyError), hold_lease(world.installation, TOPIC):
            pass
        world.clock.now_ms += world.installation.settings.lease_ms
        with hold_lease(world.installation, TOPIC):
            settle_open_runs(world.installation, TOPIC)
        sweep_after_grace(world)
        os.kill(worker, signal.SIGCONT)
        _, told = process.communicate(timeout=120)
    finally:
        process.kill()
    assert "fence" in told
    assert world.read() == RECORDS
    assert_everything_is_there(world, rounds=1)


def _wait_for_stopped_child(process: subprocess.Popen[str]) -> list[int]:
    """The process in the namespace, once it has stopped. Process 1 there is a shell: no signal of its own stops it."""
    parent = psutil.Process(process.pid)
    while process.poll() is None:
        with suppress(psutil.NoSuchProcess):  # one of them has ended meanwhile
            found = [each.pid for each in parent.children(recursive=True) if each.status() == psutil.STATUS_STOPPED]
            if found:
                return found
    raise AssertionError(f"it ended before its moment: {process.communicate()[1]}")
