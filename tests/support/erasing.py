"""A topic whose keys are erased, and what is looked for afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.support.world import (
    TOPIC,
    FakeClock,
    World,
    build_versions,
    define_world,
    open_world,
)
from winnow.clock import read_wall_clock_ms
from winnow.pipeline.erase.certificate import Certificate, make_certificate
from winnow.pipeline.erase.complete import EraseReport, erase_keys
from winnow.pipeline.erase.erase import EraseRequest
from winnow.values.model import Record

GRACE_MS = 3_600_000
KEY = b"key-1"
FIRST = build_versions(0, 9)
SECOND = build_versions(0, 6, partition=1)


def define_erasing_world() -> Any:
    """A fixture of two partitions with records of three keys each."""
    return define_world(
        2,
        [*FIRST, *SECOND],
        in_the_present=True,
        min_cleanable_dirty_ratio="0",
        segment_ms="1",
        winnow_retired_grace_ms=str(GRACE_MS),
    )


@contextmanager
def open_erasing_world(folder: Path, clock: FakeClock | None = None) -> Iterator[World]:
    """The same world in a folder of its own."""
    folder.mkdir(exist_ok=True)
    with open_world(folder, clock or FakeClock(read_wall_clock_ms())) as world:
        world.create(2, min_cleanable_dirty_ratio="0", segment_ms="1", winnow_retired_grace_ms=str(GRACE_MS))
        world.ingest(FIRST)
        world.ingest(SECOND)
        yield world


def erase(world: World, *keys: bytes, **options: Any) -> EraseReport:
    return erase_keys(world.installation, EraseRequest(TOPIC, keys or (KEY,), "request 4711", **options))


def certify(world: World, report: EraseReport, *, verify: bool = False) -> Certificate:
    return make_certificate(world.installation, report.erasure_id, verify=verify)


def without(records: list[Record], *keys: bytes) -> list[Record]:
    return [each for each in records if each.key not in (keys or (KEY,))]


def list_holding(world: World, *texts: bytes) -> list[str]:
    """Every file of the installation in which one of these byte strings can be found, inputs aside."""
    return sorted(
        str(path)
        for path in (world.folder / "home").rglob("*")
        if path.is_file() and any(text in data for data in read_contents(path) for text in texts)
    )


def read_contents(path: Path) -> Iterator[bytes]:
    """The bytes of a file, and those of its keys and values if it is Parquet, which is compressed."""
    yield path.read_bytes()
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        for name in {"key", "value"} & set(table.column_names):
            yield b"\n".join(datum for datum in table.column(name).cast("binary").to_pylist() if datum is not None)


def compact(world: World) -> str:
    world.clock.now_ms += 1_000
    receipt = world.compact()
    assert receipt is not None
    assert receipt.plan_id is not None
    return receipt.plan_id


def list_staged(world: World) -> list[str]:
    return [path for path in world.listing() if "/a1/" in path and path.endswith(".parquet")]


def list_unused(world: World, report: EraseReport) -> list[str]:
    """The files that an erasure wrote and the log does not name."""
    live = [segment.path for partition in range(2) for segment in world.segments(partition)]
    written = [path for path in world.listing(below=world.log_folder()) if f"ingest-{report.erasure_id}" in path]
    return [path for path in written if not any(each.endswith(path) for each in live)]
