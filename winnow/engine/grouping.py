"""Which segments are rewritten together, and which are kept by reference. Pure.

A segment that loses a record is rewritten. One that loses nothing is kept, unless a merge is worth copying it: it is
smaller than an eighth of segment.bytes and the merged result is at least twice the merge's largest input, so a record
is copied by merges only a logarithmic number of times. Groups are of neighbours, in offset order (Kafka 2.9).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from winnow.model import Segment

SMALL_SEGMENT_DIVISOR = 8
"""A segment that loses nothing joins a merge only below segment.bytes / SMALL_SHARE."""
MINIMUM_MERGE_GAIN = 2
"""The merged result must be at least this many times its largest input."""


@dataclass(frozen=True, slots=True)
class SegmentSurvivors:
    """A planned segment and how many of its records survive."""

    segment: Segment
    records: int

    @property
    def loses_records(self) -> bool:
        """Whether compaction removes any of its records."""
        return self.records < self.segment.records

    @property
    def size_bytes(self) -> int:
        """Estimated bytes of what survives, by the share of records."""
        return self.segment.size_bytes * self.records // max(1, self.segment.records)


def group_segments(segments: Sequence[SegmentSurvivors], segment_bytes: int) -> list[tuple[SegmentSurvivors, ...]]:
    """The groups of neighbouring segments to rewrite, in offset order; segments in no group are kept by reference."""
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
    """A run of candidates as one group when merging it is worth it, else only the stretches that lose something."""
    if not any(member.loses_records for member in run):
        return []  # merging alone never rewrites anything
    if all(member.loses_records for member in run) or _is_worth_merging(run):
        return [tuple(run)]
    stretches: list[tuple[SegmentSurvivors, ...]] = []
    current: list[SegmentSurvivors] = []
    for member in run:
        if member.loses_records:
            current.append(member)
        elif current:
            stretches.append(tuple(current))
            current = []
    if current:
        stretches.append(tuple(current))
    return stretches


def _is_worth_merging(run: Sequence[SegmentSurvivors]) -> bool:
    return sum(member.size_bytes for member in run) >= MINIMUM_MERGE_GAIN * max(member.size_bytes for member in run)
