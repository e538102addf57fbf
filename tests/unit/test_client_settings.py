"""A file of client properties, in Java's names or librdkafka's, becomes what librdkafka takes; secrets stay in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from winnow.errors import ConfigurationError
from winnow.kafka.client_settings import (
    parse_properties,
    read_client_properties,
    read_client_settings,
    translate_properties,
)

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
    assert parse_properties(line) == {name: value}


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
