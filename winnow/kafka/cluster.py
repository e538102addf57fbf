"""What a Kafka cluster says of its topics: their ids, partitions, offsets and configuration. Reads no record."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from winnow.clock import read_wall_clock_ms
from winnow.config.kafka_settings import Origin, SourceSetting
from winnow.config.topic import is_topic_key
from winnow.errors import WinnowError
from winnow.kafka.answers import check_offsets, find_leaderless
from winnow.kafka.client import NOTHING_CHANGED, ConnectionTrouble, explain_kafka_error, make_admin_client
from winnow.kafka.client_settings import ClientSettings
from winnow.values.epochs import format_topic_id

if TYPE_CHECKING:
    from concurrent.futures import Future

    from confluent_kafka import KafkaError

REQUEST_TIMEOUT_S = 20.0
NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""Kafka's ``Uuid.ZERO_UUID``: these brokers give topics no ids."""
ELECTION_S = 5.0
"""How long a partition is asked again whose leader has just changed."""
_RETRY_S = 0.2
_BETWEEN_LEADERS = frozenset({5, 6, 74, 75, 78})
"""Kafka's LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, FENCED_ and UNKNOWN_LEADER_EPOCH, OFFSET_NOT_AVAILABLE."""
_NO_SUCH_RECORD = -1
"""What brokers answer where no record is as new as the time that was asked for."""


@dataclass(frozen=True, slots=True)
class BrokerOffsets:
    """Offsets of a topic partition at its brokers.

    ``start_offset``: the log start offset. ``stable_offset``: the last stable offset; every record below it is
    committed or aborted for good. ``end_offset``: the high watermark, or what it was before the last stable offset was
    asked for. ``open_since_ms``: the timestamp of the record at the last stable offset where that is below the high
    watermark; None if it was not read.
    """

    start_offset: int
    stable_offset: int
    end_offset: int
    open_since_ms: int | None = None

    @property
    def records_uncommitted(self) -> int:
        """Offsets that no reader of committed records gets: of an open transaction, and whatever follows them."""
        return max(0, self.end_offset - self.stable_offset)


@dataclass(frozen=True, slots=True)
class BrokerTopic:
    """A topic as its brokers describe it.

    ``topic_id``: given at its creation; another one after it was deleted and created again. None where brokers give
    none. ``configuration``: the values that are set for the topic itself, by Kafka's names. ``settings``: those in
    force, set for the topic or not, of the keys that mean something here. ``looked_at_ms``: a time before the brokers
    were asked for its offsets.
    """

    name: str
    topic_id: str | None
    partitions: Mapping[int, BrokerOffsets]
    configuration: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, SourceSetting] = field(default_factory=dict)
    looked_at_ms: int = field(default=0, compare=False)

    @property
    def is_held(self) -> bool:
        """Whether an open transaction holds back records in any of its partitions."""
        return any(part.records_uncommitted for part in self.partitions.values())


class TopicDescriptions(Mapping[str, BrokerTopic]):
    """The topics that were asked for and exist, by name; iterating gives those that are described.

    ``problems``: of each topic about which the brokers gave no valid answer, why; its own alone. To ask for such a
    topic (``[name]``, ``get``, ``in``) raises that error, so that it is never taken for a topic that is not there.
    """

    def __init__(self, topics: Mapping[str, BrokerTopic], problems: Mapping[str, WinnowError]) -> None:
        self._topics = dict(topics)
        self.problems: Mapping[str, WinnowError] = dict(problems)

    def __getitem__(self, name: str) -> BrokerTopic:
        if name in self.problems:
            raise self.problems[name]
        return self._topics[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._topics)

    def __len__(self) -> int:
        return len(self._topics)


