"""A policy switched from delete to compact: the first compaction moves keyless records aside, and none is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.world import (
    TOPIC,
    World,
    build_versions,
    list_visible_rows,
    open_world,
    record,
    run_between_head_and_commit,
    write_jsonl,
)
from winnow.engine import rewrite, staging
from winnow.errors import BadInputError
from winnow.files import storage
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.compaction.plan import build_reference
from winnow.pipeline.compaction.publish import adopt_keyless_files, publish_attempt
from winnow.pipeline.compaction.validate import add_plan_limits
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.ingest.request import IngestReport
from winnow.pipeline.topics.definition import alter_topic
from winnow.quality.fact_table import compute_fact_table
from winnow.quality.validation import validate_fact_table
from winnow.values.model import Plan, Record
from winnow.values.results import StagingManifest, Verdict

# GX imports deprecated modules of the standard library.
pytestmark = pytest.mark.filterwarnings("ignore:module .sre_[a-z]+. is deprecated:DeprecationWarning")

KEYLESS = [
    record(2, None, b"free-1", timestamp_ms=None),
    record(5, None, b"free-2", headers=(("h", None), ("h", b""))),
    record(6, None, None),
]
MIXED = [*build_versions(0, 2), KEYLESS[0], *build_versions(3, 2), *KEYLESS[1:], *build_versions(7, 5)]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A log with keyless records, of a topic that is compacted from now on."""
    with open_world(tmp_path) as opened:
        opened.create(1, cleanup_policy="delete", min_cleanable_dirty_ratio="0")
        ingest(opened, tmp_path / "mixed.jsonl", MIXED)
        alter_topic(opened.installation, TOPIC, {"cleanup.policy": "compact"}, ())
        yield opened


def ingest(world: World, path: Path, records: Sequence[Record]) -> IngestReport:
    return ingest_files(world.installation, TOPIC, [write_jsonl(path, records)], as_of_ms=world.clock())


def staged(world: World, attempt: str = "a1") -> tuple[Plan, StagingManifest]:
    reference = world.plan(world.clock(), attempt)
    assert reference is not None
    return staging.read_plan(reference.uri), world.stage(reference, attempt)


def judged(world: World, plan: Plan, manifest: StagingManifest) -> Verdict:
    budget = world.installation.budget
    rows = compute_fact_table(
        plan,
        manifest,
        memory_limit_bytes=budget.memory_limit_bytes,
        threads=1,
        spill_folder=budget.spill_folder,
    )
    run = world.installation.store.runs.find(plan.plan_id)
    assert run is not None
    return validate_fact_table(
        add_plan_limits(world.installation, run, plan, manifest, rows),
        plan_id=plan.plan_id,
        topic=TOPIC,
        attempt=manifest.attempt,
        checked_at_ms=world.clock(),
        data_docs=None,
    )


def published(world: World, plan: Plan, manifest: StagingManifest) -> None:
    assert judged(world, plan, manifest).passed
    run = world.installation.store.runs.find(plan.plan_id)
    assert run is not None
    reference = build_reference(plan, run.plan_uri, run.plan_sha256 or "")
    world.accept(reference, manifest.attempt)
    publish_attempt(world.installation, plan.plan_id, manifest.attempt)


def compacted(world: World, attempt: str = "a1") -> tuple[Plan, StagingManifest]:
    plan, manifest = staged(world, attempt)
    published(world, plan, manifest)
    return plan, manifest


def aside(world: World) -> list[Record]:
    """What the log's state shows of the quarantine, in offset order."""
    rows = list_visible_rows(world.installation.log.quarantine(TOPIC), world.head().state).sort_by("offset").to_pylist()
    return [
        Record(
            offset=row["offset"],
            key=row["key"],
            value=row["value"],
            timestamp_ms=None if row["timestamp"] is None else round(row["timestamp"].timestamp() * 1000),
            headers=None if row["headers"] is None else tuple((h["key"], h["value"]) for h in row["headers"]),
            timestamp_type=row["timestampType"],
            partition=row["partition"],
        )
        for row in rows
    ]


@pytest.mark.kafka("40")
def adopted(world: World) -> list[str]:
    """Files of the side table, as often as it names them."""
    table = world.installation.log.catalog.load_table(("winnow_quarantine", TOPIC))
    return [task.file.file_path for task in table.scan().plan_files()]


def test_the_first_compaction_quarantines_keyless_records_with_every_field(world: World) -> None:
    assert world.read() == MIXED
    _, manifest = compacted(world)
    assert [each.offset for each in world.read()] == [9, 10, 11]
    assert aside(world) == KEYLESS
    assert manifest.partitions[0].facts.records_keyless == 3
    assert world.state().log_end_offset == 12


def test_until_the_commit_keyless_records_are_in_the_log_alone(world: World) -> None:
    """Adopted rows count when the state names them, so a crash in between shows nobody a record twice."""
    plan, manifest = staged(world)
    seen: list[tuple[list[Record], list[Record]]] = []
    with run_between_head_and_commit(lambda: seen.append((world.read(), aside(world)))):
        published(world, plan, manifest)
    assert seen == [(MIXED, [])]
    assert aside(world) == KEYLESS


def test_moving_again_adds_no_file_twice(world: World) -> None:
    plan, manifest = staged(world)
    ids = {adopt_keyless_files(world.installation, plan, manifest) for _ in range(3)}
    assert ids == {f"{plan.plan_id}-a1"}
    assert adopted(world) == list(manifest.partitions[0].keyless_files)
    published(world, plan, manifest)
    assert aside(world) == KEYLESS


