"""Whose file a path names, and whether what a staging manifest claims fits together: from the manifest alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from winnow.pipeline.compaction.staged_files import find_misfits, is_below_attempt
from winnow.values.model import PartitionPlan, Reason, Segment
from winnow.values.results import PartitionFacts, Rewrite, StagedPartition

DATA = "s3://lake/winnow/orders/data"
PLAN, ATTEMPT = "0123456789abcdef", "a-1"


@pytest.mark.parametrize(
    "below",
    [
        f"{PLAN}/a-1/00000-1.parquet",
        f"{PLAN}/a-1/app-2026-0001/t3/00000-1.parquet",
        f"{PLAN}/a-1-local-1234-t0/00000-1.parquet",
    ],
)
def test_a_file_of_the_attempt_is_its_own_in_every_layout(below: str) -> None:
    assert is_below_attempt(f"{DATA}/{below}", DATA, PLAN, ATTEMPT)


@pytest.mark.parametrize(
    "path",
    [
        f"s3://elsewhere/orders/data/{PLAN}/a-1/x.parquet",
        f"s3://lake/winnow/orders/data2/{PLAN}/a-1/x.parquet",
        f"{DATA}/{PLAN}x/a-1/x.parquet",
        f"{DATA}/fedcba/a-1/x.parquet",
        f"{DATA}/{PLAN}/a-10/x.parquet",
        f"{DATA}/{PLAN}/a-2/x.parquet",
        f"{DATA}/{PLAN}/a-1",
        f"{DATA}/{PLAN}/a-1/",
        f"{DATA}/{PLAN}/a-1-x.parquet",
        f"{DATA}/{PLAN}/a-1/../../x.parquet",
        f"{DATA}/{PLAN}/a-1/./x.parquet",
        f"{DATA}/{PLAN}/a-1//x.parquet",
        f"{DATA}/{PLAN}/a-1/%2e%2e/%2e%2e/x.parquet",
        f"{DATA}/{PLAN}/a-1/x.parquet?versionId=1",
        f"{DATA}/{PLAN}/a-1/x.json",
        f"{DATA}/{PLAN}/a-1/x.parquet\n",
        f"{DATA}//{PLAN}/a-1/x.parquet",
    ],
)
def test_no_other_spelling_or_place_counts_as_the_attempts_own(path: str) -> None:
    assert not is_below_attempt(path, DATA, PLAN, ATTEMPT)


def segment(path: str, first: int, last: int, partition: int = 0) -> Segment:
    return Segment(path, partition, first, last, 2, 100, 1, 2, 0)


INPUTS = (segment("one", 0, 9), segment("two", 10, 19), segment("three", 20, 29))
PLANNED = PartitionPlan(0, Reason.DIRTY_RATIO, 0, 0, 30, 30, INPUTS)
FACTS = PartitionFacts(0, 0, 0, 0, 0, 0, 0, "0:0:0", "0:0:0")
SOUND = StagedPartition(0, FACTS, (Rewrite(("one", "two"), (segment("new-1", 0, 8), segment("new-2", 9, 19))),))


def with_outputs(*outputs: Segment) -> StagedPartition:
    return replace(SOUND, rewrites=(Rewrite(("one", "two"), outputs),))


def test_replacements_that_fit_are_not_objected_to() -> None:
    assert find_misfits(PLANNED, SOUND) == []
    assert find_misfits(PLANNED, with_outputs()) == []


@pytest.mark.parametrize(
    ("staged", "words"),
    [
        (replace(SOUND, rewrites=(Rewrite(("one", "stranger"), ()),)), "was not planned"),
        (replace(SOUND, rewrites=(Rewrite(("one",), ()), Rewrite(("one",), ()))), "replaced 2 times"),
        (with_outputs(segment("new", 0, 9, partition=1)), "of partition 1"),
        (with_outputs(replace(segment("new", 0, 9), records=0)), "hold no record"),
        (with_outputs(segment("new", 0, 20)), "offsets that the segments it replaces do not"),
        (with_outputs(segment("new", -1, 9)), "offsets that the segments it replaces do not"),
        (with_outputs(segment("new-1", 0, 9), segment("new-2", 9, 19)), "two segments hold offset 9"),
        (with_outputs(segment("new-2", 10, 19), segment("new-1", 0, 9)), "not in the order"),
        (with_outputs(segment("new", 0, 4), segment("new", 5, 9)), "named twice"),
    ],
)
def test_what_does_not_fit_is_named(staged: StagedPartition, words: str) -> None:
    assert any(words in said for said in find_misfits(PLANNED, staged))
