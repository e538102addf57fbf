"""A task's memory: bounded whatever the keys and values are, spilled where it must, and nothing left on disk."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from winnow.engine import rewrite
from winnow.engine.read_ranges import MAXIMUM_RANGE_BYTES, SegmentSurvivors, split_into_read_ranges
from winnow.engine.rewrite import MAXIMUM_OVERHEAD_BYTES, SegmentGroup, compact_partition
from winnow.engine.task_resources import TaskBudget, open_connection
from winnow.errors import LinkedFolderError
from winnow.files.duckdb_connection import MINIMUM_MEMORY_BYTES
from winnow.files.segments import ARROW_SCHEMA, SegmentWriter
from winnow.values.model import PartitionPlan, Plan, Reason, Segment
from winnow.values.strategies import Strategy

MIB = 1 << 20
Rows = npt.NDArray[np.int64]

_TASK = """
import json, re, sys
from pathlib import Path
from tests.unit.test_engine_memory import TaskBudget, compact_partition, planned, written
folder, keys, versions, value_bytes, budget_bytes = sys.argv[1], *map(int, sys.argv[2:])
plan = planned(folder, written(folder, keys, versions, value_bytes))
staged = compact_partition(
    plan, plan.partitions[0], attempt="a", budget=TaskBudget(budget_bytes, 1, f"{folder}/spill")
)
# Of this program alone: what getrusage says may be the peak of the process that started it.
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024
print(json.dumps({"peak": peak, "kept": staged.facts.records_kept, "in": staged.facts.records_in}))
"""


def written(folder: str, keys: int, versions: int, value_bytes: int) -> tuple[Segment, ...]:
    """``versions`` segments of ``keys`` records; half of the 16-byte keys of each are also those of the next."""
    rows = max(1, min(65_536, (4 * MIB) // (value_bytes + 64)))
    found: list[Segment] = []
    for version in range(versions):
        name = partial("{folder}/in-{version}-{}.parquet".format, folder=folder, version=version)
        with SegmentWriter(partition=0, segment_bytes=1 << 40, name=name) as writer:
            for low in range(0, keys, rows):
                writer.write(
                    _records(version * keys, np.arange(low, min(keys, low + rows)), version * (keys // 2), value_bytes)
                )
            found += writer.finish()
    return tuple(found)


def _records(first_offset: int, rows: Rows, first_key: int, value_bytes: int) -> pa.RecordBatch:
    count = len(rows)
    numbers = rows + first_key
    pairs = np.stack([numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15), numbers.astype(np.uint64)], axis=1)
    keys = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), count, [None, pa.py_buffer(pairs.tobytes())])
    values = np.random.default_rng(first_offset + int(rows[0])).bytes(count * value_bytes)
    columns = [
        pa.array(np.zeros(count, np.int32)),
        pa.array(rows + first_offset),
        pa.array(np.full(count, 1_000_000), ARROW_SCHEMA.field("timestamp").type),
        pa.array(np.zeros(count, np.int32)),
        keys.cast(pa.binary()),
        pa.FixedSizeBinaryArray.from_buffers(pa.binary(value_bytes), count, [None, pa.py_buffer(values)]).cast(
            pa.binary()
        ),
        pa.nulls(count, ARROW_SCHEMA.field("headers").type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)


def planned(folder: str, segments: tuple[Segment, ...]) -> Plan:
    end = segments[-1].last_offset + 1
    partition = PartitionPlan(0, Reason.DIRTY_RATIO, 0, 0, end, end, segments)
    return Plan("plan", "t", "u", f"{folder}/data", 0, Strategy.OFFSET, None, 0, 1 << 30, (partition,), "1")


@pytest.mark.parametrize(
    ("keys", "versions", "value_bytes"),
    [(2_500_000, 1, 8), (1_500_000, 2, 8), (300, 2, 300_000)],
    ids=["unique keys", "half of a segment loses", "large values"],
)
def test_peak_memory_of_a_task_is_its_budget_and_a_constant(
    tmp_path: Path, keys: int, versions: int, value_bytes: int
) -> None:
    """In a process of its own; the keys alone need more than the budget, and the spill folder is empty afterwards."""
    arguments = [str(tmp_path), *map(str, (keys, versions, value_bytes, MINIMUM_MEMORY_BYTES))]
    done = subprocess.run([sys.executable, "-c", _TASK, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["in"], told["kept"]) == (keys * versions, keys + (versions - 1) * (keys // 2))
    assert told["peak"] / MIB <= (MINIMUM_MEMORY_BYTES + MAXIMUM_OVERHEAD_BYTES) / MIB
    assert list((tmp_path / "spill").glob("*/*")) == []


def test_a_failing_task_leaves_nothing_in_its_spill_folder(tmp_path: Path) -> None:
    """What was spilled goes with the connection, however it ends."""
    segments = written(str(tmp_path), 1_500_000, 2, 1)
    plan = planned(str(tmp_path), segments)
    spill = tmp_path / "spill"
    # A file where the folder of new segments should be: copying fails, after the winners were found.
    (tmp_path / "data").write_bytes(b"")
    seen: list[str] = []
    sound = rewrite.build_segment_groups

    def looking(*arguments: Any) -> list[SegmentGroup]:
        seen.extend(entry.name for entry in spill.rglob("winnow-spill-*"))
        return sound(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewrite, "build_segment_groups", looking)
        with pytest.raises(LinkedFolderError, match="data is a link, or no folder"):
            compact_partition(
                plan, plan.partitions[0], attempt="a", budget=TaskBudget(MINIMUM_MEMORY_BYTES, 1, str(spill))
            )
    assert seen, "nothing was spilled, so this test shows nothing"
    assert list(spill.glob("*/*")) == []


def test_read_ranges_hold_every_offset_once_and_few_large_records(tmp_path: Path) -> None:
    """A segment of large records is cut between row groups."""
    (segment,) = written(str(tmp_path), 1_200, 1, 200_000)
    with open_connection(TaskBudget(MINIMUM_MEMORY_BYTES, 1, str(tmp_path / "spill")), [segment]) as connection:
        connection.execute('CREATE TEMP TABLE survivors ("offset" BIGINT)')
        found = list(split_into_read_ranges(connection, [SegmentSurvivors(segment, 1_200)], 5))
    assert len(found) >= segment.size_bytes // MAXIMUM_RANGE_BYTES
    assert (found[0].first_offset, found[-1].last_offset) == (5, segment.last_offset)
    assert [one.last_offset + 1 for one in found[:-1]] == [one.first_offset for one in found[1:]]
