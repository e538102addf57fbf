"""The second mode of the certificate: Winnow ingests everything, and decides on its own files what is to be cleaned.

The records of the broker's active segment come in too. Winnow's range, its ratio, its active segment and its plan are
its own, from its own archive; they are compared with what the broker decided about the same records, and so is what is
left.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from parity.archive import Archive
from parity.broker_topics import HELD_BACK, BrokerTopics
from parity.cleaner_log import Cleaning, Look
from parity.comparison import (
    LogState,
    Release,
    Tally,
    build_partition_log,
    build_rules,
    compare_checkpoint,
    compare_counts,
    compare_horizons,
    compare_records,
    judge_eligibility,
    judge_range,
)
from parity.differences import CLOSED_BY_THE_CLOCK, OTHER_SIZES
from parity.own_topics import SEGMENT_MS, OwnTopic
from parity.random_topics import DAY_MS, PARTITIONS, SHORT_RETENTION_MS
from parity.run import Report
from parity.segment_headers import read_segments
from winnow.planning.cleanable import MAXIMUM_LONG
from winnow.planning.eligibility import assess
from winnow.values.model import Assessment, Record

MAXIMUM_LAG_MS = 4 * DAY_MS
_HORIZONS_PASS_S = 2 * SHORT_RETENTION_MS / 1000


@dataclass
class OwnRun:
    """One run over topics of which Winnow decides by itself; :meth:`run` does all of it. Counts go into ``tally``."""

    broker: BrokerTopics
    archive: Archive
    topics: Sequence[OwnTopic]
    seed: int
    report: Report
    tally: Tally
    _logs: dict[str, list[LogState]] = field(default_factory=dict)

    def run(self) -> None:
        """Write, ingest, clean and compare, round by round."""
        started = time.monotonic()
        self.broker.create()
        for own in self.topics:
            self.archive.create(own.topic.name, PARTITIONS, own.our_config)
            self._logs[own.topic.name] = [LogState(own.topic, partition) for partition in range(PARTITIONS)]
        for number in range(max(own.topic.rounds for own in self.topics)):
            topics = [own for own in self.topics if own.topic.rounds > number]
            if number:
                time.sleep(_HORIZONS_PASS_S)
            self._set_retention(number, topics)
            self._fill(number, topics)
            written = {own.topic.name: self._read_all(own) for own in topics}
            releases = self._release(number, topics)
            for own in topics:
                self._compare(own, number, releases[own.topic.name], written[own.topic.name])
            self.report(f"  own decisions: round {number + 1} after {time.monotonic() - started:.0f} s")
        self.tally.compared["logs (topic partitions)"] += len(self.topics) * PARTITIONS
        for own in self.topics:
            shows = own.topic.shows
            if shows is not None and not self.tally.shown[shows, own.topic.name]:
                self.tally.unexplained.append(
                    f"seed {self.seed}, {own.topic.name}: the listed difference {shows} did not show"
                )

    def _set_retention(self, number: int, topics: Sequence[OwnTopic]) -> None:
        changes = {
            own.topic.name: {"delete.retention.ms": str(own.topic.delete_retention_ms[number])} for own in topics
        }
        self.broker.alter(changes)
        for name, settings in changes.items():
            self.archive.alter(name, settings)

    def _fill(self, number: int, topics: Sequence[OwnTopic]) -> None:
        """Write piece by piece, and ingest each as ``winnow ingest kafka`` does."""
        now_ms = int(time.time() * 1000)
        pieces = {own.topic.name: list(own.make_pieces(number, now_ms)) for own in topics}
        for at in range(max(map(len, pieces.values()))):
            due = {name: made[at] for name, made in pieces.items() if at < len(made)}
            for name, records in due.items():
                self.broker.write(name, records, **{"linger.ms": 20, "batch.size": 8_000})
                self.tally.compared["records written"] += len(records)
            self.archive.clock.now_ms = int(time.time() * 1000)
            failures = self.archive.ingest_from_broker(
                self.broker.broker.bootstrap_servers, {name: name for name in due}, creates=False
            )
            self.tally.unexplained += [f"seed {self.seed}, winnow ingest kafka: {failure}" for failure in failures]

    def _read_all(self, own: OwnTopic) -> dict[int, list[Record]]:
        return self.broker.read_records(own.topic.name, dict.fromkeys(range(PARTITIONS), 0))

    def _release(self, number: int, topics: Sequence[OwnTopic]) -> dict[str, Release]:
        checkpoints = self.broker.read_checkpoints()
        for own in topics:
            for log in self._logs[own.topic.name]:
                log.checkpoint = checkpoints.get(log.name)
                log.segments = read_segments(self.broker.broker.data_folder / log.name)
        releases = {
            own.topic.name: Release(1.0, MAXIMUM_LAG_MS)
            if own.topic.thresholds[number] == "lag"
            else Release(float(own.topic.thresholds[number]))
            for own in topics
        }
        changes = {name: _describe_release(release) for name, release in releases.items()}
        for name, settings in changes.items():
            self.archive.alter(name, settings)
        self.broker.cleaner_log.forget()
        self.broker.alter(changes)
        self.broker.cleaner_log.looks_since_cleaning.clear()
        time.sleep(1)
        self.broker.wait_until_quiet()
        self.broker.alter({name: {**HELD_BACK, "max.compaction.lag.ms": None} for name in releases})
        return releases

    def _compare(self, own: OwnTopic, number: int, release: Release, written: Mapping[int, Sequence[Record]]) -> None:
        name = own.topic.name
        logs = self._logs[name]
        cleaner_log = self.broker.cleaner_log
        cleaned = {log.partition: cleaner_log.cleanings[log.name] for log in logs if log.name in cleaner_log.cleanings}
        begun = [cleanings[0].begun_ms for cleanings in cleaned.values()]
        self.archive.clock.now_ms = min(begun, default=cleaner_log.looks[logs[0].name].now_ms)
        for log in logs:
            log.live = [record.offset for record in written[log.partition]]
            log.ingested_end = max((record.offset + 1 for record in written[log.partition]), default=0)
            if log.partition in cleaned:
                log.begun[self.archive.clock()] = cleaned[log.partition][0]
                log.retentions[self.archive.clock()] = own.topic.delete_retention_ms[number]
        by_clock, by_sizes = self._compare_decisions(own, number, release, written, cleaned)
        forced = [partition for partition in by_sizes if partition in cleaned]
        left_out = [*by_clock, *(partition for partition in by_sizes if partition not in cleaned)]
        receipts = self.archive.compact(name, leave_out=[*by_clock, *by_sizes], closes_active=False)
        if forced:  # what the broker has cleaned is compared, although Winnow would have waited
            self.archive.alter(name, {"min.cleanable.dirty.ratio": "0.0"})
            others = [log.partition for log in logs if log.partition not in forced]
            receipts |= self.archive.compact(name, leave_out=others, closes_active=False)
        theirs = self._read_all(own)
        states = self.archive.get_states(name)
        for log in logs:
            if log.partition in left_out:
                continue
            where = f"seed {self.seed}, {log.name}, round {number + 1}"
            found = theirs[log.partition]
            compare_records(log, found, self.archive.read_records(name, log.partition), self.tally, where)
            for cleaning in cleaned.get(log.partition, []):
                after = read_segments(self.broker.broker.data_folder / log.name)
                state = states[log.partition]
                self.tally.compared["cleanings by the broker"] += 1
                compare_checkpoint(log, cleaning.end_offset, state.first_dirty_offset, self.tally, where)
                kept = sum(record.offset < cleaning.end_offset for record in found)
                if log.partition not in receipts:
                    self.tally.unexplained.append(f"{where}: the broker cleaned it, and Winnow's plan leaves it out")
                    continue
                compare_counts(log, cleaning, receipts[log.partition], kept, after, self.tally, where)
                compare_horizons(log, found, after, state, cleaning.end_offset, self.tally, where)

    def _compare_decisions(
        self,
        own: OwnTopic,
        number: int,
        release: Release,
        written: Mapping[int, Sequence[Record]],
        cleaned: Mapping[int, Sequence[Cleaning]],
    ) -> tuple[list[int], list[int]]:
        """Compare what both sides decided; return the partitions that the clock closed, and those of other sizes."""
        decided = self.archive.assess(own.topic.name)
        by_clock, by_sizes = [], []
        for log in self._logs[own.topic.name]:
            where = f"seed {self.seed}, {log.name}, round {number + 1}"
            found = decided[log.partition]
            is_cleaned = log.partition in cleaned
            look = cleaned[log.partition][0].look if is_cleaned else self.broker.cleaner_log.looks[log.name]
            self.tally.compared["decisions of Winnow's own: its files, its active segment, its ratio"] += 1
            if self._is_closed_by_the_clock(own, log, look, found, written[log.partition]):
                self.tally.add_difference(CLOSED_BY_THE_CLOCK, own.topic)
                by_clock.append(log.partition)
                continue
            judge_range(look, found, self.tally, where)
            if self._has_other_sizes(log, release, look, is_cleaned, found):
                self.tally.add_difference(OTHER_SIZES, own.topic)
                by_sizes.append(log.partition)
            else:
                judge_eligibility(log, release, look, is_cleaned, found, self.tally, where)
        return by_clock, by_sizes

    def _has_other_sizes(self, log: LogState, release: Release, look: Look, cleaned: bool, ours: Assessment) -> bool:
        """Check whether only the bytes, as each side stores them, make one ratio exceed the threshold."""
        theirs = assess(
            build_partition_log(log),
            build_rules(log.topic, release),
            as_of_ms=look.now_ms,
            cleaning_time_ms=look.now_ms,
        )
        threshold = release.min_cleanable_dirty_ratio
        same_range = (look.first_dirty_offset, look.first_uncleanable_offset) == (
            ours.first_dirty_offset,
            ours.first_uncleanable_offset,
        )
        return (
            release.max_compaction_lag_ms == MAXIMUM_LONG
            and same_range
            and ours.eligible != cleaned
            and ours.eligible == (ours.dirty_ratio > threshold)
            and cleaned == (theirs.dirty_ratio > threshold)
        )

    def _is_closed_by_the_clock(
        self, own: OwnTopic, log: LogState, look: Look, ours: Assessment, written: Sequence[Record]
    ) -> bool:
        """Check whether Winnow's active segment is closed by its age, and the broker's waits for an append."""
        active_offset = log.segments[-1].base_offset
        times = [
            record.timestamp_ms
            for record in written
            if record.offset >= active_offset and record.timestamp_ms is not None
        ]
        return (
            not own.by_bytes
            and look.first_uncleanable_offset == active_offset < ours.first_uncleanable_offset
            and ours.first_uncleanable_offset == ours.log_end_offset
            and min(times, default=look.now_ms) < look.now_ms - SEGMENT_MS
        )


def _describe_release(release: Release) -> dict[str, str]:
    settings = {"min.cleanable.dirty.ratio": repr(release.min_cleanable_dirty_ratio)}
    if release.max_compaction_lag_ms != MAXIMUM_LONG:
        settings["max.compaction.lag.ms"] = str(release.max_compaction_lag_ms)
    return settings
