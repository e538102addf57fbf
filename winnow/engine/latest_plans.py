"""What an update of the side table of the latest state is to do, and what it did, as values and as documents."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from winnow.engine.events import PlanOutcome
from winnow.engine.key_changes import LogExtent
from winnow.engine.strategy_diff import RecordOrder
from winnow.errors import PlanVoidError, WinnowError
from winnow.files import storage
from winnow.values import documents
from winnow.values.model import PartitionPlan, Segment
from winnow.values.row_shape import TypedRows


@dataclass(frozen=True, slots=True)
class PartitionUpdate:
    """What changes in one partition of the side table: files in and out, and the rows of keys that changed."""

    added: tuple[Segment, ...] = ()
    removed: tuple[Segment, ...] = ()
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0


@dataclass(frozen=True, slots=True)
class PartitionUpdatePlan:
    """What one partition of the table is to show: the latest state of ``log``.

    ``rows``: the table's files. ``before``: what of the log they show; None: all rows are written anew.
    """

    log: PartitionPlan
    rows: tuple[Segment, ...] = ()
    before: LogExtent | None = None

    @property
    def partition(self) -> int:
        """The partition."""
        return self.log.partition

    @property
    def after(self) -> LogExtent:
        """What of the log the rows are to show."""
        return LogExtent(self.log.segments, self.log.log_start_offset, self.log.log_end_offset)

    @property
    def size_bytes(self) -> int:
        """Bytes of the segments whose records may be new to the table."""
        known = set() if self.before is None else {segment.path for segment in self.before.list_readable()}
        return sum(segment.size_bytes for segment in self.after.list_readable() if segment.path not in known)


@dataclass(frozen=True, slots=True)
class UpdatePlan:
    """An update for tasks. New files go below ``folder``, in the table at ``table_location``.

    ``order``: of winners. ``typed``: how rows are made; None: they are the records. ``learns``: no file is written, and
    what comes back are the types of rows.
    """

    plan_id: str
    topic: str
    table_location: str
    folder: str
    order: RecordOrder
    parts: tuple[PartitionUpdatePlan, ...]
    typed: TypedRows | None = None
    learns: bool = False
    format_version: int = 1


@dataclass(frozen=True, slots=True)
class PartitionUpdateResult:
    """What a task did for one partition.

    ``update``: None if nothing was written, because rows need other columns; then ``types`` are theirs, encoded.
    ``facts``: what the judge found of the rows that readers would see.
    """

    partition: int
    update: PartitionUpdate | None = None
    rows_not_decoded: int = 0
    facts: dict[str, int | str] | None = None
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """What one application did."""

    plan_id: str
    parts: tuple[PartitionUpdateResult, ...]
    format_version: int = 1


def build_update_plan_uri(staging: str, topic: str, plan_id: str) -> str:
    """Return the URI of an update's plan."""
    return storage.join(staging, "latest", topic, f"{plan_id}.json")


def build_update_result_uri(plan_document_uri: str) -> str:
    """Return the URI of the result, beside its plan."""
    return f"{plan_document_uri.removesuffix('.json')}.result.json"


def write_update_plan(staging: str, plan: UpdatePlan) -> tuple[str, str]:
    """Write ``plan``; return its URI and the sha256 of its bytes."""
    uri = build_update_plan_uri(staging, plan.topic, plan.plan_id)
    return uri, _write(uri, plan, staging)


def read_update_plan(uri: str, sha256: str | None) -> UpdatePlan:
    """Read the plan at ``uri`` and check that it is the one that was written.

    Raises:
        PlanVoidError: the document was replaced or changed.
        WinnowError: it is missing or damaged.
    """
    return documents.load_json(UpdatePlan, _read(uri, sha256))


def write_update_result(plan_document_uri: str, plan: UpdatePlan, results: Sequence[dict[str, Any]]) -> PlanOutcome:
    """Write what tasks did for each partition of ``plan``."""
    parts = sorted((result["result"] for result in results), key=lambda part: int(part.partition))
    uri = build_update_result_uri(plan_document_uri)
    staging = plan_document_uri.rsplit("/", 3)[0]
    sha256 = _write(uri, UpdateResult(plan.plan_id, tuple(parts)), staging)
    return PlanOutcome(plan.topic, plan.plan_id, uri, sha256=sha256)


def read_update_result(plan_document_uri: str, sha256: str) -> UpdateResult:
    """Read the result of the plan at that URI.

    Raises:
        PlanVoidError: it is not the one that its application wrote.
        WinnowError: it is missing or damaged.
    """
    return documents.load_json(UpdateResult, _read(build_update_result_uri(plan_document_uri), sha256))


def remove_update_documents(plan_document_uri: str, staging: str) -> None:
    """Remove a plan and its result."""
    for uri in (plan_document_uri, build_update_result_uri(plan_document_uri)):
        storage.delete(uri, below=staging)


def _write(uri: str, document: UpdatePlan | UpdateResult, staging: str) -> str:
    data = documents.dump_json(document)
    storage.write_bytes(uri, data, below=staging)
    return hashlib.sha256(data).hexdigest()


def _read(uri: str, sha256: str | None) -> bytes:
    try:
        data = storage.read_bytes(uri)
    except FileNotFoundError:
        raise WinnowError(
            f"There is no document of an update at {uri}.", left="The table is as before.", next="Run it again."
        ) from None
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise PlanVoidError(
            f"The document of an update at {uri} is not the one that was written.",
            left="The table is as before.",
            next="Run it again.",
        )
    return data
