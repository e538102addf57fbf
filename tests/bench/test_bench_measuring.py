"""Measuring: process trees, phases, results that accumulate, ratios with their marks, the plot."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from bench.cli import main
from bench.phase_times import PHASES, compute_phases, compute_work_seconds
from bench.plot import draw, draw_curves
from bench.process_measurement import measure
from bench.result_checks import find_differences
from bench.results import CompetitorRun, Results
from bench.source_data import make_source_files
from bench.suites import SUITES, Step, order_steps, select_steps
from bench.tables import print_runs, print_targets
from bench.targets import MAXIMUM_TASK_CONSTANT_BYTES, RATIOS
from bench.workloads import SMALL, TWELVE, WORKLOADS

MIB = 1 << 20


def test_bytes_of_a_grandchild_that_is_gone_are_counted(tmp_path: Path) -> None:
    """What a process reads and writes counts however far below and however briefly it lived."""
    path = tmp_path / "written"
    inner = f"open({str(path)!r}, 'wb').write(bytes({5 * MIB})); open({str(path)!r}, 'rb').read()"
    measured = measure(
        [sys.executable, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"], os.environ
    )
    assert measured.exit_code == 0
    assert 5 * MIB <= measured.written_bytes < 6 * MIB
    assert measured.read_bytes >= 5 * MIB


def test_bytes_of_a_grandchild_that_outlives_its_parent_are_counted(tmp_path: Path) -> None:
    """An orphan belongs to the measurement, which waits for it."""
    path = tmp_path / "written"
    inner = f"import time; time.sleep(1); open({str(path)!r}, 'wb').write(bytes({5 * MIB}))"
    measured = measure(
        [sys.executable, "-c", f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {inner!r}])"],
        os.environ,
    )
    assert path.stat().st_size == 5 * MIB
    assert measured.written_bytes >= 5 * MIB


def test_peak_memory_is_that_of_all_processes_together() -> None:
    """Two processes of 200 MiB each are 400 MiB, and the larger one's peak is told alone."""
    inner = f"import time; held = bytearray(b'x') * {200 * MIB}; time.sleep(1.5)"
    code = f"import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', {inner!r}]); {inner}; child.wait()"
    measured = measure([sys.executable, "-c", code], os.environ)
    assert measured.peak_bytes >= 400 * MIB
    assert 200 * MIB <= measured.process_peaks["python"] < 300 * MIB


def test_command_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    """Nothing goes on after the limit, and no exit code is made up."""
    mark = tmp_path / "mark"
    inner = f"import time, pathlib; time.sleep(1); pathlib.Path({str(mark)!r}).touch()"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])"
    measured = measure([sys.executable, "-c", code], os.environ, limit_seconds=0.3)
    assert measured.exit_code is None
    time.sleep(1.5)
    assert not mark.exists()


def test_failing_command_is_told_by_its_exit_code_and_output() -> None:
    """What it printed is kept, for whoever wants to know why."""
    measured = measure([sys.executable, "-c", "print('because'); raise SystemExit(3)"], os.environ)
    assert (measured.exit_code, measured.output.strip()) == (3, "because")


EVENTS: list[dict[str, object]] = [
    {"at": 10.5, "event": "process"},
    {"at": 12.0, "event": "planned", "duration_ms": 500},
    {"at": 12.2, "event": "compacting"},
    {"at": 16.0, "event": "spark_started"},
    {"at": 20.0, "event": "spark_partition", "seconds": 4.0, "winners_seconds": 1.0, "rewrite_seconds": 3.0},
    {"at": 20.0, "event": "spark_partition", "seconds": 4.0, "winners_seconds": 1.0, "rewrite_seconds": 3.0},
    {"at": 22.0, "event": "staged", "duration_ms": 9800},
    {"at": 25.0, "event": "validated", "duration_ms": 3000, "facts_ms": 2000, "import_ms": 250},
    {"at": 26.0, "event": "published", "duration_ms": 1000},
]


def test_phases_of_a_run_are_all_of_its_time() -> None:
    """Every second has one phase; tasks side by side on two cores count half."""
    phases = compute_phases(EVENTS, 10.0, 27.0, cores=2)
    assert tuple(phases) == PHASES
    assert sum(phases.values()) == pytest.approx(17.0)
    assert {name: round(phases[name], 3) for name in ("start", "spark start", "winners", "rewrite", "spark")} == {
        "start": 1.5, "spark start": 3.8, "winners": 1.0, "rewrite": 3.0, "spark": 2.0,
    }  # fmt: skip
    assert (phases["facts"], phases["gx import"], phases["validate"], phases["publish"]) == (2.0, 0.25, 0.75, 1.0)
    assert compute_work_seconds(EVENTS) == 6.0


