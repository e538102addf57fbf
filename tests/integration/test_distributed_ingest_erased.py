"""An archive that many tasks read into a topic with erased keys: log, report and refusals are those of one process."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_distributed_ingest import compare, list_ledgers, refuse, write_aiven
from tests.support.erased_keys import erase_keys, get_secret_file
from tests.support.in_process_ingest import carry_out_in_process
from tests.support.world import TOPIC, World, open_world, run_between_head_and_commit
from winnow.arrivals.planned_erasures import open_planned_erasures
from winnow.arrivals.run_task import run_ingest_task
from winnow.engine.ingest import build_units
from winnow.errors import ConfigurationError, UsageError, WinnowError
from winnow.files import storage
from winnow.log.erasures import read_erasures
from winnow.log.head import Change, Head
from winnow.pipeline.erased_keys import load_secret, open_erased_records, plan_erasures
from winnow.pipeline.ingest import run_spark
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.ingest.request import IngestReport
from winnow.planning import ingest_ranges
from winnow.values import documents
from winnow.values.epochs import Epoch
from winnow.values.ingest_plans import IngestPlan, IngestResult, RangeFailure, RangeResult

ERASED, OTHER = b"key-3\xff", b"key-4\xff"
WRITTEN_MS = 1_704_164_645_678
"""The time of the records that ``write_aiven`` writes."""

Worlds = tuple[World, World]


@pytest.fixture(name="worlds")
def _worlds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worlds]:
    """Two installations, for one process and for tasks, whose ranges are small."""
    monkeypatch.setattr(run_spark, "submit_ingest_plan", carry_out_in_process)
    monkeypatch.setattr(ingest_ranges, "MINIMUM_RANGE_BYTES", 1)
    with open_world(tmp_path / "local") as local, open_world(tmp_path / "spark") as spark:
        for world in (local, spark):
            world.create(1)
        yield local, spark


def erase_everywhere(worlds: Worlds, *keys: bytes, **options: Any) -> None:
    for world in worlds:
        erase_keys(world, *keys, **options)


def count(report: dict[str, Any]) -> tuple[int, int, int]:
    """Appended, skipped, left out."""
    return report["records_appended"], report["records_skipped"], report["records_erased"]


def keep_plans(monkeypatch: pytest.MonkeyPatch) -> list[IngestPlan]:
    """The plans that are carried out from now on."""
    plans: list[IngestPlan] = []

    def submit(installation: Any, plan: IngestPlan, progress: Any, secret: bytes | None) -> IngestResult:
        plans.append(plan)
        return carry_out_in_process(installation, plan, progress, secret)

    monkeypatch.setattr(run_spark, "submit_ingest_plan", submit)
    return plans


def make_epochs_change(epochs: tuple[Epoch, ...]) -> Callable[[Head], Change]:
    return lambda head: Change(state=replace(head.state, epochs=epochs))


def get_secret(world: World) -> bytes:
    return load_secret(world.installation, world.head().state, left="")


def take(world: World, path: Path) -> IngestReport:
    return ingest_files(world.installation, TOPIC, [str(path)], as_of_ms=world.clock(), on="spark")


def send(plan: IngestPlan) -> IngestPlan:
    """A task gets a copy."""
    return documents.load_json(IngestPlan, documents.dump_json(plan))


def ingest_and_keep_plan(world: World, folder: Path, monkeypatch: pytest.MonkeyPatch) -> IngestPlan:
    """Ingest an object with one old copy; return the plan."""
    plans = keep_plans(monkeypatch)
    write_aiven(folder / "one", range(7))
    take(world, folder / "one")
    (plan,) = plans
    return plan


# ------------------------------------------------------------------------------------------------ what is left out


def test_tasks_leave_out_and_count_what_one_process_does(worlds: Worlds, tmp_path: Path) -> None:
    """Records in order, repeats over several objects, and records that the log has."""
    erase_everywhere(worlds, ERASED)
    write_aiven(tmp_path / "first", range(70))
    assert count(compare(worlds, tmp_path / "first")) == (60, 0, 10)
    for offsets in (range(50, 120), range(100, 210), range(105, 140)):
        write_aiven(tmp_path / "second", offsets)
    report = compare(worlds, tmp_path / "second")
    left_out = sum(offset % 7 == 3 for offset in [*range(50, 120), *range(100, 210), *range(105, 140)])
    assert count(report) == (120, 70 + 110 + 35 - 120 - left_out, left_out)
    assert {each.key for each in worlds[1].read()} == {f"key-{n}\xff".encode("latin-1") for n in (0, 1, 2, 4, 5, 6)}
    assert list_ledgers(worlds[1], TOPIC) == list_ledgers(worlds[0], TOPIC)


def test_tasks_let_in_what_came_after_the_erasure(worlds: Worlds, tmp_path: Path) -> None:
    """Below the log end at the erasure a record is old, whatever its time; above it a later one is new."""
    write_aiven(tmp_path / "first", range(70))
    compare(worlds, tmp_path / "first")
    erase_everywhere(worlds, ERASED, at_ms=WRITTEN_MS - 1)
    write_aiven(tmp_path / "second", range(140))
    assert count(compare(worlds, tmp_path / "second")) == (70, 60, 10)
    assert [each.offset for each in worlds[1].read() if each.key == ERASED] == list(range(73, 140, 7))


def test_objects_of_nothing_but_old_copies_land_nothing_and_are_recognised(worlds: Worlds, tmp_path: Path) -> None:
    erase_everywhere(worlds, *(f"key-{n}\xff".encode("latin-1") for n in range(7)))
    write_aiven(tmp_path / "archive", range(40))
    for _ in range(2):
        assert count(compare(worlds, tmp_path / "archive")) == (0, 0, 40)
    assert list_ledgers(worlds[1], TOPIC) == list_ledgers(worlds[0], TOPIC)


def test_tasks_know_what_was_left_out_before_its_erasure_was_lifted(worlds: Worlds, tmp_path: Path) -> None:
    """What lies below the log end cannot come back, and stops nothing that comes with it."""
    write_aiven(tmp_path / "first", range(70))
    compare(worlds, tmp_path / "first")
    erase_everywhere(worlds, ERASED)
    erase_everywhere(worlds, ERASED, lifts=True)
    write_aiven(tmp_path / "second", range(77))
    assert count(compare(worlds, tmp_path / "second")) == (7, 70, 0)
    erase_everywhere(worlds, OTHER)
    write_aiven(tmp_path / "third", range(84))
    assert count(compare(worlds, tmp_path / "third")) == (6, 66, 12)


def test_tasks_refuse_a_record_of_which_nobody_can_tell_whether_it_is_old(worlds: Worlds, tmp_path: Path) -> None:
    """The offsets of a log that was read from brokers do not tell, and the record has no time."""
    write_aiven(tmp_path / "first", range(70))
    compare(worlds, tmp_path / "first")
    erase_everywhere(worlds, ERASED)
    for world in worlds:
        epochs = (Epoch(TOPIC, "AAAAAAAAAAAAAAAAAAAAAA", ends={0: 70}),)
        world.installation.log.open(TOPIC).commit(make_epochs_change(epochs))
    path = write_aiven(tmp_path / "second", range(70, 80))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("\n".join(json.dumps({**line, "timestamp": None}) for line in lines))
    refuse(worlds, tmp_path / "second", "has no timestamp")


def test_plan_says_of_erasures_what_one_process_knows(
    worlds: Worlds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lifted keys, epochs, and log ends that were lowered since: offsets that were given away again are new."""
    world = worlds[1]
    erase_keys(world, ERASED, OTHER)
    erase_keys(world, OTHER, lifts=True)
    made = ingest_and_keep_plan(world, tmp_path, monkeypatch)
    head = world.head()
    first, second = head.state.erasures
    lowered = (replace(first, lowered_ends={0: 5}), second)
    for epochs in ((), (Epoch(ends={0: 0}),)):
        changed = replace(head, state=replace(head.state, erasures=lowered, epochs=epochs))
        plan = send(replace(made, erasures=plan_erasures(changed)))
        by_task = open_planned_erasures(plan, get_secret(world))
        here = open_erased_records(world.installation, changed, left="")
        assert by_task is not None
        assert here is not None
        assert here.lowered_ends[first.erasure_id] == {0: 5}
        assert by_task.digester.compute(ERASED) == here.digester.compute(ERASED)
        assert replace(by_task, digester=here.digester) == here


