"""The table declares the order of its records: when it is created, or by the next commit to an older table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, SortDirection
from pyiceberg.transforms import IdentityTransform

from tests.support.rest_catalog import serve_rest_catalog
from tests.support.world import TOPIC, World, build_versions, open_world
from winnow.log.manifests import list_live_manifests
from winnow.log.topic_configuration import set_config


def list_order(world: World) -> list[tuple[str, SortDirection]]:
    table = world.head().table
    assert all(isinstance(each.transform, IdentityTransform) for each in table.sort_order().fields)
    return [
        (table.schema().find_column_name(each.source_id) or "", each.direction) for each in table.sort_order().fields
    ]


def list_orders_of_files(world: World) -> list[int | None]:
    """The ids of the orders that the live files name."""
    head = world.head()
    return [
        entry.data_file.sort_order_id
        for manifest in list_live_manifests(head.table.io, head.snapshot)  # type: ignore[arg-type]
        for entry in manifest.fetch_manifest_entry(head.table.io)
    ]


BY_OFFSET = [("partition", SortDirection.ASC), ("offset", SortDirection.ASC)]


@pytest.fixture(params=["sql", "rest"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    if request.param == "sql":
        with open_world(tmp_path) as opened:
            yield opened
        return
    with serve_rest_catalog() as (_, address), open_world(tmp_path, lake={"WINNOW_CATALOG__URI": address}) as opened:
        yield opened


def create_older(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table as an earlier Winnow created it, with records."""
    with monkeypatch.context() as patch:
        patch.setattr("winnow.log.table_folders.LOG_SORT_ORDER", UNSORTED_SORT_ORDER)
        world.create(1, min_cleanable_dirty_ratio="0", segment_bytes="14")
    assert list_order(world) == []


def test_new_table_declares_its_order_and_its_files_name_it(world: World) -> None:
    """Every file holds one partition's records in offset order."""
    world.create(1)
    assert list_order(world) == BY_OFFSET
    world.ingest(build_versions(0, 6))
    assert list_order(world) == BY_OFFSET
    assert list_orders_of_files(world) == [world.head().table.sort_order().order_id]


def test_older_table_declares_its_order_in_the_commit_of_the_next_publish(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No commit of its own: the snapshot and the order appear together, and records stay as they are."""
    create_older(world, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr("winnow.log.topic_log.declare_sort_order", lambda _: None)
        world.ingest(build_versions(0, 6))
    assert list_order(world) == []
    snapshots = len(world.snapshot_ids())
    assert world.compact() is not None
    assert list_order(world) == BY_OFFSET
    assert len(world.snapshot_ids()) == snapshots + 1
    assert [each.offset for each in world.read()] == [3, 4, 5]


def test_older_table_declares_its_order_when_its_configuration_is_altered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And only once."""
    create_older(world, monkeypatch)
    log = world.installation.log.open(TOPIC)
    for value in ("1000", "2000"):
        set_config(log, {"segment.ms": value}, [])
        assert list_order(world) == BY_OFFSET
        assert [each.order_id for each in world.head().table.metadata.sort_orders] == [0, 1]


def test_order_that_somebody_else_declared_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It promises nothing about Winnow's files, which do not name it."""
    create_older(world, monkeypatch)
    table = world.head().table
    with table.update_sort_order() as order:
        order.desc("timestamp", IdentityTransform())
    world.ingest(build_versions(0, 6))
    assert list_order(world) == [("timestamp", SortDirection.DESC)]
    assert list_orders_of_files(world) == [None]
