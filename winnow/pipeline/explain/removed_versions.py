"""Finds records of a key that runs removed, in the files that these runs took out of the log, while they exist.

Records below the log start are left out, as everywhere; so are files that an erasure condemned, an undo or another
history replaced. What a sweep deleted is gone.
"""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from winnow.errors import DamagedSegmentError
from winnow.files import storage
from winnow.files.checked_reading import read_segment_columns, translate_read_errors
from winnow.files.file_names import is_data_file, is_plan_id
from winnow.files.segments import ARROW_SCHEMA
from winnow.pipeline.read.records import explain_segment_errors
from winnow.pipeline.topics.topic_view import TopicView
from winnow.values.topic_state import RetiredFile

Offsets: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]
Place: TypeAlias = tuple[int, int, RetiredFile]
"""Offset, partition, and the file that has the record."""
MAXIMUM_BYTES: Final = 256 << 20
"""Bytes of retired files that one look reads at most."""
MAXIMUM_RECORDS: Final = 20
"""Records that are returned, those with the highest offsets; all are counted."""


@dataclass(frozen=True, slots=True)
class RemovedRecord:
    """A record that a run removed. ``record``: its one row; ``plan_id``, ``removed_at_ms``: of the run.

    ``is_certain``: no later run can have been the one.
    """

    partition: int
    offset: int
    plan_id: str
    removed_at_ms: int
    is_certain: bool
    record: pa.RecordBatch = field(repr=False)


@dataclass(frozen=True, slots=True)
class RemovedVersions:
    """Removed records of a key, by partition and offset, the newest of ``total``.

    ``files``, ``size_bytes``: of the retired files that were read; ``unread_files``: those that were too much for one
    look; ``damaged_files``: those that could not be read.
    """

    records: tuple[RemovedRecord, ...]
    total: int
    files: int
    size_bytes: int
    unread_files: int
    damaged_files: int


def find_removed_versions(view: TopicView, key: bytes, partition: int | None, now_ms: int) -> RemovedVersions:
    """Find the records of ``key`` that runs removed from ``partition``; None: from any.

    Raises:
        DamagedSegmentError: a segment of the log is missing or cannot be read.
        ServiceError: the object store does not answer.
    """
    wanted, unread = choose_files(list_run_files(view, partition), MAXIMUM_BYTES)
    gone: dict[int, dict[RetiredFile, Offsets]] = {}
    damaged = 0
    for file in reversed(wanted):  # the newest file that has a record was taken out by the run that removed it
        try:
            for number, offsets in _find_offsets(file, key).items():
                if partition in (None, number) and number < len(view.partitions):
                    known = gone.setdefault(number, {})
                    known[file] = _drop_known(_keep_in_log(view, number, offsets), known.values())
        except FileNotFoundError:
            continue  # swept meanwhile
        except DamagedSegmentError:
            damaged += 1
    for number, found in gone.items():
        present = _list_present(view, number, list(found.values()))
        gone[number] = {file: np.setdiff1d(offsets, present) for file, offsets in found.items()}
    newest = heapq.nlargest(MAXIMUM_RECORDS, _list_places(gone), key=lambda place: place[:2])
    return RemovedVersions(
        records=tuple(_read_records(view, key, newest, now_ms)),
        total=sum(len(offsets) for found in gone.values() for offsets in found.values()),
        files=len(wanted),
        size_bytes=sum(file.size_bytes for file in wanted),
        unread_files=unread,
        damaged_files=damaged,
    )


def _list_places(gone: dict[int, dict[RetiredFile, Offsets]]) -> Iterator[Place]:
    for number, found in gone.items():
        for file, offsets in found.items():
            yield from ((int(offset), number, file) for offset in offsets)


def _keep_in_log(view: TopicView, partition: int, offsets: Offsets) -> Offsets:
    state = view.partitions[partition].state
    return offsets[(offsets >= state.log_start_offset) & (offsets < state.log_end_offset)]


def _drop_known(offsets: Offsets, known: Iterable[Offsets]) -> Offsets:
    for others in known:
        offsets = np.setdiff1d(offsets, others)
    return offsets


def _list_present(view: TopicView, partition: int, found: Sequence[Offsets]) -> Offsets:
    """List which of the offsets ``found`` have a record in the log."""
    wanted = np.unique(np.concatenate(found))
    present = [np.empty(0, np.int64)]
    for segment in view.partitions[partition].segments:
        mine = wanted[(wanted >= segment.first_offset) & (wanted <= segment.last_offset)]
        if len(mine):
            with explain_segment_errors(view.log, segment):
                present += [
                    np.intersect1d(mine, batch.column("offset").to_numpy())
                    for batch in read_segment_columns(segment, ("offset",))
                ]
    return np.concatenate(present)


