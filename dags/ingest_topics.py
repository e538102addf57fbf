"""DAG ingest_topics: appends files to topics when triggered, and follows Kafka topics on a schedule."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, get_current_context, task

from winnow.clock import read_wall_clock_ms
from winnow_airflow import outcomes, params, pool_checks, topic_rights
from winnow_airflow.notifier import WinnowNotifier
from winnow_airflow.older_airflow import DeltaTriggerTimetable
from winnow_airflow.params import get_as_of_ms
from winnow_airflow.task_defaults import COMMIT_POOL, DEFAULT_ARGS, START, TAGS, make_dag_arguments
from winnow_airflow.task_skipping import skip_tasks
from winnow_airflow.tasks import following, ingest_steps, task_start
from winnow_airflow.tasks.latest_tables import update_due_tables
from winnow_airflow.xcom_values import TOPIC_PATTERN, IngestRow, build_label, share_ingest_rows

DOC = """
### Appends files and Kafka's records to topics

**From Kafka.** If the settings name brokers and topics (`source.bootstrap_servers`, `source.topics_regex`), the DAG
runs every five minutes (`source.interval_ms`) and appends to each topic what is new: from its log's end to the brokers'
last stable offset, each topic in one commit. A run that is triggered may name the topics instead. One task asks about
all of them; a topic with nothing new is not even opened, and one that fails marks only its own task. Running it again
changes nothing. Only the cluster of the
settings is read, with its properties file.

**From files.** A run that is triggered with files appends them.

JSON lines, Parquet, and what sinks, brokers and tools leave behind (`winnow inspect PATH` says what an archive is).
What an archive cannot tell is decided once, in a first `winnow ingest files` at the shell; it holds for the runs of
this DAG, which read only objects that are new. Each entry is one commit: all its files are appended, or none. The same
offsets are never appended twice, so running it again changes nothing. Bad input is refused with the partition and
offset at fault, and not retried. Paths must lie below a folder of the setting `ingest.roots`, in a new installation
`incoming` in Winnow's home: a run reads with Airflow's rights, whoever triggers it. Records that name another topic are
refused too, unless `source_topic` selects one topic.

| Param | meaning |
| --- | --- |
| `kafka_topics`, `kafka_topics_regex` | Kafka topics to read now, by name or by an expression |
| `create` | create Kafka topics that do not exist here; empty: as the settings say |
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

KAFKA_DOC = """
Asks the brokers about all topics of the run, and appends what is new, each topic in one commit. A failed topic stops no
other, and fails a task of its own (`ingest_topic`), not this one. If another run reads from Kafka at the same time, the
task leaves the topics to it. Records how far each topic is behind, and which are gone at the brokers: those are an
alert (`source_gone`), and no failure. At the end, tables of latest states are brought up to date that are due
(`winnow.latest.update=SECONDS`).
"""

TOPIC_DOC = """
Tries a topic again that failed when all topics of the run were read. If it fails again, this task alone is marked as
failed, with the topic's name and error, and the alert `ingest_failed` is sent; the other topics are appended. When no
topic fails, no such task is started. When many fail, they share twenty tasks.
"""


@task
def list_files() -> list[list[IngestRow]]:
    """Lists which files to append to which topic, one entry per commit, shared among few tasks; none for Kafka."""
    context = get_current_context()
    pool_checks.require_pools(context)
    rows = following.list_file_rows(context["params"])
    if rows:
        skip_tasks(["ingest_kafka"])
    return share_ingest_rows(rows)


@task(pool=COMMIT_POOL, execution_timeout=timedelta(hours=12), doc_md=KAFKA_DOC)
def ingest_kafka() -> list[list[str]]:
    """Appends to all topics of the run what is new at the brokers; returns those that failed."""
    context: Any = get_current_context()
    as_of_ms = get_as_of_ms(context, now_ms=read_wall_clock_ms())
    with outcomes.push_failure(context), task_start.open_task_installation(context) as installation:
        failed = following.ingest_from_kafka(installation, context, as_of_ms=as_of_ms)
        update_due_tables(installation)
    return failed


@task(
    map_index_template="{{ label }}",
    pool=COMMIT_POOL,
    execution_timeout=timedelta(hours=12),
    on_failure_callback=WinnowNotifier("ingest_kafka"),
    doc_md=TOPIC_DOC,
)
def ingest_topic(topics: list[str]) -> None:
    """Tries topics again that failed among the others."""
    context: Any = get_current_context()
    context["label"] = build_label(topics)
    as_of_ms = get_as_of_ms(context, now_ms=read_wall_clock_ms())
    with outcomes.push_failure(context), task_start.open_task_installation(context) as installation:
        following.try_topics_again(installation, context, topics, as_of_ms=as_of_ms)


@task(map_index_template="{{ label }}", pool=COMMIT_POOL, execution_timeout=timedelta(hours=12), doc_md=INGEST_DOC)
def ingest(entries: list[IngestRow]) -> list[str]:
    """Appends each entry of its share in one commit."""
    context: Any = get_current_context()
    context["label"] = build_label(list(dict.fromkeys(entry["topic"] for entry in entries)))
    as_of_ms = get_as_of_ms(context, now_ms=read_wall_clock_ms())
    with outcomes.push_failure(context), task_start.open_task_installation(context) as installation:
        topic_rights.require_right(installation, context, {entry["topic"] for entry in entries})
        sentences = ingest_steps.ingest_entries(installation, entries, as_of_ms=as_of_ms)
    outcomes.push_sentences(context, "", sentences)
    return sentences


INTERVAL = following.choose_interval()

with DAG(
    **make_dag_arguments("ingest_topics"),
    schedule=None if INTERVAL is None else DeltaTriggerTimetable(INTERVAL),
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
        ),
        "paths": Param(
            [],
            type="array",
            items={"type": "string"},
            title="Paths",
            description="Its files or folders, one per line, in the order of their offsets. They must lie below the "
            "setting ingest.roots.",
        ),
        "source_topic": Param(
            None,
            type=["null", "string"],
            pattern=TOPIC_PATTERN,
            title="Source topic",
            description="Take the records that name this topic and leave out those of others. Empty: records that name "
            "another topic are refused.",
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
        ),
        "kafka_topics": Param(
            [],
            type="array",
            items={"type": "string", "pattern": TOPIC_PATTERN},
            title="Kafka topics",
            description="Topics of the settings' cluster to read now, one per line.",
        ),
        "kafka_topics_regex": Param(
            None,
            type=["null", "string"],
            title="Kafka topics that match",
            description="A regular expression that matches the whole names of topics to read now. Both empty, and no "
            "files: those that the settings follow.",
        ),
        "create": Param(
            None,
            type=["null", "boolean"],
            title="Create topics",
            description="Create Kafka topics that do not exist here, with the brokers' partitions. Empty: as the "
            "settings say.",
        ),
        "as_of": params.AS_OF,
        "simulate": params.SIMULATE,
    },
) as ingest_topics:
    listed = list_files()
    ingest.expand(entries=listed)
    failed = ingest_kafka()
    listed >> failed
    ingest_topic.expand(topics=failed)
