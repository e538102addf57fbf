"""``winnow read``: published records as JSON lines or Parquet, streamed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, TextIO

import typer

from winnow.cli.folder_output import Engine, choose_folder, write_to_folder
from winnow.cli.key_text import hint_if_none
from winnow.cli.options import Topic, open_for_command, parse_time
from winnow.cli.output import discard_output, print_message
from winnow.errors import RunAgainError, UsageError
from winnow.values.counts import format_count
from winnow.values.typed_keys import parse_key

if TYPE_CHECKING:
    import pyarrow as pa

    from winnow.engine.read_plans import ReadPlan
    from winnow.log.topic_log import TopicLog
    from winnow.pipeline.installation import Installation
    from winnow.values.epochs import Epoch


class Format(StrEnum):
    """What ``--format`` takes."""

    JSONL = "jsonl"
    PARQUET = "parquet"


Text = Annotated[
    bool, typer.Option("--text", help="Bytes as text instead of base64; what is not UTF-8 as an object with base64.")
]

Decoded = Annotated[
    bool,
    typer.Option(
        "--decoded",
        help="Also keys and values as JSON, by the topic's formats and with what winnow.latest.fields shows of them; "
        "where that hides any field, without their bytes and headers.",
    ),
]

OutputFormat = Annotated[Format, typer.Option("--format", help="The output format.")]

Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        metavar="FILE",
        help="To a file, complete or not at all; .gz compresses. With --format parquet also into an empty folder: many "
        "files, on Spark where much is read.",
        show_default=False,
    ),
]


def read(
    topic: Topic,
    *,
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
    from_time: Annotated[
        int | None,
        typer.Option(
            "--from-time",
            metavar="T",
            parser=parse_time,
            help="Begin at the first record with this timestamp or a later one, in every partition: ISO 8601 with "
            "offset, or ms since the epoch.",
            show_default=False,
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="KEY",
            help="Only records with this key: text, or text:KEY, hex:KEY, base64:KEY.",
            show_default=False,
        ),
    ] = None,
    latest: Annotated[
        bool,
        typer.Option(
            "--latest",
            help="Only the latest record of each key, by the topic's strategy; keys whose latest is a tombstone are "
            "left out.",
        ),
    ] = False,
    text: Text = False,
    decoded: Decoded = False,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=0, help="At most N records in all.", show_default=False)
    ] = None,
    output_format: OutputFormat = Format.JSONL,
    output: Output = None,
    quarantined: Annotated[
        bool,
        typer.Option("--quarantined", help="Records without a key, which ingest or a compaction quarantined."),
    ] = False,
    engine: Engine = None,
) -> None:
    """Print the published records of a topic.

    In offset order per partition, partitions in order. Keys, values and header values are base64; such JSON lines can
    be ingested again. With --text they are for people.

    Example: winnow read orders --partition 0 --limit 10

    Example: winnow read orders --text --key order-12 --from-time 2026-01-31T00:00:00Z

    Example: winnow read orders --latest --text

    Example: winnow read customers --latest --decoded

    Example: winnow read orders --format parquet --output orders
    """
    typed = None if key is None else parse_key(key)
    wanted = Wanted(
        partition=partition,
        from_offset=from_offset,
        from_time_ms=from_time,
        key=None if typed is None else typed.key,
        limit=limit,
    )
    _check_options(output_format, output, wanted, quarantined=quarantined, latest=latest, text=text)
    check_decoded(output_format, decoded=decoded, quarantined=quarantined)
    folder = choose_folder(
        output, engine, parquet=output_format is Format.PARQUET, narrowing=describe_narrowing(wanted.key, limit)
    )
    standard_output = sys.stdout
    with open_for_command(to_read=True) as installation:
        if folder is not None:
            log, plan = _plan_wanted(installation, topic, wanted, latest=latest)
            write_to_folder(installation, log, plan, folder, engine, "record")
            return
        batches = hint_if_none(_read_wanted(installation, topic, wanted, quarantined=quarantined, latest=latest), typed)
        if not quarantined and output_format is Format.JSONL:
            batches = _name_epochs(batches, installation.log.open(topic).head().state.epochs)
        if decoded:
            batches = decode_batches(installation, topic, batches)
        if output is None:
            write_to_output(batches, standard_output, as_text=text)
            return
        written = write_to_file(batches, output, output_format, as_text=text)
    print_message(f"Wrote {format_count(written, 'record')} to {output}")


def describe_narrowing(key: bytes | None, limit: int | None) -> str:
    """Name the options that go with one file only; empty: none was given."""
    return " and ".join(name for name, value in (("--key", key), ("--limit", limit)) if value is not None)


@dataclass(frozen=True)
class Wanted:
    """Which records are wanted; None: not restricted."""

    partition: int | None
    from_offset: int | None
    from_time_ms: int | None
    key: bytes | None
    limit: int | None


def _check_options(
    output_format: Format, output: Path | None, wanted: Wanted, *, quarantined: bool, latest: bool, text: bool
) -> None:
    begins = wanted.from_offset is not None or wanted.from_time_ms is not None
    if quarantined and (output_format is Format.PARQUET or begins or latest or wanted.key is not None):
        raise UsageError(
            "--quarantined gives JSON lines and takes no --from-offset, --from-time, --key or --latest: such records "
            "have no key and may have no offset."
        )
    if latest and begins:
        raise UsageError("--latest takes no --from-offset and no --from-time: the latest record of a key may be older.")
    if wanted.from_offset is not None and wanted.from_time_ms is not None:
        raise UsageError(
            "--from-offset and --from-time both say where to begin.",
            next="Leave one out.",
        )
    if text and output_format is Format.PARQUET:
        raise UsageError("--text goes with JSON lines: a Parquet file holds the bytes as they are.")
    check_output(output_format, output)


def check_decoded(output_format: Format, *, decoded: bool, quarantined: bool = False) -> None:
    """Check that what is printed can be decoded.

    Raises:
        UsageError: it cannot; says why.
    """
    if decoded and (quarantined or output_format is Format.PARQUET):
        raise UsageError(
            "--decoded gives JSON lines of published records.",
            next="A table with the columns of keys and values, in Parquet: winnow.latest.table=true",
        )


def decode_batches(
    installation: Installation, topic: str, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Decode the records of ``batches``.

    Raises:
        UsageError, ConfigurationError, ServiceError: see
            :func:`winnow.pipeline.latest.decoded_records.open_decoded_reading`.
    """
    from winnow.pipeline.latest.decoded_records import open_decoded_reading

    return open_decoded_reading(installation, topic).add_columns(batches)


