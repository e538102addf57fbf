"""Reads the records of a log and of a topic at the brokers that are compared before an epoch begins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from winnow.errors import DamagedSegmentError
from winnow.files.checked_reading import make_damage_error, read_segment
from winnow.kafka.range_reader import BrokerRange, RangeReader
from winnow.pipeline.ingest.kafka_overlap import COMPARED_RECORDS, Fingerprint, digest_bytes
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.values.model import Segment

CREATE_TIME = 0
_WIDER = 8
"""How much more of a segment is read when its last offsets hold too few records."""


def read_newest(topic: str, segments: Sequence[Segment]) -> list[Fingerprint]:
    """Read about the newest :data:`COMPARED_RECORDS` records of a partition, in the order of their offsets.

    Raises:
        DamagedSegmentError: a segment of ``topic`` is not what was written.
    """
    newest: list[Fingerprint] = []
    for segment in reversed(segments):
        if len(newest) >= COMPARED_RECORDS:
            break
        newest = [*_read_end(topic, segment), *newest]
    return newest[-COMPARED_RECORDS:]


def read_from(topic: str, segments: Sequence[Segment], start: int) -> list[Fingerprint]:
    """Read all records of a partition from offset ``start`` of the log on, in the order of their offsets.

    Raises:
        DamagedSegmentError: a segment of ``topic`` is not what was written.
    """
    chosen = [segment for segment in segments if segment.last_offset >= start]
    return [record for segment in chosen for record in _read_segment(topic, segment, max(start, segment.first_offset))]


def read_window(reader: RangeReader, window: BrokerRange) -> Iterator[Fingerprint]:
    """Read the records of a range at the brokers; a timestamp that a broker set there counts as none.

    A mirror has its own brokers' timestamps of the arrival, or those of its source, whoever set them there.

    Raises:
        TruncatedRangeError, ServiceError: as of the reader.
    """
    for batch in reader.read(window):
        yield from _make_fingerprints(batch, of_producers=True)


def _read_end(topic: str, segment: Segment) -> list[Fingerprint]:
    width = COMPARED_RECORDS
    while True:
        start = max(segment.first_offset, segment.last_offset + 1 - width)
        records = _read_segment(topic, segment, start)
        if start == segment.first_offset or len(records) >= COMPARED_RECORDS:
            return records
        width *= _WIDER


def _read_segment(topic: str, segment: Segment, start: int) -> list[Fingerprint]:
    try:
        batches = read_segment(segment, start)
        return [record for batch in batches for record in _make_fingerprints(batch, of_producers=False)]
    except DamagedSegmentError as problem:
        raise make_damage_error(topic, segment, str(problem), NOTHING_INGESTED) from None


def _make_fingerprints(batch: pa.RecordBatch, *, of_producers: bool) -> Iterator[Fingerprint]:
    """Make what is compared of records; ``of_producers``: a timestamp that a broker set counts as none."""
    times = batch.column("timestamp")
    if pa.types.is_timestamp(times.type):
        times = pc.divide(pc.cast(times, pa.int64()), 1000)
    rows = zip(
        batch.column("offset").to_pylist(),
        times.to_pylist(),
        batch.column("timestampType").to_pylist(),
        batch.column("key").to_pylist(),
        batch.column("value").to_pylist(),
        batch.column("headers").to_pylist(),
        strict=True,
    )
    for offset, time_ms, kind, key, value, headers in rows:
        key_digest = digest_bytes(key)
        counts = kind == CREATE_TIME or not of_producers
        content = key_digest + digest_bytes(value)
        yield Fingerprint(offset, time_ms if counts else None, key_digest, content, _digest_headers(headers))


def _digest_headers(headers: Sequence[Mapping[str, Any]] | None) -> bytes:
    """Compute a digest of headers in their order; none at all and an empty list are the same."""
    parts = [digest_bytes(each["key"].encode()) + digest_bytes(each["value"]) for each in headers or ()]
    return digest_bytes(b"".join(parts)) if parts else b""
