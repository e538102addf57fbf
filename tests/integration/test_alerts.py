"""Alerts, each caused for real and received by a real webhook: once, with everything an on-call engineer needs."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.support import in_process_spark
from tests.support.receivers import WebhookInbox, open_inbox
from tests.support.world import NOW_MS, TOPIC, World, build_versions, open_world
from winnow.clock import format_ms, read_wall_clock_ms
from winnow.errors import (
    CommitUnknownError,
    PlanVoidError,
    RunAgainError,
    ValidationBrokenError,
    ValidationFailedError,
)
from winnow.files import storage
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.compaction.assess import assess_topics
from winnow.pipeline.compaction.driver import compact_topics
from winnow.pipeline.compaction.open_runs import settle_open_runs
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.compaction.validate import validate_attempt
from winnow.pipeline.erase.complete import erase_keys
from winnow.pipeline.erase.erase import EraseRequest
from winnow.pipeline.installation import open_installation
from winnow.pipeline.monitor.watch import watch_topics
from winnow.pipeline.topics.definition import alter_topic
from winnow.pipeline.topics.leases import hold_lease
from winnow.pipeline.topics.marks import MAXIMUM_BACK_OFF_MS, MINIMUM_BACK_OFF_MS, release_marks
from winnow.pipeline.topics.partitions import pause_partitions, resume_partitions
from winnow.planning.plans import PlanReference
from winnow.report.alert_manager import MAXIMUM_CLAIM_MS, RETRY_MS
from winnow.report.alerts import Alert
from winnow.report.evidence import remove_local_scheme
from winnow.store.retired_files import RetiredFiles
from winnow.values.model import Record, Status

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
AIRFLOW = "https://airflow.example.org"
BROKEN_SUITE = {
    "name": "broken",
    "expectations": [
        {
            "id": "broken",
            "type": "expect_column_values_to_match_regex",
            "kwargs": {"column": "timestamp", "regex": "("},
            "severity": "critical",
            "meta": {"sentence": "Nobody can say."},
        }
    ],
}

EAGER = {"min_cleanable_dirty_ratio": "0", "segment_ms": "1", "max_compaction_lag_ms": str(DAY_MS)}
"""A topic that is compacted whenever somebody asks, within a day at the latest."""

without_spark = in_process_spark.without_spark


@pytest.fixture
def inbox() -> Iterator[WebhookInbox]:
    with open_inbox() as opened:
        yield opened


@pytest.fixture
def world(tmp_path: Path, inbox: WebhookInbox, without_spark: None) -> Iterator[World]:
    """A topic of two partitions that nobody has compacted yet."""
    suites = tmp_path / "suites"
    suites.mkdir()
    (suites / "broken.json").write_text(json.dumps(BROKEN_SUITE))
    env = {
        "WINNOW_ALERT__WEBHOOK": inbox.url,
        "WINNOW_ALERT__PAGE_URL": f"{AIRFLOW}/",
        "WINNOW_EXPECTATIONS": str(suites),
    }
    with open_world(tmp_path, lake=env) as opened:
        opened.create(2, **EAGER)
        opened.ingest(fresh(0, 12))
        yield opened


def fresh(first: int, count: int) -> list[Record]:
    """Records of both partitions, as old as the world."""
    both = [*build_versions(first, count), *build_versions(first, count, partition=1)]
    return [replace(each, timestamp_ms=NOW_MS) for each in both]


def staged(world: World) -> PlanReference:
    plan = world.plan(world.clock() + HOUR_MS)
    assert plan is not None
    world.stage(plan)
    return plan


def truncated(world: World) -> bytes:
    path = storage.parse_local_path(world.segments(0)[-1].path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    return whole


def spoil(world: World) -> PlanReference:
    """A staged result of partition 0 that lost a byte."""
    plan = world.plan(world.clock() + HOUR_MS)
    assert plan is not None
    (part, *_) = world.stage(plan).partitions
    path = storage.parse_local_path(part.rewrites[0].outputs[0].path)
    path.write_bytes(path.read_bytes()[:-1])
    return plan


def lose_the_answer(world: World, action: Callable[[], object]) -> None:
    """Run ``action`` with a catalog that takes no commit and says nothing."""
    catalog = world.installation.log.catalog

    def commit(*_: object, **__: object) -> object:
        raise ConnectionError("connection reset by peer")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(catalog, "commit_table", commit)
        action()


@dataclass
class Trouble:
    """One kind of alert: how it comes about, how it comes about again, and what ends it."""

    kind: str
    severity: str
    cause: Callable[[World], None]
    again: Callable[[World], None]
    mend: Callable[[World], None]
    partitions: list[int] | None
    says: Sequence[str]
    on_run_page: bool


class Validation:
    """A result that is wrong, and a check that raises."""

    def __init__(self) -> None:
        self.plan: PlanReference | None = None

    def fail(self, world: World) -> None:
        self.plan = spoil(world)
        with pytest.raises(ValidationFailedError):
            validate_attempt(world.installation, self.plan.plan_id, "a1")

    def fail_again(self, world: World) -> None:
        assert self.plan is not None
        with pytest.raises(ValidationFailedError):
            validate_attempt(world.installation, self.plan.plan_id, "a1")

    def break_down(self, world: World) -> None:
        alter_topic(world.installation, TOPIC, {"winnow.expectations": "broken"}, [])
        self.plan = staged(world)
        self.break_down_again(world)

    def break_down_again(self, world: World) -> None:
        assert self.plan is not None
        with pytest.raises(ValidationBrokenError):
            validate_attempt(world.installation, self.plan.plan_id, "a1")

    def compact(self, world: World) -> None:
        """The next run, its data and its suite being well."""
        alter_topic(world.installation, TOPIC, {"winnow.expectations": ""}, [])
        world.clock.now_ms += MAXIMUM_BACK_OFF_MS
        with hold_lease(world.installation, TOPIC):
            settle_open_runs(world.installation, TOPIC)
            plan = staged(world)
            validate_attempt(world.installation, plan.plan_id, "a1")
            publish_attempt(world.installation, plan.plan_id, "a1")


class Damage:
    """A segment that cannot be read."""

    def __init__(self) -> None:
        self.whole = b""

    def fail(self, world: World) -> None:
        self.whole = truncated(world)
        assert self.run(world) is Status.INVALID

    def fail_again(self, world: World) -> None:
        self.run(world)  # the other partition
        world.clock.now_ms += MINIMUM_BACK_OFF_MS
        assert self.run(world) is Status.INVALID

    def restore(self, world: World) -> None:
        storage.parse_local_path(world.segments(0)[-1].path).write_bytes(self.whole)
        world.clock.now_ms += MAXIMUM_BACK_OFF_MS
        assert self.run(world) is Status.PUBLISHED

    def run(self, world: World) -> Status:
        (receipt,) = compact_topics(world.installation, [TOPIC], as_of_ms=world.clock() + HOUR_MS).receipts
        return receipt.status


class Commit:
    """A catalog that does not say what became of a commit."""

    def __init__(self) -> None:
        self.plan: PlanReference | None = None

    def lose(self, world: World) -> None:
        self.plan = staged(world)
        world.accept(self.plan)
        self.lose_again(world)

    def lose_again(self, world: World) -> None:
        def attempt() -> None:
            assert self.plan is not None
            with pytest.raises(CommitUnknownError):
                publish_attempt(world.installation, self.plan.plan_id, "a1")

        lose_the_answer(world, attempt)

    def settle(self, world: World) -> None:
        world.clock.now_ms += 5 * MINUTE_MS
        with hold_lease(world.installation, TOPIC):
            assert settle_open_runs(world.installation, TOPIC) == []


def leave_paused(world: World, at_ms: int) -> None:
    """Somebody paused partition 0, and time goes by; the schedule compacts the other one, assesses and watches."""
    pause_partitions(world.installation, TOPIC, [0], by="anna")
    assert world.compact(NOW_MS + HOUR_MS) is not None
    look(world, at_ms)


def look(world: World, at_ms: int) -> None:
    world.clock.now_ms = at_ms
    assess_topics(world.installation, [TOPIC], as_of_ms=at_ms)
    watch_topics(world.installation)


def go_on(world: World) -> None:
    resume_partitions(world.installation, TOPIC, [0], by="anna")
    world.clock.now_ms += 2 * DAY_MS
    world.compact()
    watch_topics(world.installation)


def look_again(world: World) -> None:
    look(world, world.clock() + MINUTE_MS)


def let_files_lie(world: World) -> None:
    assert world.compact(NOW_MS + HOUR_MS) is not None
    world.clock.now_ms = NOW_MS + DAY_MS + 3 * DAY_MS - 1
    watch_topics(world.installation)
    world.clock.now_ms += 1
    watch_topics(world.installation)


def leave_running(world: World) -> None:
    """A run has staged its files and holds the topic; it is late a millisecond after six hours, and not before."""
    staged(world)
    world.clock.now_ms += 6 * HOUR_MS
    world.installation.store.leases.acquire(TOPIC, world.installation.holder, world.clock(), HOUR_MS)
    assert watch_topics(world.installation).told == {}
    world.clock.now_ms += 1
    watch_topics(world.installation)


def let_finish(world: World) -> None:
    (run,) = world.installation.store.runs.list_open(TOPIC)
    validate_attempt(world.installation, run.plan_id, "a1")
    publish_attempt(world.installation, run.plan_id, "a1")
    watch_topics(world.installation)


def leave_erased_files(world: World) -> None:
    """A run had the topic when the files of an erasure should go; an hour later they are still there."""
    with (
        open_installation(world.installation.settings, now_ms=world.clock, holder="a run") as other,
        hold_lease(other, TOPIC),
        pytest.raises(RunAgainError),
    ):
        erase_keys(world.installation, EraseRequest(TOPIC, [b"key-1"], "request 4711"))
    watch_topics(world.installation)
    world.clock.now_ms += HOUR_MS
    watch_topics(world.installation)


def test_erasure_that_died_before_the_store_knew_of_it_is_alerted(
    world: World, inbox: WebhookInbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RetiredFiles, "record_erased", die)
        with pytest.raises(KeyboardInterrupt):
            erase_keys(world.installation, EraseRequest(TOPIC, [b"key-1"], "request 4711"))
    watch_topics(world.installation)
    assert inbox.take() == []
    world.clock.now_ms += HOUR_MS
    watch_topics(world.installation)
    assert [each["kind"] for each in inbox.take()] == ["erasure_unfinished"]


def test_ingest_that_goes_on_for_hours_is_alerted_and_one_that_died_is_not(world: World, inbox: WebhookInbox) -> None:
    """A call at work reports it again and again; a dead one is voided by the next sweep."""
    calls = world.installation.store.ingests
    calls.open("i-1", TOPIC, least_number=1, holder="airflow:ingest_topics:scheduled", now_ms=world.clock())
    world.clock.now_ms += 7 * HOUR_MS
    watch_topics(world.installation)
    assert inbox.take() == []
    calls.renew("i-1", world.clock())
    watch_topics(world.installation)
    (alert,) = inbox.take()
    assert (alert["kind"], alert["topic"], alert["plan_id"]) == ("run_late", TOPIC, None)
    assert "Call i-1 of topic orders has been open since" in alert["message"]
    assert "airflow:ingest_topics:scheduled is at work on it" in alert["message"]
    calls.close(["i-1"])
    watch_topics(world.installation)
    assert [each["about"] for each in inbox.take()] == [["run_late"]]


def watch_again(world: World) -> None:
    watch_topics(world.installation)


def sweep(world: World) -> None:
    sweep_topics(world.installation)


def sweep_at_last(world: World) -> None:
    # Iceberg dates its snapshots by the clock of the machine, and young ones keep their files.
    world.clock.now_ms = max(world.clock(), read_wall_clock_ms() + 2 * DAY_MS)
    (swept,) = sweep_topics(world.installation)
    assert swept.files_waiting == 0


def troubles() -> list[Trouble]:
    failed, broken, damaged, lost = Validation(), Validation(), Damage(), Commit()
    return [
        Trouble(
            "validation_failed", "error", failed.fail, failed.fail_again, failed.compact, [0],
            ["Validation of plan", "orders-0: "], on_run_page=True,
        ),
        Trouble(
            "validation_broken", "error", broken.break_down, broken.break_down_again, broken.compact, None,
            ["raised instead of judging"], on_run_page=True,
        ),
        Trouble(
            "uncleanable_partition", "error", damaged.fail, damaged.fail_again, damaged.restore, [0],
            ["orders-0: segment ", "bytes instead of"], on_run_page=True,
        ),
        Trouble(
            "commit_unknown", "critical", lost.lose, lost.lose_again, lost.settle, None,
            ["The catalog did not say whether the commit to topic orders landed"], on_run_page=True,
        ),
        Trouble(
            "deadline_near", "warning", lambda world: leave_paused(world, NOW_MS + DAY_MS - HOUR_MS),
            look_again, go_on, [0],
            ["orders-0: due 2025-10-10T08:53:20.000Z, in 1 h; paused by anna since"], on_run_page=False,
        ),
        Trouble(
            "deadline_missed", "critical", lambda world: leave_paused(world, NOW_MS + DAY_MS + 31 * MINUTE_MS),
            look_again, go_on, [0],
            ["orders-0: due 2025-10-10T08:53:20.000Z, 31 min ago; paused by anna since"], on_run_page=False,
        ),
        Trouble(
            "sweep_stuck", "warning", let_files_lie, look_again, sweep_at_last, None,
            ["2 retired files with ", " still there 3 days after their grace"], on_run_page=False,
        ),
        Trouble(
            "run_late", "warning", leave_running, watch_again, let_finish, None,
            ["Run ", " of topic orders has been open since 2025-", "for 6 h", "is staged, and the topic is held"],
            on_run_page=True,
        ),
        Trouble(
            "erasure_unfinished", "error", leave_erased_files, watch_again, sweep, None,
            ["Keys of topic orders are erased for readers, and not yet from disk: 2 files wait"], on_run_page=False,
        ),
    ]  # fmt: skip


@pytest.mark.parametrize("trouble", troubles(), ids=lambda trouble: trouble.kind)
def test_each_kind_arrives_once_with_its_six_parts_and_again_when_it_has_recovered(
    world: World, inbox: WebhookInbox, trouble: Trouble
) -> None:
    """What, which topic partition, since when, what is safe, what to do next, and a link; no bytes of users."""
    trouble.cause(world)
    (alert,) = inbox.take()
    assert (alert["kind"], alert["severity"], alert["topic"]) == (trouble.kind, trouble.severity, TOPIC)
    assert alert["partitions"] == trouble.partitions
    assert not [each for each in trouble.says if each not in alert["message"]]
    assert 0 < alert["since_ms"] <= alert["at_ms"] <= world.clock()
    assert len(alert["safe"].split()) > 5
    assert f"winnow {alert['next'].rpartition('winnow ')[2]}" in alert["next"]
    place = f"runs/{alert['plan_id']}" if trouble.on_run_page else f"topics/{TOPIC}"
    assert alert["link"] == f"{AIRFLOW}/winnow/page#/{place}"
    assert (alert["plan_id"] is not None) == trouble.on_run_page
    named = "orders-0" if trouble.partitions else "orders"
    first, *lines = alert["text"].splitlines()
    assert first == f"{trouble.severity.upper()}: {trouble.kind.replace('_', ' ')}: {named}"
    assert lines == [
        alert["message"],
        f"Since: {format_ms(alert['since_ms'])}",
        f"Safe: {alert['safe']}",
        f"Next: {alert['next']}",
        alert["link"],
    ]
    assert "key-" not in alert["text"]
    assert "value-" not in alert["text"]
    opened = world.installation.store.alerts.list_open()
    assert [(each.kind, each.topic, each.partition) for each in opened] == [
        (trouble.kind, TOPIC, None if trouble.partitions is None else 0)
    ]
    assert remove_local_scheme(opened[0].message) == alert["message"]

    trouble.again(world)
    watch_topics(world.installation)
    assert inbox.kinds == []

    trouble.mend(world)
    (recovery,) = inbox.take()
    assert (recovery["kind"], recovery["about"], recovery["partitions"]) == (
        "recovered", [trouble.kind], trouble.partitions,
    )  # fmt: skip
    assert recovery["message"].startswith(f"Recovered: {named} ")
    assert f"This closes {trouble.kind} after " in recovery["message"]
    assert recovery["since_ms"] == alert["since_ms"]
    assert recovery["next"] == "There is nothing to do."
    assert recovery["link"].startswith(f"{AIRFLOW}/winnow/page#/")
    assert world.installation.store.alerts.list_open() == []

    trouble_free = inbox.kinds
    watch_topics(world.installation)
    assert inbox.kinds == trouble_free == []


def test_webhook_that_is_down_changes_no_outcome_and_gets_everything_in_order_later(
    world: World, inbox: WebhookInbox, caplog: pytest.LogCaptureFixture
) -> None:
    """Also what recovered meanwhile; who was told late is told in order, and once."""
    inbox.status = 503
    troubled = Damage()
    troubled.fail(world)
    assert world.state(0).uncleanable is not None
    assert "Channel webhook did not accept an alert: The webhook answered 503. It is sent again later." in caplog.text
    assert inbox.url not in caplog.text
    assert inbox.refused == 1
    watch_topics(world.installation)
    assert inbox.refused == 1, "it is left alone for a minute"
    world.clock.now_ms += RETRY_MS
    watch_topics(world.installation)
    assert inbox.refused == 2
    troubled.restore(world)
    assert inbox.kinds == []
    inbox.status = 204
    world.clock.now_ms += RETRY_MS
    assert watch_topics(world.installation).delivered == 2
    assert inbox.kinds == ["uncleanable_partition", "recovered"]
    world.clock.now_ms += DAY_MS // 100
    assert watch_topics(world.installation).delivered == 0


def test_webhook_that_sends_elsewhere_has_taken_nothing(world: World, inbox: WebhookInbox) -> None:
    """Following a redirect turns a POST into a GET without a document, which any server answers."""
    inbox.status = 302
    Damage().fail(world)
    inbox.status = 204
    world.clock.now_ms += RETRY_MS
    watch_topics(world.installation)
    assert inbox.kinds == ["uncleanable_partition"]


def test_message_that_nobody_took_for_days_is_given_up(world: World, inbox: WebhookInbox) -> None:
    """The log and the page have it."""
    inbox.status = 500
    Damage().fail(world)
    inbox.status = 204
    world.clock.now_ms += 3 * DAY_MS + 1
    watch_topics(world.installation)
    assert inbox.kinds == ["deadline_missed"]
    assert [each.kind for each in world.installation.store.alerts.list_open(topic=TOPIC)][-1] == "uncleanable_partition"


class Dying:
    """A channel in whose midst the process dies."""

    name = "webhook"

    def deliver(self, alert: Alert) -> None:
        raise KeyboardInterrupt


def test_message_outlives_the_process_that_was_to_deliver_it(world: World, inbox: WebhookInbox) -> None:
    """It is written down with the alert, so whoever watches next delivers it."""
    installation = replace(world.installation, channels=(Dying(),))
    truncated(world)
    with pytest.raises(KeyboardInterrupt):
        compact_topics(installation, [TOPIC], as_of_ms=NOW_MS + HOUR_MS)
    watch_topics(world.installation)
    assert inbox.kinds == [], "it may still be at it"
    world.clock.now_ms += MAXIMUM_CLAIM_MS
    watch_topics(world.installation)
    assert inbox.kinds == ["uncleanable_partition"]


def test_many_partitions_at_once_are_one_message_and_a_further_one_is_alone_in_its_own(
    world: World, inbox: WebhookInbox
) -> None:
    """What was told is not told again with it."""
    for partition in (0, 1):
        pause_partitions(world.installation, TOPIC, [partition], by="anna")
    look(world, NOW_MS + 2 * DAY_MS)
    (both,) = inbox.take()
    assert both["partitions"] == [0, 1]
    assert both["next"] == (
        "Resume paused partitions: winnow partitions resume orders --partition 0 --partition 1 --all"
    )
    resume_partitions(world.installation, TOPIC, [1], by="anna")
    world.compact()
    look_again(world)
    (well,) = inbox.take()
    assert (well["kind"], well["partitions"]) == ("recovered", [1])
    world.ingest([replace(each, timestamp_ms=NOW_MS) for each in build_versions(12, 1, partition=1)], as_of_ms=NOW_MS)
    look_again(world)
    (again,) = inbox.take()
    assert (again["kind"], again["partitions"]) == ("deadline_missed", [1])
    assert "orders-0" not in again["text"]
    assert "it is due; the last run of the topic is published since" in again["message"]
    assert again["next"].endswith("winnow compact orders")


def test_released_partition_is_told_again_when_it_fails_again_and_named_when_it_recovers(
    world: World, inbox: WebhookInbox
) -> None:
    """A release mends nothing by itself, so it is no recovery."""
    troubled = Damage()
    troubled.fail(world)
    release_marks(world.installation, TOPIC, [0], why="released by anna")
    assert inbox.kinds == ["uncleanable_partition"]
    assert [each.released for each in world.installation.store.alerts.list_open()] == ["released by anna"]
    assert troubled.run(world) is Status.INVALID
    assert inbox.kinds == ["uncleanable_partition"] * 2
    assert [each.released for each in world.installation.store.alerts.list_open()] == [None]
    release_marks(world.installation, TOPIC, [0], why="released by bert")
    troubled.restore(world)
    assert inbox.kinds == ["uncleanable_partition", "uncleanable_partition", "recovered"]
    assert "By hand: released by bert." in inbox.alerts[-1]["message"]


def test_released_partition_that_is_not_due_has_recovered(world: World, inbox: WebhookInbox) -> None:
    """Nothing will be published of it, and an alert must not stay open for ever."""
    troubled = Damage()
    troubled.fail(world)
    alter_topic(world.installation, TOPIC, {"cleanup.policy": "delete"}, [])
    watch_topics(world.installation)
    assert inbox.kinds == ["uncleanable_partition", "recovered"]
    assert inbox.alerts[-1]["message"].startswith("Recovered: orders-0 was released, and nothing of it is due.")


def test_retention_of_an_uncleanable_partition_is_no_recovery(world: World, inbox: WebhookInbox) -> None:
    """It goes on where the cleaner does not, and mends nothing."""
    world.create(1, topic="events", **EAGER, cleanup_policy="compact,delete", retention_ms=str(DAY_MS))
    for first, at_ms in ((0, NOW_MS), (6, NOW_MS + DAY_MS)):
        world.ingest([replace(each, timestamp_ms=at_ms) for each in build_versions(first, 6)], topic="events")
    newest = storage.parse_local_path(world.segments(topic="events")[-1].path)
    newest.write_bytes(newest.read_bytes()[:500])
    world.clock.now_ms = NOW_MS + DAY_MS + HOUR_MS

    def run() -> Status:
        (receipt,) = compact_topics(world.installation, ["events"], as_of_ms=world.clock()).receipts
        return receipt.status

    assert run() is Status.INVALID
    assert run() is Status.PUBLISHED
    assert world.state(topic="events").log_start_offset == 6
    assert inbox.kinds == ["uncleanable_partition"]
    assert [each.topic for each in world.installation.store.alerts.list_open()] == ["events"]


def test_forecast_warns_of_work_that_does_not_fit(world: World, inbox: WebhookInbox) -> None:
    """Nothing keeps the partitions but their size; the pace of the last run says that it will be too late."""
    assert world.compact(NOW_MS + HOUR_MS) is not None
    world.ingest(fresh(12, 300))
    settings = world.installation.settings
    alert = settings.alert.model_copy(update={"deadline_grace_ms": 1})
    installation = replace(world.installation, settings=settings.model_copy(update={"alert": alert}))
    world.clock.now_ms = NOW_MS + DAY_MS - 1
    assess_topics(installation, [TOPIC], as_of_ms=world.clock())
    watch_topics(installation)
    (near,) = inbox.take()
    assert (near["kind"], near["partitions"]) == ("deadline_near", [0, 1])
    assert "at the present pace it is compacted" in near["message"]
    assert "winnow assess orders --forecast" in near["next"]


def test_deadline_that_the_run_itself_meets_is_no_alert(world: World, inbox: WebhookInbox) -> None:
    """A partition is only due once its deadline has passed; the watch comes after the publish."""
    late_ms = NOW_MS + 3 * DAY_MS
    world.clock.now_ms = late_ms
    assert world.compact(late_ms) is not None
    watch_topics(world.installation)
    assert inbox.kinds == []


def test_near_deadline_that_passes_is_told_as_missed_and_recovers_once(world: World, inbox: WebhookInbox) -> None:
    """The worse alert stands for both."""
    leave_paused(world, NOW_MS + DAY_MS - HOUR_MS)
    look(world, NOW_MS + DAY_MS + 10 * MINUTE_MS)
    assert inbox.kinds == ["deadline_near"]
    look(world, NOW_MS + DAY_MS + HOUR_MS)
    assert inbox.kinds == ["deadline_near", "deadline_missed"]
    go_on(world)
    assert inbox.kinds == ["deadline_near", "deadline_missed", "recovered"]
    assert inbox.alerts[-1]["about"] == ["deadline_missed"]


def test_topic_that_cannot_be_looked_at_stops_no_other_and_keeps_its_alerts(world: World, inbox: WebhookInbox) -> None:
    """Somebody else committed to its table."""
    leave_paused(world, NOW_MS + 2 * DAY_MS)
    world.create(1, topic="foreign", max_compaction_lag_ms="1")
    world.ingest([replace(each, timestamp_ms=NOW_MS) for each in build_versions(0, 3)], topic="foreign")
    assess_topics(world.installation, ["foreign"], as_of_ms=world.clock())
    watch_topics(world.installation)
    assert [(each["kind"], each["topic"]) for each in inbox.take()] == [
        ("deadline_missed", "orders"),
        ("deadline_missed", "foreign"),
    ]
    table = world.head("foreign").table
    table.append(table.scan().to_arrow().slice(0, 0))
    resume_partitions(world.installation, TOPIC, [0], by="anna")
    world.compact()
    done = watch_topics(world.installation)
    assert done.problems == ["foreign"]
    assert [(each["kind"], each["topic"]) for each in inbox.take()] == [("recovered", "orders")]
    assert [each.topic for each in world.installation.store.alerts.list_open()] == ["foreign"]


def test_topic_that_is_gone_takes_its_alerts_with_it(world: World, inbox: WebhookInbox) -> None:
    """Nobody could ever mend it. A catalog without any topic is the wrong one, though, and says nothing."""
    leave_paused(world, NOW_MS + 2 * DAY_MS)
    inbox.take()
    world.installation.log.catalog.drop_table(world.head().table.name())
    watch_topics(world.installation)
    assert [each.topic for each in world.installation.store.alerts.list_open()] == [TOPIC]
    world.create(1, topic="events", **EAGER)
    watch_topics(world.installation)
    assert inbox.kinds == []
    assert world.installation.store.alerts.list_open() == []


def test_doubt_about_a_commit_ends_when_its_plan_is_refused(world: World, inbox: WebhookInbox) -> None:
    """The second attempt looked into the history first, so nothing is left to settle; the next doubt is told again."""
    lost = Commit()
    lost.lose(world)
    assert lost.plan is not None
    pause_partitions(world.installation, TOPIC, by="anna")
    with pytest.raises(PlanVoidError, match="was paused"):
        publish_attempt(world.installation, lost.plan.plan_id, "a1")
    assert inbox.kinds == ["commit_unknown", "recovered"]
    assert world.installation.store.alerts.list_open() == []


def test_old_receipt_that_is_asked_for_again_mends_nothing(world: World, inbox: WebhookInbox) -> None:
    """Somebody clears the publish task of a run that was published long ago."""
    old = staged(world)
    world.accept(old)
    publish_attempt(world.installation, old.plan_id, "a1")
    world.ingest(fresh(12, 12))
    lost = Commit()
    lost.lose(world)
    publish_attempt(world.installation, old.plan_id, "a1")
    assert inbox.kinds == ["commit_unknown"]


def test_plan_that_another_run_closed_is_not_judged_and_marks_nothing(world: World, inbox: WebhookInbox) -> None:
    """It would mark a partition, and nobody would be told."""
    plan = spoil(world)
    with hold_lease(world.installation, TOPIC):
        settle_open_runs(world.installation, TOPIC)
    with pytest.raises(PlanVoidError, match="closed meanwhile"):
        validate_attempt(world.installation, plan.plan_id, "a1")
    assert world.state(0).uncleanable is None
    assert inbox.kinds == []


def test_message_that_its_channel_never_takes_does_not_hold_up_the_others_for_ever(
    world: World, inbox: WebhookInbox
) -> None:
    """One document that is too large for the receiver, say; what comes within an hour waits for it."""
    inbox.refuses = "uncleanable_partition"
    troubled = Damage()
    troubled.fail(world)
    troubled.restore(world)
    assert inbox.kinds == ["recovered"]
    assert inbox.refused == 2


def test_alert_that_cannot_be_written_down_is_in_the_log_and_changes_no_outcome(
    world: World, inbox: WebhookInbox, caplog: pytest.LogCaptureFixture
) -> None:
    """The metadata store lost a table, say."""
    with sqlite3.connect(world.folder / "home" / "store.db") as database:
        database.execute("DROP TABLE winnow_alert")
    with caplog.at_level(logging.ERROR, "winnow.alerts"):
        Damage().fail(world)
    assert world.state(0).uncleanable is not None
    assert "Topic orders was not compacted: orders-0: segment " in caplog.text
    assert "so it is in this log only" in caplog.text
    assert inbox.kinds == []


def test_without_channels_alerts_are_logged_and_kept_for_the_page(tmp_path: Path, without_spark: None) -> None:
    """And nothing waits to be delivered to nobody."""
    with open_world(tmp_path) as world:
        world.create(2, **EAGER)
        world.ingest(fresh(0, 12))
        Damage().fail(world)
        (opened,) = world.installation.store.alerts.list_open()
        assert (opened.kind, opened.partition) == ("uncleanable_partition", 0)
        assert world.installation.store.alerts.drop_deliveries(world.clock() + 1) == 0


def mute_all(world: World, until_ms: int) -> None:
    """What the page's button does."""
    keys = [each.key for each in world.installation.store.alerts.list_open()]
    assert world.installation.store.alert_handling.mute(
        keys, until_ms, world.clock(), by="anna", why="the disk is on its way"
    )


