"""Measures topics and forecasts their compaction deadlines, from manifests, state and receipts."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from winnow.config.settings import Settings
from winnow.pipeline.compaction.assess import assess_view
from winnow.pipeline.installation import Installation
from winnow.pipeline.monitor.missing_records import compute_deadline_ms, describe_missing, find_missing_deadlines
from winnow.pipeline.monitor.overdue import DuePartition, MissingRecords
from winnow.pipeline.topics.topic_view import TopicView, load_topic_view
from winnow.report.forecast import DeadlineForecast, PendingPartition, forecast_deadlines, measure_pace
from winnow.report.metrics import Measurement, compute_measurement
from winnow.store.ingest_lag import TopicLag
from winnow.store.latest_progress import LatestProgress
from winnow.values.model import Assessment
from winnow.values.results import Receipt

MAXIMUM_RECENT_RUNS = 10
"""Number of newest receipts of a topic for its pace and last run; some may be of retention only."""


def measure_topic(installation: Installation, topic: str, *, as_of_ms: int) -> Measurement:
    """Measure ``topic`` at ``as_of_ms``. Records nothing.

    Raises:
        UnknownTopicError, ForeignTableError, ServiceError: see :class:`winnow.log.topic_log.TopicLog`.
    """
    view = load_topic_view(installation, topic)
    assessments = assess_view(installation, view, as_of_ms=as_of_ms)
    checks = installation.store.segment_checks.summarize(topic)
    measured = compute_measurement(
        view.head.state,
        assessments,
        installation.store.projection.list_receipts(topic, limit=MAXIMUM_RECENT_RUNS),
        compacts=view.rules.compacts,
        last_run_ms=installation.store.assessments.last_assessed_ms(topic),
        as_of_ms=as_of_ms,
        runs_by_state={state.value: count for state, count in installation.store.runs.count_by_state(topic).items()},
        swept_bytes=installation.store.retired_files.sum_deleted_bytes(topic),
        damaged=0 if checks is None else checks.findings,
    )
    measured = _add_latest(installation.store.latest_tables.find(topic), measured, as_of_ms)
    return _add_lag(installation, view, assessments, measured, as_of_ms)


def _add_latest(progress: LatestProgress | None, measured: Measurement, as_of_ms: int) -> Measurement:
    """Add how old the table of the latest state is, as far as the store knows."""
    if progress is None:
        return measured
    since_ms, deadline_ms = progress.missing_since_ms, progress.deadline_ms
    late_ms = 0 if deadline_ms is None else max(0, as_of_ms - deadline_ms)
    return replace(
        measured,
        latest_age_ms=0 if since_ms is None else max(0, as_of_ms - since_ms),
        latest_late_ms=None if progress.max_age_ms is None else late_ms,
    )


def _add_lag(
    installation: Installation, view: TopicView, assessments: Sequence[Assessment], measured: Measurement, as_of_ms: int
) -> Measurement:
    """Add how far the log is behind its Kafka topic, and the deadlines of the records that it lacks."""
    lag = installation.store.ingest_lags.summarize(view.log.topic)
    if lag is None:
        return measured
    missing = find_missing_deadlines(installation, view.log.topic, view.rules)
    left_ms = {number: compute_deadline_ms(each, view.rules) - as_of_ms for number, each in missing.items()}
    known = [] if measured.next_deadline_ms is None else [measured.next_deadline_ms]
    overdue = {a.partition for a in assessments if a.max_compaction_delay_ms > 0}
    return replace(
        measured,
        next_deadline_ms=min([*known, *left_ms.values()], default=None),
        max_delay_ms=max([measured.max_delay_ms, *(-each for each in left_ms.values())]),
        overdue=measured.overdue + sum(each < 0 and number not in overdue for number, each in left_ms.items()),
        records_behind=lag.records_behind,
        behind_ms=max(0, as_of_ms - lag.complete_until_ms),
        look_age_ms=max(0, as_of_ms - lag.looked_at_ms),
        records_uncommitted=lag.records_uncommitted,
        open_transaction_ms=compute_open_transaction_ms(lag),
    )


def compute_open_transaction_ms(lag: TopicLag) -> int | None:
    """Compute how old the oldest open transaction was at the look: 0 if there was none, None if it is not known."""
    if lag.open_since_ms is not None:
        return max(0, lag.looked_at_ms - lag.open_since_ms)
    return None if lag.records_uncommitted else 0


@dataclass(frozen=True, slots=True)
class TopicDeadlines:
    """One topic's part of the forecast: its work, and the receipts that show the pace."""

    work: tuple[PendingPartition, ...]
    receipts: tuple[Receipt, ...]


