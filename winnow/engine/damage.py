"""Explains why a unit of work failed: a damaged segment, a service that does not answer, or a defect.

An engine's exception seldom says whether reading or writing failed, and it may quote data. So its text is not used:
the planned segments are checked again by other code, and the fault found there is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from winnow.engine.events import PartitionFailure, PlanFailure, format_failures
from winnow.engine.job_documents import DAMAGED, MISSING
from winnow.errors import (
    BadInputError,
    DamagedSegmentError,
    Explanation,
    ServiceError,
    WinnowError,
    find_worst_exit_code,
)
from winnow.files import checked_reading, object_store, storage, storage_health
from winnow.files.segments import ARROW_SCHEMA
from winnow.values.model import PartitionPlan, Segment

PROBE_BATCH_ROWS = 4_096

_PROBE_BYTES = 8 << 20

_RESOURCE_ERRORS = (MemoryError, duckdb.OutOfMemoryException, duckdb.InterruptException)


class CopyCountError(WinnowError):
    """The number of copied records differs from the survivors: a disordered segment, or a defect of the engine."""


def explain_failure(problem: Exception, topic: str, partition: PartitionPlan) -> WinnowError:
    """Return the error to report for a partition that failed with ``problem``, without user bytes.

    Returns:
        DamagedSegmentError (exit 4) naming the segment that is missing, unreadable or out of order; ServiceError (exit
        6) if disk or memory are exhausted or the object store does not answer; a Winnow error as it is; else a plain
        WinnowError (exit 1) that names the kind of the exception.
    """
    if isinstance(problem, WinnowError) and not isinstance(problem, BadInputError | CopyCountError):
        return problem
    shortage = storage_health.describe_machine_fault(problem)
    if shortage is not None and storage_health.is_unrelated_to_reading(shortage):
        return ServiceError(f"{shortage}, where the engine spills or writes")
    if not isinstance(problem, _RESOURCE_ERRORS):
        try:
            found = _find_damage(partition)
        except ServiceError as unreachable:
            return unreachable
        except Exception:  # a failing check must not hide the first error
            found = None
        if found is not None:
            segment, wrong = found
            return DamagedSegmentError(f"segment {segment.path} {wrong}")
    if isinstance(problem, WinnowError):
        return problem
    if any(not storage.is_local(segment.path) for segment in partition.segments) and _is_of_store(problem):
        return ServiceError(f"the object store did not answer for a while ({type(problem).__name__})")
    if shortage is not None:
        return ServiceError(f"{shortage}, where the engine spills or writes")
    return WinnowError(f"unexpected {type(problem).__name__} while {topic}-{partition.partition} was rewritten")


def _is_of_store(problem: Exception) -> bool:
    # DuckDB hands an exception of Arrow's client on as text.
    return isinstance(problem, OSError | duckdb.IOException) or (
        type(problem) is duckdb.Error and "\nOSError: " in str(problem)
    )


def _find_damage(partition: PartitionPlan) -> tuple[Segment, str] | None:
    """Return the first planned segment that differs from what was written, and its fault.

    Raises:
        ServiceError: the object store does not answer.
    """
    # Sizes cost a request each, contents a whole read.
    for check in (_check_size, _check_content, _check_with_duckdb):
        for segment in partition.segments:
            try:
                wrong = check(segment)
            except FileNotFoundError:
                wrong = "is missing"
            except OSError as problem:
                wrong = _describe_read_error(segment, problem)
            if wrong is not None:
                return segment, wrong
    return None


def _check_size(segment: Segment) -> str | None:
    found = storage.read_size_bytes(segment.path)
    if found is None:
        return "is missing"
    return None if found == segment.size_bytes else f"has {found:,} bytes instead of {segment.size_bytes:,}"


def _check_content(segment: Segment) -> str | None:
    filesystem, path = storage.open_filesystem(segment.path)
    records = 0
    above = segment.first_offset - 1
    try:
        with filesystem.open_input_file(path) as stream:
            source = pq.ParquetFile(stream, page_checksum_verification=True, pre_buffer=False)
            if source.schema_arrow.names != ARROW_SCHEMA.names:
                return "has other columns than a segment"
            for batch in source.iter_batches(PROBE_BATCH_ROWS, use_threads=False):
                records += batch.num_rows
                offsets = pa.concat_arrays([pa.array([above], pa.int64()), batch.column("offset")])
                if not pc.all(pc.less(offsets[:-1], offsets[1:])).as_py():
                    return "holds offsets that do not increase"
                above = offsets[-1].as_py()
    except pa.ArrowMemoryError:
        raise  # says nothing about the segment
    except pa.ArrowException:
        return "cannot be decoded"
    if above > segment.last_offset:
        return f"holds offsets above {segment.last_offset}, its last"
    return None if records == segment.records else f"holds {records:,} records instead of {segment.records:,}"


def _check_with_duckdb(segment: Segment) -> str | None:
    return None if checked_reading.is_readable_by_duckdb(segment.path) else checked_reading.UNREADABLE_BY_DUCKDB


def _describe_read_error(segment: Segment, problem: OSError) -> str:
    """Describe an ``OSError``, which Arrow raises for damaged pages too, and for a store that does not answer."""
    if storage.is_local(segment.path):
        return "cannot be read"
    if object_store.is_store_error(problem):
        # What the store gives a moment later, perhaps to another session, says nothing about that.
        raise ServiceError(f"the object store does not give {segment.path} ({type(problem).__name__})") from None
    try:
        filesystem, path = storage.open_filesystem(segment.path)
        with filesystem.open_input_stream(path) as stream:
            while stream.read(_PROBE_BYTES):
                continue
    except FileNotFoundError:
        return "is missing"
    except OSError:
        raise ServiceError(f"the object store does not give {segment.path} ({type(problem).__name__})") from None
    return "cannot be decoded"


def explain_read_failure(problem: Exception, path: str) -> WinnowError:
    """Return the error to report for the file at ``path``, which could not be read; nothing in it is of its bytes."""
    if isinstance(problem, WinnowError):
        return problem
    shortage = storage_health.describe_machine_fault(problem)
    if shortage is not None:
        return ServiceError(shortage)
    return WinnowError(f"unexpected {type(problem).__name__} while {path} was read")


class FileFault(NamedTuple):
    """Why a task could not do with a file what it was to do; the fields are those of a plan's outcome."""

    finding: str | None
    text: str
    exit_code: int


