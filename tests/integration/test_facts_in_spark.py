"""Facts of large attempts come from a Spark application, and are those that this process computes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_publish_validation import damage, run_state
from tests.support.world import World, build_versions, open_world
from winnow.config.setting_fields import FactsSettings
from winnow.engine import staging
from winnow.engine.facts import build_units, recompute_unit, write_plan_facts
from winnow.engine.staging import build_facts_uri, read_facts, write_facts
from winnow.errors import ServiceError, ValidationBrokenError, ValidationFailedError
from winnow.files import storage
from winnow.pipeline.compaction import facts as pipeline_facts
from winnow.pipeline.compaction.facts import FactRecomputer, StagedAttempt
from winnow.pipeline.compaction.validate import validate_attempt
from winnow.pipeline.installation import Installation
from winnow.pipeline.spark.submit import JobOutcome, run_job
from winnow.planning.plans import PlanReference
from winnow.quality.fact_table import compute_fact_table, compute_figures, pair_partitions
from winnow.store import RunState
from winnow.values.results import StagingManifest

TOPICS = ("orders", "users")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with open_world(tmp_path) as opened:
        for topic in TOPICS:
            opened.create(2, topic, min_cleanable_dirty_ratio="0")
            opened.ingest([*build_versions(0, 12), *build_versions(0, 12, partition=1)], topic=topic)
        yield opened


def everything_is_large(installation: Installation) -> Installation:
    """The same installation, where one byte is enough for Spark."""
    facts = FactsSettings.model_construct(workers=1, spark_from_bytes=1)
    return replace(installation, settings=installation.settings.model_copy(update={"facts": facts}))


def staged(world: World, topic: str) -> tuple[PlanReference, StagedAttempt]:
    plan = world.plan(world.clock(), topic=topic)
    assert plan is not None
    manifest = world.stage(plan)
    return plan, StagedAttempt(plan.uri, staging.read_plan(plan.uri), manifest)


def in_process(world: World, attempt: StagedAttempt) -> list[dict[str, int | str]]:
    budget = world.installation.budget
    return compute_fact_table(
        attempt.plan,
        attempt.manifest,
        memory_limit_bytes=budget.memory_limit_bytes,
        threads=budget.threads,
        spill_folder=budget.spill_folder,
    )


def test_one_spark_application_gives_every_topic_the_facts_of_this_process_and_a_damaged_file_is_caught(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sound topic passes; of the other the damaged partition fails, under the same names as in process."""
    installation = everything_is_large(world.installation)
    (sound, first), (broken, second) = staged(world, "users"), staged(world, "orders")
    damage(second.manifest, 0)
    started: list[str] = []

    def counted(*arguments: Any, **named: Any) -> JobOutcome:
        started.append(named["name"])
        return run_job(*arguments, **named)

    monkeypatch.setattr(pipeline_facts, "run_job", counted)
    with FactRecomputer(installation) as facts:
        for each in (sound, broken):
            facts.begin(each, "a1")
        assert facts.rows(first) == in_process(world, first)
        assert facts.rows(second) == in_process(world, second)
        assert validate_attempt(installation, sound.plan_id, "a1", facts=facts).passed
        with pytest.raises(ValidationFailedError, match="orders-0: files_readable"):
            validate_attempt(installation, broken.plan_id, "a1", facts=facts)
    assert started == ["winnow facts a1"]
    assert world.state(0).uncleanable is not None
    assert world.state(1).uncleanable is None


def write_facts_here(world: World, attempt: StagedAttempt) -> str:
    """What the Spark application leaves, without Spark; the digest that it would tell."""
    figures = {
        partition.partition: compute_figures(
            attempt.plan, partition, part, attempt.manifest.attempt, world.installation.budget
        )
        for partition, part in pair_partitions(attempt.plan, attempt.manifest)
    }
    return write_facts(attempt.uri, attempt.manifest, figures)[1]


