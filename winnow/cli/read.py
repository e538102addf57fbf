"""``winnow read``: published records as JSON lines or Parquet, streamed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, TextIO

import typer

from winnow.cli.options import Topic, open_installation
from winnow.cli.output import discard_output, format_count, print_message
from winnow.errors import RunAgainError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from winnow.epochs import Epoch
    from winnow.pipeline.context import Context


class Format(StrEnum):
    """What ``--format`` takes."""

    JSONL = "jsonl"
    PARQUET = "parquet"


def read(
    topic: Topic,
    partition: Annotated[
        int | None, typer.Option("--partition", metavar="P", min=0, help="Only this partition.", show_default=False)
    ] = None,
    from_offset: Annotated[
        int | None,
        typer.Option(
            "--from-offset",
            metavar="O",
            min=0,
            help="Begin at this offset, or at the next existing one, in every partition read.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=0, help="At most N records in all.", show_default=False)
    ] = None,
    output_format: Annotated[Format, typer.Option("--format", help="The output format.")] = Format.JSONL,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", metavar="FILE", help="To a file, complete or not at all; .gz compresses.", show_default=False
        ),
    ] = None,
    quarantined: Annotated[
        bool,
        typer.Option("--quarantined", help="Records without a key, which ingest or a compaction quarantined."),
    ] = False,
) -> None:
    """Print the published records of a topic.

    In offset order per partition, partitions in order. Keys, values and header values are base64. JSON lines can be
    ingested again.

    Example: winnow read orders --partition 0 --limit 10
    """
    _check_options(output_format, output, quarantined=quarantined, from_offset=from_offset)
    standard_output = sys.stdout
    with open_installation(to_read=True) as ctx:
        batches = (
            _read_quarantined(ctx, topic, partition, limit)
            if quarantined
            else _read_published(ctx, topic, partition=partition, from_offset=from_offset, limit=limit)
        )
        if not quarantined and output_format is Format.JSONL:
            batches = _name_epochs(batches, ctx.log.open(topic).head().state.epochs)
        if output is None:
            _write_to_output(batches, standard_output)
            return
        written = _write_to_file(batches, output, output_format)
    print_message(f"Wrote {format_count(written, 'record')} to {output}")


def _check_options(output_format: Format, output: Path | None, *, quarantined: bool, from_offset: int | None) -> None:
    if quarantined and (output_format is Format.PARQUET or from_offset is not None):
        raise UsageError("--quarantined gives JSON lines and takes no --from-offset: such records may have no offset.")
    if output is None:
        if output_format is Format.PARQUET:
            raise UsageError("--format parquet needs --output FILE: a Parquet file cannot be streamed to a terminal.")
        return
    if output.is_dir():
        raise UsageError(f"--output {output} is a folder. Name a file in it.")
    if not output.absolute().parent.is_dir():
        raise UsageError(f"--output {output}: the folder {output.parent} does not exist. Create it first.")


def _read_published(
    ctx: Context, topic: str, *, partition: int | None, from_offset: int | None, limit: int | None
) -> Iterator[pa.RecordBatch]:
    from winnow.pipeline.explain.read import read_batches

    try:
        yield from read_batches(ctx, topic, partition=partition, from_offset=from_offset, limit=limit)
    except FileNotFoundError as problem:
        raise RunAgainError(
            f"A segment of topic {topic} was swept while it was being read, so what was written is incomplete. Run it "
            "again: it reads the newest snapshot. If that repeats, raise winnow.retired.grace.ms."
        ) from problem


def _name_epochs(batches: Iterator[pa.RecordBatch], epochs: Sequence[Epoch]) -> Iterator[pa.RecordBatch]:
    """Add the epoch of each record and its offset at the brokers, if the log has several epochs."""
    if len(epochs) <= 1:
        yield from batches
        return
    import numpy as np
    import pyarrow as pa

    for batch in batches:
        partitions, offsets = batch.column("partition").to_numpy(), batch.column("offset").to_numpy()
        numbers, bases = np.ones(len(offsets), np.int64), np.zeros(len(offsets), np.int64)
        for number, epoch in enumerate(epochs, 1):
            begins = np.array([epoch.get_base(int(partition)) for partition in partitions], np.int64)
            mine = offsets >= begins
            numbers[mine], bases[mine] = number, begins[mine]
        found = batch.append_column("epoch", pa.array(numbers))
        yield found.append_column("sourceOffset", pa.array(offsets - bases))


def _read_quarantined(ctx: Context, topic: str, partition: int | None, limit: int | None) -> Iterator[pa.RecordBatch]:
    head = ctx.log.open(topic).head()
    left = limit
    for batch in ctx.log.quarantine(topic).read(head.state.quarantine_ingests):
        wanted = batch
        if partition is not None:
            import pyarrow.compute as pc

            wanted = wanted.filter(pc.equal(wanted.column("partition"), partition))
        if left is not None:
            wanted = wanted.slice(0, left)
            left -= wanted.num_rows
        if wanted.num_rows:
            yield wanted
        if left is not None and left <= 0:
            return


def _write_to_output(batches: Iterator[pa.RecordBatch], stream: TextIO) -> None:
    from winnow.cli.record_output import JsonLines

    sink = JsonLines(stream.buffer)
    for batch in batches:
        try:
            sink.write(batch)
            stream.flush()
        except BrokenPipeError:
            discard_output(stream)
            return


def _write_to_file(batches: Iterator[pa.RecordBatch], output: Path, output_format: Format) -> int:
    from winnow.cli.record_output import BatchSink, GzipJsonLines, JsonLines, ParquetFile, replace_file

    make: Callable[[BinaryIO], BatchSink] = JsonLines
    if output_format is Format.PARQUET:
        make = ParquetFile
    elif output.suffix == ".gz":
        make = GzipJsonLines
    written = 0
    with replace_file(output) as stream, contextlib.closing(make(stream)) as sink:
        for batch in batches:
            sink.write(batch)
            written += batch.num_rows
    return written
