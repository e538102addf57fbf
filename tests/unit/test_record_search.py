"""What a search of records asks of what a record shows."""

from __future__ import annotations

import json
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.catalogue.log_builder import build_log, build_segment
from winnow.log.topic_log import TopicLog
from winnow.pipeline.read import record_search
from winnow.pipeline.read.browse import BrowsedPartition
from winnow.pipeline.read.record_search import SearchTerms, ShownContent, find_field, matches, open_scope

ORDER = ShownContent(
    b"order-17",
    b'{"id":12345678901234567890,"owner":{"name":"Ada"},"a.b":"dot","paid":true,"note":null}',
    (("trace", b"abc"), ("empty", None)),
)


@pytest.mark.parametrize(
    ("terms", "is_match"),
    [
        (SearchTerms(key_prefix=b"order-1"), True),
        (SearchTerms(key_prefix=b"rder"), False),
        (SearchTerms(value_text=b'"Ada"'), True),
        (SearchTerms(value_text=b"ada"), False),
        (SearchTerms(field="id", field_value="12345678901234567890"), True),
        (SearchTerms(field="id", field_value="12345678901234567000"), False),
        (SearchTerms(field="owner.name", field_value="Ada"), True),
        (SearchTerms(field="owner.name"), True),
        (SearchTerms(field="owner.age"), False),
        (SearchTerms(field="a.b", field_value="dot"), True),
        (SearchTerms(field="paid", field_value="true"), True),
        (SearchTerms(field="note", field_value="null"), True),
        (SearchTerms(header="trace"), True),
        (SearchTerms(header="trace", header_value=b"abc"), True),
        (SearchTerms(header="trace", header_value=b"ab"), False),
        (SearchTerms(header="empty"), True),
        (SearchTerms(header="other"), False),
        (SearchTerms(key_prefix=b"order", value_text=b"nothing"), False),
        (SearchTerms(key_prefix=b"order", header="trace", field="paid"), True),
    ],
)
def test_a_record_matches_if_it_has_everything_that_was_asked_for(terms: SearchTerms, is_match: bool) -> None:
    """Bytes are compared as they are, numbers by their digits."""
    assert matches(terms, ORDER) is is_match


def test_a_tombstone_and_a_record_without_key_match_no_text() -> None:
    """Nor do they break the search."""
    nothing = ShownContent(None, None)
    for terms in (SearchTerms(key_prefix=b"a"), SearchTerms(value_text=b"a"), SearchTerms(field="a")):
        assert not matches(terms, nothing)
    assert matches(SearchTerms(key_prefix=b"ord"), ShownContent(b'"order"', None)), "a decoded key stands in quotes"


@pytest.mark.parametrize("content", [b"", b"no json", b"[1]", b"\xff\x00", b'{"a":', b"null", b"[" * 100_000])
def test_what_is_no_json_object_has_no_field(content: bytes) -> None:
    """Values may be anything."""
    assert find_field(content, "a") is None
    assert find_field(content, ".".join("a" * 400)) is None


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5) | st.none() | st.booleans()))
def test_every_field_of_an_object_is_found_by_its_name(fields: dict[str, object]) -> None:
    """With its JSON as it was written."""
    content = json.dumps(fields).encode()
    for name, value in fields.items():
        found = find_field(content, name)
        assert found is not None
        assert json.loads(found) == value


@given(st.none() | st.integers(0, 9), st.none() | st.integers(0, 9), st.none() | st.integers(0, 9))
def test_a_range_of_time_begins_with_its_first_instant_and_ends_before_its_last(
    from_ms: int | None, until_ms: int | None, timestamp_ms: int | None
) -> None:
    """A record without a timestamp is in none."""
    terms = SearchTerms(from_ms=from_ms, until_ms=until_ms)
    if from_ms is None and until_ms is None:
        assert terms.includes_time(timestamp_ms)
    else:
        low, high = from_ms or 0, 10 if until_ms is None else until_ms
        assert terms.includes_time(timestamp_ms) == (timestamp_ms is not None and low <= timestamp_ms < high)


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=3), st.data())
def test_search_from_the_newest_looks_once_at_each_offset_and_at_newer_segments_first(
    times_ms: list[list[int]], data: st.DataObject
) -> None:
    """``times_ms``: of the segments of each partition, ten offsets and 100 bytes long; offsets fall from ``before``."""
    start = data.draw(st.integers(0, 30))
    partitions = [
        BrowsedPartition(
            cast("TopicLog", None),
            build_log(
                *(build_segment(place * 10, place * 10 + 9, at_ms=at_ms) for place, at_ms in enumerate(times)),
                partition=number,
                log_start_offset=min(start, len(times) * 10),
            ),
        )
        for number, times in enumerate(times_ms)
    ]
    scope = open_scope(partitions, SearchTerms(field="id"))
    before = {number: data.draw(st.integers(0, len(times) * 10)) for number, times in enumerate(times_ms)}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(record_search, "_WINDOW_BYTES", data.draw(st.integers(1, 200)))
        windows = list(scope.list_newest(before))
    for number, times in enumerate(times_ms):
        offsets = [
            offset
            for window in windows
            if window.partition == number
            for offset in reversed(range(window.start, window.end))
        ]
        assert offsets == list(reversed(range(min(start, len(times) * 10), before[number])))
    if all(times == sorted(times) for times in times_ms):
        newest = [window.segment.max_timestamp_ms or 0 for window in windows]
        assert newest == sorted(newest, reverse=True)
