"""What becomes of every property of Java's clients: one table, which the translation reads and the documents show.

The names are those of Kafka 4.3's ``AdminClientConfig``, ``ConsumerConfig`` and ``ProducerConfig``; a test compares.
The documents' page of it is written by :mod:`scripts.docs_site.kafka_clients_page`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Treatment(StrEnum):
    """What becomes of a property."""

    TAKEN = "taken"
    DECIDED = "decided by Winnow"
    MEANINGLESS = "without meaning here"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class JavaProperty:
    """One property of Java's clients.

    ``note``: what is said of it in the documents, and of a refused one in the error: the way on. ``library_name``: the
    name of librdkafka's property that takes its value; None: several, or none. ``bounds``: the smallest and the largest
    value that librdkafka knows; others are taken as the nearest of them.
    """

    name: str
    treatment: Treatment
    note: str = ""
    library_name: str | None = None
    bounds: tuple[int, int] | None = None


def _take(*names: str) -> tuple[JavaProperty, ...]:
    return tuple(JavaProperty(name, Treatment.TAKEN, library_name=name) for name in names)


def _take_as(
    name: str, library_name: str, note: str = "", bounds: tuple[int, int] | None = None
) -> tuple[JavaProperty, ...]:
    return (JavaProperty(name, Treatment.TAKEN, note, library_name, bounds),)


def _translate(note: str, *names: str) -> tuple[JavaProperty, ...]:
    return tuple(JavaProperty(name, Treatment.TAKEN, note) for name in names)


def _decide(note: str, *names: str) -> tuple[JavaProperty, ...]:
    return tuple(JavaProperty(name, Treatment.DECIDED, note) for name in names)


def _ignore(note: str, *names: str) -> tuple[JavaProperty, ...]:
    return tuple(JavaProperty(name, Treatment.MEANINGLESS, note) for name in names)


def _list_refused(note: str, *names: str) -> tuple[JavaProperty, ...]:
    return tuple(JavaProperty(name, Treatment.REFUSED, note) for name in names)


_LONGEST_TIMEOUT_MS: Final = 300_000

JAVA_PROPERTIES: Final = (
    *_take(
        *("bootstrap.servers", "client.dns.lookup", "client.rack", "security.protocol", "enable.metrics.push"),
        *("ssl.key.password", "compression.type"),
        *("metadata.recovery.strategy", "metadata.recovery.rebootstrap.trigger.ms"),
        *("sasl.kerberos.service.name", "sasl.kerberos.kinit.cmd", "sasl.kerberos.min.time.before.relogin"),
        *("sasl.oauthbearer.scope", "sasl.oauthbearer.assertion.algorithm", "sasl.oauthbearer.assertion.claim.aud"),
        *("sasl.oauthbearer.assertion.claim.exp.seconds", "sasl.oauthbearer.assertion.claim.iss"),
        *("sasl.oauthbearer.assertion.claim.jti.include", "sasl.oauthbearer.assertion.claim.nbf.seconds"),
        *("sasl.oauthbearer.assertion.claim.sub", "sasl.oauthbearer.assertion.file"),
        *("sasl.oauthbearer.assertion.private.key.file", "sasl.oauthbearer.assertion.private.key.passphrase"),
        "sasl.oauthbearer.sub.claim.name",
    ),
    *_take_as("connections.max.idle.ms", "connections.max.idle.ms", "-1 is 0: for ever", (0, 2**31 - 1)),
    *_take_as("metadata.max.age.ms", "metadata.max.age.ms", "at most a day", (1, 86_400_000)),
    *_take_as("reconnect.backoff.ms", "reconnect.backoff.ms", "at most an hour", (0, 3_600_000)),
    *_take_as("reconnect.backoff.max.ms", "reconnect.backoff.max.ms", "at most an hour", (0, 3_600_000)),
    *_take_as("retry.backoff.ms", "retry.backoff.ms", "at most 5 min", (1, _LONGEST_TIMEOUT_MS)),
    *_take_as("retry.backoff.max.ms", "retry.backoff.max.ms", "at most 5 min", (1, _LONGEST_TIMEOUT_MS)),
    *_take_as("request.timeout.ms", "socket.timeout.ms", "at least 1 s, at most 5 min", (1_000, _LONGEST_TIMEOUT_MS)),
    *_take_as(
        "socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.ms", "at least 1 s", (1_000, 2**31 - 1)
    ),
    *_take_as("send.buffer.bytes", "socket.send.buffer.bytes", "-1 is the system's own", (0, 100_000_000)),
    *_take_as("receive.buffer.bytes", "socket.receive.buffer.bytes", "-1 is the system's own", (0, 100_000_000)),
    *_take_as(
        "sasl.oauthbearer.assertion.template.file",
        "sasl.oauthbearer.assertion.jwt.template.file",
    ),
    *_take_as("sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.id"),
    *_take_as("sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.client.secret"),
    *_translate("with it tokens come by OIDC: `sasl.oauthbearer.method=oidc`", "sasl.oauthbearer.token.endpoint.url"),
    *_translate("`AWS_MSK_IAM` becomes OAUTHBEARER with tokens of [AWS](#aws-msk-with-iam)", "sasl.mechanism"),
    *_translate(
        "the login modules of PLAIN, SCRAM, OAUTHBEARER and AWS MSK IAM, with their options; others are refused",
        "sasl.jaas.config",
    ),
    *_translate(
        "Kafka's own and those of AWS MSK IAM; others are refused, as a class of Java cannot be run here, unless the "
        "login module names user and password",
        *("sasl.login.callback.handler.class", "sasl.client.callback.handler.class"),
    ),
    *_translate("empty: the name of the host is not checked", "ssl.endpoint.identification.algorithm"),
    *_translate(
        "OpenSSL's names; Java's are refused, since leaving them out would widen what is allowed", "ssl.cipher.suites"
    ),
    *_translate(
        "PEM; a Java key store (JKS, and PKCS12) is refused with the command that makes PEM of it",
        *("ssl.truststore.location", "ssl.truststore.type", "ssl.truststore.certificates"),
    ),
    *_ignore("only Java's own key stores have one", "ssl.truststore.password"),
    *_translate(
        "PEM and PKCS12; a Java key store (JKS) is refused with the command that makes PKCS12 of it. Spark's executors "
        "get PEM with the plan, but need a PKCS12 file at the same path",
        *("ssl.keystore.location", "ssl.keystore.type", "ssl.keystore.password", "ssl.keystore.key"),
        "ssl.keystore.certificate.chain",
    ),
    *_translate(
        "the level of the codec that `compression.type` names",
        *("compression.gzip.level", "compression.lz4.level", "compression.zstd.level"),
    ),
    *_decide("one name for all clients: `winnow`", "client.id"),
    *_decide(
        "the log's own end is the position: no group, nothing is committed",
        *("auto.offset.reset", "enable.auto.commit", "auto.commit.interval.ms", "group.id", "group.instance.id"),
        *("group.protocol", "group.remote.assignor", "heartbeat.interval.ms", "session.timeout.ms"),
        *("max.poll.interval.ms", "max.poll.records", "partition.assignment.strategy"),
    ),
    *_decide("only records of committed transactions are read", "isolation.level"),
    *_decide("checksums are always checked", "check.crcs"),
    *_decide("no topic comes into being because it was asked for", "allow.auto.create.topics"),
    *_decide(
        "how much is fetched at once",
        *("fetch.max.bytes", "fetch.max.wait.ms", "fetch.min.bytes", "max.partition.fetch.bytes"),
    ),
    *_decide(
        "a restore writes in transactions, to all replicas in sync",
        *("acks", "enable.idempotence", "transactional.id", "transaction.timeout.ms", "delivery.timeout.ms", "retries"),
        *("max.in.flight.requests.per.connection", "transaction.two.phase.commit.enable"),
    ),
    *_decide(
        "how a restore makes batches; how large a record may be decides the topic",
        *("batch.size", "buffer.memory", "linger.ms", "max.block.ms", "max.request.size"),
    ),
    *_decide(
        "a restore writes each record to the partition that it came from",
        *("partitioner.class", "partitioner.ignore.keys", "partitioner.adaptive.partitioning.enable"),
        "partitioner.availability.timeout.ms",
    ),
    *_ignore("each request has a time limit of its own", "default.api.timeout.ms"),
    *_ignore(
        "bytes go in and out as they are",
        *("key.serializer", "value.serializer", "key.deserializer", "value.deserializer", "interceptor.classes"),
    ),
    *_ignore(
        "figures of Java's clients",
        *("metric.reporters", "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms"),
        "auto.include.jmx.reporter",
    ),
    *_ignore(
        "OpenSSL decides (TLS 1.2 and 1.3)",
        *("ssl.protocol", "ssl.enabled.protocols", "ssl.provider", "ssl.trustmanager.algorithm"),
        *("ssl.keymanager.algorithm", "ssl.secure.random.implementation", "ssl.engine.factory.class"),
        "security.providers",
    ),
    *_ignore("the client library logs in itself", "sasl.login.class"),
    *_ignore(
        "the client library asks for a new token when four fifths of its time are over",
        *("sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms", "sasl.login.refresh.buffer.seconds"),
        *("sasl.login.refresh.min.period.seconds", "sasl.login.refresh.window.factor"),
        *("sasl.login.refresh.window.jitter", "sasl.login.retry.backoff.ms", "sasl.login.retry.backoff.max.ms"),
    ),
    *_ignore(
        "Java's own renewal of tickets",
        *("sasl.kerberos.ticket.renew.jitter", "sasl.kerberos.ticket.renew.window.factor"),
    ),
    *_ignore(
        "brokers check tokens; clients do not",
        *("sasl.oauthbearer.clock.skew.seconds", "sasl.oauthbearer.expected.audience"),
        *("sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.jwks.endpoint.refresh.ms"),
        *("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
        *("sasl.oauthbearer.jwks.endpoint.url", "sasl.oauthbearer.scope.claim.name"),
        *("sasl.oauthbearer.jwt.validator.class", "sasl.oauthbearer.header.urlencode"),
    ),
    *_ignore(
        "internal to Java's clients, or for share groups",
        *("exclude.internal.topics", "internal.throw.on.fetch.stable.offset.unsupported", "metadata.max.idle.ms"),
        *("socket.connection.setup.timeout.max.ms", "share.acknowledgement.mode", "share.acquire.mode"),
    ),
    *_list_refused("name brokers, in bootstrap.servers: controllers have no records", "bootstrap.controllers"),
    *_list_refused(
        "values that Java looks up elsewhere are not looked up here: write the values themselves, into a file that "
        "only Winnow may read",
        "config.providers",
    ),
    *_list_refused(
        "a class of Java cannot be run here: write sasl.oauthbearer.token.endpoint.url for tokens by OIDC, or "
        "winnow.oauth.callback=MODULE:FUNCTION for a function of Python",
        "sasl.oauthbearer.jwt.retriever.class",
    ),
)

OTHER_TOOLS: Final = (
    ("schema.registry.", "schema registries: bytes go in and out as they are"),
    ("basic.auth.", "schema registries"),
    ("bearer.auth.", "schema registries"),
    ("confluent.", "Confluent's own monitoring"),
    ("metrics.", "figures of Java's clients"),
)
"""Beginnings of names that tools write into such files, which no client of Kafka knows, and what they are about."""

MEANINGLESS_VALUES: Final = {"client.dns.lookup": "default"}
"""Values of older clients that say: as if it were not there."""

_BY_NAME: Final = {each.name: each for each in JAVA_PROPERTIES}


def find_java_property(name: str) -> JavaProperty | None:
    """Return what becomes of a property of Java's clients, or of a tool beside them; None: it is none."""
    known = _BY_NAME.get(name)
    if known is not None:
        return known
    if name.startswith("config.providers."):
        return _BY_NAME["config.providers"]
    about = next((about for beginning, about in OTHER_TOOLS if name.startswith(beginning)), None)
    return None if about is None else JavaProperty(name, Treatment.MEANINGLESS, about)