def test_phases_of_tasks_that_claim_more_time_than_there_was_stay_within_it() -> None:
    """A partition cut over several tasks adds their seconds; the phases never exceed the application's time."""
    cut = [event if event["event"] != "spark_partition" else {**event, "winners_seconds": 9.0} for event in EVENTS]
    phases = compute_phases(cut, 10.0, 27.0, cores=2)
    assert phases["winners"] + phases["rewrite"] == pytest.approx(6.0)
    assert sum(phases.values()) == pytest.approx(17.0)


def test_topics_that_are_validated_and_published_side_by_side_take_no_longer_than_all_of_it() -> None:
    """Each tells the time from its own beginning to its own end."""
    beside: list[dict[str, object]] = [
        {"at": 25.5, "event": "validated", "duration_ms": 3000, "facts_ms": 2000, "import_ms": 0},
        {"at": 26.2, "event": "published", "duration_ms": 1100},
    ]
    phases = compute_phases([*EVENTS, *beside], 10.0, 27.0, cores=2)
    assert phases["facts"] + phases["gx import"] + phases["validate"] == pytest.approx(3.5)
    assert phases["publish"] == pytest.approx(1.2)
    assert sum(phases.values()) == pytest.approx(17.0)


def run_of(
    competitor: str, work: float, *, workload: str = "uniform", size: str = "12m", **fields: object
) -> CompetitorRun:
    plain = CompetitorRun(
        size=size, workload=workload, competitor=competitor, ended=True, seconds=work + 10, work_seconds=work,
        cpu_seconds=work, peak_bytes=MIB, process_peaks={}, read_bytes=1, written_bytes=1, disk_read_bytes=0,
        disk_written_bytes=0, records=1, input_bytes=1, output_bytes=1,
    )  # fmt: skip
    return replace(plain, **fields)  # type: ignore[arg-type]


def measured_results(path: Path) -> Results:
    results = Results(path, machine={"cores": 2})
    phases = dict.fromkeys(PHASES, 0.5)
    for seconds in (5.0, 7.0, 6.0):
        results.add(run_of("winnow", seconds, phases=phases, fingerprint="1:2:3"))
        results.add(run_of("duckdb", seconds / 2, fingerprint="1:2:3"))
        results.add(run_of("spark-window", seconds * 9))
    return results


def test_results_are_saved_after_every_run_and_loaded_again(tmp_path: Path) -> None:
    """A benchmark that is cut short keeps every run that ended."""
    results = measured_results(tmp_path / "results.json")
    again = Results.load(tmp_path / "results.json")
    assert again.runs == results.runs
    assert again.machine == {"cores": 2}


def test_results_of_another_format_are_refused_and_left_alone(tmp_path: Path) -> None:
    """Figures of another benchmark are neither mixed in nor written over."""
    path = tmp_path / "results.json"
    path.write_text('{"format_version": 99}')
    with pytest.raises(ValueError, match="--json"):
        Results.load(path)
    assert path.read_text() == '{"format_version": 99}'


def test_schedule_interleaves_competitors_and_leaves_out_what_was_done() -> None:
    """A B C A B C; after a cut it goes on where it was."""
    steps = [Step("uniform", "winnow", 2), Step("uniform", "duckdb", 2), Step("wide", "winnow", 1)]
    order = [(step.workload, step.competitor, number) for step, number in order_steps(steps, lambda step: 0)]
    assert order == [
        ("uniform", "winnow", 0), ("uniform", "duckdb", 0), ("uniform", "winnow", 1), ("uniform", "duckdb", 1),
        ("wide", "winnow", 0),
    ]  # fmt: skip
    done = {"winnow": 1, "duckdb": 1}
    left = [(step.competitor, number) for step, number in order_steps(steps[:2], lambda step: done[step.competitor])]
    assert left == [("winnow", 1), ("duckdb", 1)]


def test_chosen_steps_are_those_asked_for_also_where_no_suite_has_them() -> None:
    """Any competitor can be run on any workload."""
    assert select_steps(TWELVE, [], []) == list(SUITES["12m"])
    assert {step.competitor for step in select_steps(TWELVE, ["uniform"], ["duckdb"])} == {"duckdb"}
    assert select_steps(TWELVE, ["wide"], ["spark-copy"]) == [Step("wide", "spark-copy", 1)]


def test_ratio_is_of_medians_and_marked_by_its_target(tmp_path: Path) -> None:
    """54 over 6 seconds is nine times, which is met; 6 over 3 is more than 1.6, which is missed; the rest is open."""
    results = measured_results(tmp_path / "results.json")
    text = StringIO()
    Console(file=text, width=200).print(print_targets(results))
    lines = {line.split("  ")[1].strip(): line for line in text.getvalue().splitlines() if "  " in line[1:]}
    assert "9.00 x" in lines["12 M: naive Spark window / Winnow"]
    assert "met" in lines["12 M: naive Spark window / Winnow"]
    assert "2.00 x" in lines["12 M: Winnow / DuckDB alone"]
    assert "missed" in lines["12 M: Winnow / DuckDB alone"]
    assert "not measured" in lines["ingest / DuckDB copy"]


