"""Compares the newest records of a log with a topic that is to go on behind them: what both have, how old it is. Pure.

A mirror has the records of its source, at other offsets and later. Taken as a new epoch, what it has of the log already
would be appended once more and make old values the newest. Two records are equal if key, value and timestamp are; where
brokers replace timestamps by those of the arrival, key and value alone are compared, and that decides nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from winnow.arrivals.compare_with_log import read_log_segment
from winnow.arrivals.erased_records import ErasedRecords
from winnow.kafka.range_reader import BrokerRange, RangeReader
from winnow.values.model import OffsetRange, Segment

COMPARED_RECORDS = 500
"""Newest records of a partition of the log that are compared."""
COMPARED_OFFSETS = 20_000
"""Maximum offsets at the brokers in one window of a comparison; there are at most two windows per partition."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What is compared of a record. ``digest``: of key and value. ``timestamp_ms``: None if the producer set none.

    ``headers``: a digest of them, which is compared with a mirror's only.
    """

    offset: int
    timestamp_ms: int | None
    key: bytes
    digest: bytes
    headers: bytes = b""


@dataclass(frozen=True, slots=True)
class PartitionOverlap:
    """How a partition at the brokers compares with the newest records of the log.

    ``offsets``: from log start to last stable offset. ``here``, ``there``: records compared. ``equal``: of those at the
    brokers, how many the log has. ``position``: the offset behind the last of these; None if there is none, or if it is
    not shown. ``lacking``: newest records of the log, after all that are there, too. ``unexplained``: records before
    ``position`` that the log never had. ``keys_here``, ``keys_in_both``: different keys among the records compared.
    ``newest_here_ms``, ``newest_there_ms``: newest timestamps of producers among them, None if there are none.
    ``aligned``: the order of the records shows where to go on. ``passed``: records before ``position`` then that are
    not here, where offsets are empty here. ``repeated``: those that the mirror has again. ``doubt``: why the order does
    not show it, if it was to.
    """

    partition: int
    offsets: OffsetRange
    here: int
    there: int
    equal: int
    position: int | None
    lacking: int
    unexplained: int
    keys_here: int
    keys_in_both: int
    newest_here_ms: int | None
    newest_there_ms: int | None
    aligned: bool = False
    passed: int = 0
    repeated: int = 0
    doubt: str | None = None

    @property
    def is_doubtful(self) -> bool:
        """Whether to begin an epoch with it may make old values the newest."""
        return not self.aligned and (bool(self.equal) or self.is_older or self.doubt is not None)

    @property
    def is_older(self) -> bool:
        """Whether everything compared at the brokers is older than the newest record of the log."""
        if self.newest_here_ms is None or self.newest_there_ms is None:
            return False
        return self.newest_there_ms < self.newest_here_ms


def digest_bytes(value: bytes | None) -> bytes:
    """Compute a digest of a key, or of a value; null is another one than no bytes."""
    return hashlib.blake2b(b"" if value is None else b"\x01" + value, digest_size=16).digest()


def choose_windows(offsets: OffsetRange, first: int | None) -> list[OffsetRange]:
    """Choose which of ``offsets`` at the brokers are compared: from ``first`` on, and up to the end.

    ``first``: the first offset that is not older than the records of the log; None: all are older.
    """
    tail = OffsetRange(max(offsets.start, offsets.end - COMPARED_OFFSETS), offsets.end)
    if first is None or first >= tail.start:
        return [tail] if tail.start < tail.end else []
    start = max(first, offsets.start)
    head = OffsetRange(start, min(start + COMPARED_OFFSETS, offsets.end))
    return [OffsetRange(start, offsets.end)] if head.end >= tail.start else [head, tail]


def compare_partition(
    partition: int,
    offsets: OffsetRange,
    here: Sequence[Fingerprint],
    windows: Iterable[Iterable[Fingerprint]],
    *,
    begins_at: int,
    is_from_start: bool = True,
) -> PartitionOverlap:
    """Compare the newest records of a partition with those at the brokers.

    Args:
        partition: its number.
        offsets: what the brokers have of it.
        here: the newest records of the log, with its offsets, in their order.
        windows: the records at the brokers that are compared, with the brokers' offsets, in their order.
        begins_at: the offset of the log before which it has no record of the epoch that would end.
        is_from_start: whether the first window begins at the brokers' log start.
    """
    exact = {(record.digest, record.timestamp_ms): record.offset for record in here}
    by_content = {record.digest: record.offset for record in here}
    newest_here_ms = max((each.timestamp_ms for each in here if each.timestamp_ms is not None), default=None)
    newest_there_ms: int | None = None
    keys: set[bytes] = set()
    there = equal = unexplained = unknown = newer = 0
    position: int | None = None
    last_here = -1
    is_shown = True
    # The offset of the log after which the next record that the log has must come if nothing lies between.
    before: int | None = begins_at - 1 if is_from_start else None
    for window in windows:
        for record in window:
            there += 1
            keys.add(record.key)
            time_ms = record.timestamp_ms
            if time_ms is not None and (newest_there_ms is None or time_ms > newest_there_ms):
                newest_there_ms = time_ms
            same = by_content.get(record.digest) if time_ms is None else exact.get((record.digest, time_ms))
            if same is None:
                unknown += 1
                newer += time_ms is not None and newest_here_ms is not None and time_ms > newest_here_ms
                continue
            equal += 1
            is_shown = is_shown and time_ms is not None
            # Between two neighbours of the log it never had a record. Elsewhere it may have been compacted away, but it
            # was never newer than all that the log has.
            unexplained += unknown if before is not None and same == before + 1 else newer
            unknown = newer = 0
            before, position, last_here = same, record.offset + 1, max(last_here, same)
        unknown, before = 0, None
    keys_here = {record.key for record in here}
    return PartitionOverlap(
        partition=partition,
        offsets=offsets,
        here=len(here),
        there=there,
        equal=equal,
        position=position if is_shown else None,
        lacking=sum(record.offset > last_here for record in here) if equal else len(here),
        unexplained=unexplained,
        keys_here=len(keys_here),
        keys_in_both=len(keys_here & keys),
        newest_here_ms=newest_here_ms,
        newest_there_ms=newest_there_ms,
    )


CREATE_TIME = 0
_WIDER = 8
"""How much more of a segment is read when its last offsets hold too few records."""


def read_newest(topic: str, segments: Sequence[Segment], left_out: Collection[int] = ()) -> list[Fingerprint]:
    """Read about the newest :data:`COMPARED_RECORDS` records of a partition, in the order of their offsets.

    ``left_out``: offsets that are not compared.

    Raises:
        DamagedSegmentError: a segment of ``topic`` is not what was written.
    """
    newest: list[Fingerprint] = []
    for segment in reversed(segments):
        if len(newest) >= COMPARED_RECORDS:
            break
        newest = [*_read_end(topic, segment), *newest]
    return [record for record in newest[-COMPARED_RECORDS:] if record.offset not in left_out]


def read_from(topic: str, segments: Sequence[Segment], start: int, left_out: Collection[int] = ()) -> list[Fingerprint]:
    """Read all records of a partition from offset ``start`` of the log on, in the order of their offsets.

    ``left_out``: offsets that are not compared.

    Raises:
        DamagedSegmentError: a segment of ``topic`` is not what was written.
    """
    chosen = [segment for segment in segments if segment.last_offset >= start]
    return [
        record
        for segment in chosen
        for record in _read_segment(topic, segment, max(start, segment.first_offset))
        if record.offset not in left_out
    ]


def read_window(reader: RangeReader, window: BrokerRange, erased: ErasedRecords | None = None) -> Iterator[Fingerprint]:
    """Read the records of a range at the brokers; a timestamp that a broker set there counts as none.

    A mirror has its own brokers' timestamps of the arrival, or those of its source, whoever set them there.

    ``erased``: what the log leaves out of its input, and so is left out here.

    Raises:
        BadInputError: whether a record of an erased key is old cannot be told.
        TruncatedRangeError, ServiceError: as of the reader.
    """
    for batch in reader.read(window):
        kept = batch if erased is None else erased.remove(batch, f"Kafka's {window}")
        yield from _make_fingerprints(kept, of_producers=True)


def _read_end(topic: str, segment: Segment) -> list[Fingerprint]:
    width = COMPARED_RECORDS
    while True:
        start = max(segment.first_offset, segment.last_offset + 1 - width)
        records = _read_segment(topic, segment, start)
        if start == segment.first_offset or len(records) >= COMPARED_RECORDS:
            return records
        width *= _WIDER


def _read_segment(topic: str, segment: Segment, start: int) -> list[Fingerprint]:
    batches = read_log_segment(topic, segment, start)
    return [record for batch in batches for record in _make_fingerprints(batch, of_producers=False)]


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
