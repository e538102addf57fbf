"""An erasure whose files are read, written and checked by tasks: those of a Spark application, in this process."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simulation.applications import run_erasure_application
from tests.support.erasing import (
    KEY,
    compact,
    define_erasing_world,
    list_holding,
    list_unused,
    open_erasing_world,
    without,
)
from tests.support.in_process_jobs import prefer_tasks_for_erasures
from tests.support.world import TOPIC, FakeClock, World, open_world, record
from winnow.clock import read_wall_clock_ms
from winnow.config.topic import TopicConfig
from winnow.engine import erasure_job
from winnow.engine.erasure_job import TaskSource, run_erasure_plan
from winnow.engine.erasure_plans import SEARCH, ErasureFile, ErasureJobPlan, ErasureOutcome
from winnow.engine.job_documents import write_job_document
from winnow.engine.key_erasure import KeyHits, find_keys_in_segment, rewrite_without_keys
from winnow.engine.staging import format_plan_argument
from winnow.engine.task_resources import TaskBudget
from winnow.errors import (
    ConfigurationError,
    DamagedSegmentError,
    ServiceError,
    ValidationBrokenError,
    ValidationFailedError,
)
from winnow.files import storage
from winnow.files.erase_secret import read_secret
from winnow.files.key_sets import DigestedKeys, GivenKeys
from winnow.log.erasures import read_erasures
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.erase import rewriting
from winnow.pipeline.erase.complete import EraseReport, erase_keys
from winnow.pipeline.erase.erase import EraseRequest
from winnow.pipeline.erase.older_states import apply_registered
from winnow.pipeline.erase.run_spark import ErasureTasks
from winnow.pipeline.spark import plan_job
from winnow.pipeline.spark.submit import JobOutcome
from winnow.quality import erasure_facts
from winnow.quality.erasure_facts import compute_erasure_facts
from winnow.store.ingests import Ingests
from winnow.values.erasures import KeyDigester, compute_key_id, encode_digests

world = define_erasing_world()
"""Two partitions with records of three keys each."""
TEXTS = (b"key-1", b"key-2")


@pytest.fixture(autouse=True)
def _in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_job, "run_job", run_erasure_application)


def erase(world: World, *keys: bytes, engine: str | None = "spark", **options: Any) -> EraseReport:
    wanted = EraseRequest(TOPIC, keys or (KEY,), "request 4711", engine=engine, **options)
    return erase_keys(world.installation, wanted)


def keep_plans(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The bytes of the plans that are carried out from now on, as text."""
    plans: list[str] = []

    def run(settings: Any, job: Sequence[str], **more: Any) -> JobOutcome:
        plans.append(storage.read_bytes(more["plans"][0].uri).decode())
        return run_erasure_application(settings, job, **more)

    monkeypatch.setattr(plan_job, "run_job", run)
    return plans


def list_steps(plans: list[str]) -> list[str]:
    return [json.loads(text)["step"] for text in plans]


def describe_erasure(world: World) -> dict[str, Any]:
    """What the newest erasure's document says, but for what differs from one installation to another."""
    *_, document = read_erasures(world.head().state)
    files = sorted((file.place, file.partition or 0, file.records, bool(file.sha256)) for file in document.files)
    counts = (document.keys, document.keys_found, document.records, document.tombstones)
    assert document.scan is not None
    first_dirty = {number: part.first_dirty_offset for number, part in world.head().state.partitions.items()}
    return {"files": files, "counts": counts, "first_dirty": first_dirty, "read": document.scan.files}


