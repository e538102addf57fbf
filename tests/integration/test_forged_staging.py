"""Documents of the staging area that somebody changed: noticed, named, never used; the log stays as it was.

Whole runs in process: real files, the engine, real Great Expectations. Only Spark itself is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from tests.support.in_process_spark import submit
from tests.support.world import TOPIC, World, build_versions, compute_survivors, open_world, record
from winnow.engine import staging
from winnow.errors import PlanVoidError, ValidationFailedError
from winnow.files import storage
from winnow.pipeline.compaction import batch, batch_validation, driver
from winnow.pipeline.compaction import plan as planning_step
from winnow.pipeline.compaction.driver import CompactionOutcome, compact_topics
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.compaction.run_plan import read_run_plan
from winnow.pipeline.compaction.stage import build_job_arguments
from winnow.pipeline.compaction.validate import add_plan_limits, validate_attempt
from winnow.pipeline.topics.marks import MINIMUM_BACK_OFF_MS
from winnow.planning.plans import PlanReference, TopicFacts, make_plan, plan_partition
from winnow.store import RunState
from winnow.values import documents
from winnow.values.model import PartitionPlan, Plan, Status

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

ALL = [*build_versions(0, 12), *build_versions(0, 12, partition=1)]
Document = dict[str, Any]
Forgery = Callable[[World, Document], None]
"""Changes a document in place."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Two partitions of three segments each, in a topic that is compacted and never deleted from."""
    with open_world(tmp_path) as opened:
        opened.create(2, min_cleanable_dirty_ratio="0")
        for first in (0, 4, 8):
            opened.ingest([*build_versions(first, 4), *build_versions(first, 4, partition=1)])
        yield opened


def run_of(world: World) -> Any:
    (found,) = world.installation.store.runs.list_runs(TOPIC)
    return found


def rewrite(uri: str, world: World, change: Forgery) -> None:
    """Change the document at ``uri`` by hand."""
    document = json.loads(storage.read_bytes(uri))
    change(world, document)
    storage.write_bytes(uri, json.dumps(document).encode())


def plan_file(world: World) -> str:
    return str(run_of(world).plan_uri)


def manifest_file(world: World) -> str:
    return staging.build_manifest_uri(plan_file(world), run_of(world).attempt)


def compact(world: World, monkeypatch: pytest.MonkeyPatch, *, before: str = "", action: object = None) -> Any:
    """A whole run; ``action`` takes place once, just before the step ``before`` of the batch."""
    with monkeypatch.context() as patch:
        patch.setattr(driver, "submit_plans", submit)
        if before:
            module = next(each for each in (driver, batch, batch_validation) if hasattr(each, before))
            genuine, left = getattr(module, before), [action]

            def step(*arguments: Any, **named: Any) -> Any:
                while left:
                    left.pop()()  # type: ignore[operator]
                return genuine(*arguments, **named)

            patch.setattr(module, before, step)
        return compact_topics(world.installation, [TOPIC], as_of_ms=world.clock())


def live(world: World) -> list[str]:
    return [segment.path for partition in range(2) for segment in world.segments(partition)]


def refused(world: World, outcome: CompactionOutcome, before: list[str], exit_code: int) -> str:
    """The one sentence about a run that was refused, after a look at the log and at the next run."""
    (error,) = outcome.errors
    (receipt,) = outcome.receipts
    assert outcome.exit_code == error.exit_code == exit_code
    assert receipt.status is (Status.REFUSED if exit_code == 5 else Status.INVALID)
    assert "othing was published" in error.message
    assert world.read() == ALL
    assert live(world) == before
    return error.message


