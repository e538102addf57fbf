"""A new epoch is compared with the log before it begins: a mirror repeats nothing, and one that lags is refused."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from broker.kafka_broker import KafkaBroker
from tests.kafka.live_topics import BASE_MS, LiveTopic, create_live_topic
from tests.kafka.test_ingest_kafka import ingest
from tests.kafka.test_ingest_kafka import on as on  # noqa: PLC0414 - a fixture
from tests.support.cli_runner import winnow
from tests.support.world import World, define_world
from winnow.cli import app
from winnow.errors import BadInputError
from winnow.kafka.client_settings import read_client_settings
from winnow.kafka.cluster import Cluster
from winnow.log.reference_chains import read_ledgers
from winnow.pipeline.ingest.kafka import new_epoch as kafka_new_epoch
from winnow.pipeline.ingest.kafka.ingest import KafkaRequest, ingest_kafka_topics
from winnow.pipeline.ingest.kafka.new_epoch import NewEpoch, preview_epoch
from winnow.pipeline.ingest.kafka.reading import ReadingRules
from winnow.values.model import Headers, Record

Row = tuple[int, bytes | None, bytes | None, int, Headers]


world = define_world()


def make_events(first: int, count: int) -> list[Row]:
    """Records whose timestamps grow by a second each, from number ``first`` on; ten keys."""
    chosen = random.Random(first)
    return [
        (0, b"key %d" % chosen.randrange(10), b"value %d" % number, BASE_MS + 1000 * number, ())
        for number in range(first, first + count)
    ]


def ingest_source(world: World, broker: KafkaBroker, count: int) -> LiveTopic:
    source = create_live_topic(broker, partitions=1)
    source.write(make_events(0, count))
    ingest(world, source)
    return source


def move(records: list[Record], by: int) -> list[Record]:
    return [replace(record, offset=record.offset + by) for record in records]


def test_mirror_goes_on_behind_the_last_record_that_the_log_has(broker: KafkaBroker, world: World, on: str) -> None:
    source, mirror = ingest_source(world, broker, 30), create_live_topic(broker, partitions=1)
    mirror.write(make_events(0, 40))
    with pytest.raises(BadInputError, match=r"-0: of 40 records compared 30 are here already; .* lacks the last 0.*"):
        ingest(world, mirror, on, source.name, begins_epoch=True)
    assert world.read(topic=source.name) == source.records
    report = ingest(world, mirror, on, source.name, begins_epoch=True, accepts_overlap=True)
    assert report.records_appended == 10
    assert world.read(topic=source.name) == [*source.records, *move(mirror.records[30:], 30)]
    assert any(f"{mirror.name}-0: offsets 0 to 29 are skipped" in notice for notice in report.notices)
    *_, ledger = read_ledgers(world.head(source.name).state)
    assert ledger.choices["skipped-overlap.0"] == "0-29"
    mirror.write(make_events(40, 5))
    ingest(world, mirror, on, source.name)
    assert world.read(topic=source.name) == [*source.records, *move(mirror.records[30:], 30)]


def test_mirror_that_lags_is_refused_until_it_has_caught_up_or_somebody_accepts(
    broker: KafkaBroker, world: World
) -> None:
    source, mirror = ingest_source(world, broker, 30), create_live_topic(broker, partitions=1)
    mirror.write(make_events(0, 20))
    told = r"lacks the last 10; .*-0: the newest record is 10\.000 s older than the newest one here.* --accept-overlap"
    with pytest.raises(BadInputError, match=told):
        ingest(world, mirror, here=source.name, begins_epoch=True)
    report = ingest(world, mirror, here=source.name, begins_epoch=True, accepts_overlap=True)
    assert report.records_appended == 0
    assert world.read(topic=source.name) == source.records
    mirror.write(make_events(50, 5))
    ingest(world, mirror, here=source.name)
    assert world.read(topic=source.name) == [*source.records, *move(mirror.records[20:], 30)]


def test_topic_with_only_older_records_is_refused(broker: KafkaBroker, world: World) -> None:
    source, other = ingest_source(world, broker, 5), create_live_topic(broker, partitions=1)
    other.write([(0, key, b"older", time_ms - 60_000, ()) for _, key, _, time_ms, _ in make_events(0, 5)])
    with pytest.raises(BadInputError, match=r"-0: the newest record is 60\.000 s older than the newest one here"):
        ingest(world, other, here=source.name, begins_epoch=True)
    assert world.read(topic=source.name) == source.records
    ingest(world, other, here=source.name, begins_epoch=True, accepts_overlap=True)
    assert world.read(topic=source.name) == [*source.records, *move(other.records, 5)]


def test_records_between_those_of_the_log_that_it_never_had_are_never_skipped(
    broker: KafkaBroker, world: World
) -> None:
    source, other = ingest_source(world, broker, 10), create_live_topic(broker, partitions=1)
    rows = make_events(0, 10)
    other.write([*rows[:5], (0, b"key 3", b"not of the log", BASE_MS + 4_500, ()), *rows[5:]])
    for accepts in (False, True):
        with pytest.raises(BadInputError, match=rf"never in {source.name}: {other.name}-0 1\. It is no mirror"):
            ingest(world, other, here=source.name, begins_epoch=True, accepts_overlap=accepts)
    assert world.read(topic=source.name) == source.records


def test_mirror_whose_brokers_set_the_timestamps_is_refused_and_nothing_of_it_skipped(
    broker: KafkaBroker, world: World
) -> None:
    source = ingest_source(world, broker, 10)
    mirror = create_live_topic(broker, partitions=1, message_timestamp_type="LogAppendTime")
    mirror.write(make_events(0, 10))
    with pytest.raises(BadInputError, match="10 are here already"):
        ingest(world, mirror, here=source.name, begins_epoch=True)
    report = ingest(world, mirror, here=source.name, begins_epoch=True, accepts_overlap=True)
    assert report.records_appended == 10


def test_new_epoch_says_what_it_will_do_and_asks(
    broker: KafkaBroker, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = ingest_source(world, broker, 30)
    source.delete()
    again = create_live_topic(broker, 1, source.name)
    again.write(make_events(100, 7))
    monkeypatch.setenv("WINNOW_HOME", str(world.installation.settings.home))
    command = ("ingest", "kafka", source.name, "--bootstrap-servers", broker.bootstrap_servers, "--new-epoch")
    told = winnow(*command, code=2).stderr
    assert f"Epoch 2 of {source.name} would begin" in told
    assert "The 30 records here stay where they are." in told
    assert "the records of 7 offsets at the brokers" in told
    assert f"{source.name}-0 +30" in told
    assert "Add --yes" in told
    monkeypatch.setattr("typer.testing._NamedTextIOWrapper.isatty", lambda _: True)
    refused = CliRunner().invoke(app, command, input="n\n")
    assert refused.exit_code == 2
    assert "Begin this epoch" in refused.stderr
    assert world.read(topic=source.name) == source.records
    assert CliRunner().invoke(app, command, input="y\n").exit_code == 0
    moved = move(again.records, 30)
    assert world.read(topic=source.name) == [*source.records, *moved]


def test_new_epoch_of_a_script_needs_yes(broker: KafkaBroker, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    source = ingest_source(world, broker, 3)
    source.delete()
    again = create_live_topic(broker, 1, source.name)
    again.write(make_events(100, 2))
    monkeypatch.setenv("WINNOW_HOME", str(world.installation.settings.home))
    options = ("--bootstrap-servers", broker.bootstrap_servers, "--new-epoch", "--yes")
    winnow("ingest", "kafka", source.name, *options)
    assert len(world.read(topic=source.name)) == 5
    assert "no new epoch" in winnow("ingest", "kafka", source.name, *options, code=2).stderr
    winnow("ingest", "kafka", source.name, "--accept-overlap", code=2)


def test_epoch_that_was_shown_is_not_compared_again_unless_something_changed(
    broker: KafkaBroker, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[str] = []
    compare = kafka_new_epoch.compare_new_epoch

    def count(*args: Any) -> NewEpoch:
        compared.append(args[0].topic)
        return compare(*args)

    monkeypatch.setattr(kafka_new_epoch, "compare_new_epoch", count)
    monkeypatch.setenv("WINNOW_HOME", str(world.installation.settings.home))
    monkeypatch.setattr("typer.testing._NamedTextIOWrapper.isatty", lambda _: True)
    cluster = Cluster(read_client_settings(broker.bootstrap_servers))
    for comes_more, times in ((False, 1), (True, 2)):
        source = ingest_source(world, broker, 30)
        source.delete()
        again = create_live_topic(broker, 1, source.name)
        again.write(make_events(100, 7))
        compared.clear()
        if comes_more:
            rules = ReadingRules(begins_epoch=True)
            described = cluster.describe_topics([source.name])[source.name]
            previewed = preview_epoch(world.installation, source.name, cluster, described, rules)
            again.write(make_events(107, 2))
            wanted = KafkaRequest(rules, previewed=previewed)
            assert not ingest_kafka_topics(
                world.installation, cluster, {source.name: source.name}, wanted, as_of_ms=1
            ).failures
        else:
            command = ["ingest", "kafka", source.name, "--bootstrap-servers", broker.bootstrap_servers, "--new-epoch"]
            assert CliRunner().invoke(app, command, input="y\n").exit_code == 0
        assert compared == [source.name] * times
        assert world.read(topic=source.name) == [*source.records, *move(again.records, 30)]


def test_epoch_of_an_empty_topic_waits_for_records_or_for_acceptance(broker: KafkaBroker, world: World) -> None:
    source = ingest_source(world, broker, 3)
    source.delete()
    again = create_live_topic(broker, 1, source.name)
    with pytest.raises(BadInputError, match=r"has no records yet, so nothing can be compared .* Run it again when"):
        ingest(world, again, begins_epoch=True)
    ingest(world, again, begins_epoch=True, accepts_overlap=True)
    again.write(make_events(100, 2))
    ingest(world, again)
    assert world.read(topic=source.name) == [*source.records, *move(again.records, 3)]


def test_preview_refuses_an_older_topic_of_fewer_partitions_as_the_ingest_does(
    broker: KafkaBroker, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest records are in the partition that the topic lacks, so nothing of the other is older than there."""
    source = create_live_topic(broker, partitions=2)
    source.write([(0, b"a", b"1", BASE_MS, ()), (1, b"b", b"1", BASE_MS + 60_000, ())])
    ingest(world, source)
    source.delete()
    again = create_live_topic(broker, 1, source.name)
    again.write([(0, b"b", b"0", BASE_MS + 30_000, ())])
    monkeypatch.setenv("WINNOW_HOME", str(world.installation.settings.home))
    command = ("ingest", "kafka", source.name, "--bootstrap-servers", broker.bootstrap_servers, "--new-epoch")
    told = winnow(*command, code=3).stderr
    assert "every record there is older than the newest of" in told
    assert "would begin" not in told
