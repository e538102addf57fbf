"""The table of the latest state, written by tasks: the tasks and documents of a Spark application, in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_typed_table import alter, create, encode, read_table, read_topic_columns
from tests.integration.test_typed_table_history import keep_documents
from tests.support import in_process_jobs
from tests.support.in_process_jobs import CORES, prefer_tasks, run_latest_job
from tests.support.world import TOPIC, World, define_world, record
from winnow.config.settings import Settings
from winnow.engine import task_planning
from winnow.engine.job_notes import sweep_jobs
from winnow.engine.latest_job import UpdateUnit, run_update_unit
from winnow.errors import DamagedSegmentError, RunAgainError, ServiceError
from winnow.files import storage
from winnow.log.snapshot_expiry import NO_GRACE_MS
from winnow.pipeline.latest import run_spark
from winnow.pipeline.latest.table import update_latest_table
from winnow.pipeline.latest.table_files import sweep_latest_table
from winnow.pipeline.spark import plan_job
from winnow.pipeline.spark.submit import JobOutcome, JobOutput
from winnow.quality.latest_facts import LatestJudge, LatestPartition
from winnow.schemas import row_decoders
from winnow.values.model import Record
from winnow.values.strategies import Strategy

opened = define_world(in_the_present=True)


class Jobs:
    """The applications that were started: their plans, as written."""

    def __init__(self) -> None:
        self.plans: list[dict[str, Any]] = []
        self.text = ""

    def run(self, settings: Settings, job: Sequence[str], **more: Any) -> JobOutcome:
        text = Path(job[-1].partition("#")[0].removeprefix("file://")).read_text()
        self.plans.append(json.loads(text))
        self.text += text + " ".join(job)
        return run_latest_job(settings, job, **more)


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Jobs:
    started = Jobs()
    monkeypatch.setattr(plan_job, "run_job", started.run)
    monkeypatch.setattr(task_planning, "MINIMUM_PART_BYTES", 1)
    return started


@pytest.fixture
def world(opened: World, jobs: Jobs) -> World:
    return prefer_tasks(opened)


def at(partition: int, offset: int, key: bytes, value: object) -> Record:
    return replace(record(offset, key, json.dumps(value).encode()), partition=partition)


def list_table_files(world: World) -> list[str]:
    location = world.installation.log.latest_table(TOPIC).location
    return sorted(entry.uri for entry in storage.list_files(f"{location}/data"))


def list_staged_files(world: World) -> list[str]:
    """The folder of each file in the staging area."""
    staging = world.installation.settings.staging
    return sorted(Path(entry.uri).parent.name for entry in storage.list_files(staging))


def ingest_large(world: World, *, partitions: int = 1, segments: int = 3) -> None:
    """Each key several times, in several segments; every partition is large to these applications."""
    for number in range(segments):
        for partition in range(partitions):
            keys = [b"%d" % key for key in range(number, 40 + number)]
            begins = number * len(keys)
            world.ingest([at(partition, begins + n, key, {"n": number}) for n, key in enumerate(keys)])


def test_a_large_partition_is_found_written_and_judged_by_many_tasks(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In two applications, the first of which finds its columns."""
    units: list[UpdateUnit] = []
    monkeypatch.setattr(in_process_jobs, "run_update_unit", keep_units(units))
    create(world, winnow_value_format="string")
    ingest_large(world)
    done = update_latest_table(world.installation, TOPIC)
    assert (done.rows, done.rows_inserted) == (42, 42)
    assert [row["__offset"] for row in read_table(world)] == [0, 40, *range(80, 120)]
    assert [list(filter(None, kinds)) for kinds in zip(*map(describe_unit, units), strict=True)] == [
        [CORES] * CORES * 2,
        ["range"] * 3 * 2,
        [CORES] * CORES,
    ]
    assert len(list_table_files(world)) == 3


