"""Old copies of erased keys that come later: left out of every input, and counted; everything else lands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_runner import winnow
from tests.support.erased_keys import erase_keys, get_secret_file
from tests.support.world import (
    NOW_MS,
    TOPIC,
    World,
    build_versions,
    define_world,
    list_visible_rows,
    record,
    run_between_head_and_commit,
    write_jsonl,
)
from winnow.arrivals.broker_range import KafkaInput
from winnow.errors import BadInputError, ConfigurationError
from winnow.kafka.client_settings import ClientSettings
from winnow.log.head import Change
from winnow.pipeline import erased_keys
from winnow.pipeline.ingest import run_local
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.ingest.request import IngestReport, IngestRequest, SourcePosition
from winnow.sources.record_input import FilesInput
from winnow.values.epochs import Epoch
from winnow.values.model import Record

ERASED, OTHER = b"key-1", b"key-2"
LEFT_OUT = "1 record of an erased key was left out: it is an old copy."
LATER_MS = NOW_MS + 1

world = define_world(1, min_cleanable_dirty_ratio="0")


@pytest.fixture(params=["in one pass", "over the spool"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How the input is read."""
    if request.param == "over the spool":

        def refuse_to_stream(*_: object) -> None:
            raise run_local.NotStreamableError

        monkeypatch.setattr(run_local.StreamingAppender, "read", refuse_to_stream)
    return str(request.param)


def take(world: World, path: str, topic: str = TOPIC, **options: Any) -> IngestReport:
    return ingest_files(world.installation, topic, [path], as_of_ms=world.clock(), **options)


def without(records: Sequence[Record], key: bytes = ERASED) -> list[Record]:
    return [each for each in records if each.key != key]


def count(report: IngestReport) -> tuple[int, int, int]:
    """Appended, skipped, left out."""
    return report.records_appended, report.records_skipped, report.records_erased


# ------------------------------------------------------------------------------------------------ what is old


def test_records_below_the_log_end_at_the_erasure_are_left_out_whatever_their_time(world: World, way: str) -> None:
    records = build_versions(0, 12)
    world.ingest(records)
    erase_keys(world, ERASED)
    copies = [replace(each, timestamp_ms=LATER_MS) if each.key == ERASED else each for each in records]
    report = world.ingest(copies)
    assert count(report) == (0, 8, 4)
    assert world.read() == without(records)


def test_offset_that_the_log_never_had_is_left_out_if_its_time_is_not_later(world: World, way: str) -> None:
    world.ingest(build_versions(0, 6))
    erase_keys(world, ERASED)
    came = [record(6, ERASED, b"old", 5_000), record(7, OTHER, b"new", 5_000), record(8, ERASED, b"same", NOW_MS)]
    report = world.ingest(came)
    assert count(report) == (1, 0, 2)
    assert report.notices == ("2 records of erased keys were left out: they are old copies.",)
    assert world.read() == [*without(build_versions(0, 6)), came[1]]


def test_record_that_is_later_than_the_erasure_is_a_new_one(world: World, way: str) -> None:
    world.ingest(build_versions(0, 6))
    erase_keys(world, ERASED)
    came = [record(6, ERASED, b"same", NOW_MS), record(7, ERASED, b"later", LATER_MS)]
    assert count(world.ingest(came)) == (1, 0, 1)
    assert world.read() == [*without(build_versions(0, 6)), came[1]]


def test_records_without_a_time_are_old_below_the_log_end_and_new_above(world: World, way: str) -> None:
    world.ingest(build_versions(0, 6))
    erase_keys(world, ERASED)
    came = [record(4, ERASED, b"old", None), record(6, ERASED, b"new", None)]
    assert count(world.ingest(came)) == (1, 0, 1)
    assert world.read() == [*without(build_versions(0, 6)), came[1]]


