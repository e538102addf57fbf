"""DAG ingest_topics: appends files to topics when triggered."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, get_current_context, task

from winnow.clock import read_wall_clock_ms
from winnow_airflow import compaction_steps, maintenance, params, pool_checks
from winnow_airflow.params import get_as_of_ms
from winnow_airflow.task_defaults import COMMIT_POOL, DEFAULT_ARGS, START, TAGS
from winnow_airflow.xcom_values import (
    TOPIC_PATTERN,
    IngestRow,
    build_ingest_rows,
    build_label,
    share_ingest_rows,
)

DOC = """
### Appends files to topics

JSON lines, Parquet, and what sinks, brokers and tools leave behind (`winnow inspect PATH` says what an archive is).
What an archive cannot tell is decided once, in a first `winnow ingest files` at the shell; it holds for the runs of
this DAG, which read only objects that are new. Each entry is one commit: all its files are appended, or none. The same
offsets are never appended twice, so running it again changes nothing. Bad input is refused with the partition and
offset at fault, and not retried. Paths must lie below a folder of the setting `ingest.roots`, in a new installation
`incoming` in Winnow's home: a run reads with Airflow's rights, whoever triggers it. Records that name another topic are
refused too, unless `source_topic` selects one topic.

| Param | meaning |
| --- | --- |
| `topic`, `paths` | one existing topic, and its files or folders in the order of their offsets |
| `source_topic` | for files that hold several topics: take the records of this one, leave out the others |
| `files` | several topics: `[{"topic": "orders", "paths": ["/archive/orders"]}]`; each may have a `source_topic` |
| `as_of` | the instant of the append, for records without a timestamp; empty: when the run was due |
| `simulate` | allow an `as_of` more than a minute in the future |
"""

INGEST_DOC = """
Appends the files of each entry in one commit, and logs how many records were appended, were there already, or went to
quarantine. Entries share up to eight tasks, more when there are more than two hundred; those of one topic are in one
task, in the order given. A failed entry stops only the later ones of its topic. The task then fails with the names of
the topics; a retry appends nothing twice.
"""


@task
def list_files() -> list[list[IngestRow]]:
    """Lists which files to append to which topic, one entry per commit, shared among few tasks."""
    context = get_current_context()
    pool_checks.require_pools(context)
    return share_ingest_rows(build_ingest_rows(context["params"]))


@task(map_index_template="{{ label }}", pool=COMMIT_POOL, execution_timeout=timedelta(hours=12), doc_md=INGEST_DOC)
def ingest(entries: list[IngestRow]) -> list[str]:
    """Appends each entry of its share in one commit."""
    context: Any = get_current_context()
    context["label"] = build_label(list(dict.fromkeys(entry["topic"] for entry in entries)))
    as_of_ms = get_as_of_ms(context, now_ms=read_wall_clock_ms())
    with compaction_steps.open_task_pipeline(context) as ctx:
        return maintenance.ingest_entries(ctx, entries, as_of_ms=as_of_ms)


with DAG(
    dag_id="ingest_topics",
    schedule=None,
    start_date=START,
    catchup=False,
    max_active_runs=4,
    default_args=DEFAULT_ARGS,
    tags=TAGS,
    doc_md=DOC,
    params={
        "topic": Param(
            None,
            type=["null", "string"],
            pattern=TOPIC_PATTERN,
            title="Topic",
            description="An existing topic.",
            section="One topic",
        ),
        "paths": Param(
            [],
            type="array",
            items={"type": "string"},
            title="Paths",
            description="Its files or folders, one per line, in the order of their offsets. They must lie below the "
            "setting ingest.roots.",
            section="One topic",
        ),
        "source_topic": Param(
            None,
            type=["null", "string"],
            pattern=TOPIC_PATTERN,
            title="Source topic",
            description="Take the records that name this topic and leave out those of others. Empty: records that name "
            "another topic are refused.",
            section="One topic",
        ),
        "files": Param(
            [],
            type="array",
            items={
                "type": "object",
                "properties": {
                    "topic": {"type": "string", "pattern": TOPIC_PATTERN},
                    "paths": {"type": "array", "items": {"type": "string"}},
                    "source_topic": {"type": "string", "pattern": TOPIC_PATTERN},
                },
                "required": ["topic", "paths"],
                "additionalProperties": False,
            },
            title="Files",
            description='Several topics with their files: [{"topic": "orders", "paths": ["/archive/orders"]}]',
            section="Several topics",
        ),
        "as_of": params.AS_OF,
        "simulate": params.SIMULATE,
    },
) as ingest_topics:
    ingest.expand(entries=list_files())
