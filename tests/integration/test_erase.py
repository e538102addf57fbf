"""Erasing a key: no byte of it stays in anything that Winnow wrote, every other record stays bit for bit."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.support.cli_runner import b64, winnow
from tests.support.world import (
    TOPIC,
    World,
    build_versions,
    define_world,
    open_world,
    record,
    run_between_head_and_commit,
)
from winnow.config.settings import load_settings
from winnow.engine import key_erasure
from winnow.errors import (
    BadInputError,
    ConfigurationError,
    DamagedMetadataError,
    DamagedSegmentError,
    EraseRefusedError,
    PlanVoidError,
    RunAgainError,
    TopicBusyError,
    UndoRefusedError,
    UsageError,
    ValidationFailedError,
)
from winnow.log.head import Change
from winnow.log.pinned_snapshots import pin_snapshot, unpin_snapshots
from winnow.pipeline.admin import erased_versions, erasure_progress
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.backup.create import create_backup
from winnow.pipeline.backup.restore import restore_backup
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.erase import complete, rewriting
from winnow.pipeline.erase.certificate import Certificate, make_certificate, make_certificate_document
from winnow.pipeline.erase.complete import EraseReport, describe_consequences, erase_keys
from winnow.pipeline.erase.erase import EraseRequest, commit_erasure
from winnow.pipeline.erase.key_files import read_key_file
from winnow.pipeline.erase.lift import lift_erasure
from winnow.pipeline.erase.outside import list_outside_places
from winnow.pipeline.erase.whereabouts import find_key
from winnow.pipeline.explain.why import explain_key, explain_offset
from winnow.pipeline.ingest.undo import undo_ingest
from winnow.pipeline.installation import open_installation
from winnow.pipeline.latest.table import update_latest_table
from winnow.pipeline.topics.definition import alter_topic
from winnow.pipeline.topics.deletion import delete_topic
from winnow.pipeline.topics.leases import hold_lease
from winnow.pipeline.topics.recovery import recover_topic
from winnow.pipeline.undo.listing import list_undoable
from winnow.pipeline.undo.undo import undo_change
from winnow.report.certificate_page import render_certificate
from winnow.store.audit import AuditAction
from winnow.store.rows import Window
from winnow.values.model import Record

GRACE_MS = 3_600_000
KEY = b"key-1"
FIRST = build_versions(0, 9)
SECOND = build_versions(0, 6, partition=1)

world = define_world(
    2,
    [*FIRST, *SECOND],
    in_the_present=True,
    min_cleanable_dirty_ratio="0",
    segment_ms="1",
    winnow_retired_grace_ms=str(GRACE_MS),
)
"""Two partitions with records of three keys each."""


def erase(world: World, *keys: bytes, **options: Any) -> EraseReport:
    return erase_keys(world.installation, EraseRequest(TOPIC, keys or (KEY,), "request 4711", **options))


def certify(world: World, report: EraseReport, *, verify: bool = False) -> Certificate:
    return make_certificate(world.installation, report.erasure_id, verify=verify)


def without(records: list[Record], *keys: bytes) -> list[Record]:
    return [each for each in records if each.key not in (keys or (KEY,))]


def list_holding(world: World, *texts: bytes) -> list[str]:
    """Every file of the installation in which one of these byte strings can be found, inputs aside."""
    return sorted(
        str(path)
        for path in (world.folder / "home").rglob("*")
        if path.is_file() and any(text in data for data in read_contents(path) for text in texts)
    )


def read_contents(path: Path) -> Iterator[bytes]:
    """The bytes of a file, and those of its keys and values if it is Parquet, which is compressed."""
    yield path.read_bytes()
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        for name in {"key", "value"} & set(table.column_names):
            yield b"\n".join(each for each in table.column(name).to_pylist() if each is not None)


def compact(world: World) -> str:
    world.clock.now_ms += 1_000
    receipt = world.compact()
    assert receipt is not None
    assert receipt.plan_id is not None
    return receipt.plan_id


def test_readers_see_every_other_record_as_before(world: World) -> None:
    before = world.read()
    states = world.head().state.partitions
    report = erase(world)
    assert world.read() == without(before)
    assert (report.keys_found, report.records, report.files) == (1, 5, 2)
    assert world.head().state.partitions == states


def test_no_byte_of_the_key_and_its_values_is_in_any_file(world: World) -> None:
    world.ingest([record(9, b"key-9", b"value-0-9")])
    compact(world)
    world.ingest([record(10, KEY, b"value-0-10")])
    values = [each.value for each in [*FIRST, *SECOND] if each.key == KEY and each.value is not None]
    assert list_holding(world, KEY, *values)
    report = erase(world)
    assert report.deleted
    assert list_holding(world, KEY, *values, b"value-0-10") == []


def test_erasing_is_no_compaction(world: World) -> None:
    """Clean, dirty and active records, also inside the minimum lag: only the key goes."""
    alter_topic(world.installation, TOPIC, {"min.compaction.lag.ms": "99999999999", "segment.ms": "99999999999"}, [])
    before, dirty = world.read(), world.state(0).first_dirty_offset
    erase(world)
    assert world.read() == without(before)
    assert world.state(0).first_dirty_offset == dirty


def test_segments_without_the_key_are_not_touched(world: World) -> None:
    world.ingest([record(9, b"other", b"x"), record(6, b"other", b"x", partition=1)])
    before = {each.path for number in (0, 1) for each in world.segments(number)}
    erase(world)
    after = {each.path for number in (0, 1) for each in world.segments(number)}
    assert len(before & after) == 2


def test_empty_key_and_keyless_records_are_told_apart(world: World) -> None:
    alter_topic(world.installation, TOPIC, {"cleanup.policy": "delete"}, [])
    world.ingest([record(9, b"", b"empty"), record(10, None, b"none")])
    before = world.read()
    erase(world, b"")
    assert world.read() == without(before, b"")


def test_files_that_left_the_log_go_if_they_hold_the_key_and_stay_if_not(world: World) -> None:
    world.ingest([record(6, b"other", b"x", partition=1), record(7, b"other", b"y", partition=1)])
    compact(world)
    retired = {file.path for file in world.head().state.retired}
    erase(world)
    kept = {file.path for file in world.head().state.retired}
    assert kept
    assert kept < retired
    assert all(Path(path.removeprefix("file://")).exists() for path in kept)
    assert not any(Path(path.removeprefix("file://")).exists() for path in retired - kept)


def test_snapshots_that_named_such_a_file_are_gone_at_once(world: World) -> None:
    before = world.snapshot_ids()
    erase(world)
    assert set(before) & set(world.snapshot_ids()) == set()


def test_table_of_the_latest_state_holds_the_key_in_no_snapshot(world: World) -> None:
    alter_topic(world.installation, TOPIC, {"winnow.latest.table": "true"}, [])
    update_latest_table(world.installation, TOPIC)
    assert len([path for path in list_holding(world, KEY) if "winnow_latest" in path]) == 2
    report = erase(world)
    assert report.deleted
    assert list_holding(world, KEY) == []
    latest = world.installation.log.latest_table(TOPIC).table()
    assert latest is not None
    assert sorted(row["key"] for row in latest.scan().to_arrow().to_pylist()) == [b"key-0"] * 2 + [b"key-2"] * 2


def test_latest_table_that_nobody_updates_refuses_the_erasure(world: World) -> None:
    alter_topic(world.installation, TOPIC, {"winnow.latest.table": "true"}, [])
    update_latest_table(world.installation, TOPIC)
    alter_topic(world.installation, TOPIC, {}, ["winnow.latest.table"])
    before = world.listing()
    with pytest.raises(EraseRefusedError, match="winnow latest-table drop"):
        erase(world)
    assert world.listing() == before


def test_plan_from_before_is_void_and_what_it_staged_goes_with_the_key(world: World) -> None:
    with hold_lease(world.installation, TOPIC):
        plan = world.plan(world.clock())
        assert plan is not None
        world.stage(plan)
        world.accept(plan)
    assert any("/a1/" in path for path in list_holding(world, KEY))
    report = erase(world)
    with pytest.raises(PlanVoidError):
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert list_holding(world, KEY) == []
    assert report.deleted


def test_plan_from_before_is_void_even_where_no_key_was(world: World) -> None:
    """Whatever was begun before is behind the fence, so it can be said when the last of it has ended."""
    world.ingest([record(9, b"solo", b"x")])
    compact(world)
    world.ingest([record(6, b"key-0", b"x", partition=1)])
    with hold_lease(world.installation, TOPIC):
        plan = world.plan(world.clock())
        assert plan is not None
        world.stage(plan)
        world.accept(plan)
    before = world.head().fence
    commit_erasure(world.installation, EraseRequest(TOPIC, [b"solo"], "request 4711"))
    (erasure,) = world.head().state.erasures
    assert (world.head().fence, erasure.fence) == (before + 1, before + 1)
    with pytest.raises(PlanVoidError):
        publish_attempt(world.installation, plan.plan_id, "a1")


def test_certificate_stays_open_until_the_files_of_earlier_runs_were_looked_for_twice(world: World) -> None:
    """A Spark task that goes on after the commit writes a file with the key: it is found, and only then it ends."""
    with hold_lease(world.installation, TOPIC):
        plan = world.plan(world.clock())
        assert plan is not None
        world.stage(plan)
        kept = {path: (world.folder / "home" / "warehouse" / path).read_bytes() for path in list_staged(world)}
    assert kept
    report = erase(world)
    assert not report.closed
    for path, data in kept.items():
        late = world.folder / "home" / "warehouse" / path
        late.parent.mkdir(parents=True, exist_ok=True)
        late.write_bytes(data)
    for _ in range(3):
        assert certify(world, report).open_because is not None
        world.clock.now_ms += 2 * GRACE_MS
        sweep_topics(world.installation, [TOPIC])
    assert list_holding(world, KEY) == []
    assert certify(world, report).open_because is None


def test_certificate_stays_open_while_an_ingest_from_before_is_at_work(world: World) -> None:
    """It was opened just before the commit, which did not know of it yet, and may write what it had read by then."""
    ingests = world.installation.store.ingests

    def open_call() -> None:
        state = world.head().state
        ingests.open("ab" * 16, TOPIC, least_number=state.first_valid_ingest, holder="elsewhere", now_ms=world.clock())

    with run_between_head_and_commit(open_call):
        report = erase(world)
    assert not report.closed
    ingests.close(["ab" * 16])
    sweep_topics(world.installation, [TOPIC])
    assert certify(world, report).open_because is None


def list_staged(world: World) -> list[str]:
    return [path for path in world.listing() if "/a1/" in path and path.endswith(".parquet")]


def test_run_that_is_at_work_lets_readers_forget_at_once_and_disk_when_it_has_ended(world: World) -> None:
    with (
        open_installation(world.installation.settings, now_ms=world.clock, holder="elsewhere:17:night") as other,
        hold_lease(other, TOPIC),
        pytest.raises(RunAgainError, match=r"not yet from disk: 2 file\(s\)"),
    ):
        erase(world)
    assert without(world.read()) == world.read()
    assert list_holding(world, KEY)
    report = erase(world)
    assert (report.was_erased, report.deleted) == (True, True)
    assert list_holding(world, KEY) == []


def test_any_sweep_goes_on_where_the_deletion_was_stopped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object) -> None:
        raise TopicBusyError("It was stopped here.")

    with monkeypatch.context() as patch:
        patch.setattr(complete, "sweep_topics", die)
        with pytest.raises(RunAgainError):
            erase(world)
    assert list_holding(world, KEY)
    sweep_topics(world.installation, [TOPIC])
    assert list_holding(world, KEY) == []
    assert world.head().state.unfinished_erasures == ()


def test_erasure_that_comes_amid_a_sweep_is_left_to_the_next_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its key is in no file, so none waits for deletion; but the sweep looked for versions before it came."""
    genuine = erased_versions.remove_erased_versions

    def look_and_erase(*arguments: Any) -> str:
        found = genuine(*arguments)
        commit_erasure(world.installation, EraseRequest(TOPIC, [b"nobody"], "request 4711"))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(erasure_progress, "remove_erased_versions", look_and_erase)
        sweep_topics(world.installation, [TOPIC])
    assert len(world.head().state.unfinished_erasures) == 1
    sweep_topics(world.installation, [TOPIC])
    assert world.head().state.unfinished_erasures == ()


