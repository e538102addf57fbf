"""Lines of a text file, plain or gzipped, in groups that make one batch each. Streams."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from winnow.sources.arriving import MAXIMUM_BATCH_ROWS, ROW_BYTES
from winnow.sources.refusals import make_read_error, open_to_read, refuse_file

BLOCK_BYTES = 1 << 20
MINIMUM_BLOCK_BYTES = 1 << 16
MAXIMUM_LINE_BYTES = 1 << 30
"""No broker takes a record near this; without an end a file without line breaks would be read into memory whole."""
_CUT_OFF = "the gzip data is damaged or cut off"
_COPY_AGAIN = "copy the file from its source again"


@dataclass(slots=True)
class LineGroup:
    """Neighbouring lines without their line feeds; ``first`` is the number of the first one, from 1."""

    first: int
    lines: list[bytes] = field(default_factory=list)
    size_bytes: int = 0


def read_line_groups(path: str, batch_bytes: int) -> Iterator[LineGroup]:
    """The lines of ``path`` in groups of at most ``batch_bytes`` (as Arrow holds them) and :data:`MAX_BATCH_ROWS`.

    Raises:
        BadInputError: the file cannot be read, its compression is damaged, or a line is longer than 1 GiB.
        ServiceError: its object store cannot be reached.
    """
    group = LineGroup(1)
    for block in _read_blocks(path, max(MINIMUM_BLOCK_BYTES, min(BLOCK_BYTES, batch_bytes))):
        ends = np.cumsum(np.fromiter(map(len, block), np.int64, len(block)) + ROW_BYTES)
        start, before = 0, 0
        while start < len(block):
            fit = int(np.searchsorted(ends, before + batch_bytes - group.size_bytes, side="right"))
            fit = max(start, min(fit, start + MAXIMUM_BATCH_ROWS - len(group.lines)))
            if fit == start and not group.lines:
                fit = start + 1
            if fit > start:
                group.lines += block[start:fit]
                group.size_bytes += int(ends[fit - 1]) - before
                start, before = fit, int(ends[fit - 1])
            if start < len(block):
                yield group
                group = LineGroup(group.first + len(group.lines))
    if group.lines:
        yield group


def _read_blocks(path: str, block_bytes: int) -> Iterator[list[bytes]]:
    """Whole lines, as many as the file gives at a time."""
    begun: list[bytes] = []
    begun_bytes = 0
    for data in _read_pieces(path, block_bytes):
        head, feed, tail = data.rpartition(b"\n")
        if feed:
            yield b"".join([*begun, head]).split(b"\n")
            begun, begun_bytes = [], 0
        begun.append(tail)
        begun_bytes += len(tail)
        if begun_bytes > MAXIMUM_LINE_BYTES:
            raise refuse_file(path, "a line is longer than 1 GiB", "write one record a line, each with a line break")
    if begun_bytes:
        yield [b"".join(begun)]


def _read_pieces(path: str, block_bytes: int) -> Iterator[bytes]:
    with open_to_read(path) as stream:
        source: Any = stream
        if path.endswith(".gz"):
            if stream.size() == 0:
                # Python reads this as no data; it is the commonest trace of an upload that failed.
                raise refuse_file(path, _CUT_OFF, _COPY_AGAIN)
            source = gzip.GzipFile(fileobj=stream)
        while data := _read_bytes(path, source, block_bytes):
            yield data


def _read_bytes(path: str, source: Any, block_bytes: int) -> bytes:
    try:
        return bytes(source.read(block_bytes))
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise refuse_file(path, _CUT_OFF, _COPY_AGAIN) from None
    except OSError:
        raise make_read_error(path, "reading it failed", "check the disk and the file's permissions") from None
