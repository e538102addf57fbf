"""The layout of records that people export from a browser: JSON arrays of kafka-ui and AKHQ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from winnow.errors import BadInputError
from winnow.sources.field_map import FieldMap
from winnow.sources.formats.compression import read_start
from winnow.sources.formats.content_names import list_members
from winnow.sources.input_errors import make_file_error
from winnow.sources.layout import Arrangement, Description, Layout, list_files
from winnow.sources.layouts.mapped import read_mapped
from winnow.sources.objects import MAYBE_BASE64, ArchiveObject, ReadOptions, RecordChunk, StoredObject

NAME: Final = "ui-export"
_START_BYTES: Final = 1 << 20
_ARRAY: Final = b"["

_KAFKA_UI: Final = FieldMap(
    {name: name.capitalize() for name in ("key", "value", "partition", "offset", "timestamp", "headers")}
)
_KAFKA_UI_ALWAYS: Final = frozenset({"Offset", "Partition", "Timestamp"})
"""It leaves out what is null; that such a record lacks a member is said when it is read."""
_AKHQ: Final = FieldMap(
    {name: name for name in ("key", "value", "partition", "offset", "timestamp", "headers")}, {"timestamp": "s"}
)
"""Its timestamps are seconds with a fraction."""
_AKHQ_ALONE: Final = frozenset({"keySchemaId", "valueSchemaId"})


def _find_fields(obj: StoredObject) -> FieldMap | None:
    """Return which members are which fields, by the first record of ``obj``; None if neither of the two wrote it."""
    start = read_start(obj, _START_BYTES)
    if not start.lstrip().startswith(_ARRAY):
        return None
    names = set(list_members(start))
    if _KAFKA_UI_ALWAYS <= names <= set(_KAFKA_UI.columns.values()):
        return _KAFKA_UI
    return _AKHQ if names == set(_AKHQ.columns) | _AKHQ_ALONE else None


def recognise_ui_export(obj: StoredObject) -> bool:
    """Check whether ``obj`` is an array whose first record has exactly the members that one of the two writes."""
    return _find_fields(obj) is not None


def arrange_ui_export(stored: Sequence[StoredObject]) -> Arrangement:
    """Make an archive object of each file; records tell partition and offset, nothing the topic."""
    return Arrangement(list_files(NAME, stored, MAYBE_BASE64))


def read_ui_export(archive: ArchiveObject, options: ReadOptions) -> Iterator[RecordChunk]:
    """Yield the records of ``archive``; ``row`` is the place in the array.

    Raises:
        BadInputError: it is of neither of the two, damaged or cut off, or a record lacks a member.
        ServiceError: an object store cannot be reached.
    """
    obj = archive.parts["value"]
    fields = _find_fields(obj)
    if fields is None:
        raise _make_export_error(obj)
    yield from read_mapped(archive, fields, options)


def _make_export_error(obj: StoredObject) -> BadInputError:
    wrong = "its first record has not the members that kafka-ui and AKHQ write"
    return make_file_error(obj.uri, wrong, "say with --map which member is which field")


UI_EXPORT: Final = Layout(
    NAME,
    Description(
        title="An export of kafka-ui or AKHQ",
        recognised_by="a JSON array of records with exactly `Key`, `Value`, `Partition`, `Offset`, `Headers`, "
        "`Timestamp` (kafka-ui, *Export JSON*), or `key`, `value`, `partition`, `offset`, `headers`, `timestamp`, "
        "`keySchemaId`, `valueSchemaId` (AKHQ, *Download query result*).",
        loses=(
            "records that the page or its filter did not show",
            "bytes that are not UTF-8; what a deserializer made text of is that text",
            "AKHQ: the end of values above its `kafka-max-message-length`; null header values are the text `null`",
        ),
        settings=(),
        settings_note="kafka-ui leaves out keys and values that are null, and a record without one is refused. If they "
        "are null, say so: `jq '[.[] | {Key, Value, Partition, Offset, Headers, Timestamp}]'`. Its *Export CSV* "
        "escapes neither commas nor line breaks and is refused. For more than a few records: `winnow ingest kafka`.",
    ),
    recognise_ui_export,
    arrange_ui_export,
    read_ui_export,
)
