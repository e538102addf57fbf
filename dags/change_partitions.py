"""DAG change_partitions: pauses, resumes or releases partitions for the page's buttons."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param, get_current_context, task

from winnow_airflow import outcomes, params, pool_checks, topic_rights
from winnow_airflow.task_defaults import COMMIT_POOL, DEFAULT_ARGS, START, TAGS, make_dag_arguments
from winnow_airflow.tasks import partition_steps, task_start
from winnow_airflow.xcom_values import TOPIC_PATTERN, ChangeRow

DOC = """
### Pauses, resumes or releases partitions of a topic

The page's buttons trigger this DAG with your own permissions, so Airflow's audit log shows who did what. Repeating a
change has no effect. A change is one commit to the topic's state and touches no data.

| Param | meaning |
| --- | --- |
| `action` | **pause**: no run compacts the partitions. **resume**: ends that pause. **release**: removes the mark |
| | *uncleanable*, so that the next run tries the partitions at once instead of after the back-off |
| `topic` | an existing topic |
| `partitions` | partition numbers; empty: all partitions of the topic |
| `reason` | for a pause, its name: only a resume with the same name ends it; for a release, why |
"""


@task
def check_pools() -> None:
    """Fails the run if the pool of its task does not exist."""
    pool_checks.require_pools(get_current_context())


@task(pool=COMMIT_POOL, execution_timeout=timedelta(minutes=30))
def change() -> str:
    """Changes the topic's state in one commit, and returns a sentence about what changed."""
    context = get_current_context()
    given = context["params"]
    row = ChangeRow(
        action=given["action"], topic=given["topic"], partitions=given["partitions"], reason=given["reason"]
    )
    with outcomes.push_failure(context), task_start.open_task_installation(context) as installation:
        topic_rights.require_right(installation, context, [row["topic"]])
        text = partition_steps.change_partitions(installation, row)
    outcomes.push_sentences(context, row["topic"], [text])
    return text


with DAG(
    **make_dag_arguments("change_partitions"),
    schedule=None,
    start_date=START,
    catchup=False,
    max_active_runs=16,
    default_args=DEFAULT_ARGS,
    tags=TAGS,
    doc_md=DOC,
    params={
        "action": Param(
            "pause",
            type="string",
            enum=["pause", "resume", "release"],
            title="Action",
            description="Pause or resume compaction, or release partitions that are marked uncleanable.",
        ),
        "topic": Param(
            type="string",
            pattern=TOPIC_PATTERN,
            minLength=1,
            title="Topic",
            description="An existing topic.",
        ),
        "partitions": Param(
            [],
            type="array",
            items={"type": "integer", "minimum": 0},
            title="Partitions",
            description="Partition numbers; empty: all partitions of the topic.",
        ),
        "reason": params.build_reason(
            "Name or reason", "For pause and resume: the name of the pause. For release: why the partition is released."
        ),
    },
) as change_partitions:
    check_pools() >> change()