def test_a_large_partition_one_range_of_which_needs_a_further_column_is_written_again(world: World, jobs: Jobs) -> None:
    """What was written of its other ranges goes at once."""
    create(world, winnow_value_format="json")
    ingest_large(world)
    update_latest_table(world.installation, TOPIC)
    before = set(list_table_files(world))
    world.ingest([at(0, 120, b"new", {"n": 1, "city": "Ulm"})])
    alter(world, winnow_value_format="json", compaction_strategy="timestamp")
    done = update_latest_table(world.installation, TOPIC)
    assert (done.rows, done.columns_added, len(jobs.plans)) == (43, ("city",), 4)
    assert [plan["learns"] for plan in jobs.plans] == [True, False, False, False]
    assert len(set(list_table_files(world)) - before) == done.files_written


def keep_units(units: list[UpdateUnit]) -> Callable[..., dict[str, Any]]:
    def keep(unit: UpdateUnit, *more: Any) -> dict[str, Any]:
        units.append(unit)
        return run_update_unit(unit, *more)

    return keep


def describe_unit(unit: UpdateUnit) -> tuple[int | None, str | None, int | None]:
    """Of how many shares winners are found, whether a range is written, of how many shares rows are judged."""
    of = None if unit.share is None else unit.share.of
    return (of if unit.written is None else None, "range" if unit.group else None, of if unit.written else None)


def test_a_field_that_one_partition_alone_has_is_a_column_of_the_table(world: World, jobs: Jobs) -> None:
    """Two applications: what columns rows need is known before the first is written; later ones need one."""
    create(world, winnow_key_format="string", winnow_value_format="json")
    world.ingest([at(0, 0, b"a", {"city": "Ulm"}), at(1, 0, b"b", {"visits": 2})])
    done = update_latest_table(world.installation, TOPIC)
    assert (done.rows, done.columns_added) == (2, ("city", "key", "visits"))
    assert read_topic_columns(world) == [
        {"city": "Ulm", "key": "a", "visits": None},
        {"city": None, "key": "b", "visits": 2},
    ]
    assert [plan["learns"] for plan in jobs.plans] == [True, False]
    world.ingest([at(0, 1, b"c", {"city": "Kiel"})])
    update_latest_table(world.installation, TOPIC)
    assert len(jobs.plans) == 3


def test_only_the_partitions_that_need_new_columns_are_written_again(world: World, jobs: Jobs) -> None:
    create(world, winnow_key_format="string", winnow_value_format="json")
    world.ingest([at(0, 0, b"a", {"city": "Ulm"}), at(1, 0, b"b", {"city": "Bonn"})])
    update_latest_table(world.installation, TOPIC)
    world.ingest([at(0, 1, b"c", {"city": "Kiel"}), at(1, 1, b"d", {"city": "Hof", "zip": "95028"})])
    done = update_latest_table(world.installation, TOPIC)
    assert [[part["log"]["partition"] for part in plan["parts"]] for plan in jobs.plans[2:]] == [[0, 1], [1]]
    assert (done.rows_inserted, done.columns_added) == (2, ("zip",))
    assert [(row["city"], row["zip"]) for row in read_topic_columns(world)] == [
        ("Ulm", None),
        ("Kiel", None),
        ("Bonn", None),
        ("Hof", "95028"),
    ]


def test_where_one_partition_cannot_be_read_nothing_is_left_and_the_table_is_as_before(world: World) -> None:
    create(world, winnow_value_format="string")
    world.ingest([at(0, 0, b"a", 1), at(1, 0, b"b", 2)])
    update_latest_table(world.installation, TOPIC)
    before, files = read_table(world), list_table_files(world)
    world.ingest([at(0, 1, b"c", 3), at(1, 1, b"d", 4)])
    missing = world.segments(1)[-1].path
    Path(missing.removeprefix("file://")).unlink()
    with pytest.raises(DamagedSegmentError, match=rf"{TOPIC}-1.*winnow scrub"):
        update_latest_table(world.installation, TOPIC)
    assert read_table(world) == before
    assert list_table_files(world) == files
    assert list_staged_files(world) == ["notes"] * 2  # of the first two applications, which divided partitions
    for _ in range(2):
        sweep_jobs(world.installation.settings.staging, TOPIC, world.clock.now_ms, 0)
    assert list_staged_files(world) == []


