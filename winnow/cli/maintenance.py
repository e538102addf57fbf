"""``winnow sweep``, ``scrub``, ``watch`` and ``store rebuild``: maintenance, checks and alerts."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from winnow.cli.command_errors import exit_with, run_for_each_topic
from winnow.cli.options import Json, Topics, choose_topics, open_for_command
from winnow.cli.output import (
    MAXIMUM_ROWS,
    format_bytes,
    format_names,
    format_short_time,
    print_heading,
    print_lines,
    print_table,
    write_json,
)
from winnow.cli.progress import ProgressBar
from winnow.errors import ValidationFailedError, find_worst_exit_code
from winnow.sources.choices import check_choice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from winnow.pipeline.admin.scrub import ScrubReport


def watch(as_json: Json = False) -> None:
    """Send alerts on deadlines, late runs, stuck sweeps and late tables of latest states, and recoveries.

    Every run of the DAG compact_topics (with your prefix) ends with this; if something else schedules winnow compact,
    run it after each.
    An alert is not repeated until its problem has recovered. Alerts that their channel did not accept are sent again.

    Example: winnow watch
    """
    with open_for_command() as installation:
        from winnow.pipeline.monitor.watch import watch_topics as look_around

        done = look_around(installation)
    if as_json:
        write_json(asdict(done))
        return
    print_lines(done.sentence)


def _parse_size(text: str) -> int:
    from winnow.config.setting_types import parse_size_bytes

    try:
        return parse_size_bytes(text)
    except ValueError as problem:
        raise typer.BadParameter(str(problem)) from problem


def scrub(
    topics: Topics = None,
    max_bytes: Annotated[
        int | None,
        typer.Option(
            "--max-bytes",
            metavar="SIZE",
            parser=_parse_size,
            help=("Read at most this much, files checked longest ago first; at least one file. 500MB, 20GiB."),
            show_default=False,
        ),
    ] = None,
    bytes_per_second: Annotated[
        int | None,
        typer.Option(
            "--bytes-per-second",
            metavar="SIZE",
            parser=_parse_size,
            help="Maximum to read per second, on average.",
            show_default=False,
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="local|spark",
            help="Read files in this process or on Spark. Default: by size (scrub.spark_from_bytes).",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Read live segments in full and check every page.

    Also checks quarantined records, receipts and ledgers. Files checked longest ago come first, and each check is
    recorded, so a scrub that was interrupted or ran out of its budget continues where it stopped. Without --max-bytes
    the budget is what is left of scrub.bytes_per_day. Nothing is changed; damage ends with exit code 4 and an alert.

    Example: winnow scrub

    Example: winnow scrub orders --max-bytes 20GiB --bytes-per-second 50MB
    """
    check_choice("--engine", engine, ("local", "spark"))
    with open_for_command() as installation, ProgressBar("Reading segments") as bar:
        from winnow.pipeline.admin.scrub import Scrub
        from winnow.pipeline.topics.audit import record_request
        from winnow.store.audit import AuditAction

        work = Scrub(
            installation,
            max_bytes=max_bytes,
            bytes_per_second=bytes_per_second,
            progress=bar.move,
            runner=engine,
        )
        added = run_for_each_topic(choose_topics(installation, topics), work.add)
        reports = work.run()
        record_request(installation, AuditAction.SCRUB, topics or ())
    if as_json:
        if not added.all_failed:
            write_json([asdict(report) for report in reports])
    else:
        _show(reports)
    damaged = any(report.findings for report in reports)
    exit_with(find_worst_exit_code([added.exit_code, ValidationFailedError.exit_code if damaged else 0]))


def _show(reports: Sequence[ScrubReport]) -> None:
    if len(reports) > 1:
        _show_table(reports)
    for report in reports if len(reports) == 1 else [each for each in reports if each.findings]:
        print_lines(report.message)
    for report in reports:
        if report.findings:
            print_heading(f"Damaged or missing files of {report.topic}")
            rows = [
                ["" if each.partition is None else f"{report.topic}-{each.partition}", each.path, each.text]
                for each in report.findings[:MAXIMUM_ROWS]
            ]
            print_table(["partition", "file", "what is wrong"], rows)
            print_lines(
                "Restore each file under the same name from a backup or the object store's versions, then check again: "
                f"winnow scrub {report.topic}"
            )


def _show_table(reports: Sequence[ScrubReport]) -> None:
    print_table(
        ["topic", "segments", "read now", "bytes", "left", "all checked since", "damaged"],
        [
            [
                report.topic,
                f"{report.segments:,}",
                f"{report.segments_checked:,}",
                format_bytes(report.bytes_checked),
                format_bytes(report.bytes_left),
                format_short_time(report.oldest_checked_ms) or "never in full",
                f"{len(report.findings):,}" if report.findings else "",
            ]
            for report in reports[:MAXIMUM_ROWS]
        ],
        right=(1, 2, 3, 4, 6),
    )


def sweep(topics: Topics = None, as_json: Json = False) -> None:
    """Remove replaced files whose grace period has passed.

    The grace period is winnow.retired.grace.ms, from the publish that replaced them. Only a sweep deletes data files. A
    file that a snapshot still refers to stays. Deleted topics are removed for good once theirs has passed. Sweeping
    again removes nothing more.

    Example: winnow sweep orders
    """
    with open_for_command() as installation:
        from winnow.pipeline.admin.sweep import sweep_topics
        from winnow.pipeline.topics.audit import record_request
        from winnow.store.audit import AuditAction

        chosen = choose_topics(installation, topics) + ([] if topics else installation.log.list_deleted())
        outcome = run_for_each_topic(chosen, lambda topic: sweep_topics(installation, [topic]))
        record_request(installation, AuditAction.SWEEP, topics or ())
    reports = [report for per_topic in outcome.results for report in per_topic]
    if as_json:
        if not outcome.all_failed:
            write_json([asdict(report) for report in reports])
    else:
        for report in reports:
            freed = f" {format_bytes(report.bytes_deleted)} freed." if report.files_deleted else ""
            print_lines(f"{report.message}{freed}")
    exit_with(outcome.exit_code)


def rebuild(topics: Topics = None) -> None:
    """Restore the metadata store from the tables.

    For a store that was lost or restored from an older backup: checkpoints, marks, retired files and receipts come back
    from each table and its state. Assessments and verdicts are history and cannot be restored.

    Example: winnow store rebuild
    """
    with open_for_command() as installation:
        from winnow.pipeline.topics.stored_rows import rebuild_store

        outcome = run_for_each_topic(
            choose_topics(installation, topics), lambda topic: rebuild_store(installation, [topic])
        )
    rebuilt = [topic for per_topic in outcome.results for topic in per_topic]
    if rebuilt:
        print_lines(f"Rebuilt the metadata store for {format_names(rebuilt)}.\nNext: winnow checkpoints")
    exit_with(outcome.exit_code)
