"""A partition that is cut over several tasks: the oracle's survivors, and what one task alone would have made."""

from __future__ import annotations

import itertools
import pickle
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.surviving_records import compute_survivors
from tests.support.examples import choose_examples
from tests.support.random_logs import HEADER, Row, build_records, version_headers, write_segment_file
from winnow.engine import task_planning as splitting
from winnow.engine.compaction_job import build_units, run_unit, write_plan_manifest
from winnow.engine.rewrite import compact_partition
from winnow.engine.scheduling import Result, run_in_rounds
from winnow.engine.task_planning import PartUnit, ShareUnit, WorkUnit
from winnow.engine.task_resources import TaskBudget
from winnow.engine.winners import MAXIMUM_MALFORMED_OFFSETS
from winnow.log.snapshot_expiry import list_attempt_files
from winnow.values.model import OffsetRange, PartitionPlan, Plan, Reason, Record, Segment
from winnow.values.results import StagedPartition
from winnow.values.strategies import Strategy

URI = "plans/plan.json"


def passes(_: WorkUnit) -> bool:
    """Every unit is carried out once and its result arrives."""
    return True


@dataclass
class Tasks:
    """Stands where Spark is: carries out tasks one after another, each in a folder of its own."""

    arrives: Callable[[WorkUnit], bool] = passes
    before: Callable[[WorkUnit], object] = passes
    twice: bool = False
    """Every unit is carried out by two tasks, of which the later one counts."""
    packed: bool = False
    """All units of a wave are given to one task."""
    number: int = 0
    waves: list[list[list[WorkUnit]]] = field(default_factory=list)
    told: list[Result] = field(default_factory=list)

    def __call__(self, tasks: Sequence[list[WorkUnit]], budget: TaskBudget) -> list[Result]:
        """What reaches the driver, through pickle as Spark sends it."""
        self.waves.append(list(tasks))
        results = []
        for task in [list(chain.from_iterable(tasks))] if self.packed else tasks:
            if self.twice:
                self._carry_out(task, budget)
            made = self._carry_out(task, budget)
            results += [result for unit, result in zip(task, made, strict=True) if self.arrives(unit)]
        return results

    def _carry_out(self, task: list[WorkUnit], budget: TaskBudget) -> list[Result]:
        self.number += 1
        results: list[Result] = []
        for unit in task:
            self.before(unit)
            sent: WorkUnit = pickle.loads(pickle.dumps(unit))
            made = run_unit(sent, "a", budget, folder=f"a-t{self.number}")
            results.append(pickle.loads(pickle.dumps(made)))
        return results

    def run(
        self, plan: Plan, *, cores: int = 3, part_bytes: int = 1, giant_bytes: int = 1, rate: float | None = None
    ) -> list[Result]:
        """Compact ``plan`` with every partition cut that has records, its groups into the smallest parts."""
        folder = Path(plan.data_location)
        budget = TaskBudget(1 << 28, 1, str(folder / "spill"), rate)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(splitting, "MINIMUM_PART_BYTES", part_bytes)
            return run_in_rounds(
                build_units(URI, plan), self, cores=cores, budget=budget, maximum_tasks=None, giant_bytes=giant_bytes,
                done=lambda _, result: self.told.append(result),
            )  # fmt: skip


def plan_of(folder: str, inputs: Sequence[Sequence[Record]], strategy: Strategy = Strategy.OFFSET, **more: Any) -> Plan:
    """A plan over one partition whose segments hold ``inputs``."""
    segments = tuple(write_segment_file(folder, number, records) for number, records in enumerate(inputs) if records)
    end = segments[-1].last_offset + 1 if segments else 0
    partition = PartitionPlan(0, Reason.DIRTY_RATIO, 0, 0, end, end, segments)
    header = HEADER if strategy is Strategy.HEADER else None
    plan = Plan(
        "plan", "t", "u", f"{folder}/data", 0, strategy, header, 0, 1 << 30, (partition,), "1",
        quarantine_location=f"{folder}/quarantine",
    )  # fmt: skip
    return replace(plan, **more)


def versions(count: int, keys: int = 7) -> list[Record]:
    return [Record(n, f"k{n % keys}".encode(), f"v{n}".encode(), 1_000 + n) for n in range(count)]


def alone(plan: Plan, number: int = 0) -> StagedPartition:
    """What one task makes of it."""
    budget = TaskBudget(1 << 28, 1, f"{plan.data_location}/spill")
    return compact_partition(plan, plan.partitions[number], attempt="alone", budget=budget)


