"""Every command that writes, on one prepared lake: what it does, and what the topics hold afterwards.

What the topics must hold comes from the records that went in and the oracle. A command runs in a process of its own
(crash_points.py, ``every NAME``).
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
from pyiceberg.table import StaticTable

from tests.faults import crash_points
from tests.faults.power_cut_workload import carry_out
from tests.support.world import (
    TOPIC,
    FakeClock,
    World,
    build_versions,
    compute_survivors,
    open_world,
    record,
    write_jsonl,
)
from winnow.clock import read_wall_clock_ms
from winnow.errors import UnknownTopicError
from winnow.pipeline.admin.checkpoints import import_checkpoints
from winnow.pipeline.admin.delete_records import delete_records
from winnow.pipeline.admin.scrub import open_scrub
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.backup.create import create_backup
from winnow.pipeline.backup.verify import verify_backup
from winnow.pipeline.compaction.open_runs import settle_open_runs
from winnow.pipeline.erase.complete import erase_keys
from winnow.pipeline.erase.erase import EraseRequest
from winnow.pipeline.erase.older_states import adopt_without_erased, apply_registered
from winnow.pipeline.ingest.history import list_ingests
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.ingest.undo import undo_ingest
from winnow.pipeline.latest.table import update_latest_table
from winnow.pipeline.topics.adoption import adopt_topic
from winnow.pipeline.topics.definition import alter_topic, create_topic
from winnow.pipeline.topics.deletion import delete_topic, restore_topic
from winnow.pipeline.topics.leases import hold_lease
from winnow.pipeline.topics.partitions import pause_partitions, resume_partitions
from winnow.pipeline.topics.recovery import recover_topic
from winnow.pipeline.topics.stored_rows import rebuild_store
from winnow.pipeline.undo.undo import undo_change
from winnow.quality.gx_runtime import import_great_expectations
from winnow.sources.checkpoint_file import CheckpointEntry
from winnow.values.model import Record

HOUR_MS: Final = 3_600_000
GRACE_MS: Final = HOUR_MS
SINCE: Final = "since"
"""Folder with what is in no backup: the register with an erasure, and its secret."""
DEAD: Final = "dead"
"""The attempt that died before."""
EVENTS, GONE, PLAIN, CREATED = "events", "gone", "plain", "created"

CLEAN = [*build_versions(0, 12), *build_versions(0, 9, partition=1)]
DIRTY = build_versions(12, 6)
KEYLESS = record(18, None, b"keyless")
LATE = build_versions(19, 4)
TAIL = build_versions(23, 3)
EXPIRED = build_versions(0, 5)
UNEXPIRED_OFFSETS = range(5, 9)
OTHERS = build_versions(0, 8)
ERASED: Final = b"key-1"
_START: Final = 14
"""The log start that a deletion of records sets."""

Topics = dict[str, list[Record] | None]
"""What a reader sees of each topic; None: there is none of that name."""


def sort_records(records: Sequence[Record]) -> list[Record]:
    """The order of readers."""
    return sorted(records, key=lambda each: (each.partition, each.offset))


BEFORE: Final = compute_survivors(sort_records([*CLEAN, *DIRTY]), 12)
"""What readers see of :data:`TOPIC` on the prepared lake."""


@dataclass(frozen=True)
class Command:
    """``run`` does the work and may be repeated; ``damage``: what happened to the lake before, that makes it due.

    ``topics``: what readers see of the topics that it changes. ``ingested``: what is in the log of :data:`TOPIC` as
    ingested, afterwards. ``lost``: readers may see less until it has ended. ``forgets``: attempts that died before, so
    that a sweep reports their files and leaves them. ``absent``: a key that no file may hold afterwards, and of which
    old copies do not come back.
    """

    run: Callable[[World], object]
    topics: Topics = field(default_factory=dict)
    ingested: Sequence[Record] = (*CLEAN, *DIRTY)
    damage: Callable[[Path], object] = lambda _: None
    lost: bool = False
    forgets: bool = False
    absent: bytes | None = None

    def select(self, records: Sequence[Record]) -> list[Record]:
        """Leave out the records of the key that must not be there."""
        return [each for each in records if self.absent is None or each.key != self.absent]


def prepare(folder: Path, now_ms: int) -> None:
    """Topics in every state: compacted and dirty, expired, deleted, never compacted; with a dead attempt."""
    with open_world(folder) as world:
        world.clock.now_ms = now_ms
        common = {"min_cleanable_dirty_ratio": "0", "winnow_retired_grace_ms": str(GRACE_MS)}
        policy = {"cleanup_policy": "compact,delete", "retention_ms": "-1", "winnow_keyless": "quarantine"}
        world.create(2, **common, **policy, winnow_latest_table="true", winnow_value_format="string")
        world.ingest(CLEAN)
        world.compact()
        world.ingest([*DIRTY, KEYLESS])
        write_jsonl(folder / "late.jsonl", LATE)
        with hold_lease(world.installation, TOPIC):
            plan = world.plan(now_ms, DEAD)
            assert plan is not None
            world.stage(plan, DEAD)
        world.create(1, EVENTS, cleanup_policy="delete", retention_ms=str(24 * HOUR_MS), **common)
        world.ingest(EXPIRED, topic=EVENTS)
        world.ingest(list_unexpired(now_ms), topic=EVENTS)
        for topic in (GONE, PLAIN):
            world.create(1, topic, **common)
            world.ingest(OTHERS, topic=topic)
        delete_topic(world.installation, GONE)
        (newest,) = list_ingests(world.installation, TOPIC, limit=1).calls
        (folder / "newest-ingest.txt").write_text(newest.ingest_id)
    shutil.copytree(folder / "home", folder / "kept")
    with open_world(folder, FakeClock(now_ms)) as world:
        erase(world)
    (folder / SINCE).mkdir()
    for name in ("erasures", "erase.secret"):
        (folder / "home" / name).rename(folder / SINCE / name)
    shutil.rmtree(folder / "home")
    (folder / "kept").rename(folder / "home")


def bring_register(folder: Path) -> None:
    """The register has an erasure that the lake, an older state, does not know."""
    for path in (folder / SINCE).iterdir():
        path.rename(folder / "home" / path.name)


def list_unexpired(now_ms: int) -> list[Record]:
    """The records of :data:`EVENTS` that retention leaves."""
    return [record(n, b"key", b"%d" % n, timestamp_ms=now_ms) for n in UNEXPIRED_OFFSETS]


def list_before(now_ms: int) -> Topics:
    """What readers see of each topic of the prepared lake."""
    return {
        TOPIC: BEFORE,
        EVENTS: [*EXPIRED, *list_unexpired(now_ms)],
        GONE: None,
        PLAIN: OTHERS,
        CREATED: None,
    }


def read_topics(world: World) -> Topics:
    """What readers see now."""
    found: Topics = {}
    for topic in (TOPIC, EVENTS, GONE, PLAIN, CREATED):
        try:
            found[topic] = world.read(topic=topic)
        except UnknownTopicError:
            found[topic] = None
    return found


def ingest(world: World) -> None:
    """Ingest the file beside the lake."""
    ingest_files(world.installation, TOPIC, [str(world.folder / "late.jsonl")], as_of_ms=world.clock())


def compact(world: World, topic: str = TOPIC) -> None:
    """Compact as Spark's tasks do, which sync what they write, if the topic is due."""
    with hold_lease(world.installation, topic):
        settle_open_runs(world.installation, topic)
        plan = world.plan(world.clock(), topic=topic)
        if plan is not None:
            carry_out(world, plan)


