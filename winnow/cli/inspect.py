"""``winnow inspect``: what an archive is, what it has lost, and what to type."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from winnow.cli.ingest import Columns, Exclude, Layout, OfPartition
from winnow.cli.options import Json
from winnow.cli.output import (
    MAXIMUM_ROWS,
    format_bytes,
    format_names,
    print_lines,
    print_table,
    write_json,
)
from winnow.cli.progress import ProgressBar
from winnow.clock import format_ms
from winnow.sources.field_map import parse_field_map
from winnow.values.counts import format_count

if TYPE_CHECKING:
    from winnow.sources.inspection import Inspection, PartitionInspection


def inspect(
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Files, folders, globs, URIs.")],
    layout: Layout = "auto",
    columns: Columns = None,
    partition: OfPartition = None,
    full: Annotated[bool, typer.Option("--full", help="Read all records, for exact counts and all findings.")] = False,
    exclude: Exclude = None,
    as_json: Json = False,
) -> None:
    """Say what an archive is and what it has lost.

    Recognises what sinks, brokers and tools leave behind (docs/archives.md). Shows objects, records, offsets and times
    per topic and partition, then findings: what each means, and the setting or option that mends it. Reads names and
    footers; with --full all records. Changes nothing.

    PATH may also be an Iceberg table of another program: CATALOG.NAMESPACE.TABLE, its folder or a metadata file. Its
    metadata alone are read.

    Example: winnow inspect s3://archive/topics/ --full
    """
    from winnow.files.pyarrow_without_pandas import keep_pandas_out_of_pyarrow

    keep_pandas_out_of_pyarrow()
    from winnow.sources.archive import open_archive
    from winnow.sources.inspection import inspect_archive
    from winnow.sources.table_folders import names_iceberg_table

    with contextlib.redirect_stdout(sys.stderr):
        if len(paths) == 1 and names_iceberg_table(paths[0]):
            from winnow.sources.iceberg.table_inspection import inspect_table

            found, full = inspect_table(paths[0]), True
        else:
            fields = parse_field_map(columns or ())
            archive = open_archive(paths, layout, exclude or (), fields=fields, partition=partition, suggests=True)
            options = fields.list_options() + ([] if layout == "auto" else ["--layout", layout])
            options += [] if partition is None else ["--partition", str(partition)]
            options += [word for glob in exclude or () for word in ("--exclude", glob)]
            with ProgressBar("Inspecting") as bar:
                found = inspect_archive(archive, paths, full=full, options=options, progress=bar.move)
    if as_json:
        write_json([_make_document(each) for each in found.partitions])
        return
    _show(found, full=full)


def _make_document(entry: PartitionInspection) -> dict[str, object]:
    document = asdict(entry)
    document["findings"] = [
        {"kind": finding.kind.value, "count": finding.count, "text": finding.text} for finding in entry.findings
    ]
    return document


def _show(found: Inspection, *, full: bool) -> None:
    objects = sum(each.objects for each in found.partitions)
    print_lines(f"{found.title} (layout {found.layout}), {format_count(objects, 'object')}")
    rows = [_make_row(each) for each in found.partitions[:MAXIMUM_ROWS]]
    header = ["partition", "objects", "bytes", "records", "offsets", "", "tombstones", "keyless", "from", "to"]
    print_table(header, rows, right=(1, 2, 3, 6, 7))
    left_out = len(found.partitions) - len(rows)
    if left_out:
        print_lines(f"{format_count(left_out, 'more partition')}; --json lists all")
    for text, places in _group_findings(found):
        print_lines(f"- {text} [{places}]")
    if not full:
        print_lines("Names and footers were read; --full reads all records and finds more.")
    print_lines(f"Next: {found.command}")


def _make_row(entry: PartitionInspection) -> list[str]:
    topic = "?" if entry.topic is None else entry.topic
    partition = "?" if entry.partition is None else str(entry.partition)
    first = "" if entry.first_offset is None else f"{entry.first_offset:,}"
    last = "?" if entry.last_offset is None else f"{entry.last_offset:,}"
    return [
        f"{topic}-{partition}",
        f"{entry.objects:,}",
        format_bytes(entry.size_bytes),
        _format_count(entry.records),
        f"{first} to {last}" if first else "",
        entry.offsets,
        _format_count(entry.tombstones),
        _format_count(entry.keyless),
        "" if entry.min_timestamp_ms is None else format_ms(entry.min_timestamp_ms),
        "" if entry.max_timestamp_ms is None else format_ms(entry.max_timestamp_ms),
    ]


def _format_count(count: int | None) -> str:
    return "?" if count is None else f"{count:,}"


def _group_findings(found: Inspection) -> list[tuple[str, str]]:
    """Return each finding once, with the partitions that have it."""
    places: dict[str, list[tuple[str, int | None]]] = {}
    for entry in found.partitions:
        for finding in entry.findings:
            name = f"{entry.topic or '?'}-{'?' if entry.partition is None else entry.partition}"
            text = f"{finding.kind.value.replace('_', ' ')}: {finding.text}"
            places.setdefault(text, []).append((name, finding.count))
    return [(text, _format_places(named, len(found.partitions))) for text, named in places.items()]


def _format_places(named: Sequence[tuple[str, int | None]], partitions: int) -> str:
    if len(named) == partitions > 1 and len({count for _, count in named}) == 1:
        return "all partitions"
    shown = [name if count is None else f"{name} ({count:,})" for name, count in named]
    return format_names(shown, 8)