# ------------------------------------------------------------------------------------------------ the secret


def test_neither_keys_nor_digests_nor_the_secret_are_in_a_plan_or_a_result(
    worlds: Worlds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = worlds[1]
    erase_keys(world, ERASED)
    plan = ingest_and_keep_plan(world, tmp_path, monkeypatch)
    outcome = carry_out_in_process(world.installation, plan, None, get_secret(world))
    assert sum(part.erased.get(0, 0) for part in outcome.ranges) == 1
    (erasure,) = read_erasures(world.head().state)
    text = documents.dump_json(plan) + documents.dump_json(outcome)
    for told in (ERASED, get_secret(world), b"key-3", base64.b64encode(ERASED), erasure.hashes.encode()):
        assert told not in text


@pytest.mark.parametrize("secret", [None, b"another secret of sixteen bytes and more"])
def test_task_without_the_secret_writes_nothing(
    worlds: Worlds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret: bytes | None
) -> None:
    world = worlds[1]
    erase_keys(world, ERASED)
    plan = ingest_and_keep_plan(world, tmp_path, monkeypatch)
    before = world.listing()
    for unit in build_units("", plan):
        assert unit.ingest is not None
        folder = storage.join(plan.folder, "app-2", "t0")
        done = run_ingest_task(send(unit.ingest), unit.number, folder, world.installation.budget, erase_secret=secret)
        assert isinstance(done, RangeFailure)
        assert done.exit_code == ConfigurationError.exit_code
    assert world.listing() == before


def test_missing_secret_refuses_an_archive_and_no_application_starts(
    worlds: Worlds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = worlds[1]
    erase_keys(world, ERASED)
    get_secret_file(world).unlink()
    plans = keep_plans(monkeypatch)
    write_aiven(tmp_path / "archive", range(20))
    before = world.listing()
    with pytest.raises(ConfigurationError, match="the secret that tells their old copies is not here"):
        take(world, tmp_path / "archive")
    assert (plans, world.listing()) == ([], before)


def test_driver_on_a_cluster_cannot_have_the_secret_and_this_process_reads(worlds: Worlds, tmp_path: Path) -> None:
    world = worlds[1]
    erase_keys(world, ERASED)
    settings = world.installation.settings
    spark = settings.spark.model_copy(update={"conf": {"spark.submit.deployMode": "cluster"}})
    elsewhere = replace(world.installation, settings=settings.model_copy(update={"spark": spark}))
    write_aiven(tmp_path / "archive", range(20))
    paths = [str(tmp_path / "archive")]
    with pytest.raises(UsageError, match="on Spark: the driver runs on the cluster, where it cannot read the secret"):
        ingest_files(elsewhere, TOPIC, paths, as_of_ms=world.clock(), on="spark")
    assert world.read() == []


def test_tasks_read_the_copy_of_an_erasure_whose_document_is_gone(worlds: Worlds, tmp_path: Path) -> None:
    erase_everywhere(worlds, ERASED)
    for world in worlds:
        storage.delete(world.head().state.erasures[0].path)
    write_aiven(tmp_path / "archive", range(20))
    assert count(compare(worlds, tmp_path / "archive")) == (17, 0, 3)


# ------------------------------------------------------------------------------------------------ races and faults


def test_key_that_is_erased_while_tasks_read_does_not_land(
    worlds: Worlds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The application reads again, under another ingest id; what the first one wrote is gone."""
    world = worlds[1]
    plans = keep_plans(monkeypatch)
    write_aiven(tmp_path / "archive", range(20))
    with run_between_head_and_commit(lambda: erase_keys(world, ERASED)):
        report = take(world, tmp_path / "archive")
    assert (report.records_appended, report.records_erased) == (17, 3)
    assert [plan.erasures is None for plan in plans] == [True, False]
    assert ERASED not in {each.key for each in world.read()}
    segments = [path for path in world.listing(below=world.log_folder()) if path.endswith(".parquet")]
    assert len(segments) == len(world.segments())


def forget_count(part: RangeResult) -> RangeResult:
    return replace(part, erased={})


def count_too_many(part: RangeResult) -> RangeResult:
    return replace(part, erased={number: found + 1 for number, found in part.erased.items()})


@pytest.mark.parametrize("forge", [forget_count, count_too_many])
def test_task_that_does_not_account_for_what_it_left_out_is_refused(
    worlds: Worlds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forge: Callable[[RangeResult], RangeResult]
) -> None:
    world = worlds[1]
    erase_keys(world, ERASED)

    def submit(*arguments: Any) -> IngestResult:
        result = carry_out_in_process(*arguments)
        return replace(result, ranges=tuple(map(forge, result.ranges)))

    monkeypatch.setattr(run_spark, "submit_ingest_plan", submit)
    write_aiven(tmp_path / "archive", range(20))
    with pytest.raises(WinnowError, match="would be accounted for"):
        take(world, tmp_path / "archive")
    assert world.read() == []


def test_offsets_at_brokers_never_tell_tasks_that_a_record_is_new(worlds: Worlds) -> None:
    """The topic may have been created again; a log that came from files knows no epoch of it."""
    erase_everywhere(worlds, ERASED)
    for of_brokers in (False, True):
        planned = plan_erasures(worlds[0].head(), of_brokers=of_brokers)
        assert planned is not None
        assert planned.needs_timestamps is of_brokers
