"""Looks for records of erased keys in every file that a topic has, each of which is read once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from winnow.engine.job_documents import DAMAGED
from winnow.engine.key_erasure import KeyHits, compute_held_digest, count_keys_in_file, find_keys_in_segment
from winnow.errors import DamagedSegmentError, EraseRefusedError
from winnow.files import storage
from winnow.files.checked_reading import make_damage_error
from winnow.files.key_sets import KeySet
from winnow.files.quarantine_files import INGEST_FOLDER_PREFIX
from winnow.log.head import Head
from winnow.log.quarantine import Quarantine
from winnow.log.topic_log import TopicLog
from winnow.pipeline.admin import leftovers
from winnow.pipeline.erase.run_spark import ErasureTasks
from winnow.pipeline.installation import Installation
from winnow.pipeline.parallel import iterate_parallel
from winnow.quality.erasure_facts import NOTHING_ERASED
from winnow.values.counts import format_count
from winnow.values.erasures import ErasedFile
from winnow.values.model import Segment
from winnow.values.topic_state import RetiredFile, TopicState

Progress = Callable[[int, int], None]
"""Called with the bytes that were read so far, and with those of all files known so far."""
UNREADABLE: Final = -1
"""Stands for the number of records of a file that cannot be read: it may hold any key, so it goes, too."""


@dataclass
class KeyScans:
    """What is known of the files of a topic, read or not. ``wanted``: the keys.

    ``live``: hits by path of a segment. ``others``: number of records by path of a file that is in no snapshot's head.
    ``digests``: sha256 by path of a file that held a key; empty if it is gone.
    """

    topic: str
    wanted: KeySet
    progress: Progress = lambda done, total: None
    live: dict[str, KeyHits] = field(default_factory=dict)
    others: dict[str, int] = field(default_factory=dict)
    read_bytes: int = 0
    read_files: int = 0
    known_bytes: int = 0
    quarantine_files: int = 0
    digests: dict[str, str] = field(default_factory=dict)

    def scan_log(
        self, log: TopicLog, head: Head, tasks: ErasureTasks | None = None
    ) -> tuple[list[Segment], list[RetiredFile]]:
        """Read the live segments, and the files that left the log, which were not read yet; return those with a key.

        ``tasks`` read them if that is much. A file that left the log and is gone holds none; one that cannot be read
        may hold any.

        Raises:
            DamagedSegmentError: a live segment is missing or damaged; its records are restored first.
            ConfigurationError, ServiceError, WinnowError: the object store does not answer, or Spark did not end well.
        """
        live = [segment for some in log.segments(head).values() for segment in some]
        left_log = list_files_below(head.state.waiting_files, head.location)
        if tasks is not None:
            self._read_ahead(live, left_log, tasks)
        return self._scan_segments(live), self._scan_retired(left_log)

    def _read_ahead(self, segments: Iterable[Segment], retired: Iterable[RetiredFile], tasks: ErasureTasks) -> None:
        """Have ``tasks`` read live segments and retired files that were not read yet, if that is much."""
        unread = [segment for segment in segments if segment.path not in self.live]
        others = [(file.path, file.size_bytes) for file in retired if not self._is_read(file.path)]
        size_bytes = sum(segment.size_bytes for segment in unread) + sum(each for _, each in others)
        if not tasks.is_wanted_for(size_bytes):
            return
        self.known_bytes += size_bytes
        before_bytes = self.read_bytes
        # What tasks tell meanwhile is for display: one that is carried out again tells it twice.
        found, counts = tasks.search(
            unread, others, lambda done: self.progress(min(before_bytes + done, self.known_bytes), self.known_bytes)
        )
        self.read_bytes += size_bytes
        self.read_files += len(unread) + len(others)
        for segment, each in zip(unread, found, strict=True):
            self.live[segment.path] = KeyHits(each.records, dict(zip(each.keys, each.offsets, strict=True)))
        for (path, _), each in zip(others, counts, strict=True):
            self.others[path] = UNREADABLE if each.finding == DAMAGED else each.records

    def _is_read(self, path: str) -> bool:
        return path in self.others or path in self.live

    def _scan_segments(self, segments: Sequence[Segment]) -> list[Segment]:
        unread = [segment for segment in segments if segment.path not in self.live]
        self.known_bytes += sum(segment.size_bytes for segment in unread)
        for segment, hits in iterate_parallel(self._find, unread):
            self.live[segment.path] = hits
            self._move(segment.size_bytes)
        return [segment for segment in segments if self.live[segment.path].records]

    def _find(self, segment: Segment) -> KeyHits:
        try:
            return find_keys_in_segment(segment, self.wanted)
        except DamagedSegmentError as problem:
            raise make_damage_error(self.topic, segment, str(problem), NOTHING_ERASED) from problem
        except FileNotFoundError as problem:
            raise make_damage_error(self.topic, segment, "is missing", NOTHING_ERASED) from problem

    def _scan_retired(self, files: Sequence[RetiredFile]) -> list[RetiredFile]:
        unread = [file for file in files if not self._is_read(file.path)]
        self.known_bytes += sum(file.size_bytes for file in unread)
        for file, count in iterate_parallel(lambda file: self._count(file.path), unread):
            self.others[file.path] = count
            self._move(file.size_bytes)
        return [file for file in files if self._get_count(file.path)]

    def _get_count(self, path: str) -> int:
        return self.live[path].records if path in self.live else self.others[path]

    def _count(self, path: str) -> int:
        try:
            return count_keys_in_file(path, self.wanted)
        except FileNotFoundError:
            return 0
        except DamagedSegmentError:
            return UNREADABLE

    def check_quarantine(self, quarantine: Quarantine) -> None:
        """Check that no quarantined record has one of the keys: Winnow puts only records without a key there.

        Raises:
            EraseRefusedError: one has.
            DamagedSegmentError: a file cannot be read.
        """
        for entry in quarantine.files():
            if entry.path in self.others:
                continue
            try:
                found = count_keys_in_file(entry.path, self.wanted)
            except FileNotFoundError:
                found = 0  # a name that a paused process left; its rows count nowhere
            except DamagedSegmentError as problem:
                raise DamagedSegmentError(
                    f"A file of the quarantined records of topic {self.topic} {problem}: {entry.path}.",
                    left=NOTHING_ERASED,
                    next="Restore that file from a backup or the object store's versions.",
                ) from problem
            if found:
                raise EraseRefusedError(
                    f"The quarantine of topic {self.topic} holds {format_count(found, 'record')} with such a key, "
                    f"which Winnow never puts there: {entry.path}.",
                    left=NOTHING_ERASED,
                    next="Take that file out of the quarantine's table with the program that put it there.",
                )
            self.others[entry.path] = 0
            self.quarantine_files += 1
            self._move(entry.size_bytes)

    def find_in_attempts(self, installation: Installation, head: Head) -> list[ErasedFile]:
        """Find the files of closed runs that no commit names and that hold a key; a sweep deletes all such files."""
        found = []
        for file in list_attempt_files(installation, head, self.live):
            count = self._count(file.uri)
            if count > 0:
                found.append(self.describe(file.uri, file.size_bytes, "attempt", None, count))
        return found

    def describe(
        self, path: str, size_bytes: int, place: str, partition: int | None, records: int | None = None
    ) -> ErasedFile:
        """Describe a file that held a key, with its digest, for the certificate."""
        if path not in self.digests:
            self.digests[path] = compute_held_digest(path)
        count = self._get_count(path) if records is None else records
        return ErasedFile(
            path=path,
            place=place,
            partition=partition,
            records=max(count, 0),
            size_bytes=size_bytes,
            sha256=self.digests[path],
            since_ingest=find_ingest_of(path),
        )

    def describe_all(
        self,
        state: TopicState,
        holding: Iterable[Segment],
        left_log: Iterable[RetiredFile],
        attempts: Iterable[ErasedFile],
    ) -> tuple[ErasedFile, ...]:
        """Describe all files that held a key; a file that an erasure of ``state`` wrote is no ingest call's."""
        erasures = {each.erasure_id for each in state.erasures}
        files = (
            *(self.describe(each.path, each.size_bytes, "live", each.partition) for each in holding),
            *(self.describe(each.path, each.size_bytes, "retired", None) for each in left_log),
            *attempts,
        )
        return tuple(replace(each, since_ingest=None) if each.since_ingest in erasures else each for each in files)

    def _move(self, size_bytes: int) -> None:
        self.read_bytes += size_bytes
        self.read_files += 1
        self.progress(self.read_bytes, self.known_bytes)


