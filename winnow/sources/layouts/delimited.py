"""Splits objects into entries that each end in a separator: lines of JSON, or bytes with nothing escaped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from winnow.sources.input_errors import make_file_error

MAXIMUM_ENTRY_BYTES = 1 << 30
"""No broker takes a record near this."""

_ADVICE = "copy the object from its source again, or leave it out with --exclude"


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
        raise make_file_error(uri, "the object is empty", _ADVICE)
    if begun_bytes:
        raise make_file_error(uri, "its last entry has no end: the object is cut off", _ADVICE)
