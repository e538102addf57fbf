"""Carries out ingest plans without a JVM: the same tasks and documents, in process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from winnow.arrivals.run_task import read_task_secret, run_ingest_task
from winnow.arrivals.spool import Progress
from winnow.engine.ingest import build_units
from winnow.engine.ingest_documents import read_ingest_plan, read_ingest_result, write_ingest_plan, write_ingest_result
from winnow.errors import WinnowError
from winnow.files import storage
from winnow.pipeline.installation import Installation
from winnow.values import documents
from winnow.values.ingest_plans import IngestPlan, IngestResult


def carry_out_in_process(
    installation: Installation, plan: IngestPlan, progress: Progress | None, secret: bytes | None = None
) -> IngestResult:
    """Stands where spark-submit is started; nobody follows the progress."""
    del progress
    planned = read_ingest_plan(*write_ingest_plan(plan))
    folder = storage.join(plan.folder, "app-1", "t0")
    results = []
    for unit in build_units("", planned):
        assert unit.ingest is not None
        part = documents.load_json(IngestPlan, documents.dump_json(unit.ingest))
        results.append(run_ingest_task(part, unit.number, folder, installation.budget, erase_secret=secret))
    outcome = write_ingest_result(plan, "app-1", results)
    assert outcome.sha256 is not None
    return read_ingest_result(plan, "app-1", outcome.sha256)


def carry_out_plans_in_process(
    installation: Installation, plans: Sequence[IngestPlan], progress: Progress | None, options: Sequence[str] = ()
) -> dict[str, IngestResult | WinnowError]:
    """Stands where one spark-submit is started for several plans."""
    option = "--erase-secret"
    secret = read_task_secret(Path(options[options.index(option) + 1]) if option in options else None)
    return {plan.plan_id: carry_out_in_process(installation, plan, progress, secret) for plan in plans}
