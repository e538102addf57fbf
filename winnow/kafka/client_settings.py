"""How clients reach a Kafka cluster: a file of client properties, in Java's names or librdkafka's.

Every tool of Kafka reads such a file (``--command-config client.properties``), so the one that is there already serves.
Its values are secrets: they are read where a client is made, and are in no plan, message, log or command line.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from winnow.errors import ConfigurationError

_OWN = frozenset(
    {
        "auto.offset.reset",
        "client.id",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
        "enable.partition.eof",
        "group.id",
        "isolation.level",
        "transactional.id",
    }
)
"""What Winnow decides itself: other values would lose or double records."""
_JAVA_ONLY = re.compile(
    r"(key|value)\.(de)?serializer|.*interceptor\.classes|partitioner\.class|metric\.reporters|metrics\..*"
    r"|sasl\.(client|login)\.(callback\.handler\.)?class|ssl\.(protocol|provider|trustmanager\.algorithm"
    r"|keymanager\.algorithm|secure\.random\.implementation|engine\.factory\.class|enabled\.protocols)"
)
"""Names of Java's clients that mean nothing to others."""
_MODULES = ("plain.PlainLoginModule", "scram.ScramLoginModule", "oauthbearer.OAuthBearerLoginModule")
_OPTION = re.compile(r'([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|(\S+))')


@dataclass(frozen=True)
class ClientSettings:
    """The brokers of a cluster, and the properties of every client of it in librdkafka's names.

    ``properties_file``: where they were read. Its ``repr`` shows no value of a property.
    """

    bootstrap_servers: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    properties_file: str | None = None

    def to_librdkafka(self, **own: str | int | bool) -> dict[str, str | int | bool]:
        """Return the configuration of a client; ``own``: further properties, with ``_`` for ``.`` in their names."""
        chosen = {name.replace("_", "."): value for name, value in own.items()}
        return {**self.properties, "bootstrap.servers": self.bootstrap_servers, "client.id": "winnow", **chosen}


def read_client_settings(bootstrap_servers: str | None, properties_file: str | None = None) -> ClientSettings:
    """Read the settings of a cluster's clients; ``bootstrap_servers`` None: the file names them.

    Raises:
        ConfigurationError: the file cannot be read, a property cannot be used, or no broker is named.
    """
    found = {} if properties_file is None else _read_file(properties_file)
    named = found.pop("bootstrap.servers", "")
    servers = bootstrap_servers or named
    if not servers.strip():
        raise ConfigurationError("No broker is named: say --bootstrap-servers HOST:PORT. Nothing was read.")
    return ClientSettings(servers.strip(), translate_properties(found, properties_file or ""), properties_file)


_INLINE = {
    "ssl.ca.location": "ssl.ca.pem",
    "ssl.certificate.location": "ssl.certificate.pem",
    "ssl.key.location": "ssl.key.pem",
}


def read_client_properties(path: str | None) -> dict[str, str]:
    """Read the properties of clients for processes on other machines, in librdkafka's names.

    Certificates and keys are part of it, so those machines need no files. None: there are no properties.

    Raises:
        ConfigurationError: as :func:`read_client_settings`, or a certificate cannot be read.
    """
    if path is None:
        return {}
    found = translate_properties(_read_file(path), path)
    found.pop("bootstrap.servers", None)
    for name, inline in _INLINE.items():
        location = found.pop(name, None)
        if location is not None:
            try:
                found[inline] = Path(location).read_text(encoding="ascii")
            except (OSError, UnicodeDecodeError) as problem:
                raise ConfigurationError(
                    f"{name} in {path} names a file that cannot be read as PEM ({type(problem).__name__}). Nothing was "
                    "read."
                ) from None
    return found


def _read_file(path: str) -> dict[str, str]:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigurationError(
            f"The client properties {path} cannot be read ({type(problem).__name__}). Nothing was read."
        ) from None
    return parse_properties(text)


def parse_properties(text: str) -> dict[str, str]:
    """Parse a Java properties file: comments, continued lines, escapes, and ``=``, ``:`` or a space after the name."""
    found: dict[str, str] = {}
    lines = iter(text.splitlines())
    for line in lines:
        logical = line.lstrip()
        if not logical or logical[0] in "#!":
            continue
        while len(logical) - len(logical.rstrip("\\")) & 1:
            logical = logical[:-1] + next(lines, "").lstrip()
        name, value = _split_property(logical)
        found[_unescape(name)] = _unescape(value).strip()
    return found


