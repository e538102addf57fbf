"""A broker that asks who is there: the client properties lead in, and are nowhere else."""

from __future__ import annotations

import base64
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from tests.kafka.restored_topics import Target, assert_restored
from tests.kafka.secured_broker import BEARER, PASSWORD, PLAIN, SecuredBroker, run_secured_broker
from tests.support.cli_runner import winnow_process
from tests.support.kafka_scripts import run_kafka_script
from tests.support.world import World, open_world
from winnow.errors import ConfigurationError
from winnow.kafka.client_settings import ClientSettings, read_client_properties, read_client_settings
from winnow.kafka.cluster import BrokerTopic, Cluster
from winnow.kafka.range_reader import BrokerRange, RangeReader
from winnow.values.model import Record

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with run_secured_broker(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


def write_properties(folder: Path, password: str) -> Path:
    path = folder / "client.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={PLAIN} username="alice" password="{password}";\n'
    )
    return path


@pytest.mark.parametrize("on", ["local", "spark"])
def test_the_properties_lead_in_and_are_kept_nowhere(
    secured: SecuredBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on: str
) -> None:
    properties = write_properties(tmp_path, PASSWORD)
    home = tmp_path / "home"
    monkeypatch.setenv("WINNOW_HOME", str(home))
    monkeypatch.setenv("WINNOW_SPARK__MASTER", "local[1]")
    options = [
        "--bootstrap-servers",
        secured.servers["password"],
        "--client-properties",
        properties,
        "--create",
        "--on",
        on,
    ]
    done = winnow_process("ingest", "kafka", "orders", *options)
    assert done.exit_code == 0, done.stderr
    with open_world(tmp_path) as world:
        assert world.read(topic="orders") == secured.topic.records
    assert PASSWORD not in done.stdout + done.stderr
    for folder, _, names in os.walk(home):
        for name in names:
            assert PASSWORD.encode() not in Path(folder, name).read_bytes(), name


def test_a_wrong_password_is_said_and_not_shown(
    secured: SecuredBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = write_properties(tmp_path, "wrong-password")
    monkeypatch.setenv("WINNOW_HOME", str(tmp_path / "home"))
    options = ["--bootstrap-servers", secured.servers["password"], "--client-properties", properties, "--create"]
    done = winnow_process("ingest", "kafka", "orders", *options)
    assert done.exit_code == 2, done.stderr
    assert "does not accept the user or its password, or the token" in done.stderr
    assert "wrong-password" not in done.stdout + done.stderr


TLS = """security.protocol=SSL
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
"""
CLIENT = """ssl.keystore.type=PEM
ssl.keystore.location={folder}/client.pem
"""


def describe_orders(secured: SecuredBroker, listener: str, properties: str, folder: Path) -> BrokerTopic:
    """What the brokers say of the topic to a client with these properties."""
    path = folder / "client.properties"
    path.write_text(properties.replace("{folder}", str(secured.folder)))
    return Cluster(read_client_settings(secured.servers[listener], str(path))).describe_topics(["orders"])["orders"]


@pytest.mark.parametrize(
    ("listener", "properties"),
    [
        ("tls", TLS),
        ("elsewhere", TLS + "ssl.endpoint.identification.algorithm=\n"),
        ("mutual", TLS + CLIENT),
        ("mutual", TLS + f"ssl.keystore.location={{folder}}/client.p12\nssl.keystore.password={PASSWORD}\n"),
    ],
    ids=["trusted", "host name not checked", "client certificate as PEM", "client certificate as PKCS 12"],
)
def test_java_s_properties_of_tls_lead_in(
    secured: SecuredBroker, tmp_path: Path, listener: str, properties: str
) -> None:
    assert describe_orders(secured, listener, properties, tmp_path).partitions.keys() == {0, 1}


@pytest.mark.parametrize(
    ("listener", "properties", "said"),
    [
        ("tls", TLS.replace("ca.pem", "other-ca.pem"), "the brokers' certificates are not trusted"),
        ("elsewhere", TLS, "or are those of other hosts"),
        (
            "elsewhere",
            TLS.replace("ca.pem", "other-ca.pem") + "ssl.endpoint.identification.algorithm=\n",
            "the brokers' certificates are not trusted",
        ),
        ("mutual", TLS, "the brokers want a client certificate that they trust"),
        ("mutual", TLS + CLIENT.replace("client.pem", "other-client.pem"), "the brokers want a client certificate"),
    ],
    ids=["other authority", "other host", "other authority, host not checked", "no certificate", "other certificate"],
)
def test_a_certificate_that_does_not_fit_is_said_and_not_to_run_it_again(
    secured: SecuredBroker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    listener: str,
    properties: str,
    said: str,
) -> None:
    monkeypatch.setattr("winnow.kafka.cluster.REQUEST_TIMEOUT_S", 2.0)
    with pytest.raises(ConfigurationError, match=said) as refused:
        describe_orders(secured, listener, properties, tmp_path)
    assert "Run it again" not in str(refused.value)


def make_unsecured_token(configuration: str) -> tuple[str, float]:
    """A token of the user that the configuration names, as brokers take it that check no signature."""
    now_s = time.time()
    claims = {"sub": configuration, "iat": now_s, "exp": now_s + 600}
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in ({"alg": "none"}, claims)]
    return ".".join([*(part.rstrip("=") for part in parts), ""]), now_s + 600


