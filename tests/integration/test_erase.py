"""Erasing a key: no byte of it stays in anything that Winnow wrote, every other record stays bit for bit."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from tests.support.cli_runner import b64, winnow
from tests.support.erasing import (
    FIRST,
    KEY,
    SECOND,
    certify,
    compact,
    define_erasing_world,
    erase,
    list_holding,
    without,
)
from tests.support.world import (
    TOPIC,
    World,
    record,
)
from winnow.config.settings import load_settings
from winnow.engine import key_erasure
from winnow.errors import (
    BadInputError,
    ConfigurationError,
    DamagedSegmentError,
    EraseRefusedError,
    UndoRefusedError,
    ValidationFailedError,
)
from winnow.files.key_sets import GivenKeys
from winnow.log.pinned_snapshots import pin_snapshot, unpin_snapshots
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.backup.create import create_backup
from winnow.pipeline.erase import rewriting
from winnow.pipeline.erase.complete import describe_consequences
from winnow.pipeline.erase.erase import EraseRequest, commit_erasure
from winnow.pipeline.erase.key_files import read_key_file
from winnow.pipeline.erase.whereabouts import find_key
from winnow.pipeline.explain.why import explain_key, explain_offset
from winnow.pipeline.ingest.undo import undo_ingest
from winnow.pipeline.latest.table import update_latest_table
from winnow.pipeline.topics.definition import alter_topic
from winnow.pipeline.topics.deletion import delete_topic
from winnow.pipeline.topics.leases import hold_lease
from winnow.pipeline.undo.listing import list_undoable
from winnow.pipeline.undo.undo import undo_change
from winnow.store.audit import AuditAction
from winnow.store.rows import Window

world = define_erasing_world()
"""Two partitions with records of three keys each."""


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


def test_table_of_the_latest_state_has_no_row_of_a_record_that_became_a_tombstone(world: World) -> None:
    """Its offset has another record now, and would not tell."""
    alter_topic(world.installation, TOPIC, {"winnow.latest.table": "true"}, [])
    update_latest_table(world.installation, TOPIC)
    erase(world, with_tombstone=True)
    assert [path for path in list_holding(world, b"value-0-7", KEY) if "winnow_latest" in path] == []
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
    assert "1 run at work: void afterwards; 1 ref" in said
    assert "1 backup that may hold such records" in said


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


def test_wrong_result_is_not_committed_and_nothing_of_it_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = key_erasure.rewrite_without_keys

    def lose_one_more(segment: object, wanted: GivenKeys, *rest: object) -> object:
        return genuine(segment, GivenKeys([*wanted.keys.to_pylist(), b"key-2"]), *rest)  # type: ignore[arg-type]

    before, files = world.read(), set(world.listing())
    monkeypatch.setattr(rewriting, "rewrite_without_keys", lose_one_more)
    with pytest.raises(ValidationFailedError, match="others_unchanged"):
        erase(world)
    assert world.read() == before
    assert set(world.listing()) == files


def test_key_that_the_rewrite_left_is_seen(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = key_erasure.rewrite_without_keys

    def leave_it(segment: object, wanted: object, *rest: object) -> object:
        return genuine(segment, GivenKeys([b"nobody"]), *rest)  # type: ignore[arg-type]

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
    assert entry.detail == f"{report.erasure_id}: 1 key, 5 records in 2 files"


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
