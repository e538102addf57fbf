"""``winnow latest``: the latest value of each key, as rows, as SQL for another engine, or as a view in the catalog."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from winnow.cli.folder_output import Engine, choose_folder, write_to_folder
from winnow.cli.key_text import hint_if_none
from winnow.cli.options import Topic, open_for_command
from winnow.cli.output import print_lines, print_message
from winnow.cli.read import (
    Format,
    Output,
    OutputFormat,
    Text,
    check_output,
    describe_narrowing,
    write_to_file,
    write_to_output,
)
from winnow.errors import UsageError
from winnow.pipeline.latest.reader_names import SqlEngine
from winnow.sources.choices import check_choice
from winnow.values.counts import format_count
from winnow.values.typed_keys import parse_key

if TYPE_CHECKING:
    from winnow.pipeline.latest.value_columns import ValueReader


def latest(
    topic: Topic,
    *,
    partition: Annotated[
        int | None, typer.Option("--partition", metavar="P", min=0, help="Only this partition.", show_default=False)
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key", metavar="KEY", help="Only this key: text, or text:KEY, hex:KEY, base64:KEY.", show_default=False
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", min=0, help="At most N keys in all.", show_default=False)
    ] = None,
    text: Text = False,
    column: Annotated[
        list[str] | None,
        typer.Option(
            "--column",
            metavar="NAME:TYPE[=PATH]",
            help="A typed column of JSON values, such as city:string=$.address.city; may be repeated. Types: string, "
            "long, double, boolean, timestamp, json.",
            show_default=False,
        ),
    ] = None,
    avro_schema: Annotated[
        Path | None,
        typer.Option(
            "--avro-schema",
            metavar="FILE",
            help="The Avro schema of the values; its fields are columns.",
            show_default=False,
        ),
    ] = None,
    confluent: Annotated[
        bool, typer.Option("--confluent", help="Avro values begin with the five bytes of Confluent's serializers.")
    ] = False,
    output_format: OutputFormat = Format.JSONL,
    output: Output = None,
    sql: Annotated[
        SqlEngine | None,
        typer.Option("--sql", help="Print the query in this engine's SQL instead of the rows.", show_default=False),
    ] = None,
    create_view: Annotated[
        bool,
        typer.Option(
            "--create-view", help="Write the query as a view into the Iceberg catalog, for Spark and Trino, instead."
        ),
    ] = False,
    update_table: Annotated[
        bool,
        typer.Option("--update-table", hidden=True, help="The same as winnow latest-table update TOPIC."),
    ] = False,
    drop_table: Annotated[
        bool, typer.Option("--drop-table", hidden=True, help="The same as winnow latest-table drop TOPIC.")
    ] = False,
    engine: Engine = None,
) -> None:
    """Print the latest value of each key: a table of the topic.

    The winner of a key is chosen by the topic's compaction.strategy over everything that readers see, compacted or not;
    a key whose winner is a tombstone has no row. Rows are in offset order per partition. Values that do not fit the
    type of a column give null there, and are counted on standard error.

    Example: winnow latest customers --text

    Example: winnow latest orders --column total:double=$.total --column city:string=$.address.city

    Example: winnow latest orders --sql trino
    """
    _check_options(
        output_format,
        output,
        text=text,
        typed=bool(column) or avro_schema is not None,
        both=bool(column) and avro_schema is not None,
        confluent=confluent and avro_schema is None,
    )
    typed = None if key is None else parse_key(key)
    wanted_key = None if typed is None else typed.key
    narrowed = any(option is not None for option in (partition, wanted_key, limit, output, engine))
    if update_table or drop_table:
        others = narrowed or bool(column) or avro_schema is not None or text or sql is not None or create_view
        if others or (update_table and drop_table):
            raise UsageError("--update-table and --drop-table take no other option, and not each other.")
        _update_or_drop(topic, drops=drop_table)
        return
    if sql is not None or create_view:
        if narrowed or avro_schema is not None or (sql is not None and create_view):
            raise UsageError("--sql and --create-view take no option but --column and --text, and not each other.")
        _write_query(topic, sql, column or (), text=text)
        return
    narrowing = describe_narrowing(wanted_key, limit)
    if column or avro_schema is not None:
        narrowing = "--column" if column else "--avro-schema"
    folder = choose_folder(output, engine, parquet=output_format is Format.PARQUET, narrowing=narrowing)
    standard_output = sys.stdout
    with open_for_command(to_read=True) as installation:
        from winnow.pipeline.latest.records import make_state_schema, plan_latest, read_latest_batches, select_state

        if folder is not None:
            from winnow.pipeline.topics.topic_view import load_topic_view

            view = load_topic_view(installation, topic)
            plan = plan_latest(view, partition, make_state_schema(None).names)
            write_to_folder(installation, view.log, plan, folder, engine, "key")
            return

        values = _make_reader(column or (), avro_schema, confluent=confluent)
        found = hint_if_none(
            read_latest_batches(installation, topic, partition=partition, key=wanted_key, limit=limit), typed
        )
        rows = select_state(found, values)
        if output is None:
            write_to_output(rows, standard_output, as_text=text)
        else:
            written = write_to_file(rows, output, output_format, as_text=text, schema=make_state_schema(values))
            print_message(f"Wrote {format_count(written, 'key')} to {output}")
    for name, misfits in values.misfits.items() if values is not None else ():
        print_message(f"{format_count(misfits, 'value')} did not fit column {name}: null there.")


def _update_or_drop(topic: str, *, drops: bool) -> None:
    (drop_table if drops else update_table)(topic)


def update_table(
    topic: Topic,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="local|spark",
            help="Make rows in this process or on Spark. Default: by size (latest.spark_from_bytes).",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Bring the table of the topic's latest state, winnow_latest.TOPIC, up to date now.

    The topic keeps one if its winnow.latest.table is true; each publish of a compaction brings it up to date, too.

    Example: winnow latest-table update orders
    """
    check_choice("--engine", engine, ("local", "spark"))
    with open_for_command() as installation:
        from winnow.pipeline.latest.table import update_latest_table
        from winnow.pipeline.topics.leases import hold_lease

        with hold_lease(installation, topic):
            done = update_latest_table(installation, topic, engine)
    if done.reflects is None:
        print_lines(f"Topic {topic} has no records yet; {done.table} is made when it has.")
        return
    shown = f"{done.table} reflects snapshot {done.reflects} of topic {topic}: {format_count(done.rows, 'row')}"
    if not done.changed:
        print_lines(f"{shown}. It was up to date.")
    elif done.rebuilt is not None:
        print_lines(f"{shown}. It was written as a whole: {done.rebuilt}.")
    else:
        print_lines(
            f"{shown}; {done.rows_inserted:,} inserted, {done.rows_updated:,} updated, {done.rows_deleted:,} deleted, "
            f"{format_count(done.files_replaced, 'file')} replaced by {done.files_written:,}."
        )
    if done.columns_added and done.rebuilt is None:
        print_lines(f"New columns: {', '.join(done.columns_added)}.")
    if done.rows_not_decoded:
        print_lines(
            f"{format_count(done.rows_not_decoded, 'row')} of what was written could not be decoded: their __error "
            "says why, and __raw has the bytes."
        )


