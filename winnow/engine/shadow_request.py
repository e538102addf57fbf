"""What a comparison is asked and what it answers: two JSON documents of the staging area, request and result."""

from __future__ import annotations

from dataclasses import dataclass

from winnow import documents
from winnow.errors import WinnowError
from winnow.files import storage
from winnow.model import OffsetRange, PartitionPlan, Reason, Segment, Strategy


@dataclass(frozen=True, slots=True)
class RecordOrder:
    """A total order over the records of a key (KIP-280). ``header`` names the version's header, None elsewhere."""

    strategy: Strategy
    header: str | None = None

    @property
    def words(self) -> str:
        """The order for people."""
        return {
            Strategy.OFFSET: "highest offset",
            Strategy.TIMESTAMP: "highest timestamp, then highest offset",
            Strategy.HEADER: f"highest version in header {self.header!r}, a missing one below all, then highest offset",
        }[self.strategy]


@dataclass(frozen=True, slots=True)
class DiffPartition:
    """What is compared of one partition: the records in [``start_offset``, ``end_offset``) of ``segments``.

    ``expired_present`` and ``expired_other``: where tombstones that won could go under either order. Those below
    ``covered_end_present`` or ``covered_end_other`` stay if they superseded a record.
    """

    partition: int
    start_offset: int
    end_offset: int
    segments: tuple[Segment, ...]
    expired_present: tuple[OffsetRange, ...] = ()
    expired_other: tuple[OffsetRange, ...] = ()
    covered_end_present: int = 0
    covered_end_other: int = 0

    @property
    def size_bytes(self) -> int:
        """Bytes of the segments."""
        return sum(segment.size_bytes for segment in self.segments)


@dataclass(frozen=True, slots=True)
class DiffRequest:
    """One comparison of one topic. ``sample``: at most so many differing keys are told with coordinates."""

    comparison_id: str
    topic: str
    as_of_ms: int
    present: RecordOrder
    other: RecordOrder
    sample: int
    partitions: tuple[DiffPartition, ...]
    format_version: int = 1

    @property
    def header(self) -> str | None:
        """The header whose anomalies are counted and whose versions are told: the other order's before the present's.

        None when neither looks at one.
        """
        return self.other.header or self.present.header


@dataclass(frozen=True, slots=True)
class RecordCoordinates:
    """A record without its bytes. ``version``: under an order by header, None where it counts as missing."""

    offset: int
    timestamp_ms: int | None
    version: int | None
    tombstone: bool


@dataclass(frozen=True, slots=True)
class DifferingWinners:
    """The two winners of one key."""

    present: RecordCoordinates
    other: RecordCoordinates


@dataclass(frozen=True, slots=True)
class DiffSide:
    """What one order would leave: records, expired tombstones among its winners, bytes by each segment's share.

    ``differing_tombstones``: of the winners that differ from the other side's, those that are tombstones.
    """

    records_kept: int
    tombstones_expired: int
    estimated_bytes: int
    differing_tombstones: int


@dataclass(frozen=True, slots=True)
class PartitionDiff:
    """What was counted for one partition. ``sample``: the differing keys whose present winner comes first."""

    partition: int
    records: int
    records_keyless: int
    keys: int
    keys_differing: int
    present: DiffSide
    other: DiffSide
    headers_missing: int
    headers_malformed: int
    sample: tuple[DifferingWinners, ...]
    bytes_read: int
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class DiffResult:
    """All partitions of one comparison, in order."""

    comparison_id: str
    topic: str
    partitions: tuple[PartitionDiff, ...]
    format_version: int = 1


def build_request_uri(staging: str, topic: str, comparison_id: str) -> str:
    """Where the request of a comparison rests."""
    return storage.join(staging, "compare", topic, f"{comparison_id}.json")


def build_result_uri(request_document_uri: str) -> str:
    """Where the result rests: beside its request."""
    return f"{request_document_uri.removesuffix('.json')}.result.json"


def read_request(uri: str) -> DiffRequest:
    """The request at ``uri``.

    Raises:
        WinnowError: there is none, or it is damaged.
        FormatVersionError: a newer Winnow wrote it.
    """
    try:
        return documents.load_json(DiffRequest, storage.read_bytes(uri))
    except FileNotFoundError as problem:
        raise WinnowError(f"There is no comparison at {uri}. Nothing was changed; compare again.") from problem


def build_equivalent_plan(partition: DiffPartition) -> PartitionPlan:
    """What a compaction of the same records would be planned as."""
    return PartitionPlan(
        partition=partition.partition,
        reason=Reason.DIRTY_RATIO,
        log_start_offset=partition.start_offset,
        first_dirty_offset=partition.start_offset,
        next_first_dirty_offset=partition.end_offset,
        log_end_offset=partition.end_offset,
        segments=partition.segments,
        expired=partition.expired_present,
        covered_end=partition.covered_end_present,
    )
