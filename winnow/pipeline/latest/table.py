"""Brings the side table of a topic's latest state up to date with the log, in one commit.

The table says which snapshot of the log it reflects. What changed since then is found and written from there to the
newest snapshot, and committed only over the table's snapshot that this was computed from. Where the way from there is
not known, the table is rewritten as a whole, in one commit too. So a crash, a lost race or a failure leaves a table
that is older than the log, and never one that is wrong.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain

from winnow.clock import format_ms
from winnow.engine.strategy_diff import RecordOrder
from winnow.errors import (
    CommitConflictError,
    CommitUnknownError,
    DamagedMetadataError,
    DamagedSegmentError,
    RunAgainError,
    ServiceError,
    UsageError,
    WinnowError,
)
from winnow.files import storage
from winnow.log.erasures import read_erasure
from winnow.log.head import Head
from winnow.log.latest_tables import LatestHead, LatestTable, ReflectedLog
from winnow.log.reference_chains import contains_history
from winnow.log.snapshot_expiry import NO_GRACE_MS
from winnow.log.table_placement import TablePlacement
from winnow.log.topics import TopicLogs
from winnow.log.typed_schema import TypedSchema
from winnow.pipeline.installation import Installation
from winnow.pipeline.latest.decoders import TableRows, compute_shape, make_table_rows
from winnow.pipeline.latest.judgement import require_sound_change
from winnow.pipeline.latest.progress import record_update
from winnow.pipeline.latest.state import get_present_order
from winnow.pipeline.latest.table_change import ChangeWriter, TableChange
from winnow.pipeline.latest.table_files import sweep_latest_table
from winnow.pipeline.topics.topic_view import TopicView, load_topic_view
from winnow.report.events import log_event
from winnow.values.latest_layout import TableLayout
from winnow.values.model import Segment
from winnow.values.topic_state import TopicState

log = logging.getLogger("winnow")

MAXIMUM_TRIES = 4
"""Maximum tries before an update gives way: each computes the changes anew from the table as it is then."""

_one_at_a_time = threading.Lock()
"""An update may use the memory of one engine task; several topics are published at a time."""


@dataclass(frozen=True, slots=True)
class LatestUpdate:
    """What an update did.

    ``reflects``: the log's snapshot that the table shows now; None: the log is empty and there is no table.
    ``snapshot_id``: the table's. ``rebuilt``: why the table was rewritten as a whole, None if it was not. Of such a
    table every row counts as inserted. ``rows_not_decoded``: how many of the written rows could not be decoded.
    ``columns_added``: columns that the table did not have before. ``hides_fields``: not every field is shown as it is.
    """

    topic: str
    table: str
    changed: bool
    snapshot_id: int | None
    reflects: int | None
    rebuilt: str | None = None
    rows: int = 0
    rows_inserted: int = 0
    rows_updated: int = 0
    rows_deleted: int = 0
    files_written: int = 0
    files_replaced: int = 0
    bytes_written: int = 0
    rows_not_decoded: int = 0
    columns_added: tuple[str, ...] = ()
    hides_fields: bool = False


def update_latest_table(installation: Installation, topic: str, runner: str | None = None) -> LatestUpdate:
    """Bring the side table of ``topic`` up to date with the newest snapshot of the log. Repeating it changes nothing.

    ``runner``: where rows are made, ``local`` or ``spark``; None: by the size of what is new to the table.

    Raises:
        UsageError: the topic keeps no such table.
        CommitConflictError: other updates came first too often; they brought the table further.
        CommitUnknownError: the catalog did not confirm the commit.
        ForeignTableError: another program created or changed the table.
        DamagedSegmentError: a segment or a file of the table is missing or cannot be read.
        ConfigurationError: the schema of keys or values cannot be had.
        ValidationFailedError, ValidationBrokenError: what was written was judged wrong, or could not be judged.
        RunAgainError: a segment was swept meanwhile.
        ServiceError: catalog or object store do not answer, or disk or memory are exhausted.
    """
    started_ms = installation.now_ms()
    with _one_at_a_time:
        for _ in range(MAXIMUM_TRIES):
            done = _try_once(installation, topic, runner)
            if done is not None:
                break
        else:
            raise CommitConflictError(
                f"Other updates of the table of topic {topic}'s latest state came first {MAXIMUM_TRIES} times.",
                left="Nothing of this one counts.",
                next=f"Run it again: winnow latest-table update {topic}",
            )
    # Also where nothing changed: the process that wrote the table anew may have died before this.
    if done.hides_fields and _shows_other_shapes(installation, topic):
        sweep_latest_table(installation, topic, installation.now_ms(), NO_GRACE_MS)
    if done.reflects is not None:
        record_update(installation, topic)
    if done.changed:
        log_event(
            "latest_updated",
            topic,
            snapshot_id=str(done.snapshot_id),
            reflects=str(done.reflects),
            rebuilt=done.rebuilt is not None,
            rows=done.rows,
            rows_inserted=done.rows_inserted,
            rows_updated=done.rows_updated,
            rows_deleted=done.rows_deleted,
            files_written=done.files_written,
            files_replaced=done.files_replaced,
            bytes_written=done.bytes_written,
            rows_not_decoded=done.rows_not_decoded,
            columns_added=len(done.columns_added),
            duration_ms=installation.now_ms() - started_ms,
        )
    return done


def _shows_other_shapes(installation: Installation, topic: str) -> bool:
    head = installation.log.latest_table(topic).load()
    return head is not None and head.shows_other_shapes()


def update_after_publish(installation: Installation, topic: str, head: Head) -> None:
    """Bring the side table up to date if the topic, whose newest head is ``head``, keeps one.

    What was published stays published whatever happens here: a failure is a warning that names the next command.
    """
    try:
        if installation.log.open(topic).config(head).latest_table:
            update_latest_table(installation, topic)
    except Exception as problem:  # no error here may affect a recorded outcome
        # A library's message may quote data.
        said = str(problem) if isinstance(problem, WinnowError) else f"Unexpected {type(problem).__name__}."
        log.warning(
            "The table of the latest state of topic %s is behind its log, and complete as of before. %s The next "
            "publish brings it up to date, or at once: winnow latest-table update %s",
            topic,
            said,
            topic,
        )


def describe_late_table(logs: TopicLogs, topic: str) -> str | None:
    """Describe how the side table of ``topic`` is behind the newest publish of its log; None: it reflects it.

    Raises:
        DeletedTopicError, UnknownTopicError, ForeignTableError, DamagedMetadataError, ServiceError: topic or table
            cannot be opened.
    """
    table = logs.latest_table(topic)
    present = table.load()
    topic_log = logs.open(topic)
    head = topic_log.head()
    name = table.name
    if not topic_log.config(head).latest_table:
        return (
            f"{name} is not brought up to date any more: its topic does not keep one (drop it: winnow "
            f"latest-table drop {topic})"
        )
    shown = None if present is None else present.reflected
    if shown is None:
        return f"{name} is empty: its first update did not succeed"
    if shown.table_uuid != head.table_uuid or head.table.snapshot_by_id(shown.snapshot_id) is None:
        return f"{name} shows a snapshot of the log that is gone, of {format_ms(shown.committed_ms)}"
    base = topic_log.snapshot(shown.snapshot_id)
    if base.state.receipts[-1:] == head.state.receipts[-1:]:
        return None
    return f"{name} is behind the newest publish: it shows the log as of {format_ms(shown.committed_ms)}"


def _try_once(installation: Installation, topic: str, runner: str | None) -> LatestUpdate | None:
    """Make one try; None: another update came first."""
    table = installation.log.latest_table(topic)
    # Before the log, so that the log is not older than what the table reflects.
    present = table.load()
    try:
        return _update_from(installation, topic, table, present, runner)
    except (ServiceError, DamagedMetadataError, DamagedSegmentError, FileNotFoundError) as problem:
        if _is_overtaken(table, present):
            return None  # another update came, and a sweep took the files of the snapshot that this one began with
        if not isinstance(problem, FileNotFoundError):
            raise
        raise RunAgainError(
            f"A file that an update of {table.name} was reading or had written is gone ({problem.filename}): another "
            "update or a sweep is at work.",
            left="Nothing was changed.",
            next=(
                f"Run it again: winnow latest-table update {topic}. If that repeats, look for damage: winnow scrub "
                f"{topic}"
            ),
        ) from problem


def _is_overtaken(table: LatestTable, present: LatestHead | None) -> bool:
    """Check whether another update has committed since ``present``, None: since there was no table."""
    if present is None:
        return table.table() is not None
    return not table.is_newest(present)


def _update_from(
    installation: Installation, topic: str, table: LatestTable, present: LatestHead | None, runner: str | None
) -> LatestUpdate | None:
    view = load_topic_view(installation, topic, installation.log.open(topic).newest_head())
    if not view.config.latest_table:
        raise UsageError(
            f"Topic {topic} keeps no table of its latest state.",
            next=f"Have it keep one: winnow topics alter {topic} --config winnow.latest.table=true",
        )
    snapshot = view.head.snapshot
    if snapshot is None:
        return LatestUpdate(topic, table.name, False, None, None)
    order = get_present_order(view.rules)
    hides = view.config.row_shape.fields.hides
    reflected = ReflectedLog(
        snapshot.snapshot_id,
        snapshot.timestamp_ms,
        view.head.table_uuid,
        _name_order(order),
        compute_shape(installation, topic, view.config.row_shape),
        view.config.latest_layout,
    )
    rows = {} if present is None else table.segments(present)
    base, why = _find_base(view, present, reflected, has_rows=bool(rows))
    if base is not None and present is not None and _shows_same(view, base):
        assert present.reflected is not None
        count = sum(segment.records for segment in chain.from_iterable(rows.values()))
        shown = present.reflected.snapshot_id
        return LatestUpdate(topic, table.name, False, present.snapshot_id, shown, rows=count, hides_fields=hides)
    installation.guard.require_own()
    if present is None and installation.settings.vended_credentials:
        # The catalog vends credentials for the folder of a table that it has.
        present = table.create()
        if present is None:
            return None
    goes_on = _has_shape(present, reflected.shape)
    table_rows = make_table_rows(installation, view, present, goes_on=goes_on)
    placement = table.open_placement(
        present if goes_on and _has_layout(present, reflected.layout) else None, reflected.layout
    )
    folder = storage.join(table.location, "data", uuid.uuid4().hex)
    change = ChangeWriter(installation, view, order, table_rows, folder, runner, placement).write(rows, base)
    if not change.leaves_rows(rows):
        # Without rows there need be no columns to partition by.
        placement, reflected = None, replace(reflected, layout=TableLayout())
    if table_rows is not None:
        try:
            if placement is not None:
                placement.require_columns(table_rows.maker.get_schema())
            require_sound_change(installation, view, order, table_rows, rows, change, reflected)
        except BaseException:
            storage.delete_unreferenced((segment.path for segment in change.added), below=table.location)
            raise
    done = _commit(
        table,
        present,
        reflected,
        rows,
        change,
        None if base is not None else why,
        table_rows=table_rows,
        placement=placement,
    )
    return None if done is None else replace(done, hides_fields=hides)


def _name_order(order: RecordOrder) -> str:
    return order.strategy.value if order.header is None else f"{order.strategy.value}:{order.header}"


def _find_base(
    view: TopicView, present: LatestHead | None, wanted: ReflectedLog, *, has_rows: bool
) -> tuple[Head | None, str]:
    """Find the log's head that the table reflects, if the way from there is known; else say why it is not."""
    shown = None if present is None else present.reflected
    if shown is None:
        return None, "it is new"
    if shown.table_uuid != wanted.table_uuid:
        return None, "the topic was created anew"
    if shown.order != wanted.order:
        return None, "the topic's strategy is another one"
    if shown.shape != wanted.shape:
        return None, "its columns are made in another way"
    if has_rows and (other := _describe_other_layout(shown.layout, wanted.layout)):
        return None, other
    if view.head.table.snapshot_by_id(shown.snapshot_id) is None:
        return None, "the snapshot of the log that it reflected has expired"
    try:
        base = view.log.snapshot(shown.snapshot_id)
    except UsageError:
        return None, "the snapshot of the log that it reflected has expired"
    if not contains_history(view.head.state, base.state):
        return None, "records that it reflected were taken back"
    if _has_new_tombstones(view.head.state, base.state):
        return None, "records that it reflected became tombstones with an erasure"
    return base, ""


