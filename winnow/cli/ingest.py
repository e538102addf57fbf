"""``winnow ingest``: records of files into a topic's log."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from winnow.cli.options import AsOf, Json, Topic, open_installation, resolve_as_of
from winnow.cli.output import MAXIMUM_ROWS, format_count, print_lines, print_message, print_table, write_json
from winnow.cli.progress import ProgressBar

if TYPE_CHECKING:
    from winnow.pipeline.ingest.commit import IngestReport


def files(
    topic: Topic,
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="JSON lines (.jsonl, .jsonl.gz), Parquet, folders.")
    ],
    as_of: AsOf = None,
    again: Annotated[
        bool, typer.Option("--again", help="Append files without offsets again, even if they were ingested before.")
    ] = False,
    trust_compacted: Annotated[
        bool,
        typer.Option("--trust-compacted", help="Treat missing offsets below the first dirty one as compacted away."),
    ] = False,
    source_topic: Annotated[
        str | None,
        typer.Option(
            "--source-topic",
            metavar="NAME",
            help="Take the records that name this topic, and leave out those of others.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Append the records of files, all of them or none.

    The files are read in the order given and appended in one commit. Offsets in the files are kept and never appended
    twice, so ingesting a file again changes nothing. Records without a partition go where Kafka's default partitioner
    puts them; records without an offset get the next one.

    If a record names another topic, the whole call is refused, unless --source-topic says which topic's records to
    take.

    Example: winnow ingest files orders dump/2026-01-31/
    """
    with open_installation() as ctx:
        from winnow.pipeline.ingest.ingest import ingest_files

        as_of_ms = resolve_as_of(ctx, as_of)
        with ProgressBar(f"Reading {topic}") as bar:
            report = ingest_files(
                ctx,
                topic,
                paths,
                as_of_ms=as_of_ms,
                again=again,
                trust_compacted=trust_compacted,
                source_topic=source_topic,
                progress=bar.move,
            )
    for notice in report.notices:
        print_message(f"notice: {notice}")
    if as_json:
        write_json(asdict(report))
        return
    print_lines(format_summary(report))
    _show_partitions(report)
    if report.ingest_id is not None:
        print_lines(f"To take it back: winnow ingest undo {topic} {report.ingest_id}")
    print_lines(f"Next: winnow assess {topic}")


def format_summary(report: IngestReport) -> str:
    """What one call did, in one sentence."""
    appended = format_count(report.records_appended, "record")
    text = f"Read {format_count(report.files, 'file')} into {report.topic}: {appended} appended"
    text += f", {report.records_skipped:,} skipped because they are there already" if report.records_skipped else ""
    text += f", {report.records_quarantined:,} quarantined" if report.records_quarantined else ""
    text += f", {report.records_left_out:,} of other topics left out" if report.records_left_out else ""
    return text + (
        f". Snapshot {report.snapshot_id}." if report.snapshot_id is not None else ". Nothing was committed."
    )


def _show_partitions(report: IngestReport) -> None:
    if not report.partitions:
        return
    rows = [
        [
            f"{report.topic}-{part.partition}",
            "" if part.first_offset is None else f"{part.first_offset:,}",
            f"{part.log_end_offset:,}",
            f"{part.records_appended:,}",
            f"{part.records_skipped:,}",
            f"{part.records_quarantined:,}",
        ]
        for part in report.partitions[:MAXIMUM_ROWS]
    ]
    header = ["partition", "first appended", "log end", "appended", "skipped", "quarantined"]
    print_table(header, rows, right=(1, 2, 3, 4, 5))
    left_out = len(report.partitions) - len(rows)
    if left_out:
        print_lines(f"{format_count(left_out, 'more partition')}; --json lists all")