def list_files_below(files: Iterable[RetiredFile], location: str) -> list[RetiredFile]:
    """List those of ``files`` that are below the table's ``location``; others are not Winnow's to read."""
    return [file for file in files if storage.find_path_below(location, file.path) is not None]


def list_attempt_files(installation: Installation, head: Head, live: Iterable[str]) -> list[leftovers.Leftover]:
    """List the files of closed runs that no commit names; ``live``: the paths of the log's segments."""
    named = {storage.find_path_below(head.location, file.path) for file in head.state.waiting_files}
    named |= {storage.find_path_below(head.location, path) for path in live}
    runs = leftovers.list_runs(installation, head, closed_before_ms=installation.now_ms())
    return [file for run in runs for file in run.files if not file.quarantined and file.path not in named]


def list_newest_offsets(scans: KeyScans, holding: Sequence[Segment], starts: dict[int, int]) -> dict[int, set[int]]:
    """List per partition the offsets of the newest record of each key, where readers see it.

    ``holding``: live segments that hold a key. ``starts``: log starts; what is below is deleted already.
    """
    newest: dict[tuple[int, int], int] = {}
    for segment in holding:
        for key, offset in scans.live[segment.path].newest.items():
            place = (segment.partition, key)
            newest[place] = max(offset, newest.get(place, -1))
    found: dict[int, set[int]] = {}
    for (partition, _), offset in newest.items():
        if offset >= starts.get(partition, 0):
            found.setdefault(partition, set()).add(offset)
    return found


def find_ingest_of(path: str) -> str | None:
    """Return the ingest call in whose folder the file at ``path`` lies; None: a run wrote it."""
    folder = next((part for part in path.split("/") if part.startswith(INGEST_FOLDER_PREFIX)), None)
    return None if folder is None else folder.removeprefix(INGEST_FOLDER_PREFIX)


def list_pins(head: Head, naming: Collection[int]) -> list[str]:
    """List the tags and branches that keep one of the snapshots ``naming``, other than that of the table itself."""
    refs = head.table.metadata.refs
    return sorted(name for name, each in refs.items() if name != "main" and each.snapshot_id in naming)
