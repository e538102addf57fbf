"""Reads the lines of an object in bounded groups, and entries that each end in a separator, nothing escaped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from winnow.files.record_batch import Integers
from winnow.sources.formats.batches import slice_by_size
from winnow.sources.formats.compression import open_decompressed
from winnow.sources.input_errors import COPY_AGAIN_ADVICE, Place, make_file_error
from winnow.sources.objects import StoredObject

MAXIMUM_LINE_BYTES = 1 << 30
"""No broker takes a record near this; without a maximum an object without line ends would be read into memory whole."""

_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class LineGroup:
    """Neighbouring lines without their line feeds; ``first`` is the number of the first one, from 1.

    ``is_last``: no line follows. What comes after the object's last line feed is a line, even if it is empty.
    """

    first: int
    lines: list[bytes]
    is_last: bool

    def number(self) -> Integers:
        """Return the number of each line."""
        return np.arange(self.first, self.first + len(self.lines))


def read_line_groups(uri: str, stream: BinaryIO, batch_bytes: int) -> Iterator[LineGroup]:
    """Yield the lines of ``stream`` in groups of at most ``batch_bytes``; a larger line is alone.

    Raises:
        BadInputError: a line is longer than 1 GiB.
    """
    first = 1
    block_bytes = max(1, min(_BLOCK_BYTES, batch_bytes))
    for lines, is_last in _read_blocks(uri, stream, block_bytes):
        sizes = np.fromiter(map(len, lines), np.int64, len(lines))
        for start, end in slice_by_size(sizes, batch_bytes):
            yield LineGroup(first, lines[start:end], is_last and end == len(lines))
            first += end - start


def _read_blocks(uri: str, stream: BinaryIO, block_bytes: int) -> Iterator[tuple[list[bytes], bool]]:
    begun: list[bytes] = []
    begun_bytes = 0
    data = stream.read(block_bytes)
    while following := stream.read(block_bytes):
        head, feed, tail = data.rpartition(b"\n")
        if feed:
            yield b"".join([*begun, head]).split(b"\n"), False
            begun, begun_bytes = [], 0
        begun.append(tail)
        begun_bytes += len(tail)
        if begun_bytes > MAXIMUM_LINE_BYTES:
            raise make_file_error(uri, "a line is longer than 1 GiB", "this is not an archive of Kafka records")
        data = following
    yield b"".join([*begun, data]).split(b"\n"), True


def read_lines(obj: StoredObject, batch_bytes: int) -> Iterator[tuple[Place, list[bytes]]]:
    """Yield the lines of ``obj`` that are not blank, with their places, as :func:`read_line_groups`.

    Raises:
        BadInputError: it cannot be read, its compression is damaged, or a line is longer than 1 GiB.
        ServiceError: an object store cannot be reached.
    """
    with open_decompressed(obj) as stream:
        for group in read_line_groups(obj.uri, stream, batch_bytes):
            lines, rows = drop_blank(group)
            if lines:
                yield Place(obj.uri, "line", rows), lines


def find_first_line(start: bytes) -> bytes:
    """Return the first line of a text that is not blank; empty if there is none."""
    return next((line for line in start.split(b"\n") if line.strip()), b"")


def drop_blank(group: LineGroup) -> tuple[list[bytes], Integers]:
    """Return the lines of ``group`` that are not blank, with their numbers."""
    rows = group.number()
    lines = group.lines
    if all(lines):
        return lines, rows
    kept = [index for index, line in enumerate(lines) if line.strip(b" \t\r")]
    return [lines[index] for index in kept], rows[kept]


MAXIMUM_ENTRY_BYTES = 1 << 30
"""No broker takes a record near this."""


def split_entries(uri: str, stream: BinaryIO, separator: bytes, block_bytes: int) -> Iterator[list[bytes]]:
    """Yield the entries of each block of ``stream``, without their separators.

    Raises:
        BadInputError: the object is empty or does not end in a separator, or an entry is longer than 1 GiB.
    """
    begun: list[bytes] = []
    begun_bytes = total_bytes = 0
    while block := stream.read(block_bytes):
        total_bytes += len(block)
        if len(separator) > 1:
            # It may lie across two blocks.
            block = b"".join([*begun, block])
            begun, begun_bytes = [], 0
        head, found, tail = block.rpartition(separator)
        if found:
            yield b"".join([*begun, head]).split(separator)
            begun, begun_bytes = [], 0
        begun.append(tail)
        begun_bytes += len(tail)
        if begun_bytes > MAXIMUM_ENTRY_BYTES:
            raise make_file_error(
                uri, "an entry is longer than 1 GiB", "no broker accepts it; leave it out with --exclude"
            )
    if not total_bytes:
        raise make_file_error(uri, "the object is empty", COPY_AGAIN_ADVICE)
    if begun_bytes:
        raise make_file_error(uri, "its last entry has no end: the object is cut off", COPY_AGAIN_ADVICE)
