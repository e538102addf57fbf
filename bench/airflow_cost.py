"""Measures what Winnow's DAGs cost in a real Airflow: idle ticks, many small topics and files, one small topic.

Airflow runs as ``make ui`` starts it: all components, LocalExecutor, on PostgreSQL. A part's figures are CPU seconds of
the task processes with everything that they start, and apart from them those of the other components for the duration
of the run (:mod:`bench.airflow_processes`). Bytecode is compiled, as ``make setup`` leaves it; in one part Python finds
none and may not write any, as in an image whose packages were installed without it and that sets
PYTHONDONTWRITEBYTECODE.
"""

from __future__ import annotations

import base64
import compileall
import json
import os
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.lake import build_environment, open_home, replace_tree
from bench.machine import describe_machine
from bench.peers.timing import PREFIX
from bench.phase_times import WORK, compute_phases, read_events
from bench.process_measurement import ROOT, Measured, measure
from bench.results import Results
from bench.source_data import ProgressCallback
from bench.synthetic_topics import register_topic
from bench.workloads import BASE_MS

CODE = ("winnow", "dags", "plugins", "jobs")
"""Folders of the tree whose modules an Airflow imports."""
DONT_WRITE = "PYTHONDONTWRITEBYTECODE"
CACHE_PREFIX = "PYTHONPYCACHEPREFIX"
LIMIT_SECONDS = 7_200.0
FEW_TOPICS = 2
TICKS = 3
"""Idle ticks of a part; the figure is their median."""
PARTITIONS, SEGMENTS = 4, 6
RECORDS, KEYS = 400, 100
"""Records and keys of a small topic."""
PRESSES = 3
"""Warm runs of *Compact now* of one small topic; the figures are their medians."""
EMPTY_RUN = """
from airflow.sdk import DAG, task

with DAG("empty_run", schedule=None) as dag:
    previous = None
    for number in range(7):  # as many processes as compact_now has
        @task(task_id=f"nothing_{number}")
        def do_nothing():
            pass

        current = do_nothing()
        if previous is not None:
            previous >> current
        previous = current
"""
"""A DAG of as many task processes as *Compact now* starts, one after another, which do nothing."""
EMPTY_SPARK = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
print(spark.sparkContext.parallelize([0], 1).map(lambda number: number).count())
spark.stop()
"""
Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AirflowSize:
    """Number of unchanged topics, of small topics to compact, and of idle ticks over the unchanged ones."""

    name: str
    topics: int
    small_topics: int
    ticks: int


FULL = AirflowSize("full", 1_000, 60, 2)
SMALL = AirflowSize("small", 20, 4, 1)
AIRFLOW_SIZES = {size.name: size for size in (FULL, SMALL)}


def run_airflow(
    folder: Path, results: Results, parts: Sequence[str], report: ProgressCallback, size: AirflowSize = FULL
) -> None:
    """Measure ``parts`` (none given: those that are not in ``results`` yet), saving each.

    Raises:
        ValueError: no such part, or a run failed.
    """
    for name in parts:
        if name not in PARTS:
            raise ValueError(f"There is no part {name} of Airflow's cost; there are {', '.join(PARTS)}.")
    for name in parts or [name for name in PARTS if f"airflow-{name}" not in results.control]:
        place = folder / "airflow" / size.name / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        report(f"airflow: {name}")
        began = time.monotonic()
        machine = describe_machine()
        found = PARTS[name](place, size, report)
        results.control[f"airflow-{name}"] = {**found, "commit": machine["commit"], "day": machine["day"]}
        results.save()
        report(f"airflow: {name}: {_describe(found)} (measured in {time.monotonic() - began:.0f} s)")
        shutil.rmtree(place, ignore_errors=True)


def _describe(found: Figures) -> str:
    return ", ".join(f"{name} {value:,.4g}" for name, value in found.items() if isinstance(value, (int, float)))


def _tick(place: Path, size: AirflowSize, report: ProgressCallback) -> Figures:
    """Measure idle ticks over two topics."""
    _compile()
    return _measure_ticks(place, FEW_TOPICS, TICKS)


def _tick_uncompiled(place: Path, size: AirflowSize, report: ProgressCallback) -> Figures:
    """Measure the same where no module has bytecode, and none may be written."""
    nothing = place / "nothing"
    nothing.mkdir()
    return _measure_ticks(place, FEW_TOPICS, TICKS, {DONT_WRITE: "1", CACHE_PREFIX: str(nothing)})


def _tick_many(place: Path, size: AirflowSize, report: ProgressCallback) -> Figures:
    """Measure the first look at many topics, then idle ticks over them."""
    _compile()
    report(f"registering {size.topics:,} topics")
    return _measure_ticks(place, size.topics, size.ticks)


def _measure_ticks(place: Path, topics: int, ticks: int, variables: Mapping[str, str] | None = None) -> Figures:
    home = place / "home"
    home.mkdir()
    shape = {"partitions": PARTITIONS, "segments": SEGMENTS, "clean": SEGMENTS - 1}
    with open_home(home) as installation:
        for number in range(topics):
            # One dirty segment of six: looked at, and not due.
            register_topic(installation, f"topic-{number:05d}", **shape, tombstones=False)
    tick = {"dag_id": "compact_topics", "conf": {}}
    first, *others = _run_dags(place, home, [tick] * (1 + ticks), variables)
    return {"topics": topics, **_name_figures("first", [first]), **_name_figures("idle", others)}


def _small_topics(place: Path, size: AirflowSize, report: ProgressCallback) -> Figures:
    """Measure ``winnow compact`` of small topics, the same through the DAG, and one file each for as many topics."""
    _compile()
    home, pristine = place / "home", place / "pristine"
    home.mkdir()
    report(f"ingesting {size.small_topics} small topics")
    topics, entries = _make_small_topics(place, home, size.small_topics)
    home.rename(pristine)
    replace_tree(pristine, home)
    report("winnow compact")
    alone = _measure_compact(place, home, topics)
    replace_tree(pristine, home)
    report("the same through the DAG, then ingest_topics")
    runs = [
        # The first task after a start waits six seconds until the DAGs are parsed.
        {"dag_id": "watch_topics", "conf": {}},
        {"dag_id": "compact_topics", "conf": {"topics": topics}},
        {"dag_id": "ingest_topics", "conf": {"files": entries}},
    ]
    _, compacted, ingested = _run_dags(place, home, runs)
    _check_small_topics(home, topics, entries)
    return {
        "topics": len(topics),
        **alone,
        **_name_figures("dag", [compacted]),
        **_name_figures("ingest", [ingested]),
        "dag_ratio": compacted["seconds"] / alone["compact_seconds"],
    }


def _press(place: Path, size: AirflowSize, report: ProgressCallback) -> Figures:
    """Measure *Compact now* of one small topic, first and warm, beside what Airflow and Spark take for nothing."""
    _compile()
    home = place / "home"
    home.mkdir()
    topics, _ = _make_small_topics(place, home, 1 + PRESSES)
    floor = place / "floor"
    floor.mkdir()
    (floor / "empty_run.py").write_text(EMPTY_RUN)
    bundles = [
        {"name": name, "classpath": "airflow.dag_processing.bundles.local.LocalDagBundle", "kwargs": {"path": path}}
        for name, path in [("dags-folder", str(ROOT / "dags")), ("floor", str(floor))]
    ]
    runs = [
        {"dag_id": "watch_topics", "conf": {}},
        *({"dag_id": "compact_now", "conf": {"topics": [topic]}} for topic in topics),
        *[{"dag_id": "empty_run", "conf": {}}] * PRESSES,
    ]
    bundle_variable = {"AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(bundles)}
    _, first, *others = _run_dags(place, home, runs, bundle_variable)
    _check_small_topics(home, topics, [])
    spark = [_measure_empty_spark(home) for _ in range(PRESSES)]
    return {
        **_name_figures("first", [first]),
        **_name_figures("warm", others[:PRESSES]),
        **_name_figures("empty", others[PRESSES:]),
        "spark_seconds": statistics.median(measured.seconds for measured in spark),
        "spark_cpu_seconds": statistics.median(measured.cpu_seconds for measured in spark),
    }


def _measure_empty_spark(home: Path) -> Measured:
    """Measure an application of Spark that starts, runs one task in one Python worker, and ends."""
    measured = measure([sys.executable, "-c", EMPTY_SPARK], _build_variables(home), limit_seconds=LIMIT_SECONDS)
    if measured.exit_code != 0:
        raise ValueError(f"An empty application ended with {measured.exit_code}: {measured.output[-2000:]}")
    return measured


def _make_small_topics(place: Path, home: Path, count: int) -> tuple[list[str], list[dict[str, Any]]]:
    """Create topics that are due, and empty topics with a file for each; return names and entries of ingest_topics."""
    from winnow.pipeline.ingest.ingest import ingest_files
    from winnow.pipeline.topics.definition import create_topic

    topics = [f"small-{number:03d}" for number in range(count)]
    source = place / "records.jsonl"
    source.write_text("".join(f"{json.dumps(_build_record(offset))}\n" for offset in range(RECORDS)))
    entries = []
    with open_home(home) as installation:
        for number, topic in enumerate(topics):
            create_topic(installation, topic, 1, {"min.cleanable.dirty.ratio": "0"})
            ingest_files(installation, topic, [str(source)], as_of_ms=BASE_MS)
            empty = f"archived-{number:03d}"
            create_topic(installation, empty, 1, {})
            entries.append({"topic": empty, "paths": [str(source)]})
    return topics, entries


def _build_record(offset: int) -> dict[str, Any]:
    return {
        "partition": 0,
        "offset": offset,
        "timestamp": BASE_MS - RECORDS + offset,
        "key": _encode(f"key-{offset % KEYS:06d}"),
        "value": _encode(f"value {offset} " * 10),
    }


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _measure_compact(place: Path, home: Path, topics: Sequence[str]) -> Figures:
    """Measure ``winnow compact`` of ``topics``; Spark's own part is from spark-submit until everything is staged."""
    events_file = place / "events.jsonl"
    measured = measure(
        [sys.executable, "-m", "bench.peers.winnow_cli", str(events_file), "compact", *topics, "--json"],
        _build_variables(home),
        limit_seconds=LIMIT_SECONDS,
    )
    if measured.exit_code != 0:
        raise ValueError(f"winnow compact ended with {measured.exit_code}: {measured.output[-2000:]}")
    phases = compute_phases(read_events(events_file), measured.started, measured.ended, os.cpu_count() or 1)
    spark_seconds = sum(phases[name] for name in ("spark start", *WORK))
    return {
        "compact_seconds": measured.seconds,
        "compact_cpu_seconds": measured.cpu_seconds,
        "spark_seconds": spark_seconds,
        "compact_ratio": measured.seconds / spark_seconds,
        "compact_phases": {name: round(seconds, 2) for name, seconds in phases.items()},
    }


