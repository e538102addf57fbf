"""Writes the records of ``winnow read`` as JSON lines, compressed or not, and puts a file into its place when whole."""

from __future__ import annotations

import contextlib
import gzip
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

GZIP_LEVEL = 6


class BatchSink(Protocol):
    """Takes batches; what it writes is whole once it is closed."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Write the records of ``batch``."""

    def close(self) -> None:
        """Write what is still held back; the stream below stays open."""


class JsonLines:
    """The interface's 'Records': one JSON object a line, bytes as base64, timestamps as ms since the epoch.

    ``as_text``: bytes that are UTF-8 are written as text, all others as ``{"base64": …}``.
    """

    def __init__(self, stream: BinaryIO, *, as_text: bool = False) -> None:
        import msgspec

        self._stream = stream
        self._as_text = as_text
        self._encoder = msgspec.json.Encoder()
        self._row: Callable[..., object] | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Write one line per record, its fields in the order of the columns; every batch has the same ones."""
        if self._row is None:
            import msgspec

            # A struct is made and encoded in half of the time that a dictionary takes.
            self._row = msgspec.defstruct("Row", batch.schema.names, gc=False)
        columns = [_list_values(name, batch.column(name), self._as_text) for name in batch.schema.names]
        self._stream.write(self._encoder.encode_lines(list(map(self._row, *columns))))

    def close(self) -> None:
        """Nothing is held back."""


class GzipJsonLines(JsonLines):
    """JSON lines, compressed. The same records give the same bytes, whenever they are written."""

    def __init__(self, stream: BinaryIO, *, as_text: bool = False) -> None:
        self._gzip = gzip.GzipFile(filename="", fileobj=stream, mode="wb", compresslevel=GZIP_LEVEL, mtime=0)
        super().__init__(self._gzip, as_text=as_text)  # type: ignore[arg-type]  # a GzipFile writes and flushes as a BinaryIO does

    def close(self) -> None:
        """Write the end of the compressed stream."""
        self._gzip.close()


def _list_values(name: str, column: pa.Array, as_text: bool) -> list[Any]:
    """The column as Python's own values, without the detour over one of PyArrow's scalars per value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if name == "timestamp":
        column = pc.divide(column.cast(pa.int64()), 1000)
    if isinstance(column, pa.ExtensionArray):  # JSON documents
        import msgspec

        texts = column.storage.to_numpy(zero_copy_only=False).tolist()
        return [None if text is None else msgspec.Raw(text.encode()) for text in texts]
    if pa.types.is_list(column.type):
        return _list_headers(column, as_text)
    if as_text and pa.types.is_binary(column.type):
        return list_texts(column)
    if pa.types.is_integer(column.type) and column.null_count:
        # As numbers with gaps they would become floats.
        values = column.fill_null(0).to_numpy(zero_copy_only=False).astype(object)
        values[column.is_null().to_numpy(zero_copy_only=False)] = None
        return list(values.tolist())
    if pa.types.is_floating(column.type) or pa.types.is_boolean(column.type):
        return list(column.to_pylist())
    return list(column.to_numpy(zero_copy_only=False).tolist())


def list_texts(column: pa.Array) -> list[str | dict[str, bytes] | None]:
    """Bytes as text; those that are no UTF-8 as ``{"base64": …}``."""
    import pyarrow as pa

    try:
        return list(column.cast(pa.string()).to_numpy(zero_copy_only=False).tolist())
    except pa.ArrowInvalid:  # some are no UTF-8
        return [_read_text(value) for value in column.to_numpy(zero_copy_only=False).tolist()]


def _read_text(value: bytes | None) -> str | dict[str, bytes] | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": value}


def _list_headers(column: pa.Array, as_text: bool) -> list[list[dict[str, Any]] | None]:
    """A column of headers: most records have none."""
    import numpy as np
    import pyarrow.compute as pc

    flat = column.flatten()
    keys = flat.field("key").to_numpy(zero_copy_only=False).tolist()
    values = list_texts(flat.field("value")) if as_text else flat.field("value").to_numpy(zero_copy_only=False).tolist()
    headers = [{"key": key, "value": value} for key, value in zip(keys, values, strict=True)]
    counts = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
    present = np.flatnonzero(counts >= 0)
    ends = np.cumsum(counts[present])
    found: list[list[dict[str, Any]] | None] = [None] * len(column)
    for at, start, end in zip(present.tolist(), (ends - counts[present]).tolist(), ends.tolist(), strict=True):
        found[at] = headers[start:end]
    return found


@contextlib.contextmanager
def replace_file(target: Path) -> Iterator[BinaryIO]:
    """A stream into ``target`` that readers of it see whole or not at all.

    A sibling is written and moved into place; when the block fails, what was there before stays. What is no regular
    file (a pipe, a device) is written to directly.
    """
    if target.exists() and not target.is_file():
        with target.open("wb") as stream:
            yield stream
        return
    place = target.resolve()
    draft = place.with_name(f".{place.name}.{uuid.uuid4().hex}")
    try:
        with draft.open("xb") as stream:
            yield stream
        draft.replace(place)
    finally:
        draft.unlink(missing_ok=True)
