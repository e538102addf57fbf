"""Turns the entries of an object into columns: an entry is one value, one key or the headers of one record.

They are lines of JSON, or what Avro or Arrow decoded (dicts, lists, numbers, bytes …).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Raw, Struct

from winnow.files.record_batch import HEADER_BYTES, MAXIMUM_BATCH_ROWS, ROW_BYTES, Integers, make_headers
from winnow.sources.formats.column_values import UNRENDERABLE, Header, list_headers, make_header_column
from winnow.sources.formats.json_text import render_json, render_value


class EntryError(Exception):
    """The entry at ``index`` (from 0) is not what it should be."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


def convert_values(entries: Iterable[Any], block_bytes: int) -> Iterator[Any]:
    """Yield keys or values as columns of about ``block_bytes``, by the rule of :mod:`winnow.sources.formats.json_text`.

    Raises:
        EntryError: an entry cannot be rendered.
    """
    rendered: list[bytes | None] = []
    done = size = 0
    for entry in entries:
        try:
            value = render_value(entry)
        except UNRENDERABLE:
            raise EntryError(done + len(rendered)) from None
        rendered.append(value)
        size += ROW_BYTES if value is None else ROW_BYTES + len(value)
        if size >= block_bytes or len(rendered) >= MAXIMUM_BATCH_ROWS:
            yield pa.array(rendered, pa.binary())
            done += len(rendered)
            rendered, size = [], 0
    if rendered:
        yield pa.array(rendered, pa.binary())


def convert_headers(entries: Iterable[Any], block_bytes: int) -> Iterator[Any]:
    """Yield headers as columns of about ``block_bytes``: each entry is None, a map, or a list of keys and values.

    Raises:
        EntryError: an entry is none of it.
    """
    lists: list[list[Header]] = []
    done = size = 0
    for entry in entries:
        try:
            headers = list_headers(entry)
        except UNRENDERABLE:
            raise EntryError(done + len(lists)) from None
        lists.append(headers)
        size += ROW_BYTES + sum(HEADER_BYTES + len(key) + len(value or b"") for key, value in headers)
        if size >= block_bytes or len(lists) >= MAXIMUM_BATCH_ROWS:
            yield make_header_column(lists)
            done += len(lists)
            lists, size = [], 0
    if lists:
        yield make_header_column(lists)


UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError)

_check = msgspec.json.Decoder(Raw).decode
_decode_string = msgspec.json.Decoder(str).decode

_QUOTE, _SPACE, _TAB, _RETURN = b'" \t\r'
_ESCAPE_MARK = b"\\"
_NULL = b"null"
LINE_END = b"\n"


def convert_json_values(lines: Sequence[bytes]) -> Any:
    """Return keys or values as a column of bytes, by the rule of :mod:`winnow.sources.formats.json_text`.

    Raises:
        EntryError: a line is not one JSON value.
    """
    if lines and lines[0][:1] == b'"':
        try:
            return pa.array([_decode_string(line) for line in lines], pa.string()).cast(pa.binary())
        except UNDECODABLE:
            pass  # some are no strings, or no JSON
    try:
        return pa.array(_render_lines(lines), pa.binary())
    except UNDECODABLE:
        raise EntryError(_find_first(lines, _render)) from None


def has_structures(lines: Sequence[bytes]) -> bool:
    """Check whether a line is neither a string nor null: then the field cannot be base64 text."""
    return any(line.lstrip(b" \t")[:1] not in (b'"', b"n") for line in lines)


def _render_lines(lines: Sequence[bytes]) -> list[bytes | None]:
    """Render each line; those that stay as they are are found for all at once.

    Raises:
        ValueError, msgspec.MsgspecError: a line is not one JSON value in UTF-8.
    """
    LINE_END.join(lines).decode()
    for line in lines:
        _check(line)
    plain = [line[:1] != b'"' and _ESCAPE_MARK not in line for line in lines]
    if _has_outer_space(np.frombuffer(LINE_END.join(compress(lines, plain)), np.uint8)):
        return [render_json(line) for line in lines]
    unchanged = (None if line == _NULL else line for line in compress(lines, plain))
    return [next(unchanged) if is_plain else render_json(line) for line, is_plain in zip(lines, plain, strict=True)]


def _has_outer_space(text: npt.NDArray[np.uint8]) -> bool:
    """Check whether there is white space outside of strings, line ends excepted; ``text`` has no escapes."""
    spaces = np.flatnonzero((text == _SPACE) | (text == _TAB) | (text == _RETURN))
    # Behind an even number of quotation marks is outside.
    return bool(len(spaces)) and bool((np.searchsorted(np.flatnonzero(text == _QUOTE), spaces) % 2 == 0).any())


def _render(line: bytes) -> bytes | None:
    line.decode()
    _check(line)
    return render_json(line)


class _JsonHeader(Struct, forbid_unknown_fields=True, gc=False):
    key: str
    value: str | None


class _Envelope(Struct, forbid_unknown_fields=True):
    headers: list[_JsonHeader] | None


_decode_headers = msgspec.json.Decoder(_Envelope | list[_JsonHeader] | None).decode


def convert_json_headers(lines: Sequence[bytes]) -> Any:
    """Return headers as a column; each line is an array of keys and values (text), or has it as ``headers``.

    Raises:
        EntryError: a line is none of it.
    """
    try:
        found = [_decode_headers(line) for line in lines]
    except UNDECODABLE:
        raise EntryError(_find_first(lines, _decode_headers)) from None
    lists = [(each.headers if isinstance(each, _Envelope) else each) or [] for each in found]
    counts: Integers = np.fromiter(map(len, lists), np.int64, len(lists))
    keys = pa.array([header.key for headers in lists for header in headers], pa.string())
    values = pa.array([header.value for headers in lists for header in headers], pa.string()).cast(pa.binary())
    return make_headers(counts, keys, values)


def _find_first(lines: Sequence[bytes], decode: Any) -> int:
    for index, line in enumerate(lines):
        try:
            decode(line)
        except UNDECODABLE:
            return index
    return 0
