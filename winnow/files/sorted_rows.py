"""Sorts rows that may not fit in memory: runs of limited size are sorted and spilled, and then merged.

DuckDB orders the keys alone, and says for each row from which run the next one comes. So rows of any type are read and
written as Arrow has them, each run from its begin to its end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from winnow.files import private_files
from winnow.files.typed_files import OFFSET_COLUMN, fit_rows

if TYPE_CHECKING:
    import duckdb

RUN_BYTES: Final = 64 << 20
"""Arrow bytes of a run: below them nothing is spilled."""
MERGED_ROWS: Final = 4096
"""Rows that are merged at a time."""


@dataclass(frozen=True, slots=True)
class SortKey:
    """One column by which rows are sorted, of a type whose values Arrow and DuckDB order in the same way."""

    column: pa.Array
    is_descending: bool = False
    has_nulls_last: bool = False


@dataclass(frozen=True, slots=True)
class RowSorter:
    """Sorts rows by keys, and where these are equal by offset.

    ``list_keys``: of rows. ``get_schema``: the schema of all rows once the last one was read; before, it may grow.
    ``connect``: opens a DuckDB. ``spill_folder``: None: the system's temporary folder.
    """

    list_keys: Callable[[pa.RecordBatch], Sequence[SortKey]]
    get_schema: Callable[[], pa.Schema]
    connect: Callable[[], AbstractContextManager[duckdb.DuckDBPyConnection]]
    spill_folder: str | None = None

    def sort(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of ``batches``, sorted, in the last schema.

        Raises:
            duckdb.Error, OSError: the disk is full.
            ServiceError, ConfigurationError: as :func:`winnow.files.private_files.make_private_folder`.
        """
        with private_files.make_private_folder(self.spill_folder) as folder:
            held: list[pa.RecordBatch] = []
            size_bytes = 0
            runs: list[pa.RecordBatch] = []
            for batch in batches:
                held.append(batch)
                size_bytes += batch.nbytes
                if size_bytes >= RUN_BYTES:
                    runs.append(_spill(self._sort_run(held), folder / f"{len(runs)}.arrow"))
                    held, size_bytes = [], 0
            if held:
                runs.append(self._sort_run(held))
            held = []
            if len(runs) > 1:
                yield from self._merge(runs)
            elif runs:
                yield fit_rows(runs[0], self.get_schema())

    def _sort_run(self, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        rows = _combine(batches, self.get_schema())
        names, columns, keys = [], [], []
        for number, key in enumerate(self._list_all_keys(rows)):
            # Arrow places nulls in the same way for all columns.
            names += [f"is_null{number}", f"key{number}"]
            columns += [key.column.is_null(), key.column]
            keys += [
                (names[-2], "ascending" if key.has_nulls_last else "descending"),
                (names[-1], "descending" if key.is_descending else "ascending"),
            ]
        return rows.take(pc.sort_indices(pa.table(columns, names), sort_keys=keys))

    def _list_all_keys(self, rows: pa.RecordBatch) -> list[SortKey]:
        return [*self.list_keys(rows), SortKey(rows.column(OFFSET_COLUMN))]

    def _merge(self, runs: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = self.get_schema()
        keys = self._read_keys(runs, schema)
        first = next(keys)
        ways = self._list_all_keys(fit_rows(runs[0].slice(0, 1), schema))
        order = ", ".join(
            f"key{number} {'DESC' if key.is_descending else 'ASC'} NULLS {'LAST' if key.has_nulls_last else 'FIRST'}"
            for number, key in enumerate(ways)
        )
        starts = [0] * len(runs)
        with self.connect() as connection:
            connection.register(
                "sort_keys", pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], keys))
            )
            for batch in connection.sql(f"SELECT run FROM sort_keys ORDER BY {order}").to_arrow_reader(MERGED_ROWS):
                sequence = batch.column(0).to_numpy()
                counts = np.bincount(sequence, minlength=len(runs)).tolist()
                parts = []
                for run, count in enumerate(counts):
                    if count:
                        parts.append(runs[run].slice(starts[run], count))
                        starts[run] += count
                places = np.empty(len(sequence), np.int64)
                places[np.argsort(sequence, kind="stable")] = np.arange(len(sequence))
                yield _combine(parts, schema).take(pa.array(places))

    def _read_keys(self, runs: Sequence[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for number, run in enumerate(runs):
            for start in range(0, run.num_rows, MERGED_ROWS):
                rows = fit_rows(run.slice(start, MERGED_ROWS), schema)
                columns = [key.column for key in self._list_all_keys(rows)]
                names = ["run", *(f"key{place}" for place in range(len(columns)))]
                numbers = pa.array(np.full(rows.num_rows, number, np.int64))
                yield pa.RecordBatch.from_arrays([numbers, *columns], names)


def _combine(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    table = pa.Table.from_batches([fit_rows(batch, schema) for batch in batches], schema)
    return pa.RecordBatch.from_arrays(
        [column.combine_chunks() if column.num_chunks != 1 else column.chunk(0) for column in table.columns],
        schema=schema,
    )


def _spill(rows: pa.RecordBatch, path: Path) -> pa.RecordBatch:
    with pa.OSFile(str(path), "wb") as stream, pa.ipc.new_file(stream, rows.schema) as writer:
        writer.write_batch(rows)
    return pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)