def test_two_that_move_the_same_attempt_at_once_add_its_files_once(world: World) -> None:
    """A publish that was taken for dead, and the one that took its place."""
    plan, manifest = staged(world)
    ready = threading.Barrier(4)

    def move() -> None:
        ready.wait()
        adopt_keyless_files(world.installation, plan, manifest)

    threads = [threading.Thread(target=move) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert adopted(world) == list(manifest.partitions[0].keyless_files)


def test_an_attempt_that_was_adopted_and_not_published_is_seen_by_nobody(world: World) -> None:
    """The next attempt brings the same records under its own id."""
    plan, manifest = staged(world, "a1")
    adopt_keyless_files(world.installation, plan, manifest)
    compacted(world, "a2")
    assert aside(world) == KEYLESS


def test_a_compaction_without_keyless_records_moves_nothing(world: World) -> None:
    compacted(world)
    world.ingest(build_versions(12, 6))
    plan, manifest = staged(world, "a2")
    assert manifest.partitions[0].keyless_files == ()
    assert adopt_keyless_files(world.installation, plan, manifest) is None


def test_an_engine_that_drops_keyless_records_silently_does_not_pass(world: World) -> None:
    """The real engine without its copying."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewrite, "copy_keyless_records", lambda *_, **__: ())
        plan, manifest = staged(world)
    verdict = judged(world, plan, manifest)
    assert {f.expectation for f in verdict.failures if f.severity == "fail"} == {"keyless_records_aside"}
    assert not verdict.passed


def test_a_sweep_leaves_moved_records_and_removes_unadopted_files_of_closed_runs(world: World) -> None:
    """They hold user bytes, and nobody will ever see them; the attempt that was published keeps its own."""
    abandoned_plan, abandoned = staged(world, "a1")
    plan, manifest = compacted(world, "a2")
    assert abandoned_plan.plan_id == plan.plan_id
    (left,) = abandoned.partitions[0].keyless_files
    assert left not in manifest.partitions[0].keyless_files
    written = {
        entry.uri for entry in world.installation.log.quarantine(TOPIC).list_files_of_plan(plan.plan_id, []).files
    }
    assert written == {left, *manifest.partitions[0].keyless_files}
    sweep_topics(world.installation, [TOPIC])
    assert storage.exists(left)
    world.clock.now_ms += 30 * 86_400_000
    sweep_topics(world.installation, [TOPIC])
    assert not storage.exists(left)
    assert aside(world) == KEYLESS


@pytest.mark.parametrize("moved", [False, True], ids=["still in the log", "in the quarantine"])
@pytest.mark.parametrize("keyless", ["reject", "quarantine"])
def test_a_file_with_keyless_records_that_are_known_is_skipped(
    world: World, tmp_path: Path, moved: bool, keyless: str
) -> None:
    """Its keyless records are there already, so there is nothing to refuse and nothing to put aside."""
    alter_topic(world.installation, TOPIC, {"winnow.keyless": keyless}, ())
    if moved:
        compacted(world)
    before, read, rows = world.listing(), world.read(), aside(world)
    report = ingest(world, tmp_path / "mixed.jsonl", MIXED)
    assert (report.records_skipped, report.records_quarantined, report.snapshot_id) == (len(MIXED), 0, None)
    assert (world.listing(), world.read(), aside(world)) == (before, read, rows)


@pytest.mark.parametrize("moved", [False, True], ids=["still in the log", "in the quarantine"])
def test_keyless_records_alone_are_known_one_by_one(world: World, tmp_path: Path, moved: bool) -> None:
    """Another file, whose digest nobody has seen: they are compared record by record."""
    if moved:
        compacted(world)
    assert ingest(world, tmp_path / "some.jsonl", KEYLESS).records_skipped == 3


@pytest.mark.parametrize("moved", [False, True], ids=["still in the log", "in the quarantine"])
@pytest.mark.parametrize(
    "changed",
    [{"value": b"other"}, {"headers": (("h", None),)}, {"timestamp_ms": 1}, {"key": b"key-0"}],
    ids=["value", "headers", "timestamp", "key"],
)
def test_another_record_at_the_offset_of_a_keyless_one_is_refused(
    world: World, tmp_path: Path, moved: bool, changed: dict[str, object]
) -> None:
    if moved:
        compacted(world)
    before = world.listing()
    with pytest.raises(BadInputError, match=r"row 1 \(partition 0, offset 5\): topic orders holds another record"):
        ingest(world, tmp_path / "other.jsonl", [replace(KEYLESS[1], **changed)])  # type: ignore[arg-type]
    assert world.listing() == before


@pytest.mark.parametrize("moved", [False, True], ids=["still in the log", "in the quarantine"])
def test_a_new_keyless_record_is_refused_beside_known_ones_and_counted_alone(
    world: World, tmp_path: Path, moved: bool
) -> None:
    if moved:
        compacted(world)
    before = world.listing()
    new = [record(12, None, b"a-secret"), *build_versions(13, 1), record(14, None, b"a-secret")]
    with pytest.raises(BadInputError) as refused:
        ingest(world, tmp_path / "more.jsonl", [*KEYLESS, *new])
    assert "row 4 (partition 0, offset 12): a record without a key; 2 in this call" in str(refused.value)
    assert "secret" not in str(refused.value)
    assert world.listing() == before


def test_a_new_keyless_record_is_quarantined_beside_moved_ones(world: World, tmp_path: Path) -> None:
    alter_topic(world.installation, TOPIC, {"winnow.keyless": "quarantine"}, ())
    compacted(world)
    new = record(12, None, b"new")
    report = ingest(world, tmp_path / "more.jsonl", [*KEYLESS, new])
    assert (report.records_skipped, report.records_quarantined) == (3, 1)
    assert aside(world) == [*KEYLESS, new]