def test_bound_of_a_task_over_its_budget_is_the_one_that_the_engine_states() -> None:
    from winnow.engine.rewrite import MAXIMUM_OVERHEAD_BYTES

    assert MAXIMUM_TASK_CONSTANT_BYTES == MAXIMUM_OVERHEAD_BYTES


def test_every_ratio_rests_on_steps_that_a_suite_runs() -> None:
    """No target can be left without a measurement by a slip in a name: each suite together makes up every ratio."""
    results = Results(Path("unused"))
    for size, steps in SUITES.items():
        results.runs += [
            run_of(step.competitor, 1.0, workload=step.workload, size=size, phases=dict.fromkeys(PHASES, 0.1),
                   process_peaks={"task": MIB})
            for step in steps
        ]  # fmt: skip
    results.control = {
        "assess": {"ratio": 1, "peak_mib": 1},
        "commands": {"help_multiple": 1, "topics_list_multiple": 1, "assess_multiple": 1},
        "topics": {"ms_per_topic": 1},
        "commits": {"publish_ratio": 1, "manifest_ratio": 1},
        "incremental-bytes": {"read_ratio": 1, "written_ratio": 1},
        "airflow-tick": {"idle_cpu_seconds": 1},
        "airflow-tick-uncompiled": {"idle_cpu_seconds": 1},
        "airflow-tick-many": {"first_cpu_seconds": 1, "idle_cpu_seconds": 1, "idle_processes": 1},
        "airflow-small-topics": {"compact_ratio": 1, "dag_ratio": 1, "ingest_cpu_seconds": 1},
    }
    assert [ratio.name for ratio in RATIOS if ratio.value(results) is None] == []


def test_run_that_did_not_end_is_shown_as_such_and_enters_no_median(tmp_path: Path) -> None:
    """A competitor that was stopped has no time to compare with."""
    results = Results(tmp_path / "results.json")
    results.add(run_of("pyiceberg-upsert", 1.0, ended=False, note="took too long: ended after 60 s"))
    text = StringIO()
    Console(file=text, width=200).print(print_runs(results, "12m"))
    assert "did not end" in text.getvalue()
    assert results.median("12m", "uniform", "pyiceberg-upsert", lambda run: run.work_seconds) is None
    assert not results.runs[0].failed


def test_different_fingerprints_of_one_workload_are_told(tmp_path: Path) -> None:
    """Winnow and DuckDB must keep the same records."""
    results = measured_results(tmp_path / "results.json")
    assert find_differences(results) == []
    results.add(run_of("spark-semi-join", 1.0, fingerprint="1:2:4"))
    (sentence,) = find_differences(results)
    assert "uniform" in sentence


def test_report_of_different_results_ends_with_exit_code_1(tmp_path: Path) -> None:
    """A wrong result fails the benchmark, a missed ratio does not."""
    path = tmp_path / "results.json"
    results = measured_results(path)
    assert main(["report", "--json", str(path)]) == 0
    results.add(run_of("spark-semi-join", 1.0, fingerprint="1:2:4"))
    assert main(["report", "--json", str(path)]) == 1


def test_plot_of_the_same_figures_is_the_same_file(tmp_path: Path) -> None:
    """No date and no random ids, so that the file in the docs changes only with the figures."""
    results = measured_results(tmp_path / "results.json")
    first, second = tmp_path / "a.svg", tmp_path / "b.svg"
    draw(results, first)
    draw(results, second)
    assert first.read_bytes() == second.read_bytes()
    text = first.read_text()
    assert "naive Spark window" in text
    assert "<dc:date>" not in text


def test_plot_of_curves_names_each_curve(tmp_path: Path) -> None:
    """One small plot per curve."""
    path = tmp_path / "curves.svg"
    points = [(float(x), dict.fromkeys(PHASES, float(x))) for x in (1, 2, 3, 4)]
    draw_curves({"records": points, "dirty share": points}, path)
    assert "dirty share" in path.read_text()


def test_generated_records_are_the_same_every_time_and_reused(tmp_path: Path) -> None:
    """Seeded by nothing but topic partition and offset; a complete folder is not written again."""
    workload = WORKLOADS["headers"]
    one, other = (make_source_files(workload, SMALL, tmp_path / name) for name in ("one", "other"))
    pairs = [pair for calls in zip(one, other, strict=True) for pair in zip(*calls, strict=True)]
    assert all(pq.read_table(first).equals(pq.read_table(second)) for first, second in pairs)
    assert sum(pq.read_metadata(first).num_rows for first, _ in pairs) == SMALL.records
    made = one[0][0].stat().st_mtime_ns
    make_source_files(workload, SMALL, tmp_path / "one")
    assert one[0][0].stat().st_mtime_ns == made


def test_help_teaches_and_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever knows nothing finds the commands; a slip in a name ends with exit code 2 and where to look."""
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "python -m bench run small" in capsys.readouterr().out
    assert main(["run", "small", "--workloads", "unifrom"]) == 2
