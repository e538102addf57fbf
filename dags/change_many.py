"""DAG change_many: one reviewed change of many topics, for the page's list of topics."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, get_current_context, task

from winnow_airflow import outcomes, params, pool_checks
from winnow_airflow.task_defaults import COMMIT_POOL, DEFAULT_ARGS, START, TAGS, make_dag_arguments
from winnow_airflow.tasks import bulk_steps, task_start
from winnow_airflow.xcom_values import TOPIC_PATTERN

DOC = """
### Pauses, resumes or configures many topics at once

The page's list of topics triggers this DAG with your own permissions, for the topics that its review named. Each topic
is changed in one commit. One that was changed since the review is refused, as is one whose owner you may not act for;
the others are done. The audit log has one entry, which names all of them. Repeating it has no effect.

| Param | meaning |
| --- | --- |
| `action` | **pause**, **resume**: all partitions. **alter**: set `config`, reset `reset`, add and remove tags |
| `topics` | names, each with the fingerprint of the topic as the review saw it |
| `config`, `reset` | configuration by Kafka's names; keys to set to their defaults |
| `add_tags`, `remove_tags` | tags that each topic gets, or loses |
| `digest` | of all of the above, as the review gave it |
| `reason` | for a pause, its name: only a resume with the same name ends it; for configuration, why |
"""


@task
def check_pools() -> None:
    """Fails the run if the pool of its task does not exist."""
    pool_checks.require_pools(get_current_context())


@task(pool=COMMIT_POOL, execution_timeout=timedelta(hours=6))
def change() -> str:
    """Changes each topic in one commit, and returns how many; fails if some were refused or failed."""
    context: Any = get_current_context()
    with outcomes.push_failure(context), task_start.open_task_installation(context) as installation:
        report = bulk_steps.change_many(installation, context)
    outcomes.push_outcomes(context, report.outcomes)
    report.raise_errors()
    return report.text


TAG = {"type": "string", "minLength": 1, "maxLength": 50}

with DAG(
    **make_dag_arguments("change_many"),
    schedule=None,
    start_date=START,
    catchup=False,
    max_active_runs=4,
    default_args=DEFAULT_ARGS,
    tags=TAGS,
    doc_md=DOC,
    params={
        "action": Param(
            bulk_steps.ALTER,
            type="string",
            enum=list(bulk_steps.ACTIONS),
            title="Action",
            description="Pause or resume compaction, or change the configuration.",
        ),
        "topics": Param(
            type="object",
            propertyNames={"pattern": TOPIC_PATTERN},
            additionalProperties={"type": "string", "pattern": "^[0-9a-f]{16}$"},
            minProperties=1,
            maxProperties=bulk_steps.MAXIMUM_TOPICS,
            title="Topics",
            description="Names, each with the fingerprint that the page's review gave it.",
        ),
        "config": params.build_config(),
        "reset": params.build_reset(),
        "add_tags": Param(
            [], type="array", items=TAG, title="Tags to add", description="Tags that each topic gets, one per line."
        ),
        "remove_tags": Param(
            [], type="array", items=TAG, title="Tags to remove", description="Tags that each topic loses, one per line."
        ),
        "digest": Param(
            type="string",
            pattern="^[0-9a-f]{64}$",
            title="Digest of the review",
            description="As the page's review gave it.",
        ),
        "reason": params.build_reason(
            "Name or reason", "For pause and resume: the name of the pause. For configuration: why it is changed."
        ),
    },
) as change_many:
    check_pools() >> change()
