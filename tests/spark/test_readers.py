"""What ``winnow connect`` and ``winnow latest`` print works when it is pasted: read by Spark, as the oracle has it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from oracle.latest_state import compute_latest_state
from tests.support.iceberg_spark import ask_spark
from tests.support.rest_catalog import serve_rest_catalog
from tests.support.world import World, open_world
from winnow.log.namespaces import DEFAULT_NAMESPACE
from winnow.model import Record
from winnow.pipeline.admin.delete_records import delete_records
from winnow.pipeline.compaction.latest_table import update_latest_table
from winnow.pipeline.compaction.topic_view import load_topic_view
from winnow.pipeline.explain.connect import write_connection
from winnow.pipeline.explain.latest import build_query, choose_table
from winnow.pipeline.explain.latest_sql import build_latest_sql
from winnow.pipeline.explain.latest_view import replace_view
from winnow.pipeline.explain.reader_names import ReaderName, SqlEngine
from winnow.pipeline.explain.value_columns import parse_columns
from winnow.strategies import Strategy

HEADER = "it's v"


def fill(world: World, topic: str, strategy: Strategy, seed: int) -> None:
    """Two partitions with late versions, tombstones and headers of every kind, partly compacted."""
    chosen = random.Random(seed)
    more = {"compaction_strategy_header": HEADER} if strategy is Strategy.HEADER else {}
    world.create(
        2,
        topic,
        cleanup_policy="compact,delete",
        segment_ms="1",
        min_cleanable_dirty_ratio="0",
        compaction_strategy=strategy.value,
        **more,
    )
    for part in range(2):
        records = [_make_record(chosen, n + 40 * part, partition) for partition in range(2) for n in range(40)]
        world.ingest(records, topic=topic)
        if part == 0:
            world.compact(topic=topic)


def _make_record(chosen: random.Random, offset: int, partition: int) -> Record:
    version = chosen.choice([-(2**63), -1, 0, 1, 5, 2**56]).to_bytes(8, "big", signed=True)
    headers = [("x", b"1"), (HEADER, chosen.choice([version, version, version, None, b"", b"nine byte"]))]
    value = None if chosen.random() < 0.3 else json.dumps({"n": offset, "s": f"v{offset}"}).encode()
    return Record(
        offset,
        chosen.choice([b"a", b"b", b"c", b"d", b"e", b"\xff"]),
        value,
        chosen.choice([None, *range(5)]),
        tuple(headers[: chosen.randrange(3)]) or None,
        partition=partition,
    )


def expect(world: World, topic: str, strategy: Strategy) -> set[tuple[Any, ...]]:
    """Partition, key, value and offset of the latest state, by the oracle, of what readers see."""
    latest = compute_latest_state(world.read(topic=topic), strategy, HEADER)
    assert 4 < len(latest) < 12
    return {(place[0], place[1].hex(), (each.value or b"").hex(), each.offset) for place, each in latest.items()}


def as_state(rows: list[list[Any]]) -> set[tuple[Any, ...]]:
    """Rows of partition, key, value, offset and timestamp, without the last."""
    assert len(rows) == len({(row[0], row[1]) for row in rows})
    return {tuple(row[:4]) for row in rows}


def test_spark_reads_the_latest_state_of_the_embedded_catalog_under_every_strategy(tmp_path: Path) -> None:
    """Settings and queries as printed, and the side table; with a log start inside a file, and a name in quotes."""
    with open_world(tmp_path) as world:
        topics = {strategy: f"shop.{strategy.value}-1" for strategy in Strategy}
        for seed, (strategy, topic) in enumerate(topics.items()):
            fill(world, topic, strategy, seed)
        delete_records(world.ctx, topics[Strategy.OFFSET], {0: 61, 1: 3})
        queries = []
        for topic in topics.values():
            query = build_query(
                load_topic_view(world.ctx, topic), choose_table(SqlEngine.SPARK, DEFAULT_NAMESPACE, topic)
            )
            queries.append(build_latest_sql(SqlEngine.SPARK, query))
        columns = parse_columns(["n:long", "s:string", "missing:double"])
        typed = build_query(
            load_topic_view(world.ctx, topic), choose_table(SqlEngine.SPARK, DEFAULT_NAMESPACE, topic), columns
        )
        queries.append(build_latest_sql(SqlEngine.SPARK, typed, as_text=True))
        for topic in topics.values():
            world.ctx.log.open(topic).set_config({"winnow.latest.table": "true"}, [])
            update_latest_table(world.ctx, topic)
            queries.append(f"SELECT partition, key, value, offset, timestamp FROM winnow.winnow_latest.`{topic}`")

        answers = ask_spark(tmp_path, write_connection(world.ctx, topic, ReaderName.SPARK), queries)

        *by_query, as_text = answers[: len(topics) + 1]
        by_table = answers[len(topics) + 1 :]
        for (strategy, topic), queried, table in zip(topics.items(), by_query, by_table, strict=True):
            assert as_state(queried) == as_state(table) == expect(world, topic, strategy), strategy
        wanted = expect(world, topics[Strategy.HEADER], Strategy.HEADER)
        assert {(row[0], row[2], row[3], row[4]) for row in as_text} == {
            (partition, offset, f"v{offset}", None) for partition, _, _, offset in wanted
        }


def test_spark_reads_the_view_that_a_rest_catalog_holds(tmp_path: Path) -> None:
    """The catalog has views: the latest state is one, and it is replaced when it is created again."""
    with serve_rest_catalog() as (_, address), open_world(tmp_path, lake={"WINNOW_CATALOG__URI": address}) as world:
        fill(world, "orders", Strategy.TIMESTAMP, 7)
        view = load_topic_view(world.ctx, "orders")
        assert replace_view(world.ctx, view, (), as_text=True) == "winnow_latest_views.orders"
        name = replace_view(world.ctx, view, (), as_text=False)
        program = write_connection(world.ctx, "orders", ReaderName.SPARK)

        (rows,) = ask_spark(tmp_path, program, [f"SELECT * FROM winnow.{name}"])

        assert as_state(rows) == expect(world, "orders", Strategy.TIMESTAMP)


@pytest.mark.parametrize("reader", [ReaderName.PYICEBERG, ReaderName.PANDAS, ReaderName.POLARS, ReaderName.DUCKDB])
def test_python_readers_print_records_when_they_are_pasted(tmp_path: Path, reader: ReaderName) -> None:
    """A program of its own, with nothing but what it says it needs."""
    with open_world(tmp_path) as world:
        world.create(1, "or.ders", cleanup_policy="compact,delete")
        world.ingest([Record(n, b"key-%d" % n, b"value-%d" % n, 1000) for n in range(5)], topic="or.ders")
        delete_records(world.ctx, "or.ders", {0: 2})
        (tmp_path / "pasted.py").write_text(write_connection(world.ctx, "or.ders", reader))
    command = [sys.executable, "-W", "ignore", str(tmp_path / "pasted.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    printed = done.stdout.replace(b"value-".hex().upper(), "value-")
    assert printed.count("value-") == 3
    assert "value-1" not in done.stdout