def test_muted_alert_is_sent_when_its_mute_ends_once_with_all_that_it_said(world: World, inbox: WebhookInbox) -> None:
    """It waited for its channel when it was muted; its link, its safety and its next step are those of the first."""
    inbox.status = 503
    Damage().fail(world)
    mute_all(world, world.clock() + HOUR_MS)
    inbox.status = 204
    world.clock.now_ms += RETRY_MS
    watch_topics(world.installation)
    assert inbox.kinds == []
    world.clock.now_ms += HOUR_MS
    for _ in range(2):
        watch_topics(world.installation)
    (sent,) = inbox.alerts
    assert (sent["kind"], sent["partitions"], sent["severity"]) == ("uncleanable_partition", [0], "error")
    assert sent["message"].startswith("Still open after its mute: Topic orders was not compacted: orders-0: segment ")
    assert "winnow partitions release orders --partition 0" in sent["next"]
    assert sent["link"].startswith(f"{AIRFLOW}/winnow/page#/runs/")


def test_recovery_of_a_muted_alert_is_sent_and_the_end_of_its_mute_sends_nothing(
    world: World, inbox: WebhookInbox
) -> None:
    """Somebody who waits for the end learns of it."""
    troubled = Damage()
    troubled.fail(world)
    mute_all(world, world.clock() + HOUR_MS)
    troubled.restore(world)
    world.clock.now_ms += 2 * HOUR_MS
    watch_topics(world.installation)
    assert inbox.kinds == ["uncleanable_partition", "recovered"]
