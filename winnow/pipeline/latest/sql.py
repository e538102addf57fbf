"""Writes the query for a topic's latest state in the SQL of an engine that reads its Iceberg table.

The order of a key's records is the one of :mod:`winnow.engine.winners`. A version header is compared as text: its eight
bytes in hexadecimal, behind a digit for the sign, order as the signed number does, and a missing version is below all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from winnow.engine.strategy_diff import RecordOrder
from winnow.errors import UsageError
from winnow.pipeline.latest.reader_names import SqlEngine
from winnow.pipeline.latest.value_columns import ColumnType, ValueColumn
from winnow.values.strategies import Strategy
from winnow.values.typed_columns import SystemColumn


@dataclass(frozen=True, slots=True)
class LatestQuery:
    """What the query says. ``table``: the parts of the table's name. ``log_starts``: by partition, where needed."""

    table: tuple[str, ...]
    order: RecordOrder
    log_starts: Mapping[int, int] = field(default_factory=dict)
    columns: Sequence[ValueColumn] = ()


@dataclass(frozen=True, slots=True)
class _Dialect:
    """The words of one engine. ``{}`` stands for the operand, ``{0}`` and ``{1}`` for value and JSON path."""

    quote: str
    no_time: str
    hexadecimal: str
    length: str
    header: str | None
    json_text: str
    casts: Mapping[ColumnType, str]
    key_as_text: str

    def name(self, *parts: str) -> str:
        return ".".join(self.quote + part.replace(self.quote, self.quote * 2) + self.quote for part in parts)


def _quote_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


_DIALECTS: Mapping[SqlEngine, _Dialect] = {
    SqlEngine.SPARK: _Dialect(
        quote="`",
        no_time="TIMESTAMP '1969-12-31 23:59:59.999Z'",
        hexadecimal="hex({})",
        length="octet_length({})",
        header="try_element_at(filter(headers, h -> h.key = {}), -1).value",
        json_text="get_json_object(cast({0} AS STRING), {1})",
        casts={
            ColumnType.LONG: "try_cast({} AS BIGINT)",
            ColumnType.DOUBLE: "try_cast({} AS DOUBLE)",
            ColumnType.BOOLEAN: "try_cast({} AS BOOLEAN)",
            ColumnType.TIMESTAMP: "try_cast({} AS TIMESTAMP)",
        },
        key_as_text="cast({} AS STRING)",
    ),
    SqlEngine.TRINO: _Dialect(
        quote='"',
        no_time="TIMESTAMP '1969-12-31 23:59:59.999 UTC'",
        hexadecimal="to_hex({})",
        length="length({})",
        header="element_at(filter(headers, h -> h.key = {}), -1).value",
        json_text="json_extract_scalar(from_utf8({0}), {1})",
        casts={
            ColumnType.LONG: "try_cast({} AS bigint)",
            ColumnType.DOUBLE: "try_cast({} AS double)",
            ColumnType.BOOLEAN: "try_cast({} AS boolean)",
            ColumnType.TIMESTAMP: "try(from_iso8601_timestamp({}))",
            ColumnType.JSON: "json_format(json_extract(from_utf8({0}), {1}))",
        },
        key_as_text="from_utf8({})",
    ),
    SqlEngine.FLINK: _Dialect(
        quote="`",
        no_time="TO_TIMESTAMP_LTZ(-1, 3)",
        hexadecimal="",
        length="",
        header=None,
        json_text="JSON_VALUE(DECODE({0}, 'UTF-8'), {1})",
        casts={
            ColumnType.LONG: "TRY_CAST({} AS BIGINT)",
            ColumnType.DOUBLE: "TRY_CAST({} AS DOUBLE)",
            ColumnType.BOOLEAN: "TRY_CAST({} AS BOOLEAN)",
            ColumnType.TIMESTAMP: "TRY_CAST({} AS TIMESTAMP(3))",
            ColumnType.JSON: "JSON_QUERY(DECODE({0}, 'UTF-8'), {1})",
        },
        key_as_text="DECODE({}, 'UTF-8')",
    ),
    SqlEngine.DUCKDB: _Dialect(
        quote='"',
        no_time="TIMESTAMPTZ '1969-12-31 23:59:59.999+00'",
        hexadecimal="hex({})",
        length="octet_length({})",
        header="list_filter(headers, lambda h: h.key = {})[-1].value",
        json_text="TRY(json_extract_string(decode({0}), {1}))",
        casts={
            ColumnType.LONG: "TRY_CAST({} AS BIGINT)",
            ColumnType.DOUBLE: "TRY_CAST({} AS DOUBLE)",
            ColumnType.BOOLEAN: "TRY_CAST({} AS BOOLEAN)",
            ColumnType.TIMESTAMP: "TRY_CAST({} AS TIMESTAMPTZ)",
        },
        key_as_text="TRY(decode({}))",
    ),
    SqlEngine.CLICKHOUSE: _Dialect(
        quote="`",
        no_time="fromUnixTimestamp64Milli(-1, 'UTC')",
        hexadecimal="hex({})",
        length="length({})",
        header="arrayFilter(h -> h.1 = {}, headers)[-1].2",
        json_text="JSON_VALUE(assumeNotNull({0}), {1})",
        casts={
            ColumnType.LONG: "toInt64OrNull({})",
            ColumnType.DOUBLE: "toFloat64OrNull({})",
            ColumnType.BOOLEAN: "accurateCastOrNull({}, 'Bool')",
            ColumnType.TIMESTAMP: "parseDateTime64BestEffortOrNull({}, 6, 'UTC')",
            ColumnType.JSON: "JSON_QUERY(assumeNotNull({0}), {1})",
        },
        key_as_text="{}",
    ),
}