def undo(world: World) -> None:
    """Undo the newest ingest call of the prepared lake."""
    undo_ingest(world.installation, TOPIC, (world.folder / "newest-ingest.txt").read_text())


def take_back(world: World) -> None:
    """Take the run of the prepared lake back, and let its partitions go on."""
    (run,) = world.head().state.receipts
    undo_change(world.installation, TOPIC, run.plan_id)
    resume_partitions(world.installation, TOPIC, by="somebody", everybody=True)


def erase(world: World) -> None:
    """Erase a key from everything."""
    erase_keys(world.installation, EraseRequest(TOPIC, [ERASED], "request"))


def list_files_with(folder: Path, key: bytes) -> list[str]:
    """The Parquet files of :data:`TOPIC` that hold a record of ``key``."""
    return [
        str(path.relative_to(folder))
        for path in folder.glob(f"home/warehouse/*/{TOPIC}-*/**/*.parquet")
        if key in pq.read_table(path, columns=["key"]).column("key").to_pylist()
    ]


def back_up(world: World) -> None:
    """Back up everything, and verify it."""
    destination = str(world.folder / "backup")
    create_backup(world.installation, destination)
    assert verify_backup(destination).findings == ()


def adopt(world: World) -> None:
    """Enter the topic into the catalog, which has lost it."""
    (folder,) = world.folder.glob(f"home/warehouse/winnow/{TOPIC}-*")
    adopt_topic(world.installation, TOPIC, str(folder), run=True)


def adopt_without(world: World) -> None:
    """The same, without what was erased since."""
    (folder,) = world.folder.glob(f"home/warehouse/winnow/{TOPIC}-*")
    adopt_without_erased(world.installation, TOPIC, str(folder), run=True)


def pause(world: World) -> None:
    """Pause a partition and go on again."""
    pause_partitions(world.installation, TOPIC, [1], by="somebody")
    resume_partitions(world.installation, TOPIC, [1], by="somebody")


def execute_on_catalog(statement: str) -> Callable[[Path], None]:
    """Change the catalog of a lake."""

    def execute(folder: Path) -> None:
        with closing(sqlite3.connect(folder / "home/catalog.db")) as catalog, catalog:
            assert catalog.execute(f"{statement} WHERE table_namespace = 'winnow' AND table_name = ?", [TOPIC]).rowcount

    return execute


def lose_store(folder: Path) -> None:
    """Delete the metadata store."""
    for path in folder.glob("home/store.db*"):
        path.unlink()