def next_run_is_sound(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same instant again: the same plan id, whose document lies there changed."""
    world.clock.now_ms += MINIMUM_BACK_OFF_MS
    outcome = compact(world, monkeypatch)
    assert outcome.exit_code == 0
    assert world.read() == compute_survivors(ALL)


def retire_everything(_: World, plan: Document) -> None:
    """All segments of partition 0 leave the log unread."""
    (part,) = [part for part in plan["partitions"] if part["partition"] == 0]
    part["retired"], part["segments"] = part["segments"], []
    part["log_start_offset"] = part["next_first_dirty_offset"] = part["log_end_offset"]


def write_elsewhere(world: World, plan: Document) -> None:
    plan["data_location"] = str(world.folder / "elsewhere")


def expire_everything(_: World, plan: Document) -> None:
    for part in plan["partitions"]:
        part["expired"] = [{"start": 0, "end": part["next_first_dirty_offset"]}]


@pytest.mark.parametrize(
    ("forgery", "before"),
    [
        (write_elsewhere, "stage_retention_plans"),
        (write_elsewhere, "submit_plans"),
        (retire_everything, "submit_plans"),
        (retire_everything, "prepare_attempt"),
        (retire_everything, "publish_attempt"),
    ],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_a_plan_that_was_changed_is_named_and_used_by_no_step(
    world: World, monkeypatch: pytest.MonkeyPatch, forgery: Forgery, before: str
) -> None:
    """Before Spark, between the driver's look and Spark, before the judging, and after the verdict."""
    segments = live(world)
    outcome = compact(world, monkeypatch, before=before, action=lambda: rewrite(plan_file(world), world, forgery))
    message = refused(world, outcome, segments, 5)
    assert f"Plan {run_of(world).plan_id} of topic {TOPIC} is not the plan that was written" in message
    assert run_of(world).status is RunState.VOID
    assert not (world.folder / "elsewhere").exists()
    if before in {"stage_retention_plans", "publish_attempt"}:
        next_run_is_sound(world, monkeypatch)


def test_a_plan_that_writes_elsewhere_is_refused_before_anything_is_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With digest and id as they should be: a planner that looked at another lake."""
    genuine = make_plan

    def elsewhere(facts: TopicFacts, *arguments: Any, **named: Any) -> Plan:
        return genuine(replace(facts, data_location=str(world.folder / "elsewhere")), *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(planning_step, "make_plan", elsewhere)
        outcome = compact(world, monkeypatch)
    assert "writes elsewhere than below the topic's own tables" in refused(world, outcome, live(world), 5)
    assert not (world.folder / "elsewhere").exists()


def test_the_digest_of_a_plan_is_compared_beside_its_id(world: World) -> None:
    """Another spelling of the same decision is not what was made, and the log end is no part of the id."""
    plan = world.plan(world.clock())
    assert plan is not None

    def move_the_log_end(_: World, document: Document) -> None:
        document["partitions"][0]["log_end_offset"] += 1

    rewrite(plan.uri, world, move_the_log_end)
    assert staging.read_plan(plan.uri).plan_id == plan.plan_id
    with pytest.raises(PlanVoidError, match="its bytes have the digest"):
        read_run_plan(run_of(world))


def test_the_job_refuses_a_plan_with_another_digest_and_carries_out_the_others(world: World) -> None:
    """Plans of many topics share a job; each outcome names its topic and plan."""
    world.create(1, "users", min_cleanable_dirty_ratio="0")
    world.ingest(build_versions(0, 12), topic="users")
    changed, sound = world.plan(world.clock()), world.plan(world.clock(), topic="users")
    assert changed is not None
    assert sound is not None
    storage.write_bytes(changed.uri, storage.read_bytes(changed.uri) + b" ")
    arguments = build_job_arguments(world.installation.settings, [changed, sound], "a1")[-2:]
    plans, outcomes = staging.read_usable_plans(arguments)
    assert list(plans) == [sound.uri]
    (outcome,) = outcomes
    assert (outcome.topic, outcome.plan_id, outcome.exit_code) == (TOPIC, changed.plan_id, 5)
    # Who starts the job by hand may leave the digests out.
    assert len(staging.read_usable_plans([changed.uri, sound.uri])[0]) == 2


def test_a_verdict_publishes_only_the_plan_that_it_judged(world: World) -> None:
    """The run's row moved on to other bytes of the same decision."""
    plan = world.plan(world.clock())
    assert plan is not None
    world.stage(plan)
    world.accept(replace(plan, sha256="0" * 64))
    with pytest.raises(PlanVoidError, match="is not the one of which attempt a1 passed validation"):
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert world.read() == ALL


def first_output(manifest: Document) -> Document:
    (part,) = [part for part in manifest["partitions"] if part["partition"] == 0]
    output: Document = part["rewrites"][0]["outputs"][0]
    return output


def moved_to(place: Callable[[World, Path], str]) -> Forgery:
    """The first new segment lies, with the right bytes, where ``place`` says."""

    def change(world: World, manifest: Document) -> None:
        output = first_output(manifest)
        source = storage.parse_local_path(output["path"])
        target = place(world, source)
        output["path"] = target
        path = storage.parse_local_path(target)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source.read_bytes())

    change.__name__ = place.__name__
    return change


