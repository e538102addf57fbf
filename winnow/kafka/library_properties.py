"""The names of librdkafka's properties, and what the library that is installed says of a property's name and value.

The names are for what is misspelt: whether a property is known, the installed library is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

DECIDED_NAMES: Final = frozenset(
    {
        *("auto.commit.enable", "enable.auto.offset.store", "enable.partition.eof", "enable.gapless.guarantee"),
        *("max.in.flight", "message.send.max.retries", "message.timeout.ms", "request.required.acks"),
        *("produce.offset.report", "delivery.report.only.error", "topic.blacklist"),
    }
)
"""Names of the library's own that Winnow decides: other values would lose, double or hide records."""

_NAMES: Final = """
allow.auto.create.topics api.version.fallback.ms api.version.request api.version.request.timeout.ms
batch.num.messages batch.size broker.address.family broker.address.ttl broker.version.fallback builtin.features
check.crcs client.dns.lookup client.rack compression.codec compression.level compression.type
connections.max.idle.ms coordinator.query.interval.ms debug enable.metrics.push
enable.random.seed enable.sasl.oauthbearer.unsecure.jwt enable.ssl.certificate.verification fetch.error.backoff.ms
fetch.max.bytes fetch.message.max.bytes fetch.min.bytes fetch.queue.backoff.ms fetch.wait.max.ms
group.protocol.type https.ca.location https.ca.pem internal.termination.signal linger.ms log.connection.close
log.queue log.thread.name log_level max.partition.fetch.bytes message.copy.max.bytes message.max.bytes
metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy partitioner
plugin.library.paths queue.buffering.backpressure.threshold queue.buffering.max.kbytes
queue.buffering.max.messages queue.buffering.max.ms queued.max.messages.kbytes queued.min.messages queuing.strategy
receive.message.max.bytes reconnect.backoff.jitter.ms reconnect.backoff.max.ms reconnect.backoff.ms
retry.backoff.max.ms retry.backoff.ms sasl.kerberos.keytab sasl.kerberos.kinit.cmd
sasl.kerberos.min.time.before.relogin sasl.kerberos.principal sasl.kerberos.service.name sasl.mechanism
sasl.mechanisms sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.jwt.template.file
sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
sasl.oauthbearer.assertion.private.key.pem sasl.oauthbearer.client.id sasl.oauthbearer.client.secret
sasl.oauthbearer.config sasl.oauthbearer.extensions sasl.oauthbearer.grant.type
sasl.oauthbearer.metadata.authentication.type sasl.oauthbearer.method sasl.oauthbearer.scope
sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url sasl.password sasl.username security.protocol
socket.connection.setup.timeout.ms socket.keepalive.enable socket.max.fails socket.nagle.disable
socket.receive.buffer.bytes socket.send.buffer.bytes socket.timeout.ms ssl.ca.certificate.stores ssl.ca.location
ssl.ca.pem ssl.certificate.location ssl.certificate.pem ssl.cipher.suites ssl.crl.location ssl.curves.list
ssl.endpoint.identification.algorithm ssl.engine.id ssl.engine.location ssl.key.location ssl.key.password
ssl.key.pem ssl.keystore.location ssl.keystore.password ssl.providers ssl.sigalgs.list statistics.interval.ms
sticky.partitioning.linger.ms topic.metadata.propagation.max.ms topic.metadata.refresh.fast.interval.ms
topic.metadata.refresh.interval.ms topic.metadata.refresh.sparse
"""
LIBRARY_NAMES: Final = frozenset(_NAMES.split())

UNKNOWN_NAME: Final = "the client library does not know it"
REFUSED_VALUE: Final = "the client library does not take its value"
_NO_PROPERTY: Final = "winnow.no.property"


def try_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Ask the installed client library about each of ``properties``: what is wrong, by name. No client is made.

    Nothing is said where the library is not installed: whoever makes a client says that.
    """
    try:
        from confluent_kafka import KafkaException, Producer
    except ImportError:
        return {}
    problems: dict[str, str] = {}
    for name, value in properties.items():
        # The library reads properties in their order, so the second one is reached if the first is good.
        try:
            Producer({name: value, _NO_PROPERTY: ""})
        except KafkaException as refusal:
            said = refusal.args[0].str()
            if _NO_PROPERTY in said:
                continue
            unknown = said.startswith("No such configuration property")
            problems[name] = UNKNOWN_NAME if unknown else _describe_refusal(said)
        except (AttributeError, TypeError):
            problems[name] = UNKNOWN_NAME  # a callback, which a file cannot name
    return problems


def _describe_refusal(said: str) -> str:
    """Describe a value that was refused without repeating it: of what the library says, the range is safe."""
    _, found, bounds = said.strip().partition("is outside allowed range ")
    return f"{REFUSED_VALUE}, which is outside of {bounds}" if found else REFUSED_VALUE
