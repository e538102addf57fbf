"""Runs, of one topic or of all, and one run with its evidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query

from winnow.model import PartitionReceipt, Receipt, Verdict
from winnow.store import RunState
from winnow.store.overview_runs import AIRFLOW
from winnow.store.overview_values import Listed, RunSeen, Window
from winnow_airflow.page.access import may_view
from winnow_airflow.page.data_docs import page_of
from winnow_airflow.page.documents import (
    DagRun,
    FailureRow,
    ReceiptPartition,
    Run,
    RunRow,
    Runs,
    Table,
    Totals,
    VerdictRow,
    Verdicts,
)
from winnow_airflow.page.lake import Lake, LakeDep, WindowDep

router = APIRouter(prefix="/api", dependencies=[may_view])
Status = Annotated[RunState | None, Query()]


@router.get("/runs")
def runs(
    lake: LakeDep,
    window: WindowDep,
    topic: str | None = None,
    status: Status = None,
    dag_id: str | None = None,
    dag_run_id: str | None = None,
) -> Runs:
    """A page of runs, the one that moved last first."""
    found = lake.store.run_history.list_runs(window, topic=topic, status=status, dag_id=dag_id, dag_run_id=dag_run_id)
    return _runs(found, window)


@router.get("/topics/{topic}/runs")
def topic_runs(lake: LakeDep, window: WindowDep, topic: str) -> Runs:
    """A page of a topic's runs, the one that moved last first."""
    return _runs(lake.store.run_history.list_runs(window, topic=topic), window)


@router.get("/runs/{plan_id}")
def run(lake: LakeDep, plan_id: str) -> Run:
    """One run: its receipt, and what validation said of its attempts."""
    seen = lake.store.run_history.find_run(plan_id)
    if seen is None:
        raise HTTPException(
            404,
            f"There is no run of plan {plan_id}, or its history was removed. See the runs of a topic on its page.",
        )
    verdicts = [_verdict(lake, each) for each in lake.store.run_history.list_verdicts_of_plan(plan_id)]
    receipt = seen.receipt
    picture = lake.store.overview.find_recorded(seen.run.topic)
    own = page_of(lake.settings, receipt.data_docs) if receipt is not None else None
    return Run(
        **dict(_run(seen)),
        data_docs=own or next((each.data_docs for each in verdicts), None),
        finished_at_ms=None if receipt is None else receipt.finished_at_ms,
        table=None if picture is None else Table(name=picture.table_name, location=picture.location),
        receipt_partitions=[_partition(part) for part in sorted(_parts(receipt), key=lambda each: each.partition)],
        verdicts=verdicts,
    )


@router.get("/topics/{topic}/verdicts")
def verdicts(lake: LakeDep, window: WindowDep, topic: str) -> Verdicts:
    """A page of a topic's verdicts, the newest first."""
    found = lake.store.run_history.list_verdicts(topic, window)
    rows = [_verdict(lake, each) for each in found.rows]
    return Verdicts(total=found.total, page=window.number, size=window.size, verdicts=rows)


def _runs(found: Listed[RunSeen], window: Window) -> Runs:
    rows = [_run(each) for each in found.rows]
    return Runs(total=found.total, page=window.number, size=window.size, runs=rows)


def _parts(receipt: Receipt | None) -> Sequence[PartitionReceipt]:
    return receipt.partitions if receipt is not None else ()


def _run(seen: RunSeen) -> RunRow:
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
        dag_run=_dag_run(found.holder),
        holder=found.holder,
        snapshot_id=None if found.snapshot_id is None else str(found.snapshot_id),
        totals=None if seen.receipt is None else _totals(seen.receipt.partitions),
    )


def _dag_run(holder: str | None) -> DagRun | None:
    if holder is None or not holder.startswith(AIRFLOW):
        return None
    dag_id, _, run_id = holder.removeprefix(AIRFLOW).partition(":")
    return DagRun(dag_id=dag_id, run_id=run_id)


def _totals(parts: Sequence[PartitionReceipt]) -> Totals:
    return Totals(
        records_in=sum(part.records_in for part in parts),
        records_kept=sum(part.records_kept for part in parts),
        records_superseded=sum(part.records_superseded for part in parts),
        tombstones_expired=sum(part.tombstones_expired for part in parts),
        records_keyless=sum(part.records_keyless for part in parts),
        records_retired=sum(part.records_retired for part in parts),
        bytes_in=sum(part.bytes_in for part in parts),
        bytes_out=sum(part.bytes_out for part in parts),
        bytes_retired=sum(part.bytes_retired for part in parts),
        seconds=round(math.fsum(part.seconds for part in parts), 3),
    )


def _partition(part: PartitionReceipt) -> ReceiptPartition:
    accounted = part.records_kept + part.records_superseded + part.tombstones_expired + part.records_keyless
    return ReceiptPartition(
        partition=part.partition,
        reason=None if part.reason is None else part.reason.value,
        first_dirty_offset=str(part.first_dirty_offset),
        next_first_dirty_offset=str(part.next_first_dirty_offset),
        records_in=part.records_in,
        records_kept=part.records_kept,
        records_superseded=part.records_superseded,
        tombstones_expired=part.tombstones_expired,
        records_keyless=part.records_keyless,
        records_retired=part.records_retired,
        balanced=part.records_in == accounted,
        bytes_in=part.bytes_in,
        bytes_out=part.bytes_out,
        bytes_retired=part.bytes_retired,
        expected_records_kept=part.expected_records_kept,
        expected_bytes_out=part.expected_bytes_out,
        seconds=part.seconds or None,
        headers_missing=part.headers_missing,
        headers_malformed=part.headers_malformed,
        keys_elsewhere=part.keys_elsewhere,
    )


def _verdict(lake: Lake, verdict: Verdict) -> VerdictRow:
    return VerdictRow(
        plan_id=verdict.plan_id,
        attempt=verdict.attempt,
        topic=verdict.topic,
        passed=verdict.passed,
        broken=verdict.broken,
        checked_at_ms=verdict.checked_at_ms,
        expectations=verdict.expectations,
        data_docs=page_of(lake.settings, verdict.data_docs),
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
