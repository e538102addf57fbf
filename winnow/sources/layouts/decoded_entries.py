"""Turns what Avro or Arrow decoded (dicts, lists, numbers, bytes …) into columns of keys, values or headers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from winnow.files.record_batch import HEADER_BYTES, MAXIMUM_BATCH_ROWS, ROW_BYTES
from winnow.sources.layouts.entries import EntryError, Header, make_header_column
from winnow.sources.layouts.json_text import render_value

UNRENDERABLE = (ValueError, TypeError, OverflowError, RecursionError, LookupError, AttributeError)


def convert_values(entries: Iterable[Any], block_bytes: int) -> Iterator[Any]:
    """Yield keys or values as columns of about ``block_bytes``, by the rule of :mod:`winnow.sources.layouts.json_text`.

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


def list_headers(entry: Any) -> list[Header]:
    """Return keys and values of one record's headers.

    Raises:
        ValueError, TypeError, LookupError: these are no headers.
    """
    if entry is None:
        return []
    if isinstance(entry, Mapping):
        pairs = list(entry.items())
    else:
        pairs = [(header["key"], header["value"]) for header in entry]
    if not all(isinstance(key, str) for key, _ in pairs):
        raise TypeError("a header's key is text")
    if all(value is None or isinstance(value, str | bytes) for _, value in pairs):
        return pairs
    return [(key, render_value(value)) for key, value in pairs]
