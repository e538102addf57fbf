"""What a Kafka cluster says of its topics: their ids, partitions, offsets and configuration. Reads no record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from winnow.clock import read_wall_clock_ms
from winnow.epochs import format_topic_id
from winnow.kafka.client import NOTHING_CHANGED, ConnectionTrouble, explain_kafka_error, make_admin_client
from winnow.kafka.client_settings import ClientSettings

if TYPE_CHECKING:
    from concurrent.futures import Future

REQUEST_TIMEOUT_S = 20.0
NO_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""Kafka's ``Uuid.ZERO_UUID``: these brokers give topics no ids."""


@dataclass(frozen=True, slots=True)
class BrokerOffsets:
    """Offsets of a topic partition at its brokers.

    ``start_offset``: the log start offset. ``stable_offset``: the last stable offset; every record below it is
    committed or aborted for good.
    """

    start_offset: int
    stable_offset: int


@dataclass(frozen=True, slots=True)
class BrokerTopic:
    """A topic as its brokers describe it.

    ``topic_id``: given at its creation; another one after it was deleted and created again. None where brokers give
    none. ``configuration``: the values that are set for the topic itself, by Kafka's names. ``looked_at_ms``: a time
    before the brokers were asked for its offsets.
    """

    name: str
    topic_id: str | None
    partitions: Mapping[int, BrokerOffsets]
    configuration: Mapping[str, str] = field(default_factory=dict)
    looked_at_ms: int = field(default=0, compare=False)


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
        return sorted(name for name, found in topics.items() if found.error is None and not name.startswith("__"))

    def describe_topics(self, names: Iterable[str], *, configuration: bool = False) -> dict[str, BrokerTopic]:
        """Describe the topics of ``names`` that exist, all of them in three requests.

        ``configuration``: also ask for their configuration.

        Raises:
            ServiceError: the cluster cannot be reached.
            ConfigurationError: the client may not ask it.
        """
        from confluent_kafka import KafkaError, KafkaException, TopicCollection

        wanted = list(dict.fromkeys(names))
        if not wanted:
            return {}
        looked_at_ms = read_wall_clock_ms()
        described: dict[str, Any] = {}
        asked = self._ask(
            lambda: self._admin.describe_topics(TopicCollection(wanted), request_timeout=REQUEST_TIMEOUT_S),
            "describing topics",
        )
        for name, future in asked.items():
            try:
                described[name] = future.result()
            except KafkaException as problem:
                if problem.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise self._explain(problem.args[0], f"describing topic {name}") from None
        partitions = [(name, each.id) for name, topic in described.items() for each in topic.partitions]
        starts = self._list_offsets(partitions, earliest=True)
        ends = self._list_offsets(partitions, earliest=False)
        configurations = self._describe_configurations(described) if configuration else {}
        return {
            name: BrokerTopic(
                name,
                None if str(topic.topic_id) == NO_TOPIC_ID else format_topic_id(str(topic.topic_id)),
                {each.id: BrokerOffsets(starts[name, each.id], ends[name, each.id]) for each in topic.partitions},
                configurations.get(name, {}),
                looked_at_ms,
            )
            for name, topic in described.items()
        }

    def _list_offsets(self, partitions: Iterable[tuple[str, int]], *, earliest: bool) -> dict[tuple[str, int], int]:
        from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
        from confluent_kafka.admin._listoffsets import OffsetSpec

        make: Any = OffsetSpec.earliest if earliest else OffsetSpec.latest
        spec = make()
        asked = {TopicPartition(name, number): spec for name, number in partitions}
        if not asked:
            return {}
        found = self._ask(
            lambda: self._admin.list_offsets(
                asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=REQUEST_TIMEOUT_S
            ),
            "listing offsets",
        )
        offsets = {}
        for partition, future in found.items():
            try:
                offsets[partition.topic, partition.partition] = future.result().offset
            except KafkaException as problem:
                what = f"asking for offsets of {partition.topic}-{partition.partition}"
                raise self._explain(problem.args[0], what) from None
        return offsets

    def _describe_configurations(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        from confluent_kafka import KafkaException, admin

        # The stubs do not export them.
        resource, source = vars(admin)["ConfigResource"], vars(admin)["ConfigSource"]
        asked = [resource(resource.Type.TOPIC, name) for name in names]
        if not asked:
            return {}
        found: dict[str, dict[str, str]] = {}
        futures = self._ask(
            lambda: self._admin.describe_configs(asked, request_timeout=REQUEST_TIMEOUT_S), "describing configurations"
        )
        for asked_of, future in futures.items():
            try:
                entries = future.result()
            except KafkaException as problem:
                what = f"describing the configuration of topic {asked_of.name}"
                raise self._explain(problem.args[0], what) from None
            found[asked_of.name] = {
                name: entry.value
                for name, entry in entries.items()
                if entry.source == source.DYNAMIC_TOPIC_CONFIG.value and entry.value is not None
            }
        return found

    def _ask(self, request: Any, what: str) -> dict[Any, Future[Any]]:
        from confluent_kafka import KafkaException

        try:
            asked: dict[Any, Future[Any]] = request()
        except KafkaException as problem:
            raise self._explain(problem.args[0], what) from None
        return asked

    def _explain(self, error: Any, what: str) -> Exception:
        self._admin.poll(0)  # this is when the library says why connections failed
        cause = self._trouble.find_cause(error)
        return explain_kafka_error(cause, self.settings.bootstrap_servers, what, left=self._left)