def build_decoded_sql(engine: SqlEngine, table: Sequence[str], columns: Sequence[str]) -> str:
    """Build the query for ``columns`` of the rows of a typed table whose keys and values could be decoded."""
    name = _DIALECTS[engine].name
    selected = ",\n  ".join(name(column) for column in columns)
    return f"SELECT\n  {selected}\nFROM {name(*table)}\nWHERE {name(SystemColumn.ERROR.value)} IS NULL"


def build_latest_sql(engine: SqlEngine, query: LatestQuery, *, as_text: bool = False) -> str:
    """Build the query: one row per key with a value, with its partition, offset and timestamp.

    ``as_text``: keys and values are cast to text, for topics where they are.

    Raises:
        UsageError: the engine cannot express the topic's order.
    """
    dialect = _DIALECTS[engine]
    name = dialect.name
    key, value = name("key"), name("value")
    shown = [f"{dialect.key_as_text.format(each)} AS {each}" if as_text else each for each in (key, value)]
    if query.columns:
        shown[1:] = [f"{_build_column(dialect, each)} AS {name(each.name)}" for each in query.columns]
    starts = [
        f"NOT ({name('partition')} = {partition} AND {name('offset')} < {offset})"
        for partition, offset in sorted(query.log_starts.items())
    ]
    conditions = "\n    AND ".join([f"{key} IS NOT NULL", *starts])
    order = ", ".join([*_build_version(engine, dialect, query.order), f"{name('offset')} DESC"])
    selected = ",\n  ".join([name("partition"), *shown, name("offset"), name("timestamp")])
    return (
        f"SELECT\n  {selected}\nFROM (\n"
        f"  SELECT *, row_number() OVER (PARTITION BY {name('partition')}, {key} ORDER BY {order}) AS winnow_place\n"
        f"  FROM {name(*query.table)}\n"
        f"  WHERE {conditions}\n"
        f") AS ranked\nWHERE winnow_place = 1 AND {value} IS NOT NULL"
    )


def select_records(engine: SqlEngine, text_columns: Collection[str]) -> str:
    """Build the list of columns that shows records, with those of ``text_columns`` cast to text."""
    dialect = _DIALECTS[engine]
    quoted = {name: dialect.name(name) for name in ("partition", "offset", "timestamp", "key", "value")}
    shown = (
        f"{dialect.key_as_text.format(each)} AS {each}" if name in text_columns else each
        for name, each in quoted.items()
    )
    return ", ".join(shown)


def _build_version(engine: SqlEngine, dialect: _Dialect, order: RecordOrder) -> list[str]:
    if order.strategy is Strategy.TIMESTAMP:
        return [f"coalesce({dialect.name('timestamp')}, {dialect.no_time}) DESC"]
    if order.strategy is not Strategy.HEADER or not order.header:
        return []
    if dialect.header is None:
        raise UsageError(
            f"The SQL of {engine} cannot read the last header of a name, which decides in this topic.",
            next="Use another engine, or export the rows: winnow latest TOPIC --format parquet --output FILE",
        )
    version = dialect.header.format(_quote_text(order.header))
    digits = dialect.hexadecimal.format(version)
    signed = f"concat(CASE WHEN substr({digits}, 1, 1) < '8' THEN '1' ELSE '0' END, {digits})"
    return [f"CASE WHEN {dialect.length.format(version)} = 8 THEN {signed} ELSE '' END DESC"]


def _build_column(dialect: _Dialect, column: ValueColumn) -> str:
    operands = (dialect.name("value"), _quote_text(column.json_path))
    if column.type is ColumnType.JSON and ColumnType.JSON in dialect.casts:
        return dialect.casts[ColumnType.JSON].format(*operands)
    text = dialect.json_text.format(*operands)
    return dialect.casts[column.type].format(text) if column.type in dialect.casts else text
