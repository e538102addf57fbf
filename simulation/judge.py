"""Judges every commit of the topic's table: what readers see, against what was acknowledged.

What waits in the quarantine, having no key, counts as read: it is in one of the two, once. The judge reads the tables
itself (:mod:`simulation.table_reader`), and knows three things from the steps: which records a
process appends, which offsets someone asked to delete, which configurations there were. A commit is acknowledged at the
moment at which the catalog's row names it, whatever its process hears of it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

from simulation.choices import SKEWS_MS
from simulation.erasures import ErasedKeys, ErasureRequest
from simulation.past import Past
from simulation.source import PARTITIONS, SourceRecord
from simulation.table_reader import Snapshot, TableReader, find_path
from winnow.engine.erasure_plans import ERASE_JOB
from winnow.engine.job_notes import NOTES
from winnow.log.sql_catalog import MAXIMUM_COMMIT_AGE_MS

RecordId = tuple[int, int]
"""Partition and offset."""

_VERSION_BYTES: Final = 8
_TOLERANCE_MS: Final = 2 * max(SKEWS_MS) + 60_000
"""How much earlier than the true time allows something may happen: clocks differ by so much."""


class BrokenPromiseError(AssertionError):
    """Something that Winnow promises does not hold."""


class Judge:
    """Judges one topic.

    Args:
        read_true_ms: the world's clock.
        config: the topic's configuration.
        originals: what is in files of which a byte has changed since.
        find_quarantine: finds the metadata file that the catalog names for the quarantine; None: there is none.
    """

    def __init__(
        self,
        read_true_ms: Callable[[], int],
        config: Mapping[str, str],
        originals: Mapping[Path, bytes],
        find_quarantine: Callable[[], Path | None],
    ) -> None:
        self._read_true_ms = read_true_ms
        self._find_quarantine = find_quarantine
        self._quarantined: frozenset[RecordId] = frozenset()
        self._reader = TableReader(originals)
        self._expected: dict[str, dict[RecordId, SourceRecord]] = {}
        self._undoing: set[str] = set()
        self._taking_back: set[str] = set()
        self._removing: set[str] = set()
        self._from_before: frozenset[str] = frozenset()
        self._config = config
        self._past = Past()
        self._erasures = ErasedKeys()
        self._erased_files: dict[Path, str] = {}
        self._log_ends = dict.fromkeys(range(PARTITIONS), 0)
        self._deletable = dict.fromkeys(range(PARTITIONS), 0)
        self._retentions_ms = {int(config.get("retention.ms", "-1"))} if "delete" in config["cleanup.policy"] else {-1}
        self._strategy = config.get("compaction.strategy", "offset")
        self._late_arrival_ms = int(config.get("winnow.late.arrival.ms", "0")) if self._strategy != "offset" else 0
        self._delete_retentions_ms = {int(config.get("delete.retention.ms", "86400000"))}
        self._graces_ms = {int(config.get("winnow.retired.grace.ms", "86400000"))}
        self.acknowledged: dict[RecordId, SourceRecord] = {}
        self._appended_ms: dict[RecordId, int] = {}
        self.visible: set[RecordId] = set()
        self._undone: set[RecordId] = set()
        self._gone: set[RecordId] = set()
        self._log_starts = dict.fromkeys(range(PARTITIONS), 0)
        self._superseded: list[tuple[Snapshot, int]] = []
        self._latest: dict[int, set[RecordId]] = {}
        self._metadata: str | None = None
        self._table_uuid: str | None = None
        self._named_again: set[int] = set()
        self._deleted_at_ms: int | None = None
        self._store_was_older = False
        self._head_is_foreign = False
        self._releasing: set[str] = set()
        self._tags: dict[str, int] = {}
        self._lost: Judge | None = None
        self.lost_backup: tuple[str, str] | None = None
        self.restores = 0
        self.snapshot_id: int | None = None
        self.is_catalog_older = False
        self.is_removed = False
        self.commits = 0

    # ------------------------------------------------------------------------------------------- what steps say

    def expect_records(self, process: str, records: list[SourceRecord]) -> None:
        """``process`` appends these records, or some of them that nobody has appended yet."""
        self._expected[process] = {(record.partition, record.offset): record for record in records}

    def expect_undo(self, process: str) -> None:
        """``process`` takes an ingest back."""
        self._undoing.add(process)

    def expect_taking_back(self, process: str) -> None:
        """``process`` takes a run, or a deletion of records, back."""
        self._taking_back.add(process)

    def expect_erasure(self, process: str, keys: frozenset[bytes], *, with_tombstone: bool = False) -> None:
        """``process`` erases ``keys``, or allows them again."""
        self._erasures.requests[process] = ErasureRequest(keys, with_tombstone)

    def expect_log_start(self, partition: int, offset: int) -> None:
        """Records below ``offset`` may go."""
        self._deletable[partition] = max(offset, self._deletable[partition])

    def expect_configuration(self, overrides: Mapping[str, str]) -> None:
        """The topic may get this configuration."""
        if "delete.retention.ms" in overrides:
            self._delete_retentions_ms.add(int(overrides["delete.retention.ms"]))
        if "winnow.retired.grace.ms" in overrides:
            self._graces_ms.add(int(overrides["winnow.retired.grace.ms"]))

    def expect_removal(self, process: str) -> None:
        """``process`` removes the topic, without a grace."""
        self._removing.add(process)

    def expect_release(self, process: str) -> None:
        """``process`` may remove tags that pin snapshots."""
        self._releasing.add(process)

    def is_of_another_topic(self, metadata_location: str) -> bool:
        """Whether a commit is that of a topic of the same name, created since the one that is judged was removed."""
        if not self.is_removed or self._metadata is None:
            return False
        return self._reader.read_table_uuid(metadata_location) != self._table_uuid

    def make_successor(self, running: Collection[str]) -> Judge:
        """Make the judge of another topic of this name: the ``running`` processes may have meant this one.

        What steps say of what they are about to do counts for both.
        """
        new = Judge(self._read_true_ms, self._config, self._reader.originals, self._find_quarantine)
        new._expected, new._undoing, new._taking_back = self._expected, self._undoing, self._taking_back
        new._removing, new._deletable, new._graces_ms = self._removing, self._deletable, self._graces_ms
        new._delete_retentions_ms = self._delete_retentions_ms
        new._erasures.requests = self._erasures.requests
        new._from_before = frozenset(running)
        new._store_was_older, new.commits = self._store_was_older, self.commits
        return new

    def make_copy(self) -> Judge:
        """Make one that knows what this one knows now."""
        made = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict | set | list):
                setattr(made, name, value.copy())
        made._past, made._erasures = copy.deepcopy(self._past), copy.deepcopy(self._erasures)
        return made

    def make_restored(self, lost: Judge) -> Judge:
        """Make the judge of what a backup brings back, of the state that this one knows; ``lost``: that of what was.

        What steps said counts still, and what was erased since stays away.
        """
        new = self.make_copy()
        new._reader = TableReader(self._reader.originals)
        new._expected, new._undoing, new._taking_back = lost._expected, lost._undoing, lost._taking_back
        new._removing, new._deletable, new._graces_ms = lost._removing, lost._deletable, lost._graces_ms
        new._delete_retentions_ms = lost._delete_retentions_ms
        new._erasures.requests = lost._erasures.requests
        new._superseded, new._erased_files, new._tags, new._metadata = [], {}, {}, None
        new._releasing = lost._releasing
        new._lost, new.commits, new.restores = lost, lost.commits, lost.restores + 1
        return new

    # ------------------------------------------------------------------------------------------- what happens outside

    def note_older_catalog(self, metadata: Path | None) -> None:
        """Somebody put an older catalog back, which names ``metadata``: nothing else may be committed over that."""
        if self._metadata is not None and metadata is not None:
            known = {each.snapshot_id for each in self._snapshots()}
            older = self._reader.list_snapshots(str(metadata))
            self._named_again |= {each.snapshot_id for each in older} - known
        if self._metadata is not None and metadata != find_path(self._metadata):
            self.is_catalog_older, self._head_is_foreign = True, False
            self._past.forget()

    def note_lost_lake(self, destination: str, backup_id: str) -> None:
        """Everything is lost but a backup."""
        self.lost_backup = destination, backup_id

    def note_older_store(self) -> None:
        """Somebody put an older metadata store back: files that only it knew may stay."""
        self._store_was_older = True

    def note_foreign_commit(self, metadata_location: str) -> None:
        """Another engine committed; over a snapshot of its own nothing of Winnow's may follow."""
        if self.is_catalog_older:
            return
        before = self._snapshots()
        self._metadata = metadata_location
        current = self._snapshots()[-1:]
        self._head_is_foreign = bool(current) and current[0].state_path is None
        if before and current and before[-1].snapshot_id != current[0].snapshot_id:
            self._superseded.append((before[-1], self._read_true_ms()))

    # ------------------------------------------------------------------------------------------- each commit

    def judge_commit(self, process: str, metadata_location: str) -> str:
        """Judge the commit that ``process`` has just made; return what it did, in a few words.

        Raises:
            BrokenPromiseError: it did something that Winnow promises not to do.
        """
        self.commits += 1
        before = self._snapshots()
        after = self._reader.list_snapshots(metadata_location)
        if self._head_is_foreign and (not before or before[-1].snapshot_id != after[-1].snapshot_id):
            raise BrokenPromiseError("The commit is one over another engine's snapshot.")
        self._judge_tags(process, metadata_location, {each.snapshot_id for each in after})
        self._metadata, self._table_uuid = metadata_location, self._reader.read_table_uuid(metadata_location)
        if not after:
            return "an empty table"
        if self._head_is_foreign:
            return "a tag"
        current = after[-1]
        if before and before[-1].snapshot_id != current.snapshot_id:
            self._superseded.append((before[-1], self._read_true_ms()))
        if self._is_removal(process, current):
            return "remove-topic: the topic is gone for good"
        partitions = self._reader.read_state(current)
        starts = {number: int(partition["log_start_offset"]) for number, partition in partitions.items()}
        in_log, quarantined = self._read_content(current, starts)
        content = {**in_log, **quarantined}
        visible = {
            place: record for place, record in content.items() if place[1] >= starts[place[0]] or place in quarantined
        }
        ends = {number: int(partition["log_end_offset"]) for number, partition in partitions.items()}
        self._judge_erasures(current, content, starts, ends)
        appended, removed = visible.keys() - self.visible, self.visible - visible.keys()
        came, went = len(appended), len(removed)
        if process in self._undoing and not appended:
            self._accept_undone(removed)
        if process in self._taking_back and current.operation == "undo":
            self._judge_taken_back(current, content.keys(), starts)
            self.visible |= appended
            self._gone -= appended
            appended, removed = set(), self.visible - visible.keys()
        if self._lost is not None:
            self._judge_restored(self._lost, content)
            self._lost = None
        self._judge_appended(process, {place: visible[place] for place in appended}, partitions)
        self._judge_log_starts(process, starts, visible, quarantined)
        self._judge_removed(removed, visible)
        if current.snapshot_id != self.snapshot_id and (not before or before[-1].snapshot_id != current.snapshot_id):
            self._judge_receipt(current, content.keys(), starts, quarantined)
            self._note_change(current, content.keys(), starts)
        self._judge_still_erased(content.keys())
        self._latest[current.snapshot_id] = self._find_latest(visible)
        self.visible, self._log_ends, self._quarantined = set(visible), ends, frozenset(quarantined)
        self._gone |= removed
        self.is_catalog_older, self.snapshot_id = False, current.snapshot_id
        words = current.operation or "a commit"
        changes = f"+{came} -{went} records" if came or went else "the same records"
        return f"{words}: {changes}, {len(visible)} visible"

    def judge_latest_commit(self, metadata_location: str) -> str:
        """Judge a commit of the table of the latest state: a row for each key that is live in the log that it reflects.

        Raises:
            BrokenPromiseError: a row is missing, is there twice, or is another.
        """
        snapshots = self._reader.list_snapshots(metadata_location)
        if not snapshots or snapshots[-1].reflected_id is None:
            return "the table of the latest state"
        rows = self._reader.read_places(snapshots[-1])
        expected = self._latest.get(snapshots[-1].reflected_id)
        if expected is not None and sorted(rows) != sorted(expected):
            wrong = sorted(expected ^ set(rows)) or sorted(rows)
            raise BrokenPromiseError(
                f"The table of the latest state has {len(rows)} rows instead of {len(expected)}; {_name(wrong[0])} is "
                "wrong."
            )
        return f"the table of the latest state: {len(rows)} rows"

    def judge_latest_table(self, metadata_location: str) -> None:
        """Judge that the table of the latest state shows what readers of the log see now.

        Raises:
            BrokenPromiseError: it does not.
        """
        self.judge_latest_commit(metadata_location)
        rows = self._reader.read_places(self._reader.list_snapshots(metadata_location)[-1])
        if set(rows) != self._find_latest(self.visible):
            raise BrokenPromiseError("The table of the latest state does not show the newest snapshot of the log.")

    def _find_latest(self, places: Iterable[RecordId]) -> set[RecordId]:
        winners = {place: self.acknowledged[place] for place in self._find_winners(places).values()}
        return {place for place, each in winners.items() if each.value is not None and each.key is not None}

    def _judge_tags(self, process: str, metadata_location: str, snapshot_ids: Collection[int]) -> None:
        """Judge that a pinned snapshot stays until somebody releases it."""
        tags = self._reader.read_tags(metadata_location)
        lost = sorted(self._tags.keys() - tags.keys())
        if lost and process not in self._releasing and not self.is_catalog_older:
            raise BrokenPromiseError(f"The tag {lost[0]} is gone, and the snapshot that it pinned.")
        for tag, snapshot_id in tags.items():
            if snapshot_id not in snapshot_ids:
                raise BrokenPromiseError(f"The tag {tag} pins a snapshot that is gone.")
        self._tags = tags

    def _is_removal(self, process: str, snapshot: Snapshot) -> bool:
        """Whether a commit removes a topic whose time of grace has passed since somebody deleted it."""
        match snapshot.operation:
            case "delete-topic":
                self._deleted_at_ms = self._deleted_at_ms or self._read_true_ms()
            case "restore-topic":
                self._deleted_at_ms = None
            case "remove-topic":
                grace_ms = min(self._graces_ms) - _TOLERANCE_MS
                age_ms = None if self._deleted_at_ms is None else self._read_true_ms() - self._deleted_at_ms
                if process not in self._removing and (age_ms is None or age_ms < grace_ms):
                    raise BrokenPromiseError("The topic was removed before its time of grace had passed.")
                self.is_removed = True
        return self.is_removed

    def _snapshots(self) -> list[Snapshot]:
        if self._metadata is None:
            return []
        try:
            return self._reader.list_snapshots(self._metadata)
        except (FileNotFoundError, ValueError) as problem:
            what = "gone" if isinstance(problem, FileNotFoundError) else "torn"
            raise BrokenPromiseError(f"{Path(self._metadata).name} is {what}, and the catalog names it.") from None

    def _read_content(
        self, snapshot: Snapshot, starts: Mapping[int, int]
    ) -> tuple[dict[RecordId, SourceRecord], dict[RecordId, SourceRecord]]:
        """Read the log and its quarantine."""
        in_log = _index(self._reader.read_records(snapshot))
        table = self._find_quarantine()
        quarantined = {} if table is None else _index(self._reader.read_quarantined(str(table), snapshot))
        for place in sorted(in_log.keys() & quarantined.keys()):
            if place[1] >= starts[place[0]]:
                raise BrokenPromiseError(f"{_name(place)} is in the log and in the quarantine.")
        for place, record in quarantined.items():
            if record.key is not None:
                raise BrokenPromiseError(f"{_name(place)} has a key and is in the quarantine.")
        return in_log, quarantined

    def _note_change(self, snapshot: Snapshot, content: Collection[RecordId], starts: Mapping[int, int]) -> None:
        name = snapshot.plan_id
        if snapshot.operation == "delete-records":
            name = self._reader.read_newest_deletion(snapshot)
        undone = self._reader.read_undone(snapshot)
        self._past.note(name, content, starts, undone)

    def _judge_receipt(
        self,
        snapshot: Snapshot,
        content: Collection[RecordId],
        starts: Mapping[int, int],
        quarantined: Collection[RecordId],
    ) -> None:
        """Judge that a receipt counts what its run removed."""
        if snapshot.plan_id is None or not self._past.is_known:
            return
        removed = self._past.find_removed(content)
        for partition, part in self._reader.read_newest_receipt(snapshot).items():
            moved = sum(place[0] == partition for place in set(quarantined) - self._quarantined)
            if part["records_keyless"] != moved:
                raise BrokenPromiseError(
                    f"A receipt says that {part['records_keyless']} records of partition {partition} had no key; "
                    f"{moved} came to the quarantine."
                )
            counted = part["records_superseded"] + part["tombstones_expired"]
            judged = sum(place[0] == partition and place[1] >= starts[partition] for place in removed)
            retired = sum(place[0] == partition and place[1] < starts[partition] for place in removed)
            if counted != judged or part["records_retired"] > retired:
                raise BrokenPromiseError(
                    f"A receipt says that {counted} records of partition {partition} were removed and "
                    f"{part['records_retired']} retired; {judged} and {retired} are gone."
                )

    def _judge_restored(self, lost: Judge, content: Mapping[RecordId, SourceRecord]) -> None:
        """Judge that what a backup brought back lacks what was erased since."""
        for place, record in content.items():
            if lost._erasures.must_stay_away(record):
                raise BrokenPromiseError(f"{_name(place)} was erased, and is back with the backup.")

    def _judge_taken_back(self, snapshot: Snapshot, content: Collection[RecordId], starts: Mapping[int, int]) -> None:
        """Judge that the log is as if what was taken back had never been."""
        if not self._past.is_known:
            self._log_starts = {number: min(starts[number], start) for number, start in self._log_starts.items()}
            return
        newly = self._reader.read_undone(snapshot) - self._past.undone
        if not newly:
            raise BrokenPromiseError("The commit takes back what was taken back.")
        for partition in {number for _, number in newly}:
            names = {name for name, number in newly if number == partition}
            expected = self._past.find_content(names, partition) & self.acknowledged.keys()
            found = {place for place in content if place[0] == partition}
            start = self._past.find_log_start(names, partition)
            for place in sorted(expected ^ found):
                if place[1] >= start:
                    what = "is not back" if place in expected else "came with it"
                    raise BrokenPromiseError(f"{_name(place)} {what}, and something was taken back.")
            if start != starts[partition]:
                raise BrokenPromiseError(f"Partition {partition} begins at {starts[partition]} instead of {start}.")
            self._log_starts[partition] = start

    def _judge_erasures(
        self,
        snapshot: Snapshot,
        content: Mapping[RecordId, SourceRecord],
        starts: Mapping[int, int],
        ends: Mapping[int, int],
    ) -> None:
        """Judge what the erasures did that this commit brings, as somebody asked for them.

        An older state gets all that it lacks at once, without tombstones, and a document that nobody asked for.
        """
        requests = self._erasures.requests
        documents = [
            each for each in self._reader.read_erasures(snapshot) if each["erasure_id"] not in self._erasures.known
        ]
        self._erasures.known |= {document["erasure_id"] for document in documents}
        asked = [document for document in documents if document["reason"] in requests]
        for number, document in enumerate(asked):
            request = requests[document["reason"]]
            if document.get("lifts"):
                self._erasures.lift(request.keys)
                continue
            if len(asked) < len(documents):
                lifts = [requests[each["reason"]].keys for each in asked[number:] if each.get("lifts")]
                request = ErasureRequest(request.keys.difference(*lifts))
            erased = self._judge_erased(request, content, starts, is_alone=snapshot.operation == "erase")
            self._note_erased_files(document["reason"], request.keys)
            self._erasures.erase(document["reason"], document["at_ms"], ends, erased)
        self._erasures.lower_ends(ends)

    def _judge_erased(
        self,
        request: ErasureRequest,
        content: Mapping[RecordId, SourceRecord],
        starts: Mapping[int, int],
        *,
        is_alone: bool,
    ) -> set[RecordId]:
        """Judge that all records of the keys are gone, and no other one is; return where they were."""
        before = self._past.content
        erased = {place for place in before if self.acknowledged[place].key in request.keys}
        newest = {(place[0], self.acknowledged[place].key): place for place in sorted(erased)}
        stays = {place for place in newest.values() if request.with_tombstone and place[1] >= starts[place[0]]}
        for place in sorted(before ^ (content.keys() | erased)):
            if is_alone:
                raise BrokenPromiseError(f"{_name(place)} came or went with keys that were erased.")
        for place, record in content.items():
            if is_alone and place not in erased and record != self.acknowledged[place]:
                raise BrokenPromiseError(f"{_name(place)} is another record since keys were erased.")
            if record.key in request.keys and (place not in stays or record.value is not None):
                raise BrokenPromiseError(f"{_name(place)} is there, and its key was erased.")
        for place in sorted(stays - content.keys()):
            raise BrokenPromiseError(f"{_name(place)} is no tombstone, and one was asked for.")
        for place in erased:
            del self.acknowledged[place]
        for place in stays:
            self.acknowledged[place] = content[place]
            self._appended_ms[place] = self._read_true_ms()
        self.visible -= erased - stays
        return erased - stays

    def _note_erased_files(self, process: str, keys: Collection[bytes]) -> None:
        """Note the data files of all known snapshots but the newest that hold one of ``keys``."""
        for snapshot in [*self._snapshots()[:-1], *(snapshot for snapshot, _ in self._superseded)]:
            # What another engine appended is no record of the source.
            for path in self._reader.list_data_files(snapshot) if snapshot.state_path is not None else ():
                if any(record.key in keys for record in self._reader.read_file(path)):
                    self._erased_files.setdefault(path, process)

    def _judge_still_erased(self, content: Collection[RecordId]) -> None:
        self._erasures.places -= self.acknowledged.keys()
        for place in sorted(self._erasures.places.intersection(content)):
            raise BrokenPromiseError(f"{_name(place)} was erased and is back.")

    def _accept_undone(self, removed: set[RecordId]) -> None:
        for place in removed:
            del self.acknowledged[place]
        self._past.remove(removed)
        self._undone |= removed
        self.visible -= removed
        removed.clear()

    def _judge_appended(
        self, process: str, appended: Mapping[RecordId, SourceRecord], partitions: Mapping[int, Mapping[str, Any]]
    ) -> None:
        expected: Mapping[RecordId, SourceRecord] = self._expected.get(process, {})
        if self.is_catalog_older and not expected:
            # A recovery takes the one commit over the newest that is known, whose process may have been told of it.
            expected = self._find_attempted(set(appended))
        for place, record in appended.items():
            if place in self.acknowledged and place in self._gone:
                raise BrokenPromiseError(f"{_name(place)} was removed and is back.")
            if self._erasures.is_old_copy(record):
                raise BrokenPromiseError(f"{_name(place)} is an old copy of an erased key, and was appended.")
            if expected.get(place) != record:
                raise BrokenPromiseError(f"{_name(place)} was never appended as it is read now.")
            self.acknowledged[place] = record
            self._appended_ms[place] = self._read_true_ms()
            self._gone.discard(place)
        if appended:
            missing = [
                place
                for place, record in expected.items()
                if place not in self.acknowledged
                and place[1] >= int(partitions[place[0]]["log_start_offset"])
                and not self._erasures.is_old_copy(record)
                and not (place[1] < self._log_ends[place[0]] and self._erasures.was_old_copy(record))
            ]
            if missing:
                raise BrokenPromiseError(f"{_name(missing[0])} of the same file was not appended.")

    def _find_attempted(self, appended: set[RecordId]) -> Mapping[RecordId, SourceRecord]:
        """Find the records of the ingest that has all of ``appended``; empty: there is none."""
        return next((records for records in self._expected.values() if appended <= records.keys()), {})

    def _judge_log_starts(
        self,
        process: str,
        starts: Mapping[int, int],
        visible: Collection[RecordId],
        quarantined: Collection[RecordId],
    ) -> None:
        for partition, start in starts.items():
            is_emptied = process in self._undoing and all(place[0] != partition for place in visible)
            if start < self._log_starts[partition] and not is_emptied:
                raise BrokenPromiseError(f"The log start of partition {partition} went back to {start}.")
            for place, record in self.acknowledged.items():
                if place[0] != partition or not self._log_starts[partition] <= place[1] < start:
                    continue
                if place in quarantined:
                    continue
                if place[1] >= self._deletable[partition] and not self._is_out_of_retention(record):
                    raise BrokenPromiseError(f"{_name(place)} lies below the log start, and nobody asked for that.")
        self._log_starts = dict(starts)

    def _is_out_of_retention(self, record: SourceRecord) -> bool:
        age_ms = self._read_true_ms() + _TOLERANCE_MS - record.timestamp_ms
        return any(retention_ms >= 0 and age_ms > retention_ms for retention_ms in self._retentions_ms)

    def _judge_removed(self, removed: set[RecordId], visible: Collection[RecordId]) -> None:
        winners = self._find_winners({*self.visible, *visible})
        minimum_age_ms = max(self._late_arrival_ms, min(self._delete_retentions_ms))
        for place in sorted(removed):
            record = self.acknowledged[place]
            if place in self._quarantined:
                raise BrokenPromiseError(f"{_name(place)} has no key, and the quarantine lost it.")
            if place[1] < self._log_starts[place[0]] or winners[self._identify(place)] != place:
                continue
            age_ms = self._read_true_ms() + _TOLERANCE_MS - self._appended_ms[place]
            if record.value is not None:
                raise BrokenPromiseError(f"{_name(place)}, the winner of its key, was removed.")
            if age_ms < minimum_age_ms:
                raise BrokenPromiseError(f"{_name(place)}, a tombstone, was removed too early.")
            for other in visible:
                # What is appended later than a tombstone may go is a new record, whatever its version.
                waited_ms = self._appended_ms[other] + _TOLERANCE_MS - self._appended_ms[place]
                is_of_key = other[0] == place[0] and self.acknowledged[other].key == record.key
                if is_of_key and waited_ms < minimum_age_ms:
                    raise BrokenPromiseError(f"{_name(other)} is back: its tombstone at {place[1]} was removed before.")

    def _find_winners(self, places: Iterable[RecordId]) -> dict[tuple[int, bytes | int], RecordId]:
        """Find the record of each key that must survive, of those at ``places``; without a key, each one must."""
        winners: dict[tuple[int, bytes | int], RecordId] = {}
        for place in places:
            key = self._identify(place)
            winners[key] = max(place, winners.get(key, place), key=self._rank)
        return winners

    def _identify(self, place: RecordId) -> tuple[int, bytes | int]:
        key = self.acknowledged[place].key
        return place[0], place[1] if key is None else key

    def _rank(self, place: RecordId) -> tuple[int, ...]:
        """Return what decides between two versions of a key, as the topic's strategy has it; then the offset."""
        record = self.acknowledged[place]
        match self._strategy:
            case "timestamp":
                return record.timestamp_ms, place[1]
            case "header":
                is_number = record.version is not None and len(record.version) == _VERSION_BYTES
                number = int.from_bytes(record.version or b"", "big", signed=True) if is_number else 0
                return is_number, number, place[1]
            case _:
                return (place[1],)

    # ------------------------------------------------------------------------------------------- at rest

    def judge_ended_ingest(self, process: str) -> None:
        """Judge an ingest that said that it succeeded.

        Raises:
            BrokenPromiseError: a record of its file is not in the log.
        """
        for place, record in {} if process in self._from_before else self._expected.get(process, {}).items():
            is_known = place in self.acknowledged or place in self._undone or self._erasures.was_old_copy(record)
            if not is_known and place[1] >= self._log_starts[place[0]]:
                raise BrokenPromiseError(f"{_name(place)} is not in the log, and {process} said that it is.")

    def judge_ended_erasure(self, process: str) -> None:
        """Judge an erasure that said that it succeeded.

        Raises:
            BrokenPromiseError: a file that held an erased key is still there.
        """
        left = [path for path, by in self._erased_files.items() if by == process and path.exists()]
        if left:
            raise BrokenPromiseError(f"{left[0].name} is there, and {process} said that it is deleted.")

    def judge_erased_files(self, home: Path) -> None:
        """Judge that no file anywhere holds an erased record.

        But scratch files: those of killed processes go when the next one begins, and here all are one process.

        Raises:
            BrokenPromiseError: one does.
        """
        if self._store_was_older or not self._erasures.places:
            return
        for path in sorted(set(home.rglob("*.parquet")) - set((home / "spill").rglob("*"))):
            for record in self._reader.read_keys(path):
                if record[:2] in self._erasures.places and record[2] in self._erasures.keys:
                    raise BrokenPromiseError(f"{path.relative_to(home)} holds {_name(record[:2])}, which was erased.")

    def judge_files(self) -> None:
        """Judge that every file is there which a reader may need: of kept snapshots, and for the time of grace.

        An erasure waits for no grace: a snapshot that names a file with an erased key may go at once.

        Raises:
            BrokenPromiseError: one is gone.
        """
        now_ms = self._read_true_ms()
        grace_ms = min(self._graces_ms) - _TOLERANCE_MS - MAXIMUM_COMMIT_AGE_MS
        self._superseded = [(snapshot, at_ms) for snapshot, at_ms in self._superseded if now_ms - at_ms < grace_ms]
        kept = [each for each, _ in self._superseded if not self._names_erased_file(each)]
        # What was expired, and is named again by a catalog that was put back, may be gone until it is expired again.
        named = [each for each in self._snapshots() if each.snapshot_id not in self._named_again]
        for snapshot in [*named, *kept]:
            for path in (*self._reader.list_files(snapshot), snapshot.state_path):
                if path is not None and not path.exists():
                    raise BrokenPromiseError(f"{path.name} is gone, and snapshot {snapshot.snapshot_id} names it.")

    def _names_erased_file(self, snapshot: Snapshot) -> bool:
        return not self._erased_files.keys().isdisjoint(self._reader.list_data_files(snapshot))

    def judge_orphans(self, table_folder: Path, foreign: Collection[Path]) -> None:
        """Judge that no data file lies there that no kept snapshot names, but those that are ``foreign``.

        Raises:
            BrokenPromiseError: one does.
        """
        if self._store_was_older:
            return
        named = set(foreign) | {
            path for snapshot in self._snapshots() for path in self._reader.list_data_files(snapshot)
        }
        orphans = sorted(set((table_folder / "data").rglob("*.parquet")) - named)
        if orphans:
            raise BrokenPromiseError(f"{orphans[0].relative_to(table_folder)} is named by nothing and stays.")

    def judge_job_documents(self, staging: Path) -> None:
        """Judge that no note of a job lies there, and no plan or result of one whose tasks erased.

        Raises:
            BrokenPromiseError: one does.
        """
        left = [path for folder in (NOTES, ERASE_JOB) for path in (staging / folder).rglob("[!.]*.json")]
        if left:
            raise BrokenPromiseError(f"{left[0].relative_to(staging)} stays in the staging area.")

    def judge_reading(self, rows: list[dict[str, Any]]) -> None:
        """Judge what Winnow's own reader returns, offset by offset.

        Raises:
            BrokenPromiseError: it is not what lies in the table.
        """
        if _list_contents(rows) != self._list_acknowledged(self.visible - self._quarantined):
            raise BrokenPromiseError(f"Winnow reads {len(rows)} records, and others are there.")

    def judge_quarantine(self, rows: list[dict[str, Any]]) -> None:
        """Judge what Winnow's own reader returns of the records that have no key.

        Raises:
            BrokenPromiseError: it is not what lies in the quarantine.
        """
        if _list_contents(rows) != self._list_acknowledged(self._quarantined):
            raise BrokenPromiseError(f"Winnow reads {len(rows)} quarantined records, and others are there.")

    def _list_acknowledged(self, places: Collection[RecordId]) -> list[tuple[object, ...]]:
        known = self.acknowledged
        return [(*place, known[place].key, known[place].value) for place in sorted(places)]


def _list_contents(rows: Iterable[Mapping[str, Any]]) -> list[tuple[object, ...]]:
    contents = ((row["partition"], row["offset"], row["key"], row["value"]) for row in rows)
    return sorted(contents, key=itemgetter(0, 1))


def _index(records: Iterable[SourceRecord]) -> dict[RecordId, SourceRecord]:
    found: dict[RecordId, SourceRecord] = {}
    for record in records:
        place = record.partition, record.offset
        if place in found:
            raise BrokenPromiseError(f"{_name(place)} is there twice.")
        found[place] = record
    return found


def _name(place: RecordId) -> str:
    return f"Offset {place[1]} of partition {place[0]}"
