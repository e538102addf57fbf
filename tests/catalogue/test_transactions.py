"""Transactions are resolved before they are archived: what was aborted and what ended it never enter the log.

A producer writes on, a marker takes an offset of its own, and both leave gaps. A source that reads committed records
only gives what these tests ingest. Nothing in a record of JSON lines or Parquet could tell Winnow of a transaction, so
what could carry such a flag is refused or named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.random_logs import build_table
from tests.support.world import TOPIC, World, compute_survivors, define_world, json_line, record
from winnow.errors import BadInputError
from winnow.pipeline.compaction.assess import assess_topics
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.values.model import Reason, Record

DAY_MS = 86_400_000


world = define_world(1, min_cleanable_dirty_ratio="0", internal_segment_bytes="1")
"""Every file is closed, and anything cleanable is reason enough."""


@dataclass(frozen=True)
class Written:
    """What a producer wrote to a broker: a record, or the marker that ends its transaction."""

    offset: int
    producer: int
    key: bytes | None
    marker: str | None = None


def log_of_broker(*entries: tuple[int, bytes | None, str | None]) -> list[Written]:
    """(producer, key, marker) in offset order."""
    return [Written(offset, *entry) for offset, entry in enumerate(entries)]


def committed(written: Sequence[Written]) -> list[Record]:
    """What a reader of committed records gets: a transaction's records when its next marker is a commit."""
    found = []
    for entry in written:
        ends = (each.marker for each in written if each.producer == entry.producer and each.offset > entry.offset)
        if entry.marker is None and next((marker for marker in ends if marker), None) == "commit":
            found.append(record(entry.offset, entry.key, b"by-%d-at-%d" % (entry.producer, entry.offset)))
    return found


INTERLEAVED = log_of_broker(
    (1, b"a", None),
    (2, b"b", None),
    (1, b"c", None),
    (2, b"a", None),
    (2, None, "abort"),
    (1, b"b", None),
    (1, None, "commit"),
    (2, b"c", None),
    (3, b"a", None),
    (3, None, "commit"),
    (2, None, "abort"),
)


def offsets(records: Sequence[Record]) -> list[int]:
    return [each.offset for each in records]


@pytest.mark.kafka("59")
def test_only_committed_records_compete_and_survive(world: World) -> None:
    """The aborted record of key c is the newest of its key, and the committed one stays."""
    world.ingest(committed(INTERLEAVED))
    assert offsets(world.read()) == [0, 2, 5, 8]
    world.compact()
    assert world.read() == compute_survivors(committed(INTERLEAVED))
    assert offsets(world.read()) == [2, 5, 8]
    assert not [r for r in world.read() if r.value is not None and r.value.startswith(b"by-2")]


@pytest.mark.kafka("60")
def test_transactions_across_segments_leave_the_committed_keys(world: World) -> None:
    """Cut anywhere into two files, the first cleaned before the second comes."""
    records = committed(INTERLEAVED)
    for cut in range(1, len(records)):
        topic = f"cut-{cut}"
        world.create(1, topic=topic, min_cleanable_dirty_ratio="0", internal_segment_bytes="1")
        for block in (records[:cut], records[cut:]):
            world.ingest(block, topic=topic)
            world.compact(topic=topic)
        assert world.read(topic=topic) == compute_survivors(records)


@pytest.mark.kafka("61", "62")
@pytest.mark.parametrize("marker", ["commit", "abort"])
def test_the_gap_of_a_marker_blocks_no_checkpoint_and_makes_nothing_dirty(world: World, marker: str) -> None:
    """Over three looks, the last behind every horizon: nothing of a marker is ever there, or waited for."""
    written = log_of_broker((1, b"a", None), (2, b"a", None), (2, None, marker), (1, b"b", None), (1, None, "commit"))
    records = committed(written)
    world.ingest(records)
    world.compact()
    assert world.state().first_dirty_offset == 4
    for _ in range(2):
        world.clock.now_ms += 30 * DAY_MS
        (found,) = assess_topics(world.installation, [TOPIC], as_of_ms=world.clock(), record=False)
        assert (found.eligible, found.reason) == (False, Reason.CLEAN)
        assert world.read() == compute_survivors(records)
    world.ingest([record(5, b"a", b"next")])
    world.compact()
    assert offsets(world.read()) == [3, 5]


@pytest.mark.kafka("67")
def test_a_committed_record_stays_whose_marker_lies_beyond_its_segment(world: World) -> None:
    """The marker's offset is in no segment at all."""
    written = log_of_broker((1, b"a", None), (2, b"b", None), (2, None, "commit"), (1, None, "commit"), (3, b"c", None))
    written.append(Written(5, 3, None, "commit"))
    first, second = committed(written)[:1], committed(written)[1:]
    world.ingest(first)
    world.compact()
    world.ingest(second)
    world.compact()
    assert world.read() == [*first, *second]


@pytest.mark.kafka("68")
def test_an_aborted_record_is_not_there_although_its_marker_comes_later(world: World) -> None:
    """It was held back while it was undecided; then its offset is a gap that nobody can fill."""
    written = log_of_broker((2, b"a", None), (1, b"a", None), (1, None, "commit"), (2, b"b", None), (2, None, "abort"))
    records = committed(written)
    world.ingest(records)
    world.compact()
    assert offsets(world.read()) == [1]
    with pytest.raises(BadInputError, match="offset 0"):
        world.ingest([record(0, b"a", b"aborted")])
    assert offsets(world.read()) == [1]


@pytest.mark.kafka("59", "68")
def test_a_control_flag_in_json_lines_is_refused_and_nothing_lands(world: World) -> None:
    """A record of JSON lines has no such field."""
    path = world.folder / "dump.jsonl"
    path.write_text(json_line(record(0, b"a", b"x"))[:-1] + ', "isControl": true}\n')
    with pytest.raises(BadInputError, match="field 'isControl' is not known"):
        ingest_files(world.installation, TOPIC, [str(path)], as_of_ms=world.clock())
    assert world.read() == []


@pytest.mark.kafka("59", "68")
def test_a_control_flag_in_parquet_is_named_and_left_out(world: World) -> None:
    """Winnow cannot resolve what such a column says, so whoever ingests is told that it was not looked at."""
    records = committed(INTERLEAVED)
    table = build_table(records).append_column("isTransactional", pa.array([True] * len(records)))
    path = world.folder / "dump.parquet"
    pq.write_table(table, path)
    report = ingest_files(world.installation, TOPIC, [str(path)], as_of_ms=world.clock())
    assert any("isTransactional" in notice for notice in report.notices)
    assert world.read() == records


@pytest.mark.kafka("70")
def test_every_transaction_is_whole_or_absent_at_every_step(world: World) -> None:
    """Twelve transactions of three keys, every third aborted, ingested in four steps with a cleaning after each."""
    written: list[Written] = []
    for transaction in range(12):
        for key in range(3):
            written.append(Written(len(written), transaction, b"key-%d" % key))
        written.append(Written(len(written), transaction, None, "abort" if transaction % 3 == 2 else "commit"))
    records = committed(written)
    for step in range(4):
        upto = (step + 1) * 12
        world.ingest([each for each in records if upto - 12 <= each.offset < upto])
        world.compact()
        writers = {each.value.split(b"-")[1] for each in world.read() if each.value is not None}
        assert world.read() == compute_survivors([each for each in records if each.offset < upto])
        assert (len(world.read()), len(writers)) == (3, 1)
