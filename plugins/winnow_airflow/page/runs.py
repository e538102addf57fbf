"""Run routes: lists of runs, one run with its receipt, and verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query

from winnow.results import PartitionReceipt, Receipt, Verdict, extract_figures
from winnow.store import RunState
from winnow.store.overview_history import AIRFLOW
from winnow.store.values import Listed, RunView, Window
from winnow_airflow.page.access import may_view
from winnow_airflow.page.data_docs import find_page
from winnow_airflow.page.dependencies import Lake, LakeDep, WindowDep
from winnow_airflow.page.responses import (
    DagRun,
    FailureRow,
    ReceiptPartition,
    RunDetail,
    RunPage,
    RunRow,
    Table,
    Totals,
    VerdictPage,
    VerdictRow,
)

router = APIRouter(prefix="/api", dependencies=[may_view])
Status = Annotated[RunState | None, Query()]


@router.get("/runs")
def list_runs(
    lake: LakeDep,
    window: WindowDep,
    topic: str | None = None,
    status: Status = None,
    dag_id: str | None = None,
    dag_run_id: str | None = None,
) -> RunPage:
    """Return a page of runs, the latest activity first."""
    found = lake.store.run_history.list_runs(window, topic=topic, status=status, dag_id=dag_id, dag_run_id=dag_run_id)
    return _build_runs(found, window)


@router.get("/topics/{topic}/runs")
def list_topic_runs(lake: LakeDep, window: WindowDep, topic: str) -> RunPage:
    """Return a page of a topic's runs, the latest activity first."""
    return _build_runs(lake.store.run_history.list_runs(window, topic=topic), window)


@router.get("/runs/{plan_id}")
def get_run(lake: LakeDep, plan_id: str) -> RunDetail:
    """Return one run: its receipt and the verdicts on its attempts."""
    seen = lake.store.run_history.find_run(plan_id)
    if seen is None:
        raise HTTPException(
            404,
            f"There is no run of plan {plan_id}, or its history was removed. See the runs of a topic on its page.",
        )
    verdicts = [_build_verdict_row(lake, each) for each in lake.store.run_history.list_verdicts_of_plan(plan_id)]
    receipt = seen.receipt
    picture = lake.store.overview.find_recorded(seen.run.topic)
    own = find_page(lake.settings, receipt.data_docs) if receipt is not None else None
    return RunDetail(
        **dict(_build_run_row(seen)),
        data_docs=own or next((each.data_docs for each in verdicts), None),
        finished_at_ms=None if receipt is None else receipt.finished_at_ms,
        table=None if picture is None else Table(name=picture.table_name, location=picture.location),
        receipt_partitions=[
            _build_receipt_partition(part) for part in sorted(_list_parts(receipt), key=lambda each: each.partition)
        ],
        verdicts=verdicts,
    )


@router.get("/topics/{topic}/verdicts")
def verdicts(lake: LakeDep, window: WindowDep, topic: str) -> VerdictPage:
    """Return a page of a topic's verdicts, the newest first."""
    found = lake.store.run_history.list_verdicts(topic, window)
    rows = [_build_verdict_row(lake, each) for each in found.rows]
    return VerdictPage(total=found.total, page=window.number, size=window.size, verdicts=rows)


def _build_runs(found: Listed[RunView], window: Window) -> RunPage:
    rows = [_build_run_row(each) for each in found.rows]
    return RunPage(total=found.total, page=window.number, size=window.size, runs=rows)


def _list_parts(receipt: Receipt | None) -> Sequence[PartitionReceipt]:
    return receipt.partitions if receipt is not None else ()


def _build_run_row(seen: RunView) -> RunRow:
    found = seen.run
    return RunRow(
        plan_id=found.plan_id,
        topic=found.topic,
        status=found.status.value,
        attempt=found.attempt,
        as_of_ms=found.as_of_ms,
        opened_at_ms=found.opened_at_ms,
        updated_at_ms=found.updated_at_ms,
        message=found.message,
        dag_run=_parse_dag_run(found.holder),
        holder=found.holder,
        snapshot_id=None if found.snapshot_id is None else str(found.snapshot_id),
        totals=None if seen.receipt is None else _sum_receipt(seen.receipt.partitions),
    )


def _parse_dag_run(holder: str | None) -> DagRun | None:
    if holder is None or not holder.startswith(AIRFLOW):
        return None
    dag_id, _, run_id = holder.removeprefix(AIRFLOW).partition(":")
    return DagRun(dag_id=dag_id, run_id=run_id)


def _sum_receipt(parts: Sequence[PartitionReceipt]) -> Totals:
    counted: dict[str, Any] = {
        name: sum(getattr(part, name) for part in parts) for name in Totals.model_fields if name != "seconds"
    }
    return Totals(**counted, seconds=round(math.fsum(part.seconds for part in parts), 3))


def _build_receipt_partition(part: PartitionReceipt) -> ReceiptPartition:
    accounted = part.records_kept + part.records_superseded + part.tombstones_expired + part.records_keyless
    figures: dict[str, Any] = {k: value for k, value in extract_figures(part).items() if isinstance(value, int)}
    return ReceiptPartition(
        **figures,
        partition=part.partition,
        reason=None if part.reason is None else part.reason.value,
        first_dirty_offset=str(part.first_dirty_offset),
        next_first_dirty_offset=str(part.next_first_dirty_offset),
        records_retired=part.records_retired,
        balanced=part.records_in == accounted,
        bytes_retired=part.bytes_retired,
        expected_records_kept=part.expected_records_kept,
        expected_bytes_out=part.expected_bytes_out,
        seconds=part.seconds or None,
    )


def _build_verdict_row(lake: Lake, verdict: Verdict) -> VerdictRow:
    return VerdictRow(
        plan_id=verdict.plan_id,
        attempt=verdict.attempt,
        topic=verdict.topic,
        passed=verdict.passed,
        broken=verdict.broken,
        checked_at_ms=verdict.checked_at_ms,
        expectations=verdict.expectations,
        data_docs=find_page(lake.settings, verdict.data_docs),
        failures=[
            FailureRow(
                expectation=each.expectation,
                severity=each.severity.value,
                partition=each.partition,
                detail=each.detail,
            )
            for each in verdict.failures
        ],
    )
