"""``winnow ingest list`` and ``winnow ingest undo``: the ingest calls of a topic, and taking one back."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from winnow.cli.options import Json, Reason, Topic, open_for_command
from winnow.cli.output import format_bytes, format_short_time, print_lines, print_table, write_json
from winnow.values.counts import format_count

if TYPE_CHECKING:
    from winnow.pipeline.ingest.history import IngestCall, IngestCalls
    from winnow.pipeline.ingest.undo import UndoReport


def list_calls(
    topic: Topic,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help="List the newest N calls; each costs one small file.")
    ] = 50,
    as_json: Json = False,
) -> None:
    """List the ingest calls of a topic, newest first.

    Says of each what it appended, and whether it can be undone now; if not, why. Undone calls are not listed.

    Example: winnow ingest list orders
    """
    with open_for_command(to_read=True) as installation:
        from winnow.pipeline.ingest.history import list_ingests

        found = list_ingests(installation, topic, limit=limit)
    if as_json:
        write_json([{"topic": topic, **asdict(call)} for call in found.calls])
        return
    _show_calls(found)


def undo(
    topic: Topic,
    ingest_id: Annotated[
        str, typer.Argument(metavar="INGEST_ID", help="The call, as winnow ingest list names it.", show_default=False)
    ],
    reason: Reason = None,
    as_json: Json = False,
) -> None:
    """Undo an ingest call: its records leave the log, and the same files can be ingested again.

    One commit. Log ends, quarantined records and what is known of the call's files go back to what they were. Refused
    unless the call is the newest of every partition that it touched, and nothing of it was compacted, retained or
    deleted. Its offsets are given again to what is ingested next. The files stay for winnow.retired.grace.ms, for
    readers that are at work; a sweep removes them.

    Example: winnow ingest undo orders 4f1c8a5e7b3d4c0f9a2b6d8e1c3f5a70
    """
    with open_for_command(reason=reason) as installation:
        from winnow.pipeline.ingest.undo import undo_ingest

        report = undo_ingest(installation, topic, ingest_id)
    if as_json:
        write_json(asdict(report))
        return
    print_lines(_format_report(report))


def _show_calls(found: IngestCalls) -> None:
    if not found.calls:
        print_lines(f"Nothing was ingested into {found.topic} yet. Next: winnow ingest files {found.topic} PATH...")
        return
    rows = [
        [
            call.ingest_id,
            format_short_time(call.as_of_ms),
            "" if call.files is None else f"{call.files:,}",
            f"{call.records_appended:,}",
            "" if call.records_skipped is None else f"{call.records_skipped:,}",
            f"{call.records_quarantined:,}" if call.records_quarantined else "",
            f"{call.records_erased:,}" if call.records_erased else "",
            _format_partitions(call),
            "yes" if call.undoable else "no",
            call.reason or "",
        ]
        for call in found.calls
    ]
    header = [
        "ingest id",
        "as of",
        "files",
        "appended",
        "skipped",
        "quarantined",
        "of erased keys",
        "offsets",
        "can be undone",
        "why not",
    ]
    print_table(header, rows, right=(2, 3, 4, 5, 6), sentences=(7, 9))
    left_out = found.total - len(rows)
    if left_out:
        print_lines(f"{format_count(left_out, 'older call')}: winnow ingest list {found.topic} --limit {found.total}")
    newest = next((call.ingest_id for call in found.calls if call.undoable), None)
    if newest is not None:
        print_lines(f"To take one back: winnow ingest undo {found.topic} {newest}")


def _format_partitions(call: IngestCall, most: int = 3) -> str:
    parts = [part for part in call.partitions if part.first_offset is not None]
    shown = [f"{part.partition}: {part.first_offset:,} to {part.last_offset:,}" for part in parts[:most]]
    return ", ".join([*shown, *([f"and {len(parts) - most:,} more partitions"] if len(parts) > most else [])])


def _format_report(report: UndoReport) -> str:
    if report.was_undone:
        return (
            f"Ingest call {report.ingest_id} of {report.topic} was undone before, by snapshot {report.snapshot_id}. "
            "Nothing was changed."
        )
    topic = report.topic
    ends = ", ".join(f"{topic}-{part.partition} ends at {part.log_end_offset:,}" for part in report.partitions[:5])
    records = format_count(report.records_removed, "record")
    files = f"{format_count(report.files_retired, 'file')} ({format_bytes(report.bytes_retired)})"
    return (
        f"Undid ingest call {report.ingest_id} of {topic}: {records} left the log{f' ({ends})' if ends else ''}. "
        f"Snapshot {report.snapshot_id}.\n"
        f"{files} stay until their grace has passed; then a sweep removes them.\n"
        "The same files can be ingested again."
    )
