"""Runs spark-submit for one batch of plans; settings are read when the task runs, not at parse time."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context

from winnow.errors import WinnowError
from winnow_airflow import lineage
from winnow_airflow.event_logging import log_pipeline_events
from winnow_airflow.older_airflow import AirflowException, AirflowFailException
from winnow_airflow.task_context import open_run_installation
from winnow_airflow.task_defaults import SPARK_CONNECTION
from winnow_airflow.tasks.topic_results import TaskResults
from winnow_airflow.xcom_values import BatchRow, list_staged_attempts, read_plan_row

if TYPE_CHECKING:
    from winnow.config.settings import Settings
    from winnow.pipeline.installation import Installation
    from winnow.pipeline.spark.progress import JobRecorder
    from winnow.pipeline.spark.submit import JobOutcome, JobOutput
    from winnow.planning.plans import PlanReference


_WAIT_FOR_NO_EARLIER_DRIVER: dict[str, Any] = (
    {"durable": False} if "durable" in inspect.signature(SparkSubmitOperator.__init__).parameters else {}
)
"""A retry is an attempt of its own: to wait for the driver of an earlier one would leave it without files.

Versions of the provider without this argument never wait.
"""


class CompactOperator(SparkSubmitOperator):
    """Carries out the plans of one batch in one Spark application, as an attempt named after the try.

    A second execution writes a new attempt beside the old one and reopens a closed run; publishing checks whether the
    log moved meanwhile. Plans are skipped when they are published, possibly published, or staged and not validated yet.
    """

    _file_of: Callable[[Mapping[str, str]], list[str]] | None = None
    _output: JobOutput | None = None
    _recorder: JobRecorder | None = None

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "batch")

    def __init__(self, *, batch: Any, **arguments: Any) -> None:
        super().__init__(conn_id=SPARK_CONNECTION, **_WAIT_FOR_NO_EARLIER_DRIVER, **arguments)
        self.batch = batch

    def execute(self, context: Context) -> None:
        """Submit and wait. Skips topics that another run holds.

        Raises:
            AirflowFailException: the topics of the batch could not be planned.
            AirflowSkipException: other runs hold all topics of the batch.
            WinnowError: the class that belongs to the job's exit code.
        """
        from winnow.pipeline.compaction.batch import stage_plans
        from winnow.pipeline.compaction.open_runs import lock_for_plan, reopen_run
        from winnow.pipeline.topics.leases import renew_leases

        batch: BatchRow = self.batch
        labelled: Any = context
        labelled["label"] = batch["label"]
        error = batch.get("error")
        if error:
            raise AirflowFailException(error)
        attempt = f"{batch['attempt']}-{context['ti'].try_number}"
        with open_run_installation(context) as installation, log_pipeline_events(installation):
            results = TaskResults(installation)
            plans: list[PlanReference] = []
            # Spark may run longer than a lease lasts; the report releases the topics.
            with renew_leases(installation) as leases:
                for plan in list_pending_plans(installation, batch):
                    with results.collect(plan.topic, plan.plan_id, attempt):
                        leases.add(lock_for_plan(installation, plan))
                        reopen_run(installation, plan, attempt)
                        plans.append(plan)
                if not plans and not results.failures:
                    self.log.info("Every plan of this batch is staged or published already; Spark is not needed.")
                    return
                staged = stage_plans(
                    installation,
                    plans,
                    attempt,
                    results,
                    lambda reading: self._submit_recorded(installation, reading, attempt, context),
                )
            results.close(staged, nothing="Nothing of this batch was staged.")

    def _submit_recorded(
        self, installation: Installation, plans: Sequence[PlanReference], attempt: str, context: Context
    ) -> JobOutcome:
        """Run Spark on ``plans``, and record how far it is for the page."""
        from winnow.pipeline.spark.progress import AirflowTask, record_progress

        ti = context["ti"]
        index = -1 if ti.map_index is None else ti.map_index
        task = AirflowTask(ti.dag_id, ti.run_id, ti.task_id, index, ti.try_number)
        with record_progress(installation, plans, attempt, task) as recorder:
            self._recorder = recorder
            try:
                outcome = self._submit(installation, plans, attempt, context)
            finally:
                self._recorder = None
            recorder.end(outcome)
        return outcome

    def _submit(
        self, installation: Installation, plans: Sequence[PlanReference], attempt: str, context: Context
    ) -> JobOutcome:
        """Run Spark on ``plans`` through the provider's operator, and wait for it."""
        from winnow.pipeline.compaction.stage import JOB_NAME, build_job_arguments
        from winnow.pipeline.spark.submit import (
            JobOutput,
            build_spark_conf,
            find_job_file,
            open_properties_file,
        )

        self._output = JobOutput([plan.plan_id for plan in plans])
        try:
            self.conf = build_spark_conf(installation.settings)
            self.name = f"winnow {attempt}"
            self.env_vars = _build_driver_environment(installation.settings)
            self.application = find_job_file(JOB_NAME)
            self.application_args = build_job_arguments(installation.settings, plans, attempt)
            with ExitStack() as files:
                # Read when the command line is built: lineage may have added properties by then.
                self._file_of = lambda conf: files.enter_context(open_properties_file(installation.settings, conf))
                super().execute(context)
        except AirflowException:
            return self._output.end(self._find_exit_code())
        except WinnowError:
            raise
        except Exception:
            self.log.exception("Spark could not be started.")  # the error that comes of it names only the type
            raise
        finally:
            self._close_pipe()
        return self._output.end(0)

    def _get_hook(self) -> SparkSubmitHook:
        """Return the provider's hook with two changes.

        The properties go through a file: a command line is logged and public on the host. And each line of the output
        is read as the shell reads it.
        """
        if self._file_of is None:
            return super()._get_hook()
        options = self._file_of(self.conf or {})
        self.conf = {}
        hook = super()._get_hook()
        build_command, process_log = hook._build_spark_submit_command, hook._process_spark_submit_log

        def build_with_options(application: str) -> list[str]:
            command = build_command(application)
            place = command.index(application)
            return [*command[:place], *options, *command[place:]]

        # Of all its methods, these two are in every version of the provider from 5.3.4 on, which Spark 3.5 needs.
        vars(hook)["_build_spark_submit_command"] = build_with_options
        vars(hook)["_process_spark_submit_log"] = lambda lines: process_log(self._read_lines(lines))
        return hook

    def _read_lines(self, lines: Iterator[str]) -> Iterator[str]:
        for line in lines:
            event = None if self._output is None else self._output.read_line(line)
            if event is not None and self._recorder is not None:
                self._recorder.observe(event)
            yield line

    def _find_exit_code(self) -> int | None:
        """Return the exit code of a failed spark-submit; None if its driver, on another machine, failed instead."""
        process = getattr(self._hook, "_submit_sp", None)
        return None if process is None else process.returncode or None

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return what was read of which table; the OpenLineage provider calls it when installed and enabled."""
        return lineage.build_facets(lineage.COMPACTED, task_instance)

    def _close_pipe(self) -> None:
        # The hook does not close the output of spark-submit.
        process = getattr(self._hook, "_submit_sp", None)
        if process is not None and process.stdout is not None:
            process.stdout.close()


def list_pending_plans(installation: Installation, batch: BatchRow) -> list[PlanReference]:
    """Return the plans of ``batch`` that need an attempt.

    Plans are left out when they are published, possibly published, or staged and not validated yet.
    """
    found = []
    for row in batch["plans"]:
        run = installation.store.runs.find(row["plan_id"])
        done = run is not None and run.status.may_be_published
        newest = next(list_staged_attempts(row["uri"], batch["attempt"]), None)
        unjudged = newest is not None and installation.store.verdicts.find(row["plan_id"], newest) is None
        if not done and not unjudged:
            found.append(read_plan_row(row))
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