def records_in(paths: Sequence[str]) -> list[dict[str, Any]]:
    tables = [pq.read_table(path) for path in paths]
    return pa.concat_tables(tables).to_pylist() if tables else []


def outputs_of(staged: StagedPartition) -> list[Segment]:
    return [segment for rewrite in staged.rewrites for segment in rewrite.outputs]


def without_folder(segment: Segment) -> Segment:
    return replace(segment, path=PurePosixPath(segment.path).name)


def expect_same(cut: StagedPartition, whole: StagedPartition) -> None:
    """Facts, groups, records and fingerprints of a cut partition are those of one task; only files may be smaller."""
    assert replace(cut.facts, bytes_out=0) == replace(whole.facts, bytes_out=0)
    assert [rewrite.inputs for rewrite in cut.rewrites] == [rewrite.inputs for rewrite in whole.rewrites]
    for one, same in zip(cut.rewrites, whole.rewrites, strict=True):
        assert records_in([s.path for s in one.outputs]) == records_in([s.path for s in same.outputs])
    edges = [(segment.first_offset, segment.last_offset) for segment in outputs_of(cut)]
    assert all(before[1] < after[0] for before, after in itertools.pairwise(edges))
    mine, other = (records_in(each.keyless_files) for each in (cut, whole))
    assert [row | {"ingest_id": None} for row in mine] == [row | {"ingest_id": None} for row in other]


_rows = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.sampled_from([None, b"", b"a", b"b", b"c", b"d", b"\x00" * 40]),
        st.none() | st.just(b"x"),
        st.none() | st.integers(0, 3) | st.just(253_402_300_799_999),
        version_headers,
    ),
    min_size=1,
    max_size=24,
)


@settings(max_examples=choose_examples(quick=20))
@given(
    rows=_rows,
    cuts=st.sets(st.integers(1, 23), max_size=5),
    strategy=st.sampled_from(list(Strategy)),
    expired_below=st.integers(0, 30),
    start=st.integers(0, 8),
    cores=st.integers(2, 5),
    segment_bytes=st.sampled_from([1, 5_000, 1 << 30]),
    late=st.booleans(),
)
def test_cut_partition_is_what_the_oracle_and_one_task_alone_make_of_it(
    rows: list[Row],
    cuts: set[int],
    strategy: Strategy,
    expired_below: int,
    start: int,
    cores: int,
    segment_bytes: int,
    late: bool,
) -> None:
    """Every strategy, expired tombstones, keyless records, malformed headers, a log start inside, keys elsewhere."""
    records = build_records(rows)
    covered_end = 99 if late and strategy is not Strategy.OFFSET else 0
    edges = [0, *sorted(cut for cut in cuts if cut < len(records)), len(records)]
    with tempfile.TemporaryDirectory() as folder:
        plan = plan_of(
            folder, [records[a:b] for a, b in itertools.pairwise(edges)], strategy,
            segment_bytes=segment_bytes, partition_count=4,
        )  # fmt: skip
        segments = tuple(
            replace(s, keyless=sum(r.key is None and s.first_offset <= r.offset <= s.last_offset for r in records))
            for s in plan.partitions[0].segments
        )
        expired = (OffsetRange(0, expired_below),) if expired_below else ()
        partition = replace(
            plan.partitions[0], segments=segments, expired=expired, log_start_offset=start, covered_end=covered_end
        )
        plan = replace(plan, partitions=(partition,))
        tasks = Tasks()
        (result,) = tasks.run(plan, cores=cores)
        staged: StagedPartition = result["staged"]
        expect_same(staged, alone(plan))
        assert all(isinstance(unit, ShareUnit) for task in tasks.waves[0] for unit in task)
        expected = compute_survivors(
            [r for r in records if r.offset >= start],
            next_first_dirty_offset=records[-1].offset + 1,
            strategy=strategy,
            header=HEADER,
            expired=lambda offset: offset < expired_below,
            late_arrivals=covered_end > 0,
        )
        gone = {path for rewrite in staged.rewrites for path in rewrite.inputs}
        kept = [s.path for s in segments if s.path not in gone] + [s.path for s in outputs_of(staged)]
        found = sorted(row["offset"] for row in records_in(kept) if row["offset"] >= start)
        assert found == [record.offset for record in expected.kept]
        assert len(staged.facts.malformed_offsets) <= MAXIMUM_MALFORMED_OFFSETS
        assert tasks.told == [result]


