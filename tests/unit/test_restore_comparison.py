"""Records that were read back are compared with those of the log, whatever both have."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from winnow.files.record_batch import RECORD_SCHEMA
from winnow.files.segments import ARROW_SCHEMA
from winnow.pipeline.restore.compare_records import find_difference

Row = dict[str, Any]
HEADERS = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
OTHER_NAMES = [{"key": "b", "value": b"1"}, {"key": "b", "value": None}]
ROW: Row = {"key": b"k", "value": b"v", "timestamp": 1_000, "headers": HEADERS}
BARE: Row = {**ROW, "headers": None}

texts = st.none() | st.sampled_from([b"", b"\x00", b"\xff\x00", b"x"])
headers = st.none() | st.lists(
    st.fixed_dictionaries({"key": st.sampled_from(["", "a", "ü"]), "value": texts}), max_size=2
)
rows = st.fixed_dictionaries(
    {"key": texts, "value": texts, "timestamp": st.none() | st.integers(-1, 2), "headers": headers}
)


def make_log_batch(records: list[Row], above: int = 0) -> pa.RecordBatch:
    """Records as the log has them; ``above``: others before them in the same buffers."""
    times = [None if each["timestamp"] is None else each["timestamp"] * 1_000 for each in records]
    all_of_them = [{**ROW, "timestamp": 7}] * above + [
        {**each, "timestamp": time_us} for each, time_us in zip(records, times, strict=True)
    ]
    complete = [
        {"partition": 0, "offset": offset, "timestampType": 0, **each} for offset, each in enumerate(all_of_them)
    ]
    return pa.RecordBatch.from_pylist(complete, schema=ARROW_SCHEMA).slice(above)


def make_read_batch(records: list[Row]) -> pa.RecordBatch:
    """Records as they are read from a broker."""
    return pa.RecordBatch.from_pylist(records, schema=RECORD_SCHEMA)


def express_as_kafka(row: Row) -> Row:
    """A record as its clients return it."""
    time_ms = row["timestamp"]
    return {**row, "headers": row["headers"] or None, "timestamp": time_ms if time_ms and time_ms > 0 else None}


@given(st.lists(st.tuples(rows, rows, st.booleans()), min_size=1, max_size=6), st.integers(0, 2))
def test_batches_differ_where_a_record_of_theirs_does(pairs: list[tuple[Row, Row, bool]], above: int) -> None:
    ours = [one for one, _, _ in pairs]
    theirs = [one if is_same else other for one, other, is_same in pairs]
    expected = [
        (name, number)
        for name in ("key", "value", "timestamp", "headers")
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True))
        if express_as_kafka(one)[name] != express_as_kafka(other)[name]
    ]
    found = find_difference(make_log_batch(ours, above), make_read_batch(theirs))
    assert found == (expected[0] if expected else None)


@pytest.mark.parametrize(
    ("theirs", "difference"),
    [
        pytest.param([ROW, BARE, BARE, ROW], ("headers", 1), id="headers"),
        pytest.param([ROW, {**ROW, "headers": HEADERS[::-1]}, BARE, BARE], ("headers", 1), id="order"),
        pytest.param(
            [ROW, {**ROW, "headers": OTHER_NAMES}, BARE, BARE],
            ("headers", 1),
            id="header_names",
        ),
        pytest.param([ROW, ROW, BARE, {**BARE, "value": None}], ("value", 3), id="value"),
    ],
)
def test_the_first_row_that_differs_is_found(theirs: list[Row], difference: tuple[str, int]) -> None:
    assert find_difference(make_log_batch([ROW, ROW, BARE, BARE], 3), make_read_batch(theirs)) == difference