def test_a_damaged_file_of_the_table_is_named_and_the_log_is_not_concerned(world: World) -> None:
    create(world, winnow_value_format="string")
    world.ingest([at(0, 0, b"a", 1)])
    update_latest_table(world.installation, TOPIC)
    (path,) = list_table_files(world)
    file = Path(path.removeprefix("file://"))
    content = bytearray(file.read_bytes())
    content[20] ^= 0xFF
    file.write_bytes(content)
    world.ingest([at(0, 1, b"a", 2)])
    with pytest.raises(DamagedSegmentError, match="The log is not concerned") as refused:
        update_latest_table(world.installation, TOPIC)
    assert path in str(refused.value)


def test_what_an_application_wrote_that_died_is_of_no_use_and_a_sweep_deletes_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its driver was killed after its tasks: nobody names what they wrote."""
    create(world, winnow_value_format="string")
    world.ingest([at(0, 0, b"a", 1)])
    update_latest_table(world.installation, TOPIC)
    before, files = read_table(world), list_table_files(world)

    def die(settings: Settings, job: Sequence[str], **more: Any) -> JobOutcome:
        run_latest_job(settings, job, **more)
        return JobOutput([plan.plan_id for plan in more["plans"]]).end(137)

    world.ingest([at(0, 1, b"b", 2)])
    with monkeypatch.context() as patch:
        patch.setattr(plan_job, "run_job", die)
        with pytest.raises(ServiceError, match=r"exit code 137.*The table is as before"):
            update_latest_table(world.installation, TOPIC)
    assert read_table(world) == before
    assert len(list_table_files(world)) == len(files) + 1
    update_latest_table(world.installation, TOPIC)
    assert [row["value"] for row in read_table(world)] == ["1", "2"]
    assert len(list_table_files(world)) == len(files) + 2
    sweep_latest_table(world.installation, TOPIC, world.clock.now_ms, NO_GRACE_MS)
    assert len(list_table_files(world)) == len(files) + 1


def test_columns_that_never_settle_end_the_update(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    create(world, winnow_value_format="json")
    world.ingest([at(0, 0, b"a", {"city": "Ulm"})])
    monkeypatch.setattr(run_spark, "MAXIMUM_APPLICATIONS", 1)
    with pytest.raises(RunAgainError, match=f"latest-table update {TOPIC}"):
        update_latest_table(world.installation, TOPIC)
    assert list_table_files(world) == []


def test_masks_hold_in_tasks_and_their_secret_is_in_no_document(
    world: World, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sixteen bytes of secret"
    settings = world.installation.settings
    latest = settings.latest.model_validate({"secret": secret, "spark_from_bytes": 1 << 20})
    latest = latest.model_copy(update={"spark_from_bytes": 1})
    world.installation = replace(world.installation, settings=settings.model_copy(update={"latest": latest}))
    create(world, winnow_value_format="json", winnow_latest_fields="city,email:hmac")
    values = [{"city": "Ulm", "email": "anna@example.com"}, {"ssn": "078-05-1120", "city": "Bonn"}]
    world.ingest([at(0, 0, b"a", values[0]), at(1, 0, b"b", values[1])])
    update_latest_table(world.installation, TOPIC)
    in_tasks = read_table(world)
    assert [row["city"] for row in in_tasks] == ["Ulm", "Bonn"]
    assert "ssn" not in in_tasks[0]
    assert len(in_tasks[0]["email"]) == 64
    assert len(jobs.plans) == 2
    assert secret not in jobs.text
    assert "anna" not in jobs.text
    alter(world, winnow_latest_fields="city")
    alter(world, winnow_latest_fields="city,email:hmac")
    update_latest_table(world.installation, TOPIC, "local")
    assert read_table(world) == in_tasks


def test_a_field_that_was_renamed_in_one_partition_is_masked_in_all(
    opened: World, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record whose schema no longer tells the former name is in the other partition."""
    settings = opened.installation.settings
    given = {"schema_registry": {"url": "http://localhost"}, "latest": {"secret": "sixteen bytes of secret"}}
    changed = {name: getattr(settings, name).model_validate(fields) for name, fields in given.items()}
    opened.installation = replace(opened.installation, settings=settings.model_copy(update=changed))
    schemas: list[dict[str, Any]] = [{"name": "email"}, {"name": "mail", "aliases": ["email"]}, {"name": "mail"}]
    monkeypatch.setattr(row_decoders, "open_registry", lambda _: keep_documents(map(make_customer, schemas)))
    world = prefer_tasks(opened)
    create(world, winnow_value_format="avro", winnow_latest_fields="email:hmac")
    world.ingest([framed(0, 0, b"a", 0, schemas), framed(1, 0, b"b", 0, schemas)])
    update_latest_table(world.installation, TOPIC)
    world.ingest([framed(0, 1, b"c", 1, schemas), framed(1, 1, b"d", 2, schemas)])
    update_latest_table(world.installation, TOPIC)
    assert len(jobs.plans) == 4
    (masked,) = {row["mail"] for row in read_table(world)}
    assert len(masked) == 64


