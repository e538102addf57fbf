"""Runs the certificate on one version of Kafka: writes, lets the broker clean, compacts with Winnow, compares."""

from __future__ import annotations

import contextlib
import math
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from parity.archive import Archive
from parity.broker_topics import HELD_BACK, BrokerTopics
from parity.comparison import (
    LogState,
    Release,
    Tally,
    build_partition_log,
    build_rules,
    compare_checkpoint,
    compare_counts,
    compare_decision,
    compare_horizons,
    compare_quiet_log,
    compare_records,
    is_held_back_by_markers,
)
from parity.random_topics import DAY_MS, PARTITIONS, SHORT_RETENTION_MS, RandomTopic
from parity.segment_headers import BrokerSegment, read_segments
from winnow.planning.eligibility import assess
from winnow.values.model import Record

MAXIMUM_LAG_MS: Final = 10 * DAY_MS
_EXPIRED: Final = "tombstones whose horizon had passed, gone on both sides"
_RETENTION_SETTLES_S: Final = 3.0
_HORIZONS_PASS_S: Final = 2 * SHORT_RETENTION_MS / 1000

Report = Callable[[str], None]
"""Tells a person how far the run is."""


@dataclass
class ParityRun:
    """One run over ``topics``; :meth:`run` does all of it."""

    broker: BrokerTopics
    archive: Archive
    topics: Sequence[RandomTopic]
    seed: int
    report: Report
    spark_topics: int = 3
    """How many topics go through ``winnow compact`` with Spark in the first round."""
    change_leaders: Callable[[], None] | None = None
    """In a cluster: moves every partition to the node whose cleaner is followed, in the first round."""
    tally: Tally = field(default_factory=Tally)
    _logs: dict[str, list[LogState]] = field(default_factory=dict)

    def run(self) -> Tally:
        """Write, clean and compare, round by round, and say what was found."""
        self.broker.create()
        for topic in self.topics:
            config = {
                "cleanup.policy": topic.config["cleanup.policy"],
                "min.cleanable.dirty.ratio": "0.0",
                "min.compaction.lag.ms": str(topic.min_compaction_lag_ms),
                "delete.retention.ms": str(topic.delete_retention_ms[0]),
                "retention.ms": "-1",
            }
            self.archive.create(topic.name, PARTITIONS, config)
            self._logs[topic.name] = [LogState(topic, partition) for partition in range(PARTITIONS)]
        for number in range(max(topic.rounds for topic in self.topics)):
            self._run_round(number, [topic for topic in self.topics if topic.rounds > number])
        self._look_at_quiet_logs()
        self._compare_ways_in()
        self._check_shown()
        self.tally.compared["logs (topic partitions)"] = len(self.topics) * PARTITIONS
        return self.tally

    def _run_round(self, number: int, topics: Sequence[RandomTopic]) -> None:
        started = time.monotonic()
        self._prepare_round(number, topics)
        for topic in topics:
            self.tally.compared["records written"] += self.broker.produce(topic, number)
        self._tell(number, started, "written")
        if self.change_leaders is not None and number == 0:
            self.change_leaders()
            self.tally.compared["logs whose leader changed between writing and cleaning"] += len(topics) * PARTITIONS
            self._tell(number, started, "led by another node")
        for topic in topics:
            self._ingest(topic)
        self._tell(number, started, "ingested")
        self._retire_segments(number, topics)
        releases = self._release(number, topics)
        self._tell(number, started, "cleaned by the broker")
        on_spark = self._compact_on_spark(topics) if number == 0 else set()
        for topic in topics:
            self._compare_topic(topic, releases[topic.name], number, on_spark=topic.name in on_spark)
        self._tell(number, started, "compared")

    def _tell(self, number: int, started: float, what: str) -> None:
        self.report(f"  round {number + 1}: {what} after {time.monotonic() - started:.0f} s")

    def _prepare_round(self, number: int, topics: Sequence[RandomTopic]) -> None:
        if number == 0:
            return
        time.sleep(_HORIZONS_PASS_S)
        changed = {t.name: t for t in topics if t.delete_retention_ms[number] != t.delete_retention_ms[number - 1]}
        settings = {name: {"delete.retention.ms": str(t.delete_retention_ms[number])} for name, t in changed.items()}
        self.broker.alter(settings)
        for name, changes in settings.items():
            self.archive.alter(name, changes)
        for topic in topics:
            if not topic.deletes_records:
                continue
            starts = self.broker.read_log_starts(topic.name)
            before = {
                log.partition: topic.generator.choice(log.live) + 1
                for log in self._logs[topic.name]
                if log.live and log.live[-1] >= starts[log.partition]
            }
            ends = {n: state.log_end_offset for n, state in self.archive.get_states(topic.name).items()}
            before = {partition: offset for partition, offset in before.items() if offset <= ends[partition]}
            if before:
                self.archive.delete_records(topic.name, before)
                self.broker.delete_records(topic.name, before)

    def _ingest(self, topic: RandomTopic) -> None:
        """Bring the closed segments that Winnow has not yet; where borders matter, one segment after the other."""
        logs = self._logs[topic.name]
        now_ms = int(time.time() * 1000)
        self.archive.clock.now_ms = now_ms
        listed = {log.partition: self._list_new_segments(log) for log in logs}
        records = self.broker.read_records(topic.name, {log.partition: log.ingested_end for log in logs})
        waves: list[list[Record]] = []
        for log in logs:
            self._note_times(log, listed[log.partition], records[log.partition])
            for place, (segment, found) in enumerate(_split(listed[log.partition], records[log.partition])):
                log.live += [record.offset for record in found]
                if is_held_back_by_markers(log, segment, now_ms, self.tally):
                    del log.live[len(log.live) - len(found) :]
                    break
                number = place if topic.segments_matter else 0
                waves += [[] for _ in range(number + 1 - len(waves))]
                waves[number] += found
                log.ingested_end = segment.end_offset
        if topic.copies_directory and not topic.segments_matter and not topic.transactional:
            self._ingest_directory(topic)
            return
        for wave in filter(None, waves):
            self.archive.ingest_records(topic.name, wave)

    def _list_new_segments(self, log: LogState) -> list[BrokerSegment]:
        closed = read_segments(self.broker.broker.data_folder / log.name)[:-1]
        return [segment for segment in closed if segment.base_offset >= log.ingested_end]

    def _note_times(self, log: LogState, segments: Sequence[BrokerSegment], records: Sequence[Record]) -> None:
        for segment, found in _split(segments, records):
            times = [record.timestamp_ms for record in found if record.timestamp_ms is not None]
            log.times[segment.base_offset] = (min(times, default=None), max(times, default=None))

    def _ingest_directory(self, topic: RandomTopic) -> None:
        """Copy the files of the closed segments as an operator would, and ingest the copy."""
        ends = {log.partition: log.ingested_end for log in self._logs[topic.name]}
        if any(ends.values()):
            with self._copy_directory(topic, ends) as copy:
                self.archive.ingest_directory(topic.name, copy, topic.name)

    @contextmanager
    def _copy_directory(self, topic: RandomTopic, ends: Mapping[int, int]) -> Iterator[Path]:
        """Copy the files of segments that begin below ``ends``."""
        copy = self.archive.folder / "log-directory"
        for log in self._logs[topic.name]:
            target = copy / log.name
            target.mkdir(parents=True)
            for path in (self.broker.broker.data_folder / log.name).iterdir():
                base = path.name.partition(".")[0]
                if not base.isdigit() or int(base) < ends[log.partition]:
                    with contextlib.suppress(FileNotFoundError):  # of a segment that the cleaner replaced
                        shutil.copy2(path, target)
        yield copy
        shutil.rmtree(copy)

    def _retire_segments(self, number: int, topics: Sequence[RandomTopic]) -> None:
        retention = {t.name: {"retention.ms": str(t.retention_ms)} for t in topics if t.retention_ms is not None}
        if number == 0 and retention:
            self.broker.alter(retention)
            for name, changes in retention.items():
                self.archive.alter(name, changes)
        if retention or any(topic.deletes_records for topic in topics):
            time.sleep(_RETENTION_SETTLES_S)
        if number == 0 and retention:
            self.broker.alter({name: {"retention.ms": "-1"} for name in retention})

    def _release(self, number: int, topics: Sequence[RandomTopic]) -> dict[str, Release]:
        checkpoints = self.broker.read_checkpoints()
        releases: dict[str, Release] = {}
        for topic in topics:
            starts = self.broker.read_log_starts(topic.name)
            for log in self._logs[topic.name]:
                log.log_start = starts[log.partition]
                log.checkpoint = checkpoints.get(log.name)
                log.segments = read_segments(self.broker.broker.data_folder / log.name)
            releases[topic.name] = self._choose_release(topic, topic.thresholds[number])
        self.broker.cleaner_log.forget()
        self.broker.alter(
            {
                name: {"min.cleanable.dirty.ratio": repr(release.min_cleanable_dirty_ratio)}
                if release.min_cleanable_dirty_ratio < 1
                else {"max.compaction.lag.ms": str(release.max_compaction_lag_ms)}
                for name, release in releases.items()
            }
        )
        self.broker.cleaner_log.looks_since_cleaning.clear()
        time.sleep(1)
        self.broker.wait_until_quiet()
        self.broker.alter({name: {**HELD_BACK, "max.compaction.lag.ms": None} for name in releases})
        return releases

    def _choose_release(self, topic: RandomTopic, threshold: str) -> Release:
        if threshold == "lag":
            return Release(1.0, MAXIMUM_LAG_MS)
        if threshold not in {"exact", "below"}:
            return Release(float(threshold))
        log = topic.generator.choice(self._logs[topic.name])
        now_ms = int(time.time() * 1000)
        rules = build_rules(topic, Release(1.0))
        ratio = assess(build_partition_log(log), rules, as_of_ms=now_ms, cleaning_time_ms=now_ms).dirty_ratio
        if not 0 < ratio < 1:
            return Release(0.5)
        return Release(ratio if threshold == "exact" else math.nextafter(ratio, 0))

    def _compact_on_spark(self, topics: Sequence[RandomTopic]) -> set[str]:
        """Compact some topics that the broker has cleaned wholly by one ``winnow compact``."""
        cleanings = self.broker.cleaner_log.cleanings
        wholly = [
            topic
            for topic in topics
            if all(log.name in cleanings for log in self._logs[topic.name])
            and SHORT_RETENTION_MS not in topic.delete_retention_ms
            and topic.retention_ms is None
        ]
        chosen = [topic.name for topic in wholly if topic.shows is None][: self.spark_topics]
        if chosen:
            begun = [cleanings[log.name][0].begun_ms for name in chosen for log in self._logs[name]]
            self.archive.compact_on_spark(chosen, min(begun))
            self.tally.compared["topics compacted by `winnow compact` on Spark"] += len(chosen)
        return set(chosen)

    def _compare_topic(self, topic: RandomTopic, release: Release, number: int, *, on_spark: bool) -> None:
        logs = self._logs[topic.name]
        cleaner_log = self.broker.cleaner_log
        cleaned = {log.partition: cleaner_log.cleanings[log.name] for log in logs if log.name in cleaner_log.cleanings}
        receipts = {}
        retires = number == 0 and topic.retention_ms is not None
        if (cleaned or retires) and not on_spark:
            begun = [cleanings[0].begun_ms for cleanings in cleaned.values()]
            as_of_ms = min(begun, default=int(time.time() * 1000))
            self.archive.clock.now_ms = as_of_ms
            idle = [] if retires else [n for n in range(PARTITIONS) if n not in cleaned]
            receipts = self.archive.compact(topic.name, leave_out=idle)
            if retires:
                self.archive.alter(topic.name, {"retention.ms": "-1"})
            for partition, cleanings in cleaned.items():
                logs[partition].begun[as_of_ms] = cleanings[0]
                logs[partition].retentions[as_of_ms] = topic.delete_retention_ms[number]
        theirs = self.broker.read_records(topic.name, dict.fromkeys(range(PARTITIONS), 0))
        states = self.archive.get_states(topic.name)
        for log in logs:
            where = f"seed {self.seed}, {log.name}, round {number + 1}"
            cleanings = cleaned.get(log.partition, [])
            look = cleanings[0].look if cleanings else cleaner_log.looks[log.name]
            compare_decision(log, release, look, bool(cleanings), self.tally, where)
            found = theirs[log.partition]
            compare_records(log, found, self.archive.read_records(topic.name, log.partition), self.tally, where)
            after = read_segments(self.broker.broker.data_folder / log.name)
            if len(cleanings) > 1:
                self.tally.unexplained.append(f"{where}: the broker cleaned it {len(cleanings)} times")
            if cleanings:
                cleaning = cleanings[0]
                self.tally.compared["cleanings by the broker"] += 1
                state = states[log.partition]
                whole = log.ingested_end >= cleaning.end_offset
                if whole:
                    compare_checkpoint(log, cleaning.end_offset, state.first_dirty_offset, self.tally, where)
                if whole and (receipt := receipts.get(log.partition)):
                    self.tally.compared["tombstones whose horizon had passed, gone on both sides"] += (
                        receipt.tombstones_expired
                    )
                    kept = sum(record.offset < cleaning.end_offset for record in found)
                    compare_counts(log, cleaning, receipt, kept, after, self.tally, where)
                if not on_spark:
                    compare_horizons(log, found, after, state, cleaning.end_offset, self.tally, where)
            log.live = [record.offset for record in found if record.offset < log.ingested_end]

    def _look_at_quiet_logs(self) -> None:
        """Let Winnow alone look at logs that the broker has cleaned to the end of what Winnow has."""
        time.sleep(_HORIZONS_PASS_S)
        checkpoints = self.broker.read_checkpoints()
        now_ms = int(time.time() * 1000)
        self.archive.clock.now_ms = now_ms
        for topic in self.topics:
            logs = self._logs[topic.name]
            quiet = [log for log in logs if not log.count_live(checkpoints.get(log.name, 0), log.ingested_end)]
            busy = [log.partition for log in logs if log not in quiet]
            if not quiet or DAY_MS in topic.delete_retention_ms:
                continue
            self.archive.compact(topic.name, leave_out=busy)
            theirs = self.broker.read_records(topic.name, {log.partition: 0 for log in quiet})
            for log in quiet:
                segments = read_segments(self.broker.broker.data_folder / log.name)
                ours = self.archive.read_records(topic.name, log.partition)
                where = f"seed {self.seed}, {log.name}, quiet"
                compare_quiet_log(log, theirs[log.partition], ours, segments, now_ms, self.tally, where)

    def _compare_ways_in(self) -> None:
        """Ingest cleaned logs as they are, by `winnow ingest kafka` and from copies: what a consumer gets, no more."""
        chosen = [topic for topic in self.topics if topic.copies_directory or topic.shows]
        failures = self.archive.ingest_from_broker(
            self.broker.broker.bootstrap_servers, {f"{topic.name}-kafka": topic.name for topic in chosen}
        )
        self.tally.unexplained += [f"seed {self.seed}, winnow ingest kafka: {failure}" for failure in failures]
        for topic in chosen:
            ways = [] if failures else [f"{topic.name}-kafka"]
            # Of a log start that was raised, the broker's files know only from time to time.
            if not topic.deletes_records:
                ways.append(f"{topic.name}-directory")
                self.archive.create(ways[-1], PARTITIONS, {"cleanup.policy": topic.config["cleanup.policy"]})
                with self._copy_directory(topic, dict.fromkeys(range(PARTITIONS), sys.maxsize)) as copy:
                    self.archive.ingest_directory(ways[-1], copy, topic.name)
            theirs = self.broker.read_records(topic.name, dict.fromkeys(range(PARTITIONS), 0))
            for log in self._logs[topic.name]:
                log.ingested_end = sys.maxsize
                for name in ways:
                    ours = self.archive.read_records(name, log.partition)
                    where = f"seed {self.seed}, {log.name}, as {name}"
                    compare_records(log, theirs[log.partition], ours, self.tally, where)

    def _check_shown(self) -> None:
        for topic in self.topics:
            if topic.shows is not None and not self.tally.shown[topic.shows, topic.name]:
                self.tally.unexplained.append(
                    f"seed {self.seed}, {topic.name}: the listed difference {topic.shows} did not show"
                )


def _split(segments: Sequence[BrokerSegment], records: Sequence[Record]) -> list[tuple[BrokerSegment, list[Record]]]:
    """Split records, in offset order, by the segments that hold them; records behind the last one are left out."""
    found = []
    position = 0
    for segment in segments:
        begin = position
        while position < len(records) and records[position].offset < segment.end_offset:
            position += 1
        found.append((segment, list(records[begin:position])))
    return found
