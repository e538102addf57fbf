"""Eligibility agrees with the oracle on every figure and every reason, for random logs and configurations."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from oracle.log_model import LogModel
from oracle.model_values import NO_MAX_LAG_MS, ModelConfig
from winnow.planning.cleanable import PartitionLog, Rules
from winnow.planning.eligibility import Decision, assess, decide_eligibility
from winnow.planning.next_change import find_next_change_ms
from winnow.planning.plans import plan_partition
from winnow.values.model import Reason, Record, Segment
from winnow.values.strategies import Strategy, name_total_order
from winnow.values.topic_state import Append, PartitionState, Uncleanable

BASE_MS = 1_700_000_000_000

_timestamps = st.none() | st.integers(-3, 3) | st.integers(BASE_MS - 5_000, BASE_MS + 2_000)
_records = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from([b"a", b"b", b"c"]), st.none() | st.just(b"v"), _timestamps),
    min_size=1,
    max_size=5,
)
_files = st.lists(st.tuples(_records, st.integers(0, 400), st.integers(BASE_MS - 4_000, BASE_MS)), max_size=6)
_configs = st.builds(
    ModelConfig,
    min_cleanable_dirty_ratio=st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]),
    min_compaction_lag_ms=st.sampled_from([0, 1, 1_000, 3_000]),
    max_compaction_lag_ms=st.sampled_from([1, 500, 3_000, NO_MAX_LAG_MS]),
    segment_bytes=st.sampled_from([14, 200, 600, 1 << 30]),
    segment_ms=st.sampled_from([1, 1_000, 4_000, 10**12]),
    delete_retention_ms=st.sampled_from([0, 100]),
    late_arrival_ms=st.sampled_from([0, 200, 1_000]),
    strategy=st.sampled_from(list(Strategy)),
    header=st.sampled_from(["v", "w"]),
    compacts=st.sampled_from([True, True, False]),
    deletes=st.booleans(),
    retention_ms=st.sampled_from([-1, 0, 1_000, 4_000]),
    retention_bytes=st.sampled_from([-1, 0, 300, 900]),
    protects_latest=st.booleans(),
)


def _fill(model: LogModel, files: list[tuple[list[tuple[int, bytes, bytes | None, int | None]], int, int]]) -> None:
    offset = model.log_end_offset
    for rows, size_bytes, as_of_ms in files:
        records = []
        for gap, key, value, timestamp_ms in rows:
            offset += gap
            records.append(Record(offset - 1, key, value, timestamp_ms))
        model.append(records, as_of_ms, size_bytes, now_ms=as_of_ms - 300)


def _log(model: LogModel) -> PartitionLog:
    """The model's log as manifests and state would show it."""
    segments = tuple(
        Segment(
            path=f"f{number}",
            partition=0,
            first_offset=file.first_offset,
            last_offset=file.last_offset,
            records=len(file.records),
            size_bytes=file.size_bytes,
            min_timestamp_ms=min(file.timestamps_ms, default=None),
            max_timestamp_ms=max(file.timestamps_ms, default=None),
            tombstones=sum(record.value is None for record in file.records),
        )
        for number, file in enumerate(model.files)
    )
    appends = tuple(
        Append(f"d{number}", file.first_offset, file.last_offset, len(file.records), file.as_of_ms, file.appended_ms)
        for number, file in enumerate(model.files)
        if file.as_of_ms is not None
    )
    state = PartitionState(
        log_start_offset=model.log_start_offset,
        log_end_offset=model.log_end_offset,
        first_dirty_offset=model.first_dirty_offset,
        strategy=None if model.cleaned_with is None else name_total_order(*model.cleaned_with),
        history=model.history,
        appends=appends,
        uncleanable=Uncleanable("damaged", BASE_MS) if model.uncleanable else None,
        paused_since_ms=BASE_MS if model.paused else None,
    )
    return PartitionLog("t", 0, segments, state)


def _rules(config: ModelConfig) -> Rules:
    return Rules(
        compacts=config.compacts,
        strategy=config.strategy,
        min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=config.min_compaction_lag_ms,
        max_compaction_lag_ms=config.max_compaction_lag_ms,
        segment_bytes=config.segment_bytes,
        max_segment_ms=config.max_segment_ms,
        strategy_header=config.header,
        deletes=config.deletes,
        retention_ms=config.retention_ms,
        retention_bytes=config.retention_bytes,
        late_arrival_ms=config.late_arrival_ms,
        protects_latest=config.protects_latest,
    )


