"""Which records stay, which go, and what is counted."""

from __future__ import annotations

import random

import pytest

from tests.catalogue.record_samples import FORMATS, write_records
from tests.support.world import TOPIC, World, build_versions, compute_survivors, define_world, record
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.installation import open_installation
from winnow.values.model import Record
from winnow.values.topic_state import Cleaning

DAY_MS = 86_400_000
FAR_FUTURE_MS = 4_000_000_000_000


world = define_world(1, min_cleanable_dirty_ratio="0", internal_segment_bytes="1")
"""Every file is closed, and anything cleanable is reason enough."""


def keys_of(records: list[Record]) -> list[bytes | None]:
    return [each.key for each in records]


@pytest.mark.kafka("37")
def test_exactly_the_keys_with_a_later_record_vanish(world: World) -> None:
    """Ten keys in three files, the odd ones again behind them; what was read is every byte of the segments."""
    first = [record(n, b"%d" % n, b"first") for n in range(10)]
    for block in (first[:4], first[4:8], first[8:]):
        world.ingest(block)
    later = [record(10 + n, b"%d" % n, b"later") for n in (1, 3, 5, 7, 9)]
    world.ingest(later)
    size_before = sum(segment.size_bytes for segment in world.segments())
    receipt = world.compact()
    assert receipt is not None
    assert world.read() == [*first[::2], *later]
    assert receipt.partitions[0].bytes_in == size_before
    assert receipt.partitions[0].bytes_out == sum(segment.size_bytes for segment in world.segments())


@pytest.mark.kafka("38", "G14")
def test_no_value_of_a_deleted_key_is_left_after_one_cleaning(world: World) -> None:
    """A hundred keys over ten files, then tombstones for the even ones."""
    for start in range(0, 100, 10):
        world.ingest([record(n, b"%d" % n, b"value") for n in range(start, start + 10)])
    world.ingest([record(100 + n, b"%d" % n, None) for n in range(0, 100, 2)])
    world.compact()
    left = world.read()
    assert [r.key for r in left if r.value is not None] == [b"%d" % n for n in range(1, 100, 2)]
    assert [r.key for r in left if r.value is None] == [b"%d" % n for n in range(0, 100, 2)]


@pytest.mark.kafka("39")
def test_the_time_of_a_tombstone_does_not_decide_when_it_goes(world: World) -> None:
    """A value from far in the future, then a tombstone from long ago: it is still there two cleanings later."""
    world.ingest([record(0, b"k", b"v", FAR_FUTURE_MS)])
    world.ingest([record(1, b"k", None, 1)])
    for offset in (2, 3, 4):
        world.compact()
        assert world.read()[0].offset == 1
        world.ingest([record(offset, b"other", b"%d" % offset)])
        world.clock.now_ms += DAY_MS // 4
    world.clock.now_ms += DAY_MS
    world.compact()
    assert keys_of(world.read()) == [b"other"]


@pytest.mark.kafka("41")
def test_the_figures_of_a_cleaning_are_exact(world: World) -> None:
    """Keys 0, 1, 0, 1, 0, cleaned from offset 2: five in, two out, none keyless, the end at 5."""
    world.ingest(build_versions(0, 2, keys=2))
    world.compact()
    world.ingest(build_versions(2, 3, keys=2))
    size_before = sum(segment.size_bytes for segment in world.segments())
    receipt = world.compact()
    assert receipt is not None
    (part,) = receipt.partitions
    assert (part.first_dirty_offset, part.next_first_dirty_offset) == (2, 5)
    assert (part.records_in, part.records_kept, part.records_superseded) == (5, 2, 3)
    assert (part.tombstones_expired, part.records_keyless, part.records_retired) == (0, 0, 0)
    assert (part.bytes_in, part.bytes_out) == (size_before, sum(s.size_bytes for s in world.segments()))


@pytest.mark.kafka("42", "43")
def test_an_emptied_segment_leaves_no_file_and_the_log_keeps_its_offsets(world: World) -> None:
    """By timestamp the last file loses everything: its end stays known, also to whoever opens the log anew."""
    world.create(1, topic="late", min_cleanable_dirty_ratio="0", compaction_strategy="timestamp")
    kept = [record(n, b"%d" % n, b"kept", 2_000) for n in range(3)]
    world.ingest(kept, topic="late")
    world.ingest([record(n, b"%d" % (n - 3), b"late", 1_000) for n in range(3, 6)], topic="late")
    world.compact(topic="late")
    assert world.read(topic="late") == kept
    assert [segment.records for segment in world.segments(topic="late")] == [3]
    for installation in (world.installation, None):
        with open_installation(world.installation.settings, now_ms=world.clock) as anew:
            found = World(installation or anew, world.clock, world.folder)
            assert found.state(topic="late").log_end_offset == 6
            assert found.state(topic="late").first_dirty_offset == 6
            assert found.read(topic="late", from_offset=4) == []
            assert found.compact(topic="late") is None
    again = [record(6, b"0", b"newest", 3_000)]
    world.ingest(again, topic="late")
    assert world.read(topic="late", from_offset=3) == again


@pytest.mark.kafka("42")
def test_reading_from_an_emptied_segment_begins_at_the_next_survivor(world: World) -> None:
    """The first file is superseded as a whole."""
    world.ingest(build_versions(0, 3))
    world.ingest(build_versions(3, 3))
    world.compact()
    assert len(world.segments()) == 1
    for offset in range(4):
        assert world.read(from_offset=offset)[0].offset == 3


