"""What a compaction will keep, estimated without reading a key."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle import surviving_records
from winnow.planning.estimates import (
    WINNER_ENTRY_BYTES,
    Basis,
    Estimate,
    Memory,
    NewKeyEstimator,
    estimate_plan,
    find_cleaned_offset,
)
from winnow.values.model import OffsetRange, PartitionPlan, Reason, Record, Segment, Status
from winnow.values.results import PartitionReceipt, Receipt
from winnow.values.strategies import Strategy
from winnow.values.topic_state import Cleaning


def segment(first: int, records: int, *, tombstones: int = 0, keyless: int = 0, size_bytes: int = 1000) -> Segment:
    return Segment(f"s{first}", 0, first, first + records - 1, records, size_bytes, None, None, tombstones, keyless)


def plan(
    *segments: Segment, expired: Sequence[OffsetRange] = (), partition: int = 0, log_start: int = 0
) -> PartitionPlan:
    end = segments[-1].last_offset + 1 if segments else 0
    return PartitionPlan(partition, Reason.DIRTY_RATIO, log_start, 0, end, end, segments, tuple(expired))


def cleaned(end_offset: int) -> list[Cleaning]:
    return [Cleaning(end_offset, 1, 2)]


def run(
    number: int,
    kept: int,
    records: int,
    *,
    first_dirty: int = 0,
    partition: int = 0,
    expired: int = 0,
    retired: int = 0,
) -> Receipt:
    part = PartitionReceipt(
        partition=partition,
        first_dirty_offset=first_dirty,
        next_first_dirty_offset=first_dirty + 1,
        records_in=records,
        records_kept=kept,
        records_superseded=0,
        tombstones_expired=expired,
        records_keyless=0,
        records_retired=retired,
        bytes_in=1,
        bytes_out=1,
    )
    return Receipt("t", f"p{number}", Status.PUBLISHED, number, (part,), "", 0, number)


NOTHING = NewKeyEstimator.of([])


def test_a_partition_that_was_never_compacted_is_unknown_within_bounds() -> None:
    """Between one key and as many keys as records; keyless records are none of them."""
    found = estimate_plan(plan(segment(0, 100, keyless=10)), (), NOTHING)
    assert (found.expected_records_kept, found.expected_bytes_out, found.basis) == (None, None, Basis.UNKNOWN)
    assert (found.at_least_records_kept, found.at_most_records_kept, found.records_keyless) == (1, 90, 10)
    assert found.records_in == 100


def test_a_clean_section_keeps_all_but_the_tombstones_that_are_due() -> None:
    """Nothing came since: the manifests alone say what stays, without any earlier run."""
    due = [OffsetRange(0, 50)]
    found = estimate_plan(
        plan(segment(0, 50, tombstones=7), segment(50, 50, tombstones=5), expired=due), cleaned(100), NOTHING
    )
    assert found.basis is Basis.MANIFEST
    assert (found.expected_records_kept, found.at_least_records_kept, found.at_most_records_kept) == (93, 93, 93)
    assert found.expected_bytes_out == round(2000 * 93 / 100)


def test_tombstones_of_a_segment_that_is_only_partly_due_widen_the_bounds() -> None:
    """The manifest does not say on which side of the horizon they lie."""
    found = estimate_plan(plan(segment(0, 50, tombstones=7), expired=[OffsetRange(0, 20)]), cleaned(50), NOTHING)
    assert (found.tombstones_due, found.at_least_records_kept, found.at_most_records_kept) == (0, 43, 50)


def test_dirty_records_bring_keys_at_the_share_of_this_partitions_later_runs() -> None:
    """Of 100 dirty records of the second run 20 were new keys; the first run, where all is new, counts for nothing."""
    earlier = NewKeyEstimator.of([run(2, kept=70, records=150, first_dirty=100), run(1, kept=50, records=100)])
    found = estimate_plan(plan(segment(0, 70), segment(150, 50)), cleaned(150), earlier)
    assert (found.records_clean, found.records_dirty) == (70, 50)
    assert (found.expected_records_kept, found.basis) == (80, Basis.PARTITION)
    assert (found.at_least_records_kept, found.at_most_records_kept) == (70, 120)


def test_a_first_run_is_estimated_from_other_first_runs() -> None:
    """A partition that was never cleaned is like its siblings when they were not."""
    earlier = NewKeyEstimator.of(
        [run(2, kept=55, records=155, first_dirty=100, partition=1), run(1, 50, 100, partition=1)]
    )
    found = estimate_plan(plan(segment(0, 40)), (), earlier)
    assert (found.expected_records_kept, found.basis) == (20, Basis.TOPIC)


def test_expired_tombstones_and_retired_records_of_earlier_runs_do_not_count_as_superseded() -> None:
    """10 of 50 clean records were retired and 5 winners expired: 25 distinct of 60 dirty were new."""
    earlier = NewKeyEstimator.of([
        run(1, kept=50, records=100),
        run(2, kept=60, records=100, first_dirty=100, expired=5, retired=10),
    ])  # fmt: skip
    found = estimate_plan(plan(segment(0, 60), segment(200, 60)), cleaned(200), earlier)
    assert found.expected_records_kept == 60 + 25


def test_an_imported_checkpoint_proves_nothing_clean() -> None:
    """Its cleaning time is unknown: somebody cleaned some copy."""
    assert find_cleaned_offset([Cleaning(50, None, None), Cleaning(80, 1, 2)]) == 0
    assert find_cleaned_offset([Cleaning(50, 1, 2), Cleaning(80, None, None)]) == 50
    assert find_cleaned_offset([]) == 0


def test_a_changed_strategy_leaves_the_clean_section_at_one_record_per_key() -> None:
    """Whatever the new order is, a key that has one record keeps one."""
    found = estimate_plan(plan(segment(0, 30)), cleaned(30), NOTHING)
    assert (found.records_clean, found.expected_records_kept) == (30, 30)


def test_records_below_the_log_start_lower_the_lower_bound() -> None:
    """They are in the file and cannot be read any more."""
    found = estimate_plan(plan(segment(0, 30), log_start=10), cleaned(30), NOTHING)
    assert (found.at_least_records_kept, found.at_most_records_kept) == (20, 30)


def test_retention_alone_keeps_nothing_because_it_reads_nothing() -> None:
    """No segment, no estimate to divide by."""
    found = estimate_plan(plan(), (), NOTHING)
    assert (found.records_in, found.expected_records_kept, found.expected_bytes_out) == (0, 0, 0)


def test_winners_that_fit_or_spill_are_told_by_bounds() -> None:
    """All keys at most, the clean ones at least."""
    found: Estimate = estimate_plan(plan(segment(0, 10), segment(10, 10)), cleaned(10), NOTHING)
    assert (found.at_most_keys, found.at_most_winners_bytes) == (20, 20 * WINNER_ENTRY_BYTES)
    assert found.memory(20 * WINNER_ENTRY_BYTES) is Memory.FITS
    assert found.memory(20 * WINNER_ENTRY_BYTES - 1) is Memory.MAY_SPILL
    assert found.memory(10 * WINNER_ENTRY_BYTES) is Memory.MAY_SPILL
    assert found.memory(10 * WINNER_ENTRY_BYTES - 1) is Memory.SPILLS


def test_runs_that_published_nothing_or_read_nothing_say_nothing() -> None:
    """A refused run and retention alone stand between two runs without breaking their chain."""
    refused = Receipt("t", None, Status.REFUSED, None, run(3, 1, 99).partitions, "", 0, 3)
    earlier = NewKeyEstimator.of(
        [run(1, 50, 100), run(2, 0, 0), refused, run(4, kept=70, records=150, first_dirty=100)]
    )
    assert earlier.new_keys(0, 100, first=False) == (20, Basis.PARTITION)


KEYS = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=40)


@given(records=KEYS, cut=st.integers(0, 40), expired=st.integers(0, 40), strategy=st.sampled_from([*Strategy][:2]))
def test_bounds_hold_for_what_the_oracle_keeps(
    records: list[tuple[int, bool]], cut: int, expired: int, strategy: Strategy
) -> None:
    """Any log, compacted up to any offset before, with tombstones due below any offset: between the bounds."""
    log = [
        Record(offset, bytes([key]), None if gone else b"v", timestamp_ms=1 + (offset * 7) % 11)
        for offset, (key, gone) in enumerate(records)
    ]
    cut = min(cut, len(log))
    first = surviving_records.compute_survivors(
        log[:cut], next_first_dirty_offset=cut, strategy=strategy, header=None, expired=lambda _: False
    ).kept
    both = [*first, *log[cut:]]
    segments = [_segment_of(part) for part in (first, log[cut:]) if part]
    decided = plan(*segments, expired=[OffsetRange(0, expired)])
    found = estimate_plan(decided, cleaned(cut) if cut else (), NOTHING)
    kept = surviving_records.compute_survivors(
        both, next_first_dirty_offset=len(log), strategy=strategy, header=None, expired=lambda offset: offset < expired
    ).kept
    assert found.at_least_records_kept <= len(kept) <= found.at_most_records_kept
    if cut == len(log) and (expired == 0 or expired > log[-1].offset):
        assert found.expected_records_kept == len(kept)


def _segment_of(records: Sequence[Record]) -> Segment:
    tombstones = sum(record.value is None for record in records)
    return Segment("s", 0, records[0].offset, records[-1].offset, len(records), 1, None, None, tombstones)


@pytest.mark.parametrize("records", [0, 1])
def test_bytes_are_never_divided_by_nothing(records: int) -> None:
    """An empty file is possible; so is one record."""
    found = estimate_plan(plan(segment(0, records)), cleaned(10), NOTHING)
    assert found.expected_bytes_out == 1000 * records
