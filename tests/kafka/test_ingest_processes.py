"""Where much is new, several processes read a topic; whatever becomes of them, each record is in the log once."""

from __future__ import annotations

import random
import subprocess
import sys
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from broker.kafka_broker import KafkaBroker
from tests.kafka.live_topics import LiveTopic, create_live_topic, make_rows
from tests.kafka.test_ingest_kafka import ingest
from tests.support.world import World, define_world, write_jsonl
from winnow.arrivals.broker_range import BROKERS_CHOICE
from winnow.arrivals.run_task import Assignment
from winnow.errors import RunAgainError, ServiceError
from winnow.files import storage
from winnow.kafka.client_settings import read_client_settings
from winnow.kafka.cluster import Cluster
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.ingest.kafka import run as kafka_run
from winnow.pipeline.ingest.kafka.ingest import KafkaRequest, ingest_kafka_topics
from winnow.pipeline.ingest.kafka.run import choose_processes
from winnow.values import documents
from winnow.values.epochs import KAFKA_LAYOUT
from winnow.values.ingest_plans import IngestPlan, IngestRange, PlannedObject
from winnow.values.model import OffsetRange

world = define_world()


@pytest.fixture(autouse=True)
def _few_records_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process for each twenty offsets, on a machine of three cores."""
    monkeypatch.setattr(kafka_run, "MINIMUM_PROCESS_OFFSETS", 20)
    monkeypatch.setattr(kafka_run, "count_cores", lambda: 3)


@pytest.fixture
def topic(broker: KafkaBroker) -> LiveTopic:
    """Three partitions with aborted transactions."""
    made = create_live_topic(broker, partitions=3)
    chosen = random.Random(5)
    made.write(make_rows(chosen, 90, partitions=3))
    made.write_transaction(make_rows(chosen, 20, partitions=3), commits=False)
    made.write(make_rows(chosen, 30, partitions=3))
    return made


def list_data(world: World, topic: LiveTopic) -> list[str]:
    return [entry.uri for entry in storage.list_files(f"{world.head(topic.name).location}/data")]


def list_readers() -> list[psutil.Process]:
    return [each for each in psutil.Process().children() if any("range_process" in word for word in each.cmdline())]


def expect_nothing_landed(world: World, topic: LiveTopic) -> None:
    assert world.read(topic=topic.name) == []
    assert list_data(world, topic) == []
    assert list_readers() == []


def test_partitions_are_read_by_several_processes_and_each_record_is_there_once(world: World, topic: LiveTopic) -> None:
    seen: list[tuple[int, int, int]] = []
    cluster = Cluster(read_client_settings(topic.broker.bootstrap_servers))
    done = ingest_kafka_topics(
        world.installation,
        cluster,
        {topic.name: topic.name},
        KafkaRequest(creates=True),
        as_of_ms=world.clock(),
        on="local",
        progress=lambda *each: seen.append(each),
    )
    assert done.failures == ()
    assert world.read(topic=topic.name) == topic.records
    assert [world.state(p, topic.name).log_end_offset for p in range(3)] == [topic.find_end(p) for p in range(3)]
    live = [each.path for number in range(3) for each in world.segments(number, topic.name)]
    assert len({path.rsplit("/", 2)[1] for path in live}) == 3  # a folder for each process
    assert sorted(list_data(world, topic)) == sorted(live)
    offsets = sum(topic.find_end(partition) for partition in range(3))
    assert seen[-1] == (offsets, offsets, len(topic.records))
    assert list_readers() == []
    topic.write(make_rows(random.Random(6), 90, partitions=3))
    ingest(world, topic)
    assert world.read(topic=topic.name) == topic.records


def test_process_that_dies_is_run_again_and_nothing_lands(
    world: World, topic: LiveTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as dying:
        dying.setattr(kafka_run, "MODULE", "tests.kafka.dying_range_process")
        with pytest.raises(ServiceError) as raised:
            ingest(world, topic)
    assert raised.value.exit_code == 6
    for words in (
        f"The process that read {topic.name}-",
        "signal SIGKILL",
        "Nothing of this call landed",
        "Run it again",
    ):
        assert words in str(raised.value)
    expect_nothing_landed(world, topic)
    ingest(world, topic)
    assert world.read(topic=topic.name) == topic.records


def test_what_a_process_is_refused_is_told_as_of_the_partition(
    world: World, topic: LiveTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = kafka_run.carry_out_in_processes

    def delete_first(*arguments: Any) -> Any:
        topic.delete_records(1, 10)
        return genuine(*arguments)

    monkeypatch.setattr(kafka_run, "carry_out_in_processes", delete_first)
    with pytest.raises(RunAgainError, match=f"deleted records of {topic.name}-1") as raised:
        ingest(world, topic)
    assert raised.value.retryable
    expect_nothing_landed(world, topic)


def test_what_came_from_a_file_meanwhile_is_compared_with_what_is_read_and_the_rest_appended(
    world: World, topic: LiveTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = kafka_run.carry_out_in_processes

    def append_first(*arguments: Any) -> Any:
        done = genuine(*arguments)
        path = write_jsonl(world.path(), topic.records[:5])
        ingest_files(world.installation, topic.name, [path], as_of_ms=world.clock())
        return done

    monkeypatch.setattr(kafka_run, "carry_out_in_processes", append_first)
    report = ingest(world, topic)
    assert report.records_appended == len(topic.records) - 5
    assert world.read(topic=topic.name) == topic.records
    assert list_readers() == []


def test_interrupted_ingest_leaves_neither_files_nor_processes(world: World, topic: LiveTopic) -> None:
    def interrupt(*_: int) -> None:
        raise KeyboardInterrupt

    cluster = Cluster(read_client_settings(topic.broker.bootstrap_servers))
    with pytest.raises(KeyboardInterrupt):
        ingest_kafka_topics(
            world.installation,
            cluster,
            {topic.name: topic.name},
            KafkaRequest(creates=True),
            as_of_ms=world.clock(),
            on="local",
            progress=interrupt,
        )
    expect_nothing_landed(world, topic)


def test_reading_process_ends_with_the_one_that_started_it(world: World, tmp_path: Path) -> None:
    """Its broker is away, so it reads until then; the end of a killed process closes the socket as this does."""
    planned = PlannedObject(0, "Kafka's away-0", {}, "away", 0, 0, {}, None, null_is_empty=False, offsets="exact")
    plan = IngestPlan(
        plan_id="",
        topic="away",
        ingest_id="0" * 32,
        folder=str(tmp_path / "table" / "data" / "ingest"),
        layout=KAFKA_LAYOUT,
        source_topic="away",
        choices={BROKERS_CHOICE: "127.0.0.1:9"},
        readings={},
        partition_count=1,
        needs_keys=False,
        segment_bytes=1 << 20,
        objects=(planned,),
        winnow_version="",
        ranges=(IngestRange(0, OffsetRange(0, 100), (0,)),),
    )
    ours, theirs = Pipe()
    command = [sys.executable, "-m", kafka_run.MODULE, str(theirs.fileno())]
    with ours, subprocess.Popen(command, pass_fds=[theirs.fileno()]) as process:
        theirs.close()
        assigned = Assignment(plan, 0, plan.folder, world.installation.budget, {})
        ours.send_bytes(documents.dump_json(assigned))
        assert not ours.poll(2)
        assert process.poll() is None
        ours.close()
        assert process.wait(60) == 0


def test_one_process_reads_what_is_little_and_none_is_more_than_cores_or_setting() -> None:
    assert [choose_processes(offsets, 4) for offsets in (0, 39, 40, 59, 60, 1_000)] == [1, 1, 2, 2, 3, 3]
    assert [choose_processes(1_000, maximum) for maximum in (1, 2, 8)] == [1, 2, 3]