def test_groups_that_are_not_cut_give_the_same_files_as_one_task(tmp_path: Path) -> None:
    """Names, sizes, bounds and bytes: only the folder differs, which bears the task's number."""
    records = versions(40)
    plan = plan_of(str(tmp_path), [records[n : n + 10] for n in range(0, 40, 10)], segment_bytes=3_000)
    (result,) = Tasks().run(plan, part_bytes=splitting.MINIMUM_PART_BYTES)
    mine, other = outputs_of(result["staged"]), outputs_of(alone(plan))
    assert list(map(without_folder, mine)) == list(map(without_folder, other))
    assert [Path(s.path).read_bytes() for s in mine] == [Path(s.path).read_bytes() for s in other]
    assert result["staged"].facts == alone(plan).facts


def test_large_group_is_copied_by_several_tasks_that_read_their_own_segments_alone(tmp_path: Path) -> None:
    records = versions(40, keys=40)
    records[5] = replace(records[5], key=records[39].key)
    records[15] = replace(records[15], key=records[38].key)
    plan = plan_of(str(tmp_path), [records[n : n + 10] for n in range(0, 40, 10)])
    tasks = Tasks()
    (result,) = tasks.run(plan, cores=4)
    parts = [unit for task in tasks.waves[1] for unit in task if isinstance(unit, PartUnit)]
    assert len(parts) == 4
    assert all(unit.plan and len(unit.plan.partitions[0].segments) == 1 for unit in parts)
    assert len(result["staged"].rewrites) == 1
    assert len(outputs_of(result["staged"])) == 4
    expect_same(result["staged"], alone(plan))


def test_malformed_headers_of_all_shares_are_named_by_the_lowest_offsets(tmp_path: Path) -> None:
    """More than are named in each share, so that the lowest of all must be chosen anew."""
    records = [Record(n, f"k{n}".encode(), b"v", 1_000, ((HEADER, b"short"),)) for n in range(90)]
    plan = plan_of(str(tmp_path), [records[:50], records[50:]], Strategy.HEADER)
    (result,) = Tasks().run(plan)
    facts = result["staged"].facts
    assert (facts.headers_malformed, facts.malformed_offsets) == (90, tuple(range(MAXIMUM_MALFORMED_OFFSETS)))


def test_partitions_of_retention_alone_and_small_ones_stay_whole_beside_a_cut_one(tmp_path: Path) -> None:
    """They are carried out in the first wave, the shares before them; only the cut one has a second."""
    big = plan_of(str(tmp_path / "big"), [versions(2_000)[:1_000], versions(2_000)[1_000:]])
    small = plan_of(str(tmp_path / "small"), [versions(9)]).partitions[0]
    retention = replace(small, partition=2, segments=(), compacts=False)
    plan = replace(big, partitions=(big.partitions[0], replace(small, partition=1), retention))
    tasks = Tasks()
    results = tasks.run(plan, cores=6, giant_bytes=big.partitions[0].size_bytes)
    assert [type(task[0]) for task in tasks.waves[0][:2]] == [ShareUnit, ShareUnit]
    whole = [unit for task in tasks.waves[0] for unit in task if not isinstance(unit, ShareUnit)]
    assert sorted(unit.partition for unit in whole) == [1, 2]
    assert {unit.partition for task in tasks.waves[1] for unit in task} == {0}
    by_partition = {result["partition"]: result["staged"] for result in results}
    assert [by_partition[n].facts for n in range(3)] == [alone(plan, n).facts for n in range(3)]
    assert [result["partition"] for result in tasks.told] == [0]
    outcome = write_plan_manifest(str(tmp_path / "plan.json"), plan, "a", results)
    assert outcome.failure is None


def test_scratch_is_gone_when_the_batch_has_ended(tmp_path: Path) -> None:
    plan = plan_of(str(tmp_path), [versions(40)[:20], versions(40)[20:]])
    (result,) = Tasks().run(plan)
    left = sorted(entry.uri for entry in list_attempt_files(str(tmp_path), "plan").files)
    assert left == sorted(segment.path for segment in outputs_of(result["staged"]))


def test_ranges_that_meet_in_one_task_have_files_of_their_own(tmp_path: Path) -> None:
    """Many giants on few cores: shares of one partition, and parts of it, may follow one another in one folder."""
    plan = plan_of(str(tmp_path), [versions(40)[n : n + 10] for n in range(0, 40, 10)])
    (result,) = Tasks(packed=True).run(plan, cores=4)
    expect_same(result["staged"], alone(plan))
    assert len({segment.path for segment in outputs_of(result["staged"])}) == len(outputs_of(result["staged"]))


