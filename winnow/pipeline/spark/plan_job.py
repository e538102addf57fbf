"""Has one plan carried out by one Spark application, which leaves one result; both documents are removed again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from winnow.config.settings import Settings
from winnow.engine.events import PlanFailure
from winnow.engine.job_documents import locate_job_plan, locate_job_result, read_job_document, write_job_document
from winnow.engine.job_notes import JobNote, end_job, write_job_note
from winnow.engine.staging import format_plan_argument
from winnow.errors import Explanation, ServiceError
from winnow.pipeline.spark.submit import Progress, build_engine_arguments, find_job_file, run_job
from winnow.planning.plans import PlanReference

Result = TypeVar("Result")


class JobPlan(Protocol):
    """A plan. ``plan_id``: of nothing else."""

    @property
    def plan_id(self) -> str:
        """Its id."""


def run_plan_job(
    settings: Settings,
    note: JobNote,
    plan: JobPlan,
    result: type[Result],
    *,
    title: str,
    units: int,
    size_bytes: int,
    options: Sequence[str] = (),
    progress: Progress | None = None,
) -> Result | PlanFailure:
    """Run a program of jobs/ for ``plan``; return the result that it wrote, or why there is none.

    ``note``: of the plan; it names program and topic, and stays while there are staged files. ``title``: the
    application's name. ``units``, ``size_bytes``: what it has to do. ``options``: more arguments.

    Raises:
        ConfigurationError: no Java, or a mixed Spark installation.
        PlanVoidError, WinnowError: the result is not the one that was written.
    """
    uri = locate_job_plan(settings.staging, note.job, plan.plan_id)
    write_job_note(settings.staging, note)
    try:
        sha256 = write_job_document(uri, plan)
        reference = PlanReference("", plan.plan_id, uri, units, size_bytes, None, sha256)
        job = [find_job_file(note.job), *build_engine_arguments(settings), *options, format_plan_argument(uri, sha256)]
        done = run_job(settings, job, name=title, plans=[reference], progress=progress)
        failure = done.failures.get(plan.plan_id)
        if failure is not None:
            return failure
        if plan.plan_id not in done.digests:
            return PlanFailure(Explanation("the Spark application reported no result"), ServiceError.exit_code)
        return read_job_document(result, locate_job_result(uri), done.digests[plan.plan_id])
    finally:
        end_job(settings.staging, note)
