"""Writes the Parquet file of one part of what a plan reads.

A file's name is of one attempt alone: one that is killed, or runs beside another, changes no file of it.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa

from winnow.engine.damage import build_failed_result, find_plan_failure
from winnow.engine.events import PlanFailure
from winnow.engine.key_changes import CHANGE_SCHEMA, read_key_changes
from winnow.engine.latest_records import read_latest_records
from winnow.engine.read_plans import ReadFile, ReadKind, ReadPart, ReadPlan, ReadResult, name_read_file
from winnow.engine.task_resources import TaskBudget
from winnow.errors import DamagedSegmentError
from winnow.files import storage
from winnow.files.checked_reading import read_segment
from winnow.files.file_copies import FileDigest
from winnow.files.record_files import ParquetFile
from winnow.files.segments import ARROW_SCHEMA, read_offsets


def run_read_part(plan: ReadPlan, part: ReadPart, budget: TaskBudget) -> dict[str, Any]:
    """Write the file of ``part`` and return it or its error; never raises."""
    result: dict[str, Any] = {"partition": part.log.partition}
    try:
        result["result"] = write_read_file(plan, part, _read_part(plan, part, budget))
    except Exception as problem:  # one part must not end the others in this application
        result |= build_failed_result(problem, plan.topic, part.log)
    return result


def collect_read_results(
    plan: ReadPlan, results: Sequence[dict[str, Any]], expected: int | None = None
) -> ReadResult | PlanFailure:
    """Return the files that tasks wrote for ``plan``, or why they are not all there.

    ``expected``: how many there are; None: one for each part.
    """
    failure = find_plan_failure(plan.topic, results, len(plan.parts) if expected is None else expected)
    if failure is not None:
        return failure
    files = sorted((result["result"] for result in results), key=lambda file: (file.number, file.range))
    return ReadResult(plan.plan_id, tuple(files))


def write_read_file(
    plan: ReadPlan, part: ReadPart, batches: Iterator[pa.RecordBatch], *, range_number: int = 0
) -> ReadFile:
    """Write ``batches`` of ``part``, or of a range of it, to a file of its own, synced; if that fails, it is deleted.

    Raises:
        DamagedSegmentError: a segment is not what was written.
        CopyCountError, duckdb.Error, OSError: as of what is read.
    """
    uri = storage.join(plan.folder, f"{name_read_file(part.number)}.{uuid.uuid4().hex}")
    schema = CHANGE_SCHEMA if plan.kind is ReadKind.CHANGES else ARROW_SCHEMA
    names = list(plan.columns) or schema.names
    rows = 0
    try:
        with (
            storage.create_file(uri, below=plan.root) as file,
            closing(_DigestedStream(file)) as stream,
            closing(ParquetFile(stream, pa.schema([schema.field(name) for name in names]))) as sink,
        ):
            for batch in batches:
                sink.write(batch.select(names))
                rows += batch.num_rows
        storage.sync([uri])
    except BaseException:
        storage.delete_unreferenced([uri], below=plan.root)
        raise
    return ReadFile(part.number, uri, rows, stream.compute_digest(), range_number)


class _DigestedStream:
    """Passes on what is written, and digests it: what lies in the staging area is not trusted later."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._sha256 = hashlib.sha256()
        self._size_bytes = 0
        self.closed = False

    def write(self, data: bytes) -> int:
        self._sha256.update(data)
        self._stream.write(data)
        self._size_bytes += len(data)
        return len(data)

    def tell(self) -> int:
        return self._size_bytes

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        self.closed = True  # who opened the stream below closes it

    def compute_digest(self) -> FileDigest:
        return FileDigest(self._size_bytes, self._sha256.hexdigest())


def _read_part(plan: ReadPlan, part: ReadPart, budget: TaskBudget) -> Iterator[pa.RecordBatch]:
    if plan.order is None:
        yield from _read_records(part)
    elif plan.kind is ReadKind.LATEST:
        yield from read_latest_records(part.log, plan.order, budget)
    elif part.before is not None and part.after is not None:
        yield from read_key_changes(
            part.log.partition, part.before, part.after, plan.order, budget, compares_records=plan.compares_records
        )


def _read_records(part: ReadPart) -> Iterator[pa.RecordBatch]:
    """Yield the records of a part; a segment that ends behind it is left where the part ends."""
    end = part.log.log_end_offset
    for segment in part.log.segments:
        try:
            for batch in read_segment(segment, part.log.log_start_offset):
                wanted = batch.slice(0, int(read_offsets(batch).searchsorted(end)))
                if wanted.num_rows:
                    yield wanted
                if wanted.num_rows < batch.num_rows:
                    break
        except DamagedSegmentError as problem:
            raise DamagedSegmentError(f"segment {segment.path} {problem}") from problem
