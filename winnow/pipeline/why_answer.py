"""What ``winnow why`` answers: coordinates, bounds, runs and a sentence. The field names are those of ``--json``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from winnow.pipeline.removals import RemovalRun


class LogSection(StrEnum):
    """Where in the log a record lies: covered by a run, to be covered by the next one, or out of its reach yet."""

    CLEAN = "clean"
    DIRTY = "dirty"
    NOT_YET_CLEANABLE = "not_yet_cleanable"


class FoundVerdict(StrEnum):
    """What is said of a record or key that is there."""

    SURVIVED = "survived"
    TOMBSTONE = "tombstone"
    """It survived and says that the key was deleted."""
    WINS_NEXT = "wins_next"
    SUPERSEDED_NEXT = "superseded_next"
    NOT_YET_CLEANABLE = "not_yet_cleanable"
    NOT_COMPACTED = "not_compacted"
    """The topic's policy does not include compact."""
    KEYLESS = "keyless_present"
    UNDECIDED = "undecided"
    """By key: no run has covered any of its records."""
    ABSENT = "absent"
    """By key: there is no record of it."""


@dataclass(frozen=True, slots=True)
class SeenRecord:
    """A record that readers see, without its bytes. ``version`` None: no strategy header, or it counts as missing."""

    partition: int
    offset: int
    timestamp_ms: int | None
    version: int | None
    tombstone: bool
    section: LogSection


@dataclass(frozen=True, slots=True)
class TombstoneLife:
    """How long a tombstone stays. ``earliest_removal_ms``: no run before it drops the tombstone.

    ``covered``: a run has started its delete horizon. ``waiting_for_late_arrivals``: delete.retention.ms has passed,
    and it still fends off late records of a lower version.
    """

    offset: int
    covered: bool
    delete_horizon_ms: int | None
    earliest_removal_ms: int
    waiting_for_late_arrivals: bool
    goes_at_next_run: bool


@dataclass(frozen=True, slots=True)
class LogBounds:
    """The partition's offsets that decide what a run may touch."""

    log_start_offset: int
    first_dirty_offset: int
    first_uncleanable_offset: int
    log_end_offset: int


@dataclass(frozen=True, slots=True)
class SegmentBounds:
    """The segment file that holds an offset."""

    path: str
    first_offset: int
    last_offset: int
    records: int


@dataclass(frozen=True, slots=True)
class MisplacedKey:
    """Records of the key in another partition than the one that is told about."""

    partition: int
    records: int
    winner_offset: int | None


@dataclass(frozen=True, slots=True)
class WhyAnswer:
    """What is known. ``winner``: who won in the newest run; ``next_winner``: who would in a run now.

    ``rule`` says in words by which order ``winner`` won, ``next_rule`` by which one ``next_winner`` would. ``runs``:
    those that covered the record asked about or the winner, oldest first; where it is gone, those that may have
    removed it.
    """

    topic: str
    partition: int | None
    offset: int | None
    present: bool
    verdict: str
    sentence: str
    rule: str
    strategy: str
    winner: SeenRecord | None = None
    next_winner: SeenRecord | None = None
    next_rule: str | None = None
    record: SeenRecord | None = None
    records: tuple[SeenRecord, ...] = ()
    records_total: int = 0
    tombstone: TombstoneLife | None = None
    won_in: RemovalRun | None = None
    runs: tuple[RemovalRun, ...] = ()
    causes: tuple[str, ...] = ()
    ingested: str | None = None
    next_offset: int | None = None
    bounds: LogBounds | None = None
    segment: SegmentBounds | None = None
    default_partition: int | None = None
    partitions_searched: int = 1
    elsewhere: tuple[MisplacedKey, ...] = ()