def make_customer(field: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Customer", "fields": [{**field, "type": "string"}]}


def framed(partition: int, offset: int, key: bytes, number: int, schemas: list[dict[str, Any]]) -> Record:
    value = encode(make_customer(schemas[number]), {schemas[number]["name"]: "anna@example.com"})
    return replace(record(offset, key, b"\x00" + number.to_bytes(4, "big") + value), partition=partition)


@pytest.mark.parametrize("drops_rows", [False, True])
def test_shares_of_a_partition_find_together_what_is_found_of_the_whole(world: World, drops_rows: bool) -> None:
    create(world, winnow_value_format="string")
    ingest_large(world)
    world.ingest([record(120, b"7", None), record(121, b"9", b"\xff")])
    update_latest_table(world.installation, TOPIC)
    table = world.installation.log.latest_table(TOPIC)
    present = table.load()
    assert present is not None
    rows = table.segments(present)[0]
    schema = present.table.schema()
    sound = LatestPartition(
        partition=0,
        rows=rows,
        segments=world.segments(0),
        start_offset=0,
        end_offset=122,
        strategy=Strategy.OFFSET,
        header=None,
        error_column_id=schema.find_field("__error").field_id,
        drops_rows=drops_rows,
    )
    changes: list[dict[str, Any]] = [
        {},
        {"rows": rows[1:]},
        {"rows": [*rows, rows[0]]},
        {"rows": [replace(rows[0], records=7), *rows[1:]]},
        {"segments": sound.segments[1:]},
        {"segments": sound.segments[:-1]},
        {"start_offset": 100},
        {"end_offset": 119},
    ]
    budget, judge = world.installation.budget, LatestJudge()
    found = []
    whole: dict[str, int | str] = {}
    for change in changes:
        described = {name: getattr(replace(sound, **change), name) for name in LatestPartition.__slots__}
        whole, divided = (
            judge.merge([judge.compute(TOPIC, {**described, "share": n, "shares": of}, budget) for n in range(of)], 0.1)
            for of in (1, 3)
        )
        assert divided == whole
        found.append(tuple(whole[name] for name in ("rows_missing", "rows_stray", "rows_doubled", "rows_beyond_end")))
        assert bool(whole["rows_unaccounted"]) == (change.get("rows", rows)[0].records == 7)
    assert found[0] == (0, 0, 0, 0)
    assert all(any(counts) for number, counts in enumerate(found) if number not in (0, 3) and not drops_rows)
    assert (whole["rows_not_decoded"], whole["first_not_decoded"]) == (1, "121")
