"""What the metadata store gives out, as frozen values. Times are ms since the epoch, offsets 64-bit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from winnow.model import Cleaning

RETIRED_KINDS = frozenset({"data", "manifest", "manifest_list", "state", "metadata", "attempts"})
"""What a retired file was to the table; ``attempts``: the folder of a plan whose unused attempts are gone."""


class RunState(StrEnum):
    """Where a compaction run of one plan stands. :mod:`winnow.store.runs` has the table of legal transitions."""

    PLANNED = "planned"
    COMPACTING = "compacting"
    STAGED = "staged"
    VALIDATED = "validated"
    PUBLISHING = "publishing"
    PUBLISHED = "published"
    INVALID = "invalid"
    BROKEN = "broken"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    VOID = "void"

    @property
    def is_closed(self) -> bool:
        """Whether nothing of the run is left to settle. Publishing, unknown and broken runs are open."""
        return self in {RunState.PUBLISHED, RunState.INVALID, RunState.REFUSED, RunState.VOID}

    @property
    def is_unsettled(self) -> bool:
        """Whether its commit may have landed and nobody knows yet: only the table's history does."""
        return self in {RunState.PUBLISHING, RunState.UNKNOWN}

    @property
    def may_be_published(self) -> bool:
        """Whether its commit landed, or may have."""
        return self is RunState.PUBLISHED or self.is_unsettled


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on one topic until ``expires_ms`` (exclusive).

    ``token`` is the fencing token: every acquisition of a topic has a higher one, a renewal keeps it.
    """

    topic: str
    holder: str
    token: int
    expires_ms: int


@dataclass(frozen=True, slots=True)
class Run:
    """One compaction run: what became of one plan. ``attempt`` is the latest one, empty before the first.

    ``holder``: who planned it last, as leases name it: ``airflow:DAG:RUN``, or a process of a machine.
    ``plan_sha256``: of the plan's bytes; None: planned before it was noted. ``fence``: the topic's fence when the run
    was opened last; its attempts may be published while the topic still has that one. ``found_empty_at_ms``: when a
    sweep first found nothing left to delete of it.
    """

    plan_id: str
    topic: str
    attempt: str
    status: RunState
    as_of_ms: int
    plan_uri: str
    opened_at_ms: int
    updated_at_ms: int
    message: str = ""
    snapshot_id: int | None = None
    holder: str | None = None
    plan_sha256: str | None = None
    fence: int = 0
    found_empty_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class OpenIngest:
    """An ingest call whose end is not recorded: at work, or dead.

    ``number`` rises in the order of opening, per topic. ``renewed_at_ms``: when it last said that it is at work.
    ``voided_at_ms``: when a commit took its right to commit; its files may be deleted since.
    """

    ingest_id: str
    topic: str
    number: int
    holder: str
    opened_at_ms: int
    renewed_at_ms: int
    voided_at_ms: int | None = None
    found_empty_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class CheckpointRow:
    """The cleaner checkpoint of one topic partition. ``updated_at_ms``: when this projection last changed."""

    topic: str
    partition: int
    first_dirty_offset: int | None
    log_start_offset: int
    log_end_offset: int
    strategy: str | None
    history: tuple[Cleaning, ...]
    updated_at_ms: int


@dataclass(frozen=True, slots=True)
class RetiredRow:
    """A file that no reader of the present needs. ``deleted_at_ms`` None: its bytes are still there."""

    topic: str
    path: str
    kind: str
    size_bytes: int
    retired_at_ms: int
    plan_id: str
    deleted_at_ms: int | None = None
