"""Translates offsets of the log into offsets of the target: as a Parquet file, and for consumer groups.

The i-th committed record of a target partition is the i-th restored one. Neither side's offsets are contiguous: the log
lacks compacted ones, the target has markers of transactions. So a translation is a list of runs.
"""

from __future__ import annotations

import csv
import heapq
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from winnow.errors import UsageError
from winnow.files.disk_sync import sync_files
from winnow.values.counts import format_count

Offsets = npt.NDArray[np.int64]
RUNS_SCHEMA = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("source_offset", pa.int64(), nullable=False),
        pa.field("target_offset", pa.int64(), nullable=False),
        pa.field("records", pa.int64(), nullable=False),
    ]
)
"""One row: ``records`` records at consecutive offsets on both sides, from these two on."""
ROW_GROUP_ROWS = 100_000
GROUP_COLUMNS = ("group", "topic", "partition", "offset")
_MAXIMUM_OFFSET = 2**63 - 1


class TranslationFile:
    """Writes the runs of one partition after another; whole under its name, or not there. A context manager."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._draft = self._path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        self._writer: pq.ParquetWriter | None = None
        self._held: list[npt.NDArray[np.int64]] = []
        self._held_rows = 0

    def __enter__(self) -> Self:
        self._writer = pq.ParquetWriter(self._draft, RUNS_SCHEMA, compression="zstd")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._writer is not None
        try:
            if kind is None:
                self._flush()
            self._writer.close()
            if kind is None:
                sync_files([self._draft])
                self._draft.replace(self._path)
                sync_files([self._path])
        finally:
            self._draft.unlink(missing_ok=True)

    def add(self, partition: int, source: Offsets, target: Offsets) -> None:
        """Add records, by their offsets on both sides."""
        if not len(source):
            return
        starts = np.flatnonzero(np.r_[True, (np.diff(source) != 1) | (np.diff(target) != 1)])
        lengths = np.diff(np.r_[starts, len(source)])
        self.add_runs(
            np.column_stack([np.full(len(starts), partition, np.int64), source[starts], target[starts], lengths])
        )

    def add_runs(self, rows: Offsets) -> None:
        """Add runs of one partition: a row of the file each."""
        if self._held:
            last = self._held[-1][-1]
            if last[0] == rows[0, 0] and (last[1:3] + last[3] == rows[0, 1:3]).all():
                last[3] += rows[0, 3]
                rows = rows[1:]
        if len(rows):
            self._held.append(rows)
            self._held_rows += len(rows)
        if self._held_rows > ROW_GROUP_ROWS:
            self._flush(keep_last=True)

    def _flush(self, *, keep_last: bool = False) -> None:
        assert self._writer is not None
        rows = np.concatenate(self._held) if self._held else np.empty((0, 4), np.int64)
        written = rows[:-1] if keep_last else rows
        self._held = [rows[-1:].copy()] if keep_last else []
        self._held_rows = len(self._held)
        columns = [pa.array(written[:, index]).cast(field.type) for index, field in enumerate(RUNS_SCHEMA)]
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=RUNS_SCHEMA))


def merge_translations(parts: Iterable[Path], whole: TranslationFile) -> None:
    """Add what files of some partitions each have to ``whole``, one partition after another."""
    for rows in heapq.merge(*map(_read_runs, parts), key=lambda rows: int(rows[0, 0])):
        whole.add_runs(rows)


def _read_runs(part: Path) -> Iterator[Offsets]:
    with pq.ParquetFile(part) as file:
        for batch in file.iter_batches(ROW_GROUP_ROWS):
            rows = np.column_stack([column.cast(pa.int64()).to_numpy() for column in batch.columns])
            yield from (each for each in np.split(rows, np.flatnonzero(np.diff(rows[:, 0])) + 1) if len(each))


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """A consumer group's committed offset of a source partition."""

    group: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class GroupFile:
    """The committed offsets of a ``--groups`` file, and how many lines concern other topics."""

    offsets: tuple[GroupOffset, ...]
    left_out: int = 0

    @property
    def groups(self) -> list[str]:
        """The groups, each once."""
        return sorted({each.group for each in self.offsets})


