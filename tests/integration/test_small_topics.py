"""A batch of small topics: judged together, published side by side, each with its own outcome."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.dag_topics import build_old_lines, lose_a_record, make_topic, read_first_dirty_offsets, read_topic
from tests.support.world import World, open_world
from winnow.errors import ValidationFailedError
from winnow.log.topic_log import TopicLog
from winnow.pipeline.compaction.batch import (
    PlanAttempt,
    lock_and_plan,
    publish_plans,
)
from winnow.pipeline.compaction.batch_validation import validate_plans
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.leases import HeldLeases, hold_leases
from winnow.quality.gx_session import GxSession
from winnow.store import RunState
from winnow.values.failures import TopicFailures
from winnow.values.results import Receipt

# GX imports deprecated modules of the standard library.
pytestmark = pytest.mark.filterwarnings("ignore:module .sre_[a-z]+. is deprecated:DeprecationWarning")

TOPICS = ("clicks", "orders", "payments", "users", "views")


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    with open_world(tmp_path) as world:
        for topic in TOPICS:
            make_topic(world.installation, tmp_path, topic, [build_old_lines(40, 8), build_old_lines(2, 2, start=40)])
        yield world.installation


@contextmanager
def staged(installation: Installation, folder: Path) -> Iterator[tuple[list[PlanAttempt], HeldLeases]]:
    """Attempts at a plan of each topic, staged in this process, and the topics' leases."""
    world = World(installation, cast("Any", installation.now_ms), folder)
    attempts = []
    with hold_leases(installation) as leases:
        for topic in TOPICS:
            plan, _ = lock_and_plan(installation, topic, leases, as_of_ms=installation.now_ms(), attempt="a1")
            assert plan is not None
            world.stage(plan, "a1")
            attempts.append(PlanAttempt(plan, "a1"))
        yield attempts, leases


def compact(
    installation: Installation, attempts: Sequence[PlanAttempt], leases: HeldLeases
) -> tuple[list[Receipt], TopicFailures]:
    results = TopicFailures(lambda _: None)
    passed = [each for each, _ in validate_plans(installation, attempts, results, leases)]
    return list(publish_plans(installation, passed, results, leases)), results


def count_calls(patch: pytest.MonkeyPatch, owner: object, name: str) -> Counter[str]:
    """Counts calls of ``owner.name`` from now on."""
    calls: Counter[str] = Counter()
    genuine: Callable[..., Any] = getattr(owner, name)

    def call(*arguments: Any, **named: Any) -> Any:
        calls[name] += 1
        return genuine(*arguments, **named)

    patch.setattr(owner, name, call)
    return calls


def test_small_topics_are_judged_with_one_run_of_the_suite_and_all_are_published(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = count_calls(monkeypatch, GxSession, "run")
    with staged(installation, tmp_path) as (attempts, leases):
        receipts, results = compact(installation, attempts, leases)
    assert results.failures == []
    assert [receipt.topic for receipt in receipts] == list(TOPICS)
    assert runs["run"] == 1
    for attempt in attempts:
        verdict = installation.store.verdicts.find(attempt.plan.plan_id, "a1")
        run = installation.store.runs.find(attempt.plan.plan_id)
        assert verdict is not None
        assert run is not None
        assert (verdict.passed, verdict.topic, verdict.plan_sha256) == (True, attempt.plan.topic, attempt.plan.sha256)
        assert verdict.manifest_digest is not None
        assert run.status is RunState.PUBLISHED
    assert [len(read_topic(installation, topic)) for topic in TOPICS] == [8] * 5


def test_a_topic_that_lost_a_record_fails_alone_and_the_others_are_published(
    installation: Installation, tmp_path: Path
) -> None:
    with staged(installation, tmp_path) as (attempts, leases):
        lose_a_record(installation, "payments")
        receipts, results = compact(installation, attempts, leases)
    assert [receipt.topic for receipt in receipts] == [topic for topic in TOPICS if topic != "payments"]
    ((failed, error),) = [(each.topic, each.error) for each in results.failures]
    assert failed == "payments"
    assert isinstance(error, ValidationFailedError)
    assert read_first_dirty_offsets(installation, "payments") == {0: None}
    assert len(read_topic(installation, "payments")) == 42
    marks = {topic: installation.log.open(topic).head().state.partitions[0].uncleanable is not None for topic in TOPICS}
    assert marks == {topic: topic == "payments" for topic in TOPICS}


def test_a_topic_without_its_plan_is_refused_alone(installation: Installation, tmp_path: Path) -> None:
    with staged(installation, tmp_path) as (attempts, leases):
        Path(attempts[1].plan.uri.removeprefix("file://")).write_text("{}")
        receipts, results = compact(installation, attempts, leases)
    assert [receipt.topic for receipt in receipts] == [topic for topic in TOPICS if topic != "orders"]
    assert [failure.topic for failure in results.failures] == ["orders"]
    assert len(read_topic(installation, "orders")) == 42


def test_publishing_loads_each_head_three_times_and_shares_few_connections(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looking for the receipt, in the commit, and for the checkpoint after it."""
    results = TopicFailures(lambda _: None)
    with staged(installation, tmp_path) as (attempts, leases):
        passed = [each for each, _ in validate_plans(installation, attempts, results, leases)]
        heads = count_calls(monkeypatch, TopicLog, "_load_head")
        opened = count_calls(monkeypatch, sqlite3, "connect")
        with installation.store.keep_open():
            assert len(list(publish_plans(installation, passed, results, leases))) == 5
    assert heads["_load_head"] == 3 * len(TOPICS)
    # Those of the threads, at the store and at the catalog; a transaction each would be a hundred.
    assert opened["connect"] <= 16
