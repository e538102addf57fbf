"""Makes librdkafka's clients, and says in a sentence what one of their errors means."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

from winnow.errors import ConfigurationError, ServiceError, WinnowError
from winnow.kafka.client_settings import PROPERTIES_PAGE, ClientSettings
from winnow.kafka.library_properties import LIBRARY_NAMES

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError
    from confluent_kafka.admin import AdminClient

NOTHING_CHANGED = "The log was not changed."
"""True of an ingest, which commits after it has read. A restore says itself what it has committed: its ``left`` is
empty."""
_log = logging.getLogger("winnow.kafka")
# The library reports each attempt at a connection. What matters of it is in the error that a call ends with.
_log.addFilter(lambda _: _log.isEnabledFor(logging.DEBUG))


def check_client_library(*, left: str = NOTHING_CHANGED) -> None:
    """Raise unless the client library is installed; ``left``: as of :func:`explain_kafka_error`.

    Raises:
        ConfigurationError: it is not.
    """
    try:
        import confluent_kafka  # noqa: F401
    except ImportError:
        raise ConfigurationError(
            "Kafka's client library is not installed: pip install 'winnow-log[kafka]', here and on Spark's executors.",
            left,
        ) from None


class ConnectionTrouble:
    """Remembers why a client's connections failed, which the error of a request that timed out does not tell."""

    def __init__(self) -> None:
        self._last: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        """Note an error of a connection; a client calls it."""
        if not error.str().startswith("all brokers") and "brokers are down" not in error.str():
            self._last = error

    def find_cause(self, error: Any) -> Any:
        """Return the error of a connection that explains ``error``, else that one."""
        from confluent_kafka import KafkaError

        timeouts = {KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT, KafkaError._ALL_BROKERS_DOWN}
        return self._last if self._last is not None and error.code() in timeouts else error


def make_admin_client(
    settings: ClientSettings, trouble: ConnectionTrouble | None = None, *, left: str = NOTHING_CHANGED
) -> AdminClient:
    """Make a client that asks the cluster about topics; ``trouble`` learns why connections fail.

    ``left``: as of :func:`explain_kafka_error`.

    Raises:
        ConfigurationError: the library is missing, or refuses a property.
    """
    check_client_library(left=left)
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    chosen: dict[str, Any] = {**settings.to_librdkafka(), "logger": _log, "error_cb": trouble or ConnectionTrouble()}
    try:
        return AdminClient(chosen)
    except KafkaException as problem:
        raise make_properties_error(problem.args[0], left=left) from None


def make_consumer(settings: ClientSettings, *, left: str = NOTHING_CHANGED, **own: str | int | bool) -> Consumer:
    """Make a client that reads committed records and belongs to no group; ``own``: further properties.

    ``left``: as of :func:`explain_kafka_error`.

    Raises:
        ConfigurationError: the library is missing, or refuses a property.
    """
    check_client_library(left=left)
    from confluent_kafka import Consumer, KafkaException

    fixed: dict[str, str | int | bool] = {
        # Assigned partitions need no group, but the library wants a name. Nothing is committed under it.
        "group_id": "winnow",
        "enable_auto_commit": False,
        "enable_auto_offset_store": False,
        "enable_partition_eof": True,
        "isolation_level": "read_committed",
        # An offset that is gone is an error, never another offset.
        "auto_offset_reset": "error",
        "check_crcs": True,
    }
    chosen: dict[str, Any] = {**settings.to_librdkafka(**{**fixed, **own}), "logger": _log}
    try:
        return Consumer(chosen)
    except KafkaException as problem:
        raise make_properties_error(problem.args[0], left=left) from None


def make_properties_error(error: KafkaError, *, left: str = NOTHING_CHANGED) -> ConfigurationError:
    """Make the error about properties that the library refuses together; their values are not repeated.

    ``left``: as of :func:`explain_kafka_error`.
    """
    said = error.str()
    named = [name for name in sorted(LIBRARY_NAMES) if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.]\w)", said)]
    if "No provider for SASL mechanism" in said:
        about = "it was built without the mechanism that sasl.mechanism names"
    elif named:
        about = f"{' and '.join(named)} {'do' if len(named) > 1 else 'does'} not fit, or a file cannot be read"
    else:
        about = error.name()
    return ConfigurationError(
        f"Kafka's client library refuses the client properties: {about}.",
        left,
        f"What becomes of each property: {PROPERTIES_PAGE}.",
    )


_NOT_ACCEPTED = "the cluster does not accept the user or its password, or the token"
_NOT_TRUSTED = (
    "the brokers' certificates are not trusted, or are those of other hosts: the client properties name the "
    "certificate of whoever signed them (ssl.truststore.location)"
)
_WANT_CERTIFICATE = (
    "the brokers want a client certificate that they trust: the client properties name none (ssl.keystore.location), "
    "or one that the brokers do not trust"
)
_ALERTS = ("bad certificate", "certificate required", "unknown ca", "certificate unknown", "certificate expired")
"""What brokers say of a client's certificate (RFC 8446, 6.2); of one that is missing, Java's say the first."""


def _judge_handshake(error: Any) -> str | None:
    """Find out whether a connection ended because of a certificate, which the library reports as a lost connection."""
    from confluent_kafka import KafkaError

    said = error.str().lower()
    if error.code() != KafkaError._TRANSPORT:
        return None
    if any(f"alert {alert}" in said for alert in _ALERTS):
        return _WANT_CERTIFICATE
    return _NOT_TRUSTED if "certificate verify failed" in said else None


def explain_kafka_error(error: Any, servers: str, what: str, *, left: str = NOTHING_CHANGED) -> WinnowError:
    """Make the exception about ``error`` of a cluster; ``what``: what was asked of it, as ``reading orders-0``.

    ``left``: what the call left behind; empty: the caller says that, and the next command.

    What may pass is a :class:`ServiceError`; what somebody has to mend is a :class:`ConfigurationError`.
    """
    from confluent_kafka import KafkaError

    name = error.name()
    permanent = {
        KafkaError.TOPIC_AUTHORIZATION_FAILED: "the user of the client properties may not read this topic",
        KafkaError.CLUSTER_AUTHORIZATION_FAILED: "the user of the client properties may not ask this of the cluster",
        KafkaError.GROUP_AUTHORIZATION_FAILED: "the user of the client properties may not use this group",
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "the user may not use this transactional id",
        KafkaError.SASL_AUTHENTICATION_FAILED: _NOT_ACCEPTED,
        KafkaError._AUTHENTICATION: _NOT_ACCEPTED,
        KafkaError._SSL: _NOT_TRUSTED,
    }
    reason = permanent.get(error.code()) or _judge_handshake(error)
    if reason is not None:
        return ConfigurationError(f"Kafka at {servers}, {what}: {reason} ({name}).", left)
    advice = "Run it again." if left else ""
    return ServiceError(f"Kafka at {servers} cannot be reached, or failed, {what} ({name}).", left, advice)