def test_record_that_is_appended_meanwhile_is_erased_too(world: World) -> None:
    late = record(9, KEY, b"meanwhile")
    with run_between_head_and_commit(lambda: world.ingest([late])):
        report = erase(world)
    assert report.records == 6
    assert len([path for path in world.listing(below=world.log_folder()) if "/erasures/" in path]) == 1
    assert world.read() == without([*FIRST, *SECOND])
    assert list_holding(world, b"meanwhile") == []


def test_erasure_that_a_sweep_took_for_dead_commits_nothing(world: World) -> None:
    """It was paused, and its files are gone; run again, it ends."""
    before = world.read()

    def sweep_much_later() -> None:
        world.clock.now_ms += world.installation.settings.lease_ms + 10 * GRACE_MS
        sweep_topics(world.installation, [TOPIC])

    with run_between_head_and_commit(sweep_much_later), pytest.raises(RunAgainError, match="took it for dead"):
        erase(world)
    assert world.read() == before
    assert erase(world).records == 5
    assert world.read() == without(before)


def test_two_erasures_at_once_end_one_after_the_other(world: World) -> None:
    with run_between_head_and_commit(lambda: erase(world, b"key-2")), pytest.raises(RunAgainError):
        erase(world)
    erase(world)
    assert {each.key for each in world.read()} == {b"key-0"}
    assert list_holding(world, KEY, b"key-2") == []