def test_tasks_erase_what_one_process_erases(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    before = world.read()
    plans = keep_plans(monkeypatch)
    report = erase(world, *TEXTS)
    assert list_steps(plans) == ["search", "rewrite", "check"]
    assert world.read() == without(before, *TEXTS)
    assert (report.keys_found, report.records, report.files, report.deleted) == (2, 10, 2, True)
    assert list_unused(world, report) == []


def test_the_certificate_is_that_of_one_process(tmp_path: Path) -> None:
    described = []
    for engine in ("local", "spark"):
        with open_erasing_world(tmp_path / engine) as one:
            compact(one)
            one.ingest([record(9, KEY, b"appended since")])
            erase(one, b"nobody", *TEXTS, engine=engine, with_tombstone=True)
            described.append((describe_erasure(one), one.read()))
    assert described[0] == described[1]
    assert {(place, has_digest) for place, _, _, has_digest in described[0][0]["files"]} == {
        ("live", True),
        ("retired", True),
    }


def test_neither_a_plan_nor_a_file_has_a_byte_of_a_key(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = keep_plans(monkeypatch)
    erase(world)
    secret = read_secret(None, world.installation.settings.erase.hmac_key_file)
    assert secret is not None
    assert not [text for text in plans if KEY.decode() in text or secret.decode() in text]
    assert list_holding(world, KEY) == []


def test_tasks_find_what_one_process_finds(world: World) -> None:
    """By the same numbers of keys, so that files of which some are read here and some there count together."""
    keys = GivenKeys([b"key-0", KEY, b"key-2", *(b"nobody-%d" % number for number in range(40))])
    secret = b"a secret of sixteen bytes or more"
    digester = KeyDigester(secret, world.head().table_uuid)
    digests = [digester.compute(key) for key in keys.keys.to_pylist()]
    segments = [segment for partition in range(2) for segment in world.segments(partition)]
    found, _ = ErasureTasks(world.installation, world.head(), secret, digests, "spark", call_id="call").search(
        segments, [], lambda _: None
    )
    hits = [KeyHits(each.records, dict(zip(each.keys, each.offsets, strict=True))) for each in found]
    assert hits == [find_keys_in_segment(segment, keys) for segment in segments]
    assert len(hits[0].newest) == 3


def test_task_that_is_carried_out_again_writes_other_files(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    folders: list[str] = []

    def note(segment: Any, wanted: Any, tombstones: Any, folder: str, below: str) -> Any:
        folders.append(folder)
        return rewrite_without_keys(segment, wanted, tombstones, folder, below)

    monkeypatch.setattr(erasure_job, "rewrite_without_keys", note)
    erase(world)
    assert len(folders) == len(set(folders)) == 4


def test_size_decides_where_it_is_done(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = keep_plans(monkeypatch)
    erase(world, engine=None)
    assert plans == []
    erase(prefer_tasks_for_erasures(world), b"key-2", engine=None)
    assert list_steps(plans) == ["search", "rewrite", "check"]


def test_a_driver_on_the_cluster_gets_no_secret(world: World) -> None:
    settings = world.installation.settings
    spark = settings.spark.model_copy(update={"conf": {"spark.submit.deployMode": "cluster"}})
    there = World(
        replace(world.installation, settings=settings.model_copy(update={"spark": spark})), world.clock, world.folder
    )
    before = world.read()
    with pytest.raises(ConfigurationError, match="deployMode"):
        erase(there)
    assert world.read() == before
    assert erase(there, engine=None).deleted


def test_record_that_a_task_lost_is_seen_and_nothing_stays(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = rewrite_without_keys

    def lose_one_more(segment: Any, wanted: Any, *rest: Any) -> Any:
        both = DigestedKeys(wanted._digester, [*wanted._numbers, wanted._digester.compute(b"key-2")])
        return genuine(segment, both, *rest)

    before, files = world.read(), set(world.listing())
    monkeypatch.setattr(erasure_job, "rewrite_without_keys", lose_one_more)
    with pytest.raises(ValidationFailedError, match="others_unchanged"):
        erase(world)
    assert world.read() == before
    assert set(world.listing()) == files


def test_key_that_a_task_left_is_seen(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine = rewrite_without_keys

    def leave_all(segment: Any, wanted: Any, *rest: Any) -> Any:
        return genuine(segment, DigestedKeys(wanted._digester, []), *rest)

    monkeypatch.setattr(erasure_job, "rewrite_without_keys", leave_all)
    with pytest.raises(ValidationFailedError, match="keys_gone"):
        erase(world)


def test_damaged_segment_found_by_a_task_is_named(world: World) -> None:
    path = Path(world.segments(0)[0].path.removeprefix("file://"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    snapshot = world.head().snapshot_id
    with pytest.raises(DamagedSegmentError, match=f"{TOPIC}-0"):
        erase(world)
    assert world.head().snapshot_id == snapshot


def test_retired_file_that_cannot_be_read_goes_too(world: World) -> None:
    compact(world)
    retired = world.head().state.retired[0].path
    Path(retired.removeprefix("file://")).write_bytes(b"not a segment any more")
    erase(world)
    assert not Path(retired.removeprefix("file://")).exists()


def test_fault_of_the_machine_ends_it_with_its_kind(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(segment: Any, wanted: Any) -> KeyHits:
        raise ServiceError("The object store does not answer.")

    monkeypatch.setattr(erasure_job, "find_keys_in_segment", fail)
    with pytest.raises(ServiceError, match="does not answer"):
        erase(world)


def test_check_that_fails_in_a_task_ends_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    before = world.read()

    def fail(*_: Any) -> Any:
        raise ServiceError("The object store does not answer.")

    monkeypatch.setattr(erasure_facts, "compute_erasure_facts", fail)
    with pytest.raises(ServiceError, match="does not answer"):
        erase(world)
    assert world.read() == before


def test_partition_that_no_task_checked_refuses_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    before = world.read()
    genuine = erasure_facts.compute_erasure_facts

    def leave_one_out(topic: str, parts: Any, erased: Any, budget: Any) -> Any:
        return [row for row in genuine(topic, parts, erased, budget) if row["partition"] != 1]

    monkeypatch.setattr(erasure_facts, "compute_erasure_facts", leave_one_out)
    with pytest.raises(ValidationBrokenError, match="not checked in every partition"):
        erase(world)
    assert world.read() == before


def test_documents_of_an_erasure_that_was_killed_go_with_a_sweep(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of one that was killed before it wrote a file; those of others stay."""
    staging = storage.join(world.installation.settings.staging, "erase")
    with monkeypatch.context() as patch:
        patch.setattr(plan_job, "end_job", lambda *_: None)
        patch.setattr(rewriting.Rewriting, "write", kill)
        patch.setattr(Ingests, "close", lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            erase(world)
    other = storage.join(staging, f"{'0' * 32}-1.json")
    storage.write_bytes(other, b"of another")
    assert len(storage.list_files(staging)) == 3
    for _ in range(3):
        world.clock.now_ms += TopicConfig.parse({}).retired_grace_ms
        sweep_topics(world.installation, [TOPIC])
    assert [file.uri for file in storage.list_files(staging)] == [other]
    assert world.installation.store.ingests.list_open(TOPIC) == []


def kill(*_: object) -> None:
    raise KeyboardInterrupt


def test_older_state_that_comes_back_is_searched_by_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock(read_wall_clock_ms())
    with open_erasing_world(tmp_path, clock) as world:
        before = world.read()
    shutil.copytree(tmp_path / "home", tmp_path / "kept")
    with open_world(tmp_path, clock) as world:
        erase(world, engine="local")
    for stays in ("erase.secret", "erasures"):
        (tmp_path / "home" / stays).rename(tmp_path / stays)
    shutil.rmtree(tmp_path / "home")
    (tmp_path / "kept").rename(tmp_path / "home")
    for stays in ("erase.secret", "erasures"):
        (tmp_path / stays).rename(tmp_path / "home" / stays)
    plans = keep_plans(monkeypatch)
    with open_world(tmp_path, clock) as world:
        assert world.read() == before
        applied = apply_registered(world.installation, TOPIC, engine="spark")
        assert (applied.records, applied.files) == (5, 2)
        assert world.read() == without(before)
    assert list_steps(plans) == ["search", "rewrite", "check"]


def test_application_with_another_secret_does_nothing(tmp_path: Path) -> None:
    digester = KeyDigester(b"0123456789abcdef", "life")
    plan = ErasureJobPlan(
        "f" * 32,
        SEARCH,
        TOPIC,
        "life",
        compute_key_id(b"0123456789abcdef"),
        encode_digests([digester.compute(KEY)]),
        str(tmp_path),
    )
    uri = f"file://{tmp_path}/staging/erase/plan.json"
    argument = format_plan_argument(uri, write_job_document(uri, plan))
    for secret in (None, b"another 16 bytes"):
        with pytest.raises(ConfigurationError, match="no secret"):
            run_erasure_plan(argument, secret=secret, check=compute_erasure_facts, budget=TaskBudget(1 << 28, 1, None))


def test_missing_file_of_no_manifest_is_told(tmp_path: Path) -> None:
    file = ErasureFile(3, f"file://{tmp_path}/gone.parquet", 10)
    plan = ErasureJobPlan("f" * 32, SEARCH, TOPIC, "life", "", "", str(tmp_path))
    keys = DigestedKeys(KeyDigester(b"0123456789abcdef", "life"), [])
    assert erasure_job.process_file(file, plan, keys) == ErasureOutcome(3, finding="missing", text="is missing")
    assert "0123456789abcdef" not in repr(TaskSource("uri", None, b"0123456789abcdef"))