def test_record_without_a_time_and_an_offset_is_refused_until_a_person_decides(
    world: World, way: str, tmp_path: Path
) -> None:
    world.ingest(build_versions(0, 6))
    erase_keys(world, ERASED)
    path = write_jsonl(
        tmp_path / "a.jsonl", [record(0, OTHER, b"fine"), record(1, ERASED, b"new", None)], with_offset=False
    )
    with pytest.raises(BadInputError, match=r"a\.jsonl, row 2 .*has no timestamp.*winnow erase --allow") as refused:
        take(world, path)
    assert refused.value.exit_code == 3
    assert "key-1" not in str(refused.value)
    assert world.read() == without(build_versions(0, 6))


def test_records_without_offsets_are_told_by_their_time(world: World, way: str, tmp_path: Path) -> None:
    erase_keys(world, ERASED)
    came = [record(0, ERASED, b"old", NOW_MS), record(0, OTHER, b"x", 1), record(0, ERASED, b"new", LATER_MS)]
    report = take(world, write_jsonl(tmp_path / "a.jsonl", came, with_offset=False))
    assert count(report) == (2, 0, 1)
    assert world.read() == [came[1], replace(came[2], offset=1)]


@pytest.mark.parametrize("time_ms", [5_000, LATER_MS, None])
def test_records_of_a_new_epoch_are_told_by_their_time_and_without_one_refused(
    world: World, way: str, time_ms: int | None
) -> None:
    """Its offsets begin again, so those at the brokers say nothing."""
    world.ingest(build_versions(0, 6))
    erase_keys(world, ERASED)
    epochs = (Epoch(ends={0: 6}), Epoch(TOPIC, "AAAAAAAAAAAAAAAAAAAAAA", bases={0: 6}, ends={0: 6}))
    world.installation.log.open(TOPIC).commit(lambda head: Change(state=replace(head.state, epochs=epochs)))
    came = [record(0, ERASED, b"copy", time_ms), record(1, OTHER, b"new", 5_000)]
    path = write_jsonl(world.path(), came)
    if time_ms is None:
        with pytest.raises(BadInputError, match="has no timestamp"):
            take(world, path, epoch="2")
    else:
        take(world, path, epoch="2")
    landed = {5_000: came[1:], LATER_MS: came, None: []}[time_ms]
    assert world.read() == [*without(build_versions(0, 6)), *(replace(each, offset=each.offset + 6) for each in landed)]


@pytest.mark.parametrize(
    "config", [{"compaction_strategy": "timestamp"}, {"cleanup_policy": "delete", "retention_ms": "-1"}]
)
def test_topics_of_any_kind_leave_old_copies_out(world: World, way: str, config: dict[str, str]) -> None:
    world.create(2, topic="wide", **config)
    records = [*build_versions(0, 9), *build_versions(0, 9, partition=1)]
    world.ingest(records, topic="wide")
    erase_keys(world, ERASED, topic="wide")
    newer = [record(9, ERASED, b"old", NOW_MS), record(10, ERASED, b"new", LATER_MS)]
    assert count(world.ingest(newer, topic="wide")) == (1, 0, 1)
    assert world.read(topic="wide") == [*without(records[:9]), newer[1], *without(records[9:])]


def test_lifted_erasure_lets_records_in_again(world: World, way: str) -> None:
    erase_keys(world, ERASED, OTHER)
    came = [record(0, ERASED, b"a"), record(1, OTHER, b"b")]
    assert count(world.ingest(came)) == (0, 0, 2)
    erase_keys(world, ERASED, lifts=True)
    assert count(world.ingest(came)) == (1, 0, 1)
    assert world.read() == came[:1]


