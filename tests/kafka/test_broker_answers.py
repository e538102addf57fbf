"""An answer of the brokers that is none is "run it again" for its topic alone, and proves nothing about records."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from broker.kafka_broker import KafkaBroker
from tests.kafka.live_topics import LiveTopic, create_live_topic, make_rows
from tests.kafka.test_ingest_kafka import ingest, ingest_all
from tests.support.world import World, define_world
from winnow.errors import ServiceError, WinnowError
from winnow.kafka import cluster as cluster_module
from winnow.kafka.client_settings import read_client_settings
from winnow.kafka.cluster import Cluster
from winnow.kafka.range_reader import BrokerRange, RangeReader
from winnow.pipeline.ingest.kafka.following import follow_topics
from winnow.pipeline.ingest.kafka.ingest import KafkaRequest
from winnow.values.model import Headers

NO_OFFSET = -1001
Row: TypeAlias = tuple[int, bytes | None, bytes | None, int, Headers]


world = define_world()


def lose_offset(monkeypatch: pytest.MonkeyPatch, topic: LiveTopic, partition: int, **asked: bool) -> None:
    """Let the client hand out no offset of a partition; all else is the broker's own answer."""
    genuine = Cluster._list_offsets

    def list_offsets(self: Cluster, *args: Any, **options: Any) -> dict[tuple[str, int], int]:
        answer = genuine(self, *args, **options)
        if options.items() >= asked.items() and (topic.name, partition) in answer:
            answer[topic.name, partition] = NO_OFFSET
        return answer

    monkeypatch.setattr(Cluster, "_list_offsets", list_offsets)


@pytest.mark.parametrize(
    "asked", [{"earliest": True}, {"earliest": False}, {"uncommitted": True}], ids=["start", "end", "high watermark"]
)
@pytest.mark.parametrize("begins_epoch", [True, False])
def test_offset_that_is_none_is_run_again_and_begins_no_epoch(
    broker: KafkaBroker, world: World, monkeypatch: pytest.MonkeyPatch, *, asked: dict[str, bool], begins_epoch: bool
) -> None:
    topic = create_live_topic(broker, partitions=2)
    topic.write(make_rows(random.Random(1), 30))
    ingest(world, topic)
    with monkeypatch.context() as patched:
        lose_offset(patched, topic, 1, **asked)
        with pytest.raises(ServiceError, match=f"no valid answer about {topic.name}-1: .*-1001.* Run it again") as told:
            ingest(world, topic, begins_epoch=begins_epoch)
    assert "set back" not in str(told.value)
    assert "--new-epoch" not in str(told.value)
    assert world.read(topic=topic.name) == topic.records
    assert len(world.head(topic.name).state.epochs) == 1
    topic.write(make_rows(random.Random(2), 10))
    ingest(world, topic)
    assert world.read(topic=topic.name) == topic.records


def test_one_topic_without_a_valid_answer_stops_no_other(
    broker: KafkaBroker, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound, lost = create_live_topic(broker, partitions=1), create_live_topic(broker, partitions=2)
    for topic in (sound, lost):
        topic.write(make_rows(random.Random(3), 20, partitions=topic.partitions))
    with monkeypatch.context() as patched:
        lose_offset(patched, lost, 0, earliest=False)
        names = {sound.name: sound.name, lost.name: lost.name}
        outcome = ingest_all(world, names, broker)
        cluster = Cluster(read_client_settings(broker.bootstrap_servers))
        wanted = KafkaRequest(creates=True)
        followed = follow_topics(world.installation, cluster, list(names), wanted, as_of_ms=world.clock())
    assert [each.topic for each in outcome.reports] == [sound.name]
    assert world.read(topic=sound.name) == sound.records
    for failures in (outcome.failures, followed.failures):
        (failure,) = failures
        assert failure.topic == lost.name
        assert isinstance(failure.error, ServiceError)
        assert f"{lost.name}-0" in str(failure.error)


def refuse_offsets(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, partition: int, code: int, times: int) -> None:
    """Let the broker refuse the offsets of a partition so many times."""
    genuine = cluster._admin.list_offsets
    refused: list[int] = []

    def list_offsets(asked: Any, **options: Any) -> Any:
        answers = dict(genuine(asked, **options))
        for each in filter(lambda each: each.partition == partition and len(refused) < times, asked):
            refused.append(code)
            answers[each] = Future()
            answers[each].set_exception(KafkaException(KafkaError(code)))
        return answers

    monkeypatch.setattr(cluster, "_admin", SimpleNamespace(list_offsets=list_offsets, poll=cluster._admin.poll))


@pytest.mark.parametrize("code", [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE])
def test_partition_whose_leader_has_just_changed_is_asked_again(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """As a topic that has just been created, at a broker that does not know of it yet."""
    topic = create_live_topic(broker, partitions=2)
    topic.write(make_rows(random.Random(6), 20))
    cluster = Cluster(read_client_settings(broker.bootstrap_servers))
    wanted = [(topic.name, 0), (topic.name, 1)]
    ends = cluster._list_offsets(wanted, {}, earliest=False)
    problems: dict[str, WinnowError] = {}
    with monkeypatch.context() as patch:
        refuse_offsets(patch, cluster, 1, code, 2)
        assert cluster._list_offsets(wanted, problems, earliest=False) == ends
    assert problems == {}
    monkeypatch.setattr(cluster_module, "ELECTION_S", 0.3)
    refuse_offsets(monkeypatch, cluster, 1, code, 100)
    assert cluster._list_offsets(wanted, problems, earliest=False) == {key: ends[key] for key in wanted[:1]}
    assert f"{topic.name}-1" in str(problems[topic.name])


class LateProducer(RangeReader):
    """A reader to whose partition further records come whenever the broker says that there is nothing more."""

    def __init__(self, topic: LiveTopic, rows: Iterable[Row]) -> None:
        super().__init__(read_client_settings(topic.broker.bootstrap_servers))
        self.topic, self.rows = topic, iter(rows)
        self.ends = 0

    def _judge(self, event: Message, wanted: BrokerRange) -> bool:
        self.ends += 1
        self.topic.write(list(itertools.islice(self.rows, 5)))
        return super()._judge(event, wanted)


def test_early_end_of_a_partition_is_not_the_end_of_the_range(broker: KafkaBroker) -> None:
    """A broker that does not know of the newest records yet says that the partition ends before them."""
    topic = create_live_topic(broker, partitions=1)
    topic.write(make_rows(random.Random(4), 5, partitions=1))
    with LateProducer(topic, make_rows(random.Random(5), 10, partitions=1)) as reader:
        batches = list(reader.read(BrokerRange(topic.name, 0, 0, 15)))
    assert reader.ends >= 2
    assert [offset for batch in batches for offset in batch.column("offset").to_pylist()] == list(range(15))
