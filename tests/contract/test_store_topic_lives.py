"""Nothing of a topic's former life appears on the one that was created under its name."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Boolean, Float, Integer, Table, func, insert, select, text

import winnow.store
from tests.support import store_fixtures
from tests.support.store_fixtures import NOW_MS, marked_state, receipt
from winnow.errors import PlanVoidError
from winnow.store import Store
from winnow.store.segment_checks import FileCheck
from winnow.store.tables import Base
from winnow.store.topic_rows import KEPT, OF_NO_TOPIC, list_tables, list_tables_by_plan, list_tables_by_topic
from winnow.values.topic_state import RetiredFile, TopicHead

# Fixtures are found by the names they have here.
postgresql_server = store_fixtures.postgresql_server
new_store_url = store_fixtures.new_store_url
store_url = store_fixtures.store_url
store = store_fixtures.store

FORMER, PRESENT = "uuid-former", "uuid-present"


def head(table_uuid: str, number: int = 1) -> TopicHead:
    return TopicHead("orders", table_uuid, f"/{table_uuid}/{number}", number, 0, None, 0, NOW_MS, NOW_MS)


def fill(store: Store, topic: str) -> None:
    """Write a row about ``topic`` into every table that has one."""
    with store.projection._database.writing() as session:
        for table in reversed(list_tables()):
            if table.name != "winnow_topic_head":
                session.execute(insert(table).values(make_row(table, topic)))


def make_row(table: Table, topic: str) -> dict[str, Any]:
    values = {"topic": topic, "plan_id": f"plan-{topic}", "partition": 0, "as_of_ms": 1}
    row: dict[str, Any] = {}
    for column in table.c:
        if column.name in values:
            row[column.name] = values[column.name]
        elif isinstance(column.type, Boolean):
            row[column.name] = True
        elif isinstance(column.type, Integer | Float):
            row[column.name] = sum(map(ord, topic))
        else:
            row[column.name] = f"{topic}-{column.name}"
    return row


def count_rows(store: Store, topic: str) -> dict[str, int]:
    """Tables that have rows about ``topic``."""
    with store.projection._database.reading() as session:
        found = {
            table.name: session.scalar(
                select(func.count())
                .select_from(table)
                .where(table.c.topic == topic if "topic" in table.c else table.c.plan_id == f"plan-{topic}")
            )
            for table in (*list_tables_by_topic(), *list_tables_by_plan())
        }
    return {name: count for name, count in found.items() if count}


def test_every_table_goes_with_its_topic_or_is_named_with_the_reason_why_not() -> None:
    """A new table is in one of the three; none is forgotten, whichever module defines it."""
    for module in pkgutil.iter_modules([str(Path(winnow.store.__file__).parent)]):
        import_module(f"winnow.store.{module.name}")
    everything = set(Base.metadata.tables)
    assert {table.name for table in list_tables()} == everything
    gone = {table.name for table in (*list_tables_by_topic(), *list_tables_by_plan())}
    assert gone | KEPT.keys() | OF_NO_TOPIC.keys() >= everything
    assert not gone & (KEPT.keys() | OF_NO_TOPIC.keys())


def test_new_life_begins_without_a_row_of_the_one_before_and_others_keep_theirs(store: Store) -> None:
    """Also if the removal was killed before it forgot anything."""
    store.topic_heads.record(head(FORMER))
    fill(store, "orders")
    fill(store, "clicks")
    expected = count_rows(store, "clicks")
    assert len(expected) == len(list_tables_by_topic()) + len(list_tables_by_plan())
    store.topic_heads.record(head(FORMER, 2))
    assert count_rows(store, "orders") == expected, "the same life goes on"
    store.topic_heads.record(head(PRESENT))
    assert count_rows(store, "orders") == {}
    assert count_rows(store, "clicks") == expected


def test_forgotten_topic_has_no_row_but_those_that_stay(store: Store) -> None:
    fill(store, "orders")
    store.projection.forget_topic("orders")
    assert count_rows(store, "orders") == {}
    with store.projection._database.reading() as session:
        assert session.scalar(text("SELECT count(*) FROM winnow_lease WHERE topic = 'orders'")) == 1
        assert session.scalar(text("SELECT count(*) FROM winnow_audit WHERE topic = 'orders'")) == 1


def test_process_of_a_former_life_writes_nothing_and_removes_nothing(store: Store) -> None:
    """It was paused over the removal and the creation; what it knows is the head of its own life."""
    store.topic_heads.record(head(FORMER))
    store.topic_heads.record(head(PRESENT))
    states = {0: marked_state()}
    retired = [RetiredFile("/old", 1, NOW_MS, "plan-1")]
    check = FileCheck("orders", "/old", "segment", 0, 1, NOW_MS, "missing", "is missing", NOW_MS)
    projection = store.projection
    projection.record_states("orders", states, NOW_MS, table_uuid=FORMER)
    projection.record_publication(receipt(), states, retired, NOW_MS, table_uuid=FORMER)
    projection.replace("orders", states, [receipt()], retired, NOW_MS, table_uuid=FORMER)
    store.retired_files.record("orders", retired, "data", table_uuid=FORMER)
    store.segment_checks.record([check], {"orders": FORMER})
    with pytest.raises(PlanVoidError, match="removed and created again"):
        store.runs.open("p", "orders", attempt="a", as_of_ms=1, plan_uri="/p", now_ms=NOW_MS, table_uuid=FORMER)
    assert count_rows(store, "orders") == {}
    projection.record_states("orders", states, NOW_MS, table_uuid=PRESENT)
    store.segment_checks.record([check], {"orders": PRESENT})
    written = count_rows(store, "orders")
    assert {"winnow_checkpoint", "winnow_segment_check"} <= written.keys()
    projection.forget_topic("orders", table_uuid=FORMER)
    assert count_rows(store, "orders") == written
