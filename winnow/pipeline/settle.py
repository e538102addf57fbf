"""What earlier runs left open: looked up in the table's history, then closed. Every run begins with this."""

from __future__ import annotations

from winnow.model import Receipt
from winnow.pipeline.context import Context
from winnow.pipeline.publish import checkpoint, settled_as_void
from winnow.report.alerts import Kind
from winnow.report.events import tell
from winnow.store import RunState


def settle(ctx: Context, topic: str) -> list[Receipt]:
    """Settle the open runs of ``topic``: published ones get their checkpoint and keep their receipt, others are void.

    The caller holds the topic, so no open run of it is alive.
    """
    receipts: list[Receipt] = []
    log = ctx.log.open(topic)
    for run in ctx.store.open_runs(topic):
        found = log.find_receipt(run.plan_id, since_ms=run.opened_at_ms)
        if found is not None:
            receipts.append(checkpoint(ctx, log, found))
            continue
        ctx.store.set_run_state(
            run.plan_id,
            RunState.VOID,
            ctx.now_ms(),
            message="The run ended before it published anything; its plan is void and readers saw no change.",
        )
        tell("voided", topic, plan_id=run.plan_id, attempt=run.attempt)
        if run.status.is_unsettled:
            ctx.alerts.recover(topic, {Kind.COMMIT_UNKNOWN}, None, settled_as_void(run.plan_id), plan_id=run.plan_id)
    return receipts
