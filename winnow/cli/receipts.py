"""``winnow receipts``: what runs did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from winnow.cli.command_errors import exit_with, run_for_each_topic
from winnow.cli.options import Json, OneTopic, choose_topics, open_for_command
from winnow.cli.output import (
    MAXIMUM_ROWS,
    format_bytes,
    format_short_time,
    print_lines,
    print_table,
    write_json,
)
from winnow.errors import UnknownTopicError
from winnow.values.counts import format_count

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation
    from winnow.store import Run
    from winnow.values.model import Status
    from winnow.values.results import PartitionReceipt, Receipt


_KEY_ORDER = (
    "partition", "first_dirty_offset", "next_first_dirty_offset", "records_in", "records_kept", "records_superseded",
    "tombstones_expired", "records_keyless", "records_retired", "bytes_in", "bytes_out", "log_start_offset",
    "bytes_retired", "reason", "headers_missing", "headers_malformed", "malformed_offsets", "keys_elsewhere",
    "expected_records_kept", "expected_bytes_out", "seconds", "tombstones_expired_early", "offsets_cleaned_early",
)  # fmt: skip
"""The order in which ``--json`` has always had a partition's keys; figures that were added later follow."""


def make_document(receipt: Receipt) -> dict[str, Any]:
    """A receipt as ``compact --json`` and ``receipts --json`` show it: the interface's keys first."""
    from winnow.report.receipts import compare_with_plan

    return {
        "topic": receipt.topic,
        "plan_id": receipt.plan_id,
        "status": receipt.status.value,
        "snapshot_id": receipt.snapshot_id,
        "partitions": [_make_partition_document(part) for part in receipt.partitions],
        "message": receipt.message,
        "as_of_ms": receipt.as_of_ms,
        "finished_at_ms": receipt.finished_at_ms,
        "attempt": receipt.attempt,
        "data_docs": receipt.data_docs,
        "plan_against_actual": asdict(compare_with_plan(receipt)),
    }


def _make_partition_document(part: PartitionReceipt) -> dict[str, Any]:
    found = asdict(part)
    return {name: found[name] for name in _KEY_ORDER} | found


def receipts(topic: OneTopic = None, as_json: Json = False) -> None:
    """Print what each run did, newest first.

    Includes runs that published nothing, with the reason.

    Example: winnow receipts orders
    """
    with open_for_command(to_read=True) as installation:
        chosen = choose_topics(installation, [topic] if topic else None)
        outcome = run_for_each_topic(chosen, lambda name: list_receipts(installation, name))
    found = [receipt for per_topic in outcome.results for receipt in per_topic]
    found.sort(key=lambda receipt: receipt.finished_at_ms, reverse=True)
    if as_json:
        if not outcome.all_failed:
            write_json([make_document(receipt) for receipt in found])
    elif found:
        _show_receipts(found)
    elif outcome.results:
        print_lines(f"No run has ended yet. See what is due with: winnow assess {topic or ''}".rstrip())
    exit_with(outcome.exit_code)


def list_receipts(installation: Installation, topic: str) -> list[Receipt]:
    """Receipts of published plans, and one made from the run's row for each run that ended without publishing.

    The message of one that was taken back says by whom.

    Raises:
        UnknownTopicError: there is no such topic, and no run of one.
    """
    from winnow.store import RunState
    from winnow.values.model import Status
    from winnow.values.results import Receipt

    ended = {
        RunState.INVALID: Status.INVALID,
        RunState.BROKEN: Status.INVALID,
        RunState.REFUSED: Status.REFUSED,
        RunState.VOID: Status.REFUSED,
        RunState.UNKNOWN: Status.UNKNOWN,
    }
    from winnow.pipeline.undo.undo import UNDONE_NOTE

    runs = installation.store.runs.list_runs(topic)
    undone = {run.plan_id: run.message for run in runs if run.message.startswith(UNDONE_NOTE)}
    found = [
        replace(receipt, message=undone.get(receipt.plan_id or "", receipt.message))
        for receipt in installation.store.projection.list_receipts(topic)
    ]
    published = {receipt.plan_id for receipt in found}
    for run in runs:
        if run.plan_id in published or (run.status not in ended and run.status is not RunState.SPARK_FAILED):
            continue
        verdict = installation.store.verdicts.find(run.plan_id, run.attempt)
        found.append(
            Receipt(
                topic=topic,
                plan_id=run.plan_id,
                status=ended.get(run.status) or _find_failed_status(run),
                snapshot_id=None,
                partitions=(),
                message=run.message,
                as_of_ms=run.as_of_ms,
                finished_at_ms=run.updated_at_ms,
                attempt=run.attempt or None,
                data_docs=verdict.data_docs if verdict is not None else None,
            )
        )
    if not found:
        _check_known(installation, topic)
    return found


def _find_failed_status(run: Run) -> Status:
    """Find how the receipt of a run calls its failure in Spark: invalid where partitions were marked, else refused."""
    from winnow.values.model import Status

    return Status.INVALID if run.partitions_marked else Status.REFUSED


def _check_known(installation: Installation, topic: str) -> None:
    if topic not in installation.log.names():
        raise UnknownTopicError(
            f"There is no topic {topic}.",
            next=f"Create it with: winnow topics create {topic} --partitions N",
        )


def _show_receipts(found: Sequence[Receipt]) -> None:
    from winnow.values.model import Status

    rows = []
    for receipt in found[:MAXIMUM_ROWS]:
        parts = receipt.partitions
        is_published = receipt.status is Status.PUBLISHED
        rows.append(
            [
                format_short_time(receipt.finished_at_ms),
                receipt.topic,
                receipt.status.value,
                f"{sum(p.records_in for p in parts):,}" if is_published else "",
                f"{sum(p.records_kept for p in parts):,}" if is_published else "",
                _format_expected(receipt),
                format_bytes(sum(p.bytes_in for p in parts)) if is_published else "",
                format_bytes(sum(p.bytes_out for p in parts)) if is_published else "",
                (receipt.plan_id or "")[:12],
                _format_reason(receipt),
            ]
        )
    header = ["finished", "topic", "status", "records", "kept", "expected", "bytes", "after", "plan", "why"]
    print_table(header, rows, right=(3, 4, 5, 6, 7), sentences=(9,))
    if len(found) > len(rows):
        print_lines(f"{format_count(len(found) - len(rows), 'older run')}; --json lists all")


def _format_reason(receipt: Receipt) -> str:
    """Return why a run published nothing, or by whom it was taken back; of other runs the figures say all."""
    from winnow.pipeline.undo.undo import UNDONE_NOTE
    from winnow.values.model import Status

    if receipt.status is not Status.PUBLISHED:
        return receipt.message
    return receipt.message.partition(" Before that: ")[0] if receipt.message.startswith(UNDONE_NOTE) else ""


def _format_expected(receipt: Receipt) -> str:
    from winnow.report.receipts import compare_with_plan

    found = compare_with_plan(receipt)
    if found.expected_records_kept is None:
        return ""
    deviation = found.records_kept_deviation_percent
    return f"{found.expected_records_kept:,}" + ("" if deviation is None else f" ({deviation:+.1f} %)")
