"""The engine picks the oracle's survivors under every strategy, from real Parquet files, over tail and head."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from winnow.engine.rewrite import Budget, compact_partition
from winnow.engine.winners import greatest_offset
from winnow.errors import UsageError
from winnow.files.schema import ARROW_SCHEMA
from winnow.files.segments import SegmentWriter
from winnow.model import Headers, OffsetRange, PartitionPlan, Plan, Reason, Record, Segment, StagedPartition, Strategy
from winnow.semantics import survivors

HEADER = "it's v"
Row = tuple[int, bytes, bytes | None, int | None, Headers | None]

_longs = st.sampled_from([-(2**63), -1, 0, 1, 5, 2**56, 2**63 - 1]).map(lambda n: n.to_bytes(8, "big", signed=True))
_values = st.none() | st.sampled_from([b"", b"\x01", b"nine byte"]) | _longs
_headers = st.none() | st.lists(st.tuples(st.sampled_from([HEADER, HEADER.upper(), "x"]), _values), max_size=3).map(
    tuple
)
_rows = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.sampled_from([b"", b"a", b"b", b"c"]),
        st.none() | st.just(b"x"),
        st.none() | st.integers(0, 3) | st.just(253_402_300_799_999),
        _headers,
    ),
    min_size=1,
    max_size=20,
)


def _records(rows: list[Row]) -> list[Record]:
    offset = -1
    records = []
    for gap, key, value, timestamp_ms, headers in rows:
        offset += gap
        records.append(Record(offset, key, value, timestamp_ms, headers))
    return records


def _segment(folder: str, number: int, records: list[Record]) -> Segment:
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
    with SegmentWriter(partition=0, segment_bytes=1 << 30, name=lambda _: f"{folder}/in-{number}.parquet") as writer:
        writer.write(pa.RecordBatch.from_pylist(rows, schema=ARROW_SCHEMA))
    return writer.finish()[0]


def _kept_offsets(partition: PartitionPlan, staged: StagedPartition) -> list[int]:
    gone = {path for rewrite in staged.rewrites for path in rewrite.inputs}
    paths = [segment.path for segment in partition.segments if segment.path not in gone]
    paths += [segment.path for rewrite in staged.rewrites for segment in rewrite.outputs]
    return sorted(offset for path in paths for offset in pq.read_table(path, columns=["offset"])["offset"].to_pylist())


@given(
    rows=_rows,
    cuts=st.sets(st.integers(1, 19), max_size=3),
    strategy=st.sampled_from(list(Strategy)),
    expired_below=st.integers(0, 30),
)
def test_survivors_equal_the_oracle_under_every_strategy(
    rows: list[Row], cuts: set[int], strategy: Strategy, expired_below: int
) -> None:
    """Missing timestamps, every header encoding, tombstones whose horizon has passed: the same records survive."""
    records = _records(rows)
    edges = [0, *sorted(cut for cut in cuts if cut < len(records)), len(records)]
    end = records[-1].offset + 1
    expected = survivors(
        records,
        next_first_dirty_offset=end,
        strategy=strategy,
        header=HEADER,
        expired=lambda offset: offset < expired_below,
    )
    with tempfile.TemporaryDirectory() as folder:
        segments = tuple(
            _segment(folder, number, records[start:stop])
            for number, (start, stop) in enumerate(itertools.pairwise(edges))
        )
        partition = PartitionPlan(
            0, Reason.DIRTY_RATIO, 0, 0, end, end, segments, (OffsetRange(0, expired_below),) if expired_below else ()
        )
        plan = Plan("plan", "t", "u", f"{folder}/data", 0, strategy, HEADER, 0, 1 << 30, (partition,), "1")
        budget = Budget(1 << 28, 1, str(Path(folder) / "spill"))
        staged = compact_partition(plan, partition, attempt="a", budget=budget)
        assert _kept_offsets(partition, staged) == [record.offset for record in expected.kept]
    facts = staged.facts
    assert (facts.records_superseded, facts.tombstones_expired) == (
        len(expected.superseded),
        len(expected.tombstones_expired),
    )
    assert facts.records_in == len(records)


def test_strategy_header_without_a_name_is_refused() -> None:
    """KIP-280's sentence."""
    with pytest.raises(UsageError, match=r"^compaction\.strategy\.header must be specified\.$"):
        greatest_offset(Strategy.HEADER, None)
