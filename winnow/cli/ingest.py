"""``winnow ingest``: records of files into a topic's log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from winnow.cli.command_errors import TopicOutcomes, exit_with, run_for_each_topic
from winnow.cli.options import AsOf, Json, Topic, open_for_command, resolve_as_of
from winnow.cli.output import (
    MAXIMUM_ROWS,
    format_names,
    print_lines,
    print_message,
    print_table,
    write_json,
)
from winnow.cli.progress import ProgressBar
from winnow.errors import UsageError
from winnow.sources.choices import DELETES, EMPTY_VALUES, TOMBSTONES, Choices, check_choice, parse_encodings
from winnow.sources.field_map import parse_field_map
from winnow.values.counts import format_count

if TYPE_CHECKING:
    from winnow.pipeline.ingest.open import InputPaths
    from winnow.pipeline.ingest.request import IngestReport
    from winnow.pipeline.installation import Installation

Layout = Annotated[
    str,
    typer.Option(
        "--layout",
        metavar="LAYOUT",
        help="auto, winnow, spark, kcat, aiven, confluent, lenses, event-hubs, ui-export, avro, console or kafka-log; "
        "auto looks at names and bytes.",
    ),
]

Exclude = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="GLOB", help="Leave out objects whose name or path ends so; may be repeated."),
]

SourceTopic = Annotated[
    str | None,
    typer.Option(
        "--source-topic",
        metavar="NAME",
        help="Take the records that name this topic, and leave out those of others.",
        show_default=False,
    ),
]

Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="FIELD=COLUMN[:FORM]",
        help="For files of any program: the column of offset, partition, key, value (* is the row), timestamp, headers "
        "or topic; FORM text, json or base64, of a timestamp s, ms or us. May be repeated; holds for the next calls.",
    ),
]

OfPartition = Annotated[
    int | None,
    typer.Option(
        "--partition",
        metavar="N",
        min=0,
        help="The partition of segments and of files of Event Hubs Capture whose names do not tell it; for this call.",
        show_default=False,
    ),
]

Timestamps = Annotated[
    str | None,
    typer.Option("--timestamps", metavar="floor", help="Round timestamps finer than a millisecond down."),
]

Deletes = Annotated[
    str | None,
    typer.Option("--deletes", metavar="null-text|debezium", help="Values that stand for a deletion."),
]

Create = Annotated[
    bool, typer.Option("--create", help="Create the topic if it is not there, with the partitions seen.")
]

Partitions = Annotated[int | None, typer.Option("--partitions", min=1, help="With --create: the number of partitions.")]


def files(
    topic: Topic,
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="PATH...", help="Files, folders with all below them, globs, URIs.")
    ] = None,
    *,
    as_of: AsOf = None,
    allow_duplicates: Annotated[
        bool,
        typer.Option(
            "--allow-duplicates", help="Append files without offsets again, even if they were ingested before."
        ),
    ] = False,
    trust_compacted: Annotated[
        bool,
        typer.Option("--trust-compacted", help="Treat missing offsets below the first dirty one as compacted away."),
    ] = False,
    source_topic: SourceTopic = None,
    layout: Layout = "auto",
    columns: Columns = None,
    partition: OfPartition = None,
    encoding: Annotated[
        list[str] | None,
        typer.Option(
            "--encoding",
            metavar="FIELD=ENCODING",
            help="key, value or headers = base64, text or json, for all objects.",
        ),
    ] = None,
    timestamps: Timestamps = None,
    tombstones: Annotated[
        str | None,
        typer.Option("--tombstones", metavar="first|last", help="Where tombstones stand if the archive cannot tell."),
    ] = None,
    empty_values: Annotated[
        str | None,
        typer.Option(
            "--empty-values", metavar="keep|tombstone", help="What empty values are where null and empty are the same."
        ),
    ] = None,
    deletes: Deletes = None,
    exclude: Exclude = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="local|spark",
            help="Read an archive in this process or on Spark. Default: by its size (ingest.spark_from_bytes).",
            show_default=False,
        ),
    ] = None,
    epoch: Annotated[
        str | None,
        typer.Option(
            "--epoch",
            metavar="N|log",
            help="Of which epoch the offsets are, if the log has several; log: they are the log's.",
            show_default=False,
        ),
    ] = None,
    create: Create = False,
    partitions: Partitions = None,
    each_topic: Annotated[
        bool, typer.Option("--each-topic", help="Ingest each topic of the archive into the topic of its name.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Append the records of files or of an archive, all of them or none.

    What sinks, brokers and tools leave behind is recognised by looking at it (docs/archives.md): `winnow inspect PATH`
    says what it is and what it has lost. Files of Winnow's own layout are read in the order given, objects of other
    layouts by their offsets; all of a call is one commit. Offsets are kept and never appended twice, so ingesting a
    file again changes nothing, and objects that were ingested before are not read again. Records without a partition
    go where Kafka's default partitioner puts them; records without an offset get the next one.

    If a record names another topic, the whole call is refused, unless --source-topic says which topic's records to
    take. With --each-topic, TOPIC is left out and every topic of the archive is taken.

    Example: winnow ingest files orders s3://archive/orders/ --create
    """
    fields = parse_field_map(columns or ())
    choices = Choices(
        encodings={**fields.encodings, **parse_encodings(encoding or ())},
        floors_timestamps=timestamps is not None,
        tombstones=tombstones,
        empty_values=empty_values,
        deletes=deletes,
        exclude=tuple(exclude or ()),
        fields=fields,
        partition=partition,
    )
    check_choice("--timestamps", timestamps, ["floor"])
    check_choice("--tombstones", tombstones, TOMBSTONES)
    check_choice("--empty-values", empty_values, EMPTY_VALUES)
    check_choice("--deletes", deletes, DELETES)
    check_choice("--engine", engine, ("local", "spark"))
    options = IngestOptions(
        again=allow_duplicates,
        trust_compacted=trust_compacted,
        source_topic=source_topic,
        layout=layout,
        choices=choices,
        engine=engine,
        epoch=epoch,
        creates=create,
        partitions=partitions,
    )
    with open_for_command() as installation:
        as_of_ms = resolve_as_of(installation, as_of)
        outcome = _ingest_each(installation, [topic, *(paths or ())], options, as_of_ms) if each_topic else None
        if outcome is None and not paths:
            raise UsageError("No path is named: winnow ingest files TOPIC PATH...")
        report = None if outcome is not None else _ingest(installation, topic, paths or [], options, as_of_ms)
    if outcome is not None:
        _show_outcome(outcome, as_json=as_json)
        return
    assert report is not None
    for notice in report.notices:
        print_message(f"notice: {notice}")
    if as_json:
        write_json(asdict(report))
        return
    print_lines(format_summary(report))
    show_partitions(report)
    if report.ingest_id is not None:
        print_lines(f"To take it back: winnow ingest undo {topic} {report.ingest_id}")
    print_lines(f"Next: winnow assess {topic}")


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """Options of `winnow ingest files` that hold for every topic of a call."""

    again: bool
    trust_compacted: bool
    source_topic: str | None
    layout: str
    choices: Choices
    engine: str | None
    epoch: str | None
    creates: bool
    partitions: int | None


