"""Decoders by format: the door of this package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from winnow.errors import ConfigurationError
from winnow.schemas.avro import make_avro_reader
from winnow.schemas.decoder import Decoder
from winnow.schemas.documents import SchemaDocument, SchemaSource, UnusableSchemaError
from winnow.schemas.framing import BareDecoder, FramedDecoder, MakeReader, MessagePath
from winnow.schemas.json_schema import make_json_schema_reader
from winnow.schemas.reader import DatumReader
from winnow.schemas.text import BytesDecoder, TextDecoder
from winnow.values.formats import Format

if TYPE_CHECKING:
    from winnow.config.setting_fields import SchemaRegistrySettings
    from winnow.schemas.registry import SchemaRegistry

_FIRST_MESSAGE: MessagePath = (0,)

KINDS = {Format.AVRO: "AVRO", Format.JSON_SCHEMA: "JSON", Format.PROTOBUF: "PROTOBUF"}
"""Formats with a schema, and what registries call their documents."""


def make_decoder(
    kind: Format, *, source: SchemaSource | None = None, schema_text: str | None = None, message: str = ""
) -> Decoder:
    """Make the decoder of a format.

    Args:
        kind: the format; JSON without a schema has its decoder elsewhere.
        source: of a format with a schema: what knows the schemas by the ids that datums begin with.
        schema_text: of a format with a schema: the one document of all datums, which then begin with no id; they are
            Protobuf's first message in it, or that of the full name ``message``.
        message: of Protobuf with ``schema_text``.

    Raises:
        ConfigurationError: neither of both is given, or the document is not valid.
        ValueError: the format is JSON without a schema.
    """
    if kind is Format.JSON:
        raise ValueError("JSON without a schema has a decoder of its own")
    if kind is Format.BYTES:
        return BytesDecoder()
    if kind is Format.STRING:
        return TextDecoder()
    make_reader = _READERS[kind]
    if schema_text is not None:
        try:
            document = SchemaDocument(KINDS[kind], schema_text)
            return BareDecoder(make_reader(document, _find_path(document, message) if kind is Format.PROTOBUF else ()))
        except UnusableSchemaError as error:
            raise ConfigurationError(
                f"The schema of the format {kind} cannot be used: it {error}.", next="Correct its document."
            ) from None
    if source is None:
        raise ConfigurationError(
            f"The format {kind} needs schemas, and there is neither a registry nor a document.",
            next="Set schema_registry.url, or name the document of the schema in the topic's configuration.",
        )
    return FramedDecoder(source, KINDS[kind], make_reader, has_paths=kind is Format.PROTOBUF)


def open_registry(settings: SchemaRegistrySettings) -> SchemaRegistry:
    """Open the schema registry of the settings; the caller closes it.

    Raises:
        ConfigurationError: none is set, a file of certificates cannot be read, or the extra ``schemas`` is missing.
    """
    try:
        from winnow.schemas.registry import SchemaRegistry
    except ModuleNotFoundError:
        raise ConfigurationError(
            "The client of schema registries is not installed.", next="Install 'winnow-log[schemas]'."
        ) from None
    return SchemaRegistry(settings)


def _make_avro_reader(document: SchemaDocument, _path: MessagePath) -> DatumReader:
    return make_avro_reader(document)


def _make_json_schema_reader(document: SchemaDocument, _path: MessagePath) -> DatumReader:
    return make_json_schema_reader(document)


def _find_path(document: SchemaDocument, message: str) -> MessagePath:
    if not message:
        return _FIRST_MESSAGE
    with _require_protobuf():
        from winnow.schemas.protobuf_files import find_path
    return find_path(document, message)


def _make_protobuf_reader(document: SchemaDocument, path: MessagePath) -> DatumReader:
    with _require_protobuf():
        from winnow.schemas.protobuf import make_protobuf_reader
    return make_protobuf_reader(document, path)


@contextmanager
def _require_protobuf() -> Iterator[None]:
    """Tell how Protobuf's runtime and compiler, which come with an extra, are installed."""
    try:
        yield
    except ModuleNotFoundError:
        raise ConfigurationError(
            "Protobuf is not installed.", next="Install 'winnow-log[schemas]' wherever schemas are read."
        ) from None


_READERS: dict[Format, MakeReader] = {
    Format.AVRO: _make_avro_reader,
    Format.JSON_SCHEMA: _make_json_schema_reader,
    Format.PROTOBUF: _make_protobuf_reader,
}
