"""Topics whose segments are by construction the same at the broker and at Winnow, which closes them by its own rule.

Winnow has a file for each ingest, and its logical segments are files joined until they reach segment.bytes or are older
than segment.ms. So an ingest ends where a broker's segment does, and what fills a segment fills it on both sides:

- by time, records of one segment are within half a day, those of the next two days younger, and segment.ms is a day;
- by bytes, a segment begins with a record of random bytes that no longer fits into the broker's full segment, and is
  full at Winnow once it has as many random bytes as its segment.bytes, which no compression makes fewer.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from parity.random_topics import DAY_MS, HOUR_MS, PARTITIONS, SHORT_RETENTION_MS, NewRecord, RandomTopic

SEGMENT_MS: Final = DAY_MS
OUR_SEGMENT_BYTES: Final = 110_000
BROKER_SEGMENT_BYTES: Final = 215_000
_FIRST_BYTES: Final = 100_000
"""Random bytes of the first record: with those of the others more than Winnow's segment, alone less."""
_OTHER_BYTES: Final = 15_000
"""Random bytes of the other records of a full segment, at least."""
_COMPRESSIBLE_BYTES: Final = 80_000
_BETWEEN: Final = "0.57"
"""Between the two ratios of ``own-sizes`` in its second round."""


@dataclass(frozen=True, slots=True)
class OwnTopic:
    """A topic and how it is filled.

    ``by_bytes``: whether segments close by their size; else by time. ``settles``: whether the newest segment is too
    young to be closed by the clock. ``pads``: whether later rounds have bytes that only the broker stores as they are.
    """

    topic: RandomTopic
    by_bytes: bool
    settles: bool = True
    pads: bool = False

    @property
    def our_config(self) -> dict[str, str]:
        """The configuration of the archive's topic, but for what the rounds change."""
        return {
            "cleanup.policy": "compact",
            "segment.bytes": str(OUR_SEGMENT_BYTES if self.by_bytes else 1 << 30),
            "segment.ms": self.topic.config["segment.ms"],
            "min.compaction.lag.ms": str(self.topic.min_compaction_lag_ms),
            "delete.retention.ms": str(self.topic.delete_retention_ms[0]),
            "retention.ms": "-1",
        }

    def make_pieces(self, round_number: int, now_ms: int) -> Iterator[list[NewRecord]]:
        """Make what a round writes, ingest by ingest."""
        return self._fill_by_bytes(round_number, now_ms) if self.by_bytes else self._fill_by_time(now_ms)

    def _fill_by_time(self, now_ms: int) -> Iterator[list[NewRecord]]:
        rng = self.topic.generator
        segments = rng.randrange(3, 6)
        for number in range(segments):
            start_ms = now_ms - 2 * DAY_MS * (segments - number) - DAY_MS
            yield self._make_records(150, lambda: start_ms + rng.randrange(12 * HOUR_MS))  # noqa: B023
        newest_ms = now_ms - (0 if self.settles else DAY_MS + 2 * HOUR_MS)
        yield self._make_records(60, lambda: newest_ms - rng.randrange(HOUR_MS))

    def _fill_by_bytes(self, round_number: int, now_ms: int) -> Iterator[list[NewRecord]]:
        """The newest segment, which the round before began, is filled; then come full ones, and one that is begun."""
        rng = self.topic.generator

        def make_time() -> int:
            return now_ms - rng.randrange(30 * DAY_MS)

        for number in range(2 if self.pads else rng.randrange(2, 4)):
            if number or not round_number:
                yield self._make_first(make_time())
            records = self._make_records(20, make_time)
            while _find_fewest_bytes(records) < _OTHER_BYTES:
                records += self._make_records(5, make_time)
            if self.pads and round_number:
                padding = b"x" * (_COMPRESSIBLE_BYTES // 20)
                records += [
                    NewRecord(partition, b"pad-%d-%d" % (round_number, n), padding, make_time(), None)
                    for partition in range(PARTITIONS)
                    for n in range(20)
                ]
            yield records
        yield self._make_first(make_time())

    def _make_first(self, time_ms: int) -> list[NewRecord]:
        rng = self.topic.generator
        name = rng.randrange(1 << 40 if self.pads else 4)
        return [
            NewRecord(partition, b"first-%d" % name, rng.randbytes(_FIRST_BYTES), time_ms, None)
            for partition in range(PARTITIONS)
        ]

    def _make_records(self, count: int, make_time: Callable[[], int]) -> list[NewRecord]:
        rng = self.topic.generator
        return [
            NewRecord(
                partition,
                b"key-%d" % rng.randrange(self.topic.keys),
                None if rng.random() < self.topic.tombstone_share else rng.randbytes(rng.randrange(40, 600)),
                make_time(),
                None,
            )
            for _ in range(count)
            for partition in range(PARTITIONS)
        ]


def _find_fewest_bytes(records: Sequence[NewRecord]) -> int:
    """Find how many bytes of values the partition has that has the fewest."""
    sizes = Counter(dict.fromkeys(range(PARTITIONS), 0))
    for record in records:
        sizes[record.partition] += len(record.value or b"")
    return min(sizes.values())


def make_own_topics(seed: int, *, segment_setting: str, more: int = 0) -> list[OwnTopic]:
    """Make the topics; ``more``: random ones beside those that each show a rule or a listed difference."""
    base = RandomTopic(
        name="",
        seed=f"{seed}",
        rounds=1,
        records=0,
        config={
            "cleanup.policy": "compact",
            segment_setting: str(1 << 30),
            "segment.ms": str(SEGMENT_MS),
            "file.delete.delay.ms": "1000",
        },
        delete_retention_ms=(DAY_MS,),
        thresholds=("0.0",),
        timestamps="rising",
        keys=100,
        tombstone_share=0.2,
    )
    sized = replace(
        base,
        rounds=3,
        config={**base.config, segment_setting: str(BROKER_SEGMENT_BYTES), "segment.ms": str(365 * DAY_MS)},
        delete_retention_ms=(DAY_MS,) * 3,
        thresholds=("0.0", "0.0", "0.0"),
    )
    rng = random.Random(f"parity {seed} own")
    # Tombstones of the first round get a horizon, which has passed in the second.
    gone = replace(
        sized,
        name="own-bytes-gone",
        rounds=2,
        delete_retention_ms=(SHORT_RETENTION_MS, 0),
        thresholds=("0.0", "0.0"),
        keys=3_000,
    )
    sizes = replace(sized, rounds=2, name="own-sizes", thresholds=("0.0", _BETWEEN), keys=1 << 40, tombstone_share=0.0)
    topics = [
        OwnTopic(replace(base, name="own-time", keys=30), by_bytes=False),
        OwnTopic(replace(base, name="own-time-lag", min_compaction_lag_ms=5 * DAY_MS), by_bytes=False),
        OwnTopic(replace(base, name="own-time-deadline", thresholds=("lag",)), by_bytes=False),
        OwnTopic(replace(base, name="own-clock", shows="closed-by-the-clock"), by_bytes=False, settles=False),
        OwnTopic(gone, by_bytes=True),
        OwnTopic(replace(sizes, shows="other-sizes"), by_bytes=True, pads=True),
    ]
    for number in range(more):
        thresholds = ("0.0", rng.choice(("0.1", "0.3", "0.5", "0.7")), rng.choice(("0.0", "0.4", "0.6")))
        name = f"own-{number:03}"
        if rng.choice((True, False)):
            made = replace(sized, name=name, thresholds=thresholds, keys=rng.choice((20, 200, 5_000)))
        else:
            threshold = rng.choice(("0.0", "0.5", "lag"))
            lag = 0 if threshold == "lag" else rng.choice((0, 3 * DAY_MS, 6 * DAY_MS))
            made = replace(base, name=name, min_compaction_lag_ms=lag, thresholds=(threshold,))
        topics.append(OwnTopic(made, by_bytes=made.rounds > 1))
    return [
        replace(each, topic=replace(each.topic, generator=random.Random(f"parity {seed} {each.topic.name}")))
        for each in topics
    ]