def test_every_task_run_twice_changes_nothing_and_leaves_files_where_the_sweep_looks(tmp_path: Path) -> None:
    """Speculation, or a retry: each attempt has a folder of its own, and the driver names the files that count."""
    plan = plan_of(str(tmp_path), [versions(40)[:20], versions(40)[20:]])
    (result,) = Tasks(twice=True).run(plan)
    expect_same(result["staged"], alone(plan))
    left = {entry.uri for entry in list_attempt_files(str(tmp_path), "plan").files if "/alone/" not in entry.uri}
    counted = {segment.path for segment in outputs_of(result["staged"])}
    assert counted < left
    twins = {uri for uri in left - counted if "survivors" not in uri}
    assert sorted(PurePosixPath(uri).name for uri in twins) == sorted(PurePosixPath(uri).name for uri in counted)
    assert left > counted | twins


@pytest.mark.parametrize("wave", [ShareUnit, PartUnit])
def test_damage_in_a_range_is_named_and_fails_its_partition_alone(tmp_path: Path, wave: type[WorkUnit]) -> None:
    big = plan_of(str(tmp_path / "big"), [versions(2_000)[:1_000], versions(2_000)[1_000:]])
    small = plan_of(str(tmp_path / "small"), [versions(9)]).partitions[0]
    plan = replace(big, partitions=(big.partitions[0], replace(small, partition=1)))
    lost = big.partitions[0].segments[1].path

    def lose(unit: WorkUnit) -> None:
        if isinstance(unit, wave):
            Path(lost).unlink(missing_ok=True)

    tasks = Tasks(before=lose)
    failed, staged = sorted(
        tasks.run(plan, cores=4, giant_bytes=big.partitions[0].size_bytes), key=lambda result: int(result["partition"])
    )
    assert (failed["error"], failed["exit_code"]) == (f"segment {lost} is missing", 4)
    assert staged["staged"].facts == alone(plan, 1).facts
    assert tasks.told == [failed]
    assert not [entry for entry in list_attempt_files(str(tmp_path / "big"), "plan").files if "survivors" in entry.uri]
    outcome = write_plan_manifest(str(tmp_path / "plan.json"), plan, "a", [failed, staged])
    assert outcome.failure is not None
    assert [each.partition for each in outcome.failure.partitions] == [0]


def test_scratch_that_is_not_what_a_share_left_fails_the_partition(tmp_path: Path) -> None:
    """Its keys would lose their records otherwise, or get back those that were superseded."""
    plan = plan_of(str(tmp_path), [versions(40)[:20], versions(40)[20:]])

    def confuse(unit: WorkUnit) -> None:
        if isinstance(unit, PartUnit):
            Path(unit.survivors[0]).write_bytes(Path(unit.survivors[1]).read_bytes())

    (result,) = Tasks(before=confuse).run(plan, cores=2)
    assert "of offsets 0 to 39 7 records survive, but 4 were copied" in result["error"]
    assert result["exit_code"] == 1
    assert "Nothing was published" in result["error"]


@pytest.mark.parametrize("wave", [ShareUnit, PartUnit])
def test_range_that_never_came_back_leaves_its_plan_without_a_manifest(tmp_path: Path, wave: type[WorkUnit]) -> None:
    """Nothing is put together of ranges that are not all there."""
    plan = plan_of(str(tmp_path), [versions(40)[:20], versions(40)[20:]])
    lost: list[WorkUnit] = []

    def arrives(unit: WorkUnit) -> bool:
        if isinstance(unit, wave) and not lost:
            lost.append(unit)
            return False
        return True

    results = Tasks(arrives=arrives).run(plan)
    assert len(lost) == 1
    assert results == []
    outcome = write_plan_manifest(str(tmp_path / "plan.json"), plan, "a", results)
    assert outcome.failure is not None
    assert outcome.failure.error == "a task returned no result"


def test_under_a_rate_no_partition_is_cut(tmp_path: Path) -> None:
    """A share would wait for all bytes of the partition, as often as there are shares."""
    plan = plan_of(str(tmp_path), [versions(40)])
    tasks = Tasks()
    (result,) = tasks.run(plan, rate=1e12)
    assert [type(unit) for task in tasks.waves[0] for unit in task] == [WorkUnit]
    assert len(tasks.waves) == 1
    assert result["staged"].facts == alone(plan).facts
