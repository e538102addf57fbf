"""Searches the records that readers see for what they show: prefix of the key, text, a field of JSON, a header, a time.

A bounded number of bytes at a time, partition after partition by offset, or newest first in all of them: a place says
where to go on.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from winnow.pipeline.read.browse import BrowsedPartition
from winnow.values.model import Segment

_WINDOW_BYTES: Final = 8 << 20
"""Of a segment's file that a search from the newest reads at a time, since its records are there oldest first."""


@dataclass(frozen=True, slots=True)
class SearchTerms:
    """What a record must have, all of it; empty: no matter. ``field``: of a JSON object, names joined by dots.

    ``field_value`` empty: the field is there. ``header_value`` empty: a header of that name. ``from_ms`` and
    ``until_ms``: the first timestamp, and the first that is too late; a record without one is at no time.
    """

    key_prefix: bytes = b""
    value_text: bytes = b""
    field: str = ""
    field_value: str = ""
    header: str = ""
    header_value: bytes = b""
    from_ms: int | None = None
    until_ms: int | None = None

    def includes_time(self, timestamp_ms: int | None) -> bool:
        """Check whether a record with this timestamp may match."""
        if self.from_ms is None and self.until_ms is None:
            return True
        if timestamp_ms is None:
            return False
        return (self.from_ms or 0) <= timestamp_ms and (self.until_ms is None or timestamp_ms < self.until_ms)

    def may_match(self, segment: Segment) -> bool:
        """Check whether ``segment`` can have a record at such a time."""
        if self.from_ms is None and self.until_ms is None:
            return True
        if segment.min_timestamp_ms is None or segment.max_timestamp_ms is None:
            return False
        return (self.from_ms or 0) <= segment.max_timestamp_ms and (
            self.until_ms is None or segment.min_timestamp_ms < self.until_ms
        )


@dataclass(frozen=True, slots=True)
class ShownContent:
    """What a record shows: key and value, and names and values of headers. What is masked or hidden is not in it."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


@dataclass(frozen=True, slots=True)
class SearchPlace:
    """Where a search goes on: everything before this offset, and in partitions before this one, was searched."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class SearchWindow:
    """The offsets of a segment that are read at once: from ``start``, below ``end``."""

    browsed: BrowsedPartition
    segment: Segment
    start: int
    end: int

    @property
    def partition(self) -> int:
        """The number of the partition."""
        return self.browsed.partition.partition


@dataclass(frozen=True, slots=True)
class SearchScope:
    """The segments that a search reads, by partition."""

    partitions: Sequence[tuple[BrowsedPartition, Sequence[Segment]]]

    @property
    def total_bytes(self) -> int:
        """The size of all segments."""
        return sum(segment.size_bytes for _, segments in self.partitions for segment in segments)

    def compute_searched_bytes(self, place: SearchPlace) -> int:
        """Compute how much of the segments lies before ``place``; of the segment that it cuts, by its offsets."""
        done = {
            number: place.offset if number == place.partition else 0
            for browsed, _ in self.partitions
            if (number := browsed.partition.partition) >= place.partition
        }
        return self._sum_bytes_below(done)

    def compute_bytes_from(self, before: Mapping[int, int]) -> int:
        """Compute how much of the segments lies at ``before``, by partition, and above; of a cut one by its offsets."""
        return self.total_bytes - self._sum_bytes_below(before)

    def _sum_bytes_below(self, offsets: Mapping[int, int]) -> int:
        """Sum what lies below offsets, by partition; all of a partition without one."""
        total = 0
        for browsed, segments in self.partitions:
            end = offsets.get(browsed.partition.partition)
            for segment in segments:
                span = segment.last_offset - segment.first_offset + 1
                below = span if end is None else min(max(end - segment.first_offset, 0), span)
                total += segment.size_bytes * below // span
        return total

    def list_from(self, place: SearchPlace) -> Iterator[SearchWindow]:
        """Yield the segments from ``place`` on, each as one window."""
        for browsed, segments in self.partitions:
            number = browsed.partition.partition
            if number < place.partition:
                continue
            start = max(browsed.log_start_offset, place.offset if number == place.partition else 0)
            for segment in segments:
                if segment.last_offset >= start:
                    yield SearchWindow(browsed, segment, start, segment.last_offset + 1)

    def list_newest(self, before: Mapping[int, int]) -> Iterator[SearchWindow]:
        """Yield windows below the offsets ``before``, by partition: those of the newest segments first.

        Which of two partitions has the newer segment is told by the newest timestamps; within one, offsets fall.
        """
        return heapq.merge(
            *(
                _list_windows(browsed, segments, before.get(browsed.partition.partition, browsed.log_end_offset))
                for browsed, segments in self.partitions
            ),
            key=lambda window: -(window.segment.max_timestamp_ms or 0),
        )


def _list_windows(browsed: BrowsedPartition, segments: Sequence[Segment], before: int) -> Iterator[SearchWindow]:
    for segment in reversed(segments):
        first, end = max(segment.first_offset, browsed.log_start_offset), min(segment.last_offset + 1, before)
        span = segment.last_offset - segment.first_offset + 1
        step = max(1, span * _WINDOW_BYTES // max(segment.size_bytes, 1))
        while first < end:
            start = max(first, end - step)
            yield SearchWindow(browsed, segment, start, end)
            end = start


def open_scope(partitions: Sequence[BrowsedPartition], terms: SearchTerms) -> SearchScope:
    """Choose the segments of ``partitions`` that ``terms`` leave."""
    return SearchScope([(each, [part for part in each.segments if terms.may_match(part)]) for each in partitions])


def matches(terms: SearchTerms, content: ShownContent) -> bool:
    """Check whether ``content`` has everything that ``terms`` ask for besides its time."""
    if terms.key_prefix and not _begins_with(content.key, terms.key_prefix):
        return False
    if terms.value_text and (content.value is None or terms.value_text not in content.value):
        return False
    if terms.header and not any(
        name == terms.header and (not terms.header_value or value == terms.header_value)
        for name, value in content.headers
    ):
        return False
    return not terms.field or _has_field(content.value, terms.field, terms.field_value)


def _begins_with(key: bytes | None, prefix: bytes) -> bool:
    # A decoded key that is a string stands in quotation marks, which nobody types.
    return key is not None and (key.startswith(prefix) or (key[:1] == b'"' and key.startswith(prefix, 1)))


def _has_field(value: bytes | None, field: str, wanted: str) -> bool:
    found = None if value is None else find_field(value, field)
    if found is None or not wanted:
        return found is not None
    text = msgspec.json.decode(found) if found.startswith(b'"') else found.decode()
    return text == wanted


def find_field(content: bytes, path: str) -> bytes | None:
    """Find the JSON of a field of an object; ``path``: its name, or names joined by dots. None: there is none."""
    try:
        fields = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if path in fields:
        return bytes(fields[path]).strip()
    name, _, rest = path.partition(".")
    return find_field(bytes(fields[name]), rest) if rest and name in fields else None
