"""Has the files of one update of the side table written, where nobody reads them yet: in this process, or on Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from winnow.engine.key_changes import LogExtent
from winnow.engine.latest_plans import PartitionUpdate, PartitionUpdatePlan
from winnow.engine.latest_rows import RecordForm, TypedForm, find_root
from winnow.engine.latest_update import write_part
from winnow.engine.strategy_diff import RecordOrder
from winnow.engine.task_resources import open_connection
from winnow.errors import UsageError
from winnow.files import storage
from winnow.files.sorted_rows import RowSorter
from winnow.log.head import Head
from winnow.log.table_placement import TablePlacement
from winnow.pipeline.installation import Installation
from winnow.pipeline.latest.decoders import TableRows
from winnow.pipeline.latest.run_spark import SparkUpdate
from winnow.pipeline.latest.state import build_partition_plan, explain_scan_errors, explain_table_damage
from winnow.pipeline.spark.submit import is_driver_here
from winnow.pipeline.topics.topic_view import TopicView
from winnow.planning.cleanable import PartitionLog
from winnow.quality.latest_facts import NOTHING_UPDATED
from winnow.schemas.row_maker import RowMaker
from winnow.values.model import Segment

LOCAL = "local"
SPARK = "spark"
"""Where an update is carried out: in this process, or in tasks."""


@dataclass(frozen=True, slots=True)
class TableChange:
    """What an update changes in each partition. ``facts``: of those that tasks have judged by their number."""

    parts: Sequence[PartitionUpdate]
    rows_not_decoded: int = 0
    facts: Mapping[int, dict[str, int | str]] | None = None

    @property
    def added(self) -> list[Segment]:
        """The files that go into the table."""
        return [segment for part in self.parts for segment in part.added]

    @property
    def removed(self) -> list[Segment]:
        """The files that leave it."""
        return [segment for part in self.parts for segment in part.removed]

    def leaves_rows(self, present: Mapping[int, tuple[Segment, ...]]) -> bool:
        """Check whether the table with the files ``present`` has rows after the change."""
        return bool(self.added) or len(self.removed) < sum(map(len, present.values()))


@dataclass(frozen=True, slots=True)
class ChangeWriter:
    """Writes what an update changes.

    ``order``: of winners; ``rows``: how rows are made, None: they are the records; ``folder``: of new files;
    ``runner``: :data:`LOCAL` or :data:`SPARK`, None: by size. ``placement``: which rows go into one file; with it, no
    task writes them. None: those of a topic partition.
    """

    installation: Installation
    view: TopicView
    order: RecordOrder
    rows: TableRows | None
    folder: str
    runner: str | None = None
    placement: TablePlacement | None = None

    def write(self, present: Mapping[int, tuple[Segment, ...]], base: Head | None) -> TableChange:
        """Write the files of an update of the table's files ``present`` from ``base``, or of all rows without one.

        ``base``: the log's head that they show. On a failure what was written is deleted again.

        Raises:
            DamagedSegmentError: a segment or a file of the table is missing or cannot be read.
            RunAgainError: a segment was swept meanwhile.
            ServiceError: a store or Spark does not answer, or disk or memory are exhausted.
        """
        former = {} if base is None else self.view.log.segments(base)
        logs = {partition.partition: partition for partition in self.view.partitions}
        parts = [
            self._plan(partition, present.get(number, ()), None if base is None else _get_extent(base, former, number))
            for number, partition in logs.items()
        ]
        parts = [part for part in parts if part.before != part.after]
        gone = [] if base is not None else [files for number, files in present.items() if number not in logs]
        if self._is_on_spark(parts):
            done = SparkUpdate(self.installation, self.view, self.order, self.rows, self.folder).run(parts)
            facts = {result.partition: result.facts for result in done if result.facts is not None}
            updates = [result.update for result in done if result.update is not None]
            not_decoded = sum(result.rows_not_decoded for result in done)
        else:
            updates, facts = self._write_here(parts, logs), None
            not_decoded = 0 if self.rows is None else self.rows.maker.rows_not_decoded
        return TableChange([*updates, *(PartitionUpdate(removed=files) for files in gone)], not_decoded, facts)

    def _plan(
        self, partition: PartitionLog, rows: tuple[Segment, ...], before: LogExtent | None
    ) -> PartitionUpdatePlan:
        return PartitionUpdatePlan(build_partition_plan(partition), rows, before)

    def _is_on_spark(self, parts: Sequence[PartitionUpdatePlan]) -> bool:
        if self.placement is not None:
            if self.runner == SPARK:
                raise UsageError(
                    f"The table of the latest state of topic {self.view.log.topic} is partitioned or "
                    "sorted by columns, and Spark does not write such a table.",
                    left=NOTHING_UPDATED,
                    next=f"Update it in one process: winnow latest-table update {self.view.log.topic} --engine local",
                )
            return False
        if self.runner is not None:
            return self.runner == SPARK and bool(parts)
        settings = self.installation.settings
        is_possible = self.rows is None or is_driver_here(settings)
        return is_possible and sum(part.size_bytes for part in parts) >= settings.latest.spark_from_bytes

    def _write_here(
        self, parts: Sequence[PartitionUpdatePlan], logs: Mapping[int, PartitionLog]
    ) -> list[PartitionUpdate]:
        maker = None if self.rows is None else self.rows.maker
        form = RecordForm() if maker is None else self._make_form(maker)
        updates: list[PartitionUpdate] = []
        topic = self.view.log.topic
        try:
            for part in parts:
                with explain_table_damage(topic, part.rows), explain_scan_errors(self.view.log, logs[part.partition]):
                    updates.append(
                        write_part(part, self.order, self.installation.budget, folder=self.folder, form=form)
                    )
            storage.sync(segment.path for update in updates for segment in update.added)
        except BaseException:
            written = (segment.path for update in updates for segment in update.added)
            storage.delete_unreferenced(written, below=find_root(self.folder))
            raise
        return updates

    def _make_form(self, maker: RowMaker) -> TypedForm:
        form = TypedForm(maker.convert, maker.get_schema, placement=self.placement)
        if self.placement is None or not self.placement.is_sorted:
            return form
        budget = self.installation.budget
        sorter = RowSorter(
            self.placement.list_sort_keys, maker.get_schema, lambda: open_connection(budget, ()), budget.spill_folder
        )
        return replace(form, sort=sorter.sort)


def _get_extent(head: Head, segments: Mapping[int, tuple[Segment, ...]], partition: int) -> LogExtent:
    state = head.state.partitions.get(partition)
    if state is None:  # the partition was added since
        return LogExtent((), 0, 0)
    extent = LogExtent(segments.get(partition, ()), state.log_start_offset, state.log_end_offset)
    return LogExtent(tuple(extent.list_readable()), extent.start_offset, extent.end_offset)
