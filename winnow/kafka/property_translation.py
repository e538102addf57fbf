"""Translates client properties to librdkafka's, and says everything that cannot be used in one answer."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from winnow.kafka.java_properties import (
    JAVA_PROPERTIES,
    MEANINGLESS_VALUES,
    JavaProperty,
    Treatment,
    find_java_property,
)
from winnow.kafka.library_properties import DECIDED_NAMES, LIBRARY_NAMES, UNKNOWN_NAME, try_properties
from winnow.kafka.logins import HANDLERS, JAAS, MECHANISM, translate_login
from winnow.kafka.token_callbacks import OWN_NAMES

ENDPOINT_CHECK: Final = "ssl.endpoint.identification.algorithm"
_SERVERS_ALIAS: Final = "metadata.broker.list"
_CIPHERS: Final = "ssl.cipher.suites"
_TRUST_STORE: Final = tuple(f"ssl.truststore.{part}" for part in ("location", "type", "certificates", "password"))
_KEY_STORE: Final = tuple(
    f"ssl.keystore.{part}" for part in ("location", "type", "password", "key", "certificate.chain")
)
_LEVELS: Final = {f"compression.{codec}.level": codec for codec in ("gzip", "lz4", "zstd")}
_JAVA_CIPHER: Final = re.compile(r"\b(TLS|SSL)_\w+_")
_DER_SEQUENCE: Final = b"\x30"
"""What a file in PKCS12 begins with."""
_LOOK_UP: Final = re.compile(r"\$\{\w+:")
_SHOWN_NAME: Final = re.compile(r"[A-Za-z_][\w-]*(\.[\w-]+)+")
"""What is no name of a property may be a part of a password that was broken over two lines."""
_NAMES: Final = sorted({each.name for each in JAVA_PROPERTIES} | LIBRARY_NAMES | set(OWN_NAMES))


@dataclass
class Translation:
    """Properties in librdkafka's names and those that only Winnow knows.

    ``problems``: what cannot be used, and the way on, by the names of the file.
    """

    properties: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    """The file's name for each property that has another name here."""

    def put(self, name: str, value: str, origin: str) -> None:
        """Take a value over, which the file has under the name ``origin``."""
        self.properties[name] = value
        self.origins[name] = origin


def translate_client_properties(given: Mapping[str, str]) -> Translation:
    """Translate ``given``: Java's names, librdkafka's and Winnow's own. An empty value is no value."""
    done = Translation()
    properties = {name: value for name, value in given.items() if not (_is_known(name) and _is_unset(name, value))}
    if _SERVERS_ALIAS in properties:
        properties.setdefault("bootstrap.servers", properties.pop(_SERVERS_ALIAS))
    login = translate_login(properties)
    if MECHANISM in login.properties:
        properties.pop("sasl.mechanisms", None)
    done.problems |= login.problems
    done.properties |= login.properties
    _take_trust_store(properties, done)
    _take_key_store(properties, done)
    for name, value in properties.items():
        if name not in _JUDGED_TOGETHER and name not in login.properties:
            _translate_one(name, value, properties, done)
    _ask_library(done)
    return done


_JUDGED_TOGETHER: Final = frozenset({*_TRUST_STORE, *_KEY_STORE, *HANDLERS, JAAS})


def _is_known(name: str) -> bool:
    return name in LIBRARY_NAMES or name in OWN_NAMES or find_java_property(name) is not None


def _is_unset(name: str, value: str) -> bool:
    return (value == "" and name != ENDPOINT_CHECK) or MEANINGLESS_VALUES.get(name) == value


def _translate_one(name: str, value: str, properties: Mapping[str, str], done: Translation) -> None:
    known = find_java_property(name)
    if known is None:
        if name not in DECIDED_NAMES:
            done.put(name, value, name)  # Winnow's, the library's, or misspelt: the library is asked
    elif known.treatment is Treatment.REFUSED:
        done.problems[name] = known.note
    elif name == ENDPOINT_CHECK:
        done.properties[name] = value.lower() or "none"
    elif name == _CIPHERS and _JAVA_CIPHER.search(value):
        done.problems[name] = "it has Java's names; write OpenSSL's, or leave it out for OpenSSL's choice"
    elif name in _LEVELS:
        if properties.get("compression.type") == _LEVELS[name]:
            done.put("compression.level", value, name)
    elif known.treatment is Treatment.TAKEN and not ("config.providers" in properties and _LOOK_UP.search(value)):
        done.put(known.library_name or name, _keep_in_bounds(known, value), name)