def withdraw_created(installation: Installation, created: Mapping[str, str], topics: Iterable[str]) -> None:
    """Remove those of ``topics`` that the refused call had created, and say so.

    ``created``: the uuid of the table of each topic that it created.
    """
    from winnow.pipeline.topics.deletion import withdraw_topics

    for sentence in withdraw_topics(installation, {topic: created[topic] for topic in topics if topic in created}):
        print_message(sentence)


@contextmanager
def withdraw_if_refused(installation: Installation, created: Mapping[str, str]) -> Iterator[None]:
    """Remove the topics that the block created if it raises: a refused ingest leaves no topic."""
    try:
        yield
    except BaseException:
        withdraw_created(installation, created, created)
        raise


def _ingest(
    installation: Installation,
    topic: str,
    paths: list[str] | InputPaths,
    options: IngestOptions,
    as_of_ms: int,
) -> IngestReport:
    from winnow.pipeline.ingest.open import InputPaths

    listed = InputPaths(paths) if isinstance(paths, list) else paths
    created: dict[str, str] = {}
    with withdraw_if_refused(installation, created):
        return _create_and_ingest(installation, topic, listed, options, as_of_ms, created)


def _create_and_ingest(
    installation: Installation,
    topic: str,
    paths: InputPaths,
    options: IngestOptions,
    as_of_ms: int,
    created: dict[str, str],
) -> IngestReport:
    from winnow.pipeline.ingest.ingest import ingest_files
    from winnow.pipeline.ingest.open import create_missing_topic, describe_default_policy

    partitions = None
    if options.creates:
        partitions = create_missing_topic(
            installation,
            topic,
            paths,
            created,
            layout=options.layout,
            choices=options.choices,
            source_topic=options.source_topic,
            partitions=options.partitions,
        )
        if partitions is not None:
            print_message(f"Created topic {topic} with {format_count(partitions, 'partition')}.")
    with ProgressBar(f"Reading {topic}") as bar:
        report = ingest_files(
            installation,
            topic,
            paths,
            as_of_ms=as_of_ms,
            again=options.again,
            trust_compacted=options.trust_compacted,
            source_topic=options.source_topic,
            layout=options.layout,
            choices=options.choices,
            on=options.engine,
            epoch=options.epoch,
            progress=bar.follow_reading,
        )
    if partitions is None:
        return report
    return replace(
        report, notices=(*report.notices, *describe_default_policy(installation, topic, report.records_appended))
    )


