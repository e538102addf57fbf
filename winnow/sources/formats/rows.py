"""Rows of Parquet, ORC, Avro, JSON lines and CSV, whatever program wrote them, with columns found by name.

Each kind of rows gives a column as bytes, integers, timestamps, headers or text, and the row as JSON text by the rule
of :mod:`winnow.sources.formats.json_text`. A column that a row lacks is an error: it must not become a null.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from typing import Any, BinaryIO, Final, Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, orc

from winnow.errors import BadInputError
from winnow.sources.formats.avro import MAGIC as AVRO_MAGIC
from winnow.sources.formats.avro import open_avro
from winnow.sources.formats.batches import number_batches, slice_by_size
from winnow.sources.formats.column_values import (
    list_values,
    make_byte_column,
    make_header_rows,
    make_headers_of_column,
    render_column,
)
from winnow.sources.formats.compression import START_BYTES, open_decompressed, open_seekable, read_start
from winnow.sources.formats.content_names import ORC_MAGIC
from winnow.sources.formats.json_records import UNREADABLE, JsonRecords
from winnow.sources.formats.lines import read_lines
from winnow.sources.formats.parquet import MAGIC as PARQUET_MAGIC
from winnow.sources.formats.parquet import read_parquet_batches
from winnow.sources.formats.timestamps import make_finer_timestamp_error, read_timestamp_texts, to_milliseconds
from winnow.sources.input_errors import DAMAGED_ADVICE, Place, make_file_error
from winnow.sources.objects import ReadOptions, StoredObject

_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_NUMBER: Final = re.compile(r"-?\d{1,19}(?:\.\d{1,19})?")
_PER_UNIT: Final = {"s": Decimal(1_000), "ms": Decimal(1), "us": Decimal("0.001")}
_MAP_ADVICE: Final = "name another with --map"
_MAXIMUM_ARRAY_BYTES: Final = 1 << 28


class Rows(Protocol):
    """Neighbouring rows of a file. Columns are named as ``--map`` names them: members of structures with dots.

    Raises, each of them: BadInputError, if a row has no such column, or what is in it is not as it has to be.
    """

    @property
    def names(self) -> Sequence[str]:
        """The columns that these rows have, all of them."""

    def __len__(self) -> int: ...

    def make_bytes(self, place: Place, column: str) -> tuple[Any, bool]:
        """Return a column as bytes, and whether a value was neither bytes nor text and became JSON text."""

    def make_headers(self, place: Place, column: str) -> tuple[Any, bool]:
        """Return a column of headers, and whether a value of one became JSON text."""

    def list_column(self, place: Place, column: str) -> Any:
        """Return a column as Arrow has it: of integers, timestamps, text."""

    def render(self, place: Place, without: Collection[str]) -> Any:
        """Return each row as JSON text, without the columns ``without``."""


def split_path(names: Collection[str], column: str) -> tuple[str, ...]:
    """Return the members that ``column`` names: one of ``names``, else with dots between; the first may be missing."""
    return (column,) if column in names else tuple(column.split("."))


@dataclass(frozen=True)
class ArrowRows:
    """Rows of Parquet, ORC or CSV."""

    batch: pa.RecordBatch

    @property
    def names(self) -> Sequence[str]:
        """The columns."""
        return list(self.batch.schema.names)

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def make_bytes(self, place: Place, column: str) -> tuple[Any, bool]:
        """Return bytes as they are, text in UTF-8, all else as JSON text."""
        return make_byte_column(place, self.list_column(place, column))

    def make_headers(self, place: Place, column: str) -> tuple[Any, bool]:
        """Return headers of a map, a list of key and value, or a structure."""
        return make_headers_of_column(place, self.list_column(place, column))

    def list_column(self, place: Place, column: str) -> Any:
        """Return the column, or the member of a structure."""
        first, *members = split_path(self.names, column)
        if first not in self.names:
            raise _make_missing_error(place, 0, column)
        found = self.batch.column(first)
        for member in members:
            if not (pa.types.is_struct(found.type) and member in {each.name for each in found.type}):
                raise _make_missing_error(place, 0, column)
            found = pc.struct_field(found, member)
        return found

    def render(self, place: Place, without: Collection[str]) -> Any:
        """Return rows as JSON text."""
        kept = [name for name in self.names if name not in without]
        rows = pa.StructArray.from_arrays([self.batch.column(name) for name in kept], kept)
        return render_column(place, list_values(place, rows))


@dataclass(frozen=True)
class DecodedRows:
    """Rows of Avro, as fastavro decodes them."""

    rows: Sequence[dict[str, Any]]

    @property
    def names(self) -> Sequence[str]:
        """The fields."""
        return list(self.rows[0]) if self.rows else []

    def __len__(self) -> int:
        return len(self.rows)

    def make_bytes(self, place: Place, column: str) -> tuple[Any, bool]:
        """Return bytes as they are, text in UTF-8, all else as JSON text."""
        values = self._list(place, column)
        return render_column(place, values), any(not isinstance(value, str | bytes | None) for value in values)

    def make_headers(self, place: Place, column: str) -> tuple[Any, bool]:
        """Return headers of a map, or of a list of records with key and value."""
        return _make_header_rows(place, self._list(place, column))

    def list_column(self, place: Place, column: str) -> Any:
        """Return the values as a column."""
        values = self._list(place, column)
        try:
            return pa.array(values)
        except (pa.ArrowException, OverflowError, ValueError, TypeError):
            raise place.make_error(
                0, f"from here on column {ascii(column)[:80]} is of several types", _MAP_ADVICE
            ) from None

    def render(self, place: Place, without: Collection[str]) -> Any:
        """Return rows as JSON text."""
        return render_column(place, [{n: v for n, v in row.items() if n not in without} for row in self.rows])

    def _list(self, place: Place, column: str) -> list[Any]:
        path = split_path(self.names, column)
        if len(path) == 1 and all(path[0] in row for row in self.rows):
            return [row[path[0]] for row in self.rows]
        values: list[Any] = list(self.rows)
        for depth, member in enumerate(path):
            for index, value in enumerate(values):
                if value is None and depth:
                    continue
                if not isinstance(value, dict) or member not in value:
                    raise _make_missing_error(place, index, column)
                values[index] = value[member]
        return values


class JsonRows:
    """Rows of JSON text, one object each."""

    def __init__(self, place: Place, lines: Sequence[bytes], json: JsonRecords) -> None:
        self._json = json
        self._members: list[dict[str, msgspec.Raw]] = []
        for index, line in enumerate(lines):
            try:
                self._members.append(_decode_members(line))
            except UNREADABLE:
                raise place.make_error(index, "this is not a JSON object", DAMAGED_ADVICE) from None

    @property
    def names(self) -> Sequence[str]:
        """The members of the first row."""
        return list(self._members[0]) if self._members else []

    def __len__(self) -> int:
        return len(self._members)

    def make_bytes(self, place: Place, column: str) -> tuple[Any, bool]:
        """Return strings as their characters, which may be base64; all else as JSON text."""
        raws = self._list(place, column)
        self._json.structured = set()
        made = self._json.render(place, "value", raws)
        return made, any(raw[:1] != b'"' and raw != b"null" for raw in raws)

    def make_headers(self, place: Place, column: str) -> tuple[Any, bool]:
        """Return headers of an object, or of a list of objects with key and value."""
        raws = self._list(place, column)
        return _make_header_rows(place, [_decode_value(place, index, raw) for index, raw in enumerate(raws)])

    def list_column(self, place: Place, column: str) -> Any:
        """Return numbers and strings as a column of one of the two; numbers with a fraction are text."""
        values: list[Any] = []
        for index, raw in enumerate(self._list(place, column)):
            value = _decode_value(place, index, raw)
            if not isinstance(value, int | float | str | None) or isinstance(value, bool):
                wrong = f"its {ascii(column)[:80]} is neither a number nor text"
                raise place.make_error(index, wrong, _MAP_ADVICE)
            # A fraction as it is written: of seconds since 1970 a float has not every microsecond.
            values.append(raw.decode() if isinstance(value, float) else value)
        if any(isinstance(value, str) for value in values):
            values = [None if value is None else str(value) for value in values]
        try:
            return pa.array(values)
        except (pa.ArrowException, OverflowError):
            wrong = f"from here on a number in {ascii(column)[:80]} is too large"
            raise place.make_error(0, wrong, _MAP_ADVICE) from None

    def render(self, place: Place, without: Collection[str]) -> Any:
        """Return rows as JSON text, numbers as they were written."""
        raws = [
            msgspec.json.encode({name: raw for name, raw in row.items() if name not in without})
            for row in self._members
        ]
        return self._json.render(place, "value", raws)

    def _list(self, place: Place, column: str) -> list[bytes]:
        found = []
        for index, row in enumerate(self._members):
            first, *members = split_path(row.keys(), column)
            raw = row.get(first)
            for member in members:
                if raw is not None and bytes(raw) != b"null":
                    raw = self._find_member(bytes(raw), member)
            if raw is None:
                raise _make_missing_error(place, index, column)
            found.append(bytes(raw))
        return found

    @staticmethod
    def _find_member(raw: bytes, member: str) -> msgspec.Raw | None:
        try:
            return _decode_members(raw).get(member)
        except UNREADABLE:
            return None


def _decode_value(place: Place, index: int, raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except UNREADABLE:
        raise place.make_error(index, "a member of it is not UTF-8, or nested too deeply", DAMAGED_ADVICE) from None


def make_integers(place: Place, column: Any) -> Any:
    """Return a column of integers, decimals without a fraction, or text with one each, as integers.

    Raises:
        BadInputError: one is missing, or is none.
    """
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        digits = pc.fill_null(pc.match_substring_regex(column, r"^[0-9]{1,19}$"), True)
        if not pc.all(digits).as_py():
            raise place.make_error(pc.index(digits, False).as_py(), "its offset or partition is no number", _MAP_ADVICE)
        column = column.cast(pa.uint64())
    column = _drop_scale(place, column)
    if column.null_count:
        raise place.make_error(
            pc.index(column.is_null(), True).as_py(), "it has no offset or no partition", _MAP_ADVICE
        )
    return column


def make_timestamps(place: Place, column: Any, unit: str | None, floors: bool) -> Any:
    """Return a column of timestamps, of ISO 8601 text, or of numbers in ``unit`` as milliseconds since 1970.

    Raises:
        BadInputError: its type does not tell the unit, or one is finer than a millisecond (``floors``: rounded down).
    """
    column = _drop_scale(place, column)
    kind = column.type
    if pa.types.is_null(kind):
        return None
    if pa.types.is_timestamp(kind):
        return to_milliseconds(place, column, floors)
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if is_text and unit is None:
        return read_timestamp_texts(place, column.to_pylist(), floors)
    if is_text:
        return _read_numbers(place, column.to_pylist(), unit or "", floors)
    if not pa.types.is_integer(kind):
        raise place.make_error(0, f"its timestamps are of type {str(kind)[:80]}", _MAP_ADVICE)
    if unit is None:
        wrong = "its timestamps are numbers, and of which unit they are is not in the file"
        raise place.make_error(0, wrong, "say it behind the column, with --map timestamp=COLUMN:ms, or :s or :us")
    if unit == "ms":
        return column
    moments = column.cast(pa.int64()).cast(pa.timestamp(unit))
    return to_milliseconds(place, moments, floors)


def _drop_scale(place: Place, column: Any) -> Any:
    """Return a column of decimals without a fraction, which is how Snowflake writes integers, as integers."""
    if not pa.types.is_decimal(column.type) or column.type.scale:
        return column
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        raise place.make_error(0, "from here on a number is too large", _MAP_ADVICE) from None


def _read_numbers(place: Place, texts: Sequence[str | None], unit: str, floors: bool) -> Any:
    """Return numbers in ``unit`` that are text, perhaps with a fraction, as milliseconds."""
    found: list[int | None] = []
    for index, text in enumerate(texts):
        if text is None:
            found.append(None)
            continue
        if _NUMBER.fullmatch(text) is None:
            raise place.make_error(index, "its timestamp is no number", _MAP_ADVICE)
        exact = Decimal(text) * _PER_UNIT[unit]
        whole = exact.to_integral_value(ROUND_FLOOR)
        if whole != exact and not floors:
            raise make_finer_timestamp_error(place, index)
        found.append(int(whole))
    return pa.array(found, pa.int64())


def make_topics(place: Place, column: Any) -> Any:
    """Return a column of topics' names.

    Raises:
        BadInputError: it is no text.
    """
    if pa.types.is_null(column.type):
        return None
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise place.make_error(0, "its topics are no text", _MAP_ADVICE)
    return column.cast(pa.string())


def _make_header_rows(place: Place, values: Sequence[Any]) -> tuple[Any, bool]:
    rows: list[list[tuple[str, Any]]] = []
    for index, value in enumerate(values):
        pairs = list((value or {}).items()) if isinstance(value, dict | None) else _list_pairs(value)
        if pairs is None:
            raise place.make_error(index, "its headers are neither a map nor a list of key and value", _MAP_ADVICE)
        rows.append(pairs)
    return make_header_rows(place, rows)


def _list_pairs(value: Any) -> list[tuple[str, Any]] | None:
    if not isinstance(value, list):
        return None
    pairs = [
        (each["key"], each.get("value"))
        for each in value
        if isinstance(each, dict) and isinstance(each.get("key"), str) and set(each) <= {"key", "value"}
    ]
    return pairs if len(pairs) == len(value) else None


def _make_missing_error(place: Place, index: int, column: str) -> BadInputError:
    wrong = f"it has no column {ascii(column)[:80]}"
    return place.make_error(index, wrong, f"{_MAP_ADVICE}; a field that is null has to be there as null")


def is_text(start: bytes) -> bool:
    """Check whether an object that begins so is JSON or CSV."""
    return not start.startswith((PARQUET_MAGIC, ORC_MAGIC, AVRO_MAGIC))


def is_csv(start: bytes) -> bool:
    """Check whether an object that begins so is CSV."""
    return is_text(start) and not start.lstrip(b" \t\r\n\xef\xbb\xbf").startswith((b"{", b"["))


def read_rows(obj: StoredObject, options: ReadOptions) -> Iterator[tuple[Place, Rows]]:
    """Yield the rows of ``obj``, whatever its format, found by its first bytes.

    Raises:
        BadInputError: it is empty, damaged or cut off, or holds something else than rows.
        ServiceError: an object store cannot be reached.
    """
    start = read_start(obj, START_BYTES)
    if not start.strip():
        raise make_file_error(obj.uri, "it is empty", DAMAGED_ADVICE)
    if start.startswith(AVRO_MAGIC):
        yield from _read_avro(obj, options)
    elif is_text(start) and not is_csv(start):
        yield from _read_json(obj, options, is_array=start.lstrip().startswith(b"["))
    else:
        if start.startswith(PARQUET_MAGIC):
            batches = read_parquet_batches(obj, options.batch_bytes)
        else:
            batches = _read_orc(obj) if start.startswith(ORC_MAGIC) else _read_csv(obj)
        for place, batch in number_batches(obj.uri, "row", _slice_batches(batches, options.batch_bytes)):
            yield place, ArrowRows(batch)


def _slice_batches(batches: Iterable[pa.RecordBatch], batch_bytes: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        sizes = np.full(batch.num_rows, batch.nbytes // max(1, batch.num_rows), np.int64)
        for start, end in slice_by_size(sizes, batch_bytes):
            yield batch.slice(start, end - start)


def _read_orc(obj: StoredObject) -> Iterator[pa.RecordBatch]:
    with open_seekable(obj) as stream:
        try:
            file = orc.ORCFile(stream)
            for number in range(file.nstripes):
                stripe = file.read_stripe(number)
                yield from (stripe.to_batches() if isinstance(stripe, pa.Table) else [stripe])
        except (pa.ArrowException, OSError, ValueError):
            raise make_file_error(obj.uri, "this is not ORC, or damaged or cut off", DAMAGED_ADVICE) from None


def _read_csv(obj: StoredObject) -> Iterator[pa.RecordBatch]:
    with open_decompressed(obj) as stream:
        names = _read_csv_names(obj)
        options = csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False, null_values=[]
        )
        parsing = csv.ParseOptions(newlines_in_values=True)
        try:
            yield from csv.open_csv(stream, parse_options=parsing, convert_options=options)
        except (pa.ArrowException, OSError, ValueError):
            raise make_file_error(obj.uri, "this is not CSV, or cut off", DAMAGED_ADVICE) from None


def _read_csv_names(obj: StoredObject) -> list[str]:
    first = read_start(obj, START_BYTES).split(b"\n", 1)[0]
    try:
        return [str(name) for name in csv.read_csv(pa.BufferReader(first + b"\n")).schema.names]
    except (pa.ArrowException, ValueError):
        raise make_file_error(obj.uri, "its first line has no names of columns", DAMAGED_ADVICE) from None


def _read_avro(obj: StoredObject, options: ReadOptions) -> Iterator[tuple[Place, Rows]]:
    with open_avro(obj) as file:
        for place, records in file.read_groups(options.batch_bytes):
            if not all(isinstance(record, dict) for record in records):
                raise place.make_error(0, "from here on records are no structures", "only such have columns to map")
            yield place, DecodedRows(records)


def _read_json(obj: StoredObject, options: ReadOptions, *, is_array: bool) -> Iterator[tuple[Place, Rows]]:
    json = JsonRecords(options)
    if is_array:
        yield from _read_json_array(obj, options, json)
        return
    for place, lines in read_lines(obj, options.batch_bytes):
        yield place, JsonRows(place, lines, json)


def _read_json_array(obj: StoredObject, options: ReadOptions, json: JsonRecords) -> Iterator[tuple[Place, Rows]]:
    """Read one array of objects, which is in memory as a whole: what people export by hand is small."""
    with open_decompressed(obj) as stream:
        text = _read_bounded(obj, stream)
    try:
        raws = msgspec.json.decode(text, type=list[msgspec.Raw])
    except UNREADABLE:
        raise make_file_error(obj.uri, "its JSON array is damaged or cut off", DAMAGED_ADVICE) from None
    lines = [bytes(raw) for raw in raws]
    sizes = np.fromiter(map(len, lines), np.int64, len(lines))
    for begin, end in slice_by_size(sizes, options.batch_bytes):
        place = Place(obj.uri, "record", np.arange(begin + 1, end + 1))
        yield place, JsonRows(place, lines[begin:end], json)


def _read_bounded(obj: StoredObject, stream: BinaryIO) -> bytes:
    parts, size = [], 0
    while part := stream.read(1 << 20):
        parts.append(part)
        size += len(part)
        if size > _MAXIMUM_ARRAY_BYTES:
            advice = "write one object a line, with jq -c '.[]' for instance"
            raise make_file_error(obj.uri, "its JSON array is larger than 256 MiB", advice)
    return b"".join(parts)
