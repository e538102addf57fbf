"""Writes segments again without erased keys, where nobody reads, and has both computations judged before any commit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from winnow.engine.key_erasure import rewrite_without_keys
from winnow.errors import DamagedSegmentError, ServiceError, ValidationBrokenError, ValidationFailedError
from winnow.files import storage
from winnow.files.checked_reading import make_damage_error
from winnow.files.file_names import is_ingest_file
from winnow.files.quarantine_files import locate_ingest_folder, name_ingest_folder
from winnow.pipeline.compaction.validate import describe_failures
from winnow.pipeline.erase.run_spark import ErasureTasks
from winnow.pipeline.erase.scan import KeyScans
from winnow.pipeline.ingest.commit import remove_files
from winnow.pipeline.installation import Installation
from winnow.quality.erasure_facts import NOTHING_ERASED, compute_erasure_facts
from winnow.quality.validation import validate_fact_table
from winnow.values.erasures import ErasedPartition
from winnow.values.model import Segment
from winnow.values.topic_state import RetiredFile

SUITE = "erasure"
Tombstones = Mapping[int, set[int]]
"""Per partition the offsets of erased records that stay as tombstones."""


@dataclass
class Rewriting:
    """The segments that an erasure has written, by the one that each takes the place of.

    ``erasure_id``: names the folder of its files, as that of an ingest call. ``location``: the table's. ``tasks``: work
    where that is much.
    """

    installation: Installation
    scans: KeyScans
    erasure_id: str
    location: str
    tasks: ErasureTasks
    written: dict[str, tuple[Segment, ...]] = field(default_factory=dict)
    _offsets: dict[str, frozenset[int]] = field(default_factory=dict)
    _paths: set[str] = field(default_factory=set)
    _judged: frozenset[str] = frozenset()
    _versions: int = 0
    _wrote_in_tasks: bool = False

    def write(
        self, holding: Sequence[Segment], tombstones: Tombstones, left_log: Sequence[RetiredFile] = ()
    ) -> dict[str, tuple[Segment, ...]]:
        """Write what is missing, have all of it judged, and return it by path of the segment that is replaced.

        ``left_log``: other files that held a key; where tasks write, they compute the digests of these, too.

        Raises:
            ValidationFailedError: the result is wrong; nothing was committed.
            DamagedSegmentError: a segment is not what was written.
            ConfigurationError, ServiceError, WinnowError: the object store does not answer, or Spark did not end as it
                should.
        """
        missing = []
        for segment in holding:
            offsets = frozenset(self.scans.live[segment.path].newest.values()) & tombstones.get(
                segment.partition, set()
            )
            if self._offsets.get(segment.path) != offsets or segment.path not in self.written:
                self._offsets[segment.path] = offsets
                missing.append((segment, self._choose_folder(), offsets))
        if self.tasks.is_wanted_for(sum(segment.size_bytes for segment, *_ in missing)):
            self._write_in_tasks(missing, left_log)
        else:
            for segment, folder, offsets in missing:
                self._note(segment, self._write_one(segment, folder, offsets))
        made = {segment.path: self.written[segment.path] for segment in holding}
        storage.sync(each.path for after in made.values() for each in after)
        self._judge(holding, made)
        return made

    def remove_unused(self, used: Collection[str] = ()) -> bool:
        """Remove what was written but is not ``used`` by a commit; return whether all of it is gone.

        An earlier turn of the commit loop may have written a segment that another process removed meanwhile, with keys
        that it erased. What tasks wrote that were carried out again goes, too.
        """
        self.written.clear()
        try:
            written = self._paths | self._list_of_tasks()
        except (OSError, ServiceError):
            return False
        unused = sorted(written - set(used))
        return remove_files(unused, below=(self.location,))

    def _list_of_tasks(self) -> set[str]:
        if not self._wrote_in_tasks:
            return set()
        is_own = partial(is_ingest_file, quarantined=False)
        named = storage.list_named_files(self.location, name_ingest_folder(self.erasure_id), is_own)
        return {entry.uri for entry in named.files}

    def _choose_folder(self) -> str:
        # One of its own, so that no name is used twice whatever was written before.
        self._versions += 1
        return storage.join(locate_ingest_folder(self.location, self.erasure_id), f"erasure-{self._versions}")

    def _note(self, segment: Segment, written: tuple[Segment, ...]) -> None:
        self.written[segment.path] = written
        self._paths.update(each.path for each in written)

    def _write_in_tasks(
        self, missing: Sequence[tuple[Segment, str, frozenset[int]]], left_log: Sequence[RetiredFile]
    ) -> None:
        self._wrote_in_tasks = True
        found = self.tasks.rewrite(missing, [(file.path, file.size_bytes) for file in left_log])
        self.scans.digests.update((path, each.sha256) for path, each in found.items())
        for segment, *_ in missing:
            self._note(segment, found[segment.path].segments)

    def _write_one(self, segment: Segment, folder: str, offsets: frozenset[int]) -> tuple[Segment, ...]:
        try:
            return rewrite_without_keys(segment, self.scans.wanted, offsets, folder, self.location)
        except DamagedSegmentError as problem:
            raise make_damage_error(self.scans.topic, segment, str(problem), NOTHING_ERASED) from problem
        except FileNotFoundError as problem:
            raise make_damage_error(self.scans.topic, segment, "is missing", NOTHING_ERASED) from problem

    def _judge(self, holding: Sequence[Segment], made: Mapping[str, tuple[Segment, ...]]) -> None:
        names = frozenset([*made, *(each.path for after in made.values() for each in after)])
        if not holding or names == self._judged:
            return
        topic = self.scans.topic
        parts = []
        by_partition: dict[int, list[Segment]] = {}
        for segment in holding:
            by_partition.setdefault(segment.partition, []).append(segment)
        for partition, mine in sorted(by_partition.items()):
            parts.append(
                ErasedPartition(
                    partition,
                    tuple((segment, made[segment.path]) for segment in mine),
                    records=sum(self.scans.live[segment.path].records for segment in mine),
                    tombstones=tuple(sorted({offset for segment in mine for offset in self._offsets[segment.path]})),
                )
            )
        if self.tasks.is_wanted_for(sum(segment.size_bytes for segment in holding)):
            rows = self.tasks.check(parts)
        else:
            rows = compute_erasure_facts(topic, parts, self.scans.wanted, self.installation.budget)
        verdict = validate_fact_table(
            rows,
            plan_id=self.erasure_id,
            topic=topic,
            attempt=SUITE,
            checked_at_ms=self.installation.now_ms(),
            suite=SUITE,
            data_docs=self.installation.settings.data_docs,
        )
        if not verdict.passed:
            error = ValidationBrokenError if verdict.broken else ValidationFailedError
            raise error(
                f"Keys of topic {topic} were not erased: {describe_failures(verdict.failures, topic)}.",
                left=NOTHING_ERASED,
                next="Run it again; if that repeats, look for damage with winnow scrub, and report it as a defect.",
            )
        self._judged = names
