"""Explains why a unit of work failed: a damaged segment, a service that does not answer, or a defect.

An engine's exception seldom says whether it choked on what it read or on what it wrote, and it may quote data. So its
words are not believed: the planned segments are looked at again, by other code, and what is wrong with one is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from winnow.engine.events import PartitionFailure, PlanFailure
from winnow.errors import (
    BadInputError,
    DamagedSegmentError,
    ServiceError,
    WinnowError,
    find_worst_exit_code,
    join_first,
)
from winnow.files import storage, storage_health
from winnow.files.segments import ARROW_SCHEMA
from winnow.model import PartitionPlan, Segment

PROBE_BATCH_ROWS = 4_096

_PROBE_BYTES = 8 << 20

_RESOURCE_ERRORS = (MemoryError, duckdb.OutOfMemoryException, duckdb.InterruptException)


class CopyCountError(WinnowError):
    """Not as many records were copied as survive: a segment that is not in order, or a fault of the engine's own."""


def explain_failure(problem: Exception, topic: str, partition: PartitionPlan) -> WinnowError:
    """``problem`` as the error to report for one partition: what it means, without a byte of user data.

    Returns:
        DamagedSegmentError (exit 4) naming the segment that is missing, cannot be read or is out of order;
        ServiceError (exit 6) when disk or memory do not suffice or the object store does not answer; a Winnow error as
        it is; else a plain WinnowError (exit 1) that names the kind of the exception.
    """
    if isinstance(problem, WinnowError) and not isinstance(problem, BadInputError | CopyCountError):
        return problem
    shortage = storage_health.describe_machine_fault(problem)
    if shortage is not None and storage_health.is_unrelated_to_reading(shortage):
        return ServiceError(f"{shortage}, where the engine spills or writes")
    if not isinstance(problem, _RESOURCE_ERRORS):
        try:
            found = _find_damage(partition)
        except ServiceError as away:
            return away
        except Exception:  # the second look is no reason to lose what the first one met
            found = None
        if found is not None:
            segment, wrong = found
            return DamagedSegmentError(f"segment {segment.path} {wrong}")
    if isinstance(problem, WinnowError):
        return problem
    if any(not storage.is_local(segment.path) for segment in partition.segments) and isinstance(
        problem, OSError | duckdb.IOException
    ):
        return ServiceError(f"the object store did not answer for a while ({type(problem).__name__})")
    if shortage is not None:
        return ServiceError(f"{shortage}, where the engine spills or writes")
    return WinnowError(f"unexpected {type(problem).__name__} while {topic}-{partition.partition} was rewritten")


def _find_damage(partition: PartitionPlan) -> tuple[Segment, str] | None:
    """The first planned segment that is not what it was when it was written, and what is wrong with it.

    Raises:
        ServiceError: the object store does not answer.
    """
    for look in (_check_size, _check_content):  # sizes cost a request each, contents a whole read
        for segment in partition.segments:
            try:
                wrong = look(segment)
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
                    return "holds offsets that do not rise"
                above = offsets[-1].as_py()
    except pa.ArrowMemoryError:
        raise  # nothing is known of the segment
    except pa.ArrowException:
        return "cannot be decoded"
    if above > segment.last_offset:
        return f"holds offsets above {segment.last_offset}, its last"
    return None if records == segment.records else f"holds {records:,} records instead of {segment.records:,}"


def _describe_read_error(segment: Segment, problem: OSError) -> str:
    """What an ``OSError`` means: Arrow reports a damaged page as one, too, and a store that does not answer."""
    if storage.is_local(segment.path):
        return "cannot be read"
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


MAXIMUM_SHOWN_FAILURES = 3
"""Failed partitions that an error names."""


def build_failed_result(problem: Exception, topic: str, partition: PartitionPlan) -> dict[str, Any]:
    """What a task gives back of a partition it could not do: ``error`` without its full stop, and ``exit_code``."""
    found = explain_failure(problem, topic, partition)
    return {"error": str(found).rstrip("."), "exit_code": found.exit_code}


def find_plan_failure(topic: str, results: Iterable[Mapping[str, Any]], expected: int) -> PlanFailure | None:
    """Why ``results`` do not amount to ``expected`` partitions that went well; None when they do."""
    results = sorted(results, key=lambda result: int(result["partition"]))
    failed = tuple(
        PartitionFailure(result["partition"], result["error"], int(result["exit_code"]))
        for result in results
        if "error" in result
    )
    if not failed and len(results) == expected:
        return None
    named = join_first([f"{topic}-{each.partition}: {each.error}" for each in failed], MAXIMUM_SHOWN_FAILURES)
    code = find_worst_exit_code([each.exit_code for each in failed]) if failed else WinnowError.exit_code
    return PlanFailure(named or "a task returned no result", code, failed)
