"""Following many Kafka topics: what is new arrives, what has nothing new is not opened, and the lag is known."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from broker.kafka_broker import KafkaBroker
from tests.support.waiting import wait_until
from tests.support.world import FakeClock, World, open_world
from winnow.clock import read_wall_clock_ms
from winnow.errors import BadInputError
from winnow.kafka.client_settings import read_client_settings
from winnow.kafka.cluster import Cluster, TopicDescriptions
from winnow.log.head import Head
from winnow.log.topic_log import TopicLog
from winnow.pipeline.compaction.assess import assess_topics
from winnow.pipeline.ingest.kafka.following import FollowReport, follow_topics
from winnow.pipeline.ingest.kafka.ingest import KafkaRequest
from winnow.pipeline.ingest.undo import undo_ingest
from winnow.pipeline.monitor.metrics import compute_forecast, load_deadlines, measure_topic
from winnow.pipeline.monitor.watch import watch_topics
from winnow.planning.kafka_configuration import TakingRules
from winnow.store.ingest_lag import IngestLag

MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
LAG = {"cleanup.policy": "compact", "max.compaction.lag.ms": str(DAY_MS)}


class Follower:
    """A world that follows topics of the broker whose names begin with ``prefix``."""

    def __init__(self, world: World, broker: KafkaBroker, prefix: str) -> None:
        self.world = world
        self.installation = world.installation
        self.prefix = prefix
        self.cluster = Cluster(read_client_settings(broker.bootstrap_servers))
        self.servers = broker.bootstrap_servers
        self._producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        self._admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})

    def create(self, *names: str, partitions: int = 1, config: dict[str, str] | None = None) -> list[str]:
        """Create topics at the broker."""
        topics = [f"{self.prefix}.{name}" for name in names]
        made = self._admin.create_topics(
            [NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config or {}) for topic in topics]
        )
        for future in made.values():
            future.result()
        return topics

    def delete(self, topic: str) -> None:
        """Delete a topic at the broker."""
        self._admin.delete_topics([topic])[topic].result()
        time.sleep(0.5)

    def produce(self, topic: str, *keys: str, timestamp_ms: int | None = None, partition: int = 0) -> None:
        """Write a record for each key."""
        refused: list[object] = []
        if partition:
            # The client knows of partitions that were added a moment ago only once it has asked.
            wait_until(lambda: partition in self._producer.list_topics(topic, timeout=30).topics[topic].partitions)
        for key in keys:
            stamp = read_wall_clock_ms() if timestamp_ms is None else timestamp_ms
            self._producer.produce(
                topic,
                key=key,
                value=f"{key}-{stamp}",
                timestamp=stamp,
                partition=partition,
                on_delivery=lambda error, _: refused.append(error),
            )
        assert self._producer.flush(30) == 0
        assert set(refused) == {None}

    @contextmanager
    def open_transaction(self) -> Iterator[Producer]:
        """Begin a transaction that is committed at the end of the block."""
        options = {"bootstrap.servers": self.cluster.settings.bootstrap_servers, "transactional.id": self.prefix}
        writer = Producer({**options, "transaction.timeout.ms": 600_000})
        writer.init_transactions()
        writer.begin_transaction()
        yield writer
        writer.commit_transaction()

    def wait_until_stable(self, topic: str) -> None:
        """Wait until the markers that end a transaction are there."""
        wait_until(lambda: not self.cluster.describe_topics([topic])[topic].is_held)

    def follow(self, topics: Sequence[str]) -> FollowReport:
        """Follow ``topics`` once, now."""
        self.world.clock.now_ms = max(self.world.clock.now_ms, read_wall_clock_ms())
        wanted = KafkaRequest(creates=True, configuration=TakingRules(takes=True))
        return follow_topics(self.installation, self.cluster, topics, wanted, as_of_ms=self.world.clock())

    def keys(self, topic: str) -> list[bytes | None]:
        """The keys of the log, in order."""
        return [each.key for each in self.world.read(topic=topic)]


@pytest.fixture
def follower(tmp_path: Path, broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Follower]:
    prefix = f"follow-{tmp_path.name}"
    lake = {"WINNOW_SOURCE__BOOTSTRAP_SERVERS": broker.bootstrap_servers}
    lake["WINNOW_SOURCE__TOPICS_REGEX"] = rf"{prefix}\..*"
    with open_world(tmp_path, FakeClock(read_wall_clock_ms()), lake) as world:
        yield Follower(world, broker, prefix)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The topics whose logs were opened at a head."""
    return note_opened_topics(monkeypatch)


