"""Runs spark-submit for one batch of plans; settings are read when the task runs, not at parse time."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from winnow.errors import (
    BadInputError,
    RunAgainError,
    ServiceError,
    UsageError,
    ValidationFailedError,
    WinnowError,
    find_worst_exit_code,
)
from winnow_airflow import lineage
from winnow_airflow.event_logging import log_pipeline_events
from winnow_airflow.task_context import open_pipeline
from winnow_airflow.task_defaults import SPARK_CONNECTION
from winnow_airflow.topic_locks import TopicAttempts
from winnow_airflow.xcom_values import BatchRow, build_label, list_staged_attempts

if TYPE_CHECKING:
    from winnow.config.settings import Settings
    from winnow.engine.events import PlanFailure
    from winnow.pipeline.compaction.spark_submit import JobOutcome
    from winnow.pipeline.context import Context as Pipeline
    from winnow.planning.plans import PlanReference

_ERROR_BY_EXIT_CODE: dict[int, type[WinnowError]] = {
    kind.exit_code: kind for kind in (UsageError, BadInputError, ValidationFailedError, RunAgainError, ServiceError)
}
_EXIT_CODE = re.compile(r"Error code is: (\d+)")


class CompactOperator(SparkSubmitOperator):
    """Carries out the plans of one batch in one Spark application, as an attempt named after the try.

    A second execution writes a new attempt beside the old one and reopens a closed run; publishing checks whether the
    log moved meanwhile. Plans are skipped when they are published, possibly published, or staged and not validated yet.
    """

    _file_of: Callable[[Mapping[str, str]], list[str]] | None = None

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "batch")

    def __init__(self, *, batch: Any, **arguments: Any) -> None:
        super().__init__(conn_id=SPARK_CONNECTION, **arguments)
        self.batch = batch

    def execute(self, context: Context) -> None:
        """Submit and wait. Skips topics that another run holds.

        Raises:
            AirflowFailException: the topics of the batch could not be planned.
            AirflowSkipException: other runs hold all topics of the batch.
            WinnowError: the class that belongs to the job's exit code.
        """
        from winnow.pipeline.compaction.open_runs import lock_for_plan, reopen_run
        from winnow.pipeline.leases import renew_leases

        batch: BatchRow = self.batch
        error = batch.get("error")
        if error:
            raise AirflowFailException(error)
        attempt = f"{batch['attempt']}-{context['ti'].try_number}"
        with open_pipeline(context) as ctx, log_pipeline_events(ctx):
            topics = TopicAttempts(ctx)
            plans: list[PlanReference] = []
            # Spark may run longer than a lease lasts; the report releases the topics.
            with renew_leases(ctx) as leases:
                for plan in list_pending_plans(ctx, batch):
                    with topics.attempt(plan.topic, plan.plan_id):
                        leases.add(lock_for_plan(ctx, plan))
                        reopen_run(ctx, plan, attempt)
                        plans.append(plan)
                if not plans and not topics.left and not topics.errors:
                    self.log.info("Every plan of this batch is staged or published already; Spark is not needed.")
                    return
                staged = self._submit(ctx, topics, plans, attempt, context) if plans else []
            topics.close(staged, nothing="Nothing of this batch was staged.")

    def _submit(
        self, ctx: Pipeline, topics: TopicAttempts, plans: Sequence[PlanReference], attempt: str, context: Context
    ) -> list[str]:
        """Run Spark on ``plans``; return the topics whose plans are staged afterwards."""
        from winnow.pipeline.compaction.spark_submit import build_spark_conf, find_job_file, open_properties_file
        from winnow.pipeline.compaction.stage import JOB_NAME, begin_attempt, build_job_arguments, stage_retention_plans

        started_ms = ctx.now_ms()
        self.conf = build_spark_conf(ctx.settings)
        self.name = f"winnow {attempt}"
        self.env_vars = _build_driver_environment(ctx.settings)
        begun: list[PlanReference] = []
        for plan in plans:
            with topics.attempt(plan.topic, plan.plan_id):
                begin_attempt(ctx, plan, attempt)
                begun.append(plan)
        reading, refused = stage_retention_plans(ctx, begun, attempt)
        begun = _drop_refused(topics, begun, refused)
        self.application = find_job_file(JOB_NAME)
        self.application_args = build_job_arguments(ctx.settings, reading, attempt)
        outcome: JobOutcome | None = None
        staged: list[str] = []
        missing: list[PlanReference] = []
        try:
            if reading:
                with ExitStack() as files:
                    # Read when the command line is built: lineage may have added properties by then.
                    self._file_of = lambda conf: files.enter_context(open_properties_file(ctx.settings, conf))
                    super().execute(context)
            elif begun:
                self.log.info("Retention alone: nothing is read, so Spark is not needed.")
        except AirflowException as problem:
            outcome = read_outcome(str(problem), reading)
        finally:
            self._close_pipe()
            for plan in begun:
                with topics.attempt(plan.topic, plan.plan_id):
                    if self._note_staged(ctx, plan, started_ms):
                        staged.append(plan.topic)
                    else:
                        missing.append(plan)
        if outcome is not None:
            self._judge(ctx, topics, outcome, begun, missing, attempt)
        elif missing:
            unstaged = [plan.topic for plan in missing]
            ended = ServiceError(
                f"The Spark application ended well but left no staging manifest for {', '.join(unstaged)}, so those "
                "files do not count. Nothing of it was published. It is tried again."
            )
            topics.errors.append((build_label(unstaged), ended))
        return staged

    def _get_hook(self) -> SparkSubmitHook:
        """Return the provider's hook with the properties in a file: a command line is logged and public on the host."""
        if self._file_of is None:
            return super()._get_hook()
        options = self._file_of(self.conf or {})
        self.conf = {}
        hook = super()._get_hook()
        common = hook._build_spark_common_args
        vars(hook)["_build_spark_common_args"] = lambda: [*common(), *options]
        return hook

    def _judge(
        self,
        ctx: Pipeline,
        topics: TopicAttempts,
        outcome: JobOutcome,
        plans: Sequence[PlanReference],
        missing: Collection[PlanReference],
        attempt: str,
    ) -> None:
        """Handle the failed plans: collect skipped topics, partitions to mark, and the error to raise.

        ``missing``: those of ``plans`` without a staging manifest. The last lines of the output may not name all of
        them.
        """
        from winnow.pipeline.compaction.failures import judge_failure

        reported = outcome.failures.keys() - outcome.silent
        told: dict[str, str] = {}
        left: set[str] = set()
        for plan in plans:
            if plan.plan_id not in reported:
                continue
            with topics.attempt(plan.topic):
                judged = judge_failure(ctx, plan, outcome.failures[plan.plan_id], attempt)
                if judged.left is not None:
                    topics.leave(judged.left)
                    left.add(plan.plan_id)
                elif judged.marked is not None:
                    self.log.error("%s", judged.marked)
                    told[plan.plan_id] = str(judged.marked)
        if reported and left >= reported | {plan.plan_id for plan in missing}:
            return
        failing = [plan for plan in plans if plan.plan_id not in left]
        topics.errors.append((build_label([plan.topic for plan in failing]), build_failure(outcome, failing, told)))

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return what was read of which table; the OpenLineage provider calls it when installed and enabled."""
        return lineage.build_facets(lineage.COMPACTED, task_instance)

    def _close_pipe(self) -> None:
        # The hook does not close the output of spark-submit.
        process = getattr(self._hook, "_submit_sp", None)
        if process is not None and process.stdout is not None:
            process.stdout.close()

    def _note_staged(self, ctx: Pipeline, plan: PlanReference, started_ms: int) -> bool:
        from winnow.pipeline.compaction.stage import end_attempt

        attempt = next(list_staged_attempts(plan.uri, self.batch["attempt"]), None)
        if attempt is None:
            return False
        end_attempt(ctx, plan, attempt, started_ms=started_ms)
        return True


def _drop_refused(
    topics: TopicAttempts, plans: Sequence[PlanReference], refused: Mapping[str, PlanFailure]
) -> list[PlanReference]:
    """Return those of ``plans`` that may be carried out; record for the other topics why not."""
    for plan in plans:
        with topics.attempt(plan.topic, plan.plan_id):
            if plan.plan_id in refused:
                failure = refused[plan.plan_id]
                raise _ERROR_BY_EXIT_CODE.get(failure.exit_code, WinnowError)(f"{failure.error}.")
    return [plan for plan in plans if plan.plan_id not in refused]


def list_pending_plans(ctx: Pipeline, batch: BatchRow) -> list[PlanReference]:
    """Return the plans of ``batch`` that need an attempt.

    Plans are left out when they are published, possibly published, or staged and not validated yet.
    """
    from winnow.planning.plans import PlanReference

    found = []
    for row in batch["plans"]:
        run = ctx.store.runs.find(row["plan_id"])
        done = run is not None and run.status.may_be_published
        newest = next(list_staged_attempts(row["uri"], batch["attempt"]), None)
        unjudged = newest is not None and ctx.store.verdicts.find(row["plan_id"], newest) is None
        if not done and not unjudged:
            found.append(PlanReference(**row))
    return found


def _build_driver_environment(settings: Settings) -> dict[str, str] | None:
    """Build the driver's environment from this machine when it runs here; elsewhere its image defines it."""
    from winnow.embedded.java import check_spark_install, find_java, is_local, make_spark_environment

    master = settings.spark.master
    if not is_local(master) and not master.startswith("spark://"):
        return None
    check_spark_install()
    wanted = make_spark_environment(os.environ, find_java(os.environ, settings.home / "java"), master=master)
    return {name: value for name, value in wanted.items() if os.environ.get(name) != value}


