"""Erasures that take two persons: one asks, another approves, and the approval is for these keys and nothing else.

A request commits nothing. Before the commit of an erasure, on each turn of its loop, its approval is looked at again,
and so are the erasures that the log has: an approval is used by the commit that names it, and by no other.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from winnow.errors import EraseRefusedError
from winnow.files.key_sets import GivenKeys
from winnow.log.erasures import read_erasures
from winnow.log.head import Head
from winnow.pipeline.erase.outside import list_outside_places
from winnow.pipeline.erase.run_spark import ErasureTasks
from winnow.pipeline.erase.scan import KeyScans, Progress
from winnow.pipeline.erased_keys import load_secret
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.audit import get_actor_name, record_action
from winnow.quality.erasure_facts import NOTHING_ERASED
from winnow.store.audit import AuditAction
from winnow.store.erase_requests import MAXIMUM_REQUEST_AGE_MS, RequestedErasure, RequestState, is_same_person
from winnow.store.rows import Window
from winnow.values import documents
from winnow.values.counts import format_count
from winnow.values.erasures import (
    Approval,
    ErasureDocument,
    ErasurePlan,
    KeyDigester,
    PlannedFile,
    compute_binding,
    compute_key_id,
)
from winnow.values.topic_state import TopicState

if TYPE_CHECKING:
    from winnow.pipeline.erase.erase import EraseRequest

MAXIMUM_NAMED_FILES: Final = 100
"""Maximum files that a plan names; their number is of all."""
_ASK_ANEW: Final = "Ask for it anew: winnow erase, or the page."


def read_plan(requested: RequestedErasure) -> ErasurePlan:
    """Read the plan of a request.

    Raises:
        WinnowError: the metadata store has something else there.
    """
    return documents.load_json(ErasurePlan, requested.plan.encode())


def find_request(
    installation: Installation, wanted: EraseRequest, *, keys_from: str | None, progress: Progress
) -> RequestedErasure:
    """Find the request for exactly this erasure that counts, or make one, which commits nothing.

    Raises:
        ConfigurationError, DamagedSegmentError, ServiceError, UnknownTopicError: as an erasure.
    """
    head = installation.log.open(wanted.topic).newest_head()
    secret = load_secret(installation, head.state, left=NOTHING_ERASED, makes=True)
    keys = GivenKeys(wanted.keys)
    digests = keys.compute_digests(KeyDigester(secret, head.table_uuid))
    binding = bind_request(secret, digests, wanted)
    known = installation.store.erase_requests.list_requests(Window(size=1), topic=wanted.topic, binding=binding).rows
    if known and _counts(known[0], head.state, installation.now_ms()):
        return known[0]
    tasks = ErasureTasks(installation, head, secret, digests, wanted.engine, call_id=uuid.uuid4().hex)
    plan = _make_plan(installation, wanted, head, KeyScans(wanted.topic, keys, progress), tasks)
    plan = replace(plan, key_id=compute_key_id(secret), binding=binding, keys_from=keys_from)
    text = documents.dump_json(plan).decode()
    made = RequestedErasure(
        plan.request_id,
        plan.topic,
        plan.table_uuid,
        plan.requested_by,
        plan.requested_at_ms,
        binding,
        text,
        documents.compute_digest(plan),
    )
    installation.guard.require_own()
    installation.store.erase_requests.open(made)
    detail = (
        f"{plan.request_id}: {format_count(plan.keys, 'key')}, {format_count(plan.records, 'record')} in "
        f"{format_count(plan.files_total, 'file')}"
    )
    record_action(installation, AuditAction.ERASE_REQUEST, plan.topic, detail=detail, reason=plan.reason)
    return made


def _counts(known: RequestedErasure, state: TopicState, now_ms: int) -> bool:
    """Check whether a request still stands, or its erasure has nothing more to erase and at most files to delete."""
    carried_out = find_carried_out(state, known.request_id)
    if carried_out is not None:
        at = [each.erasure_id for each in state.erasures].index(carried_out.erasure_id)
        ends = {number: part.log_end_offset for number, part in state.partitions.items()}
        is_lifted = any(each.lifts for each in state.erasures[at:])
        return state.erasures[at].deleted_at_ms is None or (carried_out.ends == ends and not is_lifted)
    return known.state in {RequestState.PENDING, RequestState.APPROVED} and not known.is_expired(now_ms)


def _make_plan(
    installation: Installation, wanted: EraseRequest, head: Head, scans: KeyScans, tasks: ErasureTasks
) -> ErasurePlan:
    log = installation.log.open(wanted.topic)
    scans.check_quarantine(installation.log.quarantine(wanted.topic, head))
    live, left_log = scans.scan_log(log, head, tasks)
    attempts = scans.find_in_attempts(installation, head)
    files = [
        *(PlannedFile(each.path, "live", scans.live[each.path].records) for each in live),
        *(PlannedFile(each.path, "retired", max(scans.others.get(each.path, 0), 0)) for each in left_log),
        *(PlannedFile(each.path, each.place, each.records) for each in attempts),
    ]
    sizes = [
        *(each.size_bytes for each in live),
        *(each.size_bytes for each in left_log),
        *(each.size_bytes for each in attempts),
    ]
    return ErasurePlan(
        request_id=uuid.uuid4().hex,
        topic=wanted.topic,
        table_uuid=head.table_uuid,
        requested_by=get_actor_name(installation),
        requested_at_ms=installation.now_ms(),
        reason=wanted.reason,
        keys_from=None,
        with_tombstone=wanted.with_tombstone,
        break_pins=wanted.break_pins,
        key_id="",
        binding="",
        keys=len(set(wanted.keys)),
        keys_found=len({key for each in live for key in scans.live[each.path].newest}),
        records=sum(scans.live[each.path].records for each in live),
        files_total=len(files),
        size_bytes=sum(sizes),
        files=tuple(files[:MAXIMUM_NAMED_FILES]),
        outside=tuple(list_outside_places(installation, head.state)),
    )


def bind_request(secret: bytes, digests: Iterable[bytes], wanted: EraseRequest) -> str:
    """Compute what an approval of ``wanted`` is for."""
    return compute_binding(secret, digests, with_tombstone=wanted.with_tombstone, break_pins=wanted.break_pins)


def find_carried_out(state: TopicState, request_id: str | None) -> ErasureDocument | None:
    """Find the erasure in the log that used the approval of a request; None: there is none.

    Raises:
        DamagedMetadataError: the document of an erasure is gone or damaged.
    """
    if request_id is None:
        return None
    return next((each for each in read_erasures(state) if request_id in _list_requests(each)), None)


def _list_requests(document: ErasureDocument) -> set[str]:
    return {each.request_id for each in document.approvals}


def require_approval(installation: Installation, wanted: EraseRequest, binding: str) -> tuple[Approval, ...]:
    """Return by whom ``wanted`` was approved; none where one person is enough, and nobody else was asked.

    Raises:
        EraseRefusedError: it takes an approval that is not there, or is for something else, or too old.
    """
    if wanted.request_id is None:
        if installation.settings.erase.approvals > 1:
            raise _make_refusal(
                f"Erasing keys of topic {wanted.topic} takes two persons (erase.approvals), and nobody approved it.",
                next="Ask for it: winnow erase, or the page.",
            )
        return ()
    found = installation.store.erase_requests.find(wanted.request_id)
    what = f"Request {wanted.request_id} for erasing keys of topic {wanted.topic}"
    if found is None or found.topic != wanted.topic:
        raise _make_refusal(f"{what} is not known. It is gone if the topic was created again.")
    plan = read_plan(found)
    if documents.compute_digest(plan) != found.plan_sha256 or plan.binding != found.binding:
        raise _make_refusal(f"{what} was changed since it was made.")
    if found.binding != binding:
        raise _make_refusal(
            f"{what} is for other keys, other options or an earlier life of the topic: the file with the keys was "
            "changed, for instance."
        )
    if found.state is not RequestState.APPROVED or found.decided_by is None or found.decided_at_ms is None:
        raise _make_refusal(f"{what} is {found.state}, not approved.", next="Wait for the other person's approval.")
    if is_same_person(plan.requested_by, found.decided_by):
        raise _make_refusal(f"{what} was approved by whoever asked for it ({found.decided_by}).")
    if found.is_expired(installation.now_ms()):
        days = MAXIMUM_REQUEST_AGE_MS // 86_400_000
        raise _make_refusal(f"{what} is more than {days} days old.")
    approval = Approval(
        plan.request_id,
        found.plan_sha256,
        plan.requested_by,
        plan.requested_at_ms,
        found.decided_by,
        found.decided_at_ms,
    )
    return (approval,)


def require_unused(found: RequestedErasure | None) -> None:
    """Check that nothing was erased for a request yet.

    Raises:
        EraseRefusedError: something was.
    """
    if found is not None and found.state is RequestState.USED:
        raise _make_refusal(
            f"Request {found.request_id} was carried out by erasure {found.erasure_id}; an approval is used once."
        )


def _make_refusal(what: str, *, next: str = _ASK_ANEW) -> EraseRefusedError:  # noqa: A002 - as in errors
    return EraseRefusedError(what, left=NOTHING_ERASED, next=next)
