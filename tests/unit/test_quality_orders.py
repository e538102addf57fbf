"""Under every strategy the wrong record of a key is found, however much the rewrite agrees with itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracle.surviving_records import compute_survivors, compute_version
from tests.unit.staging_builder import Case, Scene, list_failed, stage
from tests.unit.test_engine_anomalies import HEADER, compacted, keyed, planned, scene_of
from winnow.engine import winners
from winnow.values.model import Headers, Record
from winnow.values.strategies import Strategy

# GX imports deprecated modules of the standard library.
pytestmark = pytest.mark.filterwarnings("ignore:module .sre_[a-z]+. is deprecated:DeprecationWarning")

BY_VERSION = [Strategy.TIMESTAMP, Strategy.HEADER]


def versioned(offset: int, key: str, number: int | None) -> Record:
    """A record whose timestamp and whose header both say ``number``."""
    headers = None if number is None else ((HEADER, number.to_bytes(8, "big", signed=True)),)
    return keyed(offset, key, headers, number)


def staged(folder: Path, strategy: Strategy, inputs: Sequence[Sequence[Record]], kept: Sequence[int]) -> Scene:
    """A scene in which the records at the offsets ``kept`` survived."""
    everything = [record for records in inputs for record in records]
    case = Case(tuple(tuple(records) for records in inputs), tuple(r for r in everything if r.offset in kept))
    scene = stage(folder, {0: case})
    if strategy is Strategy.HEADER:
        scene.report(headers_missing=sum(not r.headers for r in everything))
    header = HEADER if strategy is Strategy.HEADER else None
    scene.plan = replace(scene.plan, strategy=strategy, strategy_header=header)
    return scene


@pytest.mark.parametrize("strategy", BY_VERSION)
@pytest.mark.parametrize(
    ("lower", "higher"),
    [(None, 0), (None, 5), (4, 5), (-1, 0), (0, 2**40)],
    ids=["missing, zero", "missing, five", "four, five", "minus one, zero", "zero, large"],
)
def test_a_lower_version_that_survived_fails_although_its_offset_is_higher(
    tmp_path: Path, strategy: Strategy, lower: int | None, higher: int
) -> None:
    """The higher version first and then the lower one: the offset says nothing."""
    inputs = [[versioned(0, "a", higher), versioned(1, "b", 1)], [versioned(2, "a", lower)], [versioned(3, "a", lower)]]
    right = staged(tmp_path / "right", strategy, inputs, [0, 1])
    assert right.verdict().failures == ()
    wrong = staged(tmp_path / "wrong", strategy, inputs, [1, 3])
    assert list_failed(wrong.verdict(), 0) == {"newest_survives"}


@pytest.mark.parametrize("strategy", list(Strategy))
def test_of_equal_versions_the_lower_offset_that_survived_fails(tmp_path: Path, strategy: Strategy) -> None:
    inputs = [[versioned(0, "a", 5), versioned(1, "b", 5)], [versioned(2, "a", 5)]]
    assert staged(tmp_path / "right", strategy, inputs, [1, 2]).verdict().failures == ()
    wrong = staged(tmp_path / "wrong", strategy, inputs, [0, 1])
    assert list_failed(wrong.verdict(), 0) == {"newest_survives"}


@pytest.mark.parametrize("strategy", BY_VERSION)
def test_a_loser_in_a_segment_kept_by_reference_fails(tmp_path: Path, strategy: Strategy) -> None:
    """The winner was in a segment that was rewritten, the loser in one that nobody touched."""
    inputs = [[versioned(0, "a", 9), versioned(1, "b", 1)], [versioned(2, "a", 8)]]
    scene = staged(tmp_path, strategy, inputs, [1, 2])
    assert len(scene.manifest.partitions[0].rewrites[0].inputs) == 1
    assert list_failed(scene.verdict(), 0) == {"newest_survives"}


def test_a_timestamp_below_minus_one_loses_to_a_missing_one(tmp_path: Path) -> None:
    """A missing timestamp is -1, no more and no less (KIP-280)."""
    inputs = [[versioned(0, "a", None), versioned(1, "b", 1)], [versioned(2, "a", -2)]]
    assert staged(tmp_path / "right", Strategy.TIMESTAMP, inputs, [0, 1]).verdict().passed
    wrong = staged(tmp_path / "wrong", Strategy.TIMESTAMP, inputs, [1, 2])
    assert list_failed(wrong.verdict(), 0) == {"newest_survives"}


@pytest.mark.parametrize(
    "loser",
    [
        None,
        (),
        ((HEADER.upper(), b"\x7f" * 8),),
        ((HEADER, b"\x7f" * 7),),
        ((HEADER, b"\x7f" * 9),),
        ((HEADER, b""),),
        ((HEADER, None),),
        ((HEADER, b"\x7f" * 8), (HEADER, b"short")),
        ((HEADER, b"\x7f" * 8), ("x", b""), (HEADER, (-9).to_bytes(8, "big", signed=True))),
    ],
    ids=["none", "empty", "another", "short", "long", "empty value", "null", "last is short", "last is lower"],
)
def test_a_header_that_is_no_version_or_a_lower_one_does_not_excuse_a_loser(
    tmp_path: Path, loser: Headers | None
) -> None:
    """Against -8, which only a version can exceed."""
    winner = keyed(0, "a", ((HEADER, (-8).to_bytes(8, "big", signed=True)),))
    plan = planned(tmp_path, [[winner, keyed(1, "b", winner.headers), keyed(2, "a", loser)]], strategy=Strategy.HEADER)
    result = compacted(tmp_path, plan)
    scene = scene_of(tmp_path, plan, result)
    assert scene.verdict().passed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(winners, "build_greatest_offset_sql", lambda strategy, header: 'max("offset")')
        scene = scene_of(tmp_path, plan, compacted(tmp_path, plan))
    assert list_failed(scene.verdict(), 0) == {"newest_survives"}


@pytest.mark.parametrize(
    ("strategy", "wrong"),
    [
        (Strategy.OFFSET, 'min("offset")'),
        (Strategy.TIMESTAMP, 'max("offset")'),
        (Strategy.TIMESTAMP, 'arg_min("offset", "timestamp")'),
        (Strategy.HEADER, 'max("offset")'),
        (Strategy.HEADER, 'min("offset")'),
    ],
)
def test_an_engine_that_chooses_by_another_order_fails_by_name_only(
    tmp_path: Path, strategy: Strategy, wrong: str
) -> None:
    """The real engine with another aggregate: its files, counts and fingerprints agree, its winners are wrong."""
    inputs = [
        [versioned(0, "a", 7), versioned(1, "b", 3), versioned(2, "c", 1)],
        [versioned(3, "a", 9), versioned(4, "b", 2), versioned(5, "a", 8)],
    ]
    plan = planned(tmp_path, inputs, strategy=strategy)
    assert scene_of(tmp_path, plan, compacted(tmp_path, plan)).verdict().failures == ()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(winners, "build_greatest_offset_sql", lambda strategy, header: wrong)
        broken = scene_of(tmp_path, plan, compacted(tmp_path, plan))
    assert list_failed(broken.verdict(), 0) == {"newest_survives"}


_longs = st.none() | st.sampled_from([-(2**63), -1, 0, 1, 2**63 - 1])
_times = st.none() | st.integers(-3, 3)


@given(
    rows=st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), _longs, _times), min_size=1, max_size=12),
    strategy=st.sampled_from(BY_VERSION),
    swap=st.integers(0, 11),
)
def test_stale_winners_are_found_exactly_where_the_oracle_prefers_another_record(
    rows: list[tuple[str, int | None, int | None]],
    strategy: Strategy,
    swap: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Any one record of a key in the winner's place, however it lies to it."""
    records = [
        keyed(n, key, None if long is None else ((HEADER, long.to_bytes(8, "big", signed=True)),), time)
        for n, (key, long, time) in enumerate(rows)
    ]
    kept = compute_survivors(
        records, next_first_dirty_offset=len(records), strategy=strategy, header=HEADER, expired=lambda _: False
    ).kept
    intruder = records[swap % len(records)]
    (winner,) = [record for record in kept if record.key == intruder.key]
    offsets = [intruder.offset if record is winner else record.offset for record in kept]
    folder = tmp_path_factory.mktemp("orders")
    scene = staged(folder, strategy, [records[:5], records[5:]] if len(records) > 5 else [records], offsets)
    (row,) = scene.rows()
    stale = compute_version(intruder, strategy, HEADER) < compute_version(winner, strategy, HEADER)
    assert row["stale_winners"] == int(stale)
    assert (row["duplicate_keys"], row["lost_keys"]) == (0, 0)
