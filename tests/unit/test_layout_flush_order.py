"""What Confluent's layout cannot tell about order, against flushes that are known, and against the samples' dumps."""

from __future__ import annotations

import random
import tarfile
from collections import defaultdict
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from winnow.files.record_batch import Integers
from winnow.sources.layouts.confluent.flush_order import Overlap, find_overlaps, find_unordered_keys, place_objects
from winnow.sources.layouts.confluent.names import pair_objects
from winnow.sources.layouts.confluent.reading import read_confluent
from winnow.sources.objects import StoredObject

SAMPLES = Path(__file__).parents[1] / "samples" / "archives" / "sinks"


def number(folders: list[str]) -> Integers:
    return np.unique(folders, return_inverse=True)[1].astype(np.int64)


def find(*records: tuple[str | None, int, bool], folders: list[str] | None = None) -> set[bytes]:
    """Keys whose order is not known, of records of key, first offset of the object, and tombstone or not."""
    keys = pa.array([None if key is None else key.encode() for key, _, _ in records], pa.binary())
    firsts = np.array([first for _, first, _ in records], np.int64)
    numbers = None if folders is None else number(folders)
    found = find_unordered_keys(keys, firsts, np.array([gone for _, _, gone in records], np.bool_), numbers)
    assert len(set(found.to_pylist())) == len(found)
    return set(found.to_pylist())


def test_a_value_and_a_tombstone_in_one_flush() -> None:
    assert find(("a", 0, False), ("b", 0, False), ("a", 1, True)) == {b"a"}
    # The tombstones may come first.
    assert find(("a", 1, False), ("b", 1, False), ("a", 0, True), ("c", 0, True)) == {b"a"}


def test_nothing_to_decide() -> None:
    assert find() == set()
    assert find(("a", 0, False), ("b", 1, True)) == set()
    assert find(("a", 0, False), ("a", 0, False)) == set()
    assert find(("a", 0, True), ("a", 0, True)) == set()
    assert find((None, 0, False), (None, 1, True), ("x", 0, False)) == set()


def test_an_object_of_the_same_folder_ends_a_flush() -> None:
    # Values 0 and 10, tombstones 5 and 15; all of one flush fill the offsets up to the next.
    values = [("v", 0, False)] * 9 + [("w", 10, False)] * 9
    assert find(*values, ("a", 0, False), ("a", 15, True), ("x", 5, True)) == set()
    assert find(*values, ("a", 0, False), ("a", 5, True)) == {b"a"}
    assert find(*values, ("a", 10, False), ("a", 5, True)) == set()


def test_gaps_leave_it_open_which_flush_an_object_is_of() -> None:
    # Two records of 0 and one of 5: the tombstones may be of the first flush or of the second.
    records = [("a", 0, False), ("a", 5, True), ("b", 5, True), ("b", 10, False)]
    assert find(*records) == {b"a", b"b"}
    # With the tombstones of 5 and of 7 one of them was of the first flush, the other not.
    assert find(("a", 0, False), ("x", 5, True), ("a", 7, True)) == set()


def test_records_that_do_not_fit_before_the_next_object_prove_one_flush() -> None:
    # Four and four records from 0 on: they do not fit before 6, so all of it is one flush, and 9 is another one.
    records = [("v", 0, False)] * 4 + [("w", 1, True)] * 4 + [("a", 6, False)] + [("a", 9, True)]
    assert find(*records, folders=["day=1"] * 4 + ["gone"] * 4 + ["day=2", "gone"]) == set()
    assert find(*records[:-1], ("a", 1, True), folders=["day=1"] * 4 + ["gone"] * 4 + ["day=2", "gone"]) == {b"a"}


def test_null_keys_count_as_records() -> None:
    # Without the null keys, the tombstone of 2 could be of the second flush.
    assert find((None, 0, False), (None, 0, False), (None, 0, False), ("a", 2, True), ("a", 5, False)) == set()
    assert find((None, 0, False), ("a", 2, True), ("a", 5, False)) == {b"a"}


