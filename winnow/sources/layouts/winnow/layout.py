"""The layout of Winnow's own input: JSON lines and Parquet with the columns of Spark's Kafka source."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from winnow.errors import BadInputError
from winnow.sources.formats.compression import START_BYTES, read_start
from winnow.sources.formats.content_names import list_members, tells_position
from winnow.sources.formats.lines import find_first_line
from winnow.sources.formats.parquet import read_parquet_schema
from winnow.sources.layout import Arrangement, Description, Layout
from winnow.sources.layouts.spark import parse_path
from winnow.sources.layouts.winnow.files import KNOWN, PARQUET, read_file
from winnow.sources.objects import BYTES, ArchiveObject, ReadOptions, RecordChunk, StoredObject
from winnow.sources.topic_filter import TopicFilter

NAME = "winnow"
_FIELDS = frozenset({"topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers"})
_SPARK_FILE = re.compile(r"part-\d{5}-[0-9a-f]{8}-[0-9a-f-]{27}")
"""Spark's own names; such a file is of layout spark."""


class _AnyTopic(TopicFilter):
    """Selects every record, whatever topic it names."""

    def select_lines(self, *_: Any) -> None:
        return None

    def select_rows(self, *_: Any) -> None:
        return None


def recognise_winnow(obj: StoredObject) -> bool:
    """Check whether the first record of ``obj`` is for certain of this layout: it names its partition, as bytes."""
    if obj.uri.endswith(PARQUET):
        if _SPARK_FILE.match(obj.name) or parse_path(obj.uri).topic is not None:
            return False
        columns = read_parquet_schema(obj).columns
        if not {"key", "value", "partition", "offset"} <= set(columns.names):
            return False
        return all(pa.types.is_binary(columns.field(name).type) for name in ("key", "value"))
    if not obj.uri.endswith(KNOWN):
        return False
    line = find_first_line(read_start(obj, START_BYTES))
    try:
        record = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    if not isinstance(record, dict) or isinstance(record.get("timestamp"), str):
        return False
    if not {"partition", "timestampType"}.isdisjoint(record) and "value" in record:
        return True  # a field that is not known is refused when it is read
    return set(record) <= _FIELDS and isinstance(record.get("timestamp"), int)


def may_be_winnow(obj: StoredObject) -> bool:
    """Check whether ``obj`` has an extension of this layout, and nothing in it shows that it is something else.

    What is damaged is said when it is read, and so is a field with a wrong name beside fields of this layout.
    """
    if not obj.uri.endswith(KNOWN):
        return False
    try:
        if obj.uri.endswith(PARQUET):
            columns = read_parquet_schema(obj).columns
            names = list(columns.names)
            if any(pa.types.is_decimal(columns.field(name).type) for name in {"partition", "offset"} & set(names)):
                return False  # as Snowflake writes integers
        else:
            start = read_start(obj, START_BYTES)
            if start.lstrip().startswith(b"["):
                return False  # an array is not a record a line
            names = list_members(start)
    except BadInputError:
        return True
    others = set(names) - _FIELDS
    return not names or ({"key", "value"} <= set(names) and not any(tells_position(name) for name in others))


def arrange_winnow(stored: Sequence[StoredObject]) -> Arrangement:
    """Make an archive object of each file, in the order given: the offsets are in the records."""
    return Arrangement(tuple(ArchiveObject(NAME, obj.uri, {"value": obj}, forms=BYTES) for obj in stored))


def read_winnow(archive: ArchiveObject, options: ReadOptions) -> Iterator[RecordChunk]:
    """Yield the records of ``archive``; one without a partition is in partition 0 here."""
    batches = read_file(
        archive.uri, topic="", partitions=None, batch_bytes=options.batch_bytes, records_of=_AnyTopic("")
    )
    for batch in batches:
        yield RecordChunk(batch)


WINNOW = Layout(
    NAME,
    Description(
        title="Winnow's own",
        recognised_by="`.jsonl`, `.jsonl.gz`, `.json` with base64 fields, and `.parquet` with the columns of Spark's "
        "Kafka source, as `winnow read` writes them.",
        loses=("nothing",),
        settings=(),
    ),
    recognise_winnow,
    arrange_winnow,
    read_winnow,
    assume=may_be_winnow,
    keeps_order=True,
)