def outside_of_the_table(world: World, source: Path) -> str:
    return str(world.folder / "elsewhere" / source.name)


def out_of_the_attempt_by_dots(world: World, source: Path) -> str:
    return f"{source.parent}/../../another-plan/{source.name}"


def of_another_attempt(world: World, source: Path) -> str:
    return str(source.parent.parent / "a-another" / source.name)


def with_foreign_inputs(_: World, manifest: Document) -> None:
    """Partition 0 replaces a segment of partition 1, too."""
    parts = {part["partition"]: part for part in manifest["partitions"]}
    parts[0]["rewrites"][0]["inputs"].append(parts[1]["rewrites"][0]["inputs"][0])


def into_another_partition(_: World, manifest: Document) -> None:
    """The rows say 0 and the manifest says 1, by which the table would file it."""
    first_output(manifest)["partition"] = 1


MANIFESTS: list[tuple[Forgery, str]] = [
    (moved_to(outside_of_the_table), "files_of_this_attempt"),
    (moved_to(out_of_the_attempt_by_dots), "files_of_this_attempt"),
    (moved_to(of_another_attempt), "files_of_this_attempt"),
    (with_foreign_inputs, "replacements_fit"),
    (into_another_partition, "replacements_fit"),
]


@pytest.mark.parametrize(("forgery", "expectation"), MANIFESTS, ids=lambda each: getattr(each, "__name__", ""))
def test_a_staging_manifest_with_files_that_are_not_the_attempts_fails_validation(
    world: World, monkeypatch: pytest.MonkeyPatch, forgery: Forgery, expectation: str
) -> None:
    """The partition is marked and tried again later, as after every failed validation."""
    segments = live(world)
    outcome = compact(
        world, monkeypatch, before="prepare_attempt", action=lambda: rewrite(manifest_file(world), world, forgery)
    )
    message = refused(world, outcome, segments, 4)
    assert expectation in {failure.expectation for failure in verdict_of(world).failures}
    assert f"{TOPIC}-0" in message
    if forgery is MANIFESTS[0][0]:
        next_run_is_sound(world, monkeypatch)


def verdict_of(world: World) -> Any:
    (found,) = world.installation.store.verdicts.list_verdicts(TOPIC)
    return found


@pytest.mark.parametrize("forgery", [moved_to(outside_of_the_table), into_another_partition], ids=lambda f: f.__name__)
def test_files_that_are_not_the_attempts_are_not_published_whatever_the_verdict_says(
    world: World, forgery: Forgery
) -> None:
    """The last look is at the head that is committed over."""
    plan = world.plan(world.clock())
    assert plan is not None
    world.stage(plan)
    rewrite(staging.build_manifest_uri(plan.uri, "a1"), world, forgery)
    world.accept(plan)
    with pytest.raises(PlanVoidError, match=f"{TOPIC}-0: [01] foreign and [01] unfit new files"):
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert world.read() == ALL
    assert run_of(world).status is RunState.REFUSED


