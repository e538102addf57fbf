"""The power goes right after a success: everything that the success stands for is there, and goes on.

What a machine keeps then is what was synced (:mod:`tests.faults.power_cut`). A killed process loses nothing of what it
has written; a power cut does.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.faults import crash_points, every_command, power_cut_workload
from tests.faults.power_cut import Disk, Recording, choose_disk, find_compiler, python
from tests.support.world import (
    TOPIC,
    FakeClock,
    World,
    build_versions,
    compute_survivors,
    list_visible_rows,
    open_world,
    write_jsonl,
)
from winnow.clock import read_wall_clock_ms
from winnow.log.document_copies import find_good
from winnow.log.reference_chains import list_documents
from winnow.log.snapshot_expiry import list_state_documents
from winnow.values.model import Record

NOW_MS = read_wall_clock_ms()
WORK, CRASH = Path(power_cut_workload.__file__), Path(crash_points.__file__)


def do(disk: Disk, *works: str) -> None:
    """Workloads of power_cut_workload.py, one after another to their good end; then the power goes."""
    disk.run(python(str(WORK), str(disk.folder), str(NOW_MS), *works))
    disk.cut_power()


@pytest.fixture
def disk(tmp_path: Path) -> Recording:
    """Keeps what was synced and nothing else."""
    return Recording(tmp_path)


def test_after_an_ingest_every_record_is_there_and_can_be_compacted(disk: Recording) -> None:
    """In the log, and the one without a key in the quarantine; the same files land no second time."""
    do(disk, "ingest")
    with open_world(disk.folder, FakeClock(NOW_MS), power_cut_workload.lake(disk.folder)) as world:
        assert world.read() == power_cut_workload.RECORDS
        assert quarantined(world) == [b"keyless"]
        for document in (*list_state_documents(world.head().table), *list_documents(world.head().state)):
            places = world.head().documents.list_places(document.path)
            assert all(find_good(document, place) is not None for place in places)
        # What came last, too: the journal of the last commit is the one that may come back.
        assert [(each.offset, each.value) for each in world.read(topic=power_cut_workload.OLD_TOPIC)] == [
            (each.offset, each.value) for each in power_cut_workload.OLD
        ]
        again = world.ingest([*power_cut_workload.RECORDS, *power_cut_workload.KEYLESS])
        assert (again.records_appended, again.records_skipped) == (0, len(power_cut_workload.RECORDS) + 1)
        world.compact()
        assert world.read() == compute_survivors(power_cut_workload.RECORDS)


def test_after_a_compaction_every_survivor_is_there_and_the_next_one_goes_on(disk: Recording) -> None:
    """Receipt, state, checkpoint and the keyless record that moved; what comes afterwards goes as it would have."""
    do(disk, "ingest", "compact")
    more = build_versions(13, 6)
    with open_world(disk.folder, FakeClock(NOW_MS), power_cut_workload.lake(disk.folder)) as world:
        assert world.read() == compute_survivors(power_cut_workload.RECORDS)
        (receipt,) = world.installation.log.open(TOPIC).receipts()
        assert [each.plan_id for each in world.installation.store.projection.list_receipts(TOPIC)] == [receipt.plan_id]
        assert world.compact() is None
        world.ingest(more)
        world.compact()
        assert world.read() == compute_survivors(
            [*power_cut_workload.RECORDS[:12], *more, *power_cut_workload.RECORDS[12:]]
        )
        assert [each.offset for each in world.read(topic=power_cut_workload.OLD_TOPIC)] == [2]
        assert quarantined(world, power_cut_workload.OLD_TOPIC) == [b"1"]


def quarantined(world: World, topic: str = TOPIC) -> list[bytes]:
    """Values of the records aside that the log's state names."""
    rows = list_visible_rows(world.installation.log.quarantine(topic), world.head(topic).state)
    return [bytes(value) for value in rows.column("value").to_pylist()]


