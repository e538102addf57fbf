"""A file of client properties, in Java's names or librdkafka's, becomes what librdkafka takes; secrets stay in it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from winnow.errors import ConfigurationError
from winnow.kafka.client import make_admin_client
from winnow.kafka.client_settings import (
    ClientSettings,
    read_client_properties,
    read_client_settings,
    translate_properties,
)
from winnow.kafka.library_properties import LIBRARY_NAMES, UNKNOWN_NAME, try_properties
from winnow.kafka.properties_file import parse_lines

JAVA = r"""
# comment
! another
security.protocol = SASL_SSL
sasl.mechanism: SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
    username="alice" \
    password="pa ss;\\"word";
ssl.truststore.type=PEM
ssl.truststore.location=/etc/kafka/ca.pem
key.deserializer=org.apache.kafka.common.serialization.ByteArrayDeserializer
auto.offset.reset=latest
isolation.level=read_uncommitted
enable.auto.commit=true
group.id=mine
"""


def write(folder: Path, text: str) -> str:
    path = folder / "client.properties"
    path.write_text(text)
    return str(path)


def test_java_s_names_become_those_of_librdkafka(tmp_path: Path) -> None:
    settings = read_client_settings("kafka:9092", write(tmp_path, JAVA))
    assert dict(settings.properties) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": 'pa ss;"word',
        "ssl.ca.location": "/etc/kafka/ca.pem",
    }


def test_what_would_lose_or_double_records_is_never_taken_over(tmp_path: Path) -> None:
    found = read_client_settings("kafka:9092", write(tmp_path, JAVA)).to_librdkafka(isolation_level="read_committed")
    assert found["isolation.level"] == "read_committed"
    assert not {"group.id", "auto.offset.reset", "enable.auto.commit"} & found.keys()


def test_no_secret_is_in_what_is_shown(tmp_path: Path) -> None:
    settings = read_client_settings("kafka:9092", write(tmp_path, JAVA))
    assert "word" not in repr(settings)
    assert "alice" not in repr(settings)


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("a=b", "a", "b"),
        ("a : b", "a", "b"),
        ("a b", "a", "b"),
        (r"a\=c=b", "a=c", "b"),
        (r"a=\u0041\tx", "a", "A\tx"),
        ("a=b\\\n   c", "a", "bc"),
        ("a=", "a", ""),
        ("   a=b=c", "a", "b=c"),
    ],
)
def test_properties_are_read_as_java_reads_them(line: str, name: str, value: str) -> None:
    assert [(found.name, found.value) for found in parse_lines(line)] == [(name, value)]


def test_the_brokers_may_be_named_by_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "bootstrap.servers=kafka:9093\n")
    assert read_client_settings(None, path).bootstrap_servers == "kafka:9093"
    assert read_client_settings("other:1", path).bootstrap_servers == "other:1"
    with pytest.raises(ConfigurationError, match="No broker is named"):
        read_client_settings(None, None)


@pytest.mark.parametrize(
    ("properties", "advice"),
    [
        ({"ssl.truststore.location": "t.jks"}, "keytool -exportcert"),
        ({"ssl.keystore.location": "k.jks"}, "PKCS12"),
        ({"sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;"}, "sasl.kerberos"),
    ],
)
def test_what_has_no_counterpart_is_refused_with_the_way_out(properties: dict[str, str], advice: str) -> None:
    with pytest.raises(ConfigurationError, match=advice):
        translate_properties(properties, "client.properties")


def test_key_stores_as_pem_and_pkcs12_are_taken(tmp_path: Path) -> None:
    pem = {"ssl.keystore.type": "PEM", "ssl.keystore.location": "client.pem", "ssl.key.password": "x"}
    assert translate_properties(pem, "f") == {
        "ssl.certificate.location": "client.pem",
        "ssl.key.location": "client.pem",
        "ssl.key.password": "x",
    }
    packed = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": "c.p12", "ssl.keystore.password": "x"}
    assert translate_properties(packed, "f") == {"ssl.keystore.location": "c.p12", "ssl.keystore.password": "x"}
    inline = {"ssl.keystore.key": "KEY", "ssl.keystore.certificate.chain": "CHAIN", "ssl.truststore.certificates": "CA"}
    assert translate_properties(inline, "f") == {
        "ssl.certificate.pem": "CHAIN",
        "ssl.key.pem": "KEY",
        "ssl.ca.pem": "CA",
    }


def test_processes_on_other_machines_get_certificates_themselves(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("-----BEGIN CERTIFICATE-----")
    path = write(tmp_path, f"ssl.ca.location={tmp_path / 'ca.pem'}\nbootstrap.servers=kafka:1\n")
    assert read_client_properties(path) == {"ssl.ca.pem": "-----BEGIN CERTIFICATE-----"}
    with pytest.raises(ConfigurationError, match="cannot be read as PEM"):
        read_client_properties(write(tmp_path, "ssl.ca.location=/nowhere.pem\n"))


def test_a_java_client_s_file_is_taken_as_it_is(tmp_path: Path) -> None:
    """An empty algorithm is no check of the host's name; what only Java's client knows changes nothing."""
    text = """
