"""The newest records of all partitions: merged from their ends, page by page, each record once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from winnow.pipeline.read.browse import RecordPlace
from winnow.pipeline.read.newest import merge_newest

_times = st.lists(st.none() | st.integers(0, 20), max_size=12)
_partitions = st.lists(_times, min_size=1, max_size=4)


def page_back(partitions: list[list[RecordPlace]], limit: int) -> list[list[tuple[int, RecordPlace]]]:
    """All pages, the newest first, each made from the last records below where the page before it ended."""
    ends = dict.fromkeys(range(len(partitions)), 100)
    pages: list[list[tuple[int, RecordPlace]]] = []
    while True:
        places = {
            number: [place for place in partition if place.offset < ends[number]][-limit - 1 :]
            for number, partition in enumerate(partitions)
        }
        newest = merge_newest(places, ends, limit)
        pages.append(list(newest.places))
        ends = dict(newest.before)
        if not newest.has_previous:
            return pages


@given(_partitions, st.integers(1, 5))
def test_pages_hold_each_record_once_and_keep_the_order_of_a_partition(
    times: list[list[int | None]], limit: int
) -> None:
    """Whatever the timestamps are; all pages but the last are full."""
    partitions = [[RecordPlace(n * 2, time) for n, time in enumerate(of_partition)] for of_partition in times]
    pages = page_back(partitions, limit)
    shown = [place for page in reversed(pages) for place in page]
    for number, partition in enumerate(partitions):
        assert [place for of, place in shown if of == number] == partition
    assert all(len(page) == limit for page in pages[:-1])


@given(st.lists(st.lists(st.integers(0, 20), max_size=12).map(sorted), min_size=1, max_size=4), st.integers(1, 5))
def test_pages_are_in_the_order_of_time_where_partitions_are(times: list[list[int]], limit: int) -> None:
    """Over all pages, from the newest record of any partition on."""
    partitions = [[RecordPlace(n, time) for n, time in enumerate(of_partition)] for of_partition in times]
    shown = [place.timestamp_ms for page in reversed(page_back(partitions, limit)) for _, place in page]
    assert shown == sorted(time for of_partition in times for time in of_partition)
