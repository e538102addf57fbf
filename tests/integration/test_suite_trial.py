"""A content suite tried on present records: what a run would say, of the newest records only, and nothing of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.cli_runner import NOW_MS, b64, winnow, write_lines
from tests.support.world import TOPIC, open_world, record
from winnow.errors import UsageError
from winnow.pipeline.explain import suite_trial
from winnow.pipeline.explain.suite_trial import PartitionViolations, SuiteTrial, TriedPartition, try_suite
from winnow.values.model import Record

# GX imports deprecated modules of the standard library.
pytestmark = pytest.mark.filterwarnings("ignore:module .sre_[a-z]+. is deprecated:DeprecationWarning")
SECRET = b"no json, and a secret"
SUITE = "example_json_values"


def value_record(offset: int, value: bytes = b"{}", partition: int = 0) -> Record:
    """A record whose key is none of the others'."""
    return record(offset, f"k{partition}-{offset}".encode(), value, partition=partition)


def collect_violations(trial: SuiteTrial) -> dict[str, tuple[PartitionViolations, ...]]:
    """The violations of each expectation that has any."""
    return {each.id: each.violations for each in trial.expectations if each.violations}


def test_newest_records_are_judged_by_the_named_suite_or_the_topics_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A share of each partition, by count and by bytes; the log is as it was."""
    with open_world(tmp_path) as world:
        world.create(2)
        bad = {1: SECRET, 7: SECRET}
        world.ingest([value_record(n, bad.get(n, b"{}"), partition) for partition in range(2) for n in range(9)])
        snapshot_id = world.head().snapshot_id
        with pytest.raises(UsageError, match="names no content suite"):
            try_suite(world.installation, TOPIC, "")
        trial = try_suite(world.installation, TOPIC, SUITE)
        assert trial.partitions == (TriedPartition(0, 9, True), TriedPartition(1, 9, True))
        assert (trial.would_block, trial.is_in_force) == (True, False)
        assert collect_violations(trial) == {
            "value_is_json": (PartitionViolations(0, 2, (1, 7)), PartitionViolations(1, 2, (1, 7)))
        }
        assert SECRET.decode() not in repr(trial)
        monkeypatch.setattr(suite_trial, "MAXIMUM_RECORDS", 8)
        newest = try_suite(world.installation, TOPIC, SUITE)
        assert newest.partitions == (TriedPartition(0, 4, False), TriedPartition(1, 4, False))
        assert collect_violations(newest)["value_is_json"] == (
            PartitionViolations(0, 1, (7,)),
            PartitionViolations(1, 1, (7,)),
        )
        monkeypatch.setattr(suite_trial, "MAXIMUM_RECORDS", 2)
        held = try_suite(world.installation, TOPIC, SUITE)
        assert (held.would_block, collect_violations(held)) == (False, {})
        assert world.head().snapshot_id == snapshot_id


def test_a_trial_ends_with_the_batch_that_reaches_its_share_of_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file is a batch here."""
    monkeypatch.setattr(suite_trial, "MAXIMUM_BYTES", 1)
    with open_world(tmp_path) as world:
        world.create(1, winnow_expectations=SUITE)
        for number in range(3):
            world.ingest([value_record(number)])
        trial = try_suite(world.installation, TOPIC, "")
    assert trial.partitions == (TriedPartition(0, 1, False),)
    assert trial.is_in_force


def test_a_shell_shows_the_outcome_of_each_expectation(tmp_path: Path) -> None:
    """With counts and first offsets; --json has the same, and neither a key or a value."""
    line = {"partition": 0, "timestamp": NOW_MS, "key": "a2V5"}
    values = [b64("{}"), b64(SECRET.decode())]
    write_lines(tmp_path / "orders.jsonl", [{**line, "offset": n, "value": each} for n, each in enumerate(values)])
    winnow("ingest", "files", "orders", tmp_path / "orders.jsonl", "--create")
    shown = winnow("try-suite", "orders", "--suite", SUITE).stdout
    answer = winnow("try-suite", "orders", "--suite", SUITE, "--json")
    assert re.search(r"value_is_json +violated by 1 record, blocks +orders-0: 1\n", shown)
    assert re.search(r"key_not_empty +held", shown)
    assert "would be refused" in shown
    outcomes = {each["id"]: each["violations"] for each in answer.document["expectations"]}
    assert outcomes["value_is_json"] == [{"partition": 0, "records": 1, "first_offsets": [1]}]
    assert SECRET.decode() not in shown + answer.stdout
