"""``winnow ingest iceberg``: the rows of another program's Iceberg table into a topic's log."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from winnow.cli.ingest import (
    Create,
    Deletes,
    Partitions,
    SourceTopic,
    Timestamps,
    format_summary,
    show_partitions,
    withdraw_if_refused,
)
from winnow.cli.options import AsOf, Json, Topic, open_for_command, resolve_as_of
from winnow.cli.output import print_lines, print_message, write_json
from winnow.cli.progress import ProgressBar
from winnow.sources.choices import DELETES, Choices, check_choice


def iceberg(
    topic: Topic,
    table: Annotated[
        str,
        typer.Argument(
            metavar="CATALOG.TABLE",
            help="CATALOG.NAMESPACE.TABLE of a PyIceberg catalog; or the path or URI of a table's folder or of one of "
            "its metadata files.",
        ),
    ],
    *,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="FIELD=COLUMN",
            help="The column of key, value, partition, offset, timestamp, timestampType, headers or topic; may be "
            "repeated.",
        ),
    ] = None,
    source_topic: SourceTopic = None,
    timestamps: Timestamps = None,
    deletes: Deletes = None,
    create: Create = False,
    partitions: Partitions = None,
    as_of: AsOf = None,
    as_json: Json = False,
) -> None:
    """Append the rows of an Iceberg table of Kafka records: all of them first, then what was added since.

    The table may be written by anything: Spark, Flink, Iceberg's own sink. The first call reads all of it, each further
    one the rows that were appended since; how far is committed with the records, so each row lands once. A rewrite or
    compaction of the table adds nothing. If rows were deleted, updated or overwritten, or the last snapshot that was
    read has expired, the call is refused.

    Columns are found by their usual names: those of Spark's Kafka source, or _kafka_metadata_partition, _offset,
    _timestamp and _topic of Iceberg's own sink with its KafkaMetadataTransform. --map names others, and holds for
    the next calls too. A table without a column for the value is taken row by row: the value is the JSON text of all
    other columns, the key's included unless it is called key. Text becomes its UTF-8 bytes, structures JSON text.

    Catalogs are PyIceberg's: .pyiceberg.yaml, or PYICEBERG_CATALOG__<NAME>__URI and the like in the environment.

    Example: winnow ingest iceberg orders lake.shop.orders --map key=id --create
    """
    from winnow.pipeline.ingest.table import TableRequest, ingest_table
    from winnow.sources.iceberg.column_map import parse_columns

    check_choice("--timestamps", timestamps, ["floor"])
    check_choice("--deletes", deletes, DELETES)
    request = TableRequest(
        table,
        parse_columns(columns or ()),
        source_topic,
        Choices(floors_timestamps=timestamps is not None, deletes=deletes),
        creates=create,
        partitions=partitions,
    )
    with (
        open_for_command() as installation,
        withdraw_if_refused(installation, request.created),
        ProgressBar(f"Reading {topic}") as bar,
    ):
        report = ingest_table(
            installation, topic, request, as_of_ms=resolve_as_of(installation, as_of), progress=bar.follow_reading
        )
    for notice in report.notices:
        print_message(f"notice: {notice}")
    if as_json:
        write_json(asdict(report))
        return
    print_lines(format_summary(report))
    show_partitions(report)
    print_lines(f"Next: winnow assess {topic}")
