"""Models one partition's log as a list of files: append, assess, compact, retention, as Kafka does it.

This module is the oracle. It is slow and obvious, imports nothing of the code it checks, and defines what the words
mean. Where it and the engine differ, one of them is wrong.

*The log.* A partition log is a list of records with rising offsets. An offset is assigned once, never changed, never
reused; gaps are legal. Compaction removes records. It never reorders, changes or adds one, and the log end offset
stays what it was. Keys meet within one topic partition only.

*Clean and dirty.* The cleaner checkpoint is the first dirty offset: everything below it, the clean section or tail,
has been covered by a finished cleaning; everything at or above it is the dirty section or head. A checkpoint outside
[log start, log end] is ignored, and the whole log is dirty (KAFKA-6266).

*Cleanable.* A cleaning covers the log up to the first uncleanable offset, which is the lowest of: the beginning of the
active segment; the beginning of the first closed dirty file with a record younger than min.compaction.lag.ms; the log
end. What lies between the first dirty and the first uncleanable offset is cleanable. Files are cleaned whole: where a
checkpoint lies inside a file that is not cleanable, the cleaning ends before that file. The dirty ratio is cleanable
bytes over clean plus cleanable bytes, of whole files, so the file that holds the first dirty offset counts on both
sides. A log is due when the ratio is strictly greater than min.cleanable.dirty.ratio, or when a closed dirty record is
strictly older than max.compaction.lag.ms and anything is cleanable (KIP-354): the minimum lag dominates the maximum.

*Superseded.* Among the records of one key below the first uncleanable offset, over tail and head together, exactly one
survives: the greatest by the strategy's total order (KIP-280). The others are superseded.

- offset: (offset)
- timestamp: (timestamp, offset); a missing timestamp is -1
- header: (version present, version, offset); the version is the last occurrence of the exact header name, 8 bytes,
  a big-endian signed long; anything else counts as missing

At and above the first uncleanable offset every record stays, regardless of its key.

*Tombstone.* A record with a key and a null value. An empty value or the text "null" is a value. A tombstone takes part
in the order like any record, so the first cleaning that covers both removes the values that it deletes. A tombstone
that wins stays for a time, so that a reader who saw the old value sees the delete too (KIP-534).

*Two phases, one horizon.* Phase one: the first cleaning that covers a tombstone starts its delete horizon, the cleaning
time + delete.retention.ms as configured then. Phase two: a later cleaning at or after the horizon drops it. Hence two
cleanings at least, also with delete.retention.ms=0. The cleaning time is a clock's, never a record's. Kafka stamps the
horizon into the batch; here the cleaning history remembers it: entry i covers the offsets from the previous entry's end
to its own end, and says when. An entry with unknown time (an imported checkpoint) counts as not yet covered.

*Keyless.* A record without a key cannot be compacted. Below the first uncleanable offset it leaves the log, as in
Kafka, but counted on its own.

Beyond Kafka
- The total order spans tail and head, so a late loser never stays beside the winner. Keys are compared byte for byte.
- The active segment is logical: files join the open segment from the first dirty offset on, and it closes by its bytes
  or by the clock, so max.compaction.lag.ms holds on idle partitions.
- The earliest dirty timestamp is the exact minimum; KIP-354's estimates serve only where a file has no timestamp.
- A quiet partition is due when a clean file with null values has passed its horizons, or has an unknown one to start.
- Under timestamp and header a tombstone also fends off late, lower versions; the next paragraph says for how long.
- A changed strategy makes the whole log dirty. Files that were clean stay closed: the active segment never reaches
  below the checkpoint.
- Aborted transactions and control records never enter the log, and no map of bounded size stops a cleaning half way.

*Late, lower versions.* Under timestamp and header a record may arrive that ranks below what is gone already. While a
value of its key survives, the late record loses to it. Where a tombstone won, that tombstone alone remembers how high
the key's versions have been. The guarantee, with L for winnow.late.arrival.ms: a record that a cleaning covered at time
t keeps every record of its key that ranks below it and is appended before t + L from being read below the end of a
later cleaning, as long as the order stays and retention takes nothing. A cleaning simulated ahead of the present moves
the clock for what arrives after it. Three rules give it.

1. A tombstone lives for the longer of delete.retention.ms (then) and L (now) from the first cleaning that covered it
   on, also where that was under another strategy.
2. A tombstone that supersedes a record in a cleaning stays in that cleaning, and lives for L (now) from then on: what
   it superseded may have outranked records that are still to arrive, and nothing else is left of it. In the history
   the tombstone's offset becomes an entry of its own with that cleaning's time; its delete horizon, which is for
   readers, does not move.
3. It goes only in a cleaning that covers every record appended before the end of that life, and supersedes nothing.

Proof. Let x be covered at t, and s rank below it, appended before t + L. Of the winner w of the key after that cleaning
w >= x holds, and if w is a tombstone its entry's time is t or later: it was covered now for the first time (1), or
it superseded x now (2). A record that takes the place of w later ranks above it and is covered for the first time then,
so both still hold for it. Were the last of these winners a tombstone that goes in a cleaning at g: this cleaning covers
s, or an earlier one has (3), and the first that covered s had a winner above s, so s was superseded there. In the
cleaning at g itself that would have kept the tombstone (2, 3). So s is not read below the end of any cleaning.

An earlier form of the rule counted from the first covering only. Then a value that arrived in time to lose, and the
tombstone that it lost to, could leave in one cleaning, and an older value that came the next moment was the latest
of its key: a reader had seen the newer value, then its deletion, and then the older one. Under offset nothing of this
applies, since later records rank higher, nor with L = 0, which means that nothing arrives late.

*Retention.* Whole files leave the log, oldest first, in three scans of which each stops at the first file that does not
qualify (Kafka 2.12): files wholly below the log start, under every policy; then, where the policy has delete, files as
long as the log is larger than retention.bytes by at least their size; then files whose youngest record is older than
retention.ms (strictly). The log start rises behind them. What compaction decides, it decides on what is left, and
retention alone moves no checkpoint. Its clock is the earlier of as-of and the present: a simulated future removes
nothing. A file without timestamps has an age, its append's, only until it is cleaned. Beyond Kafka: retention goes on
for uncleanable logs; under timestamp and header it takes no file that is dirty or holds a tombstone that may not go
yet, since what the file outranks may still arrive; and with winnow.retention.protect.latest the two scans of the delete
policy take nothing but make the log due for a cleaning, so that the latest record of a key stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace

from oracle.model_values import NO_MAX_LAG_MS, ModelAssessment, ModelConfig, ModelFile, count_record_bytes
from oracle.surviving_records import (
    CleaningOutcome,
    advance_history,
    compute_survivors,
    extend_tombstone_lives,
    find_delete_horizon,
    find_history_entry,
    prune_history,
)
from winnow.values.model import ELIGIBLE_REASONS, Reason, Record
from winnow.values.strategies import Strategy
from winnow.values.topic_state import Cleaning


class LogModel:
    """One topic partition as a list of files, with its cleaning history.

    Comparable with the engine: every record, every offset, every decision that rests on files not rewritten yet. Not
    comparable: byte sums, and so dirty ratios, after the first compaction, because the engine chooses which files it
    merges and what they weigh. Here each file keeps its survivors, and an emptied file goes.
    """

    def __init__(
        self, *, log_start_offset: int = 0, size_of: Callable[[Sequence[Record]], int] = count_record_bytes
    ) -> None:
        self.files: list[ModelFile] = []
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_start_offset
        self.first_dirty_offset: int | None = None
        self.history: tuple[Cleaning, ...] = ()
        self.cleaned_with: tuple[Strategy, str | None] | None = None
        self.in_progress = False
        self.uncleanable = False
        self.paused = False
        self._size_of = size_of

    def append(
        self, records: Sequence[Record], as_of_ms: int, size_bytes: int | None = None, now_ms: int | None = None
    ) -> None:
        """Add one file: at least one record, offsets rising from the log end or above."""
        size_bytes = self._size_of(records) if size_bytes is None else size_bytes
        appended_ms = as_of_ms if now_ms is None else min(as_of_ms, now_ms)
        self.files.append(ModelFile(tuple(records), size_bytes, as_of_ms, appended_ms))
        self.log_end_offset = records[-1].offset + 1

    def import_checkpoint(self, offset: int) -> None:
        """Import a first dirty offset from Kafka, at an unknown time.

        Never over a cleaning of our own; over an imported one only by a later one, which has a higher offset.
        """
        of_our_own = any(entry.cleaning_time_ms is not None for entry in self.history) or self.cleaned_with is not None
        if self.first_dirty_offset is None or (not of_our_own and offset > self.first_dirty_offset):
            self.first_dirty_offset = offset
            self.history = (Cleaning(offset, None, None),)

    def delete_records_before(self, offset: int) -> None:
        """Raise the log start offset, to the log end at most. Nothing below it can be read from now on.

        Files wholly below it go at the next run.
        """
        self.log_start_offset = max(self.log_start_offset, min(offset, self.log_end_offset))

    def retired(self, config: ModelConfig, as_of_ms: int, now_ms: int) -> list[ModelFile]:
        """List the files that retention takes now, oldest first."""
        below_start = [file for file in self.files if file.last_offset < self.log_start_offset]
        return below_start + ([] if config.protects_latest and config.compacts else self._due(config, as_of_ms, now_ms))

    def _due(self, config: ModelConfig, as_of_ms: int, now_ms: int) -> list[ModelFile]:
        """List the readable files that are too many or too old, oldest first."""
        left = [file for file in self.files if file.last_offset >= self.log_start_offset]
        due: list[ModelFile] = []
        if config.deletes and config.retention_bytes >= 0:
            excess_bytes = sum(file.size_bytes for file in left) - config.retention_bytes
            while left and excess_bytes >= left[0].size_bytes and self._retirable(left[0], config, as_of_ms, now_ms):
                excess_bytes -= left[0].size_bytes
                due.append(left.pop(0))
        if config.deletes and config.retention_ms >= 0:
            oldest_kept_ms = min(as_of_ms, now_ms) - config.retention_ms
            while (
                left and self._is_older(left[0], oldest_kept_ms) and self._retirable(left[0], config, as_of_ms, now_ms)
            ):
                due.append(left.pop(0))
        return due

    def _is_older(self, file: ModelFile, oldest_kept_ms: int) -> bool:
        return file.youngest_ms is not None and file.youngest_ms < oldest_kept_ms

    def _retirable(self, file: ModelFile, config: ModelConfig, as_of_ms: int, now_ms: int) -> bool:
        if not config.compacts or config.strategy is Strategy.OFFSET or config.protects_latest:
            return True
        first_dirty, _, _ = self._cleanable(config, as_of_ms)
        # What is dirty has not met the tombstone yet. The present alone decides: a simulated future retires nothing.
        holds_tombstones = file.has_null_values and not self._all_passed(file, config, first_dirty, now_ms)
        return file.last_offset < first_dirty and not holds_tombstones

    def _after_retention(self, config: ModelConfig, as_of_ms: int, now_ms: int) -> LogModel:
        """Return this log without the files that retention takes; its log start moves behind them."""
        gone = self.retired(config, as_of_ms, now_ms)
        after = copy(self)
        after.files = self.files[len(gone) :]
        if gone and gone[-1].last_offset >= self.log_start_offset:
            after.log_start_offset = gone[-1].last_offset + 1 if after.files else self.log_end_offset
        return after

    def read(self, from_offset: int = 0) -> list[Record]:
        """Read the records at or above both ``from_offset`` and the log start, in offset order."""
        first = max(from_offset, self.log_start_offset)
        return [record for file in self.files for record in file.records if record.offset >= first]

    def _cleanable(self, config: ModelConfig, as_of_ms: int) -> tuple[int, int, int]:
        """Return the first dirty offset, the first uncleanable offset, and the start of the active segment."""
        checkpoint = self._checkpoint()
        first_dirty = self.log_start_offset if self._strategy_changed(config) else checkpoint
        active = self._active_offset(checkpoint, config, as_of_ms)
        closed = [file for file in self.files if file.last_offset >= first_dirty and file.first_offset < active]
        youngest_cleanable_ms = as_of_ms - config.min_compaction_lag_ms
        too_young = [
            file.first_offset
            for file in closed
            if file.youngest_ms is not None and file.youngest_ms > youngest_cleanable_ms
        ]
        if config.min_compaction_lag_ms == 0:
            too_young = []
        return first_dirty, max(first_dirty, min([active, *too_young])), active

    def _strategy_changed(self, config: ModelConfig) -> bool:
        return self.cleaned_with is not None and self.cleaned_with != config.order

    def assess(self, config: ModelConfig, as_of_ms: int, now_ms: int) -> ModelAssessment:
        """Decide whether the log would be compacted at ``as_of_ms``, and why or why not.

        All figures are those of the log that retention leaves.
        """
        left = self._after_retention(config, as_of_ms, now_ms)
        return left._assess(config, as_of_ms, now_ms, retires=len(left.files) < len(self.files))

    def _assess(self, config: ModelConfig, as_of_ms: int, now_ms: int, *, retires: bool) -> ModelAssessment:
        first_dirty, first_uncleanable, active = self._cleanable(config, as_of_ms)
        dirty = [file for file in self.files if file.last_offset >= first_dirty]
        closed = [file for file in dirty if file.first_offset < active]

        clean_bytes = sum(file.size_bytes for file in self.files if file.first_offset < first_dirty)
        cleanable = [
            file for file in dirty if first_dirty < first_uncleanable and file.first_offset < first_uncleanable
        ]
        cleanable_bytes = sum(file.size_bytes for file in cleanable)
        total_bytes = clean_bytes + cleanable_bytes
        dirty_ratio = cleanable_bytes / total_bytes if total_bytes else 0.0

        delay_ms = 0
        earliest_closed_ms = _find_earliest_ms(closed, config)
        if earliest_closed_ms is not None:
            delay_ms = max(0, as_of_ms - config.max_compaction_lag_ms - earliest_closed_ms)
        deadline_ms = None
        earliest_dirty_ms = _find_earliest_ms(dirty, config)
        if earliest_dirty_ms is not None and config.max_compaction_lag_ms != NO_MAX_LAG_MS:
            deadline_ms = earliest_dirty_ms + config.max_compaction_lag_ms

        clock_ms = max(as_of_ms, now_ms)
        tombstones_due = any(
            self._tombstones_due(file, config, first_uncleanable, clock_ms)
            for file in self.files
            if file.last_offset < first_dirty
        )
        protected_due = (
            config.compacts
            and config.protects_latest
            and any(file in cleanable for file in self._due(config, as_of_ms, now_ms))
        )
        looked_at_in_order = [
            (Reason.IN_PROGRESS, self.in_progress),
            (Reason.UNCLEANABLE, self.uncleanable and (self.paused or not retires)),
            (Reason.PAUSED, self.paused),
            (Reason.RETENTION, self.uncleanable),
            (Reason.RETENTION, retires and not config.compacts),
            (Reason.POLICY_DELETE_ONLY, not config.compacts),
            (Reason.EMPTY, not self.files and not retires),
            (Reason.STRATEGY_CHANGED, self._strategy_changed(config) and cleanable_bytes > 0),
            (Reason.MAX_COMPACTION_LAG, delay_ms > 0 and cleanable_bytes > 0),
            (Reason.DIRTY_RATIO, dirty_ratio > config.min_cleanable_dirty_ratio),
            (Reason.TOMBSTONES_EXPIRED, tombstones_due),
            (Reason.RETENTION, retires or protected_due),
            (Reason.CLEAN, not dirty),
            (Reason.NO_CLOSED_SEGMENT, not closed),
            (Reason.INSIDE_MIN_LAG, cleanable_bytes == 0),
            (Reason.NOT_DIRTY_ENOUGH, True),
        ]
        reason = next(reason for reason, holds in looked_at_in_order if holds)
        return ModelAssessment(
            eligible=reason in ELIGIBLE_REASONS,
            reason=reason,
            first_dirty_offset=first_dirty,
            first_uncleanable_offset=first_uncleanable,
            dirty_ratio=dirty_ratio,
            clean_bytes=clean_bytes,
            cleanable_bytes=cleanable_bytes,
            max_compaction_delay_ms=delay_ms,
            deadline_ms=deadline_ms,
            compacts=(reason in ELIGIBLE_REASONS and reason is not Reason.RETENTION)
            or (reason is Reason.RETENTION and protected_due and not self.uncleanable),
        )

    def compact(self, config: ModelConfig, as_of_ms: int, now_ms: int) -> CleaningOutcome | None:
        """Clean the log if ``assess`` calls it eligible, and move the checkpoint; None where it is idle.

        What retention takes goes first; retention alone moves no checkpoint. Records below the log start are not
        judged, not counted, and gone afterwards.
        """
        assessment = self.assess(config, as_of_ms, now_ms)
        if not assessment.eligible:
            return None
        gone = self.retired(config, as_of_ms, now_ms)
        left = self._after_retention(config, as_of_ms, now_ms)
        self.files, self.log_start_offset = left.files, left.log_start_offset
        retired = [record.offset for file in gone for record in file.records]
        if not assessment.compacts:
            if self.first_dirty_offset is not None:
                self.first_dirty_offset = max(self.first_dirty_offset, self.log_start_offset)
            remaining = [record.offset for file in self.files for record in file.records if record.value is None]
            self.history = prune_history(self.history, remaining)
            return CleaningOutcome(self.read(), [], [], [], retired)
        upper = assessment.first_uncleanable_offset
        end_offset = min([upper, *(f.first_offset for f in self.files if f.first_offset < upper <= f.last_offset)])
        cleaning_time_ms = max(as_of_ms, now_ms)
        outcome = compute_survivors(
            self.read(),
            next_first_dirty_offset=end_offset,
            strategy=config.strategy,
            header=config.header,
            expired=lambda offset: self._passed(offset, config, end_offset, cleaning_time_ms),
            late_arrivals=config.strategy is not Strategy.OFFSET and config.late_arrival_ms > 0,
        )
        kept_offsets = {record.offset for record in outcome.kept}
        files: list[ModelFile] = []
        for file in self.files:
            if file.first_offset >= end_offset:
                files.append(file)
                continue
            kept = tuple(record for record in file.records if record.offset in kept_offsets)
            if len(kept) == len(file.records):
                files.append(replace(file, as_of_ms=None, appended_ms=None))
            elif kept:
                files.append(ModelFile(kept, self._size_of(kept), None))
        self.files = files
        self.first_dirty_offset = (
            end_offset if self.cleaned_with != config.order else max(end_offset, self._checkpoint())
        )
        self.cleaned_with = config.order
        tombstones = [record.offset for record in outcome.kept if record.value is None]
        advanced = advance_history(self.history, end_offset, cleaning_time_ms, config.delete_retention_ms)
        extended = extend_tombstone_lives(advanced, outcome.extended, cleaning_time_ms)
        self.history = prune_history(extended, tombstones)
        return replace(outcome, retired=retired)

    def _checkpoint(self) -> int:
        checkpoint = self.first_dirty_offset
        if checkpoint is None or checkpoint < self.log_start_offset or checkpoint > self.log_end_offset:
            return self.log_start_offset
        return checkpoint

    def _active_offset(self, checkpoint: int, config: ModelConfig, as_of_ms: int) -> int:
        open_files: list[ModelFile] = []
        for file in self.files:
            if file.last_offset < checkpoint:
                continue
            open_files.append(file)
            full = sum(each.size_bytes for each in open_files) >= config.segment_bytes
            ages_ms = [as_of_ms - each.oldest_ms for each in open_files if each.oldest_ms is not None]
            aged = max(ages_ms, default=0) > config.max_segment_ms
            if full or aged:
                open_files = []
        return open_files[0].first_offset if open_files else self.log_end_offset

    def _passed(self, offset: int, config: ModelConfig, end_offset: int, clock_ms: int) -> bool:
        """Check whether a tombstone at ``offset`` may go in a cleaning up to ``end_offset`` at ``clock_ms``."""
        entry = find_history_entry(offset, self.history)
        if entry is None or entry.cleaning_time_ms is None or entry.delete_horizon_ms is None:
            return False
        if config.strategy is Strategy.OFFSET:
            return clock_ms >= entry.delete_horizon_ms
        horizon_ms = max(entry.delete_horizon_ms, entry.cleaning_time_ms + config.late_arrival_ms)
        uncovered = [file.appended_ms for file in self.files if file.last_offset >= end_offset]
        return clock_ms >= horizon_ms and all(appended is None or appended >= horizon_ms for appended in uncovered)

    def _tombstones_due(self, file: ModelFile, config: ModelConfig, end_offset: int, clock_ms: int) -> bool:
        if not file.has_null_values:
            return False
        unknown = any(find_delete_horizon(offset, self.history) is None for offset in self._starts(file))
        return unknown or self._all_passed(file, config, end_offset, clock_ms)

    def _all_passed(self, file: ModelFile, config: ModelConfig, end_offset: int, clock_ms: int) -> bool:
        return all(self._passed(offset, config, end_offset, clock_ms) for offset in self._starts(file))

    def _starts(self, file: ModelFile) -> list[int]:
        """Return one offset for every entry that covers part of ``file``, which may span millions of offsets."""
        ends = [entry.end_offset for entry in self.history]
        return [file.first_offset] + [end for end in ends if file.first_offset < end <= file.last_offset]


def _find_earliest_ms(files: Sequence[ModelFile], config: ModelConfig) -> int | None:
    """Return the earliest timestamp of ``files`` (dirty, in offset order); estimate missing ones (KIP-354, 2)."""
    found: list[int] = []
    previous: ModelFile | None = None
    for file in files:
        if file.timestamps_ms:
            found.append(min(file.timestamps_ms))
        elif previous is not None and previous.youngest_ms is not None:
            found.append(previous.youngest_ms)
        elif previous is None and file.as_of_ms is not None:
            found.append(file.as_of_ms - config.max_segment_ms)
        previous = file
    return min((timestamp_ms for timestamp_ms in found if timestamp_ms > 0), default=None)