@pytest.mark.kafka("44")
def test_a_key_with_the_bytes_of_a_marker_is_a_key_like_any_other(world: World) -> None:
    """Version 0 and type 0 (abort) or 1 (commit), as Kafka writes them."""
    abort, commit = b"\x00\x00\x00\x00", b"\x00\x00\x00\x01"
    records = [record(n, key, b"%d" % n) for n, key in enumerate([abort, commit, b"k", commit, abort, b"k"])]
    world.ingest(records)
    world.compact()
    assert world.read() == records[3:]
    world.ingest([record(6, commit, None)])
    world.compact()
    assert [(r.key, r.value) for r in world.read()] == [(abort, b"4"), (b"k", b"5"), (commit, None)]


@pytest.mark.kafka("45")
@pytest.mark.parametrize("kind", FORMATS)
def test_every_key_keeps_its_last_value_and_offset_however_the_input_was_packed(world: World, kind: str) -> None:
    """A hundred keys three times, then some more and one of a megabyte; the log gets smaller each time."""
    first = build_versions(0, 300, keys=100)
    large = record(300, b"large", b"x" * 1_000_000)
    more = [large, *build_versions(301, 200, keys=100)]
    for name, block in (("first", first), ("more", more)):
        ingest_files(
            world.installation, TOPIC, [write_records(world.folder, name, kind, block)], as_of_ms=world.clock()
        )
        before = {r.key: (r.value, r.offset) for r in world.read()}
        receipt = world.compact()
        assert receipt is not None
        assert receipt.partitions[0].bytes_out < receipt.partitions[0].bytes_in
        assert {r.key: (r.value, r.offset) for r in world.read()} == before
        assert len(world.read()) == len(before)


@pytest.mark.kafka("46")
@pytest.mark.parametrize("deletes_percent", [0, 30, 90])
def test_random_keys_and_deletes_leave_the_last_record_of_each_key(world: World, deletes_percent: int) -> None:
    """Three partitions, five files, a cleaning after each: whoever reads from the start ends in the same state."""
    world.create(3, topic="random", min_cleanable_dirty_ratio="0", internal_segment_bytes="1")
    chosen = random.Random(deletes_percent)
    written: list[Record] = []
    for block in range(5):
        records = [
            record(
                block * 100 + n,
                b"key-%d" % chosen.randrange(40),
                None if chosen.randrange(100) < deletes_percent else b"%d-%d" % (block, n),
                partition=partition,
            )
            for partition in range(3)
            for n in range(100)
        ]
        written += records
        world.ingest(records, topic="random")
        world.compact(topic="random")
    last = {(each.partition, each.key): each for each in written}
    read = world.read(topic="random")
    assert {(each.partition, each.key): each for each in read} == last
    assert len(read) == len(last)
    assert read == sorted(read, key=lambda each: (each.partition, each.offset))


@pytest.mark.kafka("52")
def test_superseded_neighbours_go_and_what_lies_between_them_is_the_same_file(world: World) -> None:
    """The second and the fourth of five files are superseded by the fifth."""
    for block, keys in enumerate((b"a", b"x", b"b", b"y", b"xy")):
        world.ingest([record(block * 2 + n, bytes([key]), b"%d" % block) for n, key in enumerate(keys)])
    before = world.segments()
    bytes_before = world.listing(below=f"{world.log_folder()}/data")
    world.compact()
    assert world.segments() == (before[0], before[2], before[4])
    assert world.listing(below=f"{world.log_folder()}/data") == bytes_before


@pytest.mark.kafka("53")
def test_compacting_a_compacted_log_keeps_its_offsets_with_their_gaps(world: World) -> None:
    """Three rounds over one log; every survivor stands where it was written."""
    records = [record(n * n, b"k%d" % (n % 7), b"%d" % n) for n in range(30)]
    for start in range(0, 30, 10):
        world.ingest(records[start : start + 10])
        world.compact()
        assert world.read() == compute_survivors(records[: start + 10])


@pytest.mark.kafka("54")
def test_every_field_of_a_survivor_is_what_it_was(world: World) -> None:
    """Also where fields are missing, empty, repeated or at their limits; half of the file goes."""
    fields: list[Record] = [
        record(0, b"", b"", None),
        record(1, b"\x00\xff", b"\xff" * 3, 0, timestamp_type=1, headers=()),
        record(2, b"h", b"v", 253_402_300_799_999, headers=(("a", b""), ("a", None), ("ü", b"\x00"))),
        record(3, b"t", None, 1_000, timestamp_type=1, headers=(("a", b"b"),)),
        record(4, b"n", b"v", None, timestamp_type=-1),
    ]
    superseded = [record(offset, b"old", b"%d" % offset) for offset in range(10, 15)]
    world.ingest([*fields, *superseded, record(20, b"old", b"last")])
    world.compact()
    assert world.read() == [*fields, record(20, b"old", b"last")]


@pytest.mark.kafka("55", "G13")
def test_the_horizon_is_the_cleaning_time_plus_the_retention_and_no_timestamp_changes(world: World) -> None:
    """The file with the tombstone is rewritten, so its other records could have been touched."""
    world.create(1, topic="deletes", min_cleanable_dirty_ratio="0", delete_retention_ms="5000")
    records = [record(n, b"k%d" % (n % 4), b"v" if n < 7 else None, 1_000 + n) for n in range(8)]
    world.ingest(records, topic="deletes")
    world.compact(topic="deletes")
    assert world.read(topic="deletes") == records[4:]
    assert world.state(topic="deletes").history == (Cleaning(8, world.clock(), world.clock() + 5_000),)
