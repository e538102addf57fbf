"""DAG change_topics: creates topics, changes their configuration, adds partitions, deletes records, undoes."""

from __future__ import annotations

from airflow.sdk import DAG, Param, get_current_context, task

from winnow_airflow import params, pool_checks
from winnow_airflow.assets import COMPACTED
from winnow_airflow.task_defaults import COMMIT_POOL, DEFAULT_ARGS, START, TAGS, make_dag_arguments
from winnow_airflow.tasks import topic_changes
from winnow_airflow.tasks.second_person import ChangeTopicOperator
from winnow_airflow.xcom_values import TOPIC_PATTERN

DOC = """
### Creates topics, changes their configuration, adds partitions, undoes ingest calls and runs

The page triggers this DAG with your own permissions, so Airflow's audit log shows who did what. A change is one commit,
checked as a whole before anything is written; what it will remove for good is in the answer. Repeating it has no
effect. Deleting a topic takes a shell: `winnow topics delete`.

| Param | meaning |
| --- | --- |
| `action` | **alter**: set `config`, reset `reset`. **create**: a topic with `partitions` and `config`. |
| | **add_partitions**: to `partitions` in all; keys do not move. **undo_ingest**: take back `ingest_id` |
| | **accept_kafka_config**: take what waits of the topic's configuration at Kafka, if it has the `expected` values |
| | **undo**: take back `change_id`, while the files that it replaced are there; its partitions are paused |
| `topic` | the topic |
| `config`, `reset` | configuration by Kafka's names, `{"retention.ms": "604800000"}`; keys to set to their defaults |
| `expected` | refuse the change if these keys have other values by now; null: not set |
| `partitions` | how many partitions the topic has afterwards |
| `ingest_id` | the call, as `winnow ingest list` and the page name it |
| `change_id` | the plan of a run, or a deletion of records, as `winnow undo --list` and the page name it |
| `before_offsets` | for **delete_records**: the new log start by partition, `{"0": 1500}` |
| `only_partitions` | for undo: these alone; none: all that it changed |
| `and_later` | for undo: also take back later runs that worked on its result, in the same commit |
| `reason` | why; kept in the audit log |

With the setting `change.approvals` = 2 a change after which runs can remove records for good (retention, policy,
strategy, tombstones, a raised log start) waits until another user approves it under *Required Actions*. Whoever asked
cannot approve it, nor can who may not act for the topic's owner; and if the configuration changes meanwhile, the
approval is void. A run waits as long as DAG runs may, three days.

An undo sends the event of the topic's asset, with `operation` `undo` and `records_restored`: readers have to know that
records came back.
"""


@task
def check_pools() -> None:
    """Fails the run if the pool of its task does not exist."""
    pool_checks.require_pools(get_current_context())


with DAG(
    **make_dag_arguments("change_topics"),
    schedule=None,
    start_date=START,
    catchup=False,
    max_active_runs=64,  # those that wait for a second person count
    default_args=DEFAULT_ARGS,
    tags=TAGS,
    doc_md=DOC,
    params={
        "action": Param(
            topic_changes.ALTER,
            type="string",
            enum=list(topic_changes.ACTIONS),
            title="Action",
            description="Change the configuration, create a topic, add partitions, undo an ingest call, accept a "
            "configuration of Kafka's that waits, undo a run or a deletion of records, or delete records.",
        ),
        "topic": Param(type="string", pattern=TOPIC_PATTERN, minLength=1, title="Topic", description="The topic."),
        "config": params.build_config(),
        "reset": params.build_reset(),
        "expected": Param(
            {},
            type="object",
            additionalProperties={"type": ["null", "string"]},
            title="Expected values",
            description="Refuse the change if these keys have other values by now.",
        ),
        "partitions": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            title="Partitions",
            description="For create and add_partitions: how many the topic has afterwards.",
        ),
        "ingest_id": Param(
            None,
            type=["null", "string"],
            title="Ingest call",
            description="For undo_ingest: the call, as winnow ingest list names it.",
        ),
        "change_id": Param(
            None,
            type=["null", "string"],
            title="Change",
            description="For undo: the plan of a run, or a deletion of records, as winnow undo --list names it.",
        ),
        "only_partitions": Param(
            [],
            type="array",
            items={"type": "integer", "minimum": 0},
            title="Only these partitions",
            description="For undo: partitions in which it is taken back, one per line. Empty: all that it changed.",
        ),
        "and_later": Param(
            False,
            type="boolean",
            title="And later runs",
            description="For undo: also take back later runs that worked on its result.",
        ),
        "before_offsets": Param(
            {},
            type="object",
            propertyNames={"pattern": "^[0-9]{1,9}$"},
            additionalProperties={"type": "integer", "minimum": 0},
            title="Before offsets",
            description='For delete_records: the new log start by partition: {"0": 1500}',
        ),
        "reason": params.build_reason("Reason", "Why; kept in the audit log."),
    },
) as change_topics:
    check_pools() >> ChangeTopicOperator(
        task_id="change",
        pool=COMMIT_POOL,
        outlets=[COMPACTED],
        doc_md="Changes the topic in one commit, once another user has approved it where that takes two persons.",
    )
