"""A log goes on with a mirror of its topic: where MirrorMaker says to look, and where equal records decide."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.kafka_broker import KafkaBroker
from tests.docs.runbook import list_blocks, prompt_program, run_block
from tests.kafka.live_topics import BASE_MS, LiveTopic, create_live_topic
from tests.kafka.test_ingest_kafka import ingest
from tests.kafka.test_ingest_kafka import on as on  # noqa: PLC0414 - a fixture
from tests.kafka.test_mirrors import Row, ingest_source, make_events, move
from tests.support.cli_runner import winnow
from tests.support.world import World, define_world
from winnow.errors import BadInputError, UsageError
from winnow.kafka.client_settings import read_client_settings
from winnow.kafka.cluster import Cluster
from winnow.kafka.offset_syncs import MirrorOrigin, OffsetSync, find_offset_syncs
from winnow.log.reference_chains import read_ledgers
from winnow.pipeline.ingest.kafka import mirror as kafka_mirror

world = define_world()


def make_sync(topic: str, upstream: int, downstream: int, partition: int = 0) -> Row:
    """An offset sync in the bytes that MirrorMaker of Kafka 4.3.1 writes."""
    name = topic.encode()
    key = len(name).to_bytes(2) + name + partition.to_bytes(4)
    return 0, key, upstream.to_bytes(8) + downstream.to_bytes(8), BASE_MS, ()


@pytest.fixture
def syncs(broker: KafkaBroker) -> Iterator[LiveTopic]:
    """An empty topic of offset syncs, as MirrorMaker names and makes it; each test has its own."""
    topic = create_live_topic(broker, 1, "mm2-offset-syncs.A.internal", cleanup_policy="compact")
    yield topic
    topic.delete()


def mirror_events(broker: KafkaBroker, first: int, count: int) -> LiveTopic:
    """A mirror whose offsets lie five above its source's: an aborted transaction is before all."""
    mirror = create_live_topic(broker, partitions=1)
    mirror.write_transaction(make_events(1000, 4), commits=False)
    mirror.write(make_events(first, count))
    return mirror


@pytest.mark.parametrize(
    "hints", [[], [(25, 30)], [(25, 999_999)], [(25, 36)], [(25, 0)], [(3, 8), (28, 33), (90, 95), (20, 25)]]
)
def test_epoch_of_a_mirror_begins_with_the_first_record_that_is_not_here(
    broker: KafkaBroker, world: World, syncs: LiveTopic, hints: list[tuple[int, int]]
) -> None:
    """Right or wrong offset syncs only say where to look; without any, the timestamps do."""
    source, mirror = ingest_source(world, broker, 30), mirror_events(broker, 0, 40)
    syncs.write([(0, b"no sync", b"", BASE_MS, ()), *(make_sync(source.name, *hint) for hint in hints)])
    syncs.write([make_sync("another topic", 29, 7)])
    report = ingest(world, mirror, here=source.name, begins_epoch=True, mirror_of=MirrorOrigin(source.name))
    assert report.records_appended == 10
    assert world.read(topic=source.name) == [*source.records, *move(mirror.records[30:], 30)]
    *_, ledger = read_ledgers(world.head(source.name).state)
    assert (ledger.choices["skipped-overlap.0"], ledger.choices["mirror-of"]) == ("0-34", source.name)
    mirror.write(make_events(40, 5))
    ingest(world, mirror, here=source.name)
    assert world.read(topic=source.name) == [*source.records, *move(mirror.records[30:], 30)]


def test_offset_sync_finds_the_place_where_the_timestamps_do_not(
    broker: KafkaBroker, world: World, syncs: LiveTopic, monkeypatch: pytest.MonkeyPatch, on: str
) -> None:
    """All records are of one time, and the end of the log is further from the mirror's beginning than is read."""
    monkeypatch.setattr(kafka_mirror, "_MAXIMUM_READ", 20)
    source, mirror = (create_live_topic(broker, partitions=1) for _ in range(2))
    rows: list[Row] = [(0, key, value, BASE_MS, (("v", b"1"),)) for _, key, value, _, _ in make_events(0, 60)]
    source.write(rows[:50])
    ingest(world, source)
    mirror.write(rows)
    with pytest.raises(BadInputError, match=rf"{mirror.name}-0: it lacks the newest records here"):
        ingest(world, mirror, on, source.name, begins_epoch=True, mirror_of=MirrorOrigin(source.name))
    syncs.write([make_sync(source.name, 45, 45)])
    origin = MirrorOrigin(source.name, syncs.name, read_client_settings(broker.bootstrap_servers))
    ingest(world, mirror, on, source.name, begins_epoch=True, mirror_of=origin)
    assert world.read(topic=source.name) == [*source.records, *move(mirror.records[50:], 50)]


def test_nearest_sync_is_the_one_written_last_of_those_at_or_before_the_last_record(
    broker: KafkaBroker, syncs: LiveTopic
) -> None:
    cluster, origin = Cluster(read_client_settings(broker.bootstrap_servers)), MirrorOrigin("orders")
    syncs.write([make_sync("orders", *pair) for pair in ((40, 4), (7, 7), (29, 33), (30, 34))])
    syncs.write([make_sync("orders", 12, 3, partition=1), make_sync("another", 20, 5), (0, b"", b"", BASE_MS, ())])
    hints = find_offset_syncs(cluster, origin, {0: 29, 1: 11, 2: 5})
    assert hints.topics == (syncs.name,)
    assert hints.by_partition == {0: (OffsetSync("orders", 0, 29, 33),)}


