"""Steps of the DAGs ingest_topics, sweep_topics, scrub_topics and change_partitions."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, get_current_context

from winnow.errors import DamagedSegmentError, TopicBusyError, UsageError, WinnowError
from winnow_airflow import compaction_steps, params, pool_checks, topic_rights
from winnow_airflow.dag_ids import name_dag
from winnow_airflow.older_airflow import AirflowRescheduleException, CronTriggerTimetable
from winnow_airflow.task_defaults import DEFAULT_ARGS, START, TAGS, combine_errors, describe_error
from winnow_airflow.topic_results import TaskResults
from winnow_airflow.xcom_values import ChangeRow, IngestRow

if TYPE_CHECKING:
    from winnow.pipeline.context import Context as Pipeline
    from winnow.pipeline.topics.partitions import PartitionRow

MINIMUM_SCRUB_WAIT_MS = 900_000
"""Minimum wait (ms) before a scrub run, which frees its slot, checks the day's budget again."""

MAXIMUM_SCRUB_RUN_MS = 7 * 86_400_000
"""Maximum duration (ms) of a scrub run; the next run is due then, and continues with the files checked longest ago."""


def build_maintenance_dag(name: str, cron: str, doc: str) -> DAG:
    """Build a DAG without tasks, on a schedule in UTC, whose only Param is the list of topics."""
    return DAG(
        dag_id=name_dag(name),
        schedule=CronTriggerTimetable(cron, timezone="UTC"),
        start_date=START,
        catchup=False,
        max_active_runs=1,
        default_args=DEFAULT_ARGS,
        tags=TAGS,
        doc_md=doc,
        params={"topics": params.TOPICS},
    )


def list_run_topics() -> list[str]:
    """Return the topics of the running DAG run: those of its Param, or all. Fails when a pool is missing."""
    context = get_current_context()
    pool_checks.require_pools(context)
    with compaction_steps.open_task_pipeline(context) as ctx:
        found = compaction_steps.select_topics(ctx, context, context["params"]["topics"])
        compaction_steps.record_manual_run(ctx, context, "scrub")
        return found


def list_swept_topics() -> list[str]:
    """Return the topics of a sweep, which may name deleted ones too; where none is named, all of both kinds."""
    context = get_current_context()
    pool_checks.require_pools(context)
    named = context["params"]["topics"]
    with compaction_steps.open_task_pipeline(context) as ctx:
        deleted = [name for name in ctx.log.list_deleted() if not named or name in named]
        others = [name for name in named if name not in deleted]
        if named:
            topic_rights.require_right(ctx, context, deleted)
        deleted = topic_rights.keep_permitted(ctx, context, deleted)
        compaction_steps.record_manual_run(ctx, context, "sweep")
        return [*(compaction_steps.select_topics(ctx, context, others) if others or not named else []), *deleted]


def scrub_topics(ctx: Pipeline, names: Sequence[str], *, started_ms: int) -> list[str]:
    """Check the files that were not checked since the run began. Returns a sentence per topic.

    Raises:
        AirflowRescheduleException: the budget of the day is used up, and files are left.
        DamagedSegmentError: files are missing or differ from what was written.
    """
    from winnow.pipeline.admin.scrub import find_budget_free_at_ms
    from winnow.pipeline.admin.scrub import open_scrub as step

    reports = step(ctx, names, checked_before_ms=started_ms)
    for report in reports:
        log.info("%s", report.message)
    is_left = not all(report.is_checked_since(started_ms) for report in reports)
    if is_left and ctx.now_ms() - started_ms < MAXIMUM_SCRUB_RUN_MS:
        again_ms = max(find_budget_free_at_ms(ctx), ctx.now_ms() + MINIMUM_SCRUB_WAIT_MS)
        raise AirflowRescheduleException(  # type: ignore[no-untyped-call]
            datetime.fromtimestamp(again_ms / 1000, UTC)
        )
    damaged = [report.message for report in reports if report.findings]
    if damaged:
        raise DamagedSegmentError("\n".join(damaged))
    return [report.message for report in reports]


def get_run_start_ms(context: Mapping[str, Any]) -> int:
    """Return when the DAG run began, in ms since the epoch."""
    return int(context["dag_run"].start_date.timestamp() * 1000)


log = logging.getLogger("airflow.task")

MAXIMUM_NAMED_PARTITIONS = 20
"""Maximum partitions that a sentence names; above it gives their number."""


def ingest_entries(ctx: Pipeline, entries: Sequence[IngestRow], *, as_of_ms: int) -> list[str]:
    """Append the files of each entry, one commit each. Returns a sentence per entry.

    Raises:
        WinnowError: of the entries that failed, naming their topics. Later entries of the same topic were not tried:
            their offsets would have made those before them late. All others are appended.
    """
    errors: dict[str, Exception] = {}
    done = []
    for entry in entries:
        topic = entry["topic"]
        if topic in errors:
            log.warning("%s: an entry was not tried, because the one before it failed.", topic)
            continue
        try:
            done.append(_ingest_entry(ctx, entry, as_of_ms=as_of_ms))
        except Exception as problem:  # raised when the other entries are done
            errors[topic] = problem
            known = isinstance(problem, WinnowError)
            log.error("Topic %s: %s", topic, describe_error(problem), exc_info=not known)
    if errors:
        raise combine_errors(list(errors.items()))
    return done


