"""Checks whether a plan still matches the log, and explains why one became void."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from winnow.errors import PlanVoidError
from winnow.log.head import Head
from winnow.log.topic_log import TopicLog
from winnow.pipeline.compaction.plan import compute_configuration_digest
from winnow.pipeline.compaction.run_plan import read_run_plan
from winnow.pipeline.installation import Installation
from winnow.store import Run, RunState
from winnow.values.model import PartitionPlan, Plan, Segment
from winnow.values.topic_state import PartitionState, RetiredFile

_UNDO_PREFIX = "undo-"
_REPLACEMENT_PREFIX = "diverged-"
_UNDONE_RUN_PREFIX = "undone-"


def name_undo(ingest_id: str) -> str:
    """Return what stands in place of a plan id in the retired files of an undone ingest call."""
    return f"{_UNDO_PREFIX}{ingest_id}"


def name_replacement(ingest_id: str) -> str:
    """Return what stands in place of a plan id in the files of records that an ingest call put others in place of."""
    return f"{_REPLACEMENT_PREFIX}{ingest_id}"


def name_undone_run(change_id: str) -> str:
    """Return what stands in place of a plan id in the retired files that an undone run had written."""
    return f"{_UNDONE_RUN_PREFIX}{change_id}"


def is_replaced(file: RetiredFile) -> bool:
    """Check whether the records of a retired file left the log for others in their place."""
    return file.plan_id.startswith(_REPLACEMENT_PREFIX)


class VoidCause(StrEnum):
    """Why a plan is void. All but ``unexplained`` are caused by Winnow itself, and the next run continues."""

    RECREATED = "recreated"
    RECONFIGURED = "reconfigured"
    PAUSED = "paused"
    TAKEN = "taken"
    """Another plan was published meanwhile."""
    DELETED = "deleted"
    """The log start moved: records were deleted."""
    UNDONE = "undone"
    """An ingest call or a run was undone, or Kafka's records taken in the place of others, and the plan reads those."""
    FENCED = "fenced"
    """Another run or a sweep ended the attempt."""
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True)
class VoidReason:
    """Why a plan is void, as text. ``by``: the id of the plan that was published meanwhile, if known."""

    cause: VoidCause
    message: str
    by: str | None = None


def find_fence_violation(run: Run, head: Head) -> VoidReason | None:
    """Return why no attempt of ``run`` may be published over ``head`` (its fence differs); None while it may."""
    if head.fence == run.fence:
        return None
    return VoidReason(
        VoidCause.FENCED,
        f"Another run or a sweep ended attempt {run.attempt} at plan {run.plan_id} of topic {run.topic}: the topic's "
        f"fence is {head.fence} and the attempt's is {run.fence}. The plan is void and nothing was published. Run it "
        "again.",
    )


def find_void(log: TopicLog, head: Head, plan: Plan, live: Mapping[int, tuple[Segment, ...]]) -> VoidReason | None:
    """Return why ``plan`` may not be published over ``head``, whose segments are ``live``; None while it may."""
    if head.table_uuid != plan.table_uuid:
        return VoidReason(
            VoidCause.RECREATED,
            f"Topic {plan.topic} was dropped and created again since plan {plan.plan_id}; the plan is void and nothing "
            "was published. Run it again.",
        )
    # A plan's removals are right only under the rules it was made with; altering a topic makes another snapshot.
    if plan.configuration not in {None, compute_configuration_digest(log.config(head))}:
        return VoidReason(
            VoidCause.RECONFIGURED,
            f"The configuration of topic {plan.topic} changed since plan {plan.plan_id} was made; the plan is void and "
            "nothing was published. Run it again: the next plan follows the configuration as it is.",
        )
    for partition in sorted(plan.partitions, key=lambda p: p.partition):
        number = partition.partition
        found = _describe_moved_log(plan, partition, live.get(number, ()), head.state.partitions[number], head)
        if found is not None:
            return found
    return None