def read_outcome(output: str, plans: Sequence[PlanReference]) -> JobOutcome:
    """Parse the hook's exception for ``plans``: its text holds the exit code and the last lines of the job."""
    from winnow.pipeline.compaction.spark_submit import JobOutput

    read = JobOutput([plan.plan_id for plan in plans])
    for line in output.splitlines():
        read.read_line(line)
    exit_code = _EXIT_CODE.search(output)
    return read.end(int(exit_code[1]) if exit_code else None)


def build_failure(
    outcome: JobOutcome, plans: Sequence[PlanReference], told: Mapping[str, str] | None = None
) -> WinnowError:
    """Build the error of the failed ``plans``: what the job reported of them, or that Spark ended before a report.

    ``told``: per plan id a full sentence with more detail than the job's own: what was marked, what to do.
    """
    told = told or {}
    failures = {p.plan_id: outcome.failures[p.plan_id] for p in plans if p.plan_id in outcome.failures}
    reported = {plan_id: failure for plan_id, failure in failures.items() if plan_id not in outcome.silent}
    topics = ", ".join(plan.topic for plan in plans)
    if not reported:
        return ServiceError(
            f"The Spark application for {topics} ended {outcome.ending} before it finished; the lines above say why. "
            "Nothing of it was published. It is tried again."
        )
    sentences = list(told.values())
    # A failure of the application itself is one failure of all its plans.
    said = dict.fromkeys(failure.error.rstrip(".") for plan_id, failure in reported.items() if plan_id not in told)
    if said:
        sentences.append(f"Not all of {topics} was compacted: {'; '.join(said)}. Nothing of it was published.")
    worst = find_worst_exit_code([failure.exit_code for failure in reported.values()])
    return _ERROR_BY_EXIT_CODE.get(worst, WinnowError)("\n".join(sentences))
