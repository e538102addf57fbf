"""Which segments are rewritten together, and which are kept by reference."""

from __future__ import annotations

from winnow.engine.read_ranges import SegmentSurvivors, group_segments
from winnow.values.model import Segment


def _segment(number: int, size_bytes: int, records: int = 100) -> Segment:
    return Segment(f"s{number}", 0, number * 1000, number * 1000 + records - 1, records, size_bytes, None, None, 0)


def _item(number: int, size_bytes: int, survivors: int = 100) -> SegmentSurvivors:
    return SegmentSurvivors(_segment(number, size_bytes), survivors)


def _names(found: list[tuple[SegmentSurvivors, ...]]) -> list[list[str]]:
    return [[member.segment.path for member in group] for group in found]


def test_segments_that_lose_nothing_are_kept_by_reference() -> None:
    """Nothing lost anywhere means nothing is rewritten, however small the files are: merging alone never rewrites."""
    assert group_segments([_item(0, 10), _item(1, 10), _item(2, 10)], 1_000) == []


def test_a_segment_that_loses_a_record_is_rewritten_alone_between_large_neighbours() -> None:
    """Neighbours of an eighth of segment.bytes or more that lose nothing are not copied."""
    assert _names(group_segments([_item(0, 125), _item(1, 500, 40), _item(2, 900)], 1_000)) == [["s1"]]


def test_a_segment_just_below_an_eighth_joins_a_merge_that_doubles_its_largest_input() -> None:
    """124 is below 1000/8, and 124 + 124 is twice the largest input."""
    assert _names(group_segments([_item(0, 124), _item(1, 248, 50)], 1_000)) == [["s0", "s1"]]


def test_a_small_segment_stays_out_of_a_merge_that_would_not_double_the_largest_input() -> None:
    """100 + 10 is less than twice 100: copying the small one would be repeated at every run."""
    assert _names(group_segments([_item(0, 10), _item(1, 200, 50)], 1_000)) == [["s1"]]


def test_a_group_ends_where_its_survivors_would_exceed_segment_bytes() -> None:
    """Groups are greedy, in order, by the estimated bytes of what survives."""
    items = [_item(n, 800, 50) for n in range(5)]
    assert _names(group_segments(items, 1_000)) == [["s0", "s1"], ["s2", "s3"], ["s4"]]


def test_a_large_kept_segment_separates_groups() -> None:
    """A group is of neighbours: order is never changed."""
    items = [_item(0, 400, 10), _item(1, 900), _item(2, 400, 10)]
    assert _names(group_segments(items, 1_000)) == [["s0"], ["s2"]]


def test_a_segment_that_loses_everything_is_in_a_group() -> None:
    """Its records go although nothing is written for it."""
    assert _names(group_segments([_item(0, 400, 0)], 1_000)) == [["s0"]]


def test_small_kept_segments_between_losing_ones_stay_when_the_merge_is_not_worth_it() -> None:
    """The stretches that lose something are rewritten; what lies between them is kept by reference."""
    items = [_item(0, 700, 99), _item(1, 10), _item(2, 100, 50)]
    assert _names(group_segments(items, 1_000)) == [["s0"], ["s2"]]
