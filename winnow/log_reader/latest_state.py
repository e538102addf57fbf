"""Questions about the latest state: rows of the topic's typed table, page by page, or the row of a key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from winnow.errors import UsageError
from winnow.log_reader.documents import Document
from winnow.log_reader.key_text import read_key
from winnow.log_reader.masking import Masks
from winnow.log_reader.question import Answer, Parameters
from winnow.log_reader.shown_records import ShownRecords
from winnow.pipeline.explain.why import explain_key
from winnow.pipeline.installation import Installation
from winnow.pipeline.latest.table_rows import LatestRows, open_latest_rows
from winnow.schemas.json_rows import write_json_rows
from winnow.values.counts import format_count
from winnow.values.typed_columns import ALIASES, SystemColumn

MAXIMUM_ROWS: Final = 200
MAXIMUM_ROW_BYTES: Final = 16 << 10
MAXIMUM_ANSWER_BYTES: Final = 4 << 20
"""Of rows as JSON together."""


def list_rows(installation: Installation, topic: str, parameters: Parameters) -> Answer:
    """List rows of a partition. Parameters: ``partition``, ``start`` (number of the first row), ``limit``.

    ``problem``: why the topic has no rows to show; then there are none.
    """
    rows = open_latest_rows(installation, topic)
    if isinstance(rows, str):
        return Answer(_describe_problem(topic, rows), f"{topic}: no row of the latest state")
    partition, start = parameters.number("partition"), parameters.number("start")
    partitions = installation.log.open(topic).partitions(installation.log.open(topic).head())
    if partition >= partitions:
        raise UsageError(f"Topic {topic} has partitions 0 to {partitions - 1}; there is no partition {partition}.")
    limit = max(1, min(parameters.number("limit"), MAXIMUM_ROWS))
    documents, is_cut = _collect(installation, rows, rows.read(partition, start), limit)
    document = {
        **_describe_table(rows),
        "partition": partition,
        "partitions": partitions,
        "start": start,
        "total": rows.count(partition),
        "rows": documents,
        "is_cut": is_cut,
    }
    return Answer(
        document, f"{topic}-{partition}: {format_count(len(documents), 'row')} of the latest state from row {start}"
    )


def show_row(installation: Installation, topic: str, parameters: Parameters) -> Answer:
    """Show the row of a key. Parameters: ``key``, ``encoding``.

    It is found by the offsets of the key's records in the log: the table has no keys where they are hidden.
    """
    keys = read_key(parameters)
    rows = open_latest_rows(installation, topic)
    if isinstance(rows, str):
        return Answer(_describe_problem(topic, rows), f"{topic}: no row of the latest state")
    documents: list[Document] = []
    for key in keys:
        why = explain_key(installation, topic, key, partition=None, everywhere=False, as_of_ms=installation.now_ms())
        offsets = {record.offset for record in (*why.records, why.winner, why.next_winner) if record is not None}
        batch = None if why.partition is None or not offsets else rows.find(why.partition, offsets)
        if batch is not None:
            documents, _ = _collect(installation, rows, [batch], 1)
            break
    seen = f"{topic}: row of a key in the latest state, none found"
    if documents:
        (row,) = documents
        seen = f"{topic}-{row['partition']}: row of a key in the latest state, offset {row['offset']}"
    return Answer({**_describe_table(rows), "rows": documents}, seen)


def _describe_problem(topic: str, problem: str) -> Document:
    return {"topic": topic, "problem": problem, "rows": []}


def _describe_table(rows: LatestRows) -> Document:
    return {"topic": rows.topic, "problem": None, "reflected_ms": rows.reflected_ms}


def _collect(
    installation: Installation, rows: LatestRows, batches: Iterable[pa.RecordBatch], limit: int
) -> tuple[list[Document], bool]:
    """Describe up to ``limit`` rows; also return whether there are fewer because they are large."""
    page = installation.settings.page
    masked = [*page.masked_fields, *_list_masked_columns(rows.columns, page.masked_fields)]
    masks = Masks.parse(page.masked_patterns, masked)
    shown = ShownRecords(masks, (), MAXIMUM_ROW_BYTES, MAXIMUM_ANSWER_BYTES)
    documents: list[Document] = []
    size_bytes = 0
    for batch in batches:
        for row in _describe_rows(batch, shown):
            if len(documents) == limit or size_bytes >= MAXIMUM_ANSWER_BYTES:
                return documents, len(documents) < limit
            size_bytes += len(row["row"]["base64"])
            documents.append(row)
    return documents, False


def _list_masked_columns(fields: Iterable[pa.Field], masked: Iterable[str]) -> Iterator[str]:
    """List the columns, at any level, that hold a field which the page masks, under another name.

    A column is ``card__string`` where the topic has another ``card``, and has its newest name where it was renamed.
    """
    wanted = {name.casefold().lstrip("_") for name in masked}
    for field in fields:
        words = field.name.split("__")
        names = ["__".join(words[:count]) for count in range(1, len(words))]
        names += (field.metadata or {}).get(ALIASES, b"").decode().split(",")
        if not wanted.isdisjoint(name.casefold().lstrip("_") for name in names if name):
            yield field.name
        yield from _list_masked_columns(_list_inner_fields(field.type), masked)


def _list_inner_fields(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_struct(kind) or pa.types.is_list(kind) or pa.types.is_map(kind):
        return [kind.field(number) for number in range(kind.num_fields)]
    return []


def _describe_rows(batch: pa.RecordBatch, shown: ShownRecords) -> Iterator[Document]:
    system = set(SystemColumn)
    columns = [name for name in batch.schema.names if name not in system]
    fields = [batch.schema.field(name) for name in columns]
    values = pa.StructArray.from_arrays([batch.column(name) for name in columns], fields=fields)
    texts = write_json_rows(values, columns, shown.masks.apply) if columns else [b"{}"] * batch.num_rows
    places = (SystemColumn.PARTITION, SystemColumn.OFFSET, SystemColumn.ERROR)
    partitions, offsets, errors = (batch.column(column).to_pylist() for column in places)
    times = batch.column(SystemColumn.TIMESTAMP).cast(pa.int64()).to_pylist()
    for partition, offset, error, time, text in zip(partitions, offsets, errors, times, texts, strict=True):
        yield {
            "partition": partition,
            "offset": str(offset),
            "timestamp_ms": None if time is None else time // 1000,
            "row": shown.describe_text(text),
            "error": error,
        }