def test_file_with_what_was_left_out_is_still_known_when_the_erasure_is_lifted(world: World, way: str) -> None:
    """What lies below the log end cannot come back, and stops nothing that comes with it; others still do."""
    world.ingest(build_versions(0, 6))
    erase_keys(world, ERASED)
    came = [*build_versions(0, 6), *build_versions(6, 6)]
    assert count(world.ingest(came)) == (4, 4, 4)
    erase_keys(world, ERASED, lifts=True)
    new = record(12, ERASED, b"new")
    assert count(world.ingest([*came, new])) == (1, 12, 0)
    assert world.read() == [*without(came), new]
    world.create(1, topic="other")
    erase_keys(world, b"nobody", topic="other")
    erase_keys(world, b"nobody", topic="other", lifts=True)
    world.ingest(came[6:], topic="other")
    with pytest.raises(BadInputError, match="without this record"):
        world.ingest(came, topic="other")


def test_second_erasure_of_a_key_counts_over_the_first(world: World, way: str) -> None:
    erase_keys(world, ERASED)
    between = record(0, ERASED, b"between", LATER_MS)
    world.ingest([between])
    assert world.read() == [between]
    world.clock.now_ms += 10
    erase_keys(world, ERASED)
    assert count(world.ingest([between])) == (0, 0, 1)
    assert world.read() == []


# ------------------------------------------------------------------------------------- files that were seen before


def test_file_from_before_the_erasure_is_recognised_also_after_a_compaction(world: World, way: str) -> None:
    """Its records are gone for two reasons; its digest, of all of its records, explains what the run removed."""
    records = build_versions(0, 12)
    path = write_jsonl(world.path(), records)
    take(world, path)
    world.compact()
    erase_keys(world, ERASED)
    before, snapshots = world.read(), world.snapshot_ids()
    report = take(world, path)
    assert (count(report), report.snapshot_id) == ((0, 8, 4), None)
    assert (world.read(), world.snapshot_ids()) == (before, snapshots)


def test_file_with_old_copies_is_recognised_when_it_comes_again(world: World, way: str) -> None:
    erase_keys(world, ERASED)
    records = build_versions(0, 12)
    path = write_jsonl(world.path(), records)
    assert count(take(world, path)) == (8, 0, 4)
    world.compact()
    snapshots = world.snapshot_ids()
    assert count(take(world, path)) == (0, 8, 4)
    assert world.snapshot_ids() == snapshots


def test_file_without_offsets_from_before_the_erasure_is_skipped_as_a_whole(
    world: World, way: str, tmp_path: Path
) -> None:
    records = build_versions(0, 12)
    path = write_jsonl(tmp_path / "a.jsonl", records, with_offset=False)
    take(world, path)
    erase_keys(world, ERASED)
    report = take(world, path)
    assert count(report) == (0, 8, 4)
    assert "skipped, its content was ingested before" in report.notices[0]
    assert world.read() == without(records)


def test_input_of_nothing_but_old_copies_commits_nothing(world: World, way: str, tmp_path: Path) -> None:
    erase_keys(world, ERASED)
    snapshots = world.snapshot_ids()
    path = write_jsonl(tmp_path / "a.jsonl", [record(0, ERASED, b"old")])
    report = take(world, path)
    assert (count(report), report.snapshot_id, report.notices) == ((0, 0, 1), None, (LEFT_OUT,))
    assert (world.snapshot_ids(), world.state().log_end_offset) == (snapshots, 0)