def test_a_staging_manifest_that_was_changed_after_the_verdict_is_not_published(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was right when it was judged."""

    def drop_an_output(_: World, manifest: Document) -> None:
        manifest["partitions"][0]["rewrites"][0]["outputs"] = []

    segments = live(world)
    outcome = compact(
        world,
        monkeypatch,
        before="publish_attempt",
        action=lambda: rewrite(manifest_file(world), world, drop_an_output),
    )
    assert "is not the one that passed validation" in refused(world, outcome, segments, 4)


def test_a_staging_manifest_of_another_attempt_is_not_judged(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copied over from an attempt whose files may be swept any time."""

    def rename(_: World, manifest: Document) -> None:
        manifest["attempt"] = "a-another"

    segments = live(world)
    outcome = compact(
        world, monkeypatch, before="prepare_attempt", action=lambda: rewrite(manifest_file(world), world, rename)
    )
    assert "is that of attempt a-another" in refused(world, outcome, segments, 5)


# ------------------------------------------------------------------ a planner that is wrong


def planned(world: World, monkeypatch: pytest.MonkeyPatch, change: Forgery) -> PlanReference:
    """A plan as a planner with a mistake would write it: digest, id and run row are right, the decision is not."""

    def wrong(*arguments: Any, **named: Any) -> PartitionPlan:
        part = documents.convert_to_json_types(plan_partition(*arguments, **named))
        change(world, {"partitions": [part]})
        return documents.load_json(PartitionPlan, json.dumps(part).encode())

    with monkeypatch.context() as patch:
        patch.setattr(planning_step, "plan_partition", wrong)
        found = world.plan(world.clock())
    assert found is not None
    return found


def end_too_late(_: World, plan: Document) -> None:
    """Records that min.compaction.lag.ms still protects would be cleaned, were they planned."""
    for part in plan["partitions"]:
        part["next_first_dirty_offset"] = part["log_end_offset"]


def forget_keyless(_: World, plan: Document) -> None:
    for part in plan["partitions"]:
        part["segments"][0]["keyless"] = 1


def retire_the_first_segment(_: World, plan: Document) -> None:
    (part,) = [part for part in plan["partitions"] if part["partition"] == 0] or [None]
    if part is not None:
        part["retired"], part["segments"] = part["segments"][:1], part["segments"][1:]
        part["log_start_offset"] = part["retired"][0]["last_offset"] + 1


def move_the_log_start(_: World, plan: Document) -> None:
    for part in plan["partitions"]:
        part["log_start_offset"] = 4


@pytest.mark.parametrize(
    ("mistake", "column", "words"),
    [
        (retire_the_first_segment, "retired_not_due", "segments removed that retention may not take"),
        (move_the_log_start, "retired_not_due", "segments removed that retention may not take"),
        (expire_everything, "expired_not_due", "tombstones dropped that may not go yet"),
        (forget_keyless, "unlike_log", "segments that the log does not hold so"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_plan_that_goes_beyond_state_and_configuration_neither_passes_nor_is_published(
    world: World, monkeypatch: pytest.MonkeyPatch, mistake: Forgery, column: str, words: str
) -> None:
    """Whatever made it: judged from the carried state and the configuration, by other code than planned it."""
    segments = live(world)
    plan = planned(world, monkeypatch, mistake)
    world.stage(plan)
    world.accept(plan)
    with pytest.raises(PlanVoidError, match=f"{TOPIC}-0: .*{words}"):
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert run_of(world).status is RunState.REFUSED
    again = planned(world, monkeypatch, mistake)
    manifest = world.stage(again)
    rows = add_plan_limits(
        world.installation, run_of(world), staging.read_plan(again.uri), manifest, [{"partition": 0}]
    )
    assert rows[0][column] == 1
    if mistake is retire_the_first_segment:
        with pytest.raises(ValidationFailedError, match="retention_due"):
            validate_attempt(world.installation, again.plan_id, "a1")
    assert (world.read(), live(world)) == (ALL, segments)


def test_a_plan_that_ends_where_records_may_not_be_cleaned_yet_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second segment is younger than min.compaction.lag.ms."""
    hour_ms = 3_600_000
    with open_world(tmp_path) as world:
        world.create(1, min_cleanable_dirty_ratio="0", min_compaction_lag_ms=str(hour_ms), segment_ms="1")
        now_ms = world.clock()
        old = [record(n, b"k", b"v", now_ms - 2 * hour_ms) for n in range(4)]
        young = [record(n, b"k", b"v", now_ms - 10) for n in range(4, 8)]
        world.ingest(old)
        world.ingest(young)

        def take_all(_: World, plan: Document) -> None:
            end_too_late(world, plan)
            plan["partitions"][0]["segments"] = [
                {name: getattr(segment, name) for name in segment.__dataclass_fields__} for segment in world.segments()
            ]

        plan = planned(world, monkeypatch, take_all)
        world.stage(plan)
        world.accept(plan)
        with pytest.raises(PlanVoidError, match="records cleaned that may not be cleaned yet"):
            publish_attempt(world.installation, plan.plan_id, "a1")
        assert world.read() == [*old, *young]


# ------------------------------------------------------------------ from before digests


def forget_digests(world: World) -> None:
    """The run's row as an older Winnow left it."""
    engine = create_engine(world.installation.settings.store_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE winnow_run SET plan_sha256 = NULL"))
    engine.dispose()


def test_a_run_from_before_digests_goes_on_and_a_changed_plan_is_known_by_its_id(world: World) -> None:
    plan = world.plan(world.clock())
    assert plan is not None
    forget_digests(world)
    sound = storage.read_bytes(plan.uri)
    world.stage(plan)
    rewrite(plan.uri, world, retire_everything)
    with pytest.raises(PlanVoidError, match="its id is not that of its content"):
        validate_attempt(world.installation, plan.plan_id, "a1")
    again = world.plan(world.clock())
    assert again is not None
    assert storage.read_bytes(plan.uri) == sound
    world.stage(again)
    forget_digests(world)
    assert validate_attempt(world.installation, plan.plan_id, "a1").passed
    assert publish_attempt(world.installation, plan.plan_id, "a1").plan_id == plan.plan_id
    assert world.read() == compute_survivors(ALL)


def test_a_verdict_that_does_not_say_what_it_is_about_is_not_enough_to_publish(world: World) -> None:
    """The next run plans and judges anew."""
    plan = world.plan(world.clock())
    assert plan is not None
    world.stage(plan)
    verdict = validate_attempt(world.installation, plan.plan_id, "a1")
    assert verdict.plan_sha256 == plan.sha256
    world.installation.store.verdicts.record(replace(verdict, plan_sha256=None))
    with pytest.raises(PlanVoidError, match="is not the one of which attempt a1 passed validation"):
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert run_of(world).status is RunState.VOID
    assert world.read() == ALL
    assert world.compact() is not None
    assert world.read() == compute_survivors(ALL)


def test_a_document_that_lies_where_a_plan_belongs_is_replaced(world: World) -> None:
    """Nothing tells who wrote it."""
    first = world.plan(world.clock())
    assert first is not None
    sound = storage.read_bytes(first.uri)
    rewrite(first.uri, world, retire_everything)
    again = world.plan(world.clock())
    assert again == first
    assert storage.read_bytes(first.uri) == sound


def test_the_same_decision_planned_again_keeps_the_bytes_that_a_job_may_be_reading(world: World) -> None:
    """An append between the two changes the log end in the document and nothing planned."""
    first = world.plan(world.clock())
    assert first is not None
    sound = storage.read_bytes(first.uri)
    world.ingest([record(12, b"key", b"value", world.clock())])
    again = world.plan(world.clock())
    assert again is not None
    assert again == first
    assert storage.read_bytes(first.uri) == sound