@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_no_key_is_missed_whatever_the_flushes(gaps: float) -> None:
    rng = random.Random(7)
    certain = unsure = 0
    for _ in range(300):
        days = rng.choice([1, 3])
        keys, firsts, gone, folders, expected = [], [], [], [], set()
        offset = 0
        for _ in range(rng.randint(1, 8)):
            opened: dict[str, int] = {}
            seen: dict[bytes, set[bool]] = defaultdict(set)
            for _ in range(rng.randint(1, 9)):
                offset += rng.random() < gaps
                is_gone = rng.random() < 0.3
                folder = "gone" if is_gone else f"day={rng.randrange(days)}"
                key = b"%d" % rng.randrange(12)
                firsts.append(opened.setdefault(folder, offset))
                keys.append(key)
                gone.append(is_gone)
                folders.append(folder)
                seen[key].add(is_gone)
                offset += 1
            expected |= {key for key, kinds in seen.items() if len(kinds) > 1}
        arguments = (pa.array(keys, pa.binary()), np.array(firsts), np.array(gone))
        numbers = number(folders)
        found = set(find_unordered_keys(*arguments, numbers).to_pylist())
        assert expected <= found
        if days == 1:
            assert set(find_unordered_keys(*arguments).to_pylist()) == found
            certain += len(expected)
            unsure += len(found - expected)
        shuffled = rng.sample(range(len(keys)), len(keys))
        again = find_unordered_keys(
            arguments[0].take(pa.array(shuffled)),
            arguments[1][shuffled],
            arguments[2][shuffled],
            numbers[shuffled],
        )
        assert set(again.to_pylist()) == found
    # These flushes are short; without gaps few objects could be of either of two.
    assert unsure <= certain * (0.3 if not gaps else 3)


# ------------------------------------------------------------------------------------------------------------ overlaps


def test_no_overlaps() -> None:
    assert find_overlaps([]) == []
    assert find_overlaps([0, 400, 800]) == []
    assert find_overlaps([800, 0, 400], [100, 400, 400]) == []
    # Values and tombstones interleave, and so do the days of a partition.
    assert find_overlaps([0, 4, 400, 407], [374, 26, 360, 40], ["v", "t", "v", "t"]) == []
    assert find_overlaps([0, 1, 2, 9], [3, 3, 3, 1], ["day=1", "day=2", "day=3", "day=1"]) == []


def test_equal_first_offsets_are_a_repeat_by_the_names_alone() -> None:
    # A sink that is set back writes the same records into the folder of another hour.
    assert find_overlaps([0, 400, 400], folders=["hour=1", "hour=1", "hour=2"]) == [Overlap(1, 2, is_repeat=True)]
    assert find_overlaps([400, 0, 400]) == [Overlap(0, 2, is_repeat=True)]


def test_an_object_that_starts_inside_another_ones_range() -> None:
    firsts, counts = [0, 400, 449, 699, 800, 949, 1200], [400, 400, 250, 250, 149, 250, 100]
    found = find_overlaps(firsts, counts)
    assert [(overlap.earlier, overlap.later) for overlap in found] == [(1, 2), (1, 3), (3, 4)]
    # Names alone cannot tell.
    assert find_overlaps(firsts) == []


def test_a_repeat_that_only_the_number_of_records_shows() -> None:
    # 360 values and 40 tombstones fill 400 to 800: an object at 780 begins among them.
    firsts, counts = [400, 407, 780], [360, 40, 100]
    assert find_overlaps(firsts, counts, ["v", "t", "v"]) == [Overlap(0, 2, is_repeat=False)]


# ---------------------------------------------------------------------------------------------------------- placement


