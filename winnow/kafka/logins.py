"""Translates what a Java client logs in with: login modules, their options, and classes that hand out credentials."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from winnow.kafka.properties_file import unescape
from winnow.kafka.token_callbacks import AWS_MSK_IAM, AWS_PROFILE, AWS_ROLE, AWS_ROLE_SESSION, CALLBACK, FUNCTION

HANDLERS: Final = ("sasl.login.callback.handler.class", "sasl.client.callback.handler.class")
JAAS: Final = "sasl.jaas.config"
MECHANISM: Final = "sasl.mechanism"
AWS_MECHANISM: Final = "AWS_MSK_IAM"
ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"

_OPTION = re.compile(r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;]+))""")
_KAFKA_CLASSES: Final = "org.apache.kafka."
_AWS_CLASSES: Final = "software.amazon.msk.auth.iam."
_GOOGLE_CLASSES: Final = "com.google.cloud.hosted.kafka.auth."
_AWS_OPTIONS: Final = {
    "awsProfileName": AWS_PROFILE,
    "awsRoleArn": AWS_ROLE,
    "awsRoleSessionName": AWS_ROLE_SESSION,
}
_AWS_WITHOUT_MEANING: Final = {"awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs", "awsStsRegion"}
_BEARER_OPTIONS: Final = {
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
}
_UNSECURED_PRINCIPAL: Final = "unsecuredLoginStringClaim_sub"


@dataclass
class Login:
    """What a file says of logging in: properties of librdkafka and of Winnow, and what cannot be used, by name."""

    properties: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)


def translate_login(properties: Mapping[str, str]) -> Login:
    """Translate the login module, the mechanism and the classes that hand out credentials."""
    login = Login()
    _translate_module(properties.get(JAAS), login)
    mechanism = properties.get(MECHANISM) or properties.get("sasl.mechanisms")
    if mechanism == AWS_MECHANISM:
        login.properties[CALLBACK] = AWS_MSK_IAM
    for name in HANDLERS:
        _judge_handler(name, properties.get(name), login)
    if ENDPOINT in properties:
        login.properties |= {ENDPOINT: properties[ENDPOINT], "sasl.oauthbearer.method": "oidc"}
    named = properties.get(CALLBACK)
    if named is not None:
        login.properties[CALLBACK] = named
        if named != AWS_MSK_IAM and not FUNCTION.fullmatch(named):
            login.problems[CALLBACK] = f"it is {AWS_MSK_IAM}, or the name of a function as MODULE:FUNCTION"
    if AWS_PROFILE in login.properties and AWS_ROLE in login.properties:
        login.problems[JAAS] = (
            "a role is assumed with the credentials of the environment: leave awsProfileName out and set AWS_PROFILE"
        )
    if login.properties.get(CALLBACK) is not None:
        login.properties[MECHANISM] = "OAUTHBEARER"
    elif (
        mechanism == "OAUTHBEARER" and not login.problems and not _has_token_source({**properties, **login.properties})
    ):
        login.problems[MECHANISM] = (
            f"OAUTHBEARER needs tokens: write {ENDPOINT} with client id and secret (OIDC), or {CALLBACK}"
        )
    return login


def _has_token_source(properties: Mapping[str, str]) -> bool:
    kinds = ("sasl.oauthbearer.method", "enable.sasl.oauthbearer.unsecure.jwt")
    return any(name in properties for name in (*kinds, "sasl.oauthbearer.metadata.authentication.type"))


def _translate_module(jaas: str | None, login: Login) -> None:
    if jaas is None:
        return
    module, _, rest = jaas.strip().partition(" ")
    options = {
        name: unescape(double or single) if double or single else bare
        for name, double, single, bare in _OPTION.findall(rest)
    }
    match module.rpartition(".")[2]:
        case "PlainLoginModule" | "ScramLoginModule":
            login.properties |= {f"sasl.{name}": options[name] for name in ("username", "password") if name in options}
        case "OAuthBearerLoginModule":
            _translate_bearer(options, login)
        case "IAMLoginModule" if _AWS_CLASSES in module:
            _use_aws(options, login)
        case "Krb5LoginModule":
            login.problems[JAAS] = (
                "for Kerberos write librdkafka's properties (sasl.mechanism=GSSAPI, sasl.kerberos.principal, "
                "sasl.kerberos.keytab), and install a client library that is built with it: the one of PyPI is not"
            )
        case _:
            login.problems[JAAS] = (
                "it names a login module that is not known here; those of PLAIN, SCRAM, OAUTHBEARER and AWS MSK IAM are"
            )


def _translate_bearer(options: Mapping[str, str], login: Login) -> None:
    login.properties |= {_BEARER_OPTIONS[name]: value for name, value in options.items() if name in _BEARER_OPTIONS}
    extensions = {
        name.removeprefix("extension_"): value for name, value in options.items() if name.startswith("extension_")
    }
    if extensions:
        joined = ",".join(f"{name}={value}" for name, value in extensions.items())
        login.properties["sasl.oauthbearer.extensions"] = joined
    principal = options.get(_UNSECURED_PRINCIPAL)
    if principal is not None:
        login.properties |= {
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": f"principal={principal}",
        }
    if any(name.startswith("aws") for name in options):
        _use_aws(options, login)


def _use_aws(options: Mapping[str, str], login: Login) -> None:
    login.properties[CALLBACK] = AWS_MSK_IAM
    login.properties |= {_AWS_OPTIONS[name]: value for name, value in options.items() if name in _AWS_OPTIONS}
    unknown = sorted(
        name
        for name in options
        if name.startswith("aws") and name not in _AWS_OPTIONS and name not in _AWS_WITHOUT_MEANING
    )
    if unknown:
        login.problems[JAAS] = f"the signer of AWS MSK for Python has no {', '.join(unknown)}"


def _judge_handler(name: str, handler: str | None, login: Login) -> None:
    if handler is None or handler.startswith(_KAFKA_CLASSES):
        return
    if handler.startswith(_AWS_CLASSES):
        login.properties[CALLBACK] = AWS_MSK_IAM
    elif handler.startswith(_GOOGLE_CLASSES):
        login.problems[name] = (
            "a class of Java cannot be run here. At Google's clusters, log in with PLAIN and the key of a service "
            "account, or by OIDC at Google's local server of credentials"
        )
    elif "sasl.password" not in login.properties:
        login.problems[name] = (
            f"a class of Java cannot be run here: write {ENDPOINT} for tokens by OIDC, or {CALLBACK}=MODULE:FUNCTION "
            "for a function of Python"
        )
