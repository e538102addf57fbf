"""Kafka still has what was erased here: it stays out of the log, and the two are not taken for different topics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from broker.kafka_broker import KafkaBroker
from tests.kafka.live_topics import BASE_MS, LiveTopic, create_live_topic
from tests.kafka.test_ingest_kafka import ingest
from tests.kafka.test_ingest_kafka import on as on  # noqa: PLC0414 - a fixture
from tests.kafka.test_mirrors import Row, ingest_source, make_events, move
from tests.support.erased_keys import erase_keys, get_secret_file
from tests.support.in_process_ingest import carry_out_plans_in_process
from tests.support.world import World, define_world, run_between_head_and_commit, write_jsonl
from winnow.errors import CommitConflictError, ConfigurationError
from winnow.kafka.offset_syncs import MirrorOrigin
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.ingest.kafka import run as kafka_run
from winnow.values.erasures import RemainingTombstone
from winnow.values.model import Record

world = define_world()


def erase_newest(world: World, topic: LiveTopic, at_ms: int, *, leaves_tombstone: bool = False) -> bytes:
    """Erase the key of the newest record of a topic; return it."""
    newest = topic.records[-1]
    assert newest.key is not None
    place = RemainingTombstone(newest.partition, newest.offset)
    erase_keys(world, newest.key, topic=topic.name, at_ms=at_ms, tombstones=[place] if leaves_tombstone else [])
    return newest.key


def without(records: list[Record], key: bytes, at_ms: int) -> list[Record]:
    return [each for each in records if each.key != key or (each.timestamp_ms or 0) > at_ms]


@pytest.mark.parametrize("readers", ["this process", "processes", "tasks"])
def test_old_copies_at_the_brokers_stay_out_however_many_read_them(
    broker: KafkaBroker, world: World, readers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log ends where the brokers do, and goes on from there."""
    asked: list[str] = []

    def note(name: str) -> Any:
        genuine: Any = {"tasks": carry_out_plans_in_process, "processes": kafka_run.carry_out_in_processes}[name]

        def carry_out(*arguments: Any, **more: Any) -> Any:
            asked.append(name)
            for plan in arguments[1] if name == "tasks" else arguments[:1]:
                assert plan.erasures.needs_timestamps  # the topic may have been created again
            return genuine(*arguments, **more)

        return carry_out

    source = ingest_source(world, broker, 30)
    at_ms = BASE_MS + 55_000
    key = erase_newest(world, source, at_ms)
    on = "spark" if readers == "tasks" else "local"
    monkeypatch.setattr(kafka_run, "submit_ingest_plans", note("tasks"))
    monkeypatch.setattr(kafka_run, "carry_out_in_processes", note("processes"))
    monkeypatch.setattr(kafka_run, "MINIMUM_RANGE_OFFSETS", 7)
    monkeypatch.setattr(kafka_run, "MINIMUM_PROCESS_OFFSETS", 10 if readers == "processes" else 1_000)
    kept: list[Record] = []
    for first in (30, 60):
        source.write(make_events(first, 30))
        before = len(without(source.records[:first], key, at_ms))
        report = ingest(world, source, on)
        kept = without(source.records, key, at_ms)
        assert world.read(topic=source.name) == kept
        assert (report.records_appended, report.records_erased) == (len(kept) - before, 30 - len(kept) + before)
        assert world.state(topic=source.name).log_end_offset == source.find_end(0)
    assert len(kept) < len(source.records) - 1  # not only the record that was there
    assert set(asked) == {readers} - {"this process"}
    get_secret_file(world).unlink()
    source.write(make_events(90, 30))
    with pytest.raises(ConfigurationError, match="secret"):
        ingest(world, source, on)
    assert world.read(topic=source.name) == kept


