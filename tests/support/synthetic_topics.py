"""Registers topics with many partitions and segments but no data files.

Segments are registered as Iceberg entries with figures made up; paths lead nowhere. So ten thousand partitions take
seconds, and whatever opens a data file while it decides fails. The first ``clean`` segments of each partition lie below
its checkpoint, with one entry of cleaning history.

Also a command: ``python -m tests.support.synthetic_topics HOME --topics 1000 --partitions 4 --segments 6``.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
from dataclasses import dataclass, replace
from pathlib import Path

from winnow.config.settings import load_settings
from winnow.log.head import Change, Head
from winnow.pipeline.installation import Installation, open_installation
from winnow.pipeline.topics.definition import create_topic
from winnow.values.model import Reason, Segment, Status
from winnow.values.results import PartitionReceipt, Receipt
from winnow.values.topic_state import Append, Cleaning, PartitionState, RetiredFile

DAY_MS = 86_400_000
SEGMENT_RECORDS = 1_000_000
SEGMENT_BYTES = 1 << 28


@dataclass(frozen=True)
class Shape:
    """What a topic looks like. ``segments``: of each partition, in as many commits as there are ``appends``.

    ``receipts``: so many publications are written down, each of all partitions. ``timestamps`` False: records without.
    """

    partitions: int = 10
    segments: int = 10
    clean: int = 8
    appends: int = 1
    receipts: int = 0
    timestamps: bool = True

    def segment(self, location: str, partition: int, number: int, now_ms: int) -> Segment:
        """Segment ``number`` of ``partition``; the last one is two days old."""
        first = number * SEGMENT_RECORDS
        age_ms = (2 + self.segments - number) * DAY_MS
        timed = self.timestamps
        return Segment(
            path=f"{location}/data/synthetic/{partition:05d}-{first:020d}-00000.parquet",
            partition=partition,
            first_offset=first,
            last_offset=first + SEGMENT_RECORDS - 1,
            records=SEGMENT_RECORDS if number >= self.clean else SEGMENT_RECORDS // 10,
            size_bytes=SEGMENT_BYTES + partition % 1000,
            min_timestamp_ms=now_ms - age_ms if timed else None,
            max_timestamp_ms=now_ms - age_ms + DAY_MS // 2 if timed else None,
            tombstones=partition % 3,
        )

    def state(self, partition: int, now_ms: int) -> PartitionState:
        """The carried state of ``partition`` once all its segments are there."""
        dirty_from = self.clean * SEGMENT_RECORDS
        return PartitionState(
            log_end_offset=self.segments * SEGMENT_RECORDS,
            first_dirty_offset=dirty_from if self.clean else None,
            strategy="offset" if self.clean else None,
            history=(Cleaning(dirty_from, now_ms - 3 * DAY_MS, now_ms - 2 * DAY_MS),) if self.clean else (),
            appends=tuple(
                Append(
                    digest=hashlib.sha256(f"{partition}/{number}".encode()).hexdigest(),
                    first_offset=number * SEGMENT_RECORDS,
                    last_offset=(number + 1) * SEGMENT_RECORDS - 1,
                    records=SEGMENT_RECORDS,
                    as_of_ms=now_ms - (1 + self.segments - number) * DAY_MS,
                )
                for number in range(self.clean, self.segments)
            ),
        )


def add_topic(installation: Installation, topic: str, shape: Shape, **config: str) -> None:
    """Create ``topic`` and register its segments; keyword ``segment_bytes`` means ``segment.bytes``."""
    create_topic(installation, topic, shape.partitions, {name.replace("_", "."): text for name, text in config.items()})
    now_ms = installation.now_ms()
    log = installation.log.open(topic)
    states = {number: shape.state(number, now_ms) for number in range(shape.partitions)}
    bounds = [shape.segments * number // shape.appends for number in range(shape.appends + 1)]
    for begin, end in itertools.pairwise(bounds):

        def append(head: Head, begin: int = begin, end: int = end) -> Change:
            segments = [
                shape.segment(head.location, partition, number, now_ms)
                for partition in range(shape.partitions)
                for number in range(begin, end)
            ]
            return Change(state=replace(head.state, partitions=states), add=segments)

        log.commit(append)
    for number in range(shape.receipts):
        publish_receipt(installation, topic, number, shape.partitions)


def publish_receipt(installation: Installation, topic: str, number: int, partitions: int) -> Receipt:
    """Write down one publication of all partitions, as a commit without files."""
    log = installation.log.open(topic)
    now_ms = installation.now_ms()
    plan_id = hashlib.sha256(f"{topic}/{number}".encode()).hexdigest()[:32]

    def change(head: Head) -> Change:
        def receipt(snapshot_id: int) -> Receipt:
            parts = tuple(_part(each, number) for each in range(partitions))
            return Receipt(topic, plan_id, Status.PUBLISHED, snapshot_id, parts, "", now_ms, now_ms + number, "a1")

        return Change(state=head.state, summary={"winnow.plan-id": plan_id}, receipt=receipt)

    committed = log.commit(change)
    assert committed.receipt is not None
    retired: list[RetiredFile] = []
    installation.store.projection.record_publication(committed.receipt, committed.state.partitions, retired, now_ms)
    return committed.receipt


def _part(partition: int, number: int) -> PartitionReceipt:
    return PartitionReceipt(
        partition=partition,
        first_dirty_offset=number * SEGMENT_RECORDS,
        next_first_dirty_offset=(number + 1) * SEGMENT_RECORDS,
        records_in=SEGMENT_RECORDS * 2,
        records_kept=SEGMENT_RECORDS,
        records_superseded=SEGMENT_RECORDS,
        tombstones_expired=0,
        records_keyless=0,
        records_retired=0,
        bytes_in=2 * SEGMENT_BYTES,
        bytes_out=SEGMENT_BYTES,
        reason=Reason.DIRTY_RATIO,
        seconds=1.5,
    )


def main() -> None:
    """Make topics below a home."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("--topics", type=int, default=1)
    parser.add_argument("--name", default="synthetic")
    for name, number in (("partitions", 10), ("segments", 10), ("clean", 8), ("appends", 1), ("receipts", 0)):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--no-timestamps", action="store_true")
    given = parser.parse_args()
    shape = Shape(given.partitions, given.segments, given.clean, given.appends, given.receipts, not given.no_timestamps)
    settings = load_settings(cwd=given.home, env={"WINNOW_HOME": str(given.home)})
    with open_installation(settings) as installation:
        for number in range(given.topics):
            add_topic(installation, f"{given.name}-{number:05d}", shape)


if __name__ == "__main__":
    main()
