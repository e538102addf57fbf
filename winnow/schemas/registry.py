"""Schemas of a registry, by the API that Confluent's has; Apicurio's and others serve it, too.

It is spoken to by httpx, with two requests of the many that Confluent's own client knows. That one brings a client for
HTTP of its own and four more packages, reads answers of any size, and quotes them in its errors.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import UUID

import httpx
import msgspec

from winnow.config.setting_fields import SchemaRegistrySettings
from winnow.errors import ConfigurationError, ServiceError
from winnow.schemas.documents import (
    MAXIMUM_DEPTH,
    MAXIMUM_SCHEMA_BYTES,
    SchemaDocument,
    SchemaId,
    SchemaReference,
    UnusableSchemaError,
    describe_schema,
)

TIMEOUT_S = 10
"""How long a registry may take to accept a connection, and for each part of an answer."""

_MAXIMUM_ANSWER_BYTES = 2 * MAXIMUM_SCHEMA_BYTES
_MAXIMUM_REFERENCES = 500
_NOT_THERE = frozenset({40401, 40402, 40403})
"""What a registry says of a subject, a version, or a schema that it does not have."""

_MISSING, _REFUSED = 404, frozenset({401, 403})


class _Reference(msgspec.Struct):
    name: str
    subject: str
    version: int


class _Answer(msgspec.Struct, rename={"kind": "schemaType", "text": "schema"}):
    text: str
    kind: str = "AVRO"
    references: list[_Reference] | None = None


class _Problem(msgspec.Struct):
    error_code: int


class _Subject(msgspec.Struct):
    subject: str
    version: int


class SchemaRegistry:
    """A registry. It may be kept open; :meth:`close` ends its connections.

    ``timeout_s``: how long it may take, in seconds.

    Raises:
        ConfigurationError: the settings have no URL, or a file of certificates cannot be read.
    """

    def __init__(self, settings: SchemaRegistrySettings, *, timeout_s: float = TIMEOUT_S) -> None:
        if settings.url is None:
            raise ConfigurationError("No schema registry is set.", next="Set schema_registry.url.")
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if settings.token is not None:
            headers["Authorization"] = f"Bearer {settings.token.get_secret_value()}"
        password = settings.password.get_secret_value() if settings.password else ""
        self._timeout_s = timeout_s
        self._url = settings.url
        self._client = httpx.Client(
            headers=headers,
            auth=(settings.user, password) if settings.user else None,
            verify=_make_tls_context(settings),
            timeout=timeout_s,
            # Redirects are not followed: what is at their end would get the credentials.
            follow_redirects=False,
        )

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return f"the schema registry {urlsplit(self._url).netloc}"

    def close(self) -> None:
        """End its connections."""
        self._client.close()

    def find_document(self, schema_id: SchemaId) -> SchemaDocument | None:
        """Return the document ``schema_id`` with all of its references, or None.

        Raises:
            ServiceError: the registry does not answer, refuses, or is none.
            UnusableSchemaError: the document is too large, or refers to what is not there, or to itself.
        """
        if isinstance(schema_id, UUID):
            answer = self._ask(f"/schemas/guids/{schema_id}", _Answer, describe_schema(schema_id), can_lack_route=True)
        else:
            answer = self._ask(f"/schemas/ids/{schema_id}", _Answer, describe_schema(schema_id))
        return None if answer is None else _Collector(self, schema_id).collect(answer, ())

    def list_subjects(self, schema_id: int) -> Sequence[str]:
        """List the subjects that have the schema, each with its version; raises ServiceError as above."""
        subjects = self._ask(f"/schemas/ids/{schema_id}/versions", list[_Subject], f"schema {schema_id}")
        return [f"{subject.subject} {subject.version}" for subject in subjects or ()]

    def find_version(self, subject: str, version: int, schema_id: SchemaId) -> _Answer | None:
        """Return a version of a subject, deleted ones too, which ``schema_id`` refers to; raises as above."""
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true"
        answer: _Answer | None = self._ask(path, _Answer, f"what {describe_schema(schema_id)} refers to")
        return answer

    def _ask(self, path: str, kind: Any, subject: str, *, can_lack_route: bool = False) -> Any:
        """Return the answer to a request, None if there is no such thing; ``subject`` says for messages what it is.

        ``can_lack_route``: not every registry has such requests, and one that has none has no such thing.
        """
        try:
            with self._client.stream("GET", self._url + path) as response:
                body = b""
                for part in response.iter_bytes():
                    body += part
                    if len(body) > _MAXIMUM_ANSWER_BYTES:
                        raise UnusableSchemaError(f"is larger than {MAXIMUM_SCHEMA_BYTES:,} bytes")
        except httpx.TimeoutException:
            raise self._make_error(subject, f"it did not answer within {self._timeout_s:g} s", _WAIT) from None
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError):
            raise self._make_error(subject, "it cannot be reached, or not by its certificates", _WAIT) from None
        status = response.status_code
        if status in _REFUSED:
            raise self._make_error(subject, f"it refuses access with status {status}", _CREDENTIALS)
        if status == _MISSING and (can_lack_route or _is_problem(body)):
            return None
        if status != httpx.codes.OK:
            raise self._make_error(subject, f"it answered with status {status}", _ADDRESS)
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, RecursionError):
            raise self._make_error(subject, "its answer is not one of a schema registry", _ADDRESS) from None

    def _make_error(self, subject: str, cause: str, advice: str) -> ServiceError:
        return ServiceError(f"T{self.name.removeprefix('t')} did not give {subject}: {cause}.", next=advice)


_WAIT = "Check schema_registry.url and that the registry is up, then run it again."
_CREDENTIALS = "Check schema_registry.user and .password, or .token, or the client's certificate."
_ADDRESS = "Check that schema_registry.url is the whole address of its API, with its path, and that it is healthy."


class _Collector:
    """Collects what one document refers to, each subject's version once."""

    def __init__(self, registry: SchemaRegistry, schema_id: SchemaId) -> None:
        self._registry = registry
        self._schema_id = schema_id
        self._documents: dict[tuple[str, int], SchemaDocument] = {}
        self._size_bytes = 0

    def collect(self, answer: _Answer, above: tuple[tuple[str, int], ...]) -> SchemaDocument:
        """Make the document of ``answer``; ``above``: what leads to it."""
        self._size_bytes += len(answer.text)
        if self._size_bytes > MAXIMUM_SCHEMA_BYTES:
            raise UnusableSchemaError(f"is larger than {MAXIMUM_SCHEMA_BYTES:,} bytes")
        references = tuple(
            SchemaReference(reference.name, self._find(reference, above)) for reference in answer.references or ()
        )
        return SchemaDocument(answer.kind, answer.text, references)

    def _find(self, reference: _Reference, above: tuple[tuple[str, int], ...]) -> SchemaDocument:
        key = (reference.subject, reference.version)
        if key in above:
            raise UnusableSchemaError("refers to itself")
        if key not in self._documents:
            if len(self._documents) >= _MAXIMUM_REFERENCES or len(above) >= MAXIMUM_DEPTH:
                raise UnusableSchemaError(f"refers to more than {_MAXIMUM_REFERENCES} others")
            answer = self._registry.find_version(*key, self._schema_id)
            if answer is None:
                raise UnusableSchemaError("refers to a schema that is not there")
            self._documents[key] = self.collect(answer, (*above, key))
        return self._documents[key]


def _is_problem(body: bytes) -> bool:
    """Tell whether a registry says that something is not there; a wrong address has no such page either."""
    try:
        return msgspec.json.decode(body, type=_Problem).error_code in _NOT_THERE
    except (msgspec.DecodeError, RecursionError):
        return False


def _make_tls_context(settings: SchemaRegistrySettings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=str(settings.ca_file) if settings.ca_file else None)
        if settings.certificate_file is not None:
            key_file = str(settings.key_file) if settings.key_file else None
            context.load_cert_chain(str(settings.certificate_file), key_file, password=_refuse_password)
    except (OSError, ValueError):
        raise ConfigurationError(
            "A certificate or key for the schema registry cannot be read.",
            next="Check schema_registry.ca_file, .certificate_file and .key_file: PEM, the key without a password.",
        ) from None
    return context


def _refuse_password() -> str:
    """Refuse instead of asking at the terminal for the password of a key."""
    raise ValueError("the key has a password")