def test_a_folder_of_files_for_people_is_whole(disk: Recording) -> None:
    """Written by the command's own process; those of tasks are copied and synced beside the folder, too."""
    rows = disk.folder / "for" / "people"
    do(disk, "ingest")
    rows.mkdir(parents=True)
    disk.forget_nothing()
    command = python("-m", "winnow.cli", "read", TOPIC, "--format", "parquet", "--output", str(rows))
    disk.run(command, {"WINNOW_HOME": str(disk.folder / "home"), **power_cut_workload.lake(disk.folder)})
    disk.cut_power()
    assert {path.suffix for path in rows.iterdir()} == {".parquet"}
    assert pq.read_table(rows).num_rows == len(power_cut_workload.RECORDS)


def test_a_removed_topic_does_not_come_back_without_its_entry(disk: Recording) -> None:
    """The deletion of its data is on disk before the catalog forgets it."""
    every_command.prepare(disk.folder, NOW_MS)
    disk.forget_nothing()
    now_ms = NOW_MS + 2 * every_command.HOUR_MS
    disk.run(python(str(CRASH), "every topics delete --now", str(disk.folder), str(now_ms)))
    disk.cut_power()
    unnamed = every_command.list_unnamed_files(disk.folder)
    assert {path for path in unnamed if f"/{every_command.DEAD}/" not in path} == set()


def test_after_the_commands_of_a_shell_every_record_is_read_and_the_topic_is_compacted_again(tmp_path: Path) -> None:
    """``winnow ingest`` and ``winnow compact`` with Spark, on a file system of their own where one can be mounted."""
    disk = choose_disk(tmp_path)
    env = {"WINNOW_HOME": str(disk.folder / "home"), "WINNOW_SPARK__MASTER": "local[1]"}

    def winnow(*arguments: str) -> str:
        return disk.run(python("-m", "winnow.cli", *arguments), env)

    def read() -> list[tuple[int, str]]:
        return [(line["offset"], line["value"]) for line in map(json.loads, winnow("read", TOPIC).splitlines())]

    def expected(records: list[Record]) -> list[tuple[int, str]]:
        return [(each.offset, base64.b64encode(each.value or b"").decode()) for each in records]

    records = build_versions(0, 12)
    path = write_jsonl(tmp_path / "records.jsonl", records)
    winnow("topics", "create", TOPIC, "--partitions", "1", "--config", "min.cleanable.dirty.ratio=0",
           "--config", "segment.ms=1000")  # fmt: skip
    winnow("ingest", "files", TOPIC, path)
    disk.cut_power()
    assert read() == expected(records)
    winnow("compact", TOPIC)
    disk.cut_power()
    assert read() == expected(compute_survivors(records))
    assert json.loads(winnow("compact", TOPIC, "--json"))[0]["status"] == "nothing_to_do"


# ----------------------------------------------------------------------------------------------- the disk that forgets

SYNCS = """
import os, sys
from pathlib import Path
lake = Path(sys.argv[1])
def sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
for name in ("kept", "content-lost", "entry-lost"):
    (lake / name).mkdir()
    (lake / name / "file").write_bytes(b"one")
sync(lake / "kept" / "file"), sync(lake / "kept"), sync(lake / "content-lost"), sync(lake / "entry-lost" / "file")
sync(lake)
(lake / "kept" / "file").write_bytes(b"two")
(lake / "kept" / "second").write_bytes(b"three")
(lake / "kept" / "second").rename(lake / "kept" / "third")
(lake / "late").mkdir()
"""


@pytest.mark.parametrize("library", [each for each in (True, False) if find_compiler() or not each])
def test_a_recording_forgets_what_was_not_synced(tmp_path: Path, library: bool) -> None:
    """Content, entries, and what came after the last sync; by whichever means the machine has."""
    disk = Recording(tmp_path, library=library)
    disk.run(python("-c", SYNCS, str(disk.folder)))
    disk.cut_power()
    left = {
        str(path.relative_to(disk.folder)): path.read_bytes() if path.is_file() else None
        for path in disk.folder.rglob("*")
    }
    assert left == {
        "kept": None, "kept/file": b"one", "content-lost": None, "content-lost/file": b"", "entry-lost": None,
    }  # fmt: skip
