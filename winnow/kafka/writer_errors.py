"""Says what an error of a transactional writer means: whether a newer writer took over, and what is to be done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from winnow.errors import BadInputError, ConfigurationError, ServiceError, TopicBusyError, WinnowError
from winnow.kafka.client import explain_kafka_error

if TYPE_CHECKING:
    from confluent_kafka import KafkaError


def explain_writer_error(error: Any, servers: str, topic: str, what: str) -> WinnowError:
    """Make the exception about ``error`` of a writer of ``topic``; ``what``: what was asked, as ``writing records``.

    It does not say what is committed: the caller knows.
    """
    from confluent_kafka import KafkaError

    code = error.code()
    if is_fenced(error):
        return TopicBusyError(
            f"Another process began to restore into topic {topic} and has taken over from this one. What this one "
            "committed stays, and the other goes on from there.",
            next="Nothing is to be done.",
        )
    if code in {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE}:
        return ConfigurationError(
            f"A record is larger than topic {topic} takes (max.message.bytes).",
            next=(
                f"Raise it first: kafka-configs.sh --alter --entity-type topics --entity-name {topic} --add-config "
                "max.message.bytes=BYTES"
            ),
        )
    if code == KafkaError.INVALID_TIMESTAMP:
        return ConfigurationError(
            f"A record's timestamp is one that topic {topic} does not take (message.timestamp.before.max.ms, "
            "message.timestamp.after.max.ms).",
            next="Raise them first.",
        )
    if code in {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}:
        return BadInputError(
            f"Topic {topic} is gone from the cluster: somebody deleted it while it was being restored.",
            next="Run it again: it begins anew.",
        )
    if code == KafkaError.INVALID_PRODUCER_EPOCH:
        return ServiceError(
            f"The brokers ended a transaction of topic {topic} that was open for too long: this process was paused, or "
            f"they were slow ({error.name()}, {what})."
        )
    return explain_kafka_error(error, servers, f"{what} of topic {topic}", left="")


def is_fenced(error: KafkaError) -> bool:
    """Check whether a writer's error says that a newer one of its name took over."""
    from confluent_kafka import KafkaError

    codes = {KafkaError._FENCED, KafkaError.PRODUCER_FENCED}
    return error.code() in codes or (error.code() == KafkaError._FATAL and "fenced" in error.str().lower())


def list_clear_codes() -> set[int]:
    """List the codes of errors that say what is wrong, whoever holds the name."""
    from confluent_kafka import KafkaError

    return {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
    }
