"""Reads the lines of an object in bounded groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from winnow.files.record_batch import Integers
from winnow.sources.input_errors import make_file_error
from winnow.sources.layouts.chunks import slice_by_size

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


def drop_blank(group: LineGroup) -> tuple[list[bytes], Integers]:
    """Return the lines of ``group`` that are not blank, with their numbers."""
    rows = group.number()
    lines = group.lines
    if all(lines):
        return lines, rows
    kept = [index for index, line in enumerate(lines) if line.strip(b" \t\r")]
    return [lines[index] for index in kept], rows[kept]