def _describe_other_layout(shown: TableLayout, wanted: TableLayout) -> str:
    if shown.terms != wanted.terms:
        return "its files are partitioned in another way"
    if shown.order != wanted.order:
        return "its files are sorted in another way"
    return ""


def _has_new_tombstones(state: TopicState, earlier: TopicState) -> bool:
    """Check whether an erasure since ``earlier`` left tombstones: other records at offsets that tell one elsewhere."""
    known = {reference.erasure_id for reference in earlier.erasures}
    new = (each for each in state.erasures if each.erasure_id not in known and not each.lifts)
    return any(read_erasure(state, reference).tombstones for reference in new)


def _has_shape(present: LatestHead | None, shape: str) -> bool:
    return present is not None and present.reflected is not None and present.reflected.shape == shape


def _has_layout(present: LatestHead | None, layout: TableLayout) -> bool:
    return present is not None and present.reflected is not None and present.reflected.layout == layout


def _shows_same(view: TopicView, base: Head) -> bool:
    """Check whether readers of the log see the same records as at ``base``, and no key was erased since.

    An erasure is through when the table shows the log after it, even where no row was concerned.
    """
    return base.snapshot_id == view.head.snapshot_id or (
        base.state.live is not None
        and base.state.live == view.head.state.live
        and _list_bounds(base) == _list_bounds(view.head)
        and _list_erasures(base) == _list_erasures(view.head)
    )


