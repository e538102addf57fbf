"""Decides which neighbouring segments are rewritten together, and in which offset ranges a group is read.

The offsets that a range joins with are held in memory, and DuckDB gathers up to 2,048 records behind a join, whatever
their size: a range of large records is a few row groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from winnow.engine.survivors import SURVIVORS_TABLE, compute_maximum_join_rows, find_offset_table
from winnow.errors import BadInputError
from winnow.files import storage
from winnow.files.page_checksums import make_damaged_page_error
from winnow.files.parquet_footer import read_footer
from winnow.values.model import Segment

if TYPE_CHECKING:
    import duckdb

SMALL_SEGMENT_DIVISOR = 8
"""A segment that loses no records joins a merge only below segment.bytes / SMALL_SEGMENT_DIVISOR."""

MINIMUM_MERGE_GAIN = 2
"""The merged result must be at least this many times its largest input."""


@dataclass(frozen=True, slots=True)
class SegmentSurvivors:
    """A planned segment and the number of its surviving records."""

    segment: Segment
    records: int

    @property
    def loses_records(self) -> bool:
        """Whether compaction removes any of its records."""
        return self.records < self.segment.records

    @property
    def size_bytes(self) -> int:
        """Estimated bytes of the survivors, by their share of the records."""
        return self.segment.size_bytes * self.records // max(1, self.segment.records)


def group_segments(segments: Sequence[SegmentSurvivors], segment_bytes: int) -> list[tuple[SegmentSurvivors, ...]]:
    """Group neighbouring segments to rewrite, in offset order; segments in no group are kept by reference."""
    found: list[tuple[SegmentSurvivors, ...]] = []
    run: list[SegmentSurvivors] = []
    for item in segments:
        if not (item.loses_records or item.segment.size_bytes < segment_bytes / SMALL_SEGMENT_DIVISOR):
            found.extend(_split_run(run))
            run = []
            continue
        if run and sum(member.size_bytes for member in run) + item.size_bytes > segment_bytes:
            found.extend(_split_run(run))
            run = []
        run.append(item)
    found.extend(_split_run(run))
    return found


def _split_run(run: Sequence[SegmentSurvivors]) -> list[tuple[SegmentSurvivors, ...]]:
    """Return a run of candidates as one group if merging is worth it, else only its parts that lose records."""
    if not any(member.loses_records for member in run):
        return []  # merging alone is no reason to rewrite
    if all(member.loses_records for member in run) or _is_worth_merging(run):
        return [tuple(run)]
    groups: list[tuple[SegmentSurvivors, ...]] = []
    current: list[SegmentSurvivors] = []
    for member in run:
        if member.loses_records:
            current.append(member)
        elif current:
            groups.append(tuple(current))
            current = []
    if current:
        groups.append(tuple(current))
    return groups


def _is_worth_merging(run: Sequence[SegmentSurvivors]) -> bool:
    return sum(member.size_bytes for member in run) >= MINIMUM_MERGE_GAIN * max(member.size_bytes for member in run)


MINIMUM_LARGE_RECORD_BYTES = 4 << 10
"""With records of this size in the file, 2,048 are too many to hold."""

MAXIMUM_RANGE_BYTES = 64 << 20
"""Maximum decoded bytes in a range of large records; one row group may have more."""


@dataclass(frozen=True, slots=True)
class ReadRange:
    """The records of neighbouring files from first to last offset, both included."""

    uris: tuple[str, ...]
    first_offset: int
    last_offset: int


def split_into_read_ranges(
    connection: duckdb.DuckDBPyConnection, members: Sequence[SegmentSurvivors], start_offset: int
) -> Iterator[ReadRange]:
    """Split ``members`` from ``start_offset`` on into ranges in offset order, which hold every offset exactly once.

    A segment with more join offsets than may be held at once, or with large records, is cut between its row groups, by
    their statistics.
    """
    at_once = compute_maximum_join_rows(connection)
    lists_survivors = find_offset_table(connection) == SURVIVORS_TABLE
    uris: list[str] = []
    first, last, held = 0, -1, 0
    for member in members:
        segment = member.segment
        listed = member.records if lists_survivors else segment.records - member.records
        large = segment.size_bytes > MINIMUM_LARGE_RECORD_BYTES * segment.records
        if uris and (large or held + listed > at_once):
            yield ReadRange(tuple(uris), first, last)
            uris, held = [], 0
        begins = max(start_offset, segment.first_offset)
        if large or listed > at_once:
            for low, high in _split_file(segment.path, begins, segment.last_offset, at_once, large):
                yield ReadRange((segment.path,), low, high)
            continue
        first = first if uris else begins
        uris.append(segment.path)
        last, held = segment.last_offset, held + listed
    if uris:
        yield ReadRange(tuple(uris), first, last)


def _split_file(uri: str, first_offset: int, last_offset: int, at_once: int, large: bool) -> Iterator[tuple[int, int]]:
    """Yield ranges (first, last offset) of whole row groups with about ``at_once`` records or fewer."""
    filesystem, path = storage.open_filesystem(uri)
    with storage.translate_store_errors(uri), filesystem.open_input_file(path) as stream:
        try:
            footer = read_footer(stream)
        except BadInputError as problem:
            raise make_damaged_page_error(uri) from problem
    low, held, held_bytes = first_offset, 0, 0
    for group in footer.groups:
        bounds = next((chunk.bounds for chunk in group.chunks if chunk.path == "offset"), None)
        begins = None if bounds is None else bounds[0]
        full = held + group.rows > at_once or (large and held_bytes + group.decoded_bytes > MAXIMUM_RANGE_BYTES)
        if begins is not None and begins > low and held and full:
            yield low, begins - 1
            low, held, held_bytes = begins, 0, 0
        held, held_bytes = held + group.rows, held_bytes + group.decoded_bytes
    if low <= last_offset:
        yield low, last_offset
