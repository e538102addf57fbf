"""No older version of a key comes back while it may still be late, in thousands of histories without a file.

By the oracle, and by what decides and remembers in a real run: eligibility, plan, carried state. What the engine would
do in between is done by the oracle's ``survivors`` from the plan alone.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle import surviving_records
from oracle.log_model import LogModel
from oracle.model_values import ModelConfig
from winnow.pipeline.compaction.partition_states import apply_cleaning, apply_retention
from winnow.planning.cleanable import PartitionLog, Rules
from winnow.planning.eligibility import assess
from winnow.planning.plans import plan_partition
from winnow.values.model import OffsetRange, PartitionPlan, Plan, Record, Segment
from winnow.values.strategies import Strategy
from winnow.values.topic_state import Append, PartitionState

HEADER = "v"
LATE_MS = 6
CONFIG = ModelConfig(
    strategy=Strategy.HEADER, header=HEADER, min_cleanable_dirty_ratio=0.0, segment_ms=0, late_arrival_ms=LATE_MS
)

_rows = st.lists(st.tuples(st.sampled_from([b"a", b"b"]), st.booleans(), st.integers(0, 6)), min_size=1, max_size=4)
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), _rows),
        st.tuples(st.just("tick"), st.integers(1, 4)),
        st.tuples(st.just("compact"), st.integers(-1, 2)),
    ),
    min_size=6,
    max_size=30,
)


class OracleLog:
    """The oracle's log."""

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._model = LogModel()

    def append(self, records: list[Record], now_ms: int) -> None:
        self._model.append(records, now_ms)

    def compact(self, as_of_ms: int, now_ms: int) -> int | None:
        """Where the cleaning ended; None where there was none."""
        outcome = self._model.compact(self._config, as_of_ms, now_ms)
        return None if outcome is None else self._model.first_dirty_offset

    def read(self) -> list[Record]:
        return self._model.read()


class PlannedLog:
    """Segments and carried state, as a real log has them, with one segment an append."""

    def __init__(self, config: ModelConfig, most_ranges: int) -> None:
        self._config = config
        self._most_ranges = most_ranges
        self._rules = Rules(
            compacts=True,
            strategy=config.strategy,
            min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
            min_compaction_lag_ms=config.min_compaction_lag_ms,
            max_compaction_lag_ms=config.max_compaction_lag_ms,
            segment_bytes=config.segment_bytes,
            max_segment_ms=config.max_segment_ms,
            strategy_header=config.header,
            late_arrival_ms=config.late_arrival_ms,
        )
        self._files: list[list[Record]] = []
        self._state = PartitionState()

    def append(self, records: list[Record], now_ms: int) -> None:
        self._files.append(records)
        entry = Append("digest", records[0].offset, records[-1].offset, len(records), now_ms)
        end = records[-1].offset + 1
        self._state = replace(self._state, log_end_offset=end, appends=(*self._state.appends, entry))

    def _segments(self) -> tuple[Segment, ...]:
        return tuple(
            Segment(
                path=f"{records[0].offset}",
                partition=0,
                first_offset=records[0].offset,
                last_offset=records[-1].offset,
                records=len(records),
                size_bytes=len(records),
                min_timestamp_ms=min(each.timestamp_ms or 0 for each in records),
                max_timestamp_ms=max(each.timestamp_ms or 0 for each in records),
                tombstones=sum(each.value is None for each in records),
            )
            for records in self._files
        )

    def compact(self, as_of_ms: int, now_ms: int) -> int | None:
        log = PartitionLog("t", 0, self._segments(), self._state)
        clock_ms = max(as_of_ms, now_ms)
        found = assess(log, self._rules, as_of_ms=as_of_ms, cleaning_time_ms=clock_ms, now_ms=now_ms)
        if not found.eligible:
            return None
        partition = plan_partition(log, self._rules, found, as_of_ms=as_of_ms, now_ms=now_ms)
        extended = self._carry_out(partition)
        plan = Plan(
            "p", "t", "u", "d", as_of_ms, self._config.strategy, HEADER, self._config.delete_retention_ms, 1,
            (partition,), "1",
        )  # fmt: skip
        after = list(self._segments())
        self._state = apply_cleaning(
            apply_retention(self._state, partition, after), partition, plan, after, cleaning_time_ms=clock_ms,
            extended=extended,
        )  # fmt: skip
        return partition.next_first_dirty_offset

    def _carry_out(self, partition: PartitionPlan) -> tuple[OffsetRange, ...]:
        outcome = surviving_records.compute_survivors(
            self.read(),
            next_first_dirty_offset=partition.next_first_dirty_offset,
            strategy=self._config.strategy,
            header=HEADER,
            expired=lambda offset: any(offset in each for each in partition.expired),
            late_arrivals=partition.covered_end > 0,
        )
        kept = {each.offset for each in outcome.kept}
        self._files = [left for records in self._files if (left := [each for each in records if each.offset in kept])]
        offsets = sorted(offset for offset in outcome.extended if offset < partition.covered_end)
        # Fewer ranges than a real run may name: those that are too many become one.
        exact = [OffsetRange(offset, offset + 1) for offset in offsets[: self._most_ranges - 1]]
        rest = offsets[self._most_ranges - 1 :]
        return (*exact, OffsetRange(rest[0], rest[-1] + 1)) if rest else tuple(exact)

    def read(self) -> list[Record]:
        return list(itertools.chain.from_iterable(self._files))


