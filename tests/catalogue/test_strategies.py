"""KIP-280: the highest timestamp or the highest version in a header survives instead of the highest offset."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from oracle import surviving_records
from tests.catalogue.record_samples import (
    HEADER,
    build_strategy_config,
    build_version_header,
    build_versioned_record,
    encode_version,
)
from tests.support.world import TOPIC, World, define_world, record
from winnow.pipeline.compaction.assess import assess_topics
from winnow.pipeline.topics.definition import alter_topic
from winnow.values.model import Reason, Record
from winnow.values.strategies import Strategy

world = define_world()


def create(world: World, strategy: str, topic: str = TOPIC, **config: str) -> None:
    """A topic where every file is closed, and anything cleanable is reason enough."""
    always = {"min_cleanable_dirty_ratio": "0", "internal_segment_bytes": "1"}
    world.create(1, topic=topic, **always, **build_strategy_config(strategy), **config)


def oracle(records: Sequence[Record], strategy: str) -> list[Record]:
    """What the model keeps of ``records`` when all of them are cleaned once."""
    return surviving_records.compute_survivors(
        records,
        next_first_dirty_offset=records[-1].offset + 1,
        strategy=Strategy(strategy),
        header=HEADER,
        expired=lambda _: False,
    ).kept


def offsets(records: Sequence[Record]) -> list[int]:
    return [each.offset for each in records]


@pytest.mark.parametrize("strategy", ["timestamp", "header"])
@pytest.mark.kafka("122", "123")
def test_the_winner_moves_only_when_a_higher_version_comes(world: World, strategy: str) -> None:
    """Version 2 at 0, 1 at 1, another key at 2, 3 at 3, cleaned after each; each loser goes at once."""
    create(world, strategy)
    arriving = [
        build_versioned_record(0, 2, strategy),
        build_versioned_record(1, 1, strategy),
        build_versioned_record(2, 9, strategy, b"other"),
        build_versioned_record(3, 3, strategy),
    ]
    for each, left in zip(arriving, ([0], [0], [0, 2], [2, 3]), strict=True):
        world.ingest([each])
        world.compact()
        assert offsets(world.read()) == left
        assert world.state().first_dirty_offset == each.offset + 1


@pytest.mark.parametrize("strategy", ["timestamp", "header"])
@pytest.mark.kafka("124", "125")
def test_a_tombstone_of_a_higher_version_outlives_a_later_value(world: World, strategy: str) -> None:
    """And one that comes after a lower version removes it; in one file or in two."""
    for cut, topic in ((1, "one"), (2, "two")):
        create(world, strategy, topic)
        late = [build_versioned_record(0, 9, strategy, b"late", None), build_versioned_record(1, 3, strategy, b"late")]
        usual = [
            build_versioned_record(2, 1, strategy, b"usual"),
            build_versioned_record(3, 2, strategy, b"usual", None),
        ]
        for start in range(0, 4, cut):
            world.ingest([*late, *usual][start : start + cut], topic=topic)
            world.compact(topic=topic)
        assert [(r.key, r.offset, r.value) for r in world.read(topic=topic)] == [
            (b"late", 0, None),
            (b"usual", 3, None),
        ]


@pytest.mark.parametrize("cuts", [(3,), (1, 2, 3)], ids=["in one file", "in three"])
@pytest.mark.kafka("126")
def test_an_older_timestamp_replaces_nothing_and_is_covered_all_the_same(world: World, cuts: tuple[int, ...]) -> None:
    """Newer, then older, then no timestamp at all: the checkpoint passes over both losers."""
    create(world, "timestamp")
    records = [record(0, b"k", b"newer", 2_000), record(1, b"k", b"older", 1_000), record(2, b"k", b"none", None)]
    start = 0
    for stop in cuts:
        world.ingest(records[start:stop])
        world.compact()
        start = stop
    assert world.read() == records[:1]
    assert world.state().first_dirty_offset == 3


@pytest.mark.kafka("127")
def test_of_shuffled_versions_the_highest_is_kept(world: World) -> None:
    """A hundred versions each of three keys: positive, negative, and beside a record without any."""
    create(world, "header")
    numbers = [n * 37 % 100 for n in range(100)]
    records: list[Record] = []
    for n in numbers:
        records.append(build_versioned_record(len(records), n, "header", b"positive", b"%d" % n))
        records.append(build_versioned_record(len(records), n - 100, "header", b"negative", b"%d" % (n - 100)))
        records.append(build_versioned_record(len(records), -n if n % 2 else None, "header", b"mixed", b"%d" % -n))
    world.ingest(records[:150])
    world.compact()
    world.ingest(records[150:])
    world.compact()
    assert {r.key: r.value for r in world.read()} == {b"positive": b"99", b"negative": b"-1", b"mixed": b"-1"}
    assert world.read() == oracle(records, "header")


@pytest.mark.kafka("128")
def test_one_strategy_leaves_nothing_behind_that_another_could_see(world: World) -> None:
    """Three topics with the same records in one process, then one topic whose strategy changes."""
    records = [
        Record(n, b"k%d" % (n % 2), b"%d" % n, 1_000 - n * 7 % 5, build_version_header(n * 3 % 7)) for n in range(12)
    ]
    for strategy in Strategy:
        create(world, strategy, topic=strategy)
        world.ingest(records, topic=strategy)
        world.compact(topic=strategy)
    for strategy in Strategy:
        assert world.read(topic=strategy) == oracle(records, strategy)
    assert len({tuple(offsets(world.read(topic=strategy))) for strategy in Strategy}) == 3
    later = [Record(12, b"k0", b"12", 0, build_version_header(0)), Record(13, b"k1", b"13", 0, build_version_header(0))]
    left = world.read(topic="header")
    alter_topic(world.installation, "header", {"compaction.strategy": "offset"}, [])
    (found,) = assess_topics(world.installation, ["header"], as_of_ms=world.clock(), record=False)
    assert (found.reason, found.first_dirty_offset) == (Reason.STRATEGY_CHANGED, 0)
    world.ingest(later, topic="header")
    world.compact(topic="header")
    assert world.read(topic="header") == oracle([*left, *later], "offset")


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("versions", ["absent", "rising", "equal"])
@pytest.mark.kafka("131", "G27")
def test_without_versions_or_with_rising_ones_every_strategy_gives_what_offset_gives(
    world: World, strategy: Strategy, versions: str
) -> None:
    """Values, tombstones and values after them, over two files with a cleaning after each."""
    create(world, strategy)
    numbers: list[int | None] = {"absent": [None] * 40, "rising": [*range(1, 41)], "equal": [7] * 40}[versions]
    records = [
        Record(n, b"key-%d" % (n * 5 % 7), None if n % 6 == 5 else b"%d" % n, number, build_version_header(number))
        for n, number in enumerate(numbers)
    ]
    left: list[Record] = []
    for start in (0, 20):
        world.ingest(records[start : start + 20])
        receipt = world.compact()
        assert receipt is not None
        (part,) = receipt.partitions
        kept = oracle(records[: start + 20], "offset")
        assert world.read() == kept
        assert (part.next_first_dirty_offset, part.records_in, part.records_kept, part.records_superseded) == (
            start + 20,
            len(left) + 20,
            len(kept),
            len(left) + 20 - len(kept),
        )
        left = kept


TAIL_AND_HEAD = [
    (10, 5, 20),
    (5, 10, 100),
    (5, None, 20),
    (None, 5, 100),
    (5, 5, 100),
    (None, None, 100),
    (0, None, 20),
]


@pytest.mark.parametrize("strategy", ["timestamp", "header"])
@pytest.mark.kafka("132", "G24", "G25", "G26")
def test_exactly_one_of_a_tail_and_a_head_record_survives(world: World, strategy: str) -> None:
    """Every combination is a key of its own; a later, still lower version does not stay beside the winner either."""
    create(world, strategy)
    tails, heads, winners = [], [], {}
    for number, (tail, head, winner) in enumerate(TAIL_AND_HEAD):
        key = f"{number}: tail {tail}, head {head}".encode()
        tails.append(build_versioned_record(20 + number, tail, strategy, key))
        heads.append(build_versioned_record(100 + number, head, strategy, key))
        winners[key] = winner + number
    world.ingest(tails)
    world.compact()
    assert world.read() == tails
    world.ingest(heads)
    world.compact()
    assert {each.key: each.offset for each in world.read()} == winners
    assert len(world.read()) == len(TAIL_AND_HEAD)
    world.ingest([build_versioned_record(200, 7, strategy, b"0: tail 10, head 5")])
    world.compact()
    assert {each.key: each.offset for each in world.read()} == winners


ENCODINGS: list[tuple[str, list[tuple[str, bytes | None]], int | None]] = [
    ("a plain long", [(HEADER, encode_version(7))], 7),
    ("zero", [(HEADER, encode_version(0))], 0),
    ("the lowest", [(HEADER, encode_version(-(2**63)))], -(2**63)),
    ("the highest", [(HEADER, encode_version(2**63 - 1))], 2**63 - 1),
    ("above 2^56", [(HEADER, encode_version(2**56 + 1))], 2**56 + 1),
    ("short", [(HEADER, b"\x00\x00\x00\x07")], None),
    ("long", [(HEADER, b"\x00" * 8 + b"\x07")], None),
    ("varint", [(HEADER, b"\x0e")], None),
    ("text", [(HEADER, b"7")], None),
    ("eight digits", [(HEADER, b"00000007")], int.from_bytes(b"00000007", "big")),
    ("empty", [(HEADER, b"")], None),
    ("null", [(HEADER, None)], None),
    ("wrong case", [("Version", encode_version(7))], None),
    ("white space", [(f" {HEADER}", encode_version(7))], None),
    ("no headers", [], None),
    ("twice", [(HEADER, encode_version(9)), (HEADER, encode_version(7))], 7),
    ("twice, the last unusable", [(HEADER, encode_version(9)), (HEADER, b"")], None),
    ("twice, the first unusable", [(HEADER, b"\x01"), ("other", encode_version(1)), (HEADER, encode_version(7))], 7),
]


@pytest.mark.kafka("133")
def test_a_version_is_the_last_eight_byte_value_of_the_exact_name(world: World) -> None:
    """Each encoding meets a competitor before it that is one lower, one that is one higher, and the lowest of all.

    One that counts as missing loses to every competitor; any other wins over what is not above it.
    """
    create(world, "header")
    records: list[Record] = []
    expected: dict[bytes, int] = {}
    for name, headers, version in ENCODINGS:
        for competitor in {-(2**63), max(-(2**63), (version or 0) - 1), min(2**63 - 1, (version or 0) + 1)}:
            key = b"%s against %d" % (name.encode(), competitor)
            records.append(Record(len(records), key, b"competitor", 1, build_version_header(competitor)))
            records.append(Record(len(records), key, name.encode(), 1, tuple(headers)))
            wins = version is not None and version >= competitor
            expected[key] = records[-1 if wins else -2].offset
    world.ingest(records)
    world.compact()
    assert {each.key: each.offset for each in world.read()} == expected
    assert len(world.read()) == len(expected)