def _check_small_topics(home: Path, topics: Sequence[str], entries: Sequence[Mapping[str, Any]]) -> None:
    """Check that the DAGs did the work: every topic compacted to its keys, every file ingested in full."""
    with open_home(home) as installation:
        for topic, wanted in [*((topic, KEYS) for topic in topics), *((entry["topic"], RECORDS) for entry in entries)]:
            log = installation.log.open(topic)
            found = sum(segment.records for segments in log.segments(log.head()).values() for segment in segments)
            if found != wanted:
                raise ValueError(f"{topic} holds {found} records after the DAG runs, not {wanted}.")


def _compile() -> None:
    for name in CODE:
        compileall.compile_dir(ROOT / name, quiet=2)


def _build_variables(home: Path, variables: Mapping[str, str] | None = None) -> dict[str, str]:
    env = {name: value for name, value in build_environment(home).items() if name not in {DONT_WRITE, CACHE_PREFIX}}
    return {**env, **(variables or {})}


def _run_dags(
    place: Path, home: Path, runs: Sequence[Figures], variables: Mapping[str, str] | None = None
) -> list[Figures]:
    """Start an Airflow on ``home``, run the DAGs one after another, and return the figures of each.

    Raises:
        ValueError: Airflow or one of the runs failed.
    """
    request = place / "request.json"
    request.write_text(json.dumps({"home": str(home), "runs": runs}))
    measured = measure(
        [sys.executable, "-m", "bench.peers.airflow", str(request)],
        {**_build_variables(home, variables), "WINNOW_INGEST__ROOTS": str(place)},
        limit_seconds=LIMIT_SECONDS,
    )
    line = next((line for line in measured.output.splitlines() if line.startswith(PREFIX)), None)
    if line is None:
        raise ValueError(f"Airflow came to nothing (exit code {measured.exit_code}): {measured.output[-2000:]}")
    found: list[Figures] = json.loads(line[len(PREFIX) :])
    for asked, run in zip(runs, found, strict=True):
        if run["state"] != "success":
            raise ValueError(f"A run of {asked['dag_id']} ended as {run['state']}. Its logs: {home}/airflow/logs")
    return found


def _name_figures(name: str, runs: Sequence[Figures]) -> Figures:
    """Return the medians over ``runs``, each under ``name``; CPU of the other components apart from the tasks'."""
    others = {
        component: statistics.median(run["cpu"].get(component, 0.0) for run in runs)
        for component in runs[0]["cpu"]
        if component != "tasks"
    }
    return {
        f"{name}_cpu_seconds": statistics.median(run["cpu"]["tasks"] for run in runs),
        f"{name}_seconds": statistics.median(run["seconds"] for run in runs),
        f"{name}_processes": max(run["processes"] for run in runs),
        f"{name}_instances": max(run["instances"] for run in runs),
        f"{name}_other_cpu_seconds": {component: round(seconds, 2) for component, seconds in others.items()},
    }


PARTS: dict[str, Callable[[Path, AirflowSize, ProgressCallback], Figures]] = {
    "tick": _tick,
    "tick-uncompiled": _tick_uncompiled,
    "tick-many": _tick_many,
    "small-topics": _small_topics,
    "press": _press,
}
