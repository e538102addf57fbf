"""An ingest of an archive by tasks, which ends or stops at its n-th step: a call of one of the functions below.

The tasks run in the process of the submitter: what is left behind is what killed tasks, drivers and submitters leave.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyiceberg.table import Transaction

from tests.support.in_process_ingest import carry_out_in_process
from tests.support.sample_archives import encode
from tests.support.world import TOPIC, World
from winnow.arrivals.read_range import ObjectReader
from winnow.arrivals.spool import Spool
from winnow.files import storage
from winnow.files.segments import SegmentWriter
from winnow.log.topic_log import TopicLog
from winnow.pipeline.ingest import run_spark
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.ingest.request import IngestReport
from winnow.planning import ingest_ranges
from winnow.store.ingests import Ingests

STEPS: tuple[tuple[Any, str], ...] = (
    (storage, "write_bytes"),
    (storage, "list_files"),
    (storage, "delete"),
    (storage, "sync"),
    (SegmentWriter, "write"),
    (SegmentWriter, "finish"),
    (ObjectReader, "read"),
    (Spool, "read"),
    (Ingests, "open"),
    (Ingests, "close"),
    (TopicLog, "commit"),
    (Transaction, "commit_transaction"),
    (run_spark, "check_result"),
)


def write_archive(folder: Path) -> Path:
    """Write objects of Aiven's sink that began again: they overlap each other, and the first one overlaps the log."""
    folder.mkdir(parents=True, exist_ok=True)
    for partition, start, end in ((0, 30, 80), (0, 60, 120), (0, 120, 150), (1, 0, 40)):
        lines: list[dict[str, object]] = [
            {
                "key": encode(f"key-{offset % 7}\xff".encode("latin-1")),
                "value": encode(f"value-{offset}\xff".encode("latin-1")),
                "offset": offset,
                "timestamp": "2024-01-02T03:04:05.678Z",
                "headers": [],
            }
            for offset in range(start, end)
        ]
        (folder / f"{TOPIC}-{partition}-{start}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


def ingest(world: World) -> IngestReport:
    """Ingest the archive by tasks of this process, with small ranges."""
    run_spark.submit_ingest_plan = carry_out_in_process
    ingest_ranges.MINIMUM_RANGE_BYTES = 1
    return ingest_files(world.installation, TOPIC, [str(world.folder / "archive")], as_of_ms=world.clock(), on="spark")


def ingest_until(world: World, step: int, end: Callable[[], None]) -> None:
    """Ingest; call ``end`` instead of the ``step``-th step, from 1."""
    left = [step]

    def count(genuine: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                end()
            return genuine(*arguments, **named)

        return call

    for owner, name in STEPS:
        setattr(owner, name, count(getattr(owner, name)))
    ingest(world)
