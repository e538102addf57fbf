"""Segments that a Spark application wrote for an ingest call, until they are committed or removed."""

from __future__ import annotations

import contextlib
from functools import partial

from winnow.errors import ServiceError, WinnowError
from winnow.files import storage
from winnow.files.file_names import is_ingest_file, is_task_folder
from winnow.files.quarantine_files import locate_ingest_folder, name_ingest_folder
from winnow.log.head import Head
from winnow.pipeline.ingest.append import join_slice_digests
from winnow.pipeline.ingest.commit import IngestCommit, IngestRequest
from winnow.pipeline.ingest.result_checks import group_segments
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.values.ingest_plans import IngestPlan, IngestResult
from winnow.values.model import Append, PartitionState


class SparkSegments(IngestCommit):
    """One try of a call whose segments a Spark application writes, against one head of the log."""

    def __init__(self, request: IngestRequest, head: Head) -> None:
        super().__init__(request, head)
        self.folder = locate_ingest_folder(head.location, self.prepared.ingest_id)
        self._compared: set[int] = set()

    def has_moved(self, partition: int, base: PartitionState, current: PartitionState) -> bool:
        """Check whether what was prepared does not hold any more.

        Where every record is above the log end, nothing was compared: a compaction meanwhile changes nothing.
        """
        if partition in self._compared:
            return super().has_moved(partition, base, current)
        return base.log_end_offset != current.log_end_offset

    def prepare_commit(self, plan: IngestPlan, result: IngestResult) -> None:
        """Fill in what the commit of ``result`` needs; :attr:`files` has the digests of its objects."""
        prepared = self.prepared
        appended: dict[int, set[int]] = {}
        for each in result.ranges:
            partition = plan.ranges[each.number].partition
            if not each.records:
                continue
            state = self.head.state.partitions[partition]
            prepared.base[partition] = state
            prepared.log_end.setdefault(partition, state.log_end_offset)
            appended.setdefault(partition, set()).update(each.appended_objects)
            if each.skipped:
                self._compared.add(partition)
            if each.skipped or each.repeats:
                prepared.skipped[partition] = prepared.skipped.get(partition, 0) + each.skipped + each.repeats
        now_ms = self.ctx.now_ms()
        for partition, segments in group_segments(plan, result).items():
            first, last = segments[0].first_offset, segments[-1].last_offset
            records = sum(segment.records for segment in segments)
            prepared.segments[partition] = segments
            prepared.appended[partition] = records
            prepared.lowest[partition] = first
            prepared.log_end[partition] = max(prepared.log_end[partition], last + 1)
            digests = [self.files[number].slices[partition] for number in sorted(appended[partition])]
            arrived_ms = now_ms if now_ms < self.as_of_ms else None
            prepared.slices[partition] = [
                Append(join_slice_digests(digests), first, last, records, self.as_of_ms, arrived_ms)
            ]

    def remove_others(self) -> None:
        """Remove plans, results and files of repeated tasks: after the commit nobody would. Other files stay.

        Raises:
            WinnowError: a segment is not there, or not as its task wrote it.
        """
        listed = {entry.uri: entry.size_bytes for entry in self._list_files()}
        segments = [segment for found in self.prepared.segments.values() for segment in found]
        wrong = [segment.path for segment in segments if listed.get(segment.path) != segment.size_bytes]
        if wrong:
            raise WinnowError(
                f"{wrong[0]} is not the segment that a task wrote.",
                left=NOTHING_INGESTED,
                next="Run it again.",
            )
        for uri in listed.keys() - {segment.path for segment in segments}:
            storage.delete(uri, below=self.head.location)
        self._remove_empty_folders()

    def discard(self) -> None:
        """Remove what the applications of this try left; what cannot be removed is left for the sweep."""
        with contextlib.suppress(OSError, ServiceError):
            self.remove([entry.uri for entry in self._list_files()])
            self._remove_empty_folders()

    def _list_files(self) -> tuple[storage.FileEntry, ...]:
        """List what the application may have written, under the names that it gives."""
        return storage.list_named_files(
            self.head.location, name_ingest_folder(self.prepared.ingest_id), partial(is_ingest_file, quarantined=False)
        ).files

    def _remove_empty_folders(self) -> None:
        storage.remove_empty_folders(self.head.location, name_ingest_folder(self.prepared.ingest_id), is_task_folder)
