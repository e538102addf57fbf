"""The engine picks the oracle's survivors under every strategy, from real Parquet files, over tail and head."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.surviving_records import compute_survivors
from tests.support.random_logs import HEADER, Row, build_records, version_headers, write_segment_file
from winnow.engine.rewrite import compact_partition
from winnow.engine.task_resources import TaskBudget
from winnow.engine.winners import build_greatest_offset_sql
from winnow.errors import UsageError
from winnow.values.model import OffsetRange, PartitionPlan, Plan, Reason
from winnow.values.results import StagedPartition
from winnow.values.strategies import Strategy

_rows = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.sampled_from([b"", b"a", b"b", b"c"]),
        st.none() | st.just(b"x"),
        st.none() | st.integers(0, 3) | st.just(253_402_300_799_999),
        version_headers,
    ),
    min_size=1,
    max_size=20,
)


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
    covered_end=st.integers(0, 60),
)
def test_survivors_equal_the_oracle_under_every_strategy(
    rows: list[Row], cuts: set[int], strategy: Strategy, expired_below: int, covered_end: int
) -> None:
    """Missing timestamps, every header encoding, tombstones whose horizon has passed: the same records survive.

    The same tombstones wait for late records anew; where nothing does, those that superseded a record go, too.
    """
    # What may go has been covered before.
    covered_end = max(covered_end, expired_below) if covered_end and strategy is not Strategy.OFFSET else 0
    records = build_records(rows)
    edges = [0, *sorted(cut for cut in cuts if cut < len(records)), len(records)]
    end = records[-1].offset + 1
    expected = compute_survivors(
        records,
        next_first_dirty_offset=end,
        strategy=strategy,
        header=HEADER,
        expired=lambda offset: offset < expired_below,
        late_arrivals=covered_end > 0,
    )
    with tempfile.TemporaryDirectory() as folder:
        segments = tuple(
            write_segment_file(folder, number, records[start:stop])
            for number, (start, stop) in enumerate(itertools.pairwise(edges))
        )
        partition = PartitionPlan(
            0,
            Reason.DIRTY_RATIO,
            0,
            0,
            end,
            end,
            segments,
            (OffsetRange(0, expired_below),) if expired_below else (),
            covered_end=covered_end,
        )
        plan = Plan("plan", "t", "u", f"{folder}/data", 0, strategy, HEADER, 0, 1 << 30, (partition,), "1")
        budget = TaskBudget(1 << 28, 1, str(Path(folder) / "spill"))
        staged = compact_partition(plan, partition, attempt="a", budget=budget)
        assert _kept_offsets(partition, staged) == [record.offset for record in expected.kept]
    facts = staged.facts
    assert (facts.records_superseded, facts.tombstones_expired) == (
        len(expected.superseded),
        len(expected.tombstones_expired),
    )
    assert [offset for each in facts.extended for offset in range(each.start, each.end)] == [
        offset for offset in expected.extended if offset < covered_end
    ]
    assert facts.records_in == len(records)


def test_strategy_header_without_a_name_is_refused() -> None:
    """KIP-280's sentence."""
    with pytest.raises(UsageError, match=r"^compaction\.strategy\.header must be specified\.$"):
        build_greatest_offset_sql(Strategy.HEADER, None)
