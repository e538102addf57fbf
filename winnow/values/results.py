"""Results of a run: staged files, facts, verdict, receipt, open alerts. Frozen, standard library only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from itertools import chain
from typing import Any, Final

from winnow.values.model import OffsetRange, Reason, Segment, Severity, Status


@dataclass(frozen=True, slots=True)
class RunFigures:
    """Figures of a run for one topic partition over [log start, next first dirty offset).

    The manifest, the receipt, the store, the metrics and the page have every figure that is defined here. A new figure
    goes to the end, with the default that older documents are read with.

    ``records_in = records_kept + records_superseded + tombstones_expired + records_keyless``.

    Under strategy header: ``headers_missing`` keyed records without the header, ``headers_malformed`` with a value that
    is not an 8-byte long; both count as missing (KIP-280), and the first ``malformed_offsets`` say where to look.
    ``keys_elsewhere``: after partitions were added, keys that Kafka's default partitioner now puts elsewhere.
    """

    records_in: int
    records_kept: int
    records_superseded: int
    tombstones_expired: int
    records_keyless: int
    bytes_in: int
    bytes_out: int
    headers_missing: int = field(default=0, kw_only=True)
    headers_malformed: int = field(default=0, kw_only=True)
    malformed_offsets: tuple[int, ...] = field(default=(), kw_only=True)
    keys_elsewhere: int = field(default=0, kw_only=True)


NO_FIGURES = RunFigures(0, 0, 0, 0, 0, 0, 0)
"""The figures of an empty run."""


def extract_figures(source: RunFigures) -> dict[str, Any]:
    """Extract the figures of ``source`` by name, as arguments of another type that has them."""
    return {each.name: getattr(source, each.name) for each in fields(RunFigures)}


def sum_figures(found: Iterable[RunFigures]) -> RunFigures:
    """Sum up the figures of several partitions, or of parts of one: sums of numbers, sorted lists of offsets."""
    listed = list(found)
    totals: dict[str, Any] = {}
    for each in fields(RunFigures):
        values = [getattr(source, each.name) for source in listed]
        totals[each.name] = tuple(sorted(chain.from_iterable(values))) if each.default == () else sum(values)
    return RunFigures(**totals)


@dataclass(frozen=True, slots=True)
class PartitionFacts(RunFigures):
    """The figures of one rewritten partition, and their proof.

    ``winners_fingerprint`` is order-independent over (key, offset) of all survivors; ``content_fingerprint`` over every
    field of the records that were rewritten.
    ``extended``: offset ranges with the tombstones below the plan's ``covered_end`` that superseded a record, in order.
    """

    winners_fingerprint: str
    content_fingerprint: str
    extended: tuple[OffsetRange, ...] = ()


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One group of neighbouring segments and the new segments that replace them (none when nothing survived)."""

    inputs: tuple[str, ...]
    outputs: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class StagedPartition:
    """The result of compacting one topic partition; planned segments outside ``rewrites`` are kept by reference.

    ``keyless_files``: files of the keyless records that leave the log for the quarantine. ``seconds``: all of the
    work; ``winners_seconds`` finding survivors and ``rewrite_seconds`` copying them, of all its tasks together.
    ``cpu_seconds``: of the processes of these tasks.
    """

    partition: int
    facts: PartitionFacts
    rewrites: tuple[Rewrite, ...]
    seconds: float = 0.0
    keyless_files: tuple[str, ...] = ()
    winners_seconds: float = 0.0
    rewrite_seconds: float = 0.0
    cpu_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class StagingManifest:
    """Files that one attempt at a plan wrote. Until this document exists the files do not count."""

    plan_id: str
    topic: str
    attempt: str
    partitions: tuple[StagedPartition, ...]
    engine: str
    winnow_version: str
    format_version: int = 1


FIRST_OFFSETS: Final = 3
"""Number of offsets by which a failure names the records at fault; the others are counted."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One expectation that did not hold. ``partition`` None: the topic as a whole. Never holds user bytes.

    ``suite``: the topic's own suite that has the expectation; empty for those of Winnow.
    """

    partition: int | None
    expectation: str
    severity: Severity
    detail: str
    suite: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Validation's result for one attempt. ``broken``: a check raised, nothing is known about the data.

    ``plan_sha256`` and ``manifest_digest``: of the plan's bytes and of the staging manifest that were judged; None:
    nothing was.
    """

    plan_id: str
    topic: str
    attempt: str
    passed: bool
    broken: bool
    failures: tuple[Failure, ...]
    checked_at_ms: int
    data_docs: str | None = None
    expectations: int = 0
    manifest_digest: str | None = None
    plan_sha256: str | None = None

    @property
    def failing_partitions(self) -> tuple[int, ...]:
        """Partitions with a failure of severity ``fail``."""
        found = {f.partition for f in self.failures if f.severity is Severity.FAIL and f.partition is not None}
        return tuple(sorted(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReceipt(RunFigures):
    """Effect of a published plan on one topic partition (interface: ``compact --json``)."""

    partition: int
    first_dirty_offset: int
    next_first_dirty_offset: int
    records_retired: int
    log_start_offset: int | None = None
    bytes_retired: int = 0
    reason: Reason | None = None
    expected_records_kept: int | None = None
    expected_bytes_out: int | None = None
    seconds: float = 0.0
    tombstones_expired_early: int = 0
    """Maximum of ``tombstones_expired`` whose horizon had not passed by the wall clock: the as-of lay ahead."""
    offsets_cleaned_early: int = 0
    """Offsets that were not cleanable yet by the wall clock: the as-of lay ahead."""
    cpu_seconds: float = 0.0
    """CPU time of the tasks; 0: the receipt is older than this measurement."""
    bytes_written: int = 0
    """Bytes of the new segments; ``bytes_out`` counts those that were kept by reference too."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """Result of one compaction of one topic."""

    topic: str
    plan_id: str | None
    status: Status
    snapshot_id: int | None
    partitions: tuple[PartitionReceipt, ...]
    message: str
    as_of_ms: int
    finished_at_ms: int
    attempt: str | None = None
    data_docs: str | None = None
    format_version: int = 1


@dataclass(frozen=True, slots=True)
class OpenAlert:
    """An alert that has not recovered: one kind of problem of one topic partition, or of the topic (None).

    ``since_ms``: when it began. ``released``: by whom or why it was released by hand, None if it was not.
    ``safe``, ``next``, ``plan_id``: as its message says.
    """

    kind: str
    topic: str
    partition: int | None
    since_ms: int
    message: str = ""
    released: str | None = None
    safe: str = ""
    next: str = ""
    plan_id: str | None = None

    @property
    def key(self) -> str:
        """The key for deduplication. A topic's name holds no colon, so keys are unique."""
        return f"{self.kind}:{self.topic}:{'' if self.partition is None else self.partition}"


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message that a channel has not delivered yet. ``document``: the alert as canonical JSON."""

    key: str
    channel: str
    document: str
    created_at_ms: int
