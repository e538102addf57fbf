"""Decoders of formats with a schema: one for all datums, or one for each by its id, as Confluent's serializers write.

A framed datum begins with a zero byte and the id of its schema in four bytes. With Protobuf the path to the message in
its document follows: how many indices, then each, as zigzag numbers of variable length; a lone zero stands for the path
of the first message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from winnow.schemas.byte_slices import cut_heads
from winnow.schemas.columns import Positions
from winnow.schemas.decoder import DecodedBatch, DecodedGroup
from winnow.schemas.documents import MAXIMUM_DEPTH, SchemaDocument, SchemaSource, UnusableSchemaError
from winnow.schemas.reader import DatumReader, read_datums

HEAD_BYTES = 5
"""The zero byte and the id."""

MessagePath = tuple[int, ...]
"""Of Protobuf, which message of a document, by indices; empty for the other formats."""

MakeReader = Callable[[SchemaDocument, MessagePath], DatumReader]

_NO_HEAD = "The datum does not begin with the id of a schema, as a serializer with a registry writes it."


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
        self._readers: dict[tuple[int, MessagePath], DatumReader | str] = {}

    def decode(self, datums: pa.Array) -> DecodedBatch:
        """Decode ``datums``; raises ServiceError where the source of their schemas does not answer."""
        groups: list[DecodedGroup] = []
        errors: dict[int, str] = {}
        has_head = np.zeros(len(datums), np.bool_)
        for schema_id, positions in sorted(find_schema_ids(datums).items()):
            has_head[positions] = True
            if self._has_paths:
                paths, starts = self._group_by_path(datums, positions)
                has_head[np.setdiff1d(positions, list(starts))] = False
            else:
                paths, starts = {(): positions}, {}
            for path, members in sorted(paths.items()):
                reader = self._find_reader(schema_id, path)
                if isinstance(reader, str):
                    errors.update(dict.fromkeys(members.tolist(), reader))
                    continue
                heads_bytes = np.array([starts.get(member, HEAD_BYTES) for member in members.tolist()], np.int64)
                bodies = cut_heads(datums.take(pa.array(members)), heads_bytes)
                kept, rows, problems = read_datums(reader, bodies, members)
                errors.update(problems)
                if len(kept):
                    groups.append(DecodedGroup(pa.array(kept), rows))
        errors.update(dict.fromkeys(np.flatnonzero(~has_head).tolist(), _NO_HEAD))
        return DecodedBatch(groups, errors)

    def _find_reader(self, schema_id: int, path: MessagePath) -> DatumReader | str:
        """Return the reader of a schema, or the sentence that says of its datums why there is none."""
        reader = self._readers.get((schema_id, path))
        if reader is None:
            reader = self._readers[schema_id, path] = self._make(schema_id, path)
        return reader

    def _make(self, schema_id: int, path: MessagePath) -> DatumReader | str:
        try:
            document = self._source.find_document(schema_id)
            if document is None:
                return f"Schema {schema_id} is not in {self._source.name}."
            if document.kind != self._kind:
                raise UnusableSchemaError(f"is of the kind {document.kind}, not {self._kind}")
            return self._make_reader(document, path)
        except UnusableSchemaError as error:
            return f"Schema {schema_id} of {self._source.name} cannot be used: it {error}."

    def _group_by_path(
        self, datums: pa.Array, positions: Positions
    ) -> tuple[Mapping[MessagePath, Positions], Mapping[int, int]]:
        """Return the positions by the path that follows the id, and where the message of each begins."""
        members: dict[MessagePath, list[int]] = {}
        starts: dict[int, int] = {}
        for position, datum in zip(positions.tolist(), datums.take(pa.array(positions)).to_pylist(), strict=True):
            try:
                path, starts[position] = read_message_path(datum, HEAD_BYTES)
            except ValueError:
                continue
            members.setdefault(path, []).append(position)
        return {path: np.array(listed, np.int64) for path, listed in members.items()}, starts


def find_schema_ids(datums: pa.Array) -> dict[int, Positions]:
    """Return the positions of framed datums by the ids of their schemas, which lie between 0 and 2^32 - 1."""
    heads = pc.binary_slice(datums.cast(pa.binary()), 0, HEAD_BYTES).dictionary_encode()
    indices = heads.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(indices, kind="stable")
    ends = np.cumsum(np.bincount(indices, minlength=len(heads.dictionary)))
    parts = np.split(order, ends[:-1]) if len(ends) else []
    return {
        int.from_bytes(head[1:]): positions
        for head, positions in zip(heads.dictionary.to_pylist(), parts, strict=True)
        if len(head) == HEAD_BYTES and head[0] == 0
    }


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
