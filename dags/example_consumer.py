"""DAG example_consumer: a template for a DAG that waits for a compacted topic; paused by default."""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Param, get_current_context, task

from winnow.clock import format_ms, parse_as_of
from winnow_airflow import pool_checks
from winnow_airflow.assets import compacted_past, read_events, topic_asset
from winnow_airflow.older_airflow import AirflowSkipException
from winnow_airflow.task_defaults import DEFAULT_ARGS, START, TAGS, make_dag_arguments
from winnow_airflow.tasks import compaction_steps, task_start

TOPIC = "aircraft"
"""A topic of the demo."""

DOC = f"""
### Runs when the topic `{TOPIC}` was compacted, and continues once it is compacted past an instant

`schedule=[topic_asset("{TOPIC}")]` starts a run for every compaction that was published, and for every undo by
`change_topics`. Its event says up to which offset of each partition the log is clean (`offsets`), and up to which time
(`compacted_through_ms`): every record of the log with that timestamp or an earlier one is compacted.
**wait_for_watermark** skips the run while that time lies before the Param `past`; **count_records** is an example of
work with the compacted topic, which it names as its inlet, so that Airflow lists it at the asset.

It is paused when Airflow first loads it, and takes no part in compaction.
"""


@task
def wait_for_watermark() -> list[dict[str, Any]]:
    """Returns the events that triggered this run. Skips the rest while the topic is not compacted far enough."""
    context: Any = get_current_context()
    pool_checks.require_pools(context)
    events = context["triggering_asset_events"]
    past = context["params"]["past"]
    if past is not None and not compacted_past(events, TOPIC, parse_as_of(past)):
        raise AirflowSkipException(f"{TOPIC} is not compacted past {past} yet; a later compaction starts another run.")
    return list(read_events(events, TOPIC))


@task(inlets=[topic_asset(TOPIC)])
def count_records(events: list[dict[str, Any]]) -> str:
    """Counts the records that a reader of the topic sees, from the table's metadata, and logs the newest event."""
    context = get_current_context()
    with task_start.open_task_installation(context) as installation:
        topic = installation.log.open(TOPIC)
        live = topic.segments(topic.head())
    records = sum(segment.records for segments in live.values() for segment in segments)
    event_text = "There is no asset event: the run was triggered by hand."
    if events:
        newest = events[-1]
        time_ms = newest["compacted_through_ms"]
        through = "an unknown time" if time_ms is None else format_ms(time_ms)
        event_text = f"Snapshot {newest['snapshot_id']} is clean up to offsets {newest['offsets']}, through {through}."
    text = f"{TOPIC} holds {records:,} records. {event_text}"
    compaction_steps.log.info("%s", text)
    return text


with DAG(
    **make_dag_arguments("example_consumer"),
    schedule=[topic_asset(TOPIC)],
    start_date=START,
    catchup=False,
    max_active_runs=1,
    is_paused_upon_creation=True,
    default_args=DEFAULT_ARGS,
    tags=[*TAGS, "example"],
    doc_md=DOC,
    params={
        "past": Param(
            None,
            type=["null", "string"],
            title="Past",
            description="Continue only if the topic is compacted past this instant: ISO 8601 with UTC offset, or ms.",
        )
    },
) as example_consumer:
    events: Any = wait_for_watermark()
    count_records(events)
