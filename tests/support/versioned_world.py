"""A topic in a bucket that keeps versions, with versions of files that were deleted before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tests.support.versioned_store import VersionedStore
from tests.support.world import TOPIC, FakeClock, World, build_versions, open_world, record
from winnow.clock import read_wall_clock_ms
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.erase.complete import EraseReport, erase_keys
from winnow.pipeline.erase.erase import EraseRequest
from winnow.pipeline.latest.table import update_latest_table

BUCKET = "lake"
LAKE = {"WINNOW_WAREHOUSE": f"s3://{BUCKET}/warehouse", "WINNOW_STAGING": f"s3://{BUCKET}/staging"}
KEY = b"key-1"
OTHERS = {b"key-0", b"key-2", b"key-9"}


@contextmanager
def open_versioned_world(folder: Path) -> Iterator[World]:
    """A world in the present whose lake is the bucket."""
    with open_world(folder, FakeClock(read_wall_clock_ms()), lake=LAKE) as opened:
        yield opened


def keep_old_versions(world: World) -> None:
    """Create the topic with a latest table, compact and sweep it, so that the bucket has versions of deleted files."""
    world.create(
        2,
        min_cleanable_dirty_ratio="0",
        segment_ms="1",
        winnow_retired_grace_ms="0",
        winnow_latest_table="true",
    )
    world.ingest(build_versions(0, 9))
    world.ingest(build_versions(0, 6, partition=1))
    update_latest_table(world.installation, TOPIC)
    world.clock.now_ms += 1_000
    assert world.compact() is not None
    world.clock.now_ms += 3_600_000
    sweep_topics(world.installation, [TOPIC])
    world.ingest([record(20, b"key-9", b"value"), record(21, KEY, b"value-0-21")])


def ingest_twice(world: World) -> None:
    """Create the topic with two files that hold the key."""
    world.create(1, winnow_retired_grace_ms="0")
    world.ingest(build_versions(0, 3))
    world.ingest(build_versions(3, 3))


def erase(world: World) -> EraseReport:
    """Erase the key."""
    return erase_keys(world.installation, EraseRequest(TOPIC, [KEY], "request 4711"))


def find_key_versions(store: VersionedStore) -> list[str]:
    """Every version of an object in which the key or one of its values can be found."""
    values = [each.value for each in build_versions(0, 9) if each.key == KEY and each.value is not None]
    return store.find_versions_with(BUCKET, KEY, *values, b"value-0-21")


def name_in_bucket(uri: str) -> str:
    """The key of an object of the bucket."""
    return uri.removeprefix(f"s3://{BUCKET}/")


def declare_final_deletes(world: World) -> World:
    """The world of somebody who has declared that the bucket keeps nothing of what is deleted."""
    settings = world.installation.settings
    declared = settings.erase.model_copy(update={"trust_bucket_deletes": True})
    changed = settings.model_copy(update={"erase": declared})
    return World(replace(world.installation, settings=changed), world.clock, world.folder)
