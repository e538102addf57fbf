"""Assets of compacted topics: other DAGs are scheduled by them and read offsets and watermark from their events.

    schedule=[topic_asset("orders")]
    if not compacted_past(context["triggering_asset_events"], "orders", midnight_ms): ...

Each published compaction of a topic emits one event, each undo, which brings removed records back, and each erasure of
keys. A topic with nothing to compact emits none, however much time has passed: one event per idle topic every 15
minutes would start every consumer for nothing. A consumer that needs the watermark of an idle topic calls
:func:`compacted_through_ms`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import Asset, AssetAlias

from winnow_airflow.dag_ids import get_prefix

if TYPE_CHECKING:
    from winnow.pipeline.erase.complete import EraseReport
    from winnow.pipeline.monitor.watermark import Watermark
    from winnow.pipeline.undo.undo import UndoReport
    from winnow.values.results import Receipt

COMPACTED = AssetAlias(f"{get_prefix()}winnow_compacted", group="winnow")
"""Alias for the assets of all topics, which are not known when the DAG is parsed."""

MAXIMUM_EVENT_OFFSETS = 1_000
"""Maximum partitions in one event; a larger vector is left out; read it from the snapshot that the event names."""

COMPACT, UNDO, ERASE = "compact", "undo", "erase"
"""What the ``operation`` of an event may be."""


def topic_asset(topic: str) -> Asset:
    """Return the asset of this installation's ``topic``, for ``schedule=[topic_asset("orders")]`` and its events."""
    uri = f"winnow://{get_prefix()}topic/{topic}"
    return Asset(name=uri, uri=uri, group="winnow")


def build_event(receipt: Receipt, mark: Watermark) -> dict[str, Any]:
    """Build the event of a publish.

    ``operation``: :data:`COMPACT`. ``plan_id``, ``snapshot_id``: of the publish. ``partitions``: number of partitions
    of the topic. ``offsets``: first dirty offset per partition; None where there are more than
    :data:`MAXIMUM_EVENT_OFFSETS`. ``compacted_through_ms``: every record of the log with this timestamp or an earlier
    one is compacted (:class:`winnow.pipeline.monitor.watermark.Watermark`); None: not known. ``latest_snapshot_id``: of
    the table of the latest state, once it shows the publish; None: the topic keeps none, or it is behind.
    """
    return {
        "operation": COMPACT,
        "topic": receipt.topic,
        "plan_id": receipt.plan_id,
        "snapshot_id": str(receipt.snapshot_id),
        **_describe_mark(mark),
    }


def build_undo_event(report: UndoReport, mark: Watermark) -> dict[str, Any]:
    """Build the event of an undo: what :func:`build_event` has, as it is afterwards, so that any consumer can read it.

    ``operation``: :data:`UNDO`. ``plan_id``: the change that was taken back. ``records_restored``: how many records
    came back with their files, 0 if deleted ones had not left theirs; None: not known, since an earlier try of the task
    took it back.
    """
    records = None if report.was_undone else sum(part.records_restored for part in report.partitions)
    return {
        "operation": UNDO,
        "topic": report.topic,
        "plan_id": report.change_id,
        "snapshot_id": str(mark.snapshot_id if report.snapshot_id is None else report.snapshot_id),
        "records_restored": records,
        **_describe_mark(mark),
    }


def build_erase_event(report: EraseReport, mark: Watermark) -> dict[str, Any]:
    """Build the event of an erasure: what :func:`build_event` has, as it is afterwards, so that any consumer reads it.

    ``operation``: :data:`ERASE`. ``plan_id``: the id of the erasure. ``records_erased``: how many records left the log.
    No key is in it: consumers find none either.
    """
    return {
        "operation": ERASE,
        "topic": report.topic,
        "plan_id": report.erasure_id,
        "snapshot_id": str(mark.snapshot_id if report.snapshot_id is None else report.snapshot_id),
        "records_erased": report.records,
        **_describe_mark(mark),
    }


def _describe_mark(mark: Watermark) -> dict[str, Any]:
    offsets = {str(partition): offset for partition, offset in sorted(mark.first_dirty_offsets.items())}
    return {
        "partitions": len(offsets),
        "offsets": offsets if len(offsets) <= MAXIMUM_EVENT_OFFSETS else None,
        "compacted_through_ms": mark.compacted_through_ms,
        "latest_snapshot_id": None if mark.latest_snapshot_id is None else str(mark.latest_snapshot_id),
    }


def read_events(events: Mapping[Any, Sequence[Any]], topic: str) -> Iterator[dict[str, Any]]:
    """Yield the contents of ``topic``'s events among ``triggering_asset_events``, in order."""
    try:
        found = events[topic_asset(topic)]
    except KeyError:
        return
    for event in found:
        yield event.extra


def compacted_past(events: Mapping[Any, Sequence[Any]], topic: str, at_ms: int) -> bool:
    """Check whether one of the ``triggering_asset_events`` says that ``topic`` is compacted through ``at_ms``.

    What was said before an undo does not hold after it, nor before an erasure, which may have left tombstones.
    """
    times: list[int | None] = []
    for extra in read_events(events, topic):
        if extra.get("operation") in {UNDO, ERASE}:
            times.clear()
        times.append(extra.get("compacted_through_ms"))
    return any(time_ms is not None and time_ms >= at_ms for time_ms in times)


def compacted_through_ms(topic: str) -> int | None:
    """Return the current watermark of ``topic``, also when it is idle; reads the table's manifests. For use in tasks.

    Raises:
        UnknownTopicError, ForeignTableError, ServiceError: see
            :func:`winnow.pipeline.monitor.watermark.compute_watermark`.
    """
    from winnow.pipeline.installation import open_installation
    from winnow.pipeline.monitor.watermark import compute_watermark

    with open_installation() as installation:
        return compute_watermark(installation.log.open(topic), now_ms=installation.now_ms()).compacted_through_ms
