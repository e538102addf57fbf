"""spark-submit of one batch. Arguments are references; settings are read when the task runs, not when it is parsed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from winnow.errors import BadInputError, RunAgainError, ServiceError, UsageError, ValidationFailedError, WinnowError
from winnow_airflow.policy import SPARK_CONNECTION
from winnow_airflow.references import BatchRow, attempts, holder_of

if TYPE_CHECKING:
    from winnow.config.settings import Settings
    from winnow.engine.events import PlanFailure
    from winnow.pipeline.context import Context as Pipeline
    from winnow.planning import PlanReference

_KINDS: dict[int, type[WinnowError]] = {
    kind.exit_code: kind for kind in (UsageError, BadInputError, ValidationFailedError, RunAgainError, ServiceError)
}
_EXIT_CODE = re.compile(r"Error code is: (\d+)")


class CompactOperator(SparkSubmitOperator):
    """Carries out the plans of one batch in one Spark application, as an attempt named after the try.

    Running it again writes a new attempt beside the old one and opens a run that was closed again: whether the log
    moved meanwhile is checked when it is published. Plans that are published, may be, or are staged and not judged yet
    are left out.
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "batch")

    def __init__(self, *, batch: Any, **arguments: Any) -> None:
        super().__init__(conn_id=SPARK_CONNECTION, **arguments)
        self.batch = batch

    def execute(self, context: Context) -> None:
        """Submit and wait.

        Raises:
            AirflowFailException: the topic of the batch could not be planned.
            WinnowError: of the kind that the job's exit code says.
        """
        from winnow.config.settings import load_settings
        from winnow.pipeline.context import open_context
        from winnow.pipeline.leases import acquire, renewing

        batch: BatchRow = self.batch
        if batch["error"]:
            raise AirflowFailException(batch["error"])
        settings = load_settings()
        attempt = f"{batch['attempt']}-{context['ti'].try_number}"
        with open_context(settings, holder=holder_of(context)) as ctx:
            plans = pending(ctx, batch)
            if not plans:
                self.log.info("Every plan of this batch is staged or published already; Spark is not needed.")
                return
            # Spark may take longer than a lease lasts; the report gives the topics back.
            with renewing(ctx, [acquire(ctx, plan.topic) for plan in plans]):
                self._submit(ctx, plans, attempt, context)

    def _submit(self, ctx: Pipeline, plans: Sequence[PlanReference], attempt: str, context: Context) -> None:
        from winnow.pipeline.compact import JOB, spark_arguments, stage_unread
        from winnow.pipeline.spark_process import job_file, spark_conf
        from winnow.store import RunState

        self.conf = spark_conf(ctx.settings)
        self.name = f"winnow {attempt}"
        self.env_vars = _driver_environment(ctx.settings)
        for plan in plans:
            open_again(ctx, plan, attempt)
            ctx.store.set_run_state(plan.plan_id, RunState.COMPACTING, ctx.now_ms(), attempt=attempt)
        reading = stage_unread(ctx, plans, attempt)
        self.application = job_file(JOB)
        self.application_args = spark_arguments(ctx.settings, reading, attempt)
        try:
            if reading:
                super().execute(context)
            else:
                self.log.info("Retention alone: nothing is read, so Spark is not needed.")
        except AirflowException as problem:
            raise self._mark(ctx, str(problem), plans, attempt) from None
        finally:
            self._close_pipe()
            unstaged = [plan.topic for plan in plans if not self._note_staged(ctx, plan)]
        if unstaged:
            raise ServiceError(
                f"The Spark application ended well but left no staging manifest for {', '.join(unstaged)}, so those "
                "files do not count. Nothing of it was published. It is tried again."
            )

    def _mark(self, ctx: Pipeline, output: str, plans: Sequence[PlanReference], attempt: str) -> WinnowError:
        """Mark the partitions that the job's last lines speak against; the error to end with."""
        from winnow.pipeline.uncleanable import condemn

        failures = failures_in(output)
        told = {}
        for plan in plans:
            failure = failures.get(plan.plan_id)
            condemned = condemn(ctx, plan, failure, attempt) if failure is not None else None
            if condemned is not None:
                self.log.error("%s", condemned)
                told[plan.plan_id] = str(condemned)
        return failure_of(output, plans, told)

    def _close_pipe(self) -> None:
        # The hook leaves the output of spark-submit open.
        process = getattr(self._hook, "_submit_sp", None)
        if process is not None and process.stdout is not None:
            process.stdout.close()

    def _note_staged(self, ctx: Pipeline, plan: PlanReference) -> bool:
        from winnow.store import RunState

        attempt = next(attempts(plan.uri, self.batch["attempt"]), None)
        if attempt is None:
            return False
        ctx.store.set_run_state(plan.plan_id, RunState.STAGED, ctx.now_ms(), attempt=attempt)
        return True