ssl.endpoint.identification.algorithm=
default.api.timeout.ms=60000
request.timeout.ms=600000
sasl.login.refresh.window.factor=0.8
sasl.login.connect.timeout.ms=10000
sasl.login.class=org.apache.kafka.common.security.authenticator.DefaultLogin
security.providers=com.company.Provider
ssl.enabled.protocols=TLSv1.2,TLSv1.3
partition.assignment.strategy=org.apache.kafka.clients.consumer.RangeAssignor
acks=1
retries=0
connections.max.idle.ms=-1
client.dns.lookup=default
client.rack=
schema.registry.url=https://registry
compression.type=zstd
compression.zstd.level=9
compression.gzip.level=1
"""
    assert dict(read_client_settings("kafka:9092", write(tmp_path, text)).properties) == {
        "ssl.endpoint.identification.algorithm": "none",
        "socket.timeout.ms": "300000",
        "connections.max.idle.ms": "0",
        "compression.type": "zstd",
        "compression.level": "9",
    }


def test_all_that_cannot_be_used_is_said_in_one_answer_with_its_line_and_no_value(tmp_path: Path) -> None:
    text = """security.protcol=SSL
request.timeout.ms=soon
ssl.truststore.location=t.jks
company.own=secret-1
security.protocol=TLS-secret-2
sasl.login.callback.handler.class=com.company.Handler
config.providers=file
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="alice"
password="secret-3";
secret-4;
"""
    with pytest.raises(ConfigurationError) as refused:
        read_client_settings("kafka:9092", write(tmp_path, text))
    said = str(refused.value).splitlines()
    assert [line.split(":")[0].strip() for line in said[1:-1]] == [f"line {n}" for n in (1, 2, 3, 4, 5, 6, 7, 9, 10)]
    assert "security.protcol: no client of Kafka has it; did you mean security.protocol?" in said[1]
    assert "request.timeout.ms: the client library does not take its value (as socket.timeout.ms)" in said[2]
    assert "keytool -exportcert" in said[3]
    assert "leave it out" in said[4]
    assert "security.protocol: the client library does not take its value" in said[5]
    assert "winnow.oauth.callback=MODULE:FUNCTION" in said[6]
    assert "its name is not one of a property: as a part of sasl.jaas.config it belongs to the line before" in said[8]
    assert said[-1] == "What becomes of each property: docs/kafka-clients.md."
    assert not re.search("secret-[1-4]", str(refused.value))


@pytest.mark.parametrize("bound", ["500", "1000"])
def test_a_number_below_what_the_library_knows_is_the_smallest_that_it_knows(bound: str) -> None:
    assert translate_properties({"request.timeout.ms": bound}, "f") == {"socket.timeout.ms": "1000"}


def test_java_s_cipher_suites_are_refused_and_openssl_s_are_taken() -> None:
    assert translate_properties({"ssl.cipher.suites": "ECDHE-RSA-AES256-GCM-SHA384"}, "f")
    with pytest.raises(ConfigurationError, match="OpenSSL's"):
        translate_properties({"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"}, "f")


def test_pkcs12_is_taken_under_the_name_of_a_java_key_store(tmp_path: Path) -> None:
    """Java reads it so, and keytool writes PKCS12 whatever the file is called; a real JKS is still refused."""
    store = tmp_path / "client.jks"
    store.write_bytes(b"\x30\x82")
    given = {"ssl.keystore.location": str(store), "ssl.keystore.password": "x"}
    assert translate_properties(given, "f") == given
    store.write_bytes(b"\xfe\xed\xfe\xed")
    with pytest.raises(ConfigurationError, match="PKCS12"):
        translate_properties(given, "f")


def test_a_key_without_its_certificates_is_said() -> None:
    with pytest.raises(ConfigurationError, match=r"ssl\.keystore\.key: it needs ssl\.keystore\.certificate\.chain"):
        translate_properties({"ssl.keystore.key": "KEY"}, "f")


def test_names_for_what_is_misspelt_are_names_that_the_library_knows() -> None:
    said = try_properties(dict.fromkeys(LIBRARY_NAMES, ""))
    assert [name for name, problem in said.items() if problem == UNKNOWN_NAME] == []


def test_the_library_s_own_names_are_taken_but_for_those_that_would_lose_records() -> None:
    given = {"socket.keepalive.enable": "true", "request.required.acks": "0", "enable.auto.offset.store": "true"}
    assert translate_properties(given, "f") == {"socket.keepalive.enable": "true"}


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        (
            {"security.protocol": "SSL", "ssl.ca.location": "/nowhere/s3cret"},
            r"ssl\.ca\.location does not fit, or a file",
        ),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "built without the mechanism"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc"},
            r"sasl\.oauthbearer\.method and sasl\.oauthbearer\.token\.endpoint\.url do not fit",
        ),
    ],
    ids=["file", "mechanism", "together"],
)
def test_what_the_library_refuses_only_together_names_the_properties(properties: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as refused:
        make_admin_client(ClientSettings("127.0.0.1:1", properties))
    assert "s3cret" not in str(refused.value)