def test_command_says_how_many_were_left_out(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    erase_keys(world, ERASED)
    monkeypatch.setenv("WINNOW_HOME", str(world.installation.settings.home))
    path = write_jsonl(tmp_path / "a.jsonl", [record(0, ERASED, b"old"), record(1, OTHER, b"new")])
    told = winnow("ingest", "files", TOPIC, path)
    assert f"notice: {LEFT_OUT}" in told.stderr
    assert "1 record appended, 1 of erased keys left out" in told.stdout
    document = winnow("ingest", "files", TOPIC, path, "--json").document
    assert (document["records_appended"], document["records_skipped"], document["records_erased"]) == (0, 1, 1)
    (call,) = winnow("ingest", "list", TOPIC, "--json").document
    assert (call["records_appended"], call["records_erased"]) == (1, 1)
    assert "erased" in winnow("ingest", "list", TOPIC).stdout


def test_records_of_other_topics_beside_old_copies_are_no_mistake(world: World, tmp_path: Path) -> None:
    """The topic is in the input, though nothing of it lands."""
    erase_keys(world, ERASED)
    lines = [
        {"topic": "orders", "partition": 0, "offset": 0, "timestamp": 1, "key": "a2V5LTE=", "value": None},
        {"topic": "bills", "partition": 0, "offset": 0, "timestamp": 1, "key": "a2V5LTE=", "value": None},
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    report = take(world, str(path), source_topic=TOPIC)
    assert (count(report), report.records_left_out) == ((0, 0, 1), 1)


# ------------------------------------------------------------------------------------------------ ways of reading


def write_objects(folder: Path, cuts: Sequence[tuple[int, int]]) -> str:
    """Objects of Aiven's sink with the offsets of ``cuts``, in reverse order within each; keys take turns."""
    for number, (first, end) in enumerate(cuts):
        path = folder / str(number) / f"orders-0-{first}.json"
        path.parent.mkdir(parents=True)
        rows = [
            {"key": f"k!{at % 3}", "offset": at, "value": f"v!{at}", "timestamp": "2024-03-01T00:00:00.000Z"}
            for at in range(first, end)
        ]
        path.write_text("\n".join(json.dumps({**row, "headers": []}) for row in rows[::-1]))
    return str(folder)


def test_archive_that_is_sorted_leaves_old_copies_and_their_repeats_out(world: World, tmp_path: Path) -> None:
    erase_keys(world, b"k!1")
    path = write_objects(tmp_path / "a", [(15, 40), (0, 20)])
    report = take(world, path)
    kept = [at for at in range(40) if at % 3 != 1]
    assert [(each.offset, each.value) for each in world.read()] == [(at, f"v!{at}".encode()) for at in kept]
    copies = sum(at % 3 == 1 for at in [*range(15, 40), *range(20)])
    assert count(report) == (len(kept), 45 - copies - len(kept), copies)


def test_input_that_is_read_twice_counts_what_is_left_out_once(world: World, way: str, tmp_path: Path) -> None:
    """Values read as base64 until one certainly is text."""
    erase_keys(world, b"a=")
    for number, rows in enumerate([[("a=", "YmVybGluCg=="), ("c=", "cGFyaXM=")], [("b!", "not base64")]]):
        lines = [
            {"key": key, "offset": 2 * number + at, "value": value, "timestamp": "2024-03-01T00:00:00Z", "headers": []}
            for at, (key, value) in enumerate(rows)
        ]
        path = tmp_path / "a" / f"orders-0-{2 * number}"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(map(json.dumps, lines)))
    assert count(take(world, str(tmp_path / "a"))) == (2, 0, 1)
    assert [each.value for each in world.read()] == [b"cGFyaXM=", b"not base64"]


def test_keyless_records_go_to_the_quarantine_beside_old_copies(world: World, tmp_path: Path) -> None:
    world.create(1, topic="aside", winnow_keyless="quarantine")
    erase_keys(world, ERASED, topic="aside")
    came = [record(0, ERASED, b"old"), record(1, None, b"keyless"), record(2, OTHER, b"new")]
    report = world.ingest(came, topic="aside")
    assert (*count(report), report.records_quarantined) == (1, 0, 1, 1)
    assert world.read(topic="aside") == came[2:]
    rows = list_visible_rows(world.installation.log.quarantine("aside"), world.head("aside").state)
    assert rows.column("value").to_pylist() == [b"keyless"]


def test_without_a_time_nobody_can_tell_which_life_of_a_topic_brokers_have(world: World) -> None:
    """A log of files alone has one life; the topic at the brokers may be another."""
    erase_keys(world, ERASED)
    log = world.installation.log.open(TOPIC)
    head = log.head()
    brokers = KafkaInput(ClientSettings("nowhere:1", {}), TOPIC, [], lambda: None)
    for source, expected in ((brokers, True), (FilesInput(TOPIC, []), False)):
        request = IngestRequest(world.installation, log, source, SourcePosition(), head, world.clock())
        erased = run_local.open_erased(request, head)
        assert erased is not None
        assert erased.needs_timestamps is expected


# ------------------------------------------------------------------------------------------------ the secret


def test_missing_secret_refuses_every_input_and_nothing_lands(world: World, way: str, tmp_path: Path) -> None:
    world.ingest(build_versions(0, 6))
    erase_keys(world, ERASED)
    get_secret_file(world).unlink()
    before = world.listing()
    with pytest.raises(ConfigurationError, match="the secret that tells their old copies is not here") as refused:
        world.ingest([record(6, OTHER, b"new")])
    assert refused.value.exit_code == 2
    assert "WINNOW_ERASE__SECRET" in str(refused.value)
    assert not get_secret_file(world).exists()
    assert world.listing() == before


def test_another_secret_refuses_every_input_and_nothing_lands(world: World, way: str) -> None:
    erase_keys(world, ERASED)
    get_secret_file(world).write_text("another secret of sixteen bytes and more\n")
    before = world.listing()
    with pytest.raises(ConfigurationError, match="erased with another secret") as refused:
        world.ingest([record(0, OTHER, b"new")])
    assert refused.value.exit_code == 2
    assert world.listing() == before


def test_topic_without_erasures_never_looks_for_a_secret(
    world: World, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> bytes:
        raise AssertionError("the secret was read")

    monkeypatch.setattr(erased_keys, "read_secret", refuse)
    report = world.ingest(build_versions(0, 6))
    assert count(report) == (6, 0, 0)
    assert not get_secret_file(world).exists()


# ------------------------------------------------------------------------------------------------ races


def test_key_that_is_erased_while_its_records_are_ingested_does_not_land(world: World, way: str) -> None:
    records = build_versions(0, 12)
    path = write_jsonl(world.path(), records)
    with run_between_head_and_commit(lambda: erase_keys(world, ERASED)):
        report = take(world, path)
    assert count(report) == (8, 0, 4)
    assert world.read() == without(records)
    segments = [path for path in world.listing(below=world.log_folder()) if path.endswith(".parquet")]
    assert len(segments) == len(world.segments())


def test_keys_erased_again_and_again_while_a_file_is_ingested_do_not_land(world: World, way: str) -> None:
    records = build_versions(0, 12, keys=4)
    path = write_jsonl(world.path(), records)
    keys = iter([b"key-1", b"key-3"])

    def erase_next() -> None:
        key = next(keys, None)
        if key is not None:
            erase_keys(world, key)

    with run_between_head_and_commit(erase_next, times=8):
        report = take(world, path)
    assert count(report) == (6, 0, 6)
    assert world.read() == without(without(records, b"key-1"), b"key-3")


def test_erasure_that_only_came_further_lets_an_ingest_go_on(world: World) -> None:
    """When its files are gone, or nobody can write another one, is noted later; what is left out stays the same."""
    erase_keys(world, ERASED)
    log = world.installation.log.open(TOPIC)

    def note_deletion() -> None:
        log.commit(
            lambda head: Change(
                state=replace(
                    head.state, erasures=tuple(replace(each, deleted_at_ms=5) for each in head.state.erasures)
                )
            )
        )

    readings = []

    def note_reading(*arguments: Any, **named: Any) -> Any:
        readings.append(arguments)
        return erased_keys.open_erased_records(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch, run_between_head_and_commit(note_deletion):
        patch.setattr(run_local, "open_erased_records", note_reading)
        world.ingest(build_versions(0, 6))
    assert world.read() == without(build_versions(0, 6))
    assert len(readings) == 1
