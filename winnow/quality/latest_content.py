"""Judges the rows that an update of a table of the latest state writes by a topic's own suite, over typed columns.

As over records (:mod:`winnow.quality.content_validation`) the new files are read in bounded chunks: those columns that
the suite names, nested fields by dotted names. Of a row that violates it only the offset is kept.
Rows that could not be decoded have no fields, and are not judged.

Limits of dates are ISO text (``2024-01-31``), of timestamps too (``2024-01-31T12:30:00``, in UTC). UUIDs are text;
numbers and decimals are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from winnow.errors import ConfigurationError
from winnow.files.typed_files import OFFSET_COLUMN, read_typed_rows
from winnow.quality.content_validation import (
    CheckFailedToRunError,
    ChunkValidator,
    Violations,
    find_violations,
    load_content_suite,
)
from winnow.quality.gx_runtime import GX_LOCK
from winnow.quality.latest_facts import NOTHING_UPDATED
from winnow.quality.suites import Expectation, Suite, SuiteFindings
from winnow.values.model import Segment
from winnow.values.results import Failure
from winnow.values.typed_columns import SystemColumn

if TYPE_CHECKING:
    import pandas as pd

CHUNK_ROWS: Final = 65_536
"""Maximum rows that are judged at a time."""

_ERROR: Final = SystemColumn.ERROR.value
_NAMING: Final = ("column", "column_A", "column_B")


def judge_latest_rows(
    suite_name: str,
    topic: str,
    added: Mapping[int, Sequence[Segment]],
    schema: pa.Schema,
    *,
    extra_folder: Path | None,
    chunk_rows: int = CHUNK_ROWS,
) -> SuiteFindings:
    """Judge the rows of the files ``added``, by partition; ``schema``: that of the table after the update.

    A check that raised instead of judging is a single finding whose expectation ends in
    :data:`winnow.quality.suites.RAISED`: then nothing is known about the rows.

    Raises:
        ConfigurationError: the suite is unknown, not valid, not row-wise, or names a column that there is not.
        DamagedSegmentError, OSError: a file cannot be read.
    """
    suite = load_content_suite(suite_name, extra_folder)
    columns = _list_columns(suite, topic, schema)
    with GX_LOCK:
        validator = ChunkValidator(suite)
        try:
            failures = [
                failure
                for partition, files in sorted(added.items())
                for failure in _judge_partition(validator, partition, _read_frames(files, schema, columns, chunk_rows))
            ]
        except CheckFailedToRunError as problem:
            failures = [problem.failure]
    return SuiteFindings(suite, tuple(failures))


def list_named_columns(expectation: Expectation) -> list[str]:
    """List the columns that ``expectation`` names."""
    named = [expectation.kwargs[name] for name in _NAMING if name in expectation.kwargs]
    return [str(name) for name in (*named, *expectation.kwargs.get("column_list", ()))]


def _list_columns(suite: Suite, topic: str, schema: pa.Schema) -> dict[str, tuple[str, ...]]:
    """List the columns that the suite names, each with its way into the table's columns."""
    columns: dict[str, tuple[str, ...]] = {}
    for expectation in suite.expectations:
        if "row_condition" in expectation.kwargs:
            raise ConfigurationError(
                f"{expectation.id} in suite {suite.name} sets row_condition, whose columns are not known before.",
                next="Leave it out.",
            )
        for name in list_named_columns(expectation):
            path = _find_path(schema, name)
            if path is None:
                raise ConfigurationError(
                    f"{expectation.id} in suite {suite.name} names the column {name}, which the table of the latest "
                    f"state of topic {topic} does not have.",
                    left=NOTHING_UPDATED,
                    next=(
                        f"Correct the suite, or do without it: winnow topics alter {topic} --delete-config "
                        "winnow.latest.expectations"
                    ),
                )
            columns[name] = path
    return columns


def _find_path(fields: pa.Schema | pa.StructType, name: str) -> tuple[str, ...] | None:
    """Find a field by its name, which may have dots itself, or by the names on the way to it; None: it is not there."""
    present = {field.name: field.type for field in fields}
    if name in present:
        return (name,)
    for outer, kind in present.items():
        if name.startswith(f"{outer}.") and pa.types.is_struct(kind):
            rest = _find_path(kind, name[len(outer) + 1 :])
            if rest is not None:
                return (outer, *rest)
    return None


def _read_frames(
    files: Sequence[Segment], schema: pa.Schema, columns: Mapping[str, tuple[str, ...]], chunk_rows: int
) -> Iterator[pd.DataFrame]:
    """Yield the judged columns of the rows that were decoded; the label of a row is its offset."""
    wanted = {OFFSET_COLUMN, _ERROR, *(path[0] for path in columns.values())}
    needed = pa.schema([field for field in schema if field.name in wanted])
    for file in files:
        for batch in read_typed_rows(file.path, needed, chunk_rows):
            rows = batch.filter(batch.column(_ERROR).is_null())
            if rows.num_rows:
                values = {name: _make_comparable(_follow(rows, path)) for name, path in columns.items()}
                frame = pa.table(values).to_pandas(integer_object_nulls=True)
                frame.index = rows.column(OFFSET_COLUMN).to_numpy()
                yield frame


def _follow(rows: pa.RecordBatch, path: Sequence[str]) -> pa.Array:
    column = rows.column(path[0])
    for name in path[1:]:
        column = pc.struct_field(column, name)
    return column


def _make_comparable(column: pa.Array) -> pa.Array:
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us"))  # GX takes limits for times without a zone
    if isinstance(column.type, pa.UuidType):
        return pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
    return column


def _judge_partition(validator: ChunkValidator, partition: int, frames: Iterable[pd.DataFrame]) -> list[Failure]:
    violations = find_violations(validator, partition, frames)
    return [
        Failure(
            partition, expectation.id, expectation.severity, _describe(expectation, violations), validator.suite.name
        )
        for expectation in validator.suite.expectations
        if expectation.id in violations.first_offsets
    ]


def _describe(expectation: Expectation, violations: Violations) -> str:
    fields = ", ".join(list_named_columns(expectation))
    where = violations.describe(expectation.id, "rows that were written")
    return f"{expectation.sentence} Field {fields}: {where[0].lower()}{where[1:]}"
