"""Writes segments again without erased keys, where nobody reads, and has both computations judged before any commit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from winnow.engine.key_erasure import rewrite_without_keys
from winnow.errors import DamagedSegmentError, ValidationBrokenError, ValidationFailedError
from winnow.files import storage
from winnow.files.checked_reading import make_damage_error
from winnow.files.quarantine_files import locate_ingest_folder
from winnow.pipeline.compaction.validate import describe_failures
from winnow.pipeline.erase.scan import KeyScans
from winnow.pipeline.ingest.commit import remove_files
from winnow.pipeline.installation import Installation
from winnow.quality.erasure_facts import NOTHING_ERASED, ErasedPartition, compute_erasure_facts
from winnow.quality.validation import validate_fact_table
from winnow.values.model import Segment

SUITE = "erasure"
Tombstones = Mapping[int, set[int]]
"""Per partition the offsets of erased records that stay as tombstones."""


@dataclass
class Rewriting:
    """The segments that an erasure has written, by the one that each takes the place of.

    ``erasure_id``: names the folder of its files, as that of an ingest call. ``location``: the table's.
    """

    installation: Installation
    scans: KeyScans
    erasure_id: str
    location: str
    written: dict[str, tuple[Segment, ...]] = field(default_factory=dict)
    _offsets: dict[str, frozenset[int]] = field(default_factory=dict)
    _paths: set[str] = field(default_factory=set)
    _judged: frozenset[str] = frozenset()
    _versions: int = 0

    @property
    def _keys(self) -> pa.Array:
        return self.scans.keys

    def write(self, holding: Sequence[Segment], tombstones: Tombstones) -> dict[str, tuple[Segment, ...]]:
        """Write what is missing, have all of it judged, and return it by path of the segment that is replaced.

        Raises:
            ValidationFailedError: the result is wrong; nothing was committed.
            DamagedSegmentError: a segment is not what was written.
            ServiceError: the object store does not answer.
        """
        for segment in holding:
            offsets = frozenset(
                offset
                for offset in tombstones.get(segment.partition, ())
                if segment.first_offset <= offset <= segment.last_offset
                and offset in self.scans.live[segment.path].newest.values()
            )
            if self._offsets.get(segment.path) == offsets and segment.path in self.written:
                continue
            self._offsets[segment.path] = offsets
            self.written[segment.path] = written = self._write_one(segment, offsets)
            self._paths.update(each.path for each in written)
        made = {segment.path: self.written[segment.path] for segment in holding}
        storage.sync(each.path for after in made.values() for each in after)
        self._judge(holding, made)
        return made

    def remove_unused(self, used: Collection[str] = ()) -> bool:
        """Remove what was written but is not ``used`` by a commit; return whether all of it is gone.

        An earlier turn of the commit loop may have written a segment that another process removed meanwhile, with keys
        that it erased.
        """
        paths = sorted(self._paths - set(used))
        self.written.clear()
        return remove_files(paths, below=(self.location,))

    def _write_one(self, segment: Segment, offsets: frozenset[int]) -> tuple[Segment, ...]:
        # A folder of its own, so that no name is used twice whatever was written before.
        self._versions += 1
        folder = storage.join(
            locate_ingest_folder(self.location, self.erasure_id), f"erasure-{self._versions}", f"t{segment.partition}"
        )
        try:
            # Of a million keys a segment holds a few; the second computation looks for all of them.
            here = pa.array(list(self.scans.live[segment.path].newest), pa.binary())
            return rewrite_without_keys(segment, here, offsets, folder, self.location)
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
                    [(segment, made[segment.path]) for segment in mine],
                    records=sum(self.scans.live[segment.path].records for segment in mine),
                    tombstones=sorted({offset for segment in mine for offset in self._offsets[segment.path]}),
                )
            )
        rows = compute_erasure_facts(topic, parts, self._keys, budget=self.installation.budget)
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
