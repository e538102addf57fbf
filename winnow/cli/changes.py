"""``winnow changes``: the keys whose latest value changed between two snapshots or two offsets."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from winnow.cli.folder_output import Engine, choose_folder, write_to_folder
from winnow.cli.options import Topic, open_for_command
from winnow.cli.output import print_message
from winnow.cli.read import (
    Decoded,
    Format,
    Output,
    OutputFormat,
    Text,
    check_decoded,
    check_output,
    decode_batches,
    write_to_file,
    write_to_output,
)
from winnow.errors import UsageError
from winnow.values.counts import format_count

if TYPE_CHECKING:
    import pyarrow as pa

    from winnow.pipeline.explain.changes import OffsetBounds


def changes(
    topic: Topic,
    *,
    from_snapshot: Annotated[
        int | None,
        typer.Option(
            "--from-snapshot", metavar="ID", help="The state before: that of this snapshot.", show_default=False
        ),
    ] = None,
    to_snapshot: Annotated[
        int | None,
        typer.Option(
            "--to-snapshot",
            metavar="ID",
            help="The state after: that of this snapshot; default: the newest.",
            show_default=False,
        ),
    ] = None,
    from_offset: Annotated[
        list[str] | None,
        typer.Option(
            "--from-offset",
            metavar="[P:]O",
            help="The state before: that of the records below this offset, in every partition or, with P:, in one; may "
            "be repeated then.",
            show_default=False,
        ),
    ] = None,
    to_offset: Annotated[
        list[str] | None,
        typer.Option(
            "--to-offset",
            metavar="[P:]O",
            help="The state after: that of the records below this offset; default: the log end.",
            show_default=False,
        ),
    ] = None,
    text: Text = False,
    decoded: Decoded = False,
    output_format: OutputFormat = Format.JSONL,
    output: Output = None,
    engine: Engine = None,
) -> None:
    """Print the keys whose latest value was inserted, updated or deleted between two states of the topic.

    Between two snapshots: those that readers could see. Between two offsets: what the records between them did; where a
    compaction has removed records, the state at an offset is not known any more, and that is refused. A compaction
    alone changes no key. Snapshots are listed by winnow receipts and by every Iceberg reader.

    Example: winnow changes orders --from-snapshot 5370059853841561190 --text

    Example: winnow changes orders --from-offset 0:1500 --from-offset 1:1480
    """
    by_snapshot = from_snapshot is not None or to_snapshot is not None
    by_offset = bool(from_offset) or bool(to_offset)
    if by_snapshot == by_offset or (by_snapshot and from_snapshot is None):
        raise UsageError(
            "Say between which states: --from-snapshot ID (and --to-snapshot ID), or --from-offset and --to-offset."
        )
    if text and output_format is Format.PARQUET:
        raise UsageError("--text goes with JSON lines: a Parquet file holds the bytes as they are.")
    check_decoded(output_format, decoded=decoded)
    check_output(output_format, output)
    folder = choose_folder(output, engine, parquet=output_format is Format.PARQUET)
    standard_output = sys.stdout
    with open_for_command(to_read=True) as installation:
        from winnow.engine.key_changes import CHANGE_SCHEMA
        from winnow.pipeline.explain.changes import (
            find_offset_extents,
            find_snapshot_extents,
            plan_changes,
            read_changes,
        )
        from winnow.pipeline.topics.topic_view import load_topic_view

        view = load_topic_view(installation, topic)
        extents = (
            find_snapshot_extents(view, from_snapshot, to_snapshot)
            if from_snapshot is not None
            else find_offset_extents(
                installation,
                view,
                _parse_bounds("--from-offset", from_offset),
                _parse_bounds("--to-offset", to_offset),
            )
        )
        if folder is not None:
            write_to_folder(installation, view.log, plan_changes(view, extents), folder, engine, "change")
            return
        # A header may name the schema that a key or a value is decoded with.
        found = read_changes(installation, view, extents, with_headers=decoded)
        if decoded:
            found = (_drop_headers(batch) for batch in decode_batches(installation, topic, found))
        if output is None:
            write_to_output(found, standard_output, as_text=text)
            return
        written = write_to_file(found, output, output_format, as_text=text, schema=CHANGE_SCHEMA)
    print_message(f"Wrote {format_count(written, 'change')} to {output}")


def _drop_headers(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select([name for name in batch.schema.names if name != "headers"])


def _parse_bounds(option: str, texts: list[str] | None) -> OffsetBounds:
    from winnow.pipeline.explain.changes import OffsetBounds

    if not texts:
        return OffsetBounds()
    if len(texts) == 1 and texts[0].isascii() and texts[0].isdecimal():
        return OffsetBounds(int(texts[0]))
    found: dict[int, int] = {}
    for text in texts:
        partition, colon, offset = text.partition(":")
        if not colon or not all(each.isascii() and each.isdecimal() for each in (partition, offset)):
            raise UsageError(f"{option} takes one O, or P:O for each partition, not {text!r}.")
        if int(partition) in found:
            raise UsageError(f"{option} names partition {partition} twice.")
        found[int(partition)] = int(offset)
    return OffsetBounds(by_partition=found)
