"""``winnow erase`` with two persons: what was asked for, who approved it, approving and rejecting at a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winnow.cli.options import open_for_command
from winnow.cli.output import format_bytes, format_short_time, print_lines, print_table, write_json
from winnow.errors import ConfigurationError, EraseRefusedError
from winnow.values.counts import format_count

if TYPE_CHECKING:
    from winnow.store.erase_requests import RequestedErasure

REQUESTS: Final = "requests"
APPROVE: Final = "approve"
REJECT: Final = "reject"
MAXIMUM_SHOWN: Final = 200
_NOTHING: Final = "Nothing was changed."


def show_requests(topic: str | None, *, as_json: bool) -> None:
    """Show the newest requests, of one topic or of all (None)."""
    from winnow.store.erase_requests import describe_request, name_state
    from winnow.store.rows import Window

    with open_for_command(to_read=True) as installation:
        found = installation.store.erase_requests.list_requests(Window(size=MAXIMUM_SHOWN), topic=topic)
        now_ms = installation.now_ms()
    if as_json:
        write_json([describe_request(each, now_ms) for each in found.rows])
        return
    if not found.rows:
        print_lines("Nobody asked for an erasure that takes two persons.")
        return
    rows = [
        [
            each.request_id,
            each.topic,
            name_state(each, now_ms),
            each.requested_by,
            format_short_time(each.requested_at_ms),
            each.decided_by or "",
            each.erasure_id or "",
        ]
        for each in found.rows
    ]
    print_table(["request", "topic", "is", "asked by", "at", "decided by", "erasure"], rows)


def tell_request(requested: RequestedErasure, now_ms: int, *, approves_at_shell: bool, as_json: bool) -> None:
    """Print that an erasure waits for another person, and what they do. ``approves_at_shell``: also at a shell."""
    if as_json:
        from winnow.store.erase_requests import describe_request

        write_json(describe_request(requested, now_ms))
        return
    print_lines("\n".join([*_describe(requested), *_explain_approval(requested, approves_at_shell=approves_at_shell)]))


def _describe(requested: RequestedErasure) -> list[str]:
    from winnow.pipeline.erase.approval import read_plan

    plan = read_plan(requested)
    counts = (
        f"Topic {plan.topic}: {plan.keys_found:,} of {format_count(plan.keys, 'key')} found, "
        f"{format_count(plan.records, 'record')}; {format_count(plan.files_total, 'file')} "
        f"({format_bytes(plan.size_bytes)}) would be deleted. Asked for by {plan.requested_by}: {plan.reason}"
    )
    first = f"Nothing was erased. This takes two persons, and request {plan.request_id} waits for the other one."
    return [first, counts]


def _explain_approval(requested: RequestedErasure, *, approves_at_shell: bool) -> list[str]:
    says = [f"They approve it in Airflow, on the page of topic {requested.topic}, tab Erasures."]
    if approves_at_shell:
        says.append(f"Or at a shell, as another user: winnow erase approve {requested.request_id}")
    says.append("Then the same command again erases the keys, within seven days of the request.")
    return says


def decide_request(request_id: str, *, approves: bool, reason: str, as_json: bool) -> None:
    """Approve a request, or reject it.

    Raises:
        ConfigurationError: nobody approves at a shell here.
        EraseRefusedError: it may not be decided so.
    """
    with open_for_command(reason=reason) as installation:
        if approves and not installation.settings.erase.shell_approval:
            raise ConfigurationError(
                "Erasures are not approved at a shell here (erase.shell_approval).",
                left=_NOTHING,
                next="Approve it in Airflow, on the page of the topic, tab Erasures.",
            )
        from winnow.pipeline.topics.audit import get_actor_name, record_action
        from winnow.store.audit import AuditAction
        from winnow.store.erase_requests import describe_request

        store = installation.store.erase_requests
        known = store.find(request_id)
        if known is None:
            raise EraseRefusedError(
                f"There is no request {request_id}.", left=_NOTHING, next="winnow erase requests lists them."
            )
        decided = store.decide(
            request_id,
            known.plan_sha256,
            approves=approves,
            by=get_actor_name(installation),
            why=reason,
            now_ms=installation.now_ms(),
        )
        action = AuditAction.ERASE_APPROVE if approves else AuditAction.ERASE_REJECT
        record_action(installation, action, decided.topic, detail=request_id, reason=reason)
        document = describe_request(decided, installation.now_ms())
    if as_json:
        write_json(document)
    elif approves:
        print_lines(
            f"Approved: request {request_id} of {decided.requested_by} for topic {decided.topic}. Nothing is erased "
            "until the same call is made again, or the DAG erase_keys is run for it."
        )
    else:
        print_lines(f"Rejected: request {request_id} of {decided.requested_by} for topic {decided.topic}.")