def test_tombstones_are_placed_before_or_behind_the_values_of_their_flush() -> None:
    firsts, counts, gone = [0, 4, 400, 407], [374, 26, 360, 40], [False, True, False, True]
    assert place_objects(firsts, counts, gone, tombstones_first=True).tolist() == [26, 0, 440, 400]
    assert place_objects(firsts, counts, gone, tombstones_first=False).tolist() == [0, 374, 400, 760]
    assert place_objects([], [], [], tombstones_first=True).tolist() == []
    # The topic's other records need no decision.
    assert place_objects([5, 900], [7, 3], [False, False], tombstones_first=True).tolist() == [5, 900]


@pytest.mark.parametrize("tombstones_first", [True, False])
def test_placed_objects_do_not_collide_and_keep_the_order_that_is_known(*, tombstones_first: bool) -> None:
    rng = random.Random(11)
    for _ in range(300):
        firsts: list[int] = []
        counts: list[int] = []
        gone: list[bool] = []
        flushes: list[int] = []
        offset = 0
        for flush in range(rng.randint(1, 6)):
            opened: dict[bool, int] = {}
            for _ in range(rng.randint(1, 9)):
                offset += rng.random() < 0.2
                is_gone = rng.random() < 0.4
                if is_gone not in opened:
                    opened[is_gone] = len(firsts)
                    firsts.append(offset)
                    counts.append(0)
                    gone.append(is_gone)
                    flushes.append(flush)
                counts[opened[is_gone]] += 1
                offset += 1
        placed = place_objects(firsts, counts, gone, tombstones_first=tombstones_first)
        taken = sorted(zip(placed.tolist(), counts, strict=True))
        assert all(start + count <= after for (start, count), (after, _) in pairwise(taken))
        assert max(start + count for start, count in taken) <= offset
        for one, other in combinations(range(len(firsts)), 2):
            if gone[one] == gone[other]:
                assert (placed[one] < placed[other]) == (firsts[one] < firsts[other])
                continue
            value, tombstone = (other, one) if gone[one] else (one, other)
            if flushes[one] == flushes[other]:
                assert (placed[tombstone] < placed[value]) == tombstones_first
            keys = pa.array(
                [b"a"] * counts[value]
                + [b"a"] * counts[tombstone]
                + [b"b"] * (sum(counts) - counts[one] - counts[other])
            )
            rest = [index for index in range(len(firsts)) if index not in (one, other)]
            order = np.repeat([value, tombstone, *rest], [counts[index] for index in (value, tombstone, *rest)])
            unordered = find_unordered_keys(keys, np.array(firsts)[order], np.array(gone)[order]).to_pylist()
            if b"a" not in unordered:
                assert (placed[one] < placed[other]) == (firsts[one] < firsts[other])


# ------------------------------------------------------------------------------------------------------------- samples


def test_keys_whose_order_is_not_in_the_samples(tmp_path: Path) -> None:
    """82 keys in partition 0: those with a value and a tombstone between two first offsets, by the topic's dump."""
    expected = {"confluent-json-keys": [82, 83, 97], "confluent-avro-keys": [44, 51, 49]}
    for fixture, numbers in expected.items():
        with tarfile.open(SAMPLES / f"{fixture}.tar.xz") as tar:
            tar.extractall(tmp_path / fixture, filter="data")
        stored = [StoredObject(str(path), 1) for path in (tmp_path / fixture).rglob("*") if path.is_file()]
        objects = pair_objects(stored).objects
        for partition, number in enumerate(numbers):
            keys, firsts, gone, counts = [], [], [], []
            mine = [obj for obj in objects if obj.partition == partition]
            for obj in mine:
                (chunk,) = read_confluent(obj)
                keys.append(chunk.records.column("key"))
                counts.append(chunk.records.num_rows)
                firsts += [obj.first_offset] * counts[-1]
                gone += ["value" not in obj.parts] * counts[-1]
            found = find_unordered_keys(pa.concat_arrays(keys), np.array(firsts), np.array(gone))
            assert len(found) == number
            names = [obj.first_offset or 0 for obj in mine]
            assert find_overlaps(names, counts, ["value" in obj.parts for obj in mine]) == []
