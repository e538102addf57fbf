"""``--output FOLDER``: many Parquet files, by this process or by tasks, all at once or none."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support import in_process_jobs
from tests.support.cli_runner import winnow
from tests.support.in_process_jobs import CORES, run_read_job
from tests.support.world import TOPIC, World, build_versions, define_world, record
from winnow.config.topic import TopicConfig
from winnow.engine import latest_records, read_parts, task_planning
from winnow.engine.job_notes import NOTES, JobNote, write_job_note
from winnow.engine.read_job import run_read_unit
from winnow.engine.read_plans import READ_JOB, ReadKind, locate_read_files
from winnow.errors import DamagedSegmentError, PlanVoidError, RunAgainError, UsageError
from winnow.files import storage
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.latest.records import plan_latest
from winnow.pipeline.read import folder as folder_module
from winnow.pipeline.read import record_parts
from winnow.pipeline.read.folder import write_folder
from winnow.pipeline.read.record_parts import plan_records
from winnow.pipeline.spark import plan_job
from winnow.pipeline.spark.plan_job import run_plan_job
from winnow.pipeline.topics.definition import alter_topic
from winnow.pipeline.topics.deletion import delete_topic
from winnow.pipeline.topics.topic_view import load_topic_view
from winnow.values import documents

world = define_world(
    2,
    *([*build_versions(first, 40), *build_versions(first, 40, partition=1)] for first in (0, 40, 80)),
    min_cleanable_dirty_ratio="0",
    segment_ms="1",
)

COMMANDS = [
    ["read", TOPIC],
    ["read", TOPIC, "--partition", "1", "--from-offset", "57"],
    ["read", TOPIC, "--from-offset", "1000"],
    ["read", TOPIC, "--latest"],
    ["latest", TOPIC],
    ["latest", TOPIC, "--partition", "1"],
    ["changes", TOPIC, "--from-offset", "60", "--to-offset", "90"],
]


@pytest.fixture(autouse=True)
def _in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_job, "run_job", run_read_job)


@pytest.fixture(name="home")
def _home(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("WINNOW_HOME", str(world.folder / "home"))
    return world


@pytest.fixture(name="folder")
def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / "out" / "rows"
    folder.mkdir(parents=True)
    return folder


def read_rows(folder: Path) -> pa.Table:
    """The rows of all files, in the order of their names."""
    return pa.concat_tables(pq.read_table(path) for path in sorted(folder.iterdir()))


def list_staged(world: World) -> list[str]:
    staging = world.installation.settings.staging
    return [file.uri for folder in (NOTES, READ_JOB) for file in storage.list_files(storage.join(staging, folder))]


def plan_all(world: World) -> Any:
    log = world.installation.log.open(TOPIC)
    return log, plan_records(log, log.head(), partition=None, from_offset=None, from_time_ms=None)


@pytest.mark.parametrize("engine", ["local", "spark"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_folder_holds_the_rows_of_one_file_in_their_order(
    home: World, folder: Path, command: list[str], engine: str
) -> None:
    """On Spark each part is written twice here, and only what was reported is taken."""
    single = folder.parent / "single.parquet"
    winnow(*command, "--format", "parquet", "--output", single)
    answer = winnow(*command, "--format", "parquet", "--output", folder, "--engine", engine)
    rows = read_rows(folder)
    assert rows.equals(pq.read_table(single))
    assert f"Wrote {rows.num_rows} " in answer.stderr
    assert sorted(path.name for path in folder.parent.iterdir()) == ["rows", "single.parquet"]
    assert list_staged(home) == []


@pytest.mark.parametrize("part_bytes", [1, 700, 2_000, 1 << 20])
def test_parts_of_any_size_have_every_record_once(
    world: World, folder: Path, monkeypatch: pytest.MonkeyPatch, part_bytes: int
) -> None:
    """A segment that is larger than a part is cut at offsets."""
    monkeypatch.setattr(record_parts, "PART_BYTES", part_bytes)
    log, plan = plan_all(world)
    written = write_folder(world.installation, log, plan, folder)
    assert written.files == len(plan.parts) == len(list(folder.iterdir()))
    rows = read_rows(folder)
    for partition in range(2):
        offsets = rows.filter(pa.compute.equal(rows.column("partition"), partition)).column("offset")
        assert offsets.to_pylist() == [record.offset for record in world.read(partition)]
    if part_bytes == 1:
        assert len(plan.parts) > len(world.segments(0)) + len(world.segments(1))


@pytest.mark.parametrize("strategy", ["offset", "timestamp", "header"])
def test_a_large_partition_s_latest_state_is_read_by_many_tasks(
    world: World, folder: Path, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    """Some for the keys of each partition, then one for each segment with a latest record; rows as of one process."""
    version = {"compaction.strategy.header": "v"} if strategy == "header" else {}
    alter_topic(world.installation, TOPIC, {"compaction.strategy": strategy, **version}, [])
    newer = (("v", (9).to_bytes(8, "big")),)
    world.ingest([record(120, b"key-1", b"wins", 10**12, headers=newer), record(121, b"key-1", b"old", 1)])
    monkeypatch.setattr(task_planning, "MINIMUM_PART_BYTES", 1)
    units: list[tuple[int, bool]] = []

    def note(unit: Any, budget: Any) -> Any:
        units.append((unit.partition, unit.share is not None))
        return run_read_unit(unit, budget)

    monkeypatch.setattr(in_process_jobs, "run_read_unit", note)
    view = load_topic_view(world.installation, TOPIC)
    plan = plan_latest(view)
    local = folder.parent / "local"
    local.mkdir()
    write_folder(world.installation, view.log, plan, local, "local")
    written = write_folder(world.installation, view.log, plan, folder, "spark")
    assert read_rows(folder).equals(read_rows(local))
    assert written.files == len(list(folder.iterdir())) == 3
    counts = {unit: units.count(unit) // 2 for unit in units}
    assert counts == {(0, True): CORES, (1, True): CORES, (0, False): 2, (1, False): 1}
    assert list_staged(world) == []


def test_share_of_a_large_partition_that_fails_is_said_and_nothing_is_written(
    world: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.ingest([record(120 + n, b"%d" % n, b"value-%d" % n * 50, partition=1) for n in range(200)])
    path = storage.parse_local_path(world.segments(1)[3].path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    view = load_topic_view(world.installation, TOPIC)
    with pytest.raises(DamagedSegmentError, match=f"{TOPIC}-1"):
        write_folder(world.installation, view.log, plan_latest(view), folder, "spark")
    assert list(folder.iterdir()) == []
    assert list_staged(world) == []


def test_shares_of_a_large_partition_check_the_pages_of_each_file_once(
    world: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB does not see every changed byte of a value."""
    checked: list[str] = []
    monkeypatch.setattr(latest_records, "check_pages", checked.append)
    view = load_topic_view(world.installation, TOPIC)
    write_folder(world.installation, view.log, plan_latest(view), folder, "spark")
    live = [segment.path for partition in range(2) for segment in world.segments(partition)]
    assert sorted(checked) == sorted([*live, *live])  # each task is carried out twice