def _ingest_each(
    installation: Installation, paths: list[str], options: IngestOptions, as_of_ms: int
) -> TopicOutcomes[IngestReport]:
    """Ingest every topic of the archive, listed once; one that fails does not stop the others.

    Where records alone name topics, they are found in one reading, and each topic reads the objects that hold it.
    """
    from winnow.pipeline.ingest.open import InputPaths
    from winnow.sources.archive import split_by_topic

    listed = InputPaths(paths)
    parts = split_by_topic(listed.open(options.layout, options.choices))

    def ingest(topic: str) -> IngestReport:
        part, partitions = parts[topic]
        own = replace(options, source_topic=topic, partitions=options.partitions or partitions)
        return _ingest(installation, topic, listed.narrow(part), own, as_of_ms)

    return run_for_each_topic(list(parts), ingest)


def _show_outcome(outcome: TopicOutcomes[IngestReport], *, as_json: bool) -> None:
    topics_by_notice: dict[str, list[str]] = {}
    for report in outcome.results:
        for notice in report.notices:
            topics_by_notice.setdefault(notice, []).append(report.topic)
        if not as_json:
            print_lines(format_summary(report))
    for notice, topics in topics_by_notice.items():
        print_message(f"notice: {format_names(topics)}: {notice}")
    if as_json:
        write_json([asdict(report) for report in outcome.results])
    exit_with(outcome.exit_code)


def format_summary(report: IngestReport) -> str:
    """What one call did, in one sentence."""
    appended = format_count(report.records_appended, "record")
    text = f"Read {format_count(report.files, 'file')} into {report.topic}: {appended} appended"
    text += f", {report.records_skipped:,} skipped because they are there already" if report.records_skipped else ""
    text += f", {report.records_quarantined:,} quarantined" if report.records_quarantined else ""
    text += f", {report.records_left_out:,} of other topics left out" if report.records_left_out else ""
    text += f", {report.records_erased:,} of erased keys left out" if report.records_erased else ""
    return text + (
        f". Snapshot {report.snapshot_id}." if report.snapshot_id is not None else ". Nothing was committed."
    )


def show_partitions(report: IngestReport) -> None:
    """Show what one call did to each partition, as a table."""
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
