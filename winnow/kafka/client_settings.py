"""How clients reach a Kafka cluster: a file of client properties, in Java's names or librdkafka's.

Every tool of Kafka reads such a file (``--command-config client.properties``), so the one that is there already serves.
Its values are secrets: they are read where a client is made, and are in no plan, message, log or command line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from winnow.errors import ConfigurationError
from winnow.kafka.properties_file import PropertyLine, parse_lines
from winnow.kafka.property_translation import describe_problems, translate_client_properties
from winnow.kafka.token_callbacks import OWN_NAMES, make_token_source

PROPERTIES_PAGE: Final = "docs/kafka-clients.md"


@dataclass(frozen=True)
class ClientSettings:
    """The brokers of a cluster, and the properties of every client of it in librdkafka's names, and Winnow's own.

    ``properties_file``: where they were read. Its ``repr`` shows no value of a property.
    """

    bootstrap_servers: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    properties_file: str | None = None

    def to_librdkafka(self, **own: str | int | bool) -> dict[str, Any]:
        """Return the configuration of a client; ``own``: further properties, with ``_`` for ``.`` in their names.

        Raises:
            ConfigurationError: the client needs tokens of another library, and that is missing or gives none.
        """
        chosen: dict[str, Any] = {name.replace("_", "."): value for name, value in own.items()}
        known = {name: value for name, value in self.properties.items() if name not in OWN_NAMES}
        tokens = make_token_source(self.properties, self.bootstrap_servers)
        if tokens is not None:
            tokens.fetch()
            chosen["oauth_cb"] = tokens
        return {**known, "bootstrap.servers": self.bootstrap_servers, "client.id": "winnow", **chosen}


def read_client_settings(bootstrap_servers: str | None, properties_file: str | None = None) -> ClientSettings:
    """Read the settings of a cluster's clients; ``bootstrap_servers`` None: the file names them.

    Raises:
        ConfigurationError: the file cannot be read, a property cannot be used, or no broker is named.
    """
    found = {} if properties_file is None else _translate_file(properties_file)
    named = found.pop("bootstrap.servers", "")
    servers = bootstrap_servers or named
    if not servers.strip():
        raise ConfigurationError(
            "No broker is named: say --bootstrap-servers HOST:PORT.",
            left="Nothing was read.",
        )
    return ClientSettings(servers.strip(), found, properties_file)


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
    found = _translate_file(path)
    found.pop("bootstrap.servers", None)
    for name, inline in _INLINE.items():
        location = found.pop(name, None)
        if location is not None:
            try:
                found[inline] = Path(location).read_text(encoding="ascii")
            except (OSError, UnicodeDecodeError) as problem:
                raise ConfigurationError(
                    f"{name} in {path} names a file that cannot be read as PEM ({type(problem).__name__}).",
                    left="Nothing was read.",
                ) from None
    return found


def _translate_file(path: str) -> dict[str, str]:
    lines = list(_read_file(path))
    numbers = {line.name: line.number for line in lines}
    return translate_properties({line.name: line.value for line in lines}, path, numbers)


def _read_file(path: str) -> Iterator[PropertyLine]:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise ConfigurationError(
            f"The client properties {path} cannot be read ({type(problem).__name__}).",
            left="Nothing was read.",
        ) from None
    return parse_lines(text)


def translate_properties(
    properties: Mapping[str, str], path: str, lines: Mapping[str, int] | None = None
) -> dict[str, str]:
    """Translate Java's names to librdkafka's; leave out what Winnow decides itself and what only Java knows.

    ``lines``: where in the file ``path`` each name stands.

    Raises:
        ConfigurationError: some cannot be used; all of them are said, each with the way on.
    """
    translation = translate_client_properties(properties)
    if translation.problems:
        told = "".join(f"\n  {each}" for each in describe_problems(translation.problems, lines or {}))
        raise ConfigurationError(
            f"The client properties {path} cannot be used as they are.",
            left=f"Nothing was read.{told}\nWhat becomes of each property: {PROPERTIES_PAGE}.",
        )
    return translation.properties
