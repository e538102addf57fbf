"""docs/kafka-clients.md is made of the table of properties, and its examples are taken as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.docs_site.kafka_clients_page import EXAMPLES, format_page
from winnow.kafka.client_settings import PROPERTIES_PAGE, read_client_settings
from winnow.kafka.java_properties import JAVA_PROPERTIES


def test_page_is_what_the_table_says(root: Path) -> None:
    assert (root / PROPERTIES_PAGE).read_text(encoding="utf-8") == format_page(), "Write it anew: make docs"


def test_every_property_of_the_table_is_on_the_page() -> None:
    table = format_page().split("## Every property")[1]
    assert {each.name for each in JAVA_PROPERTIES} <= set(re.findall(r"`([\w.]+)`", table))


EXPECTED = {
    "aws": {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "winnow.oauth.callback": "aws-msk-iam",
    },
    "azure": {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "https://login.microsoftonline.com/TENANT/oauth2/v2.0/token",
        "sasl.oauthbearer.client.id": "CLIENT",
        "sasl.oauthbearer.client.secret": "SECRET",
        "sasl.oauthbearer.scope": "https://NAMESPACE.servicebus.windows.net/.default",
    },
    "google_plain": {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ACCOUNT@PROJECT.iam.gserviceaccount.com",
        "sasl.password": "KEY-IN-BASE64",
    },
    "google_oidc": {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "http://localhost:14293",
        "sasl.oauthbearer.client.id": "unused",
        "sasl.oauthbearer.client.secret": "unused",
    },
    "confluent": {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "KEY",
        "sasl.password": "SECRET",
        "client.dns.lookup": "use_all_dns_ips",
    },
    "function": {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "winnow.oauth.callback": "company_tokens.kafka:get_token",
    },
}


@pytest.mark.parametrize("place", EXAMPLES)
def test_each_example_becomes_what_the_library_needs(place: str, tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text(EXAMPLES[place])
    assert dict(read_client_settings("kafka:9092", str(path)).properties) == EXPECTED[place]