class Cluster:
    """The topics of one Kafka cluster."""

    def __init__(self, settings: ClientSettings, *, left: str = NOTHING_CHANGED) -> None:
        """``left``: what a call that fails has left behind, as of :func:`explain_kafka_error`."""
        self.settings = settings
        self._left = left
        self._trouble = ConnectionTrouble()
        self._admin = make_admin_client(settings, self._trouble)

    def list_topics(self) -> list[str]:
        """Return the names of all topics that are not Kafka's own.

        Raises:
            ServiceError: the cluster cannot be reached.
            ConfigurationError: the client may not ask it.
        """
        from confluent_kafka import KafkaException

        try:
            topics = self._admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics
        except KafkaException as problem:
            raise self._explain(problem.args[0], "listing its topics") from None
        # One that brokers cannot describe now is there all the same: describing it says why.
        gone = {name for name, found in topics.items() if _is_unknown(found.error)}
        return sorted(name for name in topics if name not in gone and not name.startswith("__"))

    def describe_topics(self, names: Iterable[str], *, configuration: bool = False) -> TopicDescriptions:
        """Describe the topics of ``names`` that exist, all of them in four requests.

        ``configuration``: also ask for their configuration. An answer about one topic that is none (a partition
        without a leader, an offset that is not valid, no right to ask) is a problem of that topic alone.

        Raises:
            ServiceError: the cluster cannot be reached.
            ConfigurationError: the client may not ask it.
        """
        wanted = list(dict.fromkeys(names))
        if not wanted:
            return TopicDescriptions({}, {})
        looked_at_ms = read_wall_clock_ms()
        problems: dict[str, WinnowError] = {}
        described = self._describe(wanted, problems)
        partitions = [(name, part.id) for name, topic in described.items() for part in topic.partitions]
        starts = self._list_offsets(partitions, problems, earliest=True)
        # In this order: what was below the high watermark before, and is not stable now, is held by a transaction.
        partitions = [partition for partition in partitions if partition[0] not in problems]
        ends = self._list_offsets(partitions, problems, earliest=False, uncommitted=True)
        partitions = [partition for partition in partitions if partition[0] not in problems]
        stable = self._list_offsets(partitions, problems, earliest=False)
        asked = [name for name in described if name not in problems]
        configurations = self._describe_configurations(asked, problems) if configuration else {}
        topics: dict[str, BrokerTopic] = {}
        for name, topic in described.items():
            numbers = [part.id for part in topic.partitions]
            if name not in problems:
                servers, left = self.settings.bootstrap_servers, self._left
                problem = check_offsets(servers, name, numbers, starts, stable, left=left)
                problem = problem or check_offsets(servers, name, numbers, starts, ends, left=left)
                if problem is not None:
                    problems[name] = problem
            if name not in problems:
                topic_id = str(topic.topic_id)
                bare = BrokerTopic(
                    name,
                    None if topic_id == NO_TOPIC_ID else format_topic_id(topic_id),
                    {
                        number: BrokerOffsets(starts[name, number], stable[name, number], ends[name, number])
                        for number in numbers
                    },
                    looked_at_ms=looked_at_ms,
                )
                topics[name] = _add_configuration(bare, configurations.get(name, {}))
        return TopicDescriptions(topics, problems)

    def add_configurations(self, described: TopicDescriptions) -> TopicDescriptions:
        """Return ``described`` with the configuration of topics that were described without it, in one request.

        Raises:
            ServiceError: the cluster cannot be reached.
            ConfigurationError: the client may not ask it.
        """
        problems = dict(described.problems)
        missing = [name for name, topic in described.items() if not topic.settings]
        configurations = self._describe_configurations(missing, problems)
        topics = {name: topic for name, topic in described.items() if name not in problems}
        complete = {
            name: _add_configuration(topic, configurations[name]) if name in configurations else topic
            for name, topic in topics.items()
        }
        return TopicDescriptions(complete, problems)

    def find_offsets_at(self, name: str, times_ms: Mapping[int, int]) -> dict[int, int]:
        """Find per partition of topic ``name`` the first offset whose record is not older than a time.

        ``times_ms``: milliseconds since the epoch per partition. Partitions without such a record are left out.

        Raises:
            ServiceError: the cluster cannot be reached, or its answer is none.
            ConfigurationError: the client may not ask it.
        """
        from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
        from confluent_kafka.admin._listoffsets import OffsetSpec

        make: Any = OffsetSpec.for_timestamp
        asked = {TopicPartition(name, number): make(max(time_ms, 0)) for number, time_ms in times_ms.items()}
        if not asked:
            return {}
        answers = self._ask(
            lambda: self._admin.list_offsets(
                asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=REQUEST_TIMEOUT_S
            ),
            "listing offsets by time",
        )
        offsets: dict[int, int] = {}
        for partition, future in answers.items():
            try:
                offset = future.result().offset
            except KafkaException as refusal:
                what = f"asking for an offset by time of {name}-{partition.partition}"
                raise self._explain(refusal.args[0], what) from None
            if offset == _NO_SUCH_RECORD:
                continue
            offsets[partition.partition] = offset
        problem = check_offsets(
            self.settings.bootstrap_servers,
            name,
            offsets,
            {(name, number): offset for number, offset in offsets.items()},
            {(name, number): offset for number, offset in offsets.items()},
        )
        if problem is not None:
            raise problem
        return offsets

    def _describe(self, names: list[str], problems: dict[str, WinnowError]) -> dict[str, Any]:
        """Ask for ids and partitions; topics that have a partition without a leader go to ``problems``."""
        from confluent_kafka import KafkaException, TopicCollection

        described: dict[str, Any] = {}
        asked = self._ask(
            lambda: self._admin.describe_topics(TopicCollection(names), request_timeout=REQUEST_TIMEOUT_S),
            "describing topics",
        )
        for name, future in asked.items():
            try:
                described[name] = future.result()
            except KafkaException as refusal:
                error = refusal.args[0]
                if _is_unknown(error):
                    continue
                problem = self._explain(error, f"describing topic {name}")
                if _is_of_the_client(error):
                    raise problem from None
                problems[name] = problem
        leaders = {
            name: {part.id: None if part.leader is None else part.leader.id for part in topic.partitions}
            for name, topic in described.items()
        }
        # One partition without a leader would let the request for the offsets of all topics fail.
        for name, of_topic in leaders.items():
            leaderless = find_leaderless(self.settings.bootstrap_servers, name, of_topic, left=self._left)
            if leaderless is not None:
                problems[name] = leaderless
                del described[name]
        return described

    def _list_offsets(
        self,
        partitions: Iterable[tuple[str, int]],
        problems: dict[str, WinnowError],
        *,
        earliest: bool,
        uncommitted: bool = False,
    ) -> dict[tuple[str, int], int]:
        """Ask for an offset of each partition; the topic of one without an answer goes to ``problems``.

        A partition whose leader has just changed, as that of a topic that has just been created, is asked again for a
        few seconds, as Kafka's own admin client does.
        """
        from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
        from confluent_kafka.admin._listoffsets import OffsetSpec

        make: Any = OffsetSpec.earliest if earliest else OffsetSpec.latest
        spec = make()
        isolation = IsolationLevel.READ_UNCOMMITTED if uncommitted else IsolationLevel.READ_COMMITTED
        asked = {TopicPartition(name, number): spec for name, number in partitions}
        offsets: dict[tuple[str, int], int] = {}
        failure: WinnowError | None = None
        is_of_the_client = True
        until_s = time.monotonic() + ELECTION_S
        while asked:
            answers = self._ask(
                partial(self._admin.list_offsets, asked, isolation_level=isolation, request_timeout=REQUEST_TIMEOUT_S),
                "listing offsets",
            )
            asked = {}
            for partition, future in answers.items():
                try:
                    offsets[partition.topic, partition.partition] = future.result().offset
                except KafkaException as refusal:
                    error = refusal.args[0]
                    if error.code() in _BETWEEN_LEADERS and time.monotonic() < until_s:
                        asked[partition] = spec
                        continue
                    what = f"asking for offsets of {partition.topic}-{partition.partition}"
                    failure = self._explain(error, what)
                    is_of_the_client &= _is_of_the_client(error)
                    problems.setdefault(partition.topic, failure)
            if asked:
                time.sleep(_RETRY_S)
        if failure is not None and not offsets and is_of_the_client:
            raise failure
        return offsets

    def _describe_configurations(
        self, names: Iterable[str], problems: dict[str, WinnowError]
    ) -> dict[str, dict[str, SourceSetting]]:
        """Ask for all values in force, also of keys that mean nothing here."""
        from confluent_kafka import KafkaException, admin

        # The stubs do not export them.
        resource, source = vars(admin)["ConfigResource"], vars(admin)["ConfigSource"]
        origins = {
            source.DYNAMIC_TOPIC_CONFIG.value: Origin.TOPIC,
            source.DYNAMIC_BROKER_CONFIG.value: Origin.BROKER,
            source.STATIC_BROKER_CONFIG.value: Origin.BROKER,
            source.DYNAMIC_DEFAULT_BROKER_CONFIG.value: Origin.CLUSTER,
            source.DEFAULT_CONFIG.value: Origin.DEFAULT,
        }
        asked = [resource(resource.Type.TOPIC, name) for name in names]
        if not asked:
            return {}
        found: dict[str, dict[str, SourceSetting]] = {}
        futures = self._ask(
            lambda: self._admin.describe_configs(asked, request_timeout=REQUEST_TIMEOUT_S), "describing configurations"
        )
        for asked_of, future in futures.items():
            try:
                entries = future.result()
            except KafkaException as refusal:
                error = refusal.args[0]
                problem = self._explain(error, f"describing the configuration of topic {asked_of.name}")
                if _is_of_the_client(error):
                    raise problem from None
                problems[asked_of.name] = problem
                continue
            found[asked_of.name] = {
                name: SourceSetting(entry.value, origins.get(entry.source, Origin.UNKNOWN))
                for name, entry in entries.items()
                if entry.value is not None
            }
        return found

    def _ask(self, request: Any, what: str) -> dict[Any, Future[Any]]:
        from confluent_kafka import KafkaException

        try:
            asked: dict[Any, Future[Any]] = request()
        except KafkaException as problem:
            raise self._explain(problem.args[0], what) from None
        return asked

    def _explain(self, error: Any, what: str) -> WinnowError:
        self._admin.poll(0)  # this is when the library says why connections failed
        cause = self._trouble.find_cause(error)
        return explain_kafka_error(cause, self.settings.bootstrap_servers, what, left=self._left)


def _add_configuration(topic: BrokerTopic, settings: Mapping[str, SourceSetting]) -> BrokerTopic:
    return replace(
        topic,
        configuration={key: each.value for key, each in settings.items() if each.origin is Origin.TOPIC},
        settings={key: each for key, each in settings.items() if is_topic_key(key)},
    )


def _is_of_the_client(error: KafkaError) -> bool:
    """Check whether an error was made by the client, which had no answer, and not by a broker about a topic."""
    return error.code() < 0


def _is_unknown(error: KafkaError | None) -> bool:
    """Check whether brokers say that they have no such topic."""
    from confluent_kafka import KafkaError

    return error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
