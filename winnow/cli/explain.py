"""``winnow explain``: what a compaction would do, as a table of the plan, a table of its outcome, and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from winnow.cli.assess import format_decision, format_legend
from winnow.cli.options import AsOf, IncludeActiveSegment, Json, Topic, open_for_command, resolve_as_of
from winnow.cli.output import (
    MAXIMUM_ROWS,
    format_bytes,
    print_heading,
    print_lines,
    print_table,
    write_json,
)
from winnow.clock import format_ms
from winnow.values.counts import format_count

if TYPE_CHECKING:
    from winnow.pipeline.explain.explain import Explanation, PartitionExplanation

_BASIS = {
    "manifest": "the manifests",
    "partition": "its earlier runs",
    "topic": "other partitions' runs",
    "unknown": "",
}
_MEMORY = {"fits": "fits", "may_spill": "may spill to disk", "spills": "spills to disk"}


def explain(
    topic: Topic, as_of: AsOf = None, include_active_segment: IncludeActiveSegment = False, as_json: Json = False
) -> None:
    """Print what a compaction would read, write and remove.

    Shows the plan that a compaction would use, made from the manifests alone. How much it will keep is estimated from
    earlier runs, and unknown before the first. Runs nothing and writes nothing.

    Example: winnow explain orders
    """
    with open_for_command(to_read=True) as installation:
        from winnow.pipeline.explain.explain import explain_compaction as explain_topic

        found = explain_topic(
            installation, topic, as_of_ms=resolve_as_of(installation, as_of), closes_active=include_active_segment
        )
    if as_json:
        write_json(asdict(found))
        return
    _show(found)


def _show(found: Explanation) -> None:
    print_lines(f"{found.topic} as of {format_ms(found.as_of_ms)}, compaction.strategy={found.strategy}")
    parts = sorted(found.partitions, key=lambda p: (not p.eligible, p.partition))
    shown = parts[:MAXIMUM_ROWS]
    _show_plan(found.topic, shown)
    format_legend(p.reason for p in shown)
    if len(parts) > len(shown):
        print_lines(f"{format_count(len(parts) - len(shown), 'more partition')}; --json lists all")
    eligible = [p for p in parts if p.eligible]
    if found.plan_id is None:
        print_lines(f"Nothing of {found.topic} is eligible; a compaction would do nothing.")
        return
    print_heading("What it will keep, estimated from manifests and earlier runs")
    _show_estimates(found.topic, eligible[:MAXIMUM_ROWS])
    for text in _print_sentences(found, eligible):
        print_lines(text)
    print_lines(f"Next: winnow compact {found.topic}")


def _show_plan(topic: str, parts: Sequence[PartitionExplanation]) -> None:
    rows = [
        [
            f"{topic}-{p.partition}",
            format_decision(p.reason, eligible=p.eligible),
            f"{p.segments:,}",
            f"{p.records:,}",
            format_bytes(p.bytes_to_read),
            f"{p.tombstones_in_expired_ranges:,}",
            f"{p.next_first_dirty_offset:,}" if p.eligible else "",
            "" if p.deadline_slack_ms is None else f"{p.deadline_slack_ms / 3_600_000:,.1f} h",
        ]
        for p in parts
    ]
    header = ["partition", "decision", "segments", "records", "to read", "tombstones due", "clean up to", "slack"]
    print_table(header, rows, right=(2, 3, 4, 5, 6, 7))


def _show_estimates(topic: str, parts: Sequence[PartitionExplanation]) -> None:
    rows = [
        [
            f"{topic}-{p.partition}",
            f"{p.at_most_keys:,}",
            f"{p.at_least_records_kept:,} to {p.at_most_records_kept:,}",
            "unknown" if p.expected_records_kept is None else f"{p.expected_records_kept:,}",
            "unknown" if p.expected_bytes_out is None else format_bytes(p.expected_bytes_out),
            "unknown" if p.reclaimed_bytes is None else format_bytes(p.reclaimed_bytes),
            _BASIS[p.basis.value],
            _format_memory(p),
        ]
        for p in parts
    ]
    header = ["partition", "keys, at most", "kept, between", "kept", "bytes after", "reclaimed", "known from", "memory"]
    print_table(header, rows, right=(1, 2, 3, 4, 5))


def _print_sentences(found: Explanation, parts: Sequence[PartitionExplanation]) -> list[str]:
    read = sum(p.bytes_to_read for p in parts)
    written = sum(p.at_most_bytes_to_write for p in parts)
    plan = f"Plan {found.plan_id} would read {format_bytes(read)} and write at most {format_bytes(written)}."
    texts = [f"{plan} How many records are superseded is known only after reading the keys."]
    segments, records = sum(p.segments_retired for p in parts), sum(p.records_retired for p in parts)
    if segments:
        freed = format_bytes(sum(p.bytes_retired for p in parts))
        texts.append(
            f"Retention removes {format_count(segments, 'segment')} with {format_count(records, 'record')} ({freed}) "
            "from the log, unread."
        )
    keyless = sum(p.records_to_quarantine for p in parts)
    if keyless:
        texts.append(f"{format_count(keyless, 'record')} without a key will move to the quarantine.")
    before = sorted({p.strategy_before for p in parts if p.strategy_before is not None})
    if before:
        texts.append(
            f"The strategy changed from {', '.join(before)}: the whole log is compacted again. Records that were "
            "removed under the old strategy cannot return."
        )
    return texts


def _format_memory(p: PartitionExplanation) -> str:
    return (
        f"{format_bytes(p.at_most_winners_bytes)} of {format_bytes(p.memory_budget_bytes)}, {_MEMORY[p.memory.value]}"
    )
