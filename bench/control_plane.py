"""Control-plane benchmark: ten thousand partitions, a thousand topics, two hundred commits."""

from __future__ import annotations

import json
import shutil
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.command_costs import measure_commands
from bench.lake import build_environment, get_lake, open_home, prepare, replace_tree
from bench.peer_losses import measure_losses
from bench.peers.control import EDGE
from bench.peers.timing import PREFIX
from bench.process_measurement import Measured, measure
from bench.results import Results
from bench.source_data import ProgressCallback
from bench.synthetic_topics import register_topic
from bench.workloads import SIZES

VERSION = 1
"""Increased when the synthetic topics change."""
PARTITIONS, SEGMENTS, CLEAN, COMMITS = 10_000, 10, 8, 10
TOPICS = 1_000
TOPIC_PARTITIONS, TOPIC_SEGMENTS = 4, 6
ROUNDS = 3
MIB = 1 << 20
LIMIT_SECONDS = 600.0


def run_control(folder: Path, results: Results, parts: Sequence[str], report: ProgressCallback) -> None:
    """Measure ``parts`` (none given: those that are not in ``results`` yet), saving each."""
    for name in parts:
        if name not in PARTS:
            raise ValueError(f"There is no part {name} of the control plane; there are {', '.join(PARTS)}.")
    for name in parts or [name for name in PARTS if name not in results.control]:
        report(f"control plane: {name}")
        results.control[name] = PARTS[name](folder, report)
        results.save()


def _assess(folder: Path, report: ProgressCallback) -> dict[str, Any]:
    """Measure one topic of ten thousand partitions: assess and a walk of its manifests, each in its own process."""
    place = _place(folder, "partitions", report, _many_partitions)
    walks, assessed = [], []
    peaks = []
    for _ in range(ROUNDS):
        walks.append(_figures(place, "walk", "wide")[0])
        figures, measured = _figures(place, "assess", "wide")
        assessed.append(figures)
        peaks.append(measured.process_peaks.get("python", measured.peak_bytes))
    walk_seconds = statistics.median(each["seconds"] for each in walks)
    seconds = statistics.median(each["seconds"] for each in assessed)
    return {
        "walk_seconds": walk_seconds,
        "assess_seconds": seconds,
        "ratio": seconds / walk_seconds,
        "peak_mib": statistics.median(peaks) / MIB,
        "entries": walks[0]["entries"],
        "partitions": assessed[0]["partitions"],
    }


def _topics(folder: Path, report: ProgressCallback) -> dict[str, Any]:
    place = _place(folder, "topics", report, _many_topics)
    runs = [_figures(place, "assess", "") for _ in range(2)]
    seconds = min(figures["seconds"] for figures, _ in runs)
    topics = runs[0][0]["topics"]
    return {
        "seconds": seconds,
        "topics": topics,
        "ms_per_topic": seconds * 1000 / topics,
        "peak_mib": max(measured.peak_bytes for _, measured in runs) / MIB,
    }


def _commits(folder: Path, report: ProgressCallback) -> dict[str, Any]:
    home = folder / "control" / "commits" / "home"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    figures, _ = _run(home, "commits", "often")
    found: dict[str, Any] = {}
    for name in ("publish_seconds", "ingest_seconds", "manifests"):
        first, last = statistics.median(figures[f"first_{name}"]), statistics.median(figures[name][-EDGE:])
        found |= {f"first_{name}": first, f"last_{name}": last}
    return {
        **found,
        "publish_ratio": found["last_publish_seconds"] / found["first_publish_seconds"],
        "ingest_ratio": found["last_ingest_seconds"] / found["first_ingest_seconds"],
        "manifest_ratio": found["last_manifests"] / found["first_manifests"],
        "compactions": len(figures["manifests"]),
    }


def _incremental_bytes(folder: Path, report: ProgressCallback) -> dict[str, Any]:
    lake = get_lake("clean-1", SIZES["12m"], folder)
    prepare(lake, report)
    figures, _ = _run(lake.home, "bytes", lake.topic)
    return {
        **figures,
        "read_ratio": figures["read_bytes"] / figures["allowed_read_bytes"],
        "written_ratio": figures["output_bytes"] / figures["allowed_written_bytes"],
    }


def _commands(folder: Path, report: ProgressCallback) -> dict[str, Any]:
    home = folder / "control" / "commands" / "home"
    shutil.rmtree(home, ignore_errors=True)
    return measure_commands(home)


PARTS: dict[str, Callable[[Path, ProgressCallback], dict[str, Any]]] = {
    "assess": _assess,
    "topics": _topics,
    "commits": _commits,
    "incremental-bytes": _incremental_bytes,
    "commands": _commands,
    "keyed-losses": measure_losses,
}


def _many_partitions(home: Path) -> None:
    with open_home(home) as installation:
        register_topic(installation, "wide", partitions=PARTITIONS, segments=SEGMENTS, clean=CLEAN, commits=COMMITS)


def _many_topics(home: Path) -> None:
    with open_home(home) as installation:
        for number in range(TOPICS):
            name = f"topic-{number:05d}"
            register_topic(
                installation, name, partitions=TOPIC_PARTITIONS, segments=TOPIC_SEGMENTS, clean=TOPIC_SEGMENTS - 1
            )


def _place(folder: Path, name: str, report: ProgressCallback, make: Callable[[Path], None]) -> Path:
    """Return the folder with a pristine home of synthetic topics; make it unless it is complete."""
    place = folder / "control" / name
    mark = place / "complete.json"
    if not mark.is_file() or json.loads(mark.read_text()) != {"version": VERSION}:
        report(f"registering the synthetic topics of {name}")
        shutil.rmtree(place, ignore_errors=True)
        home = place / "home"
        home.mkdir(parents=True)
        make(home)
        home.rename(place / "pristine")
        mark.write_text(json.dumps({"version": VERSION}))
    return place


def _figures(place: Path, way: str, topic: str) -> tuple[dict[str, Any], Measured]:
    replace_tree(place / "pristine", place / "home")
    return _run(place / "home", way, topic)


def _run(home: Path, way: str, topic: str) -> tuple[dict[str, Any], Measured]:
    command = [sys.executable, "-m", "bench.peers.control", way, str(home), topic]
    measured = measure(command, build_environment(home), limit_seconds=LIMIT_SECONDS)
    for line in measured.output.splitlines():
        if line.startswith(PREFIX):
            return json.loads(line[len(PREFIX) :]), measured
    raise ValueError(f"Measuring {way} came to nothing (exit code {measured.exit_code}): {measured.output[-2000:]}")
