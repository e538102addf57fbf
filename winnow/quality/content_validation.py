"""Validates rewritten records with a topic's own suite.

New files are read in bounded chunks and every chunk is judged by itself; an expectation holds if it holds on every
chunk. Suites must therefore be row-wise, which is checked when they are loaded. Of a record that violates one only the
offset is kept.
GX's Spark engine would need several jobs per check for the same answer.

The columns that a suite may name: ``partition``, ``offset``, ``timestamp``, ``timestampType``; ``key`` and ``value`` as
text (None when null or not UTF-8); ``key_is_utf8`` and ``value_is_utf8`` (true for null); ``value_is_null``;
``key_bytes`` and ``value_bytes`` (length, None when null); ``header_names`` (joined by commas, None without headers).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from winnow.errors import BadInputError, ValidationBrokenError
from winnow.quality import reading
from winnow.quality.gx_runtime import (
    GX_LOCK,
    find_raised_exception,
    index_results_by_id,
    make_ephemeral_context,
    spare_repeated_work,
)
from winnow.quality.suites import RAISED, Suite, check_row_wise, convert_to_gx, load_suite
from winnow.values.model import Plan, Severity
from winnow.values.results import FIRST_OFFSETS, Failure, StagedPartition, StagingManifest

if TYPE_CHECKING:
    import pandas as pd

LOG = logging.getLogger(__name__)
MAXIMUM_CHUNK_ROWS = 250_000
"""Maximum records per chunk; fewer where records are large (:data:`winnow.quality.reading.BATCH_BYTES`)."""
COLUMNS = (
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "key",
    "value",
    "key_is_utf8",
    "value_is_utf8",
    "value_is_null",
    "key_bytes",
    "value_bytes",
    "header_names",
)


def load_content_suite(name: str, extra_folder: Path | None = None) -> Suite:
    """Load a suite that can be judged chunk by chunk. Imports GX.

    Raises:
        ConfigurationError: no such suite, not valid, or not row-wise.
    """
    suite = load_suite(name, extra_folder)
    with GX_LOCK:
        check_row_wise(suite)
        convert_to_gx(suite)
    return suite


def validate_content(
    suite_name: str,
    plan: Plan,
    manifest: StagingManifest,
    *,
    extra_folder: Path | None,
    chunk_rows: int = MAXIMUM_CHUNK_ROWS,
) -> list[Failure]:
    """Judge the new records of every staged partition; return one failure per failing expectation and partition.

    A check that raised instead of judging gives a single failure without partition, whose expectation ends in
    :data:`winnow.quality.suites.RAISED`: then nothing is known about the data.

    An unreadable new file is left to the structural suite, which fails on it. Records of segments kept by reference
    were judged when they were written, and are not read.

    Raises:
        ConfigurationError: the suite is unknown, not valid, or not row-wise.
        ServiceError: the object store cannot be reached.
    """
    suite = load_content_suite(suite_name, extra_folder)
    with GX_LOCK:
        validator = ChunkValidator(suite)
        try:
            return [f for staged in manifest.partitions for f in _validate_partition(validator, staged, chunk_rows)]
        except CheckFailedToRunError as problem:
            return [problem.failure]


def _validate_partition(validator: ChunkValidator, staged: StagedPartition, chunk_rows: int) -> list[Failure]:
    frames = (make_record_frame(batch) for batch in _read_new_records(staged, chunk_rows))
    violations = find_violations(validator, staged.partition, frames)
    return [
        Failure(
            staged.partition,
            expectation.id,
            expectation.severity,
            f"{expectation.sentence} {violations.describe(expectation.id, 'new records')}",
            suite=validator.suite.name,
        )
        for expectation in validator.suite.expectations
        if expectation.id in violations.first_offsets
    ]


def judge_records(suite: Suite, batches: Mapping[int, Iterable[pa.RecordBatch]]) -> dict[int, Violations]:
    """Judge records, by partition, and find what violates ``suite``, which :func:`load_content_suite` loaded.

    Raises:
        CheckFailedToRunError: a check raised instead of judging.
    """
    with GX_LOCK:
        validator = ChunkValidator(suite)
        return {
            partition: find_violations(validator, partition, map(make_record_frame, of_partition))
            for partition, of_partition in batches.items()
        }


@dataclass(frozen=True)
class Violations:
    """The rows of a partition that violate expectations, by their ids; ``rows``: how many were judged."""

    rows: int
    counts: Mapping[str, int]
    first_offsets: Mapping[str, Sequence[int]]

    def describe(self, expectation_id: str, noun: str) -> str:
        """Describe how many of the rows violate the expectation, and where the first are. ``noun``: what the rows are.

        An expectation about a column as a whole, its type for instance, has no rows at fault.
        """
        offsets = self.first_offsets[expectation_id]
        if not offsets:
            return f"Violated by the column as a whole, in {self.rows:,} {noun}."
        places = ", ".join(map(str, offsets))
        return f"Violated in {self.counts[expectation_id]:,} of {self.rows:,} {noun}, the first at offset {places}."


def find_violations(validator: ChunkValidator, partition: int, frames: Iterable[pd.DataFrame]) -> Violations:
    """Judge ``frames`` of one partition, whose labels are offsets.

    Raises:
        CheckFailedToRunError: a check raised instead of judging.
    """
    rows = 0
    counts: Counter[str] = Counter()
    first: dict[str, list[int]] = {}
    for frame in frames:
        rows += len(frame)
        for name, offsets in validator.locate_failing(frame, partition).items():
            counts[name] += len(offsets)
            first[name] = sorted([*first.get(name, ()), *offsets])[:FIRST_OFFSETS]
    return Violations(rows, counts, first)


def _read_new_records(staged: StagedPartition, chunk_rows: int) -> Iterator[pa.RecordBatch]:
    for rewrite in staged.rewrites:
        for segment in rewrite.outputs:
            try:
                yield from (b for b in reading.read_batches(segment.path, max_rows=chunk_rows) if b.num_rows)
            except BadInputError as problem:
                LOG.warning("The content check of %s did not finish: %s", segment.path, problem)


class CheckFailedToRunError(ValidationBrokenError):
    """A check raised instead of judging; who judges makes a finding of it."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.detail)
        self.failure = failure


