"""Random topics from a seed: their configuration, their keys and values, and what happens to them round by round."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from winnow.values.model import Headers

PARTITIONS: Final = 4
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
SHORT_RETENTION_MS: Final = 1_500
"""A delete horizon that has passed by the next round, which begins later than that."""

ODD_KEYS: Final = (b"", b"\xff\xfe\x80", b"null", b" ", b"\x00", b"k" * 300, "ключ".encode())
ODD_HEADERS: Final[tuple[Headers, ...]] = (
    (("a", b"1"), ("a", b"2")),
    (("n", None),),
    (("", b""),),
    (("ü", b"\xff\x00"), ("n", None), ("ü", b"")),
)
_FILLER: Final = random.Random(0).randbytes(4096)


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record before it has an offset. ``timestamp_ms`` -1: missing."""

    partition: int
    key: bytes
    value: bytes | None
    timestamp_ms: int
    headers: Headers | None


@dataclass(frozen=True, slots=True)
class RandomTopic:
    """A topic whose partitions are random logs. Everything follows from ``seed``.

    ``shows``: the id of the listed difference that this topic is made to show; None for a random one.
    """

    name: str
    seed: str
    rounds: int
    records: int
    """Records per partition, over all rounds."""
    config: Mapping[str, str]
    delete_retention_ms: tuple[int, ...]
    """delete.retention.ms in each round."""
    thresholds: tuple[str, ...]
    """What releases the cleaner in each round: a ratio, ``exact``, ``below`` (that of one partition) or ``lag``."""
    timestamps: str
    transactional: bool = False
    keys: int = 100
    tombstone_share: float = 0.05
    batch_bytes: int = 8_000
    min_compaction_lag_ms: int = 0
    retention_ms: int | None = None
    """Whole segments older than this go, after the first round's records are there."""
    deletes_records: bool = False
    copies_directory: bool = False
    """Whether Winnow reads the broker's own log files instead of what a consumer reads."""
    shows: str | None = None
    generator: random.Random = field(compare=False, repr=False, default_factory=random.Random)

    @property
    def log_append_time(self) -> bool:
        """Whether the broker sets the timestamps."""
        return self.config.get("message.timestamp.type") == "LogAppendTime"

    @property
    def segments_matter(self) -> bool:
        """Whether the borders of segments decide anything, so that Winnow needs the same ones."""
        return self.min_compaction_lag_ms > 0 or self.retention_ms is not None or self.deletes_records

    def make_records(self, round_number: int, now_ms: int) -> Iterator[NewRecord]:
        """Make the records of a round, the partitions mixed; the last ones of each partition are of ``now_ms``."""
        rng = self.generator
        count = self.records // self.rounds
        for number in range(count):
            for partition in range(PARTITIONS):
                key = self._make_key(rng, round_number)
                yield NewRecord(
                    partition,
                    key,
                    self._make_value(rng),
                    self._make_timestamp(rng, number / count, round_number, now_ms),
                    rng.choice(ODD_HEADERS) if rng.random() < 0.1 else None,
                )

    def _make_key(self, rng: random.Random, round_number: int) -> bytes:
        """Some keys of a round come again in the next one, and some never, so that their tombstones can expire."""
        if rng.random() < 0.03:
            return rng.choice(ODD_KEYS)
        return b"key-%d" % (round_number * self.keys // 2 + int(self.keys * rng.random() ** 2))

    def _make_value(self, rng: random.Random) -> bytes | None:
        draw = rng.random()
        if draw < self.tombstone_share:
            return None
        if draw > 0.97:
            return rng.choice((b"", b"null", b"\xff\x00"))
        start = rng.randrange(4000)
        return _FILLER[start : start + rng.randrange(8, 96)]

    def _make_timestamp(self, rng: random.Random, share: float, round_number: int, now_ms: int) -> int:
        """Times run from thirty days ago to fourteen, out of order if asked; the last fifth of a round may be young."""
        if self.timestamps == "missing" or (self.timestamps == "some missing" and rng.random() < 0.3):
            return -1
        if self.timestamps == "young" or (self.timestamps == "young at the end" and share > 0.8):
            return now_ms - rng.randrange(60_000)
        if self.timestamps == "mixed":
            return now_ms - rng.choice((0, 30 * DAY_MS))
        if self.timestamps == "shuffled":
            return now_ms - rng.randrange(14 * DAY_MS, 30 * DAY_MS)
        old_ms = 30 * DAY_MS - int((round_number + share) / self.rounds * 16 * DAY_MS)
        return now_ms - old_ms + rng.randrange(-HOUR_MS, HOUR_MS)


def make_topics(seed: int, logs: int, records: int, *, segment_setting: str) -> list[RandomTopic]:
    """Make topics with ``logs`` partitions or a few more in all, of about ``records`` records each.

    The first ones are made to show the listed differences, and rules that random topics would meet by luck alone.
    ``segment_setting``: the version's name for the size of small segments.
    """
    special = _make_special_topics(seed, records, segment_setting)
    count = max(len(special), -(-logs // PARTITIONS))
    return special + [
        _make_random_topic(f"{seed}-{number}", f"log-{number:03}", records, segment_setting)
        for number in range(len(special), count)
    ]


def _make_random_topic(seed: str, name: str, records: int, segment_setting: str) -> RandomTopic:
    rng = random.Random(f"parity {seed}")
    transactional = rng.random() < 0.3
    deletes = rng.random() < 0.3
    retention = deletes and rng.random() < 0.5
    append_time = rng.random() < 0.08 and not retention
    rounds = rng.choice((1, 2, 2, 3))
    lag = 0 if append_time or rng.random() < 0.5 else rng.choice((HOUR_MS, 7 * DAY_MS))
    timestamps = rng.choice(("rising", "shuffled", "young", "young at the end", "missing", "some missing"))
    if retention:
        timestamps = "young at the end"
    released = rng.choices(("0.0", "0.01", "0.3", "0.5", "0.8", "exact", "below", "lag"), k=rounds)
    config = {
        "cleanup.policy": rng.choice(("compact,delete", "delete,compact")) if deletes else "compact",
        segment_setting: str(_choose_segment_bytes(rng, records)),
        "compression.type": rng.choice(("producer", "uncompressed", "gzip", "lz4", "zstd", "snappy")),
        "segment.ms": str(365 * DAY_MS),
        "file.delete.delay.ms": "1000",
    }
    if append_time:
        config["message.timestamp.type"] = "LogAppendTime"
    return RandomTopic(
        name=name,
        seed=seed,
        rounds=rounds,
        records=records,
        config=config,
        delete_retention_ms=tuple(rng.choices((0, SHORT_RETENTION_MS, DAY_MS), (3, 4, 3), k=rounds)),
        thresholds=tuple("0.0" if retention else each for each in released),
        timestamps=timestamps,
        transactional=transactional and not retention,
        keys=rng.choice((5, max(1, records // 20), max(1, records // 3), records * 2)),
        tombstone_share=rng.choice((0.0, 0.05, 0.3)),
        batch_bytes=rng.choice((1_000, 4_000, 8_000)),
        min_compaction_lag_ms=lag,
        retention_ms=7 * DAY_MS if retention else None,
        deletes_records=deletes and not retention and rounds > 1 and rng.random() < 0.7,
        copies_directory=rng.random() < 0.3,
        generator=rng,
    )


def _choose_segment_bytes(rng: random.Random, records: int) -> int:
    return max(12_000, int(records * 90 / rng.choice((4, 8, 12))))


def _make_special_topics(seed: int, records: int, segment_setting: str) -> list[RandomTopic]:
    """Make the topics of which each shows one listed difference (:mod:`parity.differences`), or one rule."""
    few = min(records, 4_000)
    base = RandomTopic(
        name="",
        seed=f"{seed}",
        rounds=2,
        records=few,
        config={
            "cleanup.policy": "compact",
            segment_setting: str(max(12_000, few * 12)),
            "segment.ms": str(365 * DAY_MS),
            "file.delete.delay.ms": "1000",
        },
        delete_retention_ms=(0, 0),
        thresholds=("0.0", "0.0"),
        timestamps="rising",
        keys=50,
        tombstone_share=0.3,
        batch_bytes=2_000,
    )
    deleting = {**base.config, "cleanup.policy": "compact,delete"}
    made = [
        replace(base, name="show-markers", transactional=True, shows="transaction-markers"),
        replace(
            base,
            name="show-young-markers",
            transactional=True,
            min_compaction_lag_ms=HOUR_MS,
            shows="young-markers",
        ),
        replace(
            base,
            name="show-young-markers-retention",
            rounds=1,
            config=deleting,
            transactional=True,
            retention_ms=7 * DAY_MS,
            shows="young-markers-retention",
        ),
        replace(
            base, name="show-earliest-record", thresholds=("lag", "lag"), timestamps="mixed", shows="earliest-record"
        ),
        replace(base, name="show-quiet-tombstones", rounds=1, keys=few * 4, shows="quiet-tombstones"),
        replace(base, name="show-below-log-start", config=deleting, deletes_records=True, shows="below-log-start"),
        # KIP-534: what was stamped once keeps its horizon in later cleanings, under whatever retention.
        replace(
            base,
            name="stamped-once",
            rounds=3,
            keys=few * 4,
            delete_retention_ms=(DAY_MS, 2 * DAY_MS, HOUR_MS),
            thresholds=("0.0", "0.0", "0.0"),
        ),
    ]
    return [replace(each, generator=random.Random(f"parity {seed} {each.name}")) for each in made]