def test_mirror_that_lags_or_has_other_headers_is_refused(broker: KafkaBroker, world: World, syncs: LiveTopic) -> None:
    source, behind = ingest_source(world, broker, 30), mirror_events(broker, 0, 29)
    origin = MirrorOrigin(source.name)
    syncs.write([make_sync(source.name, 25, 30)])
    with pytest.raises(BadInputError, match=r"of the newest 30 here it lacks the last 1") as refused:
        ingest(world, behind, here=source.name, begins_epoch=True, mirror_of=origin)
    assert "taken from mm2-offset-syncs.A.internal" in str(refused.value)
    other = create_live_topic(broker, partitions=1)
    other.write([(0, key, value, time_ms, (("h", b""),)) for _, key, value, time_ms, _ in make_events(0, 40)])
    with pytest.raises(BadInputError, match=r"-0: none of the newest records here was found"):
        ingest(world, other, here=source.name, begins_epoch=True, mirror_of=origin)
    assert world.read(topic=source.name) == source.records
    behind.write(make_events(0, 32)[29:])
    ingest(world, behind, here=source.name, begins_epoch=True, mirror_of=origin)
    assert world.read(topic=source.name) == [*source.records, *move(behind.records[29 + 1 :], 30)]


def test_records_that_were_aborted_at_the_source_are_not_appended_from_a_mirror_that_has_them(
    broker: KafkaBroker, world: World
) -> None:
    """MirrorMaker reads uncommitted records unless it is told not to, and commits them.

    Behind the end of the log nothing tells those from others.
    """
    source = create_live_topic(broker, partitions=1)
    source.write(make_events(0, 10))
    source.write_transaction(make_events(100, 3), commits=False)
    source.write(make_events(10, 10))
    ingest(world, source)
    mirror = create_live_topic(broker, partitions=1)
    mirror.write([*make_events(0, 10), *make_events(100, 3), *make_events(10, 15), *make_events(200, 2)])
    report = ingest(world, mirror, here=source.name, begins_epoch=True, mirror_of=MirrorOrigin(source.name))
    assert any(f"aborted at the source): {mirror.name}-0 3." in notice for notice in report.notices)
    assert world.read(topic=source.name) == [*source.records, *move(mirror.records[23:], 24)]


def test_mirror_of_another_topic_and_a_topic_of_syncs_that_is_not_there_are_refused(
    broker: KafkaBroker, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, mirror = ingest_source(world, broker, 3), mirror_events(broker, 0, 3)
    with pytest.raises(UsageError, match=f"Say --mirror-of {source.name} if"):
        ingest(world, mirror, here=source.name, begins_epoch=True, mirror_of=MirrorOrigin("another"))
    with pytest.raises(BadInputError, match=r"has no topic mm2-nothing\. .*--offset-syncs-at"):
        ingest(
            world,
            mirror,
            here=source.name,
            begins_epoch=True,
            mirror_of=MirrorOrigin(source.name, "mm2-nothing", read_client_settings(broker.bootstrap_servers)),
        )
    monkeypatch.setenv("WINNOW_HOME", str(world.installation.settings.home))
    command = ("ingest", "kafka", source.name, "--source-topic", mirror.name)
    servers = ("--bootstrap-servers", broker.bootstrap_servers)
    winnow(*command, *servers, "--mirror-of", source.name, code=2)
    winnow(*command, *servers, "--new-epoch", "--offset-syncs-topic", "mm2-nothing", code=2)
    told = winnow(*command, *servers, "--new-epoch", "--mirror-of", source.name, code=2).stderr
    assert f"As a mirror of {source.name}, by the order of the records" in told
    assert "Add --yes" in told
    assert world.read(topic=source.name) == source.records


def test_commands_of_the_document_continue_an_archive_from_a_mirror(
    broker: KafkaBroker, world: World, syncs: LiveTopic, tmp_path: Path
) -> None:
    source, mirror = ingest_source(world, broker, 30), mirror_events(broker, 0, 40)
    syncs.write([make_sync(source.name, 20, 25)])
    (block,) = list_blocks("kafka.md", "mirror")
    typed = block.replace("A.orders", "MIRROR").replace(" orders", f" {source.name}").replace("MIRROR", mirror.name)
    env = {
        "WINNOW_SOURCE__BOOTSTRAP_SERVERS": broker.bootstrap_servers,
        "WINNOW_HOME": str(world.installation.settings.home),
    }
    with prompt_program("winnow", tmp_path) as scripts:
        output = run_block(typed, tmp_path, env, first_on_path=scripts)
    assert f"{source.name}: 10 records appended from Kafka" in output
    assert f"Nothing new in Kafka's {mirror.name}." in output
    assert world.read(topic=source.name) == [*source.records, *move(mirror.records[30:], 30)]
