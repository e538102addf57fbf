"""What ``kafka-console-consumer`` prints with partition and offset: a line for each record, nothing escaped.

A tab in a key or a value, and a line break, show where a line has other fields than the first one or does not begin as
records do: then nothing is taken. Not every such case shows, so a person has to say that there is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from winnow.errors import BadInputError
from winnow.sources.envelope import make_chunk
from winnow.sources.formats.compression import START_BYTES, open_decompressed, read_start
from winnow.sources.formats.lines import LineGroup, read_line_groups
from winnow.sources.input_errors import DAMAGED_ADVICE, Place, make_file_error
from winnow.sources.layout import Arrangement, Description, Layout, list_files
from winnow.sources.objects import BYTES, ArchiveObject, ReadOptions, RecordChunk, StoredObject

NULL: Final = b"null"
PRINT_AGAIN: Final = "print it with kcat -J (docs/archives.md#kcat), or read the topic with winnow ingest kafka"
_LINE: Final = re.compile(
    rb"(?:(?P<type>CreateTime|LogAppendTime):(?P<time>-?\d{1,19})\t|NO_TIMESTAMP\t)?"
    rb"Partition:(?P<partition>\d{1,10})\tOffset:(?P<offset>\d{1,19})\t(?P<fields>.*)",
    re.DOTALL,
)
_TIMESTAMP_TYPES: Final = {b"CreateTime": 0, b"LogAppendTime": 1, None: -1}
_NO_HEADERS: Final = b"NO_HEADERS"
_KEY_AND_VALUE: Final = 2


def is_console_line(line: bytes) -> bool:
    """Check whether ``line`` is what the console consumer prints of a record with its partition and its offset."""
    return _LINE.fullmatch(line) is not None


def read_console(archive: ArchiveObject, options: ReadOptions) -> Iterator[RecordChunk]:
    """Yield the records of ``archive``; ``row`` is the line.

    Raises:
        BadInputError: a line is no record, has other fields than the first one, or has what may be null or text.
        ServiceError: an object store cannot be reached.
    """
    obj = archive.parts["value"]
    reader = _Reader(options)
    with open_decompressed(obj) as stream:
        for group in read_line_groups(obj.uri, stream, options.batch_bytes):
            lines = list(group.lines)
            if group.is_last and lines.pop():
                raise make_file_error(obj.uri, "its last line has no end: it is cut off", DAMAGED_ADVICE)
            if lines:
                yield reader.read(Place(obj.uri, "line", LineGroup(group.first, lines, group.is_last).number()), lines)


class _Reader:
    """Reads the lines of one object, each like the first."""

    def __init__(self, options: ReadOptions) -> None:
        self._refuses_null = options.refuses_null_text
        self._fields: int | None = None
        self._ends: dict[int, int] = {}

    def read(self, place: Place, lines: Sequence[bytes]) -> RecordChunk:
        columns: dict[str, list[Any]] = {
            name: [] for name in ("key", "value", "partition", "offset", "timestamp", "timestamp_type")
        }
        for index, line in enumerate(lines):
            found = _LINE.fullmatch(line)
            if found is None:
                raise self._make_line_error(place, index)
            key, value = self._split(place, index, found["fields"])
            partition, offset = int(found["partition"]), int(found["offset"])
            if offset <= self._ends.get(partition, -1):
                wrong = (
                    f"its offset {offset} is not above that of a line before it, so this line may be part of a value"
                )
                raise place.make_error(index, wrong, PRINT_AGAIN)
            self._ends[partition] = offset
            made = (key, value, partition, offset)
            time = None if found["time"] is None else int(found["time"])
            for name, each in zip(columns, (*made, time, _TIMESTAMP_TYPES[found["type"]]), strict=True):
                columns[name].append(each)
        kinds = {"key": pa.binary(), "value": pa.binary()}
        return make_chunk(
            place, **{name: pa.array(column, kinds.get(name, pa.int64())) for name, column in columns.items()}
        )

    def _make_line_error(self, place: Place, index: int) -> BadInputError:
        if self._fields is None:
            wrong = "this line has no partition and no offset in front"
            return place.make_error(index, wrong, "print them (docs/archives.md#console), better with kcat -J")
        wrong = "this line is no record, so there is a line break in the value before it, or something else"
        return place.make_error(index, wrong, PRINT_AGAIN)

    def _split(self, place: Place, index: int, text: bytes) -> tuple[bytes | None, bytes]:
        """Return key and value; without keys the value alone."""
        fields = text.split(b"\t")
        if self._fields is None:
            self._fields = len(fields)
        if len(fields) != self._fields or len(fields) > _KEY_AND_VALUE or fields[0] == _NO_HEADERS:
            wrong = (
                "behind its offset there is something else than a key and a value, or than a value in each line: "
                "headers, or a tab inside of one"
            )
            raise place.make_error(index, wrong, PRINT_AGAIN)
        key, value = fields[0] if len(fields) == _KEY_AND_VALUE else None, fields[-1]
        if key == NULL:
            raise place.make_error(index, "its key is printed as null: none, or this text", PRINT_AGAIN)
        if value == NULL and self._refuses_null:
            wrong = "its value is printed as null: a tombstone, or this text"
            raise place.make_error(
                index, wrong, f"--deletes null-text takes all of them as tombstones; or {PRINT_AGAIN}"
            )
        return key, value


NAME: Final = "console"


def suggest_console(obj: StoredObject) -> bool:
    """Check whether the first line of ``obj`` is what the console consumer prints of a record."""
    return is_console_line(read_start(obj, START_BYTES).split(b"\n", 1)[0])


def arrange_console(stored: Sequence[StoredObject]) -> Arrangement:
    """Make an archive object of each file; lines tell partition and offset, nothing the topic."""
    return Arrangement(list_files(NAME, stored, BYTES))


CONSOLE: Final = Layout(
    NAME,
    Description(
        title="kafka-console-consumer",
        recognised_by="nothing for certain: `--layout console` says that key and value alone, or the value alone, are "
        "printed behind partition and offset, and that none of them has a tab or a line break, of which not all would "
        "show. Where they show, the call is refused. A key printed as `null` is refused, a value printed so needs "
        "`--deletes null-text`.",
        loses=("headers", "a key or a value that is the text `null`", "nothing else: bytes are printed as they are"),
        settings=(
            "kafka-console-consumer --bootstrap-server BROKER --topic TOPIC --from-beginning \\",
            "  --formatter-property print.partition=true --formatter-property print.offset=true \\",
            "  --formatter-property print.timestamp=true --formatter-property print.key=true > orders.txt",
        ),
        settings_note="Before Kafka 4 the option is `--property`. What the one of Kafka 4.3.1 printed of a topic was "
        "compared with the topic (2026-11-25). `kcat -J` loses nothing; prefer it.",
    ),
    None,
    arrange_console,
    read_console,
    null_text=NULL,
    suggest=suggest_console,
    suggestion="that key and value alone are printed behind its offsets, none of them with a tab or a line break",
)
