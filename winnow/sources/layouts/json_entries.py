"""Turns lines of JSON, one entry each, into columns of keys, values or headers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Raw, Struct

from winnow.files.record_batch import Integers, make_headers
from winnow.sources.layouts.entries import EntryError
from winnow.sources.layouts.json_text import render_json

UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError)

_check = msgspec.json.Decoder(Raw).decode
_decode_string = msgspec.json.Decoder(str).decode

_QUOTE, _SPACE, _TAB, _RETURN = b'" \t\r'
_ESCAPE_MARK = b"\\"
_NULL = b"null"
LINE_END = b"\n"


def convert_values(lines: Sequence[bytes]) -> Any:
    """Return keys or values as a column of bytes, by the rule of :mod:`winnow.sources.layouts.json_text`.

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


class _Header(Struct, forbid_unknown_fields=True, gc=False):
    key: str
    value: str | None


class _Envelope(Struct, forbid_unknown_fields=True):
    headers: list[_Header] | None


_decode_headers = msgspec.json.Decoder(_Envelope | list[_Header] | None).decode


def convert_headers(lines: Sequence[bytes]) -> Any:
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
    keys = pa.array([header.key for each in lists for header in each], pa.string())
    values = pa.array([header.value for each in lists for header in each], pa.string()).cast(pa.binary())
    return make_headers(counts, keys, values)


def _find_first(lines: Sequence[bytes], decode: Any) -> int:
    for index, line in enumerate(lines):
        try:
            decode(line)
        except UNDECODABLE:
            return index
    return 0
