"""Reads the committed offsets of consumer groups, and deletes groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from winnow.kafka.client import explain_kafka_error, make_admin_client
from winnow.kafka.client_settings import ClientSettings
from winnow.kafka.cluster import REQUEST_TIMEOUT_S


class GroupOffsets:
    """The offsets that consumer groups have committed for one topic.

    Errors do not say what a failed call left behind: the caller knows what it has committed.
    """

    def __init__(self, settings: ClientSettings, topic: str) -> None:
        self._settings, self._topic = settings, topic
        self._admin = make_admin_client(settings, left="")

    def list_active(self, groups: Iterable[str]) -> list[str]:
        """List those of ``groups`` that have members.

        Raises:
            ServiceError: the cluster cannot be reached.
            ConfigurationError: the client may not ask for them.
        """
        from confluent_kafka import KafkaError, KafkaException

        names = sorted(set(groups))
        if not names:
            return []
        active = []
        asked = self._admin.describe_consumer_groups(names, request_timeout=REQUEST_TIMEOUT_S)
        for name, future in asked.items():
            try:
                if future.result().members:
                    active.append(name)
            except KafkaException as problem:
                if problem.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                    raise self._explain(problem, f"describing consumer group {name}") from None
        return active

    def read(self, group: str) -> dict[int, int]:
        """Return the committed offsets of ``group`` in the topic, by partition.

        Raises:
            ServiceError: the cluster cannot be reached.
            ConfigurationError: the client may not ask for them.
        """
        from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException

        asked = self._admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group)], require_stable=True, request_timeout=REQUEST_TIMEOUT_S
        )
        try:
            found = asked[group].result().topic_partitions
        except KafkaException as problem:
            if problem.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
                return {}
            raise self._explain(problem, f"asking for the offsets of consumer group {group}") from None
        offsets = {}
        for position in found:
            if position.topic != self._topic:
                continue
            if position.error is not None:
                # Its offset is the one of a group that has committed nothing.
                what = f"asking for the offset of consumer group {group} in {self._topic}-{position.partition}"
                raise explain_kafka_error(position.error, self._settings.bootstrap_servers, what, left="")
            if position.offset >= 0:
                offsets[position.partition] = position.offset
        return offsets

    def delete(self, group: str) -> None:
        """Delete ``group`` if it exists.

        Raises:
            ServiceError: the cluster cannot be reached.
            ConfigurationError: the client may not do that.
        """
        from confluent_kafka import KafkaError, KafkaException

        asked = self._admin.delete_consumer_groups([group], request_timeout=REQUEST_TIMEOUT_S)
        try:
            asked[group].result()
        except KafkaException as problem:
            if problem.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:
                raise self._explain(problem, f"deleting consumer group {group}") from None

    def _explain(self, problem: Any, what: str) -> Exception:
        return explain_kafka_error(problem.args[0], self._settings.bootstrap_servers, what, left="")