def _list_erasures(head: Head) -> list[str]:
    return [erasure.erasure_id for erasure in head.state.erasures]


def _list_bounds(head: Head) -> dict[int, tuple[int, int]]:
    return {number: (each.log_start_offset, each.log_end_offset) for number, each in head.state.partitions.items()}


def _commit(
    table: LatestTable,
    present: LatestHead | None,
    reflected: ReflectedLog,
    rows: Mapping[int, tuple[Segment, ...]],
    change: TableChange,
    rebuilt: str | None,
    *,
    table_rows: TableRows | None,
    placement: TablePlacement | None,
) -> LatestUpdate | None:
    try:
        snapshot_id = table.commit(
            present,
            reflected,
            add=change.added,
            remove=change.removed,
            operation="update-latest" if rebuilt is None else "rebuild-latest",
            schema=(TypedSchema() if table_rows is None else table_rows.table_schema).schema,
            placement=placement,
        )
    except CommitUnknownError:
        raise  # the table may name the files
    except WinnowError:  # nothing was committed; after anything else the files wait for a sweep
        storage.delete_unreferenced((segment.path for segment in change.added), below=table.location)
        raise
    if snapshot_id is None:
        storage.delete_unreferenced((segment.path for segment in change.added), below=table.location)
        return None
    held = sum(segment.records for segment in chain.from_iterable(rows.values()))
    written = sum(segment.records for segment in change.added)
    return LatestUpdate(
        topic=table.topic,
        table=table.name,
        changed=True,
        snapshot_id=snapshot_id,
        reflects=reflected.snapshot_id,
        rebuilt=rebuilt,
        rows=held + written - sum(segment.records for segment in change.removed),
        rows_inserted=sum(part.rows_inserted for part in change.parts),
        rows_updated=sum(part.rows_updated for part in change.parts),
        rows_deleted=sum(part.rows_deleted for part in change.parts),
        files_written=len(change.added),
        files_replaced=len(change.removed),
        bytes_written=sum(segment.size_bytes for segment in change.added),
        rows_not_decoded=change.rows_not_decoded,
        columns_added=() if table_rows is None else table_rows.maker.list_added_columns(),
    )