@dataclass(frozen=True, slots=True)
class TopicsForecast:
    """The forecast of all deadlines. ``bytes_per_second``: of one task; None: no run has shown it."""

    as_of_ms: int
    bytes_per_second: float | None
    parallelism: int
    prospects: tuple[DeadlineForecast, ...]


def load_deadlines(installation: Installation, topic: str, *, as_of_ms: int) -> TopicDeadlines:
    """Return the deadlines of ``topic``; none without max.compaction.lag.ms or without a compacting policy."""
    view = load_topic_view(installation, topic)
    return build_deadlines(
        installation, topic, find_due_partitions(installation, view, assess_view(installation, view, as_of_ms=as_of_ms))
    )


def find_due_partitions(
    installation: Installation, view: TopicView, assessments: Sequence[Assessment], *, unseen_by_ms: int | None = None
) -> dict[int, DuePartition]:
    """Return the partitions of ``view`` with a deadline, by number; none if the policy does not compact.

    Records that are still at the brokers have deadlines too; ``unseen_by_ms``: see
    :func:`winnow.pipeline.monitor.missing_records.find_missing_deadlines`.
    """
    if not view.rules.compacts:
        return {}
    logs = {log.partition: log for log in view.partitions}
    lags = find_missing_deadlines(installation, view.log.topic, view.rules, unseen_by_ms=unseen_by_ms)
    missing = {
        number: MissingRecords(compute_deadline_ms(lag, view.rules), describe_missing(lag))
        for number, lag in lags.items()
    }
    return {
        a.partition: DuePartition(a, logs[a.partition], missing.get(a.partition))
        for a in assessments
        if a.deadline_ms is not None or a.partition in missing
    }


def build_deadlines(installation: Installation, topic: str, due: Mapping[int, DuePartition]) -> TopicDeadlines:
    """Build the forecast's input for the partitions in ``due``."""
    return TopicDeadlines(
        tuple(each.work for each in due.values()),
        tuple(installation.store.projection.list_receipts(topic, limit=MAXIMUM_RECENT_RUNS)),
    )


def compute_forecast(installation: Installation, topics: Sequence[TopicDeadlines], *, as_of_ms: int) -> TopicsForecast:
    """Forecast all deadlines of ``topics`` together, since they share the engine."""
    bytes_per_second = measure_pace(receipt for each in topics for receipt in each.receipts)
    tasks = estimate_parallelism(installation.settings)
    work = [w for each in topics for w in each.work]
    prospects = forecast_deadlines(work, bytes_per_second=bytes_per_second, parallelism=tasks, as_of_ms=as_of_ms)
    return TopicsForecast(as_of_ms, bytes_per_second, tasks, tuple(prospects))


_LOCAL_MASTER = re.compile(r"local\[(\*|[0-9]+)(?:,[0-9]+)?\]")


def estimate_parallelism(settings: Settings) -> int:
    """Estimate from the settings how many tasks the Spark application runs at a time; 1 if they do not show it.

    ``local[N]``: N; a cluster: ``spark.cores.max``, else ``spark.executor.instances`` x ``spark.executor.cores``; each
    divided by ``spark.task.cpus``, and at most the engine's own setting ``tasks``.
    """
    conf = settings.spark.conf
    local = _LOCAL_MASTER.fullmatch(settings.spark.master)
    if local:
        cores = (os.cpu_count() or 1) if local[1] == "*" else int(local[1])
    elif "spark.cores.max" in conf:
        cores = _parse_whole_number(conf["spark.cores.max"])
    else:
        cores = _parse_whole_number(conf.get("spark.executor.instances")) * _parse_whole_number(
            conf.get("spark.executor.cores")
        )
    tasks = max(1, cores // _parse_whole_number(conf.get("spark.task.cpus")))
    return tasks if settings.engine.tasks is None else min(tasks, settings.engine.tasks)


def _parse_whole_number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and int(text) > 0 else 1