def check_output(output_format: Format, output: Path | None) -> None:
    """Check that a file can be written where the options say.

    Raises:
        UsageError: it cannot; says what to change.
    """
    if output is None:
        if output_format is Format.PARQUET:
            raise UsageError("--format parquet needs --output FILE: a Parquet file cannot be streamed to a terminal.")
        return
    if output.is_dir() and output_format is Format.PARQUET:
        return
    if output.is_dir():
        raise UsageError(
            f"--output {output} is a folder.",
            next="Name a file in it; with --format parquet an empty folder takes many files.",
        )
    if not output.absolute().parent.is_dir():
        raise UsageError(
            f"--output {output}: the folder {output.parent} does not exist.",
            next="Create it first.",
        )


def _read_wanted(
    installation: Installation, topic: str, wanted: Wanted, *, quarantined: bool, latest: bool
) -> Iterator[pa.RecordBatch]:
    if quarantined:
        return _read_quarantined(installation, topic, wanted.partition, wanted.limit)
    if latest:
        from winnow.pipeline.latest.records import read_latest_batches

        return read_latest_batches(installation, topic, partition=wanted.partition, key=wanted.key, limit=wanted.limit)
    return _read_published(installation, topic, wanted)


def _plan_wanted(installation: Installation, topic: str, wanted: Wanted, *, latest: bool) -> tuple[TopicLog, ReadPlan]:
    if latest:
        from winnow.pipeline.latest.records import plan_latest
        from winnow.pipeline.topics.topic_view import load_topic_view

        view = load_topic_view(installation, topic)
        return view.log, plan_latest(view, wanted.partition)
    from winnow.pipeline.read.record_parts import plan_records

    log = installation.log.open(topic)
    with _explain_swept(topic):
        return log, plan_records(
            log,
            log.head(),
            partition=wanted.partition,
            from_offset=wanted.from_offset,
            from_time_ms=wanted.from_time_ms,
        )


def _read_published(installation: Installation, topic: str, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    from winnow.pipeline.read.records import read_batches

    with _explain_swept(topic):
        yield from read_batches(installation, topic, **asdict(wanted))


@contextlib.contextmanager
def _explain_swept(topic: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as problem:
        raise RunAgainError(
            f"A segment of topic {topic} was swept while it was being read, so what was written is incomplete.",
            next="Run it again: it reads the newest snapshot. If that repeats, raise winnow.retired.grace.ms.",
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
            begins = np.array([epoch.get_begin(int(partition)) for partition in partitions], np.int64)
            moved = np.array([epoch.get_base(int(partition)) for partition in partitions], np.int64)
            mine = offsets >= begins
            numbers[mine], bases[mine] = number, moved[mine]
        found = batch.append_column("epoch", pa.array(numbers))
        yield found.append_column("sourceOffset", pa.array(offsets - bases))


def _read_quarantined(
    installation: Installation, topic: str, partition: int | None, limit: int | None
) -> Iterator[pa.RecordBatch]:
    head = installation.log.open(topic).head()
    left = limit
    for batch in installation.log.quarantine(topic, head).read(head.state.quarantine_ingests):
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


def write_to_output(batches: Iterator[pa.RecordBatch], stream: TextIO, *, as_text: bool) -> None:
    """Write ``batches`` as JSON lines to standard output; a reader that has gone away is no error."""
    from winnow.cli.record_output import JsonLines

    sink = JsonLines(stream.buffer, as_text=as_text)
    for batch in batches:
        try:
            sink.write(batch)
            stream.flush()
        except BrokenPipeError:
            discard_output(stream)
            return


def write_to_file(
    batches: Iterator[pa.RecordBatch],
    output: Path,
    output_format: Format,
    *,
    as_text: bool,
    schema: pa.Schema | None = None,
) -> int:
    """Write ``batches`` to a file, whole or not at all; return the number of records. ``schema``: of a Parquet file."""
    from winnow.cli.record_output import BatchSink, GzipJsonLines, JsonLines, replace_file

    make: Callable[[BinaryIO], BatchSink] = partial(JsonLines, as_text=as_text)
    if output_format is Format.PARQUET:
        from winnow.files.record_files import ParquetFile

        make = partial(ParquetFile, schema=schema)
    elif output.suffix == ".gz":
        make = partial(GzipJsonLines, as_text=as_text)
    written = 0
    with replace_file(output) as stream, contextlib.closing(make(stream)) as sink:
        for batch in batches:
            sink.write(batch)
            written += batch.num_rows
    return written