def describe_file_fault(problem: Exception, path: str) -> FileFault:
    """Describe ``problem`` with the file at ``path``: it is missing or damaged, or could not be read."""
    if isinstance(problem, FileNotFoundError):
        return FileFault(MISSING, "is missing", 0)
    if isinstance(problem, DamagedSegmentError):
        return FileFault(DAMAGED, str(problem), 0)
    error = explain_read_failure(problem, path)
    return FileFault(None, error.explanation.clause, error.exit_code)


def build_failed_result(problem: Exception, topic: str, partition: PartitionPlan) -> dict[str, Any]:
    """Build a task's result for a failed partition: ``error`` without its full stop, and ``exit_code``."""
    found = explain_failure(problem, topic, partition)
    return {"error": found.explanation.clause, "exit_code": found.exit_code}


def find_plan_failure(topic: str, results: Iterable[Mapping[str, Any]], expected: int) -> PlanFailure | None:
    """Return why ``results`` are not ``expected`` successful partitions; None if they are."""
    results = sorted(results, key=lambda result: int(result["partition"]))
    failed = tuple(
        PartitionFailure(result["partition"], result["error"], int(result["exit_code"]))
        for result in results
        if "error" in result
    )
    if not failed and len(results) == expected:
        return None
    named = format_failures(topic, failed)
    code = find_worst_exit_code([each.exit_code for each in failed]) if failed else WinnowError.exit_code
    return PlanFailure(Explanation(named or "a task returned no result"), code, failed)
