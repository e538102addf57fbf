"""Finds out what a table of another program holds and lacks, from its metadata alone: no data file is read."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator, Sequence

from winnow.sources.iceberg.column_map import SINK_STRUCT, ColumnMap, find_columns
from winnow.sources.iceberg.source_table import SourceTable, TableFile, open_source_table
from winnow.sources.iceberg.table_archive import DESCRIPTION, NAME
from winnow.sources.inspection import Inspection, PartitionInspection
from winnow.sources.layout import Finding, FindingKind
from winnow.sources.objects import Offsets


def inspect_table(name: str) -> Inspection:
    """Inspect the table ``name``; raises as :func:`winnow.sources.iceberg.source_table.open_source_table`.

    Raises:
        BadInputError: rows were removed or changed, so it cannot be ingested; or offsets are missing.
    """
    table = open_source_table(name)
    columns = find_columns(table.name, table.columns, {})
    files = table.list_added_files()
    by_partition: dict[int | None, list[TableFile]] = defaultdict(list)
    for file in files:
        by_partition[_find_partition(table, file, columns)].append(file)
    findings = tuple(_list_findings(columns))
    entries = [
        _make_entry(table, partition, in_partition, columns, findings)
        for partition, in_partition in sorted(by_partition.items(), key=lambda item: -1 if item[0] is None else item[0])
    ]
    key = "" if "key" in columns.fields else " --map key=COLUMN"
    command = f"winnow ingest iceberg TOPIC {shlex.quote(name)}{key} --create"
    return Inspection(NAME, DESCRIPTION.title, tuple(entries), command)


def _find_partition(table: SourceTable, file: TableFile, columns: ColumnMap) -> int | None:
    """Return the partition of all records of ``file``; None if there are several, or it is not known."""
    lowest, highest = table.find_extent(file, columns.fields["partition"])
    return lowest if lowest == highest else None


def _make_entry(
    table: SourceTable,
    partition: int | None,
    files: Sequence[TableFile],
    columns: ColumnMap,
    findings: tuple[Finding, ...],
) -> PartitionInspection:
    first_offset, last_offset = _find_extent(table, files, columns, "offset")
    oldest_ms, newest_ms = _find_extent(table, files, columns, "timestamp")
    return PartitionInspection(
        layout=NAME,
        topic=None,
        partition=partition,
        objects=len(files),
        size_bytes=sum(file.size_bytes for file in files),
        records=sum(file.records for file in files),
        first_offset=first_offset,
        last_offset=last_offset,
        offsets=Offsets.EXACT.value,
        tombstones=_count_nulls(table, files, columns, "value") if "value" in columns.fields else 0,
        keyless=_count_nulls(table, files, columns, "key"),
        min_timestamp_ms=oldest_ms,
        max_timestamp_ms=newest_ms,
        findings=findings,
    )


def _find_extent(
    table: SourceTable, files: Sequence[TableFile], columns: ColumnMap, field: str
) -> tuple[int | None, int | None]:
    if field not in columns.fields:
        return None, None
    found = [table.find_extent(file, columns.fields[field]) for file in files]
    lows = [low for low, _ in found if low is not None]
    highs = [high for _, high in found if high is not None]
    return (min(lows) if len(lows) == len(files) else None), (max(highs) if len(highs) == len(files) else None)


def _count_nulls(table: SourceTable, files: Sequence[TableFile], columns: ColumnMap, field: str) -> int | None:
    if field not in columns.fields:
        return sum(file.records for file in files)
    found = [table.count_nulls(file, columns.fields[field]) for file in files]
    known = [count for count in found if count is not None]
    return sum(known) if len(known) == len(found) else None


def _list_findings(columns: ColumnMap) -> Iterator[Finding]:
    is_sink = columns.fields["offset"][0].startswith(SINK_STRUCT)
    if "key" not in columns.fields:
        text = "No column holds keys" + (": Iceberg's sink drops them. " if is_sink else ". ")
        yield Finding(FindingKind.NO_KEYS, f"{text}If a column of the value is the key: --map key=COLUMN.")
    if "value" not in columns.fields:
        text = (
            "The value's fields are columns, so there is no tombstone"
            + (": Iceberg's sink skips them. " if is_sink else ". ")
            + "Deleted keys live on here, unless values stand for deletions (--deletes debezium)."
        )
        yield Finding(FindingKind.NO_TOMBSTONES, text)
    if "timestamp" not in columns.fields:
        yield Finding(FindingKind.NO_TIMESTAMPS, "No column holds timestamps: the time of the ingest counts.")
    if "headers" not in columns.fields:
        yield Finding(FindingKind.HEADERS_LOST, "No column holds headers.")