def test_topic_that_is_created_again_meanwhile_keeps_its_records(world: World) -> None:
    def create_again() -> None:
        delete_topic(world.installation, TOPIC, now=True)
        world.create(2)
        world.ingest(FIRST)

    with run_between_head_and_commit(create_again), pytest.raises((RunAgainError, EraseRefusedError)):
        erase(world)
    assert world.read() == FIRST


def test_compaction_meanwhile_makes_it_begin_again(world: World) -> None:
    with run_between_head_and_commit(lambda: compact(world)):
        erase(world)
    assert [each.key for each in world.read()] == [b"key-0", b"key-2"] * 2
    assert list_holding(world, KEY) == []


def test_what_it_wrote_of_a_segment_that_was_replaced_meanwhile_goes(world: World) -> None:
    """Nothing names such a file, and it may hold what the other process erased."""
    with run_between_head_and_commit(lambda: compact(world)):
        report = erase(world)
    assert list_unused(world, report) == []


def test_sweep_removes_what_an_erasure_that_died_after_its_commit_had_written_in_vain(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(rewriting.Rewriting, "remove_unused", lambda *_: False)
        with run_between_head_and_commit(lambda: compact(world)):
            report = erase(world)
    assert list_unused(world, report)
    before = world.read()
    for _ in range(2):
        world.clock.now_ms += 2 * GRACE_MS
        sweep_topics(world.installation, [TOPIC])
    assert list_unused(world, report) == []
    assert world.installation.store.ingests.list_open(TOPIC) == []
    assert world.read() == before


def list_unused(world: World, report: EraseReport) -> list[str]:
    """The files that an erasure wrote and the log does not name."""
    live = [segment.path for partition in range(2) for segment in world.segments(partition)]
    written = [path for path in world.listing(below=world.log_folder()) if f"ingest-{report.erasure_id}" in path]
    return [path for path in written if not any(each.endswith(path) for each in live)]


def test_tag_that_keeps_such_a_snapshot_refuses_until_it_is_broken(world: World) -> None:
    log = world.installation.log.open(TOPIC)
    pin_snapshot(log, "restore-1", world.head())
    before = world.read()
    with pytest.raises(EraseRefusedError, match="restore-1"):
        erase(world)
    assert world.read() == before
    assert erase(world, break_pins=True).deleted
    assert list_holding(world, KEY) == []


def test_erasure_is_not_through_while_a_snapshot_names_its_files(world: World) -> None:
    """A restore may pin a snapshot between the commit and the deletion."""
    before = world.head()
    commit_erasure(world.installation, EraseRequest(TOPIC, [KEY], "request 4711"))
    log = world.installation.log.open(TOPIC)
    pin_snapshot(log, "restore-1", before)
    sweep_topics(world.installation, [TOPIC])
    assert len(world.head().state.unfinished_erasures) == 1
    assert list_holding(world, KEY)
    unpin_snapshots(log, lambda tag: tag == "restore-1")
    sweep_topics(world.installation, [TOPIC])
    assert world.head().state.unfinished_erasures == ()
    assert list_holding(world, KEY) == []


def test_what_an_erasure_would_end_is_said_before_it_begins(world: World) -> None:
    assert describe_consequences(world.installation, TOPIC) == ""
    pin_snapshot(world.installation.log.open(TOPIC), "restore-1", world.head())
    with hold_lease(world.installation, TOPIC):
        assert world.plan(world.clock()) is not None
    create_backup(world.installation, str(world.folder / "backup"))
    said = describe_consequences(world.installation, TOPIC)
    assert "1 run(s) at work become void; 1 tag(s)" in said
    assert "1 backup(s) may hold such records" in said


def test_deleted_topic_refuses(world: World) -> None:
    delete_topic(world.installation, TOPIC)
    with pytest.raises(EraseRefusedError, match=f"winnow topics delete {TOPIC} --now"):
        erase(world)


def test_same_keys_again_change_nothing(world: World) -> None:
    first = erase(world)
    snapshots = world.snapshot_ids()
    again = erase(world)
    assert (again.erasure_id, again.was_erased, again.snapshot_id) == (first.erasure_id, True, None)
    assert world.snapshot_ids() == snapshots


def test_keys_are_erased_anew_once_something_was_appended(world: World) -> None:
    """Old copies are told by where the log ended: later ones count as new otherwise."""
    first = erase(world)
    world.ingest([record(9, b"other", b"x")])
    again = erase(world)
    assert (again.was_erased, again.records) == (False, 0)
    assert certify(world, again).document.ends == {0: 10, 1: 6}
    assert again.erasure_id != first.erasure_id


def test_key_that_came_again_since_is_erased_again(world: World) -> None:
    first = erase(world)
    world.clock.now_ms += 1_000
    world.ingest([record(9, KEY, b"again", world.clock())])
    again = erase(world)
    assert (again.was_erased, again.records) == (False, 1)
    assert again.erasure_id != first.erasure_id
    assert world.read() == without([*FIRST, *SECOND])


def test_key_that_is_nowhere_is_certified_so(world: World) -> None:
    report = erase(world, b"nobody")
    assert (report.keys_found, report.records, report.files) == (0, 0, 0)
    found = certify(world, report, verify=True)
    assert (found.document.keys, found.document.files, found.open_because) == (1, (), None)
    assert world.read() == [*FIRST, *SECOND]


def test_run_whose_files_held_the_key_cannot_be_taken_back(world: World) -> None:
    plan_id = compact(world)
    report = erase(world)
    (change,) = list_undoable(world.installation, TOPIC).changes
    assert not change.undoable
    assert change.reason is not None
    assert change.reason.startswith(f"ended by erasure {report.erasure_id}")
    with pytest.raises(UndoRefusedError, match="ended by erasure"):
        undo_change(world.installation, TOPIC, plan_id)
    assert list_holding(world, KEY) == []


def test_undo_meanwhile_brings_nothing_back(world: World) -> None:
    plan_id = compact(world)
    with run_between_head_and_commit(lambda: undo_change(world.installation, TOPIC, plan_id)):
        erase(world)
    assert world.read() == without([*FIRST, *SECOND])
    assert list_holding(world, KEY) == []


def test_tombstone_takes_the_place_of_the_newest_record_of_each_key(world: World) -> None:
    compact(world)
    world.ingest([record(9, b"key-0", b"newer")])
    report = erase(world, KEY, b"key-0", with_tombstone=True)
    assert report.tombstones == 4
    seen = {(each.partition, each.offset): each for each in world.read()}
    assert seen[0, 7] == record(7, KEY, None, headers=())
    assert seen[0, 9] == record(9, b"key-0", None, headers=())
    assert (0, 6) not in seen
    assert seen[1, 4] == record(4, KEY, None, headers=(), partition=1)
    assert list_holding(world, b"value-0-7", b"newer") == []


def test_tombstone_waits_for_its_delete_horizon_from_the_next_compaction_on(world: World) -> None:
    compact(world)
    world.clock.now_ms += 200_000_000
    erase(world, with_tombstone=True)
    assert world.state(0).first_dirty_offset == 7
    compact(world)
    assert (0, 7) in {(each.partition, each.offset) for each in world.read()}
    world.clock.now_ms += 200_000_000
    compact(world)
    assert (0, 7) not in {(each.partition, each.offset) for each in world.read()}


def test_certificate_with_a_tombstone_is_open_until_it_is_erased_as_well(world: World) -> None:
    report = erase(world, with_tombstone=True)
    assert "key bytes remain" in (certify(world, report).open_because or "")
    assert certify(world, report, verify=True).verified == replace_counts(certify(world, report, verify=True), 2)
    again = erase(world)
    assert (again.was_erased, again.tombstones) == (False, 0)
    assert list_holding(world, KEY) == []
    assert (certify(world, report).open_because, certify(world, again).open_because) == (None, None)


def replace_counts(found: Certificate, tombstones: int) -> object:
    assert found.verified is not None
    return replace(found.verified, old_records=0, later_records=0, tombstones=tombstones)


def test_wrong_result_is_not_committed_and_nothing_of_it_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = key_erasure.rewrite_without_keys

    def lose_one_more(segment: object, keys: object, *rest: object) -> object:
        import pyarrow as pa

        return genuine(segment, pa.concat_arrays([keys, pa.array([b"key-2"], pa.binary())]), *rest)  # type: ignore[arg-type]

    before, files = world.read(), set(world.listing())
    monkeypatch.setattr(rewriting, "rewrite_without_keys", lose_one_more)
    with pytest.raises(ValidationFailedError, match="others_unchanged"):
        erase(world)
    assert world.read() == before
    assert set(world.listing()) == files


def test_key_that_the_rewrite_left_is_seen(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = key_erasure.rewrite_without_keys

    def leave_it(segment: object, keys: object, *rest: object) -> object:
        import pyarrow as pa

        return genuine(segment, pa.array([b"nobody"], pa.binary()), *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(rewriting, "rewrite_without_keys", leave_it)
    with pytest.raises(ValidationFailedError, match="keys_gone"):
        erase(world)


def test_damaged_segment_refuses_and_changes_nothing(world: World) -> None:
    path = Path(world.segments(0)[0].path.removeprefix("file://"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    snapshots = world.snapshot_ids()
    with pytest.raises(DamagedSegmentError, match=f"{TOPIC}-0"):
        erase(world)
    assert world.snapshot_ids() == snapshots


def test_retired_file_that_cannot_be_read_goes_because_it_may_hold_the_key(world: World) -> None:
    world.ingest([record(9, b"other", b"x")])
    compact(world)
    other = next(Path(file.path.removeprefix("file://")) for file in world.head().state.retired)
    other.write_bytes(b"torn")
    erase(world)
    assert not other.exists()


def test_erasures_name_one_another_and_a_changed_one_is_found(world: World) -> None:
    first, second = erase(world, b"key-1"), erase(world, b"key-2")
    found = certify(world, second)
    assert (found.number, found.chain_length) == (2, 2)
    assert found.document.previous == certify(world, first).sha256
    for path in (world.folder / "home").rglob(f"{first.erasure_id}-*.json"):
        document = json.loads(path.read_text())
        path.write_text(json.dumps({**document, "reason": "another"}))
    with pytest.raises(DamagedMetadataError):
        certify(world, second)


def test_erasure_that_does_not_name_the_one_before_is_found(world: World) -> None:
    erase(world, b"key-1")
    report = erase(world, b"key-2")
    log = world.installation.log.open(TOPIC)
    log.commit(lambda head: Change(state=replace(head.state, erasures=head.state.erasures[1:]), summary={}))
    with pytest.raises(DamagedMetadataError, match="chain of erasures"):
        certify(world, report)


@pytest.mark.parametrize("place", ["/winnow/", "/winnow_copies/"])
def test_erasures_are_known_again_after_a_state_was_rebuilt(world: World, place: str) -> None:
    """The states are gone, and the erasures' documents are in one of their two places."""
    first, second = erase(world, b"key-1"), erase(world, b"key-2")
    for path in (world.folder / "home" / "warehouse").rglob("*.json"):
        is_document = f"/{TOPIC}-" in str(path) and path.parent.name in {"state", "erasures"}
        is_kept = path.parent.name == "erasures" and place in str(path)
        if is_document and not is_kept:
            path.unlink()
    recover_topic(world.installation, TOPIC, rebuild=True, run=True)
    assert [each.erasure_id for each in world.head().state.erasures] == [first.erasure_id, second.erasure_id]
    report = world.ingest([record(20, KEY, b"old copy"), record(21, b"other", b"x")])
    assert (report.records_appended, report.records_erased) == (1, 1)
    sweep_topics(world.installation, [TOPIC])
    assert certify(world, second).open_because is None


def test_backup_that_was_made_since_knows_the_erasure(world: World) -> None:
    """The secret is in no backup: whoever restores one brings it along."""
    report = erase(world)
    create_backup(world.installation, str(world.folder / "backup"))
    home = world.folder / "home"
    secret = world.installation.settings.erase.hmac_key_file.read_text()
    assert list_holding(world, secret.strip().encode()) == [str(home / "erase.secret")]
    home.rename(world.folder / "aside")
    home.mkdir()
    shutil.copytree(world.folder / "aside" / "erasures", home / "erasures")
    with open_world(world.folder, world.clock) as restored:
        restore_backup(restored.installation, str(world.folder / "backup"))
        with pytest.raises(ConfigurationError, match="erase"):
            restored.ingest([record(9, KEY, b"old copy")])
        restored.installation.settings.erase.hmac_key_file.write_text(secret)
        assert restored.ingest([record(9, KEY, b"old copy")]).records_erased == 1
        assert certify(restored, report, verify=True).open_because is None
        assert restored.read() == without([*FIRST, *SECOND])


def test_old_record_that_is_back_is_found_by_a_verification(world: World) -> None:
    report = erase(world)
    assert certify(world, report, verify=True).verified == replace_counts(certify(world, report, verify=True), 0)
    lift_erasure(world.installation, TOPIC, [KEY], "a mistake")
    world.ingest([record(9, KEY, b"old copy", 1_000)])
    verified = certify(world, report, verify=True).verified
    assert verified is not None
    assert (verified.old_records, verified.later_records) == (1, 0)


def test_certificate_names_every_file_that_held_the_key_and_says_that_it_is_gone(world: World) -> None:
    compact(world)
    found = certify(world, erase(world))
    assert sorted((each.file.place, each.file.records, each.is_gone) for each in found.files) == [
        ("live", 1, True),
        ("live", 1, True),
        ("retired", 2, True),
        ("retired", 3, True),
    ]
    assert all(each.deleted_at_ms is not None and len(each.file.sha256) == 64 for each in found.files)
    assert {each.answer for each in found.files} == {"no such file"}
    assert [each.file.since_ingest is None for each in found.files] == [True, True, False, False]
    assert found.document.scan is not None
    assert found.document.scan.files == 4


def test_certificate_names_what_was_not_reached(world: World) -> None:
    create_backup(world.installation, str(world.folder / "backup"))
    said = " ".join(certify(world, erase(world)).document.outside)
    assert f"What was ingested into {TOPIC}" in said
    assert "A backup (" in said
    assert f"{world.folder}/backup" in said
    assert "Earlier versions" not in said


def test_certificate_says_that_a_person_declared_what_the_store_cannot_say(world: World) -> None:
    settings = world.installation.settings
    declared = settings.erase.model_copy(update={"trust_bucket_deletes": True})
    changed = settings.model_copy(update={"warehouse": "gs://bucket/lake", "erase": declared})
    places = list_outside_places(replace(world.installation, settings=changed), world.head().state)
    assert any(place.startswith("Earlier versions of the deleted objects") for place in places)


def test_key_without_an_erasure_is_found_in_every_file_that_holds_it(world: World) -> None:
    compact(world)
    found = find_key(world.installation, TOPIC, KEY)
    assert sorted((each.place, each.records) for each in found.files) == [
        ("live", 1),
        ("live", 1),
        ("retired", 2),
        ("retired", 3),
    ]
    assert all((each.until_ms is None) == (each.place == "live") for each in found.files)
    erase(world)
    gone = find_key(world.installation, TOPIC, KEY)
    assert (gone.is_gone, gone.erasure_id is not None) == (True, True)


def test_why_says_that_an_erasure_may_have_taken_a_record(world: World) -> None:
    report = erase(world)
    at_ms = world.clock()
    missing = explain_offset(world.installation, TOPIC, 0, 4, as_of_ms=at_ms)
    assert (missing.verdict, missing.causes, missing.erasures) == ("erased", ("erased",), (report.erasure_id,))
    assert f"removed by erasure {report.erasure_id[:12]}: of a key that was erased" in missing.sentence
    compact(world)
    assert explain_offset(world.installation, TOPIC, 0, 4, as_of_ms=at_ms).causes == ("superseded", "erased")
    assert (
        "winnow erase certificate"
        in explain_key(world.installation, TOPIC, KEY, partition=None, as_of_ms=at_ms).sentence
    )


def test_audit_log_says_who_erased_and_why_and_not_what(world: World) -> None:
    report = erase(world)
    (entry,) = world.installation.store.audit.list_entries(Window(), action=AuditAction.ERASE).rows
    assert (entry.topic, entry.reason) == (TOPIC, "request 4711")
    assert entry.detail == f"{report.erasure_id}: 1 key(s), 5 record(s) in 2 file(s)"


def test_secret_is_made_once_for_its_owner_only(world: World) -> None:
    erase(world)
    path = world.installation.settings.erase.hmac_key_file
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    secret = path.read_text()
    erase(world, b"key-2")
    assert path.read_text() == secret
    assert list_holding(world, secret.strip().encode()) == [str(path)]


def test_another_secret_is_refused(world: World) -> None:
    erase(world)
    world.installation.settings.erase.hmac_key_file.write_text("another secret of enough bytes")
    before = world.snapshot_ids()
    with pytest.raises(ConfigurationError, match="another secret"):
        erase(world, b"key-2")
    assert world.snapshot_ids() == before


def test_call_that_died_after_its_commit_is_closed_by_a_sweep(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from winnow.store.ingests import Ingests

    with monkeypatch.context() as patch:
        patch.setattr(Ingests, "close", lambda *_: None)
        report = erase(world)
    assert [each.ingest_id for each in world.installation.store.ingests.list_open(TOPIC)] == [report.erasure_id]
    world.clock.now_ms += 2 * GRACE_MS
    before = world.read()
    sweep_topics(world.installation, [TOPIC])
    assert world.installation.store.ingests.list_open(TOPIC) == []
    assert world.read() == before


@pytest.mark.parametrize(
    ("lines", "number"),
    [(b"a\n\nb\n", 2), (b"a\nhex:zz\n", 2), (b"\xff\n", 1), (b"a\nb\nbase64:!\n", 3)],
)
def test_malformed_line_is_named_and_nothing_is_erased(world: World, lines: bytes, number: int) -> None:
    path = world.folder / "keys"
    path.write_bytes(lines)
    with pytest.raises(BadInputError, match=f"line {number}"):
        read_key_file(str(path))


def test_key_file_takes_text_hex_and_base64(world: World) -> None:
    path = world.folder / "keys"
    path.write_bytes(b"key-1\r\nhex:00ff\nbase64:a2V5LTE=\ntext:\n")
    assert read_key_file(str(path)) == [b"key-1", b"\x00\xff", b""]


def test_many_keys_go_in_one_commit(world: World) -> None:
    report = erase(world, *(f"key-{number}".encode() for number in range(20_000)))
    assert (report.keys, report.keys_found) == (20_000, 3)
    assert world.read() == []
    world.ingest([record(9, b"fresh", b"x")])
    assert [each.offset for each in world.read()] == [9]


def test_commands_erase_certify_and_tell_where_a_key_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINNOW_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "in.jsonl"
    rows = [{"partition": 0, "offset": n, "timestamp": 1, "key": b64(f"k{n}"), "value": b64("v")} for n in range(3)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    winnow("topics", "create", "orders", "--partitions", 1)
    winnow("ingest", "files", "orders", source)
    assert "reason" in winnow("erase", "orders", "--key", "k1", code=2).stderr
    keys = tmp_path / "keys"
    keys.write_text("k1\n")
    answer = winnow("erase", "orders", "--keys-from", keys, "--reason", "request 1", "--json").document
    assert (answer["records"], answer["deleted"]) == (1, True)
    certificate = winnow("erase", "certificate", answer["erasure_id"][:8], "--verify", "--json").document
    assert (certificate["state"], certificate["reason"], certificate["verified"]["old_records"]) == (
        "closed",
        "request 1",
        0,
    )
    assert len(certificate["hashes"]) == 1
    shown = winnow("erase", "certificate", answer["erasure_id"]).stdout
    assert "State: closed" in shown
    assert str(b64("k1")) not in shown
    assert "It may be base64" in winnow("erase", "orders", "--key", b64("k2"), "--reason", "request 2").stderr
    page = tmp_path / "certificate.html"
    winnow("erase", "certificate", answer["erasure_id"], "--html", page)
    assert '<p class="state closed">Closed</p>' in page.read_text()
    assert certificate["hashes"][0] in page.read_text()
    assert winnow("erase", "certificate", "--for", "orders", "--key", "k2", "--json").document["is_gone"] is False
    winnow("erase", "certificate", "nothing", code=2)
    assert load_settings().erase.hmac_key_file == tmp_path / "home" / "erase.secret"


def test_page_to_print_shows_what_a_person_typed_as_text(world: World) -> None:
    report = erase_keys(world.installation, EraseRequest(TOPIC, [KEY], "<script>alert(1)</script> & more", True))
    page = render_certificate(make_certificate_document(certify(world, report, verify=True)))
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; more" in page
    assert "<script" not in page
    assert "Open: key bytes remain in 2 tombstone(s)" in page
    assert page.count("<tr><td>live</td>") == 2


def test_unknown_erasure_is_a_usage_error(world: World) -> None:
    with pytest.raises(UsageError, match="no erasure"):
        make_certificate(world.installation, "abcdef")


def test_offsets_that_an_undone_ingest_gave_back_do_not_tell_an_old_copy(world: World) -> None:
    """A new record of the key at such an offset is not lost; without a time a person decides."""
    call = world.ingest([record(9, b"other", b"x"), record(10, b"other", b"y")])
    world.clock.now_ms += 1_000
    erase(world)
    assert call.ingest_id is not None
    undo_ingest(world.installation, TOPIC, call.ingest_id)
    world.clock.now_ms += 1_000
    with pytest.raises(BadInputError, match="no timestamp"):
        world.ingest([record(9, KEY, b"?", None)])
    report = world.ingest([record(9, KEY, b"old", 1_000), record(10, KEY, b"new", world.clock())])
    assert (report.records_appended, report.records_erased) == (1, 1)
    assert [each.value for each in world.read() if each.key == KEY] == [b"new"]