def _keep_in_bounds(known: JavaProperty, value: str) -> str:
    if known.bounds is None or not re.fullmatch(r"-?\d{1,15}", value):
        return value  # what is no number, the library refuses
    smallest, largest = known.bounds
    return str(min(max(int(value), smallest), largest))


def _ask_library(done: Translation) -> None:
    own = {name: value for name, value in done.properties.items() if name not in OWN_NAMES}
    for name, problem in try_properties(own).items():
        origin = done.origins.get(name, name)
        known = find_java_property(origin)
        if problem == UNKNOWN_NAME and known is not None:
            del done.properties[name]  # newer than the installed library, whose defaults do
        elif problem == UNKNOWN_NAME:
            done.problems[origin] = _suggest_name(origin)
        elif origin == name:
            done.problems[origin] = problem
        else:
            done.problems[origin] = f"{problem} (as {name})"


def _suggest_name(name: str) -> str:
    if name in {"username", "password", "clientId", "clientSecret", "scope"}:
        return f"as a part of {JAAS} it belongs to the line before, which then ends in a backslash"
    close = difflib.get_close_matches(name, _NAMES, n=1, cutoff=0.75)
    if close:
        return f"no client of Kafka has it; did you mean {close[0]}?"
    return "no client of Kafka has it: leave it out"


def _take_trust_store(properties: Mapping[str, str], done: Translation) -> None:
    location, kind, certificates = (properties.get(name) for name in _TRUST_STORE[:3])
    if certificates is not None:
        done.put("ssl.ca.pem", certificates, _TRUST_STORE[2])
    elif location is not None and (kind or "JKS").upper() == "PEM":
        done.put("ssl.ca.location", location, _TRUST_STORE[0])
    elif location is not None:
        done.problems[_TRUST_STORE[0]] = (
            f"a Java key store ({_name_kind(kind)}), which the client library cannot read. Export its certificates: "
            f"keytool -exportcert -rfc -keystore {shlex.quote(location)} -alias NAME > ca.pem; then write "
            "ssl.truststore.type=PEM and ssl.truststore.location=ca.pem"
        )


def _take_key_store(properties: Mapping[str, str], done: Translation) -> None:
    location, kind, password, key, chain = (properties.get(name) for name in _KEY_STORE)
    if key is not None or chain is not None:
        if key is None or chain is None:
            have, lacks = (_KEY_STORE[4], _KEY_STORE[3]) if key is None else (_KEY_STORE[3], _KEY_STORE[4])
            done.problems[have] = f"it needs {lacks} beside it"
            return
        done.put("ssl.certificate.pem", chain, _KEY_STORE[4])
        done.put("ssl.key.pem", key, _KEY_STORE[3])
        return
    if location is None:
        return
    match _read_kind(location, (kind or "JKS").upper()):
        case "PEM":
            done.put("ssl.certificate.location", location, _KEY_STORE[0])
            done.put("ssl.key.location", location, _KEY_STORE[0])
        case "PKCS12":
            done.put("ssl.keystore.location", location, _KEY_STORE[0])
            if password is not None:
                done.put("ssl.keystore.password", password, _KEY_STORE[2])
        case _:
            done.problems[_KEY_STORE[0]] = (
                f"a Java key store ({_name_kind(kind)}), which the client library cannot read. Convert it once: "
                f"keytool -importkeystore -srckeystore {shlex.quote(location)} -destkeystore client.p12 "
                "-deststoretype PKCS12; then write ssl.keystore.type=PKCS12 and ssl.keystore.location=client.p12"
            )


def _read_kind(location: str, named: str) -> str:
    """Return the kind of a key store: Java reads PKCS12 under the name of JKS, too, and keytool writes it so."""
    if named != "JKS":
        return named
    try:
        with Path(location).open("rb") as stream:
            return "PKCS12" if stream.read(1) == _DER_SEQUENCE else named
    except OSError:
        return named


def _name_kind(kind: str | None) -> str:
    return kind.upper() if kind is not None and kind.isalnum() else "JKS"


def describe_problems(problems: Mapping[str, str], lines: Mapping[str, int]) -> Iterable[str]:
    """Describe each problem in the order of the file: its line, the name if it is one, and the way on."""
    for name in sorted(problems, key=lambda each: lines.get(each, 0)):
        shown = name if name in _NAMES or _SHOWN_NAME.fullmatch(name) else "its name is not one of a property"
        where = f"line {lines[name]}: " if name in lines else ""
        yield f"{where}{shown}: {problems[name]}"