def read_group_file(path: Path, topics: Iterable[str], partitions: int) -> GroupFile:
    """Read lines of group, topic, partition and offset, as ``kafka-consumer-groups.sh --export`` writes them.

    Raises:
        UsageError: the file cannot be read, or a line is not such a line; nothing was restored.
    """
    wanted = set(topics)
    found: dict[tuple[str, int], GroupOffset] = {}
    left_out = 0
    try:
        with path.open(newline="", encoding="utf-8") as lines:
            for number, row in enumerate(csv.reader(lines), 1):
                if not row or (number == 1 and tuple(row) == GROUP_COLUMNS):
                    continue
                each = _parse_row(path, number, row)
                if row[1] not in wanted:
                    left_out += 1
                    continue
                if each.partition >= partitions:
                    raise _make_line_error(path, number, f"the topic has no partition {each.partition}")
                if found.setdefault((each.group, each.partition), each) != each:
                    raise _make_line_error(path, number, "it contradicts an earlier line")
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
        raise UsageError(
            f"--groups {path} cannot be read ({type(problem).__name__}).",
            left="Nothing was restored.",
        ) from None
    if not found:
        raise UsageError(
            f"--groups {path} has no offset of topic {', '.join(sorted(wanted))}; "
            f"{format_count(left_out, 'line', 'name')} other topics.",
            left="Nothing was restored.",
        )
    return GroupFile(tuple(found[key] for key in sorted(found)), left_out)


def _parse_row(path: Path, number: int, row: list[str]) -> GroupOffset:
    if len(row) == len(GROUP_COLUMNS) - 1:
        raise _make_line_error(
            path,
            number,
            "it names no group, as an export of a single group does. Put the group before each line: "
            f"sed 's/^/GROUP,/' {path}",
        )
    if len(row) != len(GROUP_COLUMNS) or not all(each.isascii() and each.isdecimal() for each in row[2:]):
        raise _make_line_error(path, number, "a line is group,topic,partition,offset")
    partition, offset = int(row[2]), int(row[3])
    if offset > _MAXIMUM_OFFSET or not row[0]:
        raise _make_line_error(path, number, "a line is group,topic,partition,offset")
    return GroupOffset(row[0], partition, offset)


def _make_line_error(path: Path, number: int, wrong: str) -> UsageError:
    return UsageError(
        f"--groups {path}, line {number}: {wrong}.",
        left="Nothing was restored.",
    )


class OffsetTranslator:
    """Finds the target's offsets for some offsets of the log, while restored records pass in order."""

    def __init__(self, wanted: Iterable[tuple[int, int]]) -> None:
        self._waiting: dict[int, list[int]] = {}
        for partition, offset in sorted(set(wanted)):
            self._waiting.setdefault(partition, []).append(offset)
        self._found: dict[tuple[int, int], int] = {}
        self._ends: dict[int, int] = {}

    def add(self, partition: int, source: Offsets, target: Offsets) -> None:
        """Take in records of a partition, by their offsets on both sides."""
        if not len(source):
            return
        self._ends[partition] = int(target[-1]) + 1
        waiting = self._waiting.get(partition, [])
        reached = [each for each in waiting if each <= source[-1]]
        for wanted, index in zip(reached, np.searchsorted(source, reached).tolist(), strict=True):
            self._found[partition, wanted] = int(target[index])
        del waiting[: len(reached)]

    def translate(self, partition: int, offset: int, target_start: int) -> int:
        """Return the target's offset of the first restored record at or above ``offset``.

        Beyond the last record it is the offset after it; ``target_start`` where the partition has no record.
        """
        return self._found.get((partition, offset), self._ends.get(partition, target_start))
