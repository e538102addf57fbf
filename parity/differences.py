"""The differences between Kafka's cleaner and Winnow that are known and explained; every other one fails the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Difference:
    """A listed difference. Where it is recognised, the code says exactly when (:mod:`parity.comparison`)."""

    id: str
    sentence: str
    recognised: str


TRANSACTION_MARKERS: Final = Difference(
    "transaction-markers",
    "Transaction markers and the records of aborted transactions are part of the broker's log and never enter "
    "Winnow's: they count in the broker's numbers of messages, and take offsets.",
    "The topic has transactions; the broker's count is larger by at most the records in its batches that no reader "
    "of committed records gets; between the two first dirty offsets there is no committed record.",
)
YOUNG_MARKERS: Final = Difference(
    "young-markers",
    "Under min.compaction.lag.ms a marker or an aborted record holds its segment back at the broker; Winnow asks for "
    "the age of committed records alone.",
    "The segment's largest timestamp is inside the lag and that of its committed records is not.",
)
YOUNG_MARKERS_RETENTION: Final = Difference(
    "young-markers-retention",
    "Under retention.ms a marker or an aborted record keeps its segment, and all after it, at the broker; Winnow asks "
    "for the age of committed records alone.",
    "The segment's largest timestamp is inside the retention and that of its committed records is not.",
)
EARLIEST_RECORD: Final = Difference(
    "earliest-record",
    "max.compaction.lag.ms counts from the earliest dirty record; the broker estimates it by the largest timestamp of "
    "each segment's first batch, so it may begin later.",
    "Winnow's reason is the maximum lag, the broker cleans nothing, and every first batch's largest timestamp is "
    "inside the lag.",
)
QUIET_TOMBSTONES: Final = Difference(
    "quiet-tombstones",
    "Tombstones of a log without new records go once their delete horizon has passed; the broker keeps them until "
    "something else makes it clean the log.",
    "The broker cleaned nothing since the horizon; what is missing are tombstones below its first dirty offset, each "
    "of which an earlier cleaning stamped with a horizon that has passed.",
)
BELOW_LOG_START: Final = Difference(
    "below-log-start",
    "Records below a log start that lies inside a segment stay in the broker's files and count in its numbers of "
    "messages; Winnow neither judges nor counts them.",
    "The log start lies inside the first segment, and the broker's counts are larger by at most its records below it.",
)

OTHER_SIZES: Final = Difference(
    "other-sizes",
    "The dirty ratio counts bytes as each side stores them: Winnow its Parquet files, the broker its batches.",
    "Winnow's own range is the broker's; of two ratios over it, that of Winnow's bytes and that of the broker's, one "
    "is above min.cleanable.dirty.ratio, and its side alone would clean.",
)
CLOSED_BY_THE_CLOCK: Final = Difference(
    "closed-by-the-clock",
    "Winnow's active segment closes once its oldest record is older than segment.ms; the broker's only when a record "
    "is appended.",
    "The broker's range ends where its active segment begins, Winnow's at the end of the log, and the broker's active "
    "segment has a record that is older than segment.ms at the broker's look.",
)

DIFFERENCES: Final = (
    TRANSACTION_MARKERS,
    YOUNG_MARKERS,
    YOUNG_MARKERS_RETENTION,
    EARLIEST_RECORD,
    QUIET_TOMBSTONES,
    BELOW_LOG_START,
    OTHER_SIZES,
    CLOSED_BY_THE_CLOCK,
)
