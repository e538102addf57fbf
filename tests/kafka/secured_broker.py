"""A broker with one listener for each way to be let in, and the files that a client needs for each."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from broker.addresses import find_free_ports
from broker.kafka_broker import run_broker
from tests.kafka.certificates import Authority
from tests.kafka.live_topics import LiveTopic, create_live_topic, make_rows

PASSWORD = "s3cret-of-alice"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
_LISTENERS = {
    "password": "SASL_PLAINTEXT",
    "token": "SASL_PLAINTEXT",
    "tls": "SSL",
    "elsewhere": "SSL",
    "mutual": "SSL",
}


@dataclass(frozen=True)
class SecuredBroker:
    """A broker whose listeners are named by what they ask for, a topic in it, and ``folder`` with certificates.

    ``tls``: its certificate is for its address; ``elsewhere``: for another host; ``mutual``: wants one of the client.
    ``open_servers``: asks nothing, and lets everybody do everything.
    """

    servers: Mapping[str, str]
    topic: LiveTopic
    folder: Path
    open_servers: str


@contextmanager
def run_secured_broker(folder: Path) -> Iterator[SecuredBroker]:
    """Run the broker until the block ends."""
    authority = Authority("Authority")
    authority.write(folder / "ca.pem")
    authority.sign("localhost", "127.0.0.1").write_store(folder / "tls.pem")
    authority.sign("elsewhere.example").write_store(folder / "elsewhere.pem")
    authority.sign("client").write_store(folder / "client.pem")
    authority.sign("client").write_pkcs12(folder / "client.p12", PASSWORD)
    other = Authority("Other authority")
    other.write(folder / "other-ca.pem")
    other.sign("client").write_store(folder / "other-client.pem")
    ports = [port for _ in range(len(_LISTENERS) // 2 + 1) for port in find_free_ports()][: len(_LISTENERS)]
    servers = {name: f"127.0.0.1:{port}" for name, port in zip(_LISTENERS, ports, strict=True)}
    kinds = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **{n.upper(): k for n, k in _LISTENERS.items()}}
    properties = {
        "listeners": ",".join(f"{name.upper()}://{address}" for name, address in servers.items()),
        "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in kinds.items()),
        "listener.name.password.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.token.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.password.plain.sasl.jaas.config": f'{PLAIN} user_alice="{PASSWORD}";',
        "listener.name.token.oauthbearer.sasl.jaas.config": f'{BEARER} unsecuredLoginStringClaim_sub="broker";',
        # Everybody may do what no rule is about.
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:ANONYMOUS",
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "listener.name.mutual.ssl.truststore.location": str(folder / "ca.pem"),
    }
    for listener, store in (("tls", "tls"), ("elsewhere", "elsewhere"), ("mutual", "tls")):
        properties[f"listener.name.{listener}.ssl.keystore.type"] = "PEM"
        properties[f"listener.name.{listener}.ssl.keystore.location"] = str(folder / f"{store}.pem")
    with run_broker(folder / "broker", properties=properties) as broker:
        topic = create_live_topic(broker, partitions=2, name="orders")
        topic.write(make_rows(random.Random(1), 30))
        yield SecuredBroker(servers, topic, folder, broker.bootstrap_servers)
