"""The table of the latest state, written by tasks: the tasks and documents of a Spark application, in this process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_typed_table import alter, create, encode, read_table, read_topic_columns
from tests.integration.test_typed_table_history import keep_documents
from tests.support.in_process_jobs import prefer_tasks, run_latest_job
from tests.support.world import TOPIC, World, define_world, record
from winnow.config.settings import Settings
from winnow.errors import DamagedSegmentError, RunAgainError, ServiceError
from winnow.files import storage
from winnow.log.snapshot_expiry import NO_GRACE_MS
from winnow.pipeline.latest import run_spark
from winnow.pipeline.latest.table import update_latest_table
from winnow.pipeline.latest.table_files import sweep_latest_table
from winnow.pipeline.spark import plan_job
from winnow.pipeline.spark.submit import JobOutcome, JobOutput
from winnow.schemas import row_decoders
from winnow.values.model import Record

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
    return started


@pytest.fixture
def world(opened: World, jobs: Jobs) -> World:
    return prefer_tasks(opened)


def at(partition: int, offset: int, key: bytes, value: object) -> Record:
    return replace(record(offset, key, json.dumps(value).encode()), partition=partition)


def list_table_files(world: World) -> list[str]:
    location = world.installation.log.latest_table(TOPIC).location
    return sorted(entry.uri for entry in storage.list_files(f"{location}/data"))


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
    assert not list(Path(world.installation.settings.staging.removeprefix("file://")).rglob("*.json"))


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
