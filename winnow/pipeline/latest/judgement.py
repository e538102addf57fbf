"""Has the files of an update judged before their commit: what readers would see, against the log."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from winnow.engine.strategy_diff import RecordOrder
from winnow.errors import ValidationBrokenError, ValidationFailedError
from winnow.log.latest_tables import ReflectedLog
from winnow.pipeline.installation import Installation
from winnow.pipeline.latest.decoders import TableRows
from winnow.pipeline.latest.table_change import TableChange
from winnow.pipeline.topics.topic_view import TopicView
from winnow.quality.latest_facts import NOTHING_UPDATED, LatestPartition, compute_latest_facts
from winnow.quality.suites import SuiteFindings, load_suite
from winnow.quality.validation import validate_fact_table
from winnow.report.alert_kinds import AlertKind, Finding, make_latest_rejected, make_latest_suspect
from winnow.report.evidence import format_evidence
from winnow.values.model import Segment, Severity
from winnow.values.results import Failure, Verdict

log = logging.getLogger("winnow")

SUITE: Final = "latest"

ABOVE_LIMIT: Final = "rows_not_decoded_above_limit"
"""The fact that counts the undecoded rows of a partition that has too many."""


def require_sound_change(
    installation: Installation,
    view: TopicView,
    order: RecordOrder,
    table_rows: TableRows,
    rows: Mapping[int, tuple[Segment, ...]],
    change: TableChange,
    reflected: ReflectedLog,
) -> None:
    """Judge the partitions that ``change`` changes: ``rows`` of before, with its files in their place.

    What is wrong, and what somebody should look at, is alerted: undecoded rows above the topic's limit, and what its
    suite says of the new rows.

    Raises:
        ValidationFailedError: readers would see other rows than the log's greatest records, or such that violate the
            topic's suite.
        ValidationBrokenError: a check could not be carried out.
        ConfigurationError: the topic's suite cannot be had, or names a column that there is not.
        DamagedSegmentError: a segment is not what was written.
    """
    topic = view.log.topic
    if change.facts is None:
        changed = _list_changed(view, order, table_rows, rows, change)
        facts = compute_latest_facts(topic, changed, budget=installation.budget)
    else:
        facts = [change.facts[number] for number in sorted(change.facts)]
    if not facts:
        return
    own = view.config.latest_expectations
    verdict = validate_fact_table(
        facts,
        plan_id=f"{reflected.snapshot_id:x}",
        topic=topic,
        attempt=SUITE,
        checked_at_ms=installation.now_ms(),
        suite=SUITE,
        findings=_judge_content(installation, own, topic, table_rows, change) if own else None,
        data_docs=installation.settings.data_docs,
    )
    said = _describe(topic, verdict.failures)
    if not verdict.passed:
        to_do = _format_advice(topic, own, verdict.failures)
        _alert_rejected(installation, topic, verdict, to_do)
        error = ValidationBrokenError if verdict.broken else ValidationFailedError
        raise error(
            f"The table of the latest state of topic {topic} was not updated: {said}.",
            left=NOTHING_UPDATED,
            next=to_do,
        )
    if said:
        log.warning("The table of the latest state of topic %s was updated, with warnings: %s.", topic, said)
    _alert_suspect(installation, topic, verdict, facts)


def _judge_content(
    installation: Installation, suite: str, topic: str, table_rows: TableRows, change: TableChange
) -> SuiteFindings:
    from winnow.quality.latest_content import judge_latest_rows  # heavy, and few topics have such a suite

    added: dict[int, list[Segment]] = {}
    for segment in change.added:
        added.setdefault(segment.partition, []).append(segment)
    folder = installation.settings.expectations
    return judge_latest_rows(suite, topic, added, table_rows.maker.get_schema(), extra_folder=folder)


def _format_advice(topic: str, suite: str, failures: Sequence[Failure]) -> str:
    own = {expectation.id for expectation in load_suite(SUITE).expectations}
    if any(failure.expectation in own and failure.severity is Severity.FAIL for failure in failures):
        return (
            f"Drop the table and have it written anew: winnow latest-table drop {topic}, then winnow latest-table "
            f"update {topic}. If that repeats, report it as a defect."
        )
    return (
        f"Correct the records at their source, or the suite {suite} (with the severity warning the table is updated "
        f"all the same), then: winnow latest-table update {topic}"
    )


def _alert_rejected(installation: Installation, topic: str, verdict: Verdict, to_do: str) -> None:
    now_ms = installation.now_ms()
    said = [(each.partition, each.detail) for each in verdict.failures if each.severity is Severity.FAIL]
    findings = _group(said, now_ms)
    evidence = format_evidence(verdict.data_docs, installation.page_url, "the log of the task")
    situation = make_latest_rejected(topic, findings, evidence=evidence, to_do=to_do, at_ms=now_ms)
    installation.alerts.open_alert(situation)


def _alert_suspect(
    installation: Installation, topic: str, verdict: Verdict, facts: Sequence[Mapping[str, int | str]]
) -> None:
    now_ms = installation.now_ms()
    undecoded = [(int(row["partition"]), _describe_undecoded(row)) for row in facts if row[ABOVE_LIMIT]]
    warned = [(each.partition, each.detail) for each in verdict.failures if each.expectation != "rows_decoded"]
    findings = _group([*undecoded, *warned], now_ms)
    if findings:
        evidence = format_evidence(verdict.data_docs, installation.page_url, "the log of the task")
        installation.alerts.open_alert(make_latest_suspect(topic, findings, evidence=evidence, at_ms=now_ms))
    judged = {int(row["partition"]) for row in facts}
    clean = judged - {finding.partition for finding in findings}
    if clean:
        how = "has no rows any more to which its last update drew attention"
        installation.alerts.recover(topic, {AlertKind.LATEST_SUSPECT}, clean, how)
    installation.alerts.recover(topic, {AlertKind.LATEST_REJECTED}, None, "has rows that were judged sound")


def _describe_undecoded(row: Mapping[str, int | str]) -> str:
    return (
        f"{row['rows_not_decoded']:,} of {row['rows']:,} rows could not be decoded, the first at offset "
        f"{row['first_not_decoded']}."
    )


def _group(said: Sequence[tuple[int | None, str]], now_ms: int) -> list[Finding]:
    """Make one finding a partition: alerts are open per partition."""
    texts: dict[int | None, list[str]] = {}
    for partition, text in said:
        texts.setdefault(partition, []).append(text)
    return [Finding(partition, now_ms, " ".join(parts)) for partition, parts in texts.items()]


def _list_changed(
    view: TopicView,
    order: RecordOrder,
    table_rows: TableRows,
    rows: Mapping[int, tuple[Segment, ...]],
    change: TableChange,
) -> list[LatestPartition]:
    removed = {segment.path for segment in change.removed}
    changed = {segment.partition for segment in (*change.added, *change.removed)}
    return [
        LatestPartition(
            partition.partition,
            [
                *(segment for segment in rows.get(partition.partition, ()) if segment.path not in removed),
                *(segment for segment in change.added if segment.partition == partition.partition),
            ],
            [segment for segment in partition.segments if segment.last_offset >= partition.state.log_start_offset],
            partition.state.log_start_offset,
            partition.state.log_end_offset,
            order.strategy,
            order.header,
            table_rows.table_schema.error_column_id,
            drops_rows=table_rows.maker.drops_rows,
            max_undecoded_ratio=view.config.latest_max_undecoded_ratio,
        )
        for partition in view.partitions
        if partition.partition in changed
    ]


def _describe(topic: str, failures: Sequence[Failure]) -> str:
    return "; ".join(
        f"{'warning: ' if failure.severity is Severity.WARN else ''}"
        f"{topic if failure.partition is None else f'{topic}-{failure.partition}'}: {failure.detail.rstrip('.')}"
        for failure in failures
    )
