"""``winnow compact`` with a real Spark application: several topics in one batch, one of them large, one damaged."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.world import FakeClock, World, build_versions, compute_survivors, json_line, open_world, record
from winnow.clock import read_wall_clock_ms
from winnow.errors import ConfigurationError
from winnow.files import storage
from winnow.store import RunState
from winnow.values.model import Record

ORDERS = [*build_versions(0, 500, keys=20), *build_versions(7, 300, keys=300, partition=2)]
USERS = [*build_versions(0, 50), record(50, b"gone", b"x"), record(51, b"gone", None)]
BROKEN = build_versions(0, 9)
# Two thousand records of 8 kB that nothing compresses; every other one is superseded, so all segments lose some.
NOISE = random.Random(6)
GIANT = [record(n, f"key-{n // 2}".encode(), NOISE.randbytes(8_000)) for n in range(2_000)]
LARGE = {"WINNOW_ENGINE__GIANT_BYTES": "8MB"}


@dataclass(frozen=True)
class Batch:
    """The world after one ``winnow compact --json`` over all of its topics."""

    world: World
    exit_code: int
    stdout: str
    stderr: str

    @property
    def receipts(self) -> dict[str, dict[str, Any]]:
        return {receipt["topic"]: receipt for receipt in json.loads(self.stdout)}


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Batch]:
    """Two good topics, a giant, one whose planned file is gone, and one that is idle; one Spark application."""
    folder = tmp_path_factory.mktemp("batch")
    with open_world(folder, FakeClock(read_wall_clock_ms())) as world:
        for topic, partitions, records in (
            ("broken", 1, BROKEN),
            ("orders", 3, ORDERS),
            ("users", 1, USERS),
        ):
            world.create(partitions, topic=topic, min_cleanable_dirty_ratio="0")
            world.ingest(records, topic=topic)
        world.create(1, topic="giant", min_cleanable_dirty_ratio="0", segment_bytes="4000000")
        world.ingest(GIANT, topic="giant")
        world.create(1, topic="idle")
        storage.delete(world.segments(topic="broken")[0].path)
        done = winnow(world, "compact", "--json")
        yield Batch(world, done.returncode, done.stdout, done.stderr)


def winnow(world: World, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | LARGE | {"WINNOW_HOME": str(world.installation.settings.home)}
    environment["WINNOW_SPARK__MASTER"] = "local[4]"
    return subprocess.run(
        [sys.executable, "-m", "winnow.cli", *arguments], env=environment, capture_output=True, text=True, timeout=300
    )


def test_standard_output_is_one_document_with_an_entry_for_each_topic(batch: Batch) -> None:
    assert {topic: receipt["status"] for topic, receipt in batch.receipts.items()} == {
        "broken": "invalid",
        "giant": "published",
        "orders": "published",
        "users": "published",
        "idle": "nothing_to_do",
    }


def test_every_partition_of_a_receipt_adds_up_and_says_what_the_oracle_says(batch: Batch) -> None:
    for topic, records in (("orders", ORDERS), ("users", USERS), ("giant", GIANT)):
        parts = batch.receipts[topic]["partitions"]
        assert [part["partition"] for part in parts] == sorted({each.partition for each in records})
        for part in parts:
            mine = [each for each in records if each.partition == part["partition"]]
            assert part["records_in"] == len(mine)
            assert part["records_kept"] == len(compute_survivors(mine))
            gone = part["records_superseded"] + part["tombstones_expired"] + part["records_keyless"]
            assert part["records_in"] == part["records_kept"] + gone


@pytest.mark.parametrize(("topic", "records"), [("orders", ORDERS), ("users", USERS), ("giant", GIANT)])
@pytest.mark.kafka("46")
def test_read_gives_the_oracles_records_byte_for_byte(batch: Batch, topic: str, records: list[Record]) -> None:
    read = winnow(batch.world, "read", topic)
    assert read.returncode == 0
    fields = [json.loads(line) for line in read.stdout.splitlines()]
    assert fields == [json.loads(json_line(each)) for each in compute_survivors(records)]


def test_progress_names_every_partition_on_standard_error_and_no_user_byte(batch: Batch) -> None:
    for name, records_in in (("orders-0", 500), ("orders-2", 300), ("users-0", 52), ("giant-0", "2,000")):
        lines = [line for line in batch.stderr.splitlines() if line.startswith(f"{name}: ")]
        assert len(lines) == 1
        assert f"{records_in} records in" in lines[0]
    assert "orders-1: " not in batch.stderr
    assert "value-" not in batch.stderr
    assert "WARN" not in batch.stderr


def test_one_topic_that_failed_stops_no_other_and_the_exit_code_says_so(batch: Batch) -> None:
    """The missing file is named, its partition marked; the records are as they were."""
    assert batch.exit_code == 4
    message = batch.receipts["broken"]["message"]
    assert batch.stderr.count(message) == 1
    assert "Topic broken was not compacted: broken-0: segment file://" in message
    assert "is missing. Nothing was published" in message
    assert "winnow partitions release broken --partition 0" in message
    (run,) = batch.world.installation.store.runs.list_runs("broken")
    assert (run.status, run.message) == (RunState.SPARK_FAILED, message)
    mark = batch.world.state(topic="broken").uncleanable
    assert mark is not None
    assert (mark.plan_id, mark.attempts) == (run.plan_id, 1)
    assert batch.world.head("broken").state.receipts == ()
    assert batch.world.state(topic="broken").first_dirty_offset is None


def test_the_topics_shared_one_application(batch: Batch) -> None:
    """Starting one costs more than compacting a small topic."""
    attempts = {
        run.attempt
        for topic in ("orders", "users", "giant", "broken")
        for run in batch.world.installation.store.runs.list_runs(topic)
    }
    assert len(attempts) == 1
    assert len([line for line in batch.stderr.splitlines() if line.startswith("Compacting ")]) == 1


def test_giant_was_cut_over_several_tasks_which_left_no_scratch(batch: Batch) -> None:
    """The new segments were written by more than one Spark task; what the shares of its keys left behind is gone."""
    paths = [PurePosixPath(segment.path) for segment in batch.world.segments(topic="giant")]
    assert len({path.parent.name for path in paths}) > 1
    assert not [path for path in paths if path.parent.name.startswith("ingest-")]
    assert not [name for name in batch.world.listing() if "survivors" in name]


def test_compacting_again_finds_nothing_to_do_and_starts_no_spark(batch: Batch) -> None:
    before = batch.world.snapshot_ids("orders")
    again = winnow(batch.world, "compact", "orders", "users", "--json")
    assert again.returncode == 0
    assert [receipt["status"] for receipt in json.loads(again.stdout)] == ["nothing_to_do", "nothing_to_do"]
    assert batch.world.snapshot_ids("orders") == before
    assert "Compacting" not in again.stderr


def test_two_sparks_mixed_in_one_installation_are_refused_by_name() -> None:
    """A driver whose JVM is of another version than its Python dies in ways that name neither."""
    from winnow.engine.spark_application import check_spark_versions

    with pytest.raises(ConfigurationError, match=r"but its JVM is Spark 3\.5\.0.*Nothing was changed"):
        check_spark_versions(cast(Any, SimpleNamespace(version="3.5.0")))