class ChunkValidator:
    """The suite, ready to judge one frame after another."""

    def __init__(self, suite: Suite) -> None:
        self.suite = suite
        context = make_ephemeral_context()
        self._gx_suite = context.suites.add(convert_to_gx(suite))
        asset = context.data_sources.add_pandas("staged").add_dataframe_asset("records")
        self._batch_definition = asset.add_batch_definition_whole_dataframe("chunk")

    def list_failing(self, frame: pd.DataFrame, partition: int) -> list[str]:
        """Return the ids of the expectations that do not hold on ``frame``.

        Raises:
            CheckFailedToRunError: a check raised instead of judging.
        """
        found = self._judge(frame, partition, "BOOLEAN_ONLY")
        return [name for name, result in found.items() if not result.success]

    def locate_failing(self, frame: pd.DataFrame, partition: int) -> dict[str, list[int]]:
        """Return, by the ids of the expectations that do not hold on ``frame``, the labels of the rows at fault.

        Raises:
            CheckFailedToRunError: as :meth:`list_failing`.
        """
        if not self.list_failing(frame, partition):
            return {}
        found = self._judge(frame, partition, "COMPLETE")
        return {
            name: [int(label) for label in result.result.get("unexpected_index_list") or ()]
            for name, result in found.items()
            if not result.success
        }

    def _judge(
        self, frame: pd.DataFrame, partition: int, result_format: Literal["BOOLEAN_ONLY", "COMPLETE"]
    ) -> dict[str, Any]:
        batch = self._batch_definition.get_batch(batch_parameters={"dataframe": frame})
        with spare_repeated_work():
            outcome = batch.validate(self._gx_suite, result_format=result_format)
        found = index_results_by_id(outcome.results)
        for expectation in self.suite.expectations:
            result = found.get(expectation.id)
            kind = "no result" if result is None else find_raised_exception(result.exception_info)
            if kind is not None:
                raise CheckFailedToRunError(
                    Failure(
                        None,
                        expectation.id + RAISED,
                        Severity.FAIL,
                        f"A check of suite {self.suite.name} raised ({kind}) instead of judging partition {partition}: "
                        "nothing is known about the data.",
                        suite=self.suite.name,
                    )
                )
        return found


def make_record_frame(batch: pa.RecordBatch) -> pd.DataFrame:
    """Return the records as a frame with the columns of :data:`COLUMNS`; the label of a row is its offset."""
    key, key_is_utf8 = _decode_texts(batch.column("key"))
    value, value_is_utf8 = _decode_texts(batch.column("value"))
    columns: dict[str, Any] = {
        "partition": batch.column("partition"),
        "offset": batch.column("offset"),
        "timestamp": batch.column("timestamp"),
        "timestampType": batch.column("timestampType"),
        "key": key,
        "value": value,
        "key_is_utf8": key_is_utf8,
        "value_is_utf8": value_is_utf8,
        "value_is_null": batch.column("value").is_null(),
        "key_bytes": pc.binary_length(batch.column("key")),
        "value_bytes": pc.binary_length(batch.column("value")),
        "header_names": _get_header_names(batch.column("headers")),
    }
    frame = pa.table([columns[name] for name in COLUMNS], names=list(COLUMNS)).to_pandas()
    frame.index = batch.column("offset").to_numpy()
    return frame


def _decode_texts(column: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the column as text, null where it is not UTF-8, and which values are UTF-8 or null."""
    try:
        return column.cast(pa.string()), pa.array([True] * len(column), pa.bool_())
    except pa.ArrowInvalid:
        texts = [_decode_utf8(raw) for raw in column.to_pylist()]
        text = pa.array(texts, pa.string())
        return text, pc.or_(text.is_valid(), column.is_null())


def _decode_utf8(raw: bytes | None) -> str | None:
    try:
        return None if raw is None else raw.decode()
    except UnicodeDecodeError:
        return None


def _get_header_names(headers: pa.Array) -> pa.Array:
    lengths = pc.list_value_length(headers).fill_null(0).to_pylist()
    names = pc.struct_field(headers.flatten(), "key").fill_null("").to_pylist()
    joined: list[str | None] = []
    at = 0
    for length in lengths:
        joined.append(",".join(names[at : at + length]) if length else None)
        at += length
    return pa.array(joined, pa.string())
