"""A topic that is created, checked and configured to be written to."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from winnow.errors import BadInputError, ConfigurationError, ServiceError
from winnow.kafka.answers import check_offsets
from winnow.kafka.client import explain_kafka_error, make_admin_client
from winnow.kafka.client_settings import ClientSettings
from winnow.kafka.cluster import REQUEST_TIMEOUT_S, BrokerTopic, Cluster
from winnow.values.counts import format_count
from winnow.values.epochs import format_topic_id

VISIBLE_TIMEOUT_S = 30.0
"""Maximum wait until every broker knows a new topic, or until the markers of a transaction are written."""
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class TargetDescription:
    """A topic as its brokers describe it; ``configuration``: every value in force, by Kafka's names.

    ``settings``: the names of all settings that these brokers know, also of those without a value.
    """

    topic: BrokerTopic
    configuration: Mapping[str, str]
    settings: frozenset[str]

    @property
    def is_empty(self) -> bool:
        """Whether no partition has a record, or an offset that a transaction took."""
        return all(each.start_offset == each.stable_offset for each in self.topic.partitions.values())


class TargetTopic:
    """One topic of a Kafka cluster.

    Errors do not say what a failed call left behind: the caller knows what it has committed.
    """

    def __init__(self, settings: ClientSettings, name: str) -> None:
        self.name = name
        self._settings = settings
        self._cluster = Cluster(settings, left="")
        self._admin = make_admin_client(settings, left="")

    def read_cluster_id(self) -> str:
        """Return the id of the cluster.

        Raises:
            ServiceError: the cluster cannot be reached.
        """
        from confluent_kafka import KafkaException

        try:
            return str(self._admin.describe_cluster(request_timeout=REQUEST_TIMEOUT_S).result().cluster_id)
        except KafkaException as problem:
            raise self._explain(problem, "asking for its id") from None

    def describe(self) -> TargetDescription | None:
        """Describe the topic; None: the cluster has none of that name.

        Raises:
            ServiceError: the cluster cannot be reached.
            ConfigurationError: the client may not ask for it.
        """
        found = self._cluster.describe_topics([self.name], configuration=True).get(self.name)
        if found is None:
            return None
        values = self._read_configuration()
        in_force = {name: value for name, value in values.items() if value is not None}
        return TargetDescription(found, in_force, frozenset(values))

    def read_topic_id(self) -> str | None:
        """Return the topic's id, which a topic that was deleted and created again does not share; None: it is gone.

        Raises:
            ServiceError: the cluster cannot be reached.
        """
        from confluent_kafka import KafkaError, KafkaException, TopicCollection

        asked = self._admin.describe_topics(TopicCollection([self.name]), request_timeout=REQUEST_TIMEOUT_S)
        try:
            return format_topic_id(str(asked[self.name].result().topic_id))
        except KafkaException as problem:
            if problem.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise self._explain(problem, f"describing topic {self.name}") from None

    def create(self, partitions: int, replication_factor: int | None, *configurations: Mapping[str, str]) -> None:
        """Create the topic, unless another process does at the same moment, and wait until it can be written to.

        ``configurations``: the first of them that the brokers know all settings of is taken.

        Raises:
            ConfigurationError: the brokers refuse it; the message has their words.
            ServiceError: the cluster cannot be reached, or lacks nodes that it had.
        """
        from confluent_kafka import KafkaError, KafkaException

        for left in reversed(range(len(configurations))):
            try:
                self._create(partitions, replication_factor, configurations[-1 - left])
                break
            except KafkaException as problem:
                code = problem.args[0].code()
                if code == KafkaError.TOPIC_ALREADY_EXISTS:
                    break
                if code == KafkaError.INVALID_CONFIG and left:
                    continue
                if code == KafkaError.INVALID_REPLICATION_FACTOR:
                    raise self._explain_missing_nodes(problem.args[0], replication_factor) from None
                raise self._make_refusal_error(problem, f"Topic {self.name} was not created") from None
        self._wait_until_visible()

    def _create(self, partitions: int, replication_factor: int | None, configuration: Mapping[str, str]) -> None:
        from confluent_kafka import admin

        wanted = vars(admin)["NewTopic"](
            self.name,
            num_partitions=partitions,
            replication_factor=-1 if replication_factor is None else replication_factor,
            config=dict(configuration),
        )
        self._admin.create_topics([wanted], request_timeout=REQUEST_TIMEOUT_S)[self.name].result()

    def _explain_missing_nodes(self, error: Any, replication_factor: int | None) -> Exception:
        """Say whether brokers that are away are to be waited for, or the cluster is too small for so many replicas."""
        living, known = self._list_nodes()
        wanted = (
            "as many replicas as is their default" if replication_factor is None else f"{replication_factor} replicas"
        )
        what = f"Topic {self.name} was not created: the brokers cannot give it {wanted} ({error.str()})."
        away = sorted(known - living)
        if away and (replication_factor is None or replication_factor <= len(known)):
            return ServiceError(
                f"{what} Away, with replicas of other topics: broker {', '.join(map(str, away))}.",
                next=f"Run it again when they are back, or say --replication-factor {len(living)}.",
            )
        return ConfigurationError(
            f"{what} The cluster has {format_count(len(known), 'broker')}.",
            next=f"Say --replication-factor {len(known)}, or add brokers.",
        )

    def _list_nodes(self) -> tuple[set[int], set[int]]:
        """List the brokers that live, and those that live or have replicas of some topic."""
        from confluent_kafka import KafkaException

        try:
            found = self._admin.list_topics(timeout=REQUEST_TIMEOUT_S)
        except KafkaException as problem:
            raise self._explain(problem, "asking for its brokers") from None
        living = set(found.brokers)
        having = {
            number for topic in found.topics.values() for part in topic.partitions.values() for number in part.replicas
        }
        return living, living | having

    def _wait_until_visible(self) -> None:
        until_s = time.monotonic() + VISIBLE_TIMEOUT_S
        while True:
            try:
                if self.describe() is not None:
                    return
            except ServiceError:
                # A broker that does not lead a new partition yet is asked again.
                if time.monotonic() > until_s:
                    raise
            if time.monotonic() > until_s:
                raise ServiceError(
                    f"Topic {self.name} was created, and after {VISIBLE_TIMEOUT_S:.0f} s the brokers do not know it.",
                    left="Nothing was written to it.",
                    next="Run it again.",
                )
            time.sleep(_POLL_S)

    def alter_configuration(self, values: Mapping[str, str | None]) -> None:
        """Set configuration values of the topic; None removes the topic's own, so that the brokers' default holds.

        Raises:
            ConfigurationError: the brokers refuse one; none was changed.
            ServiceError: the cluster cannot be reached.
        """
        from confluent_kafka import KafkaException, admin

        names = vars(admin)  # the stubs do not export them
        kinds, entry, resource = names["AlterConfigOpType"], names["ConfigEntry"], names["ConfigResource"]
        changes = [
            entry(name, value, incremental_operation=kinds.DELETE if value is None else kinds.SET)
            for name, value in values.items()
        ]
        target = resource(resource.Type.TOPIC, self.name, incremental_configs=changes)
        try:
            asked = self._admin.incremental_alter_configs([target], request_timeout=REQUEST_TIMEOUT_S)
            next(iter(asked.values())).result()
        except KafkaException as problem:
            raise self._make_refusal_error(problem, f"The configuration of topic {self.name} was not changed") from None

    def wait_for_stable_end(self) -> BrokerTopic:
        """Wait until no transaction is open in the topic, and describe it.

        Raises:
            BadInputError: it is gone, or another producer's transaction stays open.
            ServiceError: the cluster cannot be reached.
        """
        until_s = time.monotonic() + VISIBLE_TIMEOUT_S
        while True:
            found = self._cluster.describe_topics([self.name]).get(self.name)
            if found is None:
                raise BadInputError(
                    f"Topic {self.name} is gone from the cluster.",
                    next="Run it again: it begins anew.",
                )
            ends = self._list_end_offsets(found)
            waiting = [n for n, each in found.partitions.items() if each.stable_offset < ends[n]]
            if not waiting:
                return found
            if time.monotonic() > until_s:
                raise BadInputError(
                    f"A transaction in {self.name}-{waiting[0]} stays open: another producer writes to this topic.",
                    left="Nothing was lost.",
                    next="Stop it, delete the topic, and restore into a new one.",
                )
            time.sleep(_POLL_S)

    def _list_end_offsets(self, topic: BrokerTopic) -> dict[int, int]:
        from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
        from confluent_kafka.admin._listoffsets import OffsetSpec

        latest: Any = OffsetSpec.latest
        asked = self._admin.list_offsets(
            {TopicPartition(self.name, number): latest() for number in topic.partitions},
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=REQUEST_TIMEOUT_S,
        )
        try:
            ends = {(self.name, partition.partition): future.result().offset for partition, future in asked.items()}
        except KafkaException as problem:
            raise self._explain(problem, f"asking for offsets of topic {self.name}") from None
        stable = {(self.name, number): part.stable_offset for number, part in topic.partitions.items()}
        invalid = check_offsets(self._settings.bootstrap_servers, self.name, topic.partitions, stable, ends, left="")
        if invalid is not None:
            raise invalid
        return {number: end for (_, number), end in ends.items()}

    def _read_configuration(self) -> dict[str, str | None]:
        from confluent_kafka import KafkaException, admin

        resource = vars(admin)["ConfigResource"]
        asked = self._admin.describe_configs(
            [resource(resource.Type.TOPIC, self.name)], request_timeout=REQUEST_TIMEOUT_S
        )
        try:
            found = next(iter(asked.values())).result()
        except KafkaException as problem:
            raise self._explain(problem, f"describing the configuration of topic {self.name}") from None
        return {name: entry.value for name, entry in found.items()}

    def _make_refusal_error(self, problem: Any, what: str) -> Exception:
        from confluent_kafka import KafkaError

        error = problem.args[0]
        refusals = {
            KafkaError.INVALID_CONFIG,
            KafkaError.INVALID_PARTITIONS,
            KafkaError.TOPIC_EXCEPTION,
            KafkaError.POLICY_VIOLATION,
            KafkaError.INVALID_REQUEST,
        }
        if error.code() in refusals:
            return ConfigurationError(f"{what}: the brokers refuse it ({error.str()}).")
        return self._explain(problem, what)

    def _explain(self, problem: Any, what: str) -> Exception:
        return explain_kafka_error(problem.args[0], self._settings.bootstrap_servers, what, left="")
