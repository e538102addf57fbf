"""Measures what a keyed table does not keep of a log: the same small history for Winnow and for each way of Spark.

Two topic partitions, four batches, each compacted or merged as it arrives: 45 keys; half of them updated, ten deleted
and one partition emptied; older versions of live and of deleted keys, which arrive late; the first batch once more.
Versions are compared by timestamp.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.keyed_tables import build_request, run_or_fail
from bench.lake import compact, open_home
from bench.peers.spark_keyed_table import read_offsets
from bench.result_checks import read_record
from bench.workloads import BASE_MS
from oracle.latest_state import compute_latest_state
from winnow.values.model import Record
from winnow.values.strategies import Strategy

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation

TOPIC = "history"
NEWEST = ["timestamp", "offset"]
KEYS, UPDATED, DELETED, EMPTIED, LATE = 40, 20, 10, 5, 5
"""Keys of topic partition 0; how many of them are updated, then deleted; keys of partition 1, all deleted; late records
for live and for deleted keys, each."""
ENDS = {0: KEYS + UPDATED + DELETED, 1: 2 * EMPTIED}
"""End of each topic partition after the second batch."""
SPARK_WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "spark-merge-cow": ("merge-cow", {"newest": NEWEST}),
    "spark-merge-mor": ("merge-mor", {"newest": NEWEST}),
    "spark-merge-blind": ("merge-cow", {"blind": True}),
    "spark-overwrite": ("overwrite", {"newest": NEWEST}),
}


@dataclass(frozen=True, slots=True)
class Kept:
    """What is left after a batch: ``records`` (tombstones, too), the offsets of each live data file in its order.

    ``ends``: what is known of the end of each topic partition.
    """

    records: Sequence[Record]
    files: Sequence[Sequence[int]]
    ends: dict[int, int]


def build_history() -> list[list[Record]]:
    """Build the batches; the keys of the first are not in the order of their offsets."""
    names = [b"key-%02d" % (number * 7 % KEYS) for number in range(KEYS)]
    other = [b"other-%d" % number for number in range(EMPTIED)]
    updated, deleted = names[:UPDATED], names[UPDATED : UPDATED + DELETED]
    late = [*updated[:LATE], *deleted[:LATE]]
    return [
        [*_write(names, 0, 0), *_write(other, 0, 0, partition=1)],
        [
            *_write(updated, KEYS, 2000),
            *_write(deleted, KEYS + UPDATED, 2000, tombstone=True),
            *_write(other, EMPTIED, 2000, partition=1, tombstone=True),
        ],
        _write(late, ENDS[0], 1000),
    ]


def _write(
    keys: Iterable[bytes], offset: int, after_ms: int, *, partition: int = 0, tombstone: bool = False
) -> list[Record]:
    return [
        Record(
            offset=offset + number,
            key=key,
            value=None if tombstone else b"%s at %d" % (key, after_ms),
            timestamp_ms=BASE_MS + after_ms,
            headers=(("trace", b"%d" % (offset + number)),),
            timestamp_type=0,
            partition=partition,
        )
        for number, key in enumerate(keys)
    ]


def measure_losses(
    folder: Path, report: Callable[[str], None], ways: Collection[str] = tuple(SPARK_WAYS)
) -> dict[str, Any]:
    """Bring the history into Winnow and into ``ways`` of Spark, and judge what is left: figures by competitor."""
    place = folder / "losses"
    shutil.rmtree(place, ignore_errors=True)
    history = build_history()
    batches = [
        _write_files(records, place / f"batch-{number}") for number, records in enumerate([*history, history[0]])
    ]
    report("what is lost: winnow")
    found = {"winnow": judge(history, _run_winnow(place / "home", batches))}
    for name in ways:
        way, more = SPARK_WAYS[name]
        report(f"what is lost: {name}")
        found[name] = judge(history, _run_spark(place, name, way, batches, **more))
    shutil.rmtree(place)
    return found


def judge(history: Sequence[Sequence[Record]], kept: Sequence[Kept]) -> dict[str, int]:
    """Count what is kept after the batches of ``history`` and after the first of them once more."""
    _, updates, late, again = kept
    wanted = compute_latest_state([*history[0], *history[1]], Strategy.TIMESTAMP, None)
    written = {(each.partition, each.offset): each for batch in history for each in batch}
    live = [each for each in updates.records if each.value is not None]
    late_keys = {(each.partition, each.key) for each in history[2]}
    gone = {(each.partition, each.key) for each in history[1] if each.value is None}

    def find_changed(stage: Kept) -> set[tuple[int, bytes | None]]:
        state = compute_latest_state(stage.records, Strategy.TIMESTAMP, None)
        return {place for place, record in state.items() if wanted.get(place) != record}

    return {
        "files": len(updates.files),
        "files_in_order": sum(list(offsets) == sorted(offsets) for offsets in updates.files),
        "tombstones": sum(each.value is None for each in updates.records),
        "ends_known": sum(updates.ends.get(partition) == end for partition, end in ENDS.items()),
        "headers": sum(each.headers == written[each.partition, each.offset].headers for each in live),
        "live": len(live),
        "emptied_left": sum(each.partition == 1 for each in live),
        "late_won": len(find_changed(late) & late_keys - gone),
        "late_returned": len(find_changed(late) & late_keys & gone),
        "again_returned": len(find_changed(again) & gone - late_keys),
    }


def _run_winnow(home: Path, batches: Sequence[Sequence[str]]) -> list[Kept]:
    from winnow.pipeline.ingest.ingest import ingest_files
    from winnow.pipeline.topics.definition import create_topic

    home.mkdir(parents=True)
    config = {"compaction.strategy": "timestamp", "min.cleanable.dirty.ratio": "0", "segment.ms": "1"}
    with open_home(home) as installation:
        create_topic(installation, TOPIC, len(ENDS), config)
    kept = []
    for files in batches:
        with open_home(home) as installation:
            ingest_files(installation, TOPIC, files, as_of_ms=installation.now_ms())
        compact(home, [TOPIC])
        with open_home(home) as installation:
            kept.append(_read_winnow(installation))
    return kept


def _read_winnow(installation: Installation) -> Kept:
    from winnow.pipeline.read.records import read_batches

    log = installation.log.open(TOPIC)
    head = log.head()
    paths = [segment.path for segments in log.segments(head).values() for segment in segments]
    rows = [row for batch in read_batches(installation, TOPIC) for row in batch.to_pylist()]
    ends = {number: state.log_end_offset for number, state in head.state.partitions.items()}
    return Kept([read_record(row) for row in rows], read_offsets(paths), ends)


def _run_spark(place: Path, name: str, way: str, batches: Sequence[Sequence[str]], **more: object) -> list[Kept]:
    import pyarrow.parquet as pq

    exports = [place / name / f"after-{number}" for number in range(len(batches))]
    request = build_request(place / name / "table", batches, exports=[str(each) for each in exports], **more)
    run_or_fail(place / "home", way, request)
    kept = []
    for export in exports:
        records = [read_record(row) for row in pq.read_table(export / "rows").to_pylist()]
        offsets = json.loads((export / "offsets.json").read_text())
        ends: dict[int, int] = {}
        for each in records:
            ends[each.partition] = max(ends.get(each.partition, 0), each.offset + 1)
        kept.append(Kept(records, offsets, ends))
    return kept


def _write_files(records: Sequence[Record], folder: Path) -> list[str]:
    """Write one file per topic partition, as Winnow and Spark read it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        {
            "partition": pa.int32(),
            "offset": pa.int64(),
            "timestamp": pa.timestamp("us", "UTC"),
            "timestampType": pa.int32(),
            "key": pa.binary(),
            "value": pa.binary(),
            "headers": pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),
        }
    )
    folder.mkdir(parents=True)
    paths = []
    for partition in sorted({each.partition for each in records}):
        rows = [
            {
                "partition": partition,
                "offset": each.offset,
                "timestamp": (each.timestamp_ms or 0) * 1000,
                "timestampType": each.timestamp_type,
                "key": each.key,
                "value": each.value,
                "headers": [{"key": name, "value": value} for name, value in each.headers or ()],
            }
            for each in records
            if each.partition == partition
        ]
        path = folder / f"{partition}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema), path)
        paths.append(str(path))
    return paths