@pytest.mark.parametrize("kind", ["oracle", "planned"])
@pytest.mark.parametrize("strategy", [Strategy.TIMESTAMP, Strategy.HEADER])
@settings(max_examples=4 * settings().max_examples)
@given(
    steps=_steps,
    min_lag_ms=st.sampled_from([0, 3]),
    delete_retention_ms=st.sampled_from([0, 9]),
    most_ranges=st.integers(1, 3),
    most_entries=st.sampled_from([2, 512]),
)
def test_nothing_is_read_that_a_record_outranks_which_was_covered_less_than_the_wait_before_it_came(
    kind: str,
    strategy: Strategy,
    steps: list[tuple[str, object]],
    min_lag_ms: int,
    delete_retention_ms: int,
    most_ranges: int,
    most_entries: int,
) -> None:
    """Also where a run may name few ranges and the history have few entries; and everything goes in the end.

    A run that is simulated ahead of the present takes what arrives after it for as late as its as-of.
    """
    config = replace(
        CONFIG, strategy=strategy, min_compaction_lag_ms=min_lag_ms, delete_retention_ms=delete_retention_ms
    )
    log = OracleLog(config) if kind == "oracle" else PlannedLog(config, most_ranges)
    now_ms = ahead_ms = 1_000
    written: list[Record] = []
    arrived_ms: list[int] = []
    covered_ms: list[int | None] = []
    idle: list[tuple[str, object]] = [("tick", LATE_MS + 9), ("compact", 0)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("winnow.pipeline.compaction.partition_states.MAXIMUM_HISTORY_ENTRIES", most_entries)
        for action, argument in [*steps, *(idle * 3)]:
            if action == "tick":
                now_ms += int(argument)  # type: ignore[call-overload]
            elif action == "append":
                rows = cast("list[tuple[bytes, bool, int]]", argument)
                records = [
                    Record(
                        len(written) + number,
                        key,
                        None if deleted else b"value",
                        100 + rank if strategy is Strategy.TIMESTAMP else now_ms - 1,
                        ((HEADER, rank.to_bytes(8, "big")),),
                    )
                    for number, (key, deleted, rank) in enumerate(rows)
                ]
                log.append(records, now_ms)
                written += records
                arrived_ms += [max(now_ms, ahead_ms)] * len(records)
                covered_ms += [None] * len(records)
            else:
                as_of_ms = now_ms + int(argument)  # type: ignore[call-overload]
                ahead_ms = max(ahead_ms, as_of_ms)
                end = log.compact(as_of_ms, now_ms)
                for offset in range(end or 0):
                    covered_ms[offset] = now_ms if covered_ms[offset] is None else covered_ms[offset]
                _look(log.read(), written[: end or 0], arrived_ms, covered_ms, strategy)
    assert not any(each.value is None for each in log.read())


def _look(
    read: list[Record],
    covered: list[Record],
    arrived_ms: list[int],
    covered_ms: list[int | None],
    strategy: Strategy,
) -> None:
    for seen in read[: len(covered)]:
        for other in covered if seen.offset < len(covered) and seen.value is not None else ():
            since_ms = covered_ms[other.offset]
            in_time = since_ms is None or arrived_ms[seen.offset] < since_ms + LATE_MS
            ranks = surviving_records.compute_version(other, strategy, HEADER) > surviving_records.compute_version(
                seen, strategy, HEADER
            )
            assert not (other.key == seen.key and ranks and in_time), (
                f"{seen.offset} is read, {other.offset} outranks it"
            )
