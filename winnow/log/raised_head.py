"""Makes the commit that carries a log unchanged above everything that is known of another history of its table.

After an older head of a topic was gone on from, or put back, processes may still be at work over the history that was
given up. None of what they prepared fits a head whose fence, ingest number and sequence number are above all of
theirs, and no metadata file of theirs has a higher number than the next one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from winnow.log.head import Change, Head
from winnow.log.table import FENCE_PROPERTY, LEAST_METADATA_NUMBER_PROPERTY


@dataclass(frozen=True, slots=True)
class KnownNumbers:
    """The highest numbers that anything knows of a table: its folder, the metadata store."""

    sequence_number: int
    metadata_number: int
    fence: int
    ingest_number: int


def make_raised_change(head: Head, known: KnownNumbers, operation: str) -> Change:
    """Make the commit that changes nothing of the log of ``head`` but raises all its numbers above ``known``."""
    fence = max(head.fence, known.fence) + 1
    first_valid = max(head.state.first_valid_ingest, known.ingest_number + 1)
    voided = tuple(each for each in head.state.voided_ingests if each.number >= first_valid)
    return Change(
        state=replace(head.state, fence=fence, first_valid_ingest=first_valid, voided_ingests=voided),
        summary={"winnow.operation": operation},
        properties={
            FENCE_PROPERTY: str(fence),
            LEAST_METADATA_NUMBER_PROPERTY: str(known.metadata_number + 1),
        },
        above_sequence_number=known.sequence_number,
    )
