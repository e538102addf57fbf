"""Topics and records of the edges, and log files that no client of ours can make a broker write.

The files are put in place of a log's own while the broker stands.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from parity.random_topics import DAY_MS, NewRecord, RandomTopic
from parity.segment_headers import BrokerSegment, read_segments
from tests.support.record_batch_encoder import Record, encode_batch, write_segment

LADDER_RUNGS: Final = 60_000
"""Delete horizons, a millisecond apart: the broker starts, and is told to clean, while they pass."""
_OLD_MS: Final = 1_700_000_000_000
_ODD_TIMES: Final = (0, 1, -1, _OLD_MS, 0)


def write_horizon_ladder(folder: Path, first_ms: int) -> None:
    """Write tombstones as a cleaning leaves them, with delete horizons from ``first_ms`` on, and one without."""
    _remove_log(folder)
    ladder = (
        encode_batch([_make_tombstone(number)], delete_horizon=first_ms + number) for number in range(LADDER_RUNGS)
    )
    write_segment(folder, 0, *ladder)
    write_segment(folder, LADDER_RUNGS, encode_batch([_make_tombstone(LADDER_RUNGS)]))
    write_segment(folder, LADDER_RUNGS + 1, encode_batch([_make_tombstone(LADDER_RUNGS + 1)]))


def _make_tombstone(number: int) -> Record:
    return Record(number, b"%d" % number, None, _OLD_MS)


def list_horizons(segments: Sequence[BrokerSegment]) -> dict[int, int]:
    """List the delete horizons of batches, by the offset of their only record."""
    return {
        batch.last_offset: batch.delete_horizon_ms
        for segment in segments
        for batch in segment.batches
        if batch.delete_horizon_ms is not None and batch.records
    }


def write_odd_times(folder: Path) -> None:
    """Write a record for each of :func:`list_odd_times`."""
    _remove_log(folder)
    batches = [
        encode_batch([Record(number, b"key-%d" % number, b"value", time_ms)])
        for number, time_ms in enumerate(_ODD_TIMES)
    ]
    write_segment(folder, 0, *batches)


def list_odd_times() -> list[int | None]:
    """List the timestamps of :func:`write_odd_times`; None: missing."""
    return [None if time_ms < 0 else time_ms for time_ms in _ODD_TIMES]


def remove_last_record(folder: Path) -> None:
    """Take the newest record off a log whose batches hold one each, as a disk that lost its end does."""
    segments = read_segments(folder)
    last = max(segment.base_offset for segment in segments if segment.batches)
    for path in folder.glob(f"{last:020}.*"):
        path.unlink()
    write_segment(folder, last)


def _remove_log(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name.partition(".")[0].isdigit():
            path.unlink()


def make_edge_topic(name: str, *, min_compaction_lag_ms: int = 0, retention_ms: int | None = None) -> RandomTopic:
    """Make a topic with these rules and nothing else."""
    return RandomTopic(
        name=name,
        seed="",
        rounds=1,
        records=0,
        config={},
        delete_retention_ms=(DAY_MS,),
        thresholds=("1.0",),
        timestamps="rising",
        min_compaction_lag_ms=min_compaction_lag_ms,
        retention_ms=retention_ms,
    )


def make_edge_records(numbers: range) -> list[NewRecord]:
    """Make records with keys of their own, the present as their time."""
    now_ms = int(time.time() * 1000)
    return [NewRecord(0, b"key-%d" % number, b"value", now_ms + number, None) for number in numbers]


assert LADDER_RUNGS < DAY_MS, "a cleaning that stamps a horizon stamps one behind the ladder"