def _ingest_entry(ctx: Pipeline, entry: IngestRow, *, as_of_ms: int) -> str:
    from winnow.pipeline.ingest.ingest import ingest_files
    from winnow.sources.ingest_roots import check_ingest_paths

    check_ingest_paths(entry["paths"], ctx.settings.ingest.roots)
    done = ingest_files(ctx, entry["topic"], entry["paths"], as_of_ms=as_of_ms, source_topic=entry.get("source_topic"))
    for notice in done.notices:
        log.warning("%s: %s", done.topic, notice)
    text = (
        f"{done.topic}: {done.records_appended:,} records appended from {done.files} file(s), "
        f"{done.records_skipped:,} were there already, {done.records_quarantined:,} went to quarantine."
    )
    if done.records_left_out:
        text += f" {done.records_left_out:,} of other topics than {done.source_topic} were left out."
    log.info("%s", text)
    return text


def sweep_topics(ctx: Pipeline, names: Sequence[str], *, last_try: bool) -> list[str]:
    """Sweep topics one by one. Returns a sentence per topic.

    Raises:
        TopicBusyError: topics are being compacted, and this is not the last try; on the last try they are left to the
            next sweep.
    """
    from winnow.pipeline.admin import sweep as step

    results = TaskResults(ctx)
    done = []
    for topic in names:
        with results.collect(topic):
            for swept in step.sweep_topics(ctx, [topic]):
                log.info("%s", swept.message)
                done.append(swept.message)
    results.raise_errors()
    if results.left and not last_try:
        raise TopicBusyError("\n".join(results.left))
    return [*done, *results.left]


def change_partitions(ctx: Pipeline, row: ChangeRow) -> str:
    """Pause, resume or release partitions of a topic; return a sentence about what changed. Idempotent.

    Raises:
        UsageError: no such partition or action, or a pause without a name.
        UnknownTopicError: no such topic.
        CommitConflictError, CommitUnknownError, ServiceError: see
            :func:`winnow.pipeline.topics.state_change.change_states`.
    """
    from winnow.pipeline.topics import partitions as step

    topic, chosen, reason = row["topic"], row["partitions"], row["reason"]
    if row["action"] == "pause":
        text = _describe_pause(topic, step.pause_partitions(ctx, topic, chosen, by=reason), reason)
    elif row["action"] == "resume":
        text = _describe_resume(topic, step.resume_partitions(ctx, topic, chosen, by=reason), reason)
    elif row["action"] == "release":
        text = _describe_release(topic, step.release_partitions(ctx, topic, chosen, why=reason))
    else:
        raise UsageError(
            f"There is no action {row['action']}.",
            left="Nothing was changed.",
            next="Choose pause, resume or release.",
        )
    log.info("%s", text)
    return text


def _describe_pause(topic: str, rows: Sequence[PartitionRow], name: str) -> str:
    changed = [row.partition for row in rows if row.changed]
    if not changed:
        paused = _name_partitions(topic, [row.partition for row in rows])
        return f"Nothing was changed: {paused} was paused by {name} already."
    return (
        f"Paused by {name}: {_name_partitions(topic, changed)}. No run compacts it until it is resumed under the same "
        "name; a run that is at work on it publishes nothing of its topic. Readers and ingest continue."
    )


def _describe_resume(topic: str, rows: Sequence[PartitionRow], name: str) -> str:
    changed = [row.partition for row in rows if row.changed]
    others = sorted({by for row in rows for by in row.paused_by})
    still = [row.partition for row in rows if row.paused_by]
    rest = f" Still paused by {', '.join(others)}: {_name_partitions(topic, still)}." if still else ""
    if not changed:
        unpaused = _name_partitions(topic, [row.partition for row in rows])
        return f"Nothing was changed: {unpaused} had no pause named {name}.{rest}"
    going = [number for number in changed if number not in still]
    next_run = " The next run takes what is due." if going else ""
    return f"Resumed by {name}: {_name_partitions(topic, changed)}.{rest}{next_run}"


def _describe_release(topic: str, released: Sequence[int]) -> str:
    if not released:
        return f"Nothing was changed: no partition of {topic} that was asked for is marked uncleanable."
    named = _name_partitions(topic, released)
    return f"Released: {named}. The next run tries it again; should it fail, you are alerted again."


def _name_partitions(topic: str, partitions: Sequence[int]) -> str:
    if len(partitions) > MAXIMUM_NAMED_PARTITIONS:
        return f"{len(partitions):,} partitions of {topic}"
    return ", ".join(f"{topic}-{number}" for number in sorted(partitions))
