"""Ranges of offsets cover a partition, and each object is read by every range that it reaches into."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from winnow.planning.ingest_ranges import Arrival, divide_arrivals, find_uncovered, list_arrivals
from winnow.values.ingest_plans import OFFSETS_END, OffsetExtent

EXTENTS = st.lists(
    st.dictionaries(
        st.integers(0, 2),
        st.tuples(st.integers(0, 60), st.integers(0, 30)).map(lambda pair: OffsetExtent(pair[0], sum(pair))),
        max_size=2,
    ),
    max_size=12,
)


@given(EXTENTS, st.integers(1, 40))
def test_ranges_cover_all_offsets_and_whoever_has_a_record_in_one_is_read_there(
    extents: list[dict[int, OffsetExtent]], range_bytes: int
) -> None:
    arrivals: list[Arrival] = []
    for number, found in enumerate(extents):
        arrivals += list_arrivals(number, 10, (None, None), found) or []
    ranges = divide_arrivals(arrivals, range_bytes)
    for partition in {each.partition for each in ranges}:
        mine = [each.offsets for each in ranges if each.partition == partition]
        assert (mine[0].start, mine[-1].end) == (0, OFFSETS_END)
        assert [each.end for each in mine[:-1]] == [each.start for each in mine[1:]]
    assert sorted(number for each in ranges for number in each.objects) == list(range(len(extents)))
    assert find_uncovered(ranges, dict(enumerate(extents))) == set()


def test_an_object_that_reaches_further_than_its_name_told_is_found() -> None:
    """By name the second begins where the first one ends; it does not."""
    arrivals = [*(list_arrivals(0, 10, (0, 0), None) or []), *(list_arrivals(1, 10, (0, 50), None) or [])]
    ranges = divide_arrivals(arrivals, 5)
    assert [each.objects for each in ranges] == [(0,), (1,)]
    told = {0: {0: OffsetExtent(0, 49)}, 1: {0: OffsetExtent(50, 99)}}
    assert find_uncovered(ranges, told) == set()
    assert find_uncovered(ranges, told | {0: {0: OffsetExtent(0, 50)}}) == {0}
    assert find_uncovered(ranges, told | {1: {1: OffsetExtent(0, 1)}}) == {1}


def test_nothing_is_known_of_an_object_whose_name_tells_no_offset() -> None:
    assert list_arrivals(0, 10, (None, 5), None) is None
    assert list_arrivals(0, 10, (1, None), None) is None