TOKEN = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"


def test_tokens_of_a_function_lead_in_here_and_in_spark_s_tasks(secured: SecuredBroker, tmp_path: Path) -> None:
    """A task gets no file, only properties: the name of the function is one of them."""
    text = TOKEN + f"winnow.oauth.callback={__name__}:make_unsecured_token\nsasl.oauthbearer.config=alice\n"
    assert describe_orders(secured, "token", text, tmp_path).partitions.keys() == {0, 1}
    shipped = read_client_properties(str(tmp_path / "client.properties"))
    settings = ClientSettings(secured.servers["token"], shipped)
    expected = [each.offset for each in secured.topic.records if each.partition == 0]
    with RangeReader(settings) as reader:
        batches = list(reader.read(BrokerRange("orders", 0, 0, max(expected) + 1)))
    assert [offset for batch in batches for offset in batch.column("offset").to_pylist()] == expected


def test_workers_of_spark_get_tokens_of_their_own(
    secured: SecuredBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole of an ingest: its driver asks the brokers, and each task reads, in a process of its own."""
    properties = tmp_path / "client.properties"
    properties.write_text(
        TOKEN + f"winnow.oauth.callback={__name__}:make_unsecured_token\nsasl.oauthbearer.config=alice\n"
    )
    monkeypatch.setenv("WINNOW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WINNOW_SPARK__MASTER", "local[1]")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    options = ["--bootstrap-servers", secured.servers["token"], "--client-properties", properties, "--on", "spark"]
    done = winnow_process("ingest", "kafka", "orders", *options, "--create")
    assert done.exit_code == 0, done.stderr
    with open_world(tmp_path) as world:
        assert world.read(topic="orders") == secured.topic.records


def test_java_s_unsecured_tokens_lead_in(secured: SecuredBroker, tmp_path: Path) -> None:
    text = TOKEN + f'sasl.jaas.config={BEARER} unsecuredLoginStringClaim_sub="alice";\n'
    assert describe_orders(secured, "token", text, tmp_path).partitions.keys() == {0, 1}


def test_a_token_that_brokers_do_not_accept_is_said(
    secured: SecuredBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signature of AWS is none for these brokers; it is made here, without a network."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret-of-aws")
    monkeypatch.setattr("winnow.kafka.cluster.REQUEST_TIMEOUT_S", 2.0)
    text = TOKEN.replace("OAUTHBEARER", "AWS_MSK_IAM") + "winnow.aws.region=eu-west-1\n"
    with pytest.raises(ConfigurationError, match="does not accept the user or its password, or the token"):
        describe_orders(secured, "token", text, tmp_path)


@pytest.fixture
def refused(secured: SecuredBroker) -> Target:
    """A topic to restore into as alice, who may use the name of its restore, and only bob those of its shares."""
    target = Target(secured.open_servers)
    name = f"winnow-restore-{target.name}"
    kinds = (("alice", name, ResourcePatternType.LITERAL), ("bob", f"{name}:", ResourcePatternType.PREFIXED))
    for user, text, pattern in kinds:
        rights = AclOperation.ALL, AclPermissionType.ALLOW
        rule = AclBinding(ResourceType.TRANSACTIONAL_ID, text, pattern, f"User:{user}", "*", *rights)
        target.admin.create_acls([rule])[rule].result()
    return target


def test_a_restore_in_one_process_needs_no_right_to_names_of_shares(
    secured: SecuredBroker, refused: Target, odd: World, records: list[Record], tmp_path: Path
) -> None:
    refused.settings = read_client_settings(secured.servers["password"], str(write_properties(tmp_path, PASSWORD)))
    refused.restore(odd)
    assert_restored(refused, records)


def test_a_restore_in_shares_is_refused_at_its_beginning_where_the_user_may_not_use_their_names(
    secured: SecuredBroker, refused: Target, odd: World, records: list[Record], tmp_path: Path
) -> None:
    """The rule of the docs lets it in."""
    refused.settings = read_client_settings(secured.servers["password"], str(write_properties(tmp_path, PASSWORD)))
    with pytest.raises(ConfigurationError, match=rf"allow winnow-restore-{refused.name} as a prefix.*without --shares"):
        refused.restore(odd, shares=2)
    assert refused.describe() is None
    (command,) = re.findall(r"kafka-acls\.sh --boot.*", (ROOT / "docs" / "restore.md").read_text())
    run_kafka_script(command.replace("TARGET", refused.name), secured.open_servers, tmp_path)
    refused.restore(odd, shares=2)
    assert_restored(refused, records)
