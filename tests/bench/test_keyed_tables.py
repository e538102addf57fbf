"""Keyed tables that Spark maintains hold what the oracle holds, and what they lose of a log is what the page says.

Every way of Spark is an application of its own or several. `make test` starts those that share least with one another;
`make test-long` all.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench import competitors
from bench.docs_page import STORED_RESULTS
from bench.keyed_tables import WAYS, compare_states, split_log
from bench.lake import get_lake, prepare
from bench.peer_losses import ENDS, SPARK_WAYS, Kept, build_history, judge, measure_losses
from bench.progress import ProgressPrinter
from bench.results import Results
from bench.small_suite import find_keyed_errors
from bench.workloads import SMALL
from oracle.latest_state import compute_latest_state
from tests.support.examples import IS_LONG
from winnow.values.strategies import Strategy


def test_each_keyed_table_holds_the_latest_state_of_a_log_with_deletes(tmp_path: Path) -> None:
    """Half of the log first, the rest after it, by INSERT OVERWRITE; by MERGE INTO, in another mode: the next test."""
    ways = tuple(WAYS) if IS_LONG else ("spark-overwrite",)
    assert find_keyed_errors(tmp_path, "tombstones", ProgressPrinter(), ways) == []


def test_measured_merge_brings_new_records_into_a_table_that_was_there(tmp_path: Path) -> None:
    """The table of the clean part is not measured; afterwards it holds what DuckDB keeps, and readers were timed."""
    lake = get_lake("incremental-10-spread", SMALL, tmp_path)
    prepare(lake)
    wanted = competitors.COMPETITORS["duckdb"].run(lake, True).fingerprint
    run = competitors.COMPETITORS["spark-merge-mor"].run(lake, True)
    assert run.ended
    assert run.fingerprint == wanted
    assert 0 < (run.work_seconds or 0) < run.seconds
    assert 0 < run.after["new_bytes"] < run.output_bytes
    clean, new = split_log(lake)
    assert run.records == sum(each.records for each in [*clean, *new])
    assert 0 < run.after["deleted_rows"] <= sum(each.records for each in new)
    assert min(run.after["read_before_seconds"], run.after["read_after_seconds"]) > 0


def test_what_is_lost_is_what_the_page_says(tmp_path: Path) -> None:
    """The same history again, through Winnow and through Spark: the same answers as in the kept results."""
    stored = Results.load(STORED_RESULTS).control["keyed-losses"]
    assert stored.keys() == {"winnow", *SPARK_WAYS}
    found = measure_losses(tmp_path, lambda _: None, tuple(SPARK_WAYS) if IS_LONG else ("spark-merge-blind",))
    for name, figures in found.items():
        # How many files Spark writes, and in which order its rows are, depends on the number of cores.
        known = {**stored[name], "files": 0, "files_in_order": 0}
        assert {**figures, "files": 0, "files_in_order": 0} == known, name
    assert found["winnow"]["files_in_order"] == found["winnow"]["files"] > 0


def test_table_with_another_value_a_row_twice_or_a_row_too_few_is_told() -> None:
    state = compute_latest_state(build_history()[0], Strategy.OFFSET, None)
    rows = list(state.values())
    assert compare_states("t", rows, state) == []
    assert len(compare_states("t", rows[1:], state)) == 1
    assert len(compare_states("t", [*rows, rows[0]], state)) == 1
    assert len(compare_states("t", [replace(rows[0], value=b"another"), *rows[1:]], state)) == 1


@pytest.fixture
def whole() -> list[Kept]:
    """What a log keeps that loses nothing that it should keep."""
    first, second, late = build_history()
    state = compute_latest_state([*first, *second], Strategy.TIMESTAMP, None)
    records = [*state.values(), *(each for each in second if each.value is None)]
    kept = Kept(records, [sorted(each.offset for each in records if each.partition == 0)], ENDS)
    return [kept, kept, replace(kept, ends={**ENDS, 0: ENDS[0] + len(late)}), kept]


def test_log_that_keeps_everything_loses_nothing(whole: list[Kept]) -> None:
    found = judge(build_history(), whole)
    lost = ("emptied_left", "late_won", "late_returned", "again_returned")
    assert [found[name] for name in lost] == [0, 0, 0, 0]
    assert (found["tombstones"], found["ends_known"], found["files_in_order"]) == (15, 2, found["files"])
    assert found["headers"] == found["live"] == 30


def test_every_loss_is_counted(whole: list[Kept]) -> None:
    """A table without tombstones in the order of its keys, into which old records come back."""
    first, _, late = build_history()
    live = [each for each in whole[0].records if each.value is not None]
    headless = [replace(each, headers=None) for each in live]
    updates = Kept([*headless, *(each for each in first if each.partition == 1)], [[3, 1, 2]], {0: 60})
    returned = Kept(late, [], {})
    back = Kept([*live, *first], [], {})
    found = judge(build_history(), [whole[0], updates, returned, back])
    assert (found["files"], found["files_in_order"]) == (1, 0)
    assert (found["tombstones"], found["ends_known"], found["headers"], found["emptied_left"]) == (0, 0, 5, 5)
    assert (found["late_won"], found["late_returned"], found["again_returned"]) == (5, 5, 10)
