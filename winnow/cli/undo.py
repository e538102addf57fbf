"""``winnow undo``: takes a compaction, a retention run or a deletion of records back; lists what can be."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from winnow.cli.command_errors import exit_with, run_for_each_topic
from winnow.cli.options import Json, Reason, choose_topics, complete_topic, open_for_command
from winnow.cli.output import (
    format_bytes,
    format_names,
    format_short_time,
    print_lines,
    print_table,
    write_json,
)
from winnow.errors import UsageError
from winnow.values.counts import format_count

if TYPE_CHECKING:
    from winnow.pipeline.undo.listing import UndoableChange, UndoableChanges
    from winnow.pipeline.undo.undo import UndoReport


def undo(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="PLAN",
            help="The plan, as winnow receipts names it (its beginning is enough), or the deletion of records, as "
            "--list names it. With --list: a topic.",
            show_default=False,
            autocompletion=complete_topic,
        ),
    ] = None,
    wants_list: Annotated[
        bool, typer.Option("--list", help="List what can be taken back, until when, and what that brings back.")
    ] = False,
    and_later: Annotated[
        bool,
        typer.Option(
            "--and-later", help="Also take back later runs that worked on its result, newest first, in the same commit."
        ),
    ] = False,
    partition: Annotated[
        list[int] | None,
        typer.Option("--partition", metavar="N", help="Only this partition; may be repeated.", show_default=False),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, help="With --list: the newest N changes of each topic.")
    ] = 20,
    reason: Reason = None,
    as_json: Json = False,
) -> None:
    """Take a compaction, a retention run or a deletion of records back, while the files that it replaced are there.

    One commit: what it removed is live again, what it wrote is retired, log start, first dirty offset and cleaning
    history are those of before. Everything committed since stays. Refused if a later run worked on its result (see
    --and-later), or a sweep has condemned a file. The partitions are paused, so that the next run does not do the same
    again. Undoing twice changes nothing.

    Example: winnow undo --list orders

    Example: winnow undo 7a21c09be0c4 --reason "strategy switched by mistake"
    """
    if wants_list:
        if and_later or partition:
            raise UsageError("--list takes neither --and-later nor --partition.", left="Nothing was changed.")
        _list(name, limit, as_json=as_json)
        return
    if name is None:
        raise UsageError(
            "Which run is to be taken back?",
            left="Nothing was changed.",
            next="See what can be taken back with: winnow undo --list",
        )
    with open_for_command(reason=reason) as installation:
        from winnow.pipeline.undo.listing import find_change
        from winnow.pipeline.undo.undo import undo_change

        topic, change_id = find_change(installation, name)
        report = undo_change(installation, topic, change_id, partition, takes_later=and_later)
    if as_json:
        write_json(asdict(report))
        return
    print_lines(_format_report(report))


def _list(topic: str | None, limit: int, *, as_json: bool) -> None:
    with open_for_command(to_read=True) as installation:
        from winnow.pipeline.undo.listing import list_undoable

        chosen = choose_topics(installation, [topic] if topic else None)
        outcome = run_for_each_topic(chosen, lambda each: list_undoable(installation, each, limit=limit))
    found: list[UndoableChanges] = list(outcome.results)
    if as_json:
        if not outcome.all_failed:
            write_json([{"topic": each.topic, **asdict(change)} for each in found for change in each.changes])
    else:
        _show(found, topic)
    exit_with(outcome.exit_code)


def _show(found: list[UndoableChanges], topic: str | None) -> None:
    rows = [
        [
            each.topic,
            change.change_id if len(change.change_id) > _PLAN_ID_LENGTH else change.change_id[:12],
            change.kind.replace("_", " "),
            format_short_time(change.at_ms),
            format_names(map(str, change.partitions)),
            "" if not change.undoable else f"{change.records:,}",
            "" if not change.undoable else f"{change.files:,}",
            _format_possible(change),
            format_short_time(change.until_ms) if change.until_ms is not None else "",
            _format_reason(change),
        ]
        for each in found
        for change in each.changes
    ]
    if not rows:
        print_lines(f"Nothing of {topic or 'any topic'} was compacted, retained or deleted yet.")
        return
    header = ["topic", "change", "kind", "at", "partitions", "records", "files", "can be undone", "until", "why not"]
    print_table(header, rows, right=(5, 6), sentences=(4, 9))
    possible = next((change for each in found for change in each.changes if change.undoable), None)
    if possible is not None:
        later = " --and-later" if possible.needs_later else ""
        print_lines(f"To take one back: winnow undo {possible.change_id}{later}")


_PLAN_ID_LENGTH = 32


def _format_possible(change: UndoableChange) -> str:
    if not change.undoable:
        return "no"
    return f"with {format_count(len(change.needs_later), 'later run')}" if change.needs_later else "yes"


def _format_reason(change: UndoableChange) -> str:
    if change.undone_by is not None and not change.undoable:
        return f"undone by {change.undone_by}"
    return "" if change.undoable or change.reason is None else change.reason


def _format_report(report: UndoReport) -> str:
    if report.was_undone:
        return f"{report.change_id} of {report.topic} was undone before. Nothing was changed."
    records = sum(part.records_restored for part in report.partitions)
    files = sum(part.files_restored for part in report.partitions)
    size_bytes = sum(part.bytes_restored for part in report.partitions)
    undone = list(dict.fromkeys(change_id for part in report.partitions for change_id in part.undone))
    partitions = format_names(f"{report.topic}-{part.partition}" for part in report.partitions)
    starts = ", ".join(
        f"{report.topic}-{part.partition} begins at {part.log_start_offset:,}" for part in report.partitions[:5]
    )
    return (
        f"Undid {format_names(undone)} in {partitions}: {format_count(records, 'record')} in "
        f"{format_count(files, 'file')} ({format_bytes(size_bytes)}) came back ({starts}). Snapshot "
        f"{report.snapshot_id}.\n"
        f"{format_count(report.files_retired, 'file')} ({format_bytes(report.bytes_retired)}) that it had written wait "
        "for their grace; then a sweep removes them.\n"
        f"These partitions are paused, so that the next run does not do the same again. To go on: {report.resume}"
    )
