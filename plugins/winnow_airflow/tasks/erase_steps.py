"""Step of the DAG erase_keys: reads a file with keys, and erases them from a topic. No key is logged or returned."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from winnow.values.counts import format_count

if TYPE_CHECKING:
    from winnow.pipeline.erase.complete import EraseReport
    from winnow.pipeline.installation import Installation
    from winnow.pipeline.monitor.watermark import Watermark
    from winnow.store.erase_requests import RequestedErasure

log = logging.getLogger("airflow.task")


class EraseParams(TypedDict):
    """The Params of ``erase_keys``. ``keys_from``: the file with the keys, which are nowhere else.

    ``request_id``: the request that another person approved; None: none was made yet, or one person is enough.
    """

    topic: str
    keys_from: str
    reason: str
    with_tombstone: bool
    break_pins: bool
    request_id: str | None


class EraseRow(TypedDict):
    """What the task returns: a reference and counts.

    ``keys``: that were to be erased. ``closed``: as the certificate says it; a tombstone that stays has its key.
    ``erasure_id`` None: nothing was erased; ``request_id`` waits for another person's approval.
    """

    topic: str
    erasure_id: str | None
    request_id: str | None
    keys: int
    records: int
    files: int
    deleted: bool
    closed: bool


@dataclass(frozen=True, slots=True)
class KeysErased:
    """What was done, in ``text`` too. ``told``: what consumers of the topic have to be told, if there is something."""

    row: EraseRow
    text: str
    told: tuple[EraseReport, Watermark] | None = None


def erase_keys(installation: Installation, wanted: EraseParams, *, is_first_try: bool = True) -> KeysErased:
    """Erase the keys in a file from a topic, for readers and then from disk. Repeating it changes nothing.

    Where that takes two persons and is not approved, it is only asked for. A later try that finds its keys erased tells
    consumers of it, since Airflow sends no event from a task that failed.

    Raises:
        UsageError: the file is not below ``erase.roots``, or the erasure is refused, for want of an approval for
            instance. Nothing was changed.
        BadInputError: there is no such file, or a line of it is malformed. Nothing was changed.
        RunAgainError: the keys are erased for readers, and not yet from disk.
        WinnowError: as :func:`winnow.pipeline.erase.complete.erase_keys` says.
    """
    from winnow.pipeline.erase import complete
    from winnow.pipeline.erase.erase import EraseRequest
    from winnow.pipeline.erase.key_files import read_permitted_key_file
    from winnow.pipeline.monitor.watermark import compute_watermark, name_latest_table

    topic = wanted["topic"]
    keys = read_permitted_key_file(wanted["keys_from"], installation.settings.erase.roots)
    request = EraseRequest(
        topic,
        keys,
        wanted["reason"],
        with_tombstone=wanted["with_tombstone"],
        break_pins=wanted["break_pins"],
        request_id=wanted["request_id"],
    )
    report = complete.erase_or_ask(installation, request, keys_from=wanted["keys_from"], is_first_try=is_first_try)
    if not isinstance(report, complete.EraseReport):
        return _tell_request(report)
    text = _tell(report)
    log.info("%s", text)
    for place in report.outside:
        log.info("Not touched: %s", place)
    row = EraseRow(
        topic=topic,
        erasure_id=report.erasure_id,
        request_id=wanted["request_id"],
        keys=report.keys,
        records=report.records,
        files=report.files,
        deleted=report.deleted,
        closed=report.closed,
    )
    if report.was_erased and is_first_try:
        return KeysErased(row, text)
    mark = compute_watermark(installation.log.open(topic), now_ms=installation.now_ms())
    return KeysErased(
        row, text, (report, name_latest_table(installation, mark, report.snapshot_id or mark.snapshot_id))
    )


def _tell_request(requested: RequestedErasure) -> KeysErased:
    from winnow.pipeline.erase.approval import read_plan

    plan = read_plan(requested)
    text = (
        f"Nothing was erased: this takes two persons, and request {plan.request_id} waits for the other one, who "
        f"approves it on the page of topic {plan.topic} (tab Erasures). {plan.keys_found:,} of "
        f"{format_count(plan.keys, 'key')} found, {format_count(plan.records, 'record')} in "
        f"{format_count(plan.files_total, 'file')}."
    )
    log.warning("%s", text)
    row = EraseRow(
        topic=plan.topic,
        erasure_id=None,
        request_id=plan.request_id,
        keys=plan.keys,
        records=plan.records,
        files=plan.files_total,
        deleted=False,
        closed=False,
    )
    return KeysErased(row, text)


def _tell(report: EraseReport) -> str:
    if report.was_erased:
        done = f"Erased before ({report.erasure_id}): {format_count(report.keys, 'key')} of {report.topic}."
    else:
        done = (
            f"Erased {format_count(report.keys, 'key')} of {report.topic} ({report.erasure_id}): {report.keys_found:,} "
            f"were there, {format_count(report.records, 'record')} in {format_count(report.files, 'file')}."
        )
    return f"{done} What was done, and whether it is over: winnow erase certificate {report.erasure_id}"
