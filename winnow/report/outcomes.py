"""Says in a sentence what came of a request for one topic: what was removed, or why nothing was done."""

from __future__ import annotations

from collections.abc import Mapping

from winnow.report.receipts import explain_reason, format_human_bytes
from winnow.values.counts import format_count
from winnow.values.model import Reason
from winnow.values.results import Receipt


def describe_idle_topic(reasons: Mapping[str, int], ratio: tuple[float, float] | None) -> str:
    """Describe why nothing of a topic was due.

    Args:
        reasons: the number of partitions per reason (:class:`~winnow.values.model.Reason`).
        ratio: the largest dirty ratio of its partitions, and ``min.cleanable.dirty.ratio``; None: not known.
    """
    ordered = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
    clauses = [(_explain_idle(Reason(reason), ratio), count) for reason, count in ordered]
    if len(clauses) == 1:
        return f"Nothing was due: {clauses[0][0]}."
    causes = [f"of {format_count(count, 'partition')}, {clause}" for clause, count in clauses]
    return f"Nothing was due: {'; '.join(causes)}."


def _explain_idle(reason: Reason, ratio: tuple[float, float] | None) -> str:
    if reason is not Reason.NOT_DIRTY_ENOUGH or ratio is None:
        return explain_reason(reason)
    return f"{explain_reason(reason)} ({ratio[0]:.0%} of {ratio[1]:.0%})"


def describe_removal(receipt: Receipt) -> str:
    """Describe in half a line what a published ``receipt`` removed."""
    parts = receipt.partitions
    removed = sum(p.records_superseded + p.tombstones_expired + p.records_keyless + p.records_retired for p in parts)
    freed_bytes = sum(p.bytes_in - p.bytes_out + p.bytes_retired for p in parts)
    records = f"{format_count(removed, 'record')} removed"
    if freed_bytes < 0:
        return f"{records}; the new files are {format_human_bytes(-freed_bytes)} larger."
    return f"{records}, {format_human_bytes(freed_bytes)} freed when the replaced files are swept."