def test_what_reads_at_least_the_setting_s_bytes_goes_to_tasks(
    world: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []

    def note(*arguments: Any, **more: Any) -> Any:
        started.append(more["size_bytes"])
        return run_plan_job(*arguments, **more)

    monkeypatch.setattr(folder_module, "run_plan_job", note)
    log, plan = plan_all(world)
    settings = world.installation.settings
    for limit in (plan.size_bytes + 1, plan.size_bytes):
        changed = settings.read.model_copy(update={"spark_from_bytes": limit})
        installation = replace(world.installation, settings=settings.model_copy(update={"read": changed}))
        write_folder(installation, log, plan, folder)
        for path in folder.iterdir():
            path.unlink()
    assert started == [plan.size_bytes]


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_a_damaged_segment_leaves_the_folder_empty(world: World, folder: Path, engine: str) -> None:
    """The files of sound partitions do not appear either."""
    storage.delete(world.segments(1)[0].path)
    log, plan = plan_all(world)
    with pytest.raises(DamagedSegmentError, match=r"Nothing was written") as problem:
        write_folder(world.installation, log, plan, folder, engine)
    assert world.segments(1)[0].path in str(problem.value)
    assert list(folder.parent.rglob("*")) == [folder]
    assert list_staged(world) == []


def test_a_task_that_fails_while_it_writes_leaves_no_file(
    world: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(read_parts, "read_latest_records", fail)
    view = load_topic_view(world.installation, TOPIC)
    plan = replace(plan_latest(view), root=str(folder), folder=str(folder))
    assert plan.kind is ReadKind.LATEST
    with pytest.raises(KeyboardInterrupt):
        read_parts.run_read_part(plan, plan.parts[0], world.installation.budget)
    assert list(folder.iterdir()) == []


def test_a_staged_file_that_somebody_replaced_is_refused(
    world: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The staging area is not trusted."""

    def replace_one(*arguments: Any, **more: Any) -> Any:
        outcome: Any = run_plan_job(*arguments, **more)
        path = storage.parse_local_path(outcome.files[0].uri)
        path.write_bytes(path.read_bytes().replace(b"PAR1", b"PAR2"))
        return outcome

    monkeypatch.setattr(folder_module, "run_plan_job", replace_one)
    log, plan = plan_all(world)
    with pytest.raises(PlanVoidError, match="is not the one that a task wrote"):
        write_folder(world.installation, log, plan, folder, "spark")
    assert list(folder.parent.rglob("*")) == [folder]
    assert list_staged(world) == []


KILLED_READING = """
import os, signal, sys
from pathlib import Path
from tests.integration.test_folder_output import folder_module, plan_all, plan_job, run_read_job, write_folder
from tests.support.world import FakeClock, open_world

def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

plan_job.run_job, folder_module._copy_file = run_read_job, die
with open_world(Path(sys.argv[1]), FakeClock(int(sys.argv[2]))) as world:
    write_folder(world.installation, *plan_all(world), Path(sys.argv[3]), "spark")
"""


def test_what_a_killed_reading_left_goes_with_a_sweep_after_the_grace_and_with_the_next_reading(
    world: World, folder: Path
) -> None:
    """The files that tasks wrote have a note beside them, whose last trace goes once they are found gone."""
    command = [sys.executable, "-c", KILLED_READING, str(world.folder), str(world.clock()), str(folder)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert len(list(folder.parent.iterdir())) == len(["the folder", "a draft", "its lock"])
    (note,) = (uri for uri in list_staged(world) if f"/{TOPIC}@{READ_JOB}@" in uri)
    plan_id = note.rpartition("@")[2].removesuffix(".json")
    begin = locate_read_files(world.installation.settings.staging, TOPIC, plan_id)
    foreign = [f"{begin[:-1]}g/part-000000.parquet.{'0' * 32}", note.replace(".json", "g.json")]
    other_topic = note.replace(f"/{TOPIC}@", "/others@")
    for uri in (*foreign, other_topic):
        storage.write_bytes(uri, storage.read_bytes(note))
    left = list_staged(world)
    assert len(left) > len([note, *foreign, other_topic])
    (report,) = sweep_topics(world.installation, [TOPIC])
    assert (report.unnamed, list_staged(world)) == ((), left)
    world.clock.now_ms += TopicConfig.parse({}).retired_grace_ms
    (report,) = sweep_topics(world.installation, [TOPIC])
    assert (report.unnamed, sorted(list_staged(world))) == ((), sorted([*foreign, note, other_topic]))
    mine = f"{begin}/mine.parquet"
    storage.write_bytes(mine, b"mine")
    (report,) = sweep_topics(world.installation, [TOPIC])
    assert (report.unnamed, sorted(list_staged(world))) == ((mine,), sorted([*foreign, note, other_topic, mine]))
    storage.delete(mine)
    sweep_topics(world.installation, [TOPIC])
    assert sorted(list_staged(world)) == sorted([*foreign, other_topic])
    log, plan = plan_all(world)
    write_folder(world.installation, log, plan, folder)
    assert list(folder.parent.iterdir()) == [folder]
    assert read_rows(folder).num_rows == sum(len(world.read(partition)) for partition in range(2))


def test_a_note_that_says_something_else_than_its_name_names_nothing(world: World) -> None:
    """Whoever writes to the staging area gets no other topic's files deleted, and none of a reading at work."""
    staging, note = world.installation.settings.staging, JobNote(READ_JOB, TOPIC, "a" * 32, world.clock())
    part = f"{locate_read_files(staging, TOPIC, note.plan_id)}/part-000000.parquet.{'0' * 32}"
    storage.write_bytes(part, b"records")
    write_job_note(staging, note)
    (place,) = (uri for uri in list_staged(world) if uri != part)
    left = list_staged(world)
    for told in (
        replace(note, topic="others", began_ms=0),
        replace(note, plan_id="b" * 32, began_ms=0),
        replace(note, job="compact", began_ms=0),
    ):
        storage.write_bytes(place, documents.dump_json(told))
        (report,) = sweep_topics(world.installation, [TOPIC])
        assert report.unnamed == (place,)
        assert list_staged(world) == left
    write_job_note(staging, note)
    sweep_topics(world.installation, [TOPIC])
    assert list_staged(world) == left
    delete_topic(world.installation, TOPIC, now=True)
    assert list_staged(world) == []


def test_a_staged_file_that_is_gone_says_to_run_again(
    world: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep takes a reading that is slower than the grace for dead."""

    def sweep_first(*arguments: Any, **more: Any) -> Any:
        outcome = run_plan_job(*arguments, **more)
        world.clock.now_ms += TopicConfig.parse({}).retired_grace_ms
        sweep_topics(world.installation, [TOPIC])
        return outcome

    monkeypatch.setattr(folder_module, "run_plan_job", sweep_first)
    log, plan = plan_all(world)
    with pytest.raises(RunAgainError, match=r"Nothing was written.*raise winnow\.retired\.grace\.ms"):
        write_folder(world.installation, log, plan, folder, "spark")
    assert list(folder.parent.rglob("*")) == [folder]
    assert list_staged(world) == []


def test_a_segment_swept_meanwhile_says_to_run_again(world: World, folder: Path) -> None:
    log, plan = plan_all(world)
    world.compact()
    storage.delete(plan.parts[0].log.segments[0].path)
    with pytest.raises(RunAgainError, match="was swept while it was being read"):
        write_folder(world.installation, log, plan, folder)
    assert list(folder.iterdir()) == []


def test_a_file_that_came_meanwhile_stays_and_nothing_is_added(
    world: World, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put(*arguments: Any) -> Any:
        (folder / "mine").write_text("mine")
        return read_parts.run_read_part(*arguments)

    monkeypatch.setattr(folder_module, "run_read_part", put)
    log, plan = plan_all(world)
    with pytest.raises(UsageError, match="not empty any more"):
        write_folder(world.installation, log, plan, folder)
    assert [path.name for path in folder.parent.rglob("*")] == ["rows", "mine"]


def test_the_folder_keeps_its_rights(world: World, folder: Path) -> None:
    """Records may be for their owner only."""
    folder.chmod(0o750)
    log, plan = plan_all(world)
    write_folder(world.installation, log, plan, folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (["read", "--format", "parquet", "--key", "a"], "--key there is one"),
        (["read", "--format", "parquet", "--latest", "--key", "a", "--limit", "1"], "--key and --limit there is one"),
        (["read", "--format", "parquet", "--decoded"], "--decoded gives JSON lines"),
        (["latest", "--format", "parquet", "--limit", "1"], "--limit there is one"),
        (["latest", "--format", "parquet", "--column", "city:string"], "--column there is one"),
        (["changes", "--format", "parquet", "--decoded", "--from-offset", "0"], "--decoded gives JSON lines"),
        (["read"], "with --format parquet an empty folder takes many files"),
        (["read", "--format", "parquet", "--engine", "flink"], "--engine"),
    ],
)
def test_what_goes_with_one_file_only_is_refused_for_a_folder(folder: Path, command: list[str], sentence: str) -> None:
    name, *options = command
    assert sentence in winnow(name, TOPIC, *options, "--output", folder, code=2).stderr


@pytest.mark.parametrize("command", [["read"], ["latest"], ["changes", "--from-offset", "0"]], ids=lambda each: each[0])
def test_spark_and_one_file_are_refused_and_a_folder_with_files_stays(folder: Path, command: list[str]) -> None:
    name, *options = command
    target = folder / "rows.parquet"
    parquet = ["--format", "parquet", "--output"]
    told = winnow(name, TOPIC, *options, *parquet, target, "--engine", "spark", code=2).stderr
    assert "use --engine local" in told
    assert "Name an empty folder" in told
    target.write_text("mine")
    assert "is not empty" in winnow(name, TOPIC, *options, *parquet, folder, code=2).stderr
    assert target.read_text() == "mine"
