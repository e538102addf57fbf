"""Alerts on compaction deadlines, late runs and tables, stuck sweeps, unfinished erasures; delivers queued messages.

Every run of ``compact_topics`` ends with it. It uses the present time, whatever the run's as-of: an alert is about now.
The metadata store says which topics to check, so thousands of healthy topics cost one statement.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from winnow.errors import WinnowError
from winnow.pipeline.compaction.assess import assess_view
from winnow.pipeline.installation import Installation
from winnow.pipeline.latest.progress import measure_progress
from winnow.pipeline.monitor.metrics import TopicDeadlines, build_deadlines, compute_forecast, find_due_partitions
from winnow.pipeline.monitor.missing_records import list_topics_to_watch
from winnow.pipeline.monitor.overdue import (
    DuePartition,
    describe_missed_deadline,
    describe_near_deadline,
    format_advice,
)
from winnow.pipeline.topics.topic_view import load_topic_view
from winnow.report import alert_kinds
from winnow.report.alert_kinds import DEADLINES, LATEST, RELEASABLE, AlertKind, Finding, Situation
from winnow.report.forecast import DeadlineForecast
from winnow.store.leases import describe_holder
from winnow.values.counts import format_count
from winnow.values.model import Reason
from winnow.values.results import OpenAlert
from winnow.values.topic_state import ERASURE_PREFIX

log = logging.getLogger("winnow")

WARNING_LAG_DIVISOR = 4
"""A deadline counts as near for at most this part of max.compaction.lag.ms: with a lag of 1 h, 15 minutes."""

UNFINISHED_ERASURE_MS = 3_600_000
"""How long the files of an erasure may wait before somebody is told: by then no retry of the command is at work."""

_IDLE_REASONS = frozenset(
    {
        Reason.POLICY_DELETE_ONLY,
        Reason.EMPTY,
        Reason.CLEAN,
        Reason.NO_CLOSED_SEGMENT,
        Reason.INSIDE_MIN_LAG,
        Reason.NOT_DIRTY_ENOUGH,
    }
)


@dataclass
class WatchReport:
    """The result of a watch: the number of topics looked at, of new messages by kind, and of topics that there are.

    The assessments on record tell which topics are worth a look: with a deadline that is near or an alert that is open.

    The names of the fields are keys of the command's JSON.
    """

    topics: int = 0
    told: dict[str, int] = field(default_factory=dict)
    delivered: int = 0
    problems: list[str] = field(default_factory=list)
    known: int = 0

    def note(self, alert: object, kind: AlertKind) -> None:
        """Count ``alert`` if there is one."""
        if alert is not None:
            self.told[kind.value] = self.told.get(kind.value, 0) + 1

    @property
    def sentence(self) -> str:
        """The report as text for logs."""
        alerted = ", ".join(f"{count} {kind}" for kind, count in self.told.items()) or "nothing new"
        messages = format_count(self.delivered, "earlier message")
        late = f" {messages} {'was' if self.delivered == 1 else 'were'} delivered." if self.delivered else ""
        failed = f" {format_count(len(self.problems), 'topic')} could not be checked." if self.problems else ""
        topics = format_count(self.known, "topic")
        return f"Watched {topics}, {self.topics:,} of them near a deadline or with an alert: {alerted}.{late}{failed}"


@dataclass(frozen=True, slots=True)
class _TopicDeadlines:
    """One topic now: its partitions with a deadline, and those that are idle for good."""

    topic: str
    due: dict[int, DuePartition]
    deadlines: TopicDeadlines
    warning_ms: int
    idle: frozenset[int]


def watch_topics(installation: Installation) -> WatchReport:
    """Alert on deadlines, late runs, stuck sweeps, unfinished erasures and late tables of latest states.

    Recovered alerts are closed, and queued messages delivered.

    A topic that cannot be checked does not affect the others; its alerts stay as they are.

    Raises:
        ServiceError: metadata store or catalog cannot be reached, so nothing is known.
    """
    watched = WatchReport()
    now_ms = installation.now_ms()
    watched.delivered = installation.alerts.deliver()
    known = set(installation.log.names())
    watched.known = len(known)
    opened = _group_by_topic(installation.store.alerts.list_open())
    # A catalog without any topic is more likely the wrong one.
    for topic in sorted(opened.keys() - known if known else ()):
        installation.alerts.supersede(topic, list(AlertKind), None)
    names = set(
        installation.store.assessments.list_topics_due_by(now_ms + installation.settings.alert.deadline_warning_ms)
    )
    names |= list_topics_to_watch(installation, now_ms + installation.settings.alert.deadline_warning_ms)
    names |= {topic for topic, rows in opened.items() if any(row.kind in DEADLINES or row.released for row in rows)}
    topics = [
        deadlines
        for topic in sorted(names & known)
        if (deadlines := _load_topic_deadlines(installation, topic, now_ms, watched)) is not None
    ]
    _check_deadlines(installation, topics, opened, now_ms, watched)
    _check_runs(installation, known, opened, now_ms, watched)
    _check_sweeps(installation, known, now_ms, watched)
    _check_erasures(installation, known, now_ms, watched)
    _check_latest_tables(installation, known, opened, now_ms, watched)
    return watched


def _group_by_topic(rows: Iterable[OpenAlert]) -> dict[str, list[OpenAlert]]:
    found: dict[str, list[OpenAlert]] = {}
    for row in rows:
        found.setdefault(row.topic, []).append(row)
    return found


def _load_topic_deadlines(
    installation: Installation, topic: str, now_ms: int, watched: WatchReport
) -> _TopicDeadlines | None:
    try:
        view = load_topic_view(installation, topic)
        assessed = assess_view(installation, view, as_of_ms=now_ms)
    except WinnowError as problem:
        log.warning("Topic %s could not be watched: %s", topic, problem)
        watched.problems.append(topic)
        return None
    watched.topics += 1
    warning_ms = min(
        installation.settings.alert.deadline_warning_ms, view.rules.max_compaction_lag_ms // WARNING_LAG_DIVISOR
    )
    due = find_due_partitions(installation, view, assessed, unseen_by_ms=now_ms + warning_ms)
    return _TopicDeadlines(
        topic=topic,
        due=due,
        deadlines=build_deadlines(installation, topic, due),
        warning_ms=warning_ms,
        idle=frozenset(a.partition for a in assessed if a.reason in _IDLE_REASONS),
    )


def _check_deadlines(
    installation: Installation,
    topics: Sequence[_TopicDeadlines],
    opened: dict[str, list[OpenAlert]],
    now_ms: int,
    watched: WatchReport,
) -> None:
    # Topics share the engine, so a forecast depends on all earlier deadlines.
    outlook = compute_forecast(installation, [each.deadlines for each in topics], as_of_ms=now_ms)
    prospects = {(each.topic, each.partition): each for each in outlook.prospects}
    for topic in topics:
        _check_topic(installation, topic, prospects, opened.get(topic.topic, []), now_ms, watched)


def _check_topic(
    installation: Installation,
    watched_topic: _TopicDeadlines,
    prospects: dict[tuple[str, int], DeadlineForecast],
    opened: Sequence[OpenAlert],
    now_ms: int,
    watched: WatchReport,
) -> None:
    grace_ms = installation.settings.alert.deadline_grace_ms
    topic = watched_topic.topic
    last_run = next(iter(installation.store.runs.list_runs(topic, limit=1)), None)
    past: dict[int, Finding] = {}
    soon: dict[int, Finding] = {}
    close: set[int] = set()
    for number, due in watched_topic.due.items():
        late_by_ms = prospects[topic, number].late_by_ms
        if due.deadline_ms + grace_ms < now_ms:
            past[number] = describe_missed_deadline(due, last_run, now_ms)
        elif due.deadline_ms <= now_ms + watched_topic.warning_ms:
            close.add(number)
            if due.is_blocked or due.is_not_ingested or (late_by_ms is not None and late_by_ms > grace_ms):
                soon[number] = describe_near_deadline(due, late_by_ms, now_ms)
    if past:
        to_do = format_advice(installation.settings, topic, [watched_topic.due[number] for number in past])
        found = alert_kinds.make_deadline_missed(topic, list(past.values()), to_do=to_do, at_ms=now_ms)
        watched.note(installation.alerts.open_alert(found), AlertKind.DEADLINE_MISSED)
        installation.alerts.supersede(topic, {AlertKind.DEADLINE_NEAR}, past)
    if soon:
        to_do = format_advice(installation.settings, topic, [watched_topic.due[number] for number in soon])
        found = alert_kinds.make_deadline_near(topic, list(soon.values()), to_do=to_do, at_ms=now_ms)
        watched.note(installation.alerts.open_alert(found), AlertKind.DEADLINE_NEAR)
    over = {
        AlertKind.DEADLINE_MISSED: (past.keys(), "is no longer past its compaction deadline"),
        # A near deadline stays near until it is compacted: a changing forecast must not alert twice.
        AlertKind.DEADLINE_NEAR: (past.keys() | close, "is no longer about to miss its compaction deadline"),
    }
    for kind, (still, how) in over.items():
        recovered = {row.partition for row in opened if row.kind == kind and row.partition is not None} - still
        if recovered:
            watched.note(installation.alerts.recover(topic, {kind}, recovered, how), AlertKind.RECOVERED)
    idle = {row.partition for row in opened if row.released and row.partition is not None} & watched_topic.idle
    if idle:
        how = "was released, and nothing of it is due"
        watched.note(installation.alerts.recover(topic, RELEASABLE, idle, how), AlertKind.RECOVERED)


def _check_runs(
    installation: Installation,
    known: set[str],
    opened: dict[str, list[OpenAlert]],
    now_ms: int,
    watched: WatchReport,
) -> None:
    """Alert where a compaction or an ingest goes on for too long; the store knows them all.

    An ingest call that does not report any more is dead, and the next one goes on without it.
    """
    store, lease_ms = installation.store, installation.settings.lease_ms
    before_ms = now_ms - installation.settings.alert.run_late_ms
    late: dict[str, Situation] = {}
    for call in store.ingests.list_at_work(opened_before_ms=before_ms, renewed_after_ms=now_ms - lease_ms):
        late[call.topic] = alert_kinds.make_run_late(
            call.topic,
            call.opened_at_ms,
            work=f"Call {call.ingest_id}",
            state=f"{call.holder} is at work on it",
            plan_id=None,
            at_ms=now_ms,
        )
    for run in store.runs.list_at_work(before_ms):
        lease = store.leases.find(run.topic)
        held = lease is not None and lease.expires_ms > now_ms
        state = describe_holder(lease, now_ms, lease_ms) if held and lease is not None else "held by nobody"
        late[run.topic] = alert_kinds.make_run_late(
            run.topic,
            run.opened_at_ms,
            work=f"Run {run.plan_id}",
            state=f"it is {run.status.value}, and the topic is {state}",
            plan_id=run.plan_id,
            at_ms=now_ms,
        )
    for topic in sorted(late.keys() & known):
        watched.note(installation.alerts.open_alert(late[topic]), AlertKind.RUN_LATE)
    alerted = {topic for topic, rows in opened.items() if any(row.kind == AlertKind.RUN_LATE for row in rows)}
    for topic in sorted((alerted - late.keys()) & known):
        how = "has no run any more that takes longer than it should"
        watched.note(installation.alerts.recover(topic, {AlertKind.RUN_LATE}, None, how), AlertKind.RECOVERED)


def _check_sweeps(installation: Installation, known: set[str], now_ms: int, watched: WatchReport) -> None:
    for found in installation.store.retired_files.list_waiting(now_ms - installation.settings.alert.sweep_stuck_ms):
        if found.topic not in known:
            continue
        try:
            log_of = installation.log.open(found.topic)
            grace_ms = log_of.config(log_of.head()).retired_grace_ms
        except WinnowError as problem:
            log.warning("Topic %s could not be watched: %s", found.topic, problem)
            watched.problems.append(found.topic)
            continue
        watched.note(alert_stuck_sweep(installation, found.topic, grace_ms, now_ms), AlertKind.SWEEP_STUCK)


def _check_erasures(installation: Installation, known: set[str], now_ms: int, watched: WatchReport) -> None:
    """Alert where files of erased keys are still there; the store says in which topics to look.

    One that died between its commit and the store has left its row as a call that does not report any more.
    """
    waiting = installation.store.retired_files.list_waiting(now_ms, plan_prefix=ERASURE_PREFIX)
    idle = installation.store.ingests.list_idle_topics(now_ms - UNFINISHED_ERASURE_MS)
    for topic in sorted({*(found.topic for found in waiting), *idle} & known):
        try:
            state = installation.log.open(topic).head().state
        except WinnowError as problem:
            log.warning("Topic %s could not be watched: %s", topic, problem)
            watched.problems.append(topic)
            continue
        began_ms = min((each.at_ms for each in state.unfinished_erasures), default=now_ms)
        if began_ms > now_ms - UNFINISHED_ERASURE_MS:
            continue
        situation = alert_kinds.make_erasure_unfinished(
            topic,
            began_ms,
            len(state.list_erased_files()),
            dag_id=installation.settings.name_dag("sweep_topics"),
            at_ms=now_ms,
        )
        watched.note(installation.alerts.open_alert(situation), AlertKind.ERASURE_UNFINISHED)


def _check_latest_tables(
    installation: Installation,
    known: set[str],
    opened: dict[str, list[OpenAlert]],
    now_ms: int,
    watched: WatchReport,
) -> None:
    """Alert where a table of the latest state lacks a record for too long; the store says at which tables to look."""
    store = installation.store.latest_tables
    due_ms = now_ms - installation.settings.alert.deadline_grace_ms
    alerted = {topic for topic, rows in opened.items() if any(row.kind in LATEST for row in rows)}
    names = {late.topic for late in store.list_late(due_ms - 1)} | {*store.list_unaccounted()} | alerted
    for topic in sorted(names & known):
        try:
            found = measure_progress(installation, topic)
        except WinnowError as problem:
            log.warning("The table of the latest state of topic %s could not be watched: %s", topic, problem)
            watched.problems.append(topic)
            continue
        late = found is not None and found.deadline_ms is not None and found.deadline_ms < due_ms
        if late and found is not None and found.missing_since_ms is not None and found.max_age_ms is not None:
            situation = alert_kinds.make_latest_late(
                topic,
                found.missing_since_ms,
                max_age_ms=found.max_age_ms,
                dag_id=installation.settings.name_dag("compact_topics"),
                at_ms=now_ms,
            )
            watched.note(installation.alerts.open_alert(situation), AlertKind.LATEST_LATE)
        elif topic in alerted:
            how = "has a table of its latest state that is in time" if found is not None else "keeps no such table"
            over = LATEST if found is None else {AlertKind.LATEST_LATE}
            watched.note(installation.alerts.recover(topic, over, None, how), AlertKind.RECOVERED)


def alert_stuck_sweep(installation: Installation, topic: str, grace_ms: int, now_ms: int) -> object:
    """Alert if files of ``topic`` wait too long; return the alert, None if none was sent."""
    stuck_ms = installation.settings.alert.sweep_stuck_ms
    for found in installation.store.retired_files.list_waiting(now_ms - grace_ms - stuck_ms, topic):
        due_ms = found.oldest_ms + grace_ms
        what = alert_kinds.describe_overdue_files(found.files, found.size_bytes, due_ms, now_ms)
        return installation.alerts.open_alert(
            alert_kinds.make_sweep_stuck(
                topic,
                due_ms,
                f"Topic {topic}: {what}",
                dag_id=installation.settings.name_dag("sweep_topics"),
                at_ms=now_ms,
            )
        )
    return None
