"""Writes the files of one update of the side table, partition by partition, where nobody reads them yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from winnow.engine.key_changes import LogExtent
from winnow.engine.latest_records import read_latest_records
from winnow.engine.latest_rows import RecordForm, TypedForm, find_root, write_rows
from winnow.engine.latest_update import PartitionUpdate, update_partition
from winnow.engine.strategy_diff import RecordOrder
from winnow.errors import DamagedSegmentError
from winnow.files import storage
from winnow.log.head import Head
from winnow.pipeline.installation import Installation
from winnow.pipeline.latest.state import build_partition_plan, explain_scan_errors
from winnow.pipeline.topics.topic_view import TopicView
from winnow.planning.cleanable import PartitionLog
from winnow.values.model import Segment


@dataclass(frozen=True, slots=True)
class TableChange:
    """What an update changes in each partition."""

    parts: Sequence[PartitionUpdate]

    @property
    def added(self) -> list[Segment]:
        """The files that go into the table."""
        return [segment for part in self.parts for segment in part.added]

    @property
    def removed(self) -> list[Segment]:
        """The files that leave it."""
        return [segment for part in self.parts for segment in part.removed]


@dataclass(frozen=True, slots=True)
class ChangeWriter:
    """Writes what an update changes. ``order``: of winners; ``form``: how rows are held; ``folder``: of new files."""

    installation: Installation
    view: TopicView
    order: RecordOrder
    form: RecordForm | TypedForm
    folder: str

    def write(self, rows: Mapping[int, tuple[Segment, ...]], base: Head | None) -> TableChange:
        """Write the files of an update of ``rows`` from the log's head ``base``, or of all rows if there is none.

        On a failure they are deleted again.

        Raises:
            DamagedSegmentError: a segment or a file of the table is missing or cannot be read.
            RunAgainError: a segment was swept meanwhile.
            ServiceError: a store does not answer, or disk or memory are exhausted.
        """
        parts: list[PartitionUpdate] = []
        former = {} if base is None else self.view.log.segments(base)
        try:
            for partition in self.view.partitions:
                present = rows.get(partition.partition, ())
                if base is None:
                    parts.append(self._rewrite(partition, present))
                else:
                    parts.append(self._update(partition, present, _get_extent(base, former, partition)))
            if base is None:
                known = {partition.partition for partition in self.view.partitions}
                parts += [PartitionUpdate(removed=files) for number, files in rows.items() if number not in known]
            change = TableChange(parts)
            storage.sync(segment.path for segment in change.added)
        except BaseException:
            written = (segment.path for part in parts for segment in part.added)
            storage.delete_unreferenced(written, below=find_root(self.folder))
            raise
        return change

    def _update(self, partition: PartitionLog, rows: Sequence[Segment], before: LogExtent) -> PartitionUpdate:
        state = partition.state
        after = LogExtent(partition.segments, state.log_start_offset, state.log_end_offset)
        if before == after:
            return PartitionUpdate()
        budget = self.installation.budget
        try:
            with explain_scan_errors(self.view.log, partition):
                return update_partition(
                    rows, before, after, partition.partition, self.order, budget, folder=self.folder, form=self.form
                )
        except DamagedSegmentError as problem:
            damaged = next((segment.path for segment in rows if segment.path in str(problem)), None)
            if damaged is None:
                raise
            topic = partition.topic
            raise DamagedSegmentError(
                f"A file of the table of the latest state of topic {topic} is missing, or not what was written: "
                f"{damaged}.",
                left="The log is not concerned.",
                next=(
                    f"Drop the table and have it written anew: winnow latest-table drop {topic}, then winnow "
                    f"latest-table update {topic}"
                ),
            ) from problem

    def _rewrite(self, partition: PartitionLog, rows: Sequence[Segment]) -> PartitionUpdate:
        added: tuple[Segment, ...] = ()
        if partition.segments:
            with explain_scan_errors(self.view.log, partition):
                records = read_latest_records(build_partition_plan(partition), self.order, self.installation.budget)
                added = write_rows(self.form, partition.partition, self.folder, self.form.make_rows(records))
        return PartitionUpdate(added, tuple(rows), rows_inserted=sum(segment.records for segment in added))


def _get_extent(head: Head, segments: Mapping[int, tuple[Segment, ...]], partition: PartitionLog) -> LogExtent:
    state = head.state.partitions.get(partition.partition)
    if state is None:  # the partition was added since
        return LogExtent((), 0, 0)
    return LogExtent(segments.get(partition.partition, ()), state.log_start_offset, state.log_end_offset)