def _describe_moved_log(
    plan: Plan, partition: PartitionPlan, live: tuple[Segment, ...], state: PartitionState, head: Head
) -> VoidReason | None:
    name = f"{plan.topic}-{partition.partition}"
    if state.paused_since_ms is not None:
        return VoidReason(
            VoidCause.PAUSED,
            f"{name} was paused while plan {plan.plan_id} was carried out; the plan is void and nothing was published. "
            f"The next run takes the other partitions. Paused by {', '.join(state.paused_by) or 'somebody'}; to go on: "
            f"winnow partitions resume {plan.topic} --partition {partition.partition} --all",
        )
    if partition.compacts and partition.next_first_dirty_offset > state.log_end_offset:
        return VoidReason(
            VoidCause.UNDONE,
            f"{name} ends at offset {state.log_end_offset} now, because an ingest call was undone or Kafka's records "
            f"were taken in the place of others, and plan {plan.plan_id} cleans up to offset "
            f"{partition.next_first_dirty_offset}; the plan is void and nothing was published. Run it again: the next "
            "plan starts from the log as it is.",
        )
    planned = [segment.path for segment in (*partition.retired, *partition.segments)]
    if partition.compacts:
        end = partition.next_first_dirty_offset
        there = [segment.path for segment in live if segment.last_offset < end]
        straddling = any(s.first_offset < end <= s.last_offset for s in live)
    else:
        there, straddling = [segment.path for segment in live[: len(planned)]], False
    before = partition.previous_log_start_offset
    moved = state.log_start_offset != (partition.log_start_offset if before is None else before)
    if planned == there and not straddling and not moved:
        return None
    gone = set(planned) - set(there)
    if any(file.path in gone and file.plan_id.startswith(_UNDO_PREFIX) for file in head.state.waiting_files):
        return VoidReason(
            VoidCause.UNDONE,
            f"An ingest call was undone whose records of {name} plan {plan.plan_id} reads; the plan is void and "
            "nothing was published. Run it again: the next plan starts from the log as it is.",
        )
    if any(file.path in gone and file.plan_id.startswith(_UNDONE_RUN_PREFIX) for file in head.state.waiting_files):
        return VoidReason(
            VoidCause.UNDONE,
            f"A run was undone whose segments of {name} plan {plan.plan_id} reads; the plan is void and nothing was "
            "published. Run it again: the next plan starts from the log as it is.",
        )
    if any(file.path in gone and is_replaced(file) for file in head.state.waiting_files):
        return VoidReason(
            VoidCause.UNDONE,
            f"Kafka's records were taken in the place of records of {name} that plan {plan.plan_id} reads; the plan is "
            "void and nothing was published. Run it again: the next plan starts from the log as it is.",
        )
    by = _find_publisher(plan, gone, head)
    cause = VoidCause.TAKEN if by is not None else VoidCause.DELETED if moved else VoidCause.UNEXPLAINED
    return VoidReason(
        cause,
        f"The log of {name} below offset {partition.next_first_dirty_offset} is no longer what plan "
        f"{plan.plan_id} was made for; the plan is void and nothing was published. Run it again: the next plan "
        "starts from the log as it is.",
        by,
    )


def _find_publisher(plan: Plan, gone: set[str], head: Head) -> str | None:
    """Find the plan that removed planned segments from the log; retired files name it until they are swept."""
    files = head.state.waiting_files
    return next((file.plan_id for file in files if file.path in gone and file.plan_id != plan.plan_id), None)


def check_plan_validity(installation: Installation, run: Run) -> VoidReason | None:
    """Return why the plan of ``run`` is void at its topic's present head; None while it may be published, or is.

    Raises:
        UnknownTopicError, ForeignTableError, ServiceError: see :class:`winnow.log.topic_log.TopicLog`.
    """
    log = installation.log.open(run.topic)
    head = log.head()
    if any(each.plan_id == run.plan_id for each in log.receipt_references(head, since_ms=run.opened_at_ms)):
        return None
    try:
        plan, _ = read_run_plan(run)
    except PlanVoidError as problem:
        return VoidReason(VoidCause.UNEXPLAINED, str(problem))
    found = find_void(log, head, plan, log.segments(head))
    if found is None or found.cause is not VoidCause.UNEXPLAINED:
        return found
    # Retired files are forgotten once they are swept; the newest receipt still shows another publish.
    newest = head.state.receipts[-1] if head.state.receipts else None
    receipt = log.find_receipt(newest.plan_id, head) if newest is not None else None
    if receipt is not None and receipt.finished_at_ms >= run.opened_at_ms:
        return VoidReason(VoidCause.TAKEN, found.message, receipt.plan_id)
    return found


def explain_void(installation: Installation, plan_id: str) -> str | None:
    """Explain in a sentence that ``plan_id`` ended because other work came first and the next run continues; else None.

    None means that a person should investigate: nothing that Winnow did explains why the plan cannot be carried out.

    Raises:
        UnknownTopicError, ForeignTableError, ServiceError: see :class:`winnow.log.topic_log.TopicLog`.
    """
    run = installation.store.runs.find(plan_id)
    if run is None:
        return None
    if run.holder not in {None, installation.holder}:
        return f"Topic {run.topic}: plan {plan_id} is the work of {run.holder} now; it is left to that run."
    found = check_plan_validity(installation, run) or find_fence_violation(run, installation.log.open(run.topic).head())
    if found is None:
        if run.status is RunState.VOID:
            return (
                f"Topic {run.topic}: another run closed plan {plan_id} meanwhile. Nothing was published; the next run "
                "takes the topic."
            )
        return None
    if found.cause is VoidCause.UNEXPLAINED:
        return None
    if found.cause is VoidCause.TAKEN:
        return (
            f"Topic {run.topic}: the log moved on, {_describe_run_holder(installation, found.by)} took it. Plan "
            f"{plan_id} is void and nothing of it was published; the next run takes the topic from where it is."
        )
    return f"{found.message.rstrip('.')} (the next run takes the topic)."


def _describe_run_holder(installation: Installation, plan_id: str | None) -> str:
    run = installation.store.runs.find(plan_id) if plan_id is not None else None
    if run is None or run.holder is None:
        return f"plan {plan_id}" if plan_id is not None else "another run"
    return f"run {run.holder}"