def note_opened_topics(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note the topics whose logs are opened at a head from here on."""
    found: list[str] = []
    for name in ("head", "newest_head"):
        monkeypatch.setattr(TopicLog, name, _note_topic(getattr(TopicLog, name), found))
    return found


def _note_topic(genuine: Callable[..., Head], found: list[str]) -> Callable[..., Head]:
    def head(log: TopicLog, *, even_deleted: bool = False) -> Head:
        found.append(log.topic)
        return genuine(log, even_deleted=even_deleted)

    return head


def test_topics_are_created_and_followed_and_one_that_has_nothing_new_is_not_opened(
    follower: Follower, opened: list[str]
) -> None:
    topics = follower.create("a", "b", "c", partitions=2)
    for topic in topics:
        follower.produce(topic, "k1", "k2")
    first = follower.follow(topics)
    assert [each.records_appended for each in first.reports] == [2, 2, 2]
    follower.follow(topics)  # a look that finds nothing
    opened.clear()
    follower.produce(topics[1], "k3", partition=1)
    second = follower.follow(topics)
    assert second.unchanged == 2
    assert [(each.topic, each.records_appended) for each in second.reports] == [(topics[1], 1)]
    assert set(opened) == {topics[1]}
    assert follower.keys(topics[1]) == [b"k1", b"k2", b"k3"]


@pytest.mark.parametrize("takes", [True, False])
def test_brokers_are_asked_once_about_topics_with_something_new(
    follower: Follower, monkeypatch: pytest.MonkeyPatch, *, takes: bool
) -> None:
    """Their configuration is compared all the same."""
    topics = follower.create("once", "idle", config={"max.compaction.lag.ms": "172800000"})
    follower.produce(topics[0], "k1")
    asked: list[list[str]] = []
    describe = Cluster.describe_topics

    def note(cluster: Cluster, names: Sequence[str], *, configuration: bool = False) -> TopicDescriptions:
        # Whether a topic still is the same is asked without it, after its records were read.
        if configuration:
            asked.append(list(names))
        return describe(cluster, names, configuration=configuration)

    monkeypatch.setattr(Cluster, "describe_topics", note)
    wanted = KafkaRequest(creates=True, configuration=TakingRules(takes=takes))
    for part in range(3):
        asked.clear()
        report = follow_topics(follower.installation, follower.cluster, topics, wanted, as_of_ms=follower.world.clock())
        assert not report.failures
        assert asked == ([topics] if takes else [])
        if not part:
            notices = " ".join(notice for each in report.reports for notice in each.notices)
            assert ("max.compaction.lag.ms differs" in notices) is not takes
            follower.produce(topics[0], "k2")
    assert follower.keys(topics[0]) == [b"k1", b"k2"]


def test_a_log_that_another_commit_changed_is_looked_at_again(follower: Follower) -> None:
    """What was known of its head says nothing any more: here a call was taken back."""
    (topic,) = follower.create("undone")
    follower.produce(topic, "k1")
    follower.follow([topic])
    follower.produce(topic, "k2")
    appended = follower.follow([topic]).reports[0]
    assert follower.follow([topic]).unchanged == 0
    assert follower.follow([topic]).unchanged == 1
    assert appended.ingest_id is not None
    undo_ingest(follower.installation, topic, appended.ingest_id)
    assert follower.keys(topic) == [b"k1"]
    assert follower.follow([topic]).reports[0].records_appended == 1
    assert follower.keys(topic) == [b"k1", b"k2"]


def test_one_topics_failure_stops_no_other_and_running_again_changes_nothing(follower: Follower) -> None:
    topics = follower.create("good", "again", "other")
    for topic in topics:
        follower.produce(topic, "k1")
    follower.follow(topics)
    lag = follower.installation.store.ingest_lags.find(topics[1])
    follower.delete(topics[1])
    follower.create("again")
    follower.produce(topics[1], "k1", "k2")
    follower.produce(topics[2], "k2")
    for appended in (1, 0):
        found = follower.follow(topics)
        assert [(each.topic, type(each.error)) for each in found.failures] == [(topics[1], BadInputError)]
        assert sum(each.records_appended for each in found.reports) == appended
    assert follower.keys(topics[2]) == [b"k1", b"k2"]
    # Offsets of another topic say nothing about this log.
    assert follower.installation.store.ingest_lags.find(topics[1]) == lag


def test_lag_counts_what_is_missing_since_the_first_record_that_is(follower: Follower) -> None:
    """And it ages while nobody looks."""
    (topic,) = follower.create("late", config=LAG)
    follower.produce(topic, "k1")
    follower.follow([topic])
    installation, clock = follower.installation, follower.world.clock
    complete = installation.store.ingest_lags.summarize(topic)
    assert complete is not None
    assert complete.records_behind == 0
    assert complete.complete_until_ms == complete.looked_at_ms
    clock.now_ms += 10 * MINUTE_MS
    measured = measure_topic(installation, topic, as_of_ms=clock())
    assert measured.records_behind == 0
    assert measured.behind_ms == measured.look_age_ms == clock() - complete.looked_at_ms

    stamp_ms = complete.looked_at_ms - HOUR_MS
    follower.produce(topic, "k2", "k3", timestamp_ms=stamp_ms)
    fail_to_ingest(follower, topic)
    found = installation.store.ingest_lags.summarize(topic)
    assert found is not None
    assert (found.records_behind, found.complete_until_ms) == (2, stamp_ms)
    measured = measure_topic(installation, topic, as_of_ms=clock())
    assert (measured.records_behind, measured.behind_ms) == (2, clock() - stamp_ms)
    # Its deadline counts from Kafka's timestamp, wherever the record is.
    assert measured.next_deadline_ms == stamp_ms + DAY_MS - clock()
    (prospect,) = compute_forecast(
        installation, [load_deadlines(installation, topic, as_of_ms=clock())], as_of_ms=clock()
    ).prospects
    assert (prospect.outlook.value, prospect.deadline_ms) == ("not_ingested", stamp_ms + DAY_MS)


def test_a_transaction_that_goes_on_writing_is_counted_anew_though_the_log_is_not_opened(
    follower: Follower, opened: list[str]
) -> None:
    """And what a failed call left out is said beside it."""
    (topic,) = follower.create("held", config=LAG)
    began_ms = read_wall_clock_ms() - HOUR_MS
    follower.produce(topic, "k1")
    follower.follow([topic])
    with follower.open_transaction() as writer:
        writer.produce(topic, "t1", "t1", timestamp=began_ms)
        assert writer.flush(30) == 0
        follower.follow([topic])
        lags = []
        for key in ("t2", "t3"):
            writer.produce(topic, key, key)
            assert writer.flush(30) == 0
            opened.clear()
            report = follower.follow([topic])
            assert (report.unchanged, report.held) == (1, 1)
            assert "Open transactions hold back records of 1." in report.sentence
            assert opened == []
            lags.append(follower.installation.store.ingest_lags.find(topic)[0])
        looked_ms = [lag.looked_at_ms for lag in lags]
        assert lags == [
            IngestLag(topic, 0, looked_ms[number], 0, began_ms, began_ms + DAY_MS, 2 + number, began_ms)
            for number in range(2)
        ]
        # The state of the log is the same, so nothing is read; an alert names what is held.
        watch_topics(follower.installation)
        assert list_alerts(follower, topic) == {}
        follower.world.clock.now_ms = began_ms + DAY_MS + HOUR_MS
        watch_topics(follower.installation)
        assert "0 and 3 held by an open transaction" in list_alerts(follower, topic)["deadline_missed"]
        follower.world.clock.now_ms = read_wall_clock_ms()
    follower.wait_until_stable(topic)
    fail_to_ingest(follower, topic)
    lag = follower.installation.store.ingest_lags.find(topic)[0]
    assert (lag.records_behind, lag.records_uncommitted, lag.open_since_ms) == (4, 0, None)
    assert lag.complete_until_ms == began_ms
    follower.follow([topic])
    lag = follower.installation.store.ingest_lags.find(topic)[0]
    assert (lag.records_behind, lag.records_uncommitted) == (0, 0)
    assert lag.complete_until_ms == lag.looked_at_ms
    assert follower.keys(topic) == [b"k1", b"t1", b"t2", b"t3"]


def fail_to_ingest(follower: Follower, topic: str) -> None:
    """Follow a topic whose log takes no commit."""
    with pytest.MonkeyPatch.context() as patch:

        def refuse(*_: object, **__: object) -> None:
            raise BadInputError("No commit today.")

        patch.setattr(TopicLog, "commit", refuse)
        assert follower.follow([topic]).failures


@pytest.mark.parametrize("is_missing", [True, False], ids=["records are missing", "nobody looked"])
def test_a_deadline_that_the_ingest_makes_impossible_is_alerted_and_recovers(
    follower: Follower, is_missing: bool
) -> None:
    """Deleted within a day in the archive too: a record counts from its timestamp in Kafka."""
    (topic,) = follower.create("erased", config=LAG)
    installation, clock = follower.installation, follower.world.clock
    follower.produce(topic, "k1", timestamp_ms=clock() - 2 * DAY_MS)
    follower.follow([topic])
    assert follower.world.compact(topic=topic) is not None
    assess_topics(installation, [topic], as_of_ms=clock())  # nothing in the log has a deadline
    watch_topics(installation)
    assert list_alerts(follower, topic) == {}
    if is_missing:
        follower.produce(topic, "k2", timestamp_ms=clock() - DAY_MS - HOUR_MS)
        fail_to_ingest(follower, topic)
    else:
        clock.now_ms += DAY_MS - 10 * MINUTE_MS
        watch_topics(installation)
        assert list(list_alerts(follower, topic)) == ["deadline_near"]
        clock.now_ms += HOUR_MS
    watch_topics(installation)
    found = list_alerts(follower, topic)
    assert list(found) == ["deadline_missed"]
    assert measure_topic(installation, topic, as_of_ms=clock()).overdue == int(is_missing)
    expected = "offsets of the Kafka topic that are not in the log: 1," if is_missing else "nothing was ingested"
    assert expected in found["deadline_missed"]

    clock.now_ms = read_wall_clock_ms()
    assert not follower.follow([topic]).failures
    follower.world.compact(topic=topic, attempt="a2")
    watch_topics(installation)
    assert list_alerts(follower, topic) == {}


def list_alerts(follower: Follower, topic: str) -> dict[str, str]:
    """The open alerts of a topic: their messages by kind."""
    return {
        each.kind: each.message or "" for each in follower.installation.store.alerts.list_open() if each.topic == topic
    }
