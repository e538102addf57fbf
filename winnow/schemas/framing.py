"""Decoders of formats with a schema: one for all datums, or one for each by its id, as Confluent's serializers write.

A framed datum begins with a zero byte and the id of its schema in four bytes, or with the byte 1 and the schema's GUID
in sixteen. With Protobuf the path to the message in its document follows: how many indices, then each, as zigzag
numbers of variable length; a lone zero stands for the path of the first message. A header of the record may name the
schema instead: then the datum is its body alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from winnow.schemas.byte_slices import cut_heads
from winnow.schemas.columns import Positions
from winnow.schemas.decoder import DecodedBatch, DecodedGroup
from winnow.schemas.documents import (
    MAXIMUM_DEPTH,
    SchemaDocument,
    SchemaId,
    SchemaSource,
    UnusableSchemaError,
    describe_schema,
    order_schema_ids,
)
from winnow.schemas.header_ids import GUID_BYTES, UNREADABLE, read_header_id
from winnow.schemas.reader import DatumReader, read_datums

HEAD_BYTES = 5
"""The zero byte and the id."""
_GUID_HEAD_BYTES = 1 + GUID_BYTES

MessagePath = tuple[int, ...]
"""Of Protobuf, which message of a document, by indices; empty for the other formats."""

MakeReader = Callable[[SchemaDocument, MessagePath], DatumReader]

_Schema: TypeAlias = tuple[SchemaId, MessagePath]

_NO_HEAD = "The datum does not begin with the id of a schema, as a serializer with a registry writes it."
_BAD_HEADER = "The header that names its schema is damaged: it is none that a serializer with a registry writes."
_OTHER_HEADER = (
    "Its headers are of a serializer of Apicurio, and name no schema that can be read: by a content id, of Avro in its "
    "binary encoding or of JSON Schema."
)


class BareDecoder:
    """Decodes datums that all have one schema."""

    def __init__(self, reader: DatumReader) -> None:
        self._reader = reader

    def decode(self, datums: pa.Array) -> DecodedBatch:
        """Decode datums."""
        positions, rows, errors = read_datums(self._reader, datums, np.arange(len(datums)))
        return DecodedBatch([DecodedGroup(pa.array(positions), rows)] if len(positions) else [], errors)


class FramedDecoder:
    """Decodes datums that name their schemas.

    ``kind``: what documents have to be. ``has_paths``: whether the path to a message follows the id.
    """

    def __init__(self, source: SchemaSource, kind: str, make_reader: MakeReader, *, has_paths: bool = False) -> None:
        self._source = source
        self._kind = kind
        self._make_reader = make_reader
        self._has_paths = has_paths
        self._readers: dict[_Schema, DatumReader | str] = {}

    def decode(self, datums: pa.Array, headers: pa.Array | None = None) -> DecodedBatch:
        """Decode ``datums``; raises ServiceError where the source of their schemas does not answer.

        ``headers``: what headers say of their schemas (:func:`winnow.schemas.header_ids.find_header_ids`). Where one
        does, the datum is its body from the first byte on, whatever it begins with.
        """
        groups: list[DecodedGroup] = []
        members, starts, errors = self._group_by_schema(datums, headers)
        for schema, positions in sorted(members.items(), key=_order_schema):
            reader = self._find_reader(schema)
            if isinstance(reader, str):
                errors.update(dict.fromkeys(positions.tolist(), reader))
                continue
            bodies = cut_heads(datums.take(pa.array(positions)), starts[positions])
            kept, rows, problems = read_datums(reader, bodies, positions)
            errors.update(problems)
            if len(kept):
                groups.append(DecodedGroup(pa.array(kept), rows))
        return DecodedBatch(groups, errors)

    def _find_reader(self, schema: _Schema) -> DatumReader | str:
        """Return the reader of a schema, or the sentence that says of its datums why there is none."""
        reader = self._readers.get(schema)
        if reader is None:
            reader = self._readers[schema] = self._make(*schema)
        return reader

    def _make(self, schema_id: SchemaId, path: MessagePath) -> DatumReader | str:
        name = describe_schema(schema_id)
        name = name[0].upper() + name[1:]
        try:
            document = self._source.find_document(schema_id)
            if document is None:
                return f"{name} is not in {self._source.name}."
            if document.kind != self._kind:
                raise UnusableSchemaError(f"is of the kind {document.kind}, not {self._kind}")
            return self._make_reader(document, path)
        except UnusableSchemaError as error:
            return f"{name} of {self._source.name} cannot be used: it {error}."

    def _group_by_schema(
        self, datums: pa.Array, headers: pa.Array | None
    ) -> tuple[dict[_Schema, Positions], Positions, dict[int, str]]:
        """Return the positions by schema, where the body of each datum begins, and errors of those that name none."""
        is_bare = np.zeros(len(datums), np.bool_)
        if headers is not None:
            is_bare = headers.is_valid().to_numpy(zero_copy_only=False)
        framed = np.flatnonzero(~is_bare)
        heads = datums if len(framed) == len(datums) else datums.take(pa.array(framed))
        starts = np.zeros(len(datums), np.int64)
        has_schema = np.zeros(len(datums), np.bool_)
        members: dict[_Schema, Positions] = {}
        for schema_id, places in find_schema_ids(heads).items():
            positions = framed[places]
            starts[positions] = _GUID_HEAD_BYTES if isinstance(schema_id, UUID) else HEAD_BYTES
            paths = self._group_by_path(datums, positions, starts) if self._has_paths else {(): positions}
            members.update({(schema_id, path): grouped for path, grouped in paths.items()})
        errors: dict[int, str] = {}
        if headers is not None and is_bare.any():
            for schema, positions in self._group_by_header(headers).items():
                others = members.get(schema, np.empty(0, np.int64))
                members[schema] = np.sort(np.concatenate((others, positions)))
        for positions in members.values():
            has_schema[positions] = True
        for position in np.flatnonzero(~has_schema).tolist():
            errors[position] = _describe_header(headers, position) if is_bare[position] else _NO_HEAD
        return members, starts, errors

    def _group_by_header(self, headers: pa.Array) -> dict[_Schema, Positions]:
        members: dict[_Schema, list[Positions]] = {}
        for header, positions in _group_equal(headers):
            try:
                schema_id, end = read_header_id(header)
                path, end = read_message_path(header, end) if self._has_paths else ((), end)
            except ValueError:
                continue
            if end == len(header):
                members.setdefault((schema_id, path), []).append(positions)
        return {schema: np.concatenate(parts) for schema, parts in members.items()}

    def _group_by_path(
        self, datums: pa.Array, positions: Positions, starts: Positions
    ) -> Mapping[MessagePath, Positions]:
        """Return the positions by the path that follows at ``starts``, and note there where each message begins."""
        members: dict[MessagePath, list[int]] = {}
        for position, datum in zip(positions.tolist(), datums.take(pa.array(positions)).to_pylist(), strict=True):
            try:
                path, starts[position] = read_message_path(datum, int(starts[position]))
            except ValueError:
                continue
            members.setdefault(path, []).append(position)
        return {path: np.array(listed, np.int64) for path, listed in members.items()}


def _order_schema(entry: tuple[_Schema, Positions]) -> tuple[bool, int, MessagePath]:
    schema_id, path = entry[0]
    return (*order_schema_ids(schema_id), path)


def _describe_header(headers: pa.Array, position: int) -> str:
    return _OTHER_HEADER if headers[position].as_py() == UNREADABLE else _BAD_HEADER


def find_schema_ids(datums: pa.Array) -> dict[SchemaId, Positions]:
    """Return the positions of framed datums by what names their schemas: ids between 0 and 2^32 - 1, and GUIDs."""
    datums = datums.cast(pa.binary())
    found: dict[SchemaId, Positions] = {}
    others: list[Positions] = []
    for head, positions in _group_equal(pc.binary_slice(datums, 0, HEAD_BYTES)):
        if len(head) == HEAD_BYTES and head[0] == 0:
            found[int.from_bytes(head[1:])] = positions
        elif head[:1] == b"\1":
            others.append(positions)
    if others:
        places = np.sort(np.concatenate(others))
        for head, positions in _group_equal(pc.binary_slice(datums.take(pa.array(places)), 0, _GUID_HEAD_BYTES)):
            if len(head) == _GUID_HEAD_BYTES:
                found[UUID(bytes=head[1:])] = places[positions]
    return found


def _group_equal(texts: pa.Array) -> Iterator[tuple[bytes, Positions]]:
    """Yield each of ``texts`` that is not null once, with its positions."""
    encoded = texts.dictionary_encode()
    indices = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
    order = np.argsort(indices, kind="stable")
    ends = np.cumsum(np.bincount(indices, minlength=len(encoded.dictionary)))[: len(encoded.dictionary)]
    yield from zip(encoded.dictionary.to_pylist(), np.split(order, ends)[: len(ends)], strict=True)


def read_message_path(datum: bytes, start: int) -> tuple[MessagePath, int]:
    """Read the path to a message at ``start``: that, and where the message begins; ValueError if there is none."""
    count, start = _read_zigzag(datum, start)
    if count == 0:
        return (0,), start
    if not 0 < count <= MAXIMUM_DEPTH:
        raise ValueError("no path")
    path = []
    for _ in range(count):
        index, start = _read_zigzag(datum, start)
        path.append(index)
    if min(path) < 0:
        raise ValueError("no path")
    return tuple(path), start


def _read_zigzag(datum: bytes, start: int) -> tuple[int, int]:
    number = 0
    for index, byte in enumerate(datum[start : start + 5]):
        number |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:  # noqa: PLR2004 - the bit that says that more follows
            return (number >> 1) ^ -(number & 1), start + index + 1
    raise ValueError("no number")