def pending(ctx: Pipeline, batch: BatchRow) -> list[PlanReference]:
    """The plans of ``batch`` that want an attempt: neither published, nor maybe so, nor staged and not judged."""
    from winnow.planning import PlanReference
    from winnow.store import RunState

    found = []
    for row in batch["plans"]:
        run = ctx.store.run(row["plan_id"])
        done = run is not None and run.status in {RunState.PUBLISHED, RunState.PUBLISHING, RunState.UNKNOWN}
        newest = next(attempts(row["uri"], batch["attempt"]), None)
        unjudged = newest is not None and ctx.store.verdict(row["plan_id"], newest) is None
        if not done and not unjudged:
            found.append(PlanReference(**row))
    return found


def open_again(ctx: Pipeline, plan: PlanReference, attempt: str) -> None:
    """Open the run of ``plan`` if it was closed: whoever clears its Spark task wants another attempt."""
    run = ctx.store.run(plan.plan_id)
    if run is not None and run.status.is_closed:
        ctx.store.open_run(
            plan.plan_id,
            plan.topic,
            attempt=attempt,
            as_of_ms=run.as_of_ms,
            plan_uri=plan.uri,
            now_ms=ctx.now_ms(),
            holder=ctx.holder,
        )


def _driver_environment(settings: Settings) -> dict[str, str] | None:
    """What the driver needs of this machine where it runs on this machine; elsewhere its image knows better."""
    from winnow.java import check_spark_install, find_java, is_local, spark_environment

    master = settings.spark.master
    if not is_local(master) and not master.startswith("spark://"):
        return None
    check_spark_install()
    wanted = spark_environment(os.environ, find_java(os.environ, settings.home / "java"), master=master)
    return {name: value for name, value in wanted.items() if os.environ.get(name) != value}


def failures_in(output: str) -> dict[str, PlanFailure]:
    """Per plan id the failure that the job reported in the last lines of ``output``."""
    from winnow.engine.events import failure_in, parse_event

    found = {}
    for event in filter(None, map(parse_event, output.splitlines())):
        failure = failure_in(event)
        if failure is not None and "plan_id" in event:
            found[event["plan_id"]] = failure
    return found


def failure_of(output: str, plans: Sequence[PlanReference], told: Mapping[str, str] | None = None) -> WinnowError:
    """The error that the job reported in the last lines of ``output``; that Spark ended, where it reported none.

    ``told``: per plan id a whole sentence that says more than the job's own words: what was marked, what to do.
    """
    from winnow.engine.events import failure_in, parse_event, worst

    said: list[str] = []
    codes: list[int] = []
    for event in filter(None, map(parse_event, output.splitlines())):
        failure = failure_in(event)
        if failure is not None:
            codes.append(failure.exit_code)
            if event.get("plan_id") not in (told or {}):
                said.append(failure.error.rstrip("."))
    topics = ", ".join(plan.topic for plan in plans)
    if codes:
        sentences = list((told or {}).values())
        if said:
            sentences.append(f"Not all of {topics} was compacted: {'; '.join(said)}. Nothing of it was published.")
        return _KINDS.get(worst(codes), WinnowError)("\n".join(sentences))
    exit_code = _EXIT_CODE.search(output)
    ending = f"with exit code {exit_code[1]}" if exit_code else "without an exit code"
    return ServiceError(
        f"The Spark application for {topics} ended {ending} before it finished; the lines above say why. Nothing of it "
        "was published. It is tried again."
    )
