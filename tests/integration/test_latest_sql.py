"""The latest state as SQL: what an engine answers is what the oracle computes, under every strategy."""

from __future__ import annotations

import json
import tempfile
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.latest_state import compute_latest_state
from tests.support.random_logs import (
    HEADER,
    Row,
    any_rows,
    build_records,
    make_order,
    split_records,
    write_segment_file,
)
from winnow.errors import UsageError
from winnow.pipeline.latest.reader_names import SqlEngine
from winnow.pipeline.latest.sql import LatestQuery, build_latest_sql
from winnow.pipeline.latest.value_columns import JsonValues, parse_columns
from winnow.values.model import Record
from winnow.values.strategies import Strategy


def expect(records: list[Record], strategy: Strategy, log_start: int) -> set[tuple[object, ...]]:
    latest = compute_latest_state([each for each in records if each.offset >= log_start], strategy, HEADER)
    return {(partition, key, each.value, each.offset) for (partition, key), each in latest.items()}


def write_log(folder: str, records: list[Record], cuts: set[int]) -> list[str]:
    return [
        write_segment_file(folder, number, part).path.removeprefix("file://")
        for number, part in enumerate(split_records(records, cuts))
    ]


@given(
    rows=any_rows,
    cuts=st.sets(st.integers(1, 23), max_size=2),
    strategy=st.sampled_from(Strategy),
    start=st.integers(0, 9),
)
def test_duckdb_answers_as_the_oracle_under_every_strategy(
    rows: list[Row], cuts: set[int], strategy: Strategy, start: int
) -> None:
    """Signed versions, malformed ones, missing timestamps, tombstones, keyless records, and a log start in a file."""
    records = build_records(rows)
    sql = build_latest_sql(
        SqlEngine.DUCKDB, LatestQuery(("or.ders",), make_order(strategy), {0: start} if start else {})
    )
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        connection.read_parquet(write_log(folder, records, cuts)).create_view("or.ders")
        found = connection.execute(sql).fetchall()
    assert {row[:4] for row in found} == expect(records, strategy, start)
    assert len(found) == len({row[:2] for row in found})


@settings(max_examples=settings().max_examples // 2)
@given(rows=any_rows, strategy=st.sampled_from(Strategy), start=st.integers(0, 9))
def test_clickhouse_answers_as_the_oracle_under_every_strategy(rows: list[Row], strategy: Strategy, start: int) -> None:
    """By the ClickHouse that is in chdb."""
    import chdb

    # Its dates end in 2299.
    records = [each for each in build_records(rows) if each.timestamp_ms is None or each.timestamp_ms < 10]
    if not records:
        return
    query = LatestQuery(("winnow", "log"), make_order(strategy), {0: start} if start else {})
    sql = build_latest_sql(SqlEngine.CLICKHOUSE, query)
    with tempfile.TemporaryDirectory() as folder:
        (path,) = write_log(folder, records, set())
        sql = sql.replace("`winnow`.`log`", f"file('{path}', 'Parquet')")
        asked = f"SELECT partition, hex(key), hex(value), offset FROM ({sql})"
        answer = str(chdb.query(asked, "JSONCompact"))  # type: ignore[no-untyped-call]
    found = {
        (int(row[0]), bytes.fromhex(row[1]), bytes.fromhex(row[2]), int(row[3])) for row in json.loads(answer)["data"]
    }
    assert found == expect(records, strategy, start)


def test_flink_says_that_it_cannot_order_by_a_header() -> None:
    """Rather than an approximation."""
    query = LatestQuery(("winnow", "winnow", "t"), make_order(Strategy.HEADER))
    with pytest.raises(UsageError, match="cannot read the last header"):
        build_latest_sql(SqlEngine.FLINK, query)


DOCUMENTS: list[bytes | None] = [
    b'{"id": 7, "price": 2.5, "paid": true, "city": "Bonn", "at": "2026-01-31T18:00:00Z", "tags": [{"n": "x"}]}',
    b'{"id": "8", "price": 3, "paid": false, "city": "K\\u00f6ln", "tags": []}',
    b'{"id": null, "city": "it\'s"}',
    b'{"id": 9223372036854775807, "price": -0.5}',
    b"{}",
    b"[1]",
]
COLUMNS = (
    "id:long",
    "price:double",
    "paid:boolean",
    "city:string",
    "at:timestamp",
    "tag:string=$.tags[0].n",
)


def test_typed_columns_are_the_same_in_sql_as_in_the_command() -> None:
    """Numbers, truth values, texts, times and parts of lists; a missing field is null."""
    columns = parse_columns(COLUMNS)
    records = build_records([(1, b"%d" % n, value, n, None) for n, value in enumerate(DOCUMENTS)])
    query = LatestQuery(("log",), make_order(Strategy.OFFSET), {}, columns)
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
        paths = write_log(folder, records, set())
        connection.read_parquet(paths).create_view("log")
        answer: Any = connection.sql(f'{build_latest_sql(SqlEngine.DUCKDB, query)} ORDER BY "offset"').to_arrow_table()
        values = connection.sql('SELECT value FROM log ORDER BY "offset"').to_arrow_table().column(0).combine_chunks()
    reader = JsonValues(columns)
    for column, found in zip(columns, reader.read(values), strict=True):
        mine, sql = found.to_pylist(), answer.column(column.name).to_pylist()
        assert mine == sql, column.name
    assert reader.misfits == {}


def test_values_that_fit_no_column_are_null_and_counted() -> None:
    """Text that is no JSON, numbers out of range, and truth values that are none."""
    columns = parse_columns(["id:long", "paid:boolean"])
    reader = JsonValues(columns)
    import pyarrow as pa

    values = pa.array(
        [b"\xff", b"not json", b'{"id": 9223372036854775808, "paid": "yes"}', b'{"id": 1.5}'], pa.binary()
    )
    ids, paid = reader.read(values)
    assert (ids.to_pylist(), paid.to_pylist()) == ([None] * 4, [None] * 4)
    assert reader.misfits == {"id": 4, "paid": 3}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id", "is not a column"),
        ("id:number", "is not a column"),
        ("id:long=$.a b", "is not a path"),
        ("id:long=$.a']", "is not a path"),
        ("key:string", "cannot be called key"),
        ("Offset:long", "cannot be called Offset"),
    ],
)
def test_columns_that_cannot_be_are_refused(text: str, said: str) -> None:
    """Nothing that is typed here reaches another engine's SQL unread."""
    with pytest.raises(UsageError, match=said):
        parse_columns([text])
    with pytest.raises(UsageError, match="Two columns are called"):
        parse_columns(["a:long", "A:string"])
