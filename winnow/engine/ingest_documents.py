"""Plans and results of distributed ingests as JSON documents, beside the files that they are about."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace

from winnow.engine.events import PlanOutcome
from winnow.errors import PlanVoidError, WinnowError
from winnow.files import storage
from winnow.values import documents
from winnow.values.ingest_plans import IngestPlan, IngestResult, RangeFailure, RangeResult


def compute_ingest_plan_id(plan: IngestPlan) -> str:
    """Compute the id of ``plan``: 32 hex digits of the sha256 over everything else in it."""
    return documents.compute_digest(replace(plan, plan_id=""))[:32]


def write_ingest_plan(plan: IngestPlan) -> tuple[str, str]:
    """Write ``plan`` beside its files; return its URI and the sha256 of its bytes."""
    data = documents.dump_json(plan)
    uri = storage.join(plan.folder, f"plan-{plan.plan_id}.json")
    storage.write_bytes(uri, data, below=plan.table_location)
    return uri, hashlib.sha256(data).hexdigest()


def read_ingest_plan(uri: str, sha256: str | None) -> IngestPlan:
    """Read the plan at ``uri`` and check that it is the one that was written.

    Raises:
        PlanVoidError: the document was replaced or changed.
        WinnowError: it is missing or damaged.
    """
    try:
        data = storage.read_bytes(uri)
    except FileNotFoundError:
        raise WinnowError(
            f"There is no ingest plan at {uri}.",
            left="Nothing landed; ingest again.",
        ) from None
    plan = documents.load_json(IngestPlan, data)
    wrong_bytes = sha256 is not None and hashlib.sha256(data).hexdigest() != sha256
    if wrong_bytes or plan.plan_id != compute_ingest_plan_id(plan):
        raise PlanVoidError(
            f"The ingest plan at {uri} is not the one that was written.",
            left="Nothing landed; ingest again.",
        )
    return plan


def read_ingest_result(plan: IngestPlan, application: str, sha256: str) -> IngestResult:
    """Read what ``application`` made of ``plan``; ``sha256``: of the document, as the application reported it.

    Raises:
        WinnowError: it is missing, damaged, or another one.
    """
    uri = locate_ingest_result(plan, application)
    try:
        data = storage.read_bytes(uri)
    except FileNotFoundError:
        data = b""
    if hashlib.sha256(data).hexdigest() != sha256:
        raise WinnowError(
            f"The result at {uri} is not the one that its application wrote.",
            left="Nothing landed; run again.",
        )
    return documents.load_json(IngestResult, data)


def locate_ingest_result(plan: IngestPlan, application: str) -> str:
    """Return the URI of the result of one application."""
    return storage.join(plan.folder, application, f"result-{plan.plan_id}.json")


def write_ingest_result(
    plan: IngestPlan, application: str, results: Iterable[RangeResult | RangeFailure]
) -> PlanOutcome:
    """Write what an application's tasks reported; return its outcome, which names the application."""
    ordered = sorted(results, key=lambda each: each.number)
    result = IngestResult(
        plan.plan_id,
        application,
        tuple(each for each in ordered if isinstance(each, RangeResult)),
        tuple(each for each in ordered if isinstance(each, RangeFailure)),
    )
    data = documents.dump_json(result)
    storage.write_bytes(locate_ingest_result(plan, application), data, below=plan.table_location)
    return PlanOutcome(plan.topic, plan.plan_id, application, sha256=hashlib.sha256(data).hexdigest())
