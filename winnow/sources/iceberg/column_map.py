"""Finds the columns of a table that hold the fields of Kafka records: named by the user, else by usual names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from winnow.errors import BadInputError, UsageError, join_first
from winnow.sources.input_errors import NOTHING_INGESTED

FIELDS = ("key", "value", "partition", "offset", "timestamp", "timestampType", "headers", "topic")
"""Fields of a record, each also the usual name of its column: those of Spark's Kafka source."""
SINK_FIELDS = ("topic", "partition", "offset", "timestamp")
"""Fields that the KafkaMetadataTransform of Iceberg's own sink adds."""
SINK_STRUCT = "_kafka_metadata"
MAXIMUM_COLUMNS_NAMED = 20

Columns = Mapping[str, Sequence[str]]
"""The columns of a table, with the members of those that are structs."""
Path = tuple[str, ...]
"""A column, or a member of a struct."""


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """Where the fields of records are in a table.

    ``fields``: the column of each field that the table has. ``row``: the columns that together are the value, where no
    column is. ``left_out``: columns that hold nothing of a record.
    """

    fields: Mapping[str, Path]
    row: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        return list(dict.fromkeys([*(path[0] for path in self.fields.values()), *self.row]))


def parse_columns(options: Sequence[str]) -> dict[str, str]:
    """Parse options like ``key=id``.

    Raises:
        UsageError: one is not of that form, or a field is named twice.
    """
    found: dict[str, str] = {}
    for option in options:
        field, _, column = option.partition("=")
        if field not in FIELDS or not column or field in found:
            raise UsageError(
                f"--map {ascii(option)[:80]} is not FIELD=COLUMN with FIELD one of {', '.join(FIELDS)}, each once."
            )
        found[field] = column
    return found


def find_columns(table: str, columns: Columns, chosen: Mapping[str, str]) -> ColumnMap:
    """Find the column of each field: the ``chosen`` one, else the one with the usual name.

    The columns of Iceberg's sink count before plain names, which there are fields of the value: so the value is the
    whole row, unless a column is chosen for it. The key's column is part of the value unless it is called ``key``.

    Raises:
        UsageError: there is no such column.
        BadInputError: there is no column for offsets or partitions.
    """
    usual = _find_sink_columns(columns) or _find_plain_columns(columns)
    fields = {**usual, **{field: _find_column(table, columns, name) for field, name in chosen.items()}}
    missing = [name for name in ("partition", "offset") if name not in fields]
    if missing:
        raise BadInputError(
            f"Table {table} has no column for the {' and the '.join(missing)} of its records, so their order is not "
            "known.",
            left=NOTHING_INGESTED,
            next=(
                "Name the columns with --map offset=COLUMN --map partition=COLUMN. Iceberg's sink writes them with "
                "transforms.NAME.type=org.apache.iceberg.connect.transforms.KafkaMetadataTransform."
            ),
        )
    used = {path[0] for field, path in fields.items() if field != "key" or path == ("key",)}
    others = tuple(name for name in columns if name not in used)
    if "value" in fields:
        left_out = tuple(name for name in others if fields.get("key", ("",))[0] != name)
        return ColumnMap(fields, (), left_out)
    if not others:
        raise BadInputError(
            f"Table {table} has no column for the value of its records.",
            left=NOTHING_INGESTED,
            next="Name one with --map value=COLUMN.",
        )
    return ColumnMap(fields, others, ())


def _find_sink_columns(columns: Columns) -> dict[str, Path]:
    members = columns.get(SINK_STRUCT, ())
    if "offset" in members:
        return {name: (SINK_STRUCT, name) for name in SINK_FIELDS if name in members}
    found: dict[str, Path] = {
        name: (f"{SINK_STRUCT}_{name}",) for name in SINK_FIELDS if f"{SINK_STRUCT}_{name}" in columns
    }
    return found if "offset" in found else {}


def _find_plain_columns(columns: Columns) -> dict[str, Path]:
    return {name: (name,) for name in FIELDS if name in columns}


def _find_column(table: str, columns: Columns, name: str) -> Path:
    column, _, member = name.partition(".")
    if name in columns:
        return (name,)
    if member in columns.get(column, ()):
        return column, member
    raise UsageError(
        f"Table {table} has no column {ascii(name)[:80]}.",
        next=f"It has: {join_first(list(columns), MAXIMUM_COLUMNS_NAMED)}.",
    )
