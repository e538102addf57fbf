"""DAG erase_keys: erases keys from everything that Winnow wrote of a topic, now and for good."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

from airflow.sdk import DAG, Param, get_current_context, task

from winnow_airflow import outcomes, params, pool_checks, topic_rights
from winnow_airflow.assets import COMPACTED, build_erase_event, topic_asset
from winnow_airflow.task_defaults import COMMIT_POOL, DEFAULT_ARGS, START, TAGS, make_dag_arguments
from winnow_airflow.tasks import erase_steps, task_start
from winnow_airflow.xcom_values import TOPIC_PATTERN

DOC = """
### Erases keys from everything that Winnow wrote of a topic, now and for good

The keys are in a file, one a line, below a folder of the setting `erase.roots`: **never write a key into a Param**,
since Airflow keeps and shows those. A line is text, or `hex:…` or `base64:…` where the key is no text.

One commit without these keys, after Great Expectations has judged that every other record is there. Then snapshots are
expired and files deleted at once, without a grace. Old copies that come later are left out of every ingest. It cannot
be undone. If files cannot be deleted yet, the task fails and is tried again, which goes on where it was; so does every
sweep. Running it again changes nothing.

| Param | meaning |
| --- | --- |
| `topic` | the topic |
| `keys_from` | path or URI of the file with the keys |
| `reason` | why; it is in the certificate and the audit log. No key, please |
| `with_tombstone` | leave a tombstone at each key's newest record, so that consumers learn of it |
| `break_pins` | also where a restore at work, or a tag, keeps a snapshot with such records |
| `request_id` | the request that another person approved; the page sets it |

With the setting `erase.approvals` = 2 a run without `request_id` only asks for the erasure. Another user who may
trigger this DAG approves it on the page, and a run with its `request_id` erases exactly that, once, within seven days.
If the file has other keys by then, it is refused.

What was done, and what Winnow cannot reach: `winnow erase certificate ID`, with the id that the task returns. It sends
the event of the topic's asset, with `operation` `erase` and `records_erased`.
"""


@task
def check_pools() -> None:
    """Fails the run if the pool of its task does not exist."""
    pool_checks.require_pools(get_current_context())


@task(pool=COMMIT_POOL, execution_timeout=timedelta(hours=12), outlets=[COMPACTED], multiple_outputs=False)
def erase() -> erase_steps.EraseRow:
    """Erases the keys, and returns the id of the erasure with counts; a retry goes on where this was stopped."""
    context: Any = get_current_context()
    with outcomes.push_failure(context), task_start.open_task_installation(context) as installation:
        topic_rights.require_right(installation, context, [context["params"]["topic"]])
        if installation.settings.erase.approvals > 1:
            topic_rights.require_person(context)
        wanted = cast("erase_steps.EraseParams", dict(context["params"]))
        done = erase_steps.erase_keys(installation, wanted, is_first_try=context["ti"].try_number <= 1)
    if done.told is not None:
        report, mark = done.told
        context["outlet_events"][COMPACTED].add(topic_asset(report.topic), extra=build_erase_event(report, mark))
    outcomes.push_sentences(context, wanted["topic"], [done.text])
    return done.row


with DAG(
    **make_dag_arguments("erase_keys"),
    schedule=None,
    start_date=START,
    catchup=False,
    max_active_runs=4,
    default_args=DEFAULT_ARGS,
    tags=TAGS,
    doc_md=DOC,
    params={
        "topic": Param(type="string", pattern=TOPIC_PATTERN, minLength=1, title="Topic", description="The topic."),
        "keys_from": Param(
            type="string",
            pattern=params.LINE_PATTERN,
            minLength=1,
            title="File with keys",
            description="Path or URI of a file with one key a line, below the setting erase.roots. Never a key itself.",
        ),
        "reason": params.build_reason(
            "Reason", "Why; kept in the certificate and the audit log. Name a request, never a key.", is_required=True
        ),
        "with_tombstone": Param(
            False,
            type="boolean",
            title="Leave tombstones",
            description="Leave a tombstone at each key's newest record, so that consumers learn of it. The keys stay "
            "in these tombstones until a compaction removes them.",
        ),
        "break_pins": Param(
            False,
            type="boolean",
            title="Break pins",
            description="Also where a restore at work, or a tag, keeps a snapshot with such records.",
        ),
        "request_id": Param(
            None,
            type=["null", "string"],
            title="Approved request",
            description="Where erasures take two persons: the request that was approved. Empty: ask for it.",
        ),
    },
) as erase_keys:
    check_pools() >> erase()
