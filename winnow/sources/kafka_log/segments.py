"""Reads the record batches of one segment, from its start to where it ends.

A segment that is complete is read strictly: a batch that is cut off, fails its check-sum or contradicts itself is bad
input. Only the active segment, the last of its partition, may end inside of a batch or in zeros: it was copied while a
broker wrote it, or the broker was killed. Where it really ends is found once, by :func:`find_tail`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from winnow.errors import BadInputError
from winnow.files import storage
from winnow.sources.input_errors import make_file_error, make_read_error
from winnow.sources.kafka_log.batches import (
    HEADER_BYTES,
    LENGTH_END,
    MAGIC_AT,
    MESSAGE_FORMAT,
    MINIMUM_LENGTH,
    BatchHeader,
    Bytes,
    find_header_fault,
    is_intact,
    parse_header,
)

READ_BYTES = 4 << 20
SKIM_BYTES = 1 << 16
"""What is read at a time where only headers matter. From an object store requests cost more than bytes."""
_ZEROS_OF_A_HOLE = 16
"""A batch whose last bytes up to this many are zero may be complete: a record without headers ends in zero."""
COPY_AGAIN = "copy the segment again"


class Batch(NamedTuple):
    """One batch at a position in a segment. ``content``: its bytes, None where only headers are read."""

    header: BatchHeader
    position: int
    content: Bytes | None


@dataclass(frozen=True, slots=True)
class Tail:
    """How the active segment ends: ``valid_bytes`` of whole batches, then a batch cut off, then zeros."""

    valid_bytes: int
    cut_off_bytes: int = 0
    zero_bytes: int = 0


class SegmentReader:
    """Reads one segment through a window that moves forward."""

    def __init__(self, uri: str, stream: Any, block_bytes: int) -> None:
        self.uri = uri
        self._stream = stream
        self.size_bytes = int(stream.size())
        self._block_bytes = block_bytes
        self._start = 0
        self._window: Bytes = np.zeros(0, np.uint8)

    def read(self, position: int, size: int) -> Bytes:
        """Return ``size`` bytes at ``position``; fewer where the file ends."""
        at = position - self._start
        if at >= 0 and at + size <= len(self._window):
            return self._window[at : at + size]
        end = min(position + size, self.size_bytes)
        if position < self._start or end > self._start + len(self._window):
            self._load(position, max(end - position, min(self._block_bytes, self.size_bytes - position)))
        at = position - self._start
        return self._window[at : at + max(0, end - position)]

    def _load(self, position: int, size: int) -> None:
        try:
            self._stream.seek(position)
            data = self._stream.read(max(0, size))
        except OSError:
            raise make_read_error(self.uri, "reading it failed", "check the disk and the permissions") from None
        if len(data) < size:
            raise self._make_shorter_error()
        self._window, self._start = np.frombuffer(data, np.uint8), position

    def read_batches(self, end: int, *, first_free_offset: int, with_content: bool) -> Iterator[Batch]:
        """Yield the batches before ``end``; with their content, their check-sums are verified.

        Raises:
            BadInputError: a batch is damaged, cut off, of an older message format, or below ``first_free_offset`` or
                the batch before it.
        """
        if end > self.size_bytes:
            raise self._make_shorter_error()
        position = 0
        while position < end:
            at = position - self._start
            if not 0 <= at <= len(self._window) - HEADER_BYTES or self._window[at + MAGIC_AT] != MESSAGE_FORMAT:
                header = self._read_header(position, end)
            else:
                header = parse_header(self._window, at)
            size = LENGTH_END + header.length
            fault = find_header_fault(header)
            if fault is None and header.base_offset < first_free_offset:
                fault = "has an offset below the batch before it or its segment's name"
            if fault is None and position + size > end:
                fault = "is cut off"
            content = None
            if fault is None and with_content:
                content = self.read(position, size)
                fault = None if is_intact(header, content) else "fails its check-sum"
            if fault is not None:
                raise self.make_batch_error(position, header, fault)
            yield Batch(header, position, content)
            first_free_offset = header.base_offset + header.last_offset_delta + 1
            position += size

    def _read_header(self, position: int, end: int) -> BatchHeader:
        data = self.read(position, HEADER_BYTES)
        if len(data) > MAGIC_AT and data[MAGIC_AT] != MESSAGE_FORMAT:
            raise self.make_format_error(position, int(data[MAGIC_AT]), is_empty=not data.any())
        if position + HEADER_BYTES > end:
            raise self.make_batch_error(position, None, "is cut off")
        return parse_header(data, 0)

    def _make_shorter_error(self) -> BadInputError:
        return make_file_error(
            self.uri, "it became shorter while it was read", "copy the log directory and read the copy"
        )

    def make_batch_error(self, position: int, header: BatchHeader | None, fault: str) -> BadInputError:
        """Make the error about the batch at ``position``; ``fault`` completes "the batch …"."""
        offset = "" if header is None else f" (offset {header.base_offset})"
        return make_file_error(self.uri, f"the batch at byte {position}{offset} {fault}", COPY_AGAIN)

    def make_format_error(self, position: int, magic: int, *, is_empty: bool) -> BadInputError:
        """Make the error about a message format that is not read."""
        if is_empty:
            return make_file_error(self.uri, f"there are zeros instead of a batch at byte {position}", COPY_AGAIN)
        if magic < MESSAGE_FORMAT:
            return make_file_error(
                self.uri,
                f"the batch at byte {position} has message format {magic}, which brokers before 0.11 wrote",
                "read the topic with a consumer, or copy it into a topic of a current broker, and take that",
            )
        return make_file_error(
            self.uri, f"the batch at byte {position} has the unknown message format {magic}", COPY_AGAIN
        )


def choose_skim_bytes(uri: str) -> int:
    """Return how much to read at a time where only headers matter."""
    return SKIM_BYTES if storage.is_local(uri) else READ_BYTES


def find_tail(reader: SegmentReader, position: int) -> Tail | None:
    """Say how an active segment ends that has no valid batch at ``position``; None if it is damaged instead.

    It is the end if what is left is shorter than the batch announces, or is zeros from inside of that batch on, and no
    valid batch follows: a damaged length must not hide what comes after it.
    """
    size = reader.size_bytes
    last = _find_last_non_zero(reader, position)
    if last is None:
        return Tail(position, 0, size - position)
    header = reader.read(position, HEADER_BYTES)
    end = position + HEADER_BYTES
    if len(header) == HEADER_BYTES and parse_header(header, 0).length >= MINIMUM_LENGTH:
        end = position + parse_header(header, 0).size_bytes
    if len(header) > MAGIC_AT and header[MAGIC_AT] != MESSAGE_FORMAT:
        # Format and all that follows were never written; otherwise this is an older format.
        end = position + MAGIC_AT
        return Tail(position, last + 1 - position, size - last - 1) if last < end else None
    if last + _ZEROS_OF_A_HOLE < end <= size:
        return Tail(position, last + 1 - position, size - last - 1)
    if end > size and not _has_valid_end(reader, position) and not _has_later_batch(reader, position):
        return Tail(position, size - position, 0)
    return None


def _find_last_non_zero(reader: SegmentReader, position: int) -> int | None:
    end = reader.size_bytes
    while end > position:
        start = max(position, end - READ_BYTES)
        places = np.flatnonzero(reader.read(start, end - start))
        if len(places):
            return start + int(places[-1])
        end = start
    return None


def _has_valid_end(reader: SegmentReader, position: int) -> bool:
    """Check whether the batch is complete at the file's end, so that only its length is wrong."""
    data = reader.read(position, reader.size_bytes - position)
    return len(data) >= HEADER_BYTES and is_intact(parse_header(data, 0), data)


def _has_later_batch(reader: SegmentReader, position: int) -> bool:
    """Check whether an intact batch begins anywhere after ``position``."""
    start = position + 1
    while start + HEADER_BYTES <= reader.size_bytes:
        data = reader.read(start, READ_BYTES + HEADER_BYTES)
        starts = len(data) - HEADER_BYTES + 1
        # The format, the upper bytes of an offset and of a length: few places have them.
        likely = data[MAGIC_AT : MAGIC_AT + starts] == MESSAGE_FORMAT
        likely &= (data[:starts] < 0x80) & (data[LENGTH_END - 4 : LENGTH_END - 4 + starts] < 0x80)  # noqa: PLR2004
        for place in np.flatnonzero(likely).tolist():
            header = parse_header(data, place)
            fits = start + place + header.size_bytes <= reader.size_bytes
            if fits and find_header_fault(header) is None:
                content = reader.read(start + place, header.size_bytes)
                if is_intact(header, content):
                    return True
        start += starts
    return False
