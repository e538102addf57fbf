"""Hypothesis strategies for random logs, as records, Arrow tables and segment files."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence

import pyarrow as pa
from hypothesis import strategies as st

from winnow.engine.strategy_diff import RecordOrder
from winnow.files.segments import ARROW_SCHEMA, SegmentWriter
from winnow.values.model import Headers, Record, Segment
from winnow.values.strategies import Strategy

HEADER = "it's v"
"""The name of the version header; a quote in it must not end an SQL literal."""

Row = tuple[int, bytes | None, bytes | None, int | None, Headers | None]
"""Step to the next offset, key, value, timestamp (ms), headers."""

_longs = st.sampled_from([-(2**63), -1, 0, 1, 5, 2**56, 2**63 - 1]).map(lambda n: n.to_bytes(8, "big", signed=True))
_values = st.none() | st.sampled_from([b"", b"\x01", b"nine byte"]) | _longs
version_headers = st.none() | st.lists(
    st.tuples(st.sampled_from([HEADER, HEADER.upper(), "x"]), _values), max_size=3
).map(tuple)
"""No headers, or up to three: the version's name, the same in another case, or another; versions good and bad."""


any_rows: st.SearchStrategy[list[Row]] = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.none() | st.sampled_from([b"", b"a", b"b", b"c", b"\xff\x00"]),
        st.none() | st.sampled_from([b"", b"x", b"null"]),
        st.none() | st.integers(0, 3) | st.just(253_402_300_799_999),
        version_headers,
    ),
    min_size=1,
    max_size=24,
)
"""Up to 24 rows of few keys, keyless ones and tombstones among them; the last time is that of the year 9999."""


def make_order(strategy: Strategy) -> RecordOrder:
    """The order of ``strategy``; by header it is :data:`HEADER`."""
    return RecordOrder(strategy, HEADER if strategy is Strategy.HEADER else None)


def split_records(records: Sequence[Record], cuts: Collection[int]) -> list[Sequence[Record]]:
    """``records`` cut before those numbers that lie among them."""
    edges = [0, *sorted(cut for cut in cuts if cut < len(records)), len(records)]
    return [records[start:end] for start, end in itertools.pairwise(edges)]


def build_records(rows: Sequence[Row]) -> list[Record]:
    """``rows`` as records of one partition, from offset 0 on."""
    offset = -1
    records = []
    for gap, key, value, timestamp_ms, headers in rows:
        offset += gap
        records.append(Record(offset, key, value, timestamp_ms, headers))
    return records


def build_table(records: Sequence[Record]) -> pa.Table:
    """``records`` with the columns of a segment."""
    rows = [
        {
            "partition": r.partition,
            "offset": r.offset,
            "timestamp": None if r.timestamp_ms is None else r.timestamp_ms * 1000,
            "timestampType": r.timestamp_type,
            "key": r.key,
            "value": r.value,
            "headers": None if r.headers is None else [{"key": k, "value": v} for k, v in r.headers],
        }
        for r in records
    ]
    return pa.Table.from_pylist(rows, schema=ARROW_SCHEMA)


def write_segment_file(folder: str, number: int, records: Sequence[Record]) -> Segment:
    """``records`` as one segment file of partition 0 in ``folder``."""
    with SegmentWriter(partition=0, segment_bytes=1 << 30, name=lambda _: f"{folder}/in-{number}.parquet") as writer:
        for batch in build_table(records).to_batches():
            writer.write(batch)
    return writer.finish()[0]
