"""Run routes: lists of runs, one run with its receipt, and verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import MISSING, fields

from fastapi import APIRouter, HTTPException

from winnow.report.evidence import find_page_path
from winnow.store.rows import RunView
from winnow.values.model import AIRFLOW_HOLDER
from winnow.values.results import PartitionReceipt, RunFigures, Verdict, sum_figures
from winnow_airflow.page.access import may_view
from winnow_airflow.page.dependencies import InstallationDep, RunFilterDep, ShownInstallation, WindowDep
from winnow_airflow.page.responses import Document, describe, describe_page

router = APIRouter(prefix="/api", dependencies=[may_view])


@router.get("/runs")
def list_runs(
    installation: InstallationDep,
    window: WindowDep,
    only: RunFilterDep,
) -> Document:
    """Return a page of runs, the latest activity first."""
    found = installation.store.run_history.list_runs(window, **only)
    return describe_page("runs", found, window, _describe_run)


@router.get("/topics/{topic}/runs")
def list_topic_runs(installation: InstallationDep, window: WindowDep, topic: str) -> Document:
    """Return a page of a topic's runs, the latest activity first."""
    return describe_page("runs", installation.store.run_history.list_runs(window, topic=topic), window, _describe_run)


@router.get("/runs/{plan_id}")
def get_run(installation: InstallationDep, plan_id: str) -> Document:
    """Return one run: its receipt and the verdicts on its attempts."""
    seen = installation.store.run_history.find_run(plan_id)
    if seen is None:
        raise HTTPException(
            404,
            f"There is no run of plan {plan_id}, or a sweep removed it. The page of a topic lists its runs.",
        )
    verdicts = [
        _describe_verdict(installation, each) for each in installation.store.run_history.list_verdicts_of_plan(plan_id)
    ]
    receipt = seen.receipt
    overview = installation.store.overview.find_recorded(seen.run.topic)
    own = find_page_path(receipt.data_docs) if receipt is not None else None
    parts = receipt.partitions if receipt is not None else ()
    return {
        **_describe_run(seen),
        "data_docs": own or next((each["data_docs"] for each in verdicts), None),
        "finished_at_ms": None if receipt is None else receipt.finished_at_ms,
        "table": None if overview is None else {"name": overview.table_name, "location": overview.location},
        "receipt_partitions": [_describe_part(part) for part in sorted(parts, key=lambda each: each.partition)],
        "verdicts": verdicts,
    }


@router.get("/topics/{topic}/verdicts")
def verdicts(installation: InstallationDep, window: WindowDep, topic: str) -> Document:
    """Return a page of a topic's verdicts, the newest first."""
    found = installation.store.run_history.list_verdicts(topic, window)
    return describe_page("verdicts", found, window, lambda verdict: _describe_verdict(installation, verdict))


def _describe_run(seen: RunView) -> Document:
    """Describe a run. ``totals`` None: it published nothing."""
    return {
        **describe(seen.run, without=("plan_uri", "plan_sha256", "fence", "found_empty_at_ms", "partitions_marked")),
        "dag_run": _parse_dag_run(seen.run.holder),
        "totals": None if seen.receipt is None else _sum_receipt(seen.receipt.partitions),
    }


def _parse_dag_run(holder: str | None) -> Document | None:
    if holder is None or not holder.startswith(AIRFLOW_HOLDER):
        return None
    dag_id, _, run_id = holder.removeprefix(AIRFLOW_HOLDER).partition(":")
    return {"dag_id": dag_id, "run_id": run_id}


def _sum_receipt(parts: Sequence[PartitionReceipt]) -> Document:
    """Sum up the figures that every receipt has, those of retention and the seconds."""
    return {
        **describe(sum_figures(parts), without=_OPTIONAL_FIGURES),
        "records_retired": sum(part.records_retired for part in parts),
        "bytes_retired": sum(part.bytes_retired for part in parts),
        "seconds": round(math.fsum(part.seconds for part in parts), 3),
    }


_OPTIONAL_FIGURES = tuple(each.name for each in fields(RunFigures) if each.default is not MISSING)


def _describe_part(part: PartitionReceipt) -> Document:
    """Describe what a run did to a partition. ``seconds`` None: the receipt is older than this measurement."""
    accounted = part.records_kept + part.records_superseded + part.tombstones_expired + part.records_keyless
    left_out = (
        *("malformed_offsets", "log_start_offset", "tombstones_expired_early", "offsets_cleaned_early"),
        *("cpu_seconds", "bytes_written"),
    )
    return {
        **describe(part, without=left_out),
        "balanced": part.records_in == accounted,
        "seconds": part.seconds or None,
    }


def _describe_verdict(installation: ShownInstallation, verdict: Verdict) -> Document:
    """Describe a verdict. ``data_docs``: a path below ``data-docs/``."""
    return {
        **describe(verdict, without=("manifest_digest", "plan_sha256")),
        "data_docs": find_page_path(verdict.data_docs),
    }