def _read_records(view: TopicView, key: bytes, places: Iterable[Place], now_ms: int) -> Iterator[RemovedRecord]:
    """Yield the records at ``places`` by partition and offset; those of a file that was swept meanwhile are missing."""
    by_file: dict[RetiredFile, set[int]] = {}
    for offset, _, file in places:
        by_file.setdefault(file, set()).add(offset)
    found: list[RemovedRecord] = []
    for file, offsets in by_file.items():
        wanted = pa.array(sorted(offsets), pa.int64())
        with contextlib.suppress(FileNotFoundError):
            for batch in _read_key(file, key, None):
                rows = batch.filter(pc.is_in(batch.column("offset"), value_set=wanted))
                found += [_describe(view, file, rows.slice(row, 1), now_ms) for row in range(rows.num_rows)]
    yield from sorted(found, key=lambda each: (each.partition, each.offset))


def list_run_files(view: TopicView, partition: int | None) -> list[RetiredFile]:
    """List the data files that runs took out of the log and that no sweep deleted, oldest first."""
    return [
        file
        for file in view.head.state.retired
        if is_plan_id(file.plan_id)
        and (below := storage.find_path_below(view.head.location, file.path)) is not None
        and is_data_file(below)
        and (partition is None or _may_hold(file.path, partition))
    ]


def _may_hold(path: str, partition: int) -> bool:
    """Check whether a file can have records of ``partition``: runs name their files by it."""
    number = path.rpartition("/")[2].partition("-")[0]
    return not number.isdecimal() or int(number) == partition


def choose_files(files: Sequence[RetiredFile], maximum_bytes: int) -> tuple[list[RetiredFile], int]:
    """Choose the newest of ``files`` that have no more bytes together, oldest first, and count the others."""
    chosen: list[RetiredFile] = []
    left_bytes = maximum_bytes
    for file in reversed(files):
        left_bytes -= file.size_bytes
        if left_bytes < 0:
            break
        chosen.insert(0, file)
    return chosen, len(files) - len(chosen)


def _find_offsets(file: RetiredFile, key: bytes) -> dict[int, Offsets]:
    """Find the offsets of ``key`` in ``file`` by partition."""
    found: dict[int, list[Offsets]] = {}
    for batch in _read_key(file, key, ["partition", "offset", "key"]):
        offsets, numbers = batch.column("offset").to_numpy(), batch.column("partition").to_numpy()
        for number in np.unique(numbers):
            found.setdefault(int(number), []).append(offsets[numbers == number])
    return {number: np.unique(np.concatenate(parts)) for number, parts in found.items()}


def _read_key(file: RetiredFile, key: bytes, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
    """Yield the records of ``key`` in ``file`` with ``columns`` (None: all); of row groups without it keys are read."""
    with translate_read_errors():
        filesystem, path = storage.open_filesystem(file.path)
        with storage.translate_store_errors(file.path), filesystem.open_input_file(path) as stream:
            read = pq.ParquetFile(stream, page_checksum_verification=True)
            if not set(ARROW_SCHEMA.names) <= set(read.schema_arrow.names):
                raise DamagedSegmentError("has not the columns of a segment")
            for number in range(read.num_row_groups):
                keys = read.read_row_group(number, columns=["key"]).column("key")
                if not pc.any(pc.equal(keys, pa.scalar(key, keys.type))).as_py():
                    continue
                for batch in read.iter_batches(row_groups=[number], columns=columns):
                    mine = batch.column("key")
                    part = batch.filter(pc.equal(mine, pa.scalar(key, mine.type)).fill_null(False))
                    if part.num_rows:
                        yield part


def _describe(view: TopicView, file: RetiredFile, row: pa.RecordBatch, now_ms: int) -> RemovedRecord:
    return RemovedRecord(
        partition=row.column("partition")[0].as_py(),
        offset=row.column("offset")[0].as_py(),
        plan_id=file.plan_id,
        removed_at_ms=file.retired_at_ms,
        # A file that outlived its grace, by a tag for instance, may be there without those that were retired later.
        is_certain=now_ms < file.retired_at_ms + view.config.retired_grace_ms,
        record=row.select(ARROW_SCHEMA.names),
    )