def make_commands(now_ms: int) -> Mapping[str, Command]:
    """Every command that writes, by name."""
    cleaned = compute_survivors(sort_records([*CLEAN, *DIRTY]))
    alive = list_unexpired(now_ms)
    late = sort_records([*BEFORE, *LATE])
    entries = [CheckpointEntry(PLAIN, 0, 4)]
    kept = [each for each in BEFORE if each.partition or each.offset >= _START]
    erased: Topics = {TOPIC: [each for each in BEFORE if each.key != ERASED]}
    others = [each for each in (*CLEAN, *DIRTY) if each.key != ERASED]

    def lose_and_register(folder: Path) -> None:
        execute_on_catalog("DELETE FROM iceberg_tables")(folder)
        bring_register(folder)

    return {
        "ingest": Command(ingest, {TOPIC: late}, [*CLEAN, *DIRTY, *LATE]),
        "compact": Command(compact, {TOPIC: cleaned}),
        "delete-records": Command(
            lambda world: delete_records(world.installation, TOPIC, {0: _START}),
            {TOPIC: kept},
            [each for each in (*CLEAN, *DIRTY) if each.partition or each.offset >= _START],
        ),
        "retention": Command(lambda world: compact(world, EVENTS), {EVENTS: alive}),
        "sweep": Command(lambda world: sweep_topics(world.installation)),
        "scrub": Command(lambda world: open_scrub(world.installation, [TOPIC, EVENTS, PLAIN])),
        "latest-table update": Command(lambda world: update_latest_table(world.installation, TOPIC)),
        "topics create": Command(lambda world: create_topic(world.installation, CREATED, 1, {}), {CREATED: []}),
        "topics alter": Command(
            lambda world: alter_topic(world.installation, TOPIC, {"segment.ms": "86400000"}, (), partitions=3)
        ),
        "topics delete": Command(lambda world: delete_topic(world.installation, PLAIN), {PLAIN: None}),
        "topics delete --now": Command(
            lambda world: delete_topic(world.installation, PLAIN, now=True), {PLAIN: None}, lost=True
        ),
        "topics restore": Command(lambda world: restore_topic(world.installation, GONE), {GONE: OTHERS}),
        "topics adopt": Command(adopt, damage=execute_on_catalog("DELETE FROM iceberg_tables"), lost=True),
        "topics recover": Command(
            lambda world: recover_topic(world.installation, TOPIC, run=True),
            damage=execute_on_catalog("UPDATE iceberg_tables SET metadata_location = previous_metadata_location"),
            lost=True,
        ),
        "backup": Command(back_up),
        "store rebuild": Command(lambda world: rebuild_store(world.installation), damage=lose_store, forgets=True),
        "checkpoints import": Command(lambda world: import_checkpoints(world.installation, PLAIN, entries)),
        "ingest undo": Command(undo, {TOPIC: compute_survivors(CLEAN)}, CLEAN),
        "erase": Command(erase, erased, others, absent=ERASED),
        "erase --registered": Command(
            lambda world: apply_registered(world.installation, TOPIC), erased, others, bring_register, absent=ERASED
        ),
        "topics adopt without erased": Command(
            adopt_without, erased, others, lose_and_register, lost=True, absent=ERASED
        ),
        "undo": Command(take_back, {TOPIC: sort_records([*CLEAN, *DIRTY])}),
        "partitions pause": Command(pause),
    }


def run(world: World, name: str) -> None:
    """Run one of them."""
    make_commands(read_wall_clock_ms())[name].run(world)


def load_libraries() -> None:
    """Import what most commands import, before the processes that run them are forked."""
    import_great_expectations()


def main() -> None:
    """Run the command that the arguments name (crash_points.py)."""
    crash_points.main()


def list_unnamed_files(folder: Path) -> set[str]:
    """The files in folders of data that no table of the catalog names, nor its log's state as waiting.

    Read with PyIceberg and as JSON, not with Winnow.
    """
    with closing(sqlite3.connect(folder / "home/catalog.db")) as catalog:
        tables = [location for (location,) in catalog.execute("SELECT metadata_location FROM iceberg_tables")]
    return list_files_unnamed_by(folder, tables)


def list_files_unnamed_by(folder: Path, tables: Sequence[str]) -> set[str]:
    """The files in folders of data below ``folder`` that no snapshot of ``tables`` names, nor a state as waiting."""
    named: set[str] = set()
    for location in tables:
        table = StaticTable.from_metadata(location)
        for snapshot in table.metadata.snapshots:
            for manifest in snapshot.manifests(table.io):
                named |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
            summary = snapshot.summary.additional_properties if snapshot.summary is not None else {}
            if "winnow.state" in summary:
                path = Path(json.loads(summary["winnow.state"])["path"].removeprefix("file://"))
                state = json.loads(path.read_text())
                named |= {each["path"] for each in (*state["retired"], *state["condemned"])}
    return {
        str(path.relative_to(folder))
        for path in folder.glob("home/warehouse/*/*/data/**/*")
        if path.is_file() and str(path) not in {each.removeprefix("file://") for each in named}
    }
