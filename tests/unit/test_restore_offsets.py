"""Offsets of the log lead to offsets of the target: the file of runs, and the offsets of consumer groups."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from winnow.errors import UsageError
from winnow.pipeline.restore import offset_translation
from winnow.pipeline.restore.offset_translation import (
    GroupOffset,
    OffsetTranslator,
    TranslationFile,
    read_group_file,
)

gaps = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 2)), min_size=1, max_size=60)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs") / "offsets.parquet"


# A partition that begins where the one before ended: examples at random have none.
@example(steps=[[(1, 1)], [(2, 2)]], cut=7, group=5)
@given(steps=st.lists(gaps, max_size=3), cut=st.integers(1, 7), group=st.integers(1, 5))
def test_the_runs_have_every_record_once_however_they_arrive(
    file: Path, steps: Sequence[Sequence[tuple[int, int]]], cut: int, group: int
) -> None:
    expected = []
    with pytest.MonkeyPatch.context() as patch, TranslationFile(file) as written:
        patch.setattr(offset_translation, "ROW_GROUP_ROWS", group)
        for partition, pairs in enumerate(steps):
            source, target = (np.cumsum([each[side] for each in pairs]).astype(np.int64) for side in (0, 1))
            expected += [(partition, int(a), int(b)) for a, b in zip(source, target, strict=True)]
            for start in range(0, len(source), cut):
                written.add(partition, source[start : start + cut], target[start : start + cut])
    rows = pq.read_table(file).to_pylist()
    assert [
        (row["partition"], row["source_offset"] + at, row["target_offset"] + at)
        for row in rows
        for at in range(row["records"])
    ] == expected
    # No two neighbours could have been one.
    for one, next_one in itertools.pairwise(rows):
        assert (
            one["partition"] != next_one["partition"]
            or one["source_offset"] + one["records"] != next_one["source_offset"]
            or one["target_offset"] + one["records"] != next_one["target_offset"]
        )


def test_a_file_that_was_not_finished_is_not_there(tmp_path: Path) -> None:
    place = tmp_path / "offsets.parquet"
    with contextlib.suppress(KeyError), TranslationFile(place) as written:
        written.add(0, np.array([1]), np.array([1]))
        raise KeyError
    assert list(tmp_path.iterdir()) == []


# An offset that compaction removed: examples at random have none in a gap.
@example(pairs=[(1, 1), (3, 1)], cut=7, wanted={0, 1, 2, 3, 4})
@given(pairs=gaps, cut=st.integers(1, 7), wanted=st.sets(st.integers(0, 60), max_size=20))
def test_an_offset_becomes_that_of_the_first_record_at_or_above_it(
    pairs: Sequence[tuple[int, int]], cut: int, wanted: set[int]
) -> None:
    source, target = (np.cumsum([each[side] for each in pairs]).astype(np.int64) for side in (0, 1))
    translator = OffsetTranslator((0, each) for each in wanted)
    for start in range(0, len(source), cut):
        translator.add(0, source[start : start + cut], target[start : start + cut])
    for each in wanted:
        above = [int(b) for a, b in zip(source, target, strict=True) if a >= each]
        assert translator.translate(0, each, 0) == (above[0] if above else int(target[-1]) + 1)
    assert translator.translate(1, 5, 17) == 17


def test_an_export_of_groups_is_read_and_lines_of_other_topics_are_counted(tmp_path: Path) -> None:
    place = tmp_path / "groups.csv"
    place.write_text('group,topic,partition,offset\n"a, b",orders,0,12\nc,orders,1,0\nc,other,9,5\n\n')
    found = read_group_file(place, ["orders"], 2)
    assert found.offsets == (GroupOffset("a, b", 0, 12), GroupOffset("c", 1, 0))
    assert found.left_out == 1


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("orders,0,12", "names no group"),
        ("a,orders,0", "names no group"),
        ("a,orders,0,-1", "line 1: a line is"),
        ("a,orders,0,9223372036854775808", "line 1: a line is"),
        ("a,orders,2,1", "no partition 2"),
        ("a,orders,0,1\na,orders,0,2", "line 2: it contradicts"),
        ("a,other,0,1", "has no offset of topic orders"),
    ],
)
def test_a_line_that_is_no_committed_offset_is_refused(tmp_path: Path, lines: str, message: str) -> None:
    place = tmp_path / "groups.csv"
    place.write_text(lines)
    with pytest.raises(UsageError, match=message):
        read_group_file(place, ["orders"], 2)