def test_facts_that_no_application_of_this_run_told_of_are_not_believed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They lie in the staging area, say that a damaged file is sound, and anybody may have written them."""
    plan, attempt = staged(world, "orders")
    write_facts_here(world, attempt)
    damage(attempt.manifest, 0)
    asked: list[str] = []

    def honest(*_: Any, **named: Any) -> JobOutcome:
        asked.append(named["name"])
        sha256 = write_facts_here(world, attempt)
        return JobOutcome(0, {}, {plan.plan_id: sha256})

    monkeypatch.setattr(pipeline_facts, "run_job", honest)
    with pytest.raises(ValidationFailedError, match="orders-0: files_readable"):
        validate_attempt(everything_is_large(world.installation), plan.plan_id, "a1")
    assert asked == ["winnow facts a1"]


def test_facts_of_another_staging_manifest_of_the_attempt_are_not_used(world: World) -> None:
    """A second task of the same attempt wrote other files."""
    _, attempt = staged(world, "orders")
    sha256 = write_facts_here(world, attempt)
    assert read_facts(attempt.uri, attempt.manifest, sha256) is not None
    other: StagingManifest = replace(attempt.manifest, partitions=attempt.manifest.partitions[::-1])
    assert read_facts(attempt.uri, other, sha256) is None
    assert read_facts(attempt.uri, attempt.manifest, "0" * 64) is None


def test_facts_of_another_version_break_the_check_and_mark_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A figure that this version knows is missing: nothing is known about the data."""
    plan, attempt = staged(world, "orders")
    write_facts_here(world, attempt)
    uri = build_facts_uri(attempt.uri, "a1")
    data = storage.read_bytes(uri).replace(b"stale_winners", b"other_winners")
    storage.write_bytes(uri, data)
    told = JobOutcome(0, {}, {plan.plan_id: hashlib.sha256(data).hexdigest()})
    monkeypatch.setattr(pipeline_facts, "run_job", lambda *_, **__: told)
    with pytest.raises(ValidationBrokenError, match="Install one version of Winnow"):
        validate_attempt(everything_is_large(world.installation), plan.plan_id, "a1")
    assert run_state(world, plan) is RunState.BROKEN
    assert world.state(0).uncleanable is None


def test_a_spark_that_cannot_be_started_marks_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files were not looked at."""
    plan, _ = staged(world, "orders")
    monkeypatch.setenv("PATH", str(world.folder))
    with pytest.raises(ServiceError, match="no partition was marked"):
        validate_attempt(everything_is_large(world.installation), plan.plan_id, "a1")
    assert world.state(0).uncleanable is None


def test_partition_without_facts_is_a_failure_and_its_plan_has_no_document(world: World) -> None:
    """A task that ended without a word: what the others found must not stand for all."""
    _, attempt = staged(world, "orders")
    results = [
        recompute_unit(unit, "a1", world.installation.budget, compute_figures)
        for unit in build_units(attempt.uri, attempt.plan, pair_partitions(attempt.plan, attempt.manifest))
    ]
    outcome = write_plan_facts(attempt.uri, attempt.plan, attempt.manifest, results[:1], 2)
    assert outcome.failure is not None
    assert outcome.failure.error == "a task returned no result"
    assert not storage.exists(build_facts_uri(attempt.uri, "a1"))
    outcome = write_plan_facts(attempt.uri, attempt.plan, attempt.manifest, results, 2)
    assert outcome.failure is None
    assert set(read_facts(attempt.uri, attempt.manifest, outcome.sha256 or "") or ()) == {0, 1}


def test_document_that_lacks_a_partition_breaks_the_check_and_marks_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is as good as none: Spark is asked once more, and what it leaves is looked at in the same way."""
    plan, attempt = staged(world, "orders")
    (partition, part), _ = pair_partitions(attempt.plan, attempt.manifest)
    facts = {0: compute_figures(attempt.plan, partition, part, "a1", world.installation.budget)}
    asked: list[str] = []

    def forgetful(*_: Any, **named: Any) -> JobOutcome:
        asked.append(named["name"])
        document = write_facts(attempt.uri, attempt.manifest, facts)
        return JobOutcome(0, {}, {plan.plan_id: document[1]})

    write_facts(attempt.uri, attempt.manifest, facts)
    monkeypatch.setattr(pipeline_facts, "run_job", forgetful)
    with pytest.raises(ValidationBrokenError, match="not of every partition"):
        validate_attempt(everything_is_large(world.installation), plan.plan_id, "a1")
    assert asked == ["winnow facts a1"]
    assert run_state(world, plan) is RunState.BROKEN
    assert world.state(0).uncleanable is None
