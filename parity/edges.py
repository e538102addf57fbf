"""Special topics instead of luck: boundaries of one millisecond, and what is wrong by one record.

The broker's clock cannot be set. So a ladder of records, one for each millisecond, passes every boundary while the
cleaner looks at it: whenever it looks, one record is exactly at the boundary, one a millisecond before and one behind.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from broker.kafka_broker import KafkaBroker
from parity.archive import Archive
from parity.broker_topics import HELD_BACK, BrokerError, BrokerTopics
from parity.cleaner_log import Grab, read_grabs
from parity.comparison import (
    LogState,
    Release,
    Tally,
    build_partition_log,
    build_rules,
    compare_decision,
    compare_records,
)
from parity.edge_files import (
    LADDER_RUNGS,
    list_horizons,
    list_odd_times,
    make_edge_records,
    make_edge_topic,
    remove_last_record,
    write_horizon_ladder,
    write_odd_times,
)
from parity.random_topics import DAY_MS, NewRecord, RandomTopic
from parity.segment_headers import read_segments
from winnow.kafka.client_settings import read_client_settings
from winnow.kafka.range_reader import BrokerRange, RangeReader
from winnow.planning.cleanable import PartitionLog
from winnow.planning.eligibility import apply_retention, assess, list_expired_ranges, make_tombstone_expiry
from winnow.values.model import Reason
from winnow.values.topic_state import Cleaning, PartitionState

BROKER_PROPERTIES: Final = {"log.cleaner.backoff.ms": "2"}
"""The cleaner looks again after 2 ms, so that it looks while a ladder of some hundred rungs passes."""
LAG_MS: Final = 60_000
"""The minimum lag, and the retention, of the topics with a ladder; the maximum lag too."""
RUNGS: Final = 240
PARTITIONS_OF_MAXIMUM_LAG: Final = 64
ATTEMPTS: Final = 6
_LEAD_MS: Final = 1_500
"""How far ahead a ladder is written at the first attempt; twice as far at each later one."""
_SETTLES_S: Final = 0.5
_CLEANED_S: Final = 60.0
_ONE_RECORD_BYTES: Final = 100
"""Segments of this size hold one record each."""
_RETIRED: Final = re.compile(
    r"^(\S+) INFO \[\w+ partition=(\S+?), .*Incremented log start offset to (\d+) due to segment deletion"
)
_BORDER_RECORDS: Final = 10
_LOST_FROM_FILES: Final = "edge-lost-files"


@dataclass
class EdgeRun:
    """What chance misses, each in a topic of its own. :meth:`run` does all of it."""

    broker: KafkaBroker
    archive: Archive
    segment_setting: str
    report: Callable[[str], None]
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        self._topics = BrokerTopics(self.broker, [])
        self._attempts = 0
        self._horizons: dict[int, int] = {}

    def run(self) -> Tally:
        """Compare every edge, and return what was found."""
        started = time.monotonic()
        self._write_before_the_restart()
        while not self._compare_horizons():
            self._attempts += 1
            if self._attempts == ATTEMPTS:
                raise BrokerError("The broker never cleaned a ladder of horizons while it passed.")
            self._create_ladder_of_horizons()
            self.broker.stop()
            self._restart_with_horizons()
        self.report(f"  edges: compare_horizons after {time.monotonic() - started:.0f} s")
        for compare in (
            self._compare_lost_record,
            self._compare_gap_of_one,
            self._compare_early_end,
            self._compare_odd_times,
            self._compare_minimum_lag,
            self._compare_retention,
            self._compare_maximum_lag,
        ):
            compare()
            self.report(f"  edges: {compare.__name__.removeprefix('_')} after {time.monotonic() - started:.0f} s")
        return self.tally

    def _write_before_the_restart(self) -> None:
        """Write what was ingested before, and put files in place of logs while the broker stands."""
        for name in ("edge-lost", "edge-times"):
            self._create(name)
        self._write("edge-lost", make_edge_records(range(_BORDER_RECORDS)))
        self._expect_ingested("edge-lost")
        self.archive.create(_LOST_FROM_FILES, 1, {})
        self.archive.ingest_records(_LOST_FROM_FILES, self._topics.read_records("edge-lost", {0: 0})[0])
        self._create_ladder_of_horizons()
        self.broker.stop()
        remove_last_record(self.broker.data_folder / "edge-lost-0")
        write_odd_times(self.broker.data_folder / "edge-times-0")
        self._restart_with_horizons()

    def _compare_lost_record(self) -> None:
        """The broker has lost its newest record: nothing is ingested, and ours stay, from wherever they came."""
        for name in ("edge-lost", _LOST_FROM_FILES):
            self._expect_refused(name, "an offset that was set back by one", at_broker="edge-lost")
            self._expect_count(name, _BORDER_RECORDS)

    def _compare_gap_of_one(self) -> None:
        """One record was deleted before it was read: refused, unless the gap is accepted."""
        self._create("edge-gap", 1, {"cleanup.policy": "compact,delete", "retention.ms": "-1"})
        self._write("edge-gap", make_edge_records(range(_BORDER_RECORDS)))
        self._expect_ingested("edge-gap")
        self._write("edge-gap", make_edge_records(range(5)))
        self._topics.delete_records("edge-gap", {0: _BORDER_RECORDS + 1})
        self._expect_refused("edge-gap", "a gap of one record")
        self._expect_count("edge-gap", _BORDER_RECORDS)
        self._expect_ingested("edge-gap", accepts_gap=True)
        self._expect_count("edge-gap", _BORDER_RECORDS + 4)

    def _compare_early_end(self) -> None:
        """The end of a partition comes before that of the range, whose last records come later."""
        self._create("edge-end")
        self._write("edge-end", make_edge_records(range(_BORDER_RECORDS)))
        later = threading.Timer(_SETTLES_S, self._write, ("edge-end", make_edge_records(range(_BORDER_RECORDS))))
        later.start()
        wanted = BrokerRange("edge-end", 0, 0, 2 * _BORDER_RECORDS)
        with RangeReader(read_client_settings(self.broker.bootstrap_servers)) as reader:
            offsets = [offset for batch in reader.read(wanted) for offset in batch.column("offset").to_pylist()]
        later.join()
        self.tally.compared["ranges whose end came early"] += 1
        if offsets != list(range(2 * _BORDER_RECORDS)):
            self.tally.unexplained.append(
                f"edge-end-0: of a range of {2 * _BORDER_RECORDS} records {len(offsets)} were read"
            )

    def _compare_odd_times(self) -> None:
        """Records of the timestamps 0 and 1, and without any, which only other clients than ours can write."""
        self._expect_ingested("edge-times")
        theirs = self._topics.read_records("edge-times", {0: 0})[0]
        log = LogState(make_edge_topic("edge-times"), 0, ingested_end=len(theirs))
        compare_records(log, theirs, self.archive.read_records("edge-times", 0), self.tally, "edge-times-0")
        if [record.timestamp_ms for record in theirs] != list_odd_times():
            self.tally.unexplained.append("edge-times-0: the broker does not have what was written into its files")

    def _create_ladder_of_horizons(self) -> None:
        self._create(f"edge-horizons-{self._attempts}", 1, {"min.cleanable.dirty.ratio": "0.0"})

    def _restart_with_horizons(self) -> None:
        """Start the broker, which cleans the ladder at once."""
        folder = self.broker.data_folder / f"edge-horizons-{self._attempts}-0"
        write_horizon_ladder(folder, int(time.time() * 1000))
        self._horizons = list_horizons(read_segments(folder))
        self.broker.start()

    def _compare_horizons(self) -> bool:
        """Tombstones whose delete horizons are a millisecond apart: those of the cleaning's own instant go.

        Returns whether the broker cleaned them while the horizons passed.
        """
        name = f"edge-horizons-{self._attempts}"
        folder = self.broker.data_folder / f"{name}-0"
        before = self._horizons
        self._wait_until_cleaned(name, 1)
        after = list_horizons(read_segments(folder))
        stamped = {horizon_ms for offset, horizon_ms in after.items() if offset not in before}
        if len(stamped) != 1:
            raise BrokerError(f"The cleaning of {name} did not stamp the tombstone without a horizon.")
        cleaned_ms = stamped.pop() - DAY_MS
        if cleaned_ms not in before.values():
            return False
        history = tuple(Cleaning(offset + 1, horizon_ms - DAY_MS, horizon_ms) for offset, horizon_ms in before.items())
        log = PartitionLog(name, 0, (), PartitionState(log_end_offset=LADDER_RUNGS, history=history))
        rules = build_rules(make_edge_topic(name), Release(0.0))
        expired = list_expired_ranges(history, make_tombstone_expiry(log, rules, LADDER_RUNGS, cleaned_ms))
        ours = {offset for offset in before if not any(each.start <= offset < each.end for each in expired)}
        theirs = before.keys() & after.keys()
        self.tally.compared["boundaries of delete.retention.ms, to the millisecond"] += 1
        if ours != theirs:
            later_ms = [before[offset] - cleaned_ms for offset in sorted(ours ^ theirs)[:5]]
            self.tally.unexplained.append(
                f"{name}-0: at {cleaned_ms} the broker and Winnow differ about tombstones whose horizons are "
                f"{later_ms} ms later"
            )
        return True

    def _compare_minimum_lag(self) -> None:
        """Segments of one record, a millisecond apart: each look has one that is exactly as old as the lag."""
        kind = "boundaries of min.compaction.lag.ms, to the millisecond"
        for attempt in range(ATTEMPTS):
            topic = make_edge_topic(f"edge-min-lag-{attempt}", min_compaction_lag_ms=LAG_MS)
            log, grabs = self._pass_ladder(topic, {"min.compaction.lag.ms": str(LAG_MS)}, attempt)
            for look in (grab.looks[log.name] for grab in grabs):
                compare_decision(log, Release(1.0), look, False, self.tally, f"{log.name} at {look.now_ms}")
                self.tally.compared[kind] += 1
            if grabs:
                return
        raise BrokerError("The cleaner never looked at a ladder of min.compaction.lag.ms while it passed.")

    def _compare_retention(self) -> None:
        """The same ladder under retention.ms: what goes is older than it, at a clock between two lines of the broker.

        The broker reads its clock after it looked at the log, and before it says that it deletes. So Winnow must retire
        the same at one of these instants. A clock cannot have been read after it was told: what goes one millisecond
        too late at Winnow is not to be found there, and what goes one too early is never found at the last instant.
        """
        kind = "boundaries of retention.ms, to the millisecond"
        for attempt in range(ATTEMPTS):
            topic = make_edge_topic(f"edge-retention-{attempt}", retention_ms=LAG_MS)
            settings = {"cleanup.policy": "compact,delete", "retention.ms": str(LAG_MS)}
            log, grabs = self._pass_ladder(topic, settings, attempt)
            passed = [self._compare_retired(log, grabs, *told) for told in self._list_retired(log)]
            exact = passed.count(True)
            self.tally.compared[kind] += len(passed) - passed.count(None)
            if exact:
                return
            if False in passed:
                self.tally.unexplained.append(f"{log.name}: Winnow retires each segment before the broker does")
                return
        raise BrokerError("A ladder of retention.ms never passed while the broker looked at it.")

    def _compare_retired(self, log: LogState, grabs: Sequence[Grab], told_ms: int, start: int) -> bool | None:
        """Compare one deletion: whether Winnow does the same at the instant it was told; None: that shows nothing."""
        looked_ms = max((grab.now_ms for grab in grabs if grab.now_ms <= told_ms), default=None)
        if looked_ms is None:
            return None
        known = build_partition_log(log)
        log.log_start = start
        rules = replace(build_rules(log.topic, Release(1.0)), deletes=True, retention_ms=LAG_MS)
        ours = [
            apply_retention(known, rules, as_of_ms=now_ms, now_ms=now_ms).log_start_offset
            for now_ms in range(looked_ms, told_ms + 1)
        ]
        if start not in ours:
            self.tally.unexplained.append(
                f"{log.name}: at {looked_ms} to {told_ms} the broker's log starts at {start}, Winnow's at {ours}"
            )
        # Behind the last rung every later instant retires the same.
        return None if start >= RUNGS else start == ours[-1]

    def _compare_maximum_lag(self) -> None:
        """Logs whose earliest records are a millisecond apart: at each look, one is exactly at the lag."""
        kind = "boundaries of max.compaction.lag.ms, to the millisecond"
        for attempt in range(ATTEMPTS):
            topic = make_edge_topic(f"edge-max-lag-{attempt}")
            release = Release(1.0, LAG_MS)
            self._create(topic.name, PARTITIONS_OF_MAXIMUM_LAG, {"max.compaction.lag.ms": str(LAG_MS)})
            now_ms = int(time.time() * 1000)
            base_ms = now_ms - LAG_MS + (2 * _LEAD_MS << attempt)
            numbers = range(PARTITIONS_OF_MAXIMUM_LAG)
            records = [NewRecord(n, b"key", b"value", base_ms + n, None) for n in numbers]
            self._write(topic.name, [*records, *(replace(each, timestamp_ms=now_ms) for each in records)])
            logs = {f"{topic.name}-{number}": LogState(topic, number) for number in numbers}
            try:
                for log in logs.values():
                    log.segments = read_segments(self.broker.data_folder / log.name)
            except FileNotFoundError:
                pass  # it passes already, and is being cleaned
            since_ms = int(time.time() * 1000)
            if since_ms >= base_ms + LAG_MS:
                self._wait_until_cleaned(topic.name, PARTITIONS_OF_MAXIMUM_LAG)  # else it counts in the next attempt
                continue
            position = self.broker.cleaner_log_file.stat().st_size
            self._sleep_until(base_ms + LAG_MS + PARTITIONS_OF_MAXIMUM_LAG)
            self._wait_until_cleaned(topic.name, PARTITIONS_OF_MAXIMUM_LAG)
            for grab in read_grabs(self.broker.cleaner_log_file, position):
                if grab.now_ms > since_ms and logs and len(grab.looks.keys() & logs.keys()) == len(numbers):
                    self._compare_delays(logs, release, grab)
                    exact = any(log.segments[0].largest_timestamp_ms == grab.now_ms - LAG_MS for log in logs.values())
                    self.tally.compared[kind] += exact
                logs.pop(grab.cleaned or "", None)
            if self.tally.compared[kind]:
                return
        raise BrokerError("The cleaner never looked at a ladder of max.compaction.lag.ms while it passed.")

    def _compare_delays(self, logs: dict[str, LogState], release: Release, grab: Grab) -> None:
        """Compare who is past the maximum lag in one grab of the cleaner: which log, how many, by how much."""
        due = {}
        for name, log in logs.items():
            decided = assess(
                build_partition_log(log),
                build_rules(log.topic, release),
                as_of_ms=grab.now_ms,
                cleaning_time_ms=grab.now_ms,
            )
            if decided.reason is Reason.MAX_COMPACTION_LAG:
                due[name] = decided.max_compaction_delay_ms
        ours = (len(due), max(due.values(), default=0))
        theirs = (grab.delayed or 0, grab.max_delay_ms or 0)
        if ours != theirs or (grab.cleaned is not None and grab.cleaned not in due):
            self.tally.unexplained.append(
                f"max.compaction.lag.ms at {grab.now_ms}: the broker cleaned {grab.cleaned}; there {theirs[0]} logs "
                f"are past the lag, by at most {theirs[1]} ms, at Winnow {ours[0]}, by at most {ours[1]} ms"
            )

    # ------------------------------------------------------------------------------------------------------- ladders

    def _pass_ladder(
        self, topic: RandomTopic, settings: dict[str, str], attempt: int
    ) -> tuple[LogState, Sequence[Grab]]:
        """Write a ladder that will pass a boundary of ``LAG_MS``, and wait; return the grabs while it passed."""
        self._create(topic.name, 1, settings)
        now_ms = int(time.time() * 1000)
        base_ms = now_ms - LAG_MS + (_LEAD_MS << attempt)
        times = [*range(base_ms, base_ms + RUNGS), now_ms]
        self._write(topic.name, [NewRecord(0, b"key", b"value", time_ms, None) for time_ms in times])
        log = LogState(topic, 0)
        try:
            log.segments = read_segments(self.broker.data_folder / log.name)
        except FileNotFoundError:  # it has begun to pass, and segments go while they are read
            return log, []
        since_ms = max(base_ms + LAG_MS, int(time.time() * 1000))
        self._sleep_until(base_ms + LAG_MS + RUNGS)
        time.sleep(_SETTLES_S)
        return log, [
            grab
            for grab in read_grabs(self.broker.cleaner_log_file)
            if log.name in grab.looks and since_ms <= grab.now_ms < base_ms + LAG_MS + RUNGS
        ]

    def _list_retired(self, log: LogState) -> list[tuple[int, int]]:
        """List when the broker said that it retires segments, with the log's start behind them, oldest first."""
        retired = []
        for line in self.broker.log_file.read_text(errors="replace").splitlines():
            found = _RETIRED.match(line)
            if found and found[2] == log.name:
                told_ms = round(datetime.fromisoformat(found[1].replace(",", ".")).timestamp() * 1000)
                retired.append((told_ms, int(found[3])))
        return retired

    # ---------------------------------------------------------------------------------------------------- the broker

    def _create(self, name: str, partitions: int = 1, settings: dict[str, str] | None = None) -> None:
        config = {
            "cleanup.policy": "compact",
            self.segment_setting: str(_ONE_RECORD_BYTES),
            "segment.index.bytes": "1000000",
            "segment.ms": str(365 * DAY_MS),
            "file.delete.delay.ms": "1000",
            "delete.retention.ms": str(DAY_MS),
            **HELD_BACK,
            **(settings or {}),
        }
        self._topics.create_topic(name, partitions, config)

    def _write(self, name: str, records: Sequence[NewRecord]) -> None:
        """Write records, each in a batch of its own."""
        self._topics.write(name, records, **{"batch.num.messages": 1, "linger.ms": 0})

    def _sleep_until(self, time_ms: int) -> None:
        time.sleep(max(0.0, time_ms / 1000 - time.time()))

    def _wait_until_cleaned(self, name: str, partitions: int) -> None:
        """Wait until the broker has a checkpoint of every partition."""
        logs = {f"{name}-{partition}" for partition in range(partitions)}
        until = time.monotonic() + _CLEANED_S
        while not logs <= self._topics.read_checkpoints().keys():
            if time.monotonic() > until:
                raise BrokerError(f"{name} was not cleaned within {_CLEANED_S:.0f} s.")
            time.sleep(0.05)

    # ---------------------------------------------------------------------------------------------------- the border

    def _ingest(self, name: str, *, at_broker: str = "", accepts_gap: bool = False) -> list[str]:
        self.archive.clock.now_ms = int(time.time() * 1000)
        topics = {name: at_broker or name}
        return self.archive.ingest_from_broker(self.broker.bootstrap_servers, topics, accepts_gap=accepts_gap)

    def _expect_ingested(self, name: str, *, accepts_gap: bool = False) -> None:
        self.tally.unexplained += [f"{name}: {failure}" for failure in self._ingest(name, accepts_gap=accepts_gap)]

    def _expect_refused(self, name: str, what: str, *, at_broker: str = "") -> None:
        self.tally.compared["losses of one record, refused"] += 1
        if not self._ingest(name, at_broker=at_broker):
            self.tally.unexplained.append(f"{name}: {what} was taken without a word")

    def _expect_count(self, name: str, count: int) -> None:
        found = len(self.archive.read_records(name, 0))
        if found != count:
            self.tally.unexplained.append(f"{name}: Winnow has {found} records, and should have {count}")