@given(
    first=_files,
    then=_files,
    before=_configs,
    config=_configs,
    start=st.integers(0, 5),
    checkpoint=st.none() | st.integers(0, 25),
    as_of_ms=st.integers(BASE_MS - 4_500, BASE_MS + 4_000),
    ahead_ms=st.integers(-500, 500),
    delete_before=st.integers(0, 20),
    uncleanable=st.sampled_from([False, False, True]),
    paused=st.sampled_from([False, False, False, True]),
)
def test_eligibility_equals_the_oracle(
    first: list[tuple[list[tuple[int, bytes, bytes | None, int | None]], int, int]],
    then: list[tuple[list[tuple[int, bytes, bytes | None, int | None]], int, int]],
    before: ModelConfig,
    config: ModelConfig,
    start: int,
    checkpoint: int | None,
    as_of_ms: int,
    ahead_ms: int,
    delete_before: int,
    uncleanable: bool,
    paused: bool,
) -> None:
    """After another configuration's run, an import and a raised log start, every figure is the oracle's.

    So is what a plan takes: which files retention removes, whether anything is compacted, and the log start after it.
    """
    model = LogModel(log_start_offset=start)
    _fill(model, first)
    if checkpoint is not None:
        model.import_checkpoint(checkpoint)
    model.compact(before, as_of_ms - 300, as_of_ms - 300)
    _fill(model, then)
    model.delete_records_before(delete_before)
    model.uncleanable, model.paused = uncleanable, paused
    now_ms = as_of_ms + ahead_ms
    expected = model.assess(config, as_of_ms, now_ms)
    log = _log(model)
    found = assess(log, _rules(config), as_of_ms=as_of_ms, cleaning_time_ms=max(as_of_ms, now_ms), now_ms=now_ms)
    assert (
        found.eligible,
        found.reason,
        found.first_dirty_offset,
        found.first_uncleanable_offset,
        found.dirty_ratio,
        found.clean_bytes,
        found.cleanable_bytes,
        found.max_compaction_delay_ms,
        found.deadline_ms,
    ) == (
        expected.eligible,
        expected.reason,
        expected.first_dirty_offset,
        expected.first_uncleanable_offset,
        expected.dirty_ratio,
        expected.clean_bytes,
        expected.cleanable_bytes,
        expected.max_compaction_delay_ms,
        expected.deadline_ms,
    )
    if not expected.eligible:
        return
    plan = plan_partition(log, _rules(config), found, as_of_ms=as_of_ms, now_ms=now_ms)
    assert plan.compacts == expected.compacts
    assert len(plan.retired) == len(model.retired(config, as_of_ms, now_ms))
    model.compact(config, as_of_ms, now_ms)
    assert plan.log_start_offset == model.log_start_offset
    assert not plan.compacts or plan.next_first_dirty_offset == model.first_dirty_offset


def _decide(log: PartitionLog, rules: Rules, as_of_ms: int, now_ms: int) -> Decision:
    return decide_eligibility(log, rules, as_of_ms=as_of_ms, cleaning_time_ms=max(as_of_ms, now_ms), now_ms=now_ms)


@given(
    first=_files,
    then=_files,
    before=_configs,
    config=_configs,
    as_of_ms=st.integers(BASE_MS - 4_500, BASE_MS + 4_000),
    ahead_ms=st.integers(-500, 500),
    back_off_ms=st.none() | st.integers(-1_000, 3_000),
    later=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=4),
)
def test_until_the_next_change_every_later_look_decides_the_same(
    first: list[tuple[list[tuple[int, bytes, bytes | None, int | None]], int, int]],
    then: list[tuple[list[tuple[int, bytes, bytes | None, int | None]], int, int]],
    before: ModelConfig,
    config: ModelConfig,
    as_of_ms: int,
    ahead_ms: int,
    back_off_ms: int | None,
    later: list[tuple[float, float]],
) -> None:
    """Whoever relies on it misses no deadline: the last millisecond before it is still the same, in every figure."""
    model = LogModel()
    _fill(model, first)
    model.compact(before, as_of_ms - 300, as_of_ms - 300)
    _fill(model, then)
    log, rules = _log(model), _rules(config)
    if back_off_ms is not None:
        mark = Uncleanable("damaged", BASE_MS, next_attempt_ms=as_of_ms + back_off_ms)
        log = replace(log, state=replace(log.state, uncleanable=mark))
    now_ms = as_of_ms + ahead_ms
    decided = _decide(log, rules, as_of_ms, now_ms)

    change_ms = find_next_change_ms(log, rules, decided, decided_ms=min(as_of_ms, now_ms))

    last_ms = max(as_of_ms, now_ms) + 20_000 if change_ms is None else change_ms - 1
    for as_of_share, now_share in (*later, (1.0, 1.0), (0.0, 1.0), (1.0, 0.0)):
        if last_ms >= max(as_of_ms, now_ms):
            later_as_of_ms = as_of_ms + round((last_ms - as_of_ms) * as_of_share)
            later_now_ms = now_ms + round((last_ms - now_ms) * now_share)
            assert _decide(log, rules, later_as_of_ms, later_now_ms) == decided


def test_a_clean_log_without_tombstones_never_changes_by_the_clock() -> None:
    """Otherwise an idle topic would be looked at for ever."""
    model = LogModel()
    _fill(model, [([(1, b"a", b"v", BASE_MS), (1, b"b", b"v", BASE_MS)], 100, BASE_MS)])
    config = ModelConfig(segment_ms=1, min_cleanable_dirty_ratio=0.0, late_arrival_ms=0, delete_retention_ms=0)
    model.compact(config, BASE_MS + 10, BASE_MS + 10)
    log, rules = _log(model), _rules(config)
    decided = _decide(log, rules, BASE_MS + 20, BASE_MS + 20)
    assert decided.assessment.reason is Reason.CLEAN
    assert find_next_change_ms(log, rules, decided, decided_ms=BASE_MS + 20) is None
