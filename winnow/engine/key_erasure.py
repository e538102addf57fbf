"""Finds records of some keys in files, and writes segments again without them.

Everything is read once and streamed, row group by row group, with all checks of a read: memory does not depend on the
size of a segment.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from winnow.errors import DamagedSegmentError
from winnow.files import storage
from winnow.files.checked_reading import read_segment, read_segment_columns, translate_read_errors
from winnow.files.file_copies import compute_file_digest
from winnow.files.key_sets import KeySet
from winnow.files.segments import ARROW_SCHEMA, SegmentWriter, cast_to_segment_schema, locate_segment
from winnow.values.model import Segment


@dataclass(frozen=True, slots=True)
class KeyHits:
    """Records of wanted keys in one file: how many, and by number of a key that is there its highest offset."""

    records: int = 0
    newest: dict[int, int] = field(default_factory=dict)


def find_keys_in_segment(segment: Segment, wanted: KeySet) -> KeyHits:
    """Find the records of ``wanted`` keys in a live segment; reads keys and offsets.

    Raises:
        DamagedSegmentError, FileNotFoundError, OSError, ServiceError: as
            :func:`winnow.files.checked_reading.read_segment`.
    """
    records, newest = 0, dict[int, int]()
    for batch in read_segment_columns(segment, ("offset", "key")):
        numbers = wanted.number(batch.column("key"))
        found = numbers.is_valid()
        records += found.true_count
        offsets = batch.column("offset").filter(found)
        newest |= zip(numbers.filter(found).to_pylist(), offsets.to_pylist(), strict=True)
    return KeyHits(records, newest)


def count_keys_in_file(uri: str, wanted: KeySet) -> int:
    """Count the records of ``wanted`` keys in a file that has a column ``key`` and is in no manifest.

    Raises:
        DamagedSegmentError: it cannot be read, so nobody knows whose records it holds.
        FileNotFoundError, OSError, ServiceError: as :func:`winnow.files.checked_reading.read_segment`.
    """
    with translate_read_errors():
        filesystem, path = storage.open_filesystem(uri)
        with storage.translate_store_errors(uri), filesystem.open_input_file(path) as stream:
            file = pq.ParquetFile(stream, page_checksum_verification=True)
            if "key" not in file.schema_arrow.names:
                raise DamagedSegmentError("has no column for keys")
            found = decoded = 0
            for batch in file.iter_batches(columns=["key"]):
                decoded += batch.num_rows
                found += wanted.number(batch.column("key").cast(pa.binary())).is_valid().true_count
            if decoded != file.metadata.num_rows:
                raise DamagedSegmentError(f"holds {decoded:,} records instead of {file.metadata.num_rows:,}")
            return found


def compute_held_digest(uri: str) -> str:
    """Compute the sha256 of a file that held a key, in hex; empty if it is gone.

    Raises:
        ServiceError: the object store does not answer.
    """
    try:
        return compute_file_digest(uri).sha256
    except FileNotFoundError:
        return ""


def rewrite_without_keys(
    segment: Segment, wanted: KeySet, tombstones: Collection[int], folder: str, below: str
) -> tuple[Segment, ...]:
    """Write ``segment`` again without the records of ``wanted`` keys; offsets stay.

    Args:
        segment: the segment.
        wanted: the keys.
        tombstones: offsets of records of these keys that stay as tombstones.
        folder: in which a folder of the partition gets the new segments; nothing refers to them.
        below: the table's folder.

    Raises:
        DamagedSegmentError, FileNotFoundError, OSError, ServiceError: as
            :func:`winnow.files.checked_reading.read_segment`.
    """
    own_folder = storage.join(folder, f"t{segment.partition}")
    writer = SegmentWriter(
        partition=segment.partition,
        segment_bytes=max(segment.size_bytes, 1),
        name=lambda number: locate_segment(own_folder, segment.partition, segment.first_offset, number),
        below=below,
    )
    emptied = pa.array(sorted(tombstones), pa.int64())
    with writer:
        for batch in read_segment(segment):
            erased = wanted.number(batch.column("key")).is_valid()
            stays = pc.and_(erased, pc.is_in(batch.column("offset"), value_set=emptied))
            kept = batch.filter(pc.or_(pc.invert(erased), stays))
            if len(emptied):
                kept = _empty_values(kept, pc.is_in(kept.column("offset"), value_set=emptied))
            writer.write(cast_to_segment_schema(kept))
        return writer.finish()


def _empty_values(batch: pa.RecordBatch, which: pa.Array) -> pa.RecordBatch:
    """Return ``batch`` with those records as tombstones without headers."""
    if not which.true_count:
        return batch
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns["value"] = pc.if_else(which, pa.scalar(None, pa.binary()), columns["value"])
    headers = ARROW_SCHEMA.field("headers").type
    none = pa.array([[]], headers)
    places = pc.if_else(which, batch.num_rows, pa.array(range(batch.num_rows), pa.int64()))
    columns["headers"] = pa.concat_arrays([columns["headers"].cast(headers), none]).take(places)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