def test_driver_on_a_cluster_reads_no_topic_with_erased_keys(
    broker: KafkaBroker, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could not read the secret, so this process reads instead."""
    source = ingest_source(world, broker, 30)
    at_ms = BASE_MS + 45_000
    key = erase_newest(world, source, at_ms)
    settings = world.installation.settings
    spark = settings.spark.model_copy(update={"conf": {"spark.submit.deployMode": "cluster"}})
    installation = replace(world.installation, settings=settings.model_copy(update={"spark": spark}))
    monkeypatch.delattr(kafka_run, "submit_ingest_plans")
    source.write(make_events(30, 30))
    ingest(World(installation, world.clock, world.folder), source, "spark")
    assert world.read(topic=source.name) == without(source.records, key, at_ms)


def test_key_that_is_erased_while_tasks_read_does_not_land(broker: KafkaBroker, world: World, on: str) -> None:
    """One process reads again; an application for many topics is left to the next call."""
    source = ingest_source(world, broker, 30)
    source.write(make_events(30, 30))
    key = source.records[-1].key
    assert key is not None
    at_ms = BASE_MS + 100_000
    with run_between_head_and_commit(lambda: erase_keys(world, key, topic=source.name, at_ms=at_ms)):
        if on == "spark":
            with pytest.raises(CommitConflictError, match="moved while Kafka was read"):
                ingest(world, source, on)
        else:
            ingest(world, source, on)
    ingest(world, source, on)
    assert world.read(topic=source.name) == without(source.records, key, at_ms)
    assert world.state(topic=source.name).log_end_offset == source.find_end(0)


@pytest.mark.parametrize("leaves_tombstone", [False, True])
def test_log_without_its_newest_record_is_still_that_of_the_topic(
    broker: KafkaBroker, world: World, leaves_tombstone: bool
) -> None:
    """The brokers have another record in the place of a tombstone, and did not lose the end of their log."""
    source = ingest_source(world, broker, 30)
    at_ms = BASE_MS + 29_000
    key = erase_newest(world, source, at_ms, leaves_tombstone=leaves_tombstone)
    left = world.read(topic=source.name)
    source.write(make_events(30, 10))
    ingest(world, source)
    assert world.read(topic=source.name) == [*left, *source.records[30:]]
    assert len(left) == len(without(source.records[:30], key, at_ms)) + leaves_tombstone


@pytest.mark.parametrize("leaves_tombstone", [False, True])
def test_log_of_files_goes_on_with_its_topic_after_an_erasure(
    broker: KafkaBroker, world: World, leaves_tombstone: bool
) -> None:
    source = create_live_topic(broker, partitions=1)
    source.write(make_events(0, 30))
    world.create(1, topic=source.name)
    path = write_jsonl(world.path(), source.records)
    ingest_files(world.installation, source.name, [path], as_of_ms=world.clock())
    erase_newest(world, source, BASE_MS + 50_000, leaves_tombstone=leaves_tombstone)
    left = world.read(topic=source.name)
    source.write(make_events(60, 10))
    report = ingest(world, source)
    assert "records, which came from files, were compared" in " ".join(report.notices)
    assert world.read(topic=source.name) == [*left, *source.records[30:]]


@pytest.mark.parametrize("leaves_tombstone", [False, True])
def test_mirror_that_still_has_what_was_erased_goes_on_behind_the_last_record_here(
    broker: KafkaBroker, world: World, leaves_tombstone: bool
) -> None:
    source, mirror = ingest_source(world, broker, 30), create_live_topic(broker, partitions=1)
    at_ms = BASE_MS + 35_000
    key = erase_newest(world, source, at_ms, leaves_tombstone=leaves_tombstone)
    left = world.read(topic=source.name)
    mirror.write(make_events(0, 40))
    ingest(world, mirror, here=source.name, begins_epoch=True, mirror_of=MirrorOrigin(source.name))
    read = world.read(topic=source.name)
    assert read[: len(left)] == left
    base = read[-1].offset - mirror.records[-1].offset
    assert read[len(left) :] == move(without(mirror.records[30:], key, at_ms), base)


def test_erased_record_that_was_the_newest_in_the_middle_of_the_log_is_not_strange_in_a_copy(
    broker: KafkaBroker, world: World
) -> None:
    """Nothing that the log has is as new; it was there before."""
    source, copy = create_live_topic(broker, partitions=1), create_live_topic(broker, partitions=1)
    events = make_events(0, 20)
    odd: Row = (0, b"the erased one", b"from the future", BASE_MS + 100_000, ())
    source.write([*events[:5], odd, *events[5:10]])
    ingest(world, source)
    erase_keys(world, b"the erased one", topic=source.name, at_ms=BASE_MS + 200_000)
    left = world.read(topic=source.name)
    copy.write([*events[:5], odd, *events[5:]])
    report = ingest(world, copy, here=source.name, begins_epoch=True, accepts_overlap=True)
    assert report.records_appended == 10
    assert world.read(topic=source.name) == [*left, *move(copy.records[11:], 11)]