def _split_property(line: str) -> tuple[str, str]:
    match = re.match(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", line, re.DOTALL)
    assert match is not None
    return match[1], match[2]


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        if match[1] is not None:
            return chr(int(match[1], 16))
        return {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(match[2], match[2])

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", replace, text)


def translate_properties(properties: Mapping[str, str], path: str) -> dict[str, str]:
    """Translate Java's names to librdkafka's; leave out what Winnow decides itself and what only Java knows.

    Raises:
        ConfigurationError: a login module or the format of a key store has no counterpart; ``path`` is named.
    """
    found: dict[str, str] = {}
    rest = {name: value for name, value in properties.items() if name not in _OWN and not _JAVA_ONLY.fullmatch(name)}
    jaas = rest.pop("sasl.jaas.config", None)
    if jaas is not None:
        found |= _translate_login(jaas, path)
    endpoint = rest.pop("sasl.oauthbearer.token.endpoint.url", None)
    if endpoint is not None:
        found |= {"sasl.oauthbearer.token.endpoint.url": endpoint, "sasl.oauthbearer.method": "oidc"}
    found |= _take_trust_store(rest, path)
    found |= _take_key_store(rest, path)
    return {**found, **rest}


def _translate_login(jaas: str, path: str) -> dict[str, str]:
    module = next((name for name in _MODULES if name in jaas), None)
    if module is None:
        raise ConfigurationError(
            f"sasl.jaas.config in {path} names a login module that is not known here; PLAIN, SCRAM and OAUTHBEARER "
            "are. For others write librdkafka's properties (sasl.mechanism, sasl.kerberos.*). Nothing was read."
        )
    options = {name: _unescape(quoted) if quoted else bare.rstrip(";") for name, quoted, bare in _OPTION.findall(jaas)}
    if module.startswith("oauthbearer"):
        names = {"clientId": "client.id", "clientSecret": "client.secret", "scope": "scope"}
        return {f"sasl.oauthbearer.{names[name]}": value for name, value in options.items() if name in names}
    return {f"sasl.{name}": options[name] for name in ("username", "password") if name in options}


def _take_trust_store(rest: dict[str, str], path: str) -> dict[str, str]:
    kind = rest.pop("ssl.truststore.type", "PEM" if "ssl.truststore.certificates" in rest else "JKS").upper()
    rest.pop("ssl.truststore.password", None)  # only of Java's own formats
    inline, location = rest.pop("ssl.truststore.certificates", None), rest.pop("ssl.truststore.location", None)
    if inline is not None:
        return {"ssl.ca.pem": inline}
    if location is None:
        return {}
    if kind != "PEM":
        raise ConfigurationError(
            f"ssl.truststore.location in {path} is a Java key store ({kind}), which librdkafka cannot read. Nothing "
            f"was read. Export its certificates: keytool -exportcert -rfc -keystore {shlex.quote(location)} "
            "-alias NAME > ca.pem; then write ssl.truststore.type=PEM and ssl.truststore.location=ca.pem."
        )
    return {"ssl.ca.location": location}


def _take_key_store(rest: dict[str, str], path: str) -> dict[str, str]:
    kind = rest.pop("ssl.keystore.type", "PEM" if "ssl.keystore.key" in rest else "JKS").upper()
    chain, key = rest.pop("ssl.keystore.certificate.chain", None), rest.pop("ssl.keystore.key", None)
    if chain is not None and key is not None:
        return {"ssl.certificate.pem": chain, "ssl.key.pem": key}
    location = rest.get("ssl.keystore.location")
    if location is None:
        return {}
    if kind == "PEM":
        del rest["ssl.keystore.location"]
        return {"ssl.certificate.location": location, "ssl.key.location": location}
    if kind != "PKCS12":
        raise ConfigurationError(
            f"ssl.keystore.location in {path} is a Java key store ({kind}), which librdkafka cannot read. Nothing was "
            f"read. Convert it once: keytool -importkeystore -srckeystore {shlex.quote(location)} -destkeystore "
            "client.p12 -deststoretype PKCS12; then write ssl.keystore.type=PKCS12 and "
            "ssl.keystore.location=client.p12."
        )
    return {}
