"""Tokens for OAUTHBEARER: AWS's signer, functions of the user's own, and what is said when there is no token."""

from __future__ import annotations

import base64
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs, urlparse

import pytest

from winnow.errors import ConfigurationError
from winnow.kafka.client_settings import ClientSettings, read_client_properties
from winnow.kafka.token_callbacks import AWS_MSK_IAM, CALLBACK, TokenSource

MSK = "b-1.orders.abc123.c2.kafka.eu-west-1.amazonaws.com:9098"
SERVERLESS = "boot-abc.c1.kafka-serverless.us-gov-east-1.amazonaws.com:9098"


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Static credentials, as AWS's tools find them; nothing else of the machine's."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")


def ask_for_token(settings: ClientSettings) -> tuple[str, float]:
    token, ends_s = settings.to_librdkafka()["oauth_cb"](settings.properties.get("sasl.oauthbearer.config", ""))
    return token, ends_s


@pytest.mark.usefixtures("credentials")
@pytest.mark.parametrize(("servers", "region"), [(MSK, "eu-west-1"), (SERVERLESS, "us-gov-east-1")])
def test_java_s_login_module_of_msk_becomes_a_signed_token_of_the_brokers_region(
    servers: str, region: str, tmp_path: Path
) -> None:
    """The real signer: it signs a link here, without a network. A task on another machine does the same."""
    path = tmp_path / "client.properties"
    path.write_text(
        "sasl.mechanism=AWS_MSK_IAM\n"
        "sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required;\n"
        "sasl.client.callback.handler.class=software.amazon.msk.auth.iam.IAMClientCallbackHandler\n"
    )
    settings = ClientSettings(servers, read_client_properties(str(path)))
    token, ends_s = ask_for_token(settings)
    link = urlparse(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    assert link.hostname == f"kafka.{region}.amazonaws.com"
    asked = parse_qs(link.query)
    assert asked["Action"] == ["kafka-cluster:Connect"]
    assert asked["X-Amz-Credential"][0].startswith("AKIAEXAMPLE/")
    assert 800 < ends_s - time.time() <= 900
    assert settings.to_librdkafka()["sasl.mechanism"] == "OAUTHBEARER"
    assert not [name for name in settings.to_librdkafka() if name.startswith("winnow.")]


@pytest.mark.usefixtures("credentials")
def test_region_is_that_of_the_property_else_of_the_brokers_else_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def find_region(servers: str, **more: str) -> str:
        properties = {CALLBACK: AWS_MSK_IAM, **{name.replace("_", "."): value for name, value in more.items()}}
        token, _ = ask_for_token(ClientSettings(servers, properties))
        host = urlparse(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()).hostname
        assert host is not None
        return host.split(".")[1]

    with pytest.raises(ConfigurationError, match=r"no region of AWS.*winnow\.aws\.region"):
        find_region("kafka:9098")
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    assert find_region("kafka:9098") == "eu-north-1"
    assert find_region(MSK) == "eu-west-1"
    assert find_region(MSK, winnow_aws_region="eu-south-1") == "eu-south-1"


@pytest.mark.usefixtures("credentials")
def test_without_credentials_it_is_said_where_they_are_looked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"There are no credentials of AWS.*AWS_ACCESS_KEY_ID"):
        ClientSettings(MSK, {CALLBACK: AWS_MSK_IAM}).to_librdkafka()


@pytest.mark.usefixtures("credentials")
def test_without_the_signer_the_extra_that_brings_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer.MSKAuthTokenProvider", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'winnow-log\[msk\]'"):
        ClientSettings(MSK, {CALLBACK: AWS_MSK_IAM}).to_librdkafka()


def test_a_function_that_is_not_there_is_said() -> None:
    for name in ("no_such_module:get", "winnow.kafka.token_callbacks:no_such_function"):
        with pytest.raises(ConfigurationError, match="there is no such function"):
            ClientSettings("kafka:9092", {CALLBACK: name}).to_librdkafka()


def fail(configuration: str) -> tuple[str, float]:
    raise ValueError(f"s3cret of {configuration}")


def test_a_function_that_fails_is_said_before_a_client_waits_for_it_without_what_it_said() -> None:
    settings = ClientSettings("kafka:9092", {CALLBACK: f"{__name__}:fail"})
    with pytest.raises(ConfigurationError, match=r"gave no token for Kafka \(ValueError\)") as refused:
        settings.to_librdkafka()
    assert "s3cret" not in str(refused.value)


def test_first_token_is_used_once_and_not_when_it_has_ended() -> None:
    ends = iter([time.time() + 600, time.time() + 700, time.time() + 10, time.time() + 800])
    source = TokenSource(lambda _: ("token", next(ends)), "The source", "")
    source.fetch()
    first, second = source(""), source("")
    assert first[1] < second[1]
    source.fetch()
    assert source("")[1] > second[1]