def drop_table(topic: Topic) -> None:
    """Drop the table of the topic's latest state and delete its files. The log stays as it is.

    Example: winnow latest-table drop orders
    """
    with open_for_command() as installation:
        from winnow.pipeline.latest.table_files import drop_latest_table
        from winnow.pipeline.topics.leases import hold_lease

        with hold_lease(installation, topic):
            deleted = drop_latest_table(installation, topic)
        name = installation.log.latest_table(topic).name
    if deleted is None:
        print_lines(f"There is no table {name}.")
    else:
        print_lines(f"Dropped {name}; {format_count(deleted, 'file')} deleted.")


def _check_options(
    output_format: Format, output: Path | None, *, text: bool, typed: bool, both: bool, confluent: bool
) -> None:
    if both:
        raise UsageError(
            "--column and --avro-schema both say which columns there are.",
            next="Leave one out.",
        )
    if confluent:
        raise UsageError("--confluent goes with --avro-schema: it is about values in Avro.")
    if text and output_format is Format.PARQUET and not typed:
        raise UsageError("--text goes with JSON lines: a Parquet file holds the bytes as they are.")
    check_output(output_format, output)


def _make_reader(columns: list[str] | tuple[()], avro_schema: Path | None, *, confluent: bool) -> ValueReader | None:
    from winnow.pipeline.latest.value_columns import AvroValues, JsonValues, parse_columns

    if avro_schema is not None:
        return AvroValues(avro_schema, confluent=confluent)
    return JsonValues(parse_columns(columns)) if columns else None


def _write_query(topic: str, engine: SqlEngine | None, columns: list[str] | tuple[()], *, text: bool) -> None:
    from winnow.pipeline.latest.sql import build_latest_sql
    from winnow.pipeline.latest.value_columns import parse_columns

    parsed = parse_columns(columns)
    with open_for_command(to_read=engine is not None) as installation:
        from winnow.pipeline.latest.records import build_query, choose_table
        from winnow.pipeline.latest.view import replace_view
        from winnow.pipeline.topics.topic_view import load_topic_view

        view = load_topic_view(installation, topic)
        if engine is None:
            name = replace_view(installation, view, parsed, as_text=text)
            written = (
                f"The view {name} shows the latest state of {topic}. After a change of its strategy or its "
                "columns, create it anew."
            )
        else:
            query = build_query(view, choose_table(engine, installation.log.namespaces.topics, topic), parsed)
            head = f"-- The latest value of each key of {topic}, by {query.order.words}."
            settings = f"-- How to reach the table: winnow connect {topic} --for {engine.value}"
            written = f"{head}\n{settings}\n{build_latest_sql(engine, query, as_text=text)};"
            if query.log_starts:
                print_message(
                    "Records below the log start are left out by their offsets. When topics delete-records or "
                    "retention raise it, write the query anew."
                )
    print_lines(written)
