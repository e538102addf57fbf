"""Measures how the cost of ``winnow compact`` grows with records, keys, partitions and dirty share.

All logs are topics of one home; each point is one compaction of one of them, from the pristine home.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.competitors import COMPETITORS
from bench.lake import Lake, ingest_lakes
from bench.machine import describe_machine
from bench.results import Results
from bench.source_data import GENERATOR
from bench.workloads import MIB, Incremental, Size, Workload

if TYPE_CHECKING:
    from bench.progress import ProgressPrinter

RECORDS = 2_000_000
"""Records of every curve that does not vary them."""
PARTITIONS = 4
_CONFIG = {"segment.bytes": str(32 * MIB), "min.cleanable.dirty.ratio": "0"}


@dataclass(frozen=True, slots=True)
class Point:
    """One log: position ``x`` on the curve ``curve``."""

    curve: str
    x: float
    workload: Workload
    records: int = RECORDS


def list_points() -> list[Point]:
    """List the points, at least four per curve. A log on several curves is made and measured once."""
    found = [
        Point("records", records, Workload(f"records-{records}", "", segments=2, config=_CONFIG), records)
        for records in (500_000, 1_000_000, RECORDS, 4_000_000, 8_000_000)
    ]
    middle = found[2].workload
    for share in (0.001, 0.01, 0.1, 0.5, 1.0):
        keys = "unique" if share == 1 else "uniform"
        workload = Workload(f"keys-{share}", "", keys=keys, keys_share=share, segments=2, config=_CONFIG)
        found.append(
            Point("distinct keys", RECORDS * share, middle if share == found[2].workload.keys_share else workload)
        )
    for count in (1, PARTITIONS, 16, 64):
        workload = Workload(f"partitions-{count}", "", partitions=count, segments=2, config=_CONFIG)
        found.append(Point("topic partitions", count, middle if count == PARTITIONS else workload))
    for share in (0.01, 0.05, 0.2, 0.5):
        dirty = Workload(
            f"dirty-{share}", "", keys="unique", config=_CONFIG, incremental=Incremental("unique", share, spread=True)
        )
        found.append(Point("dirty share", share, dirty))
    return found


def run_curves(folder: Path, json_path: Path | None, plot: Path | None, shown: ProgressPrinter, *, fresh: bool) -> int:
    """Measure what is missing, save after each point, print, and draw if asked."""
    path = json_path or folder / "curves.json"
    if fresh and path.is_file():
        path.replace(path.with_suffix(".before.json"))
    results = Results.load(path)
    results.machine = describe_machine()
    wanted = list_points()
    lakes = {point.workload.name: _lake(point, folder) for point in wanted}
    missing = [name for name in lakes if not results.of("curves", name, "winnow")]
    if missing:
        _prepare(list(lakes.values()), shown)
    with shown.over(len(missing)):
        for name in missing:
            shown.say(f"curves: {name}")
            lakes[name].warm()
            results.add(COMPETITORS["winnow"].run(lakes[name], False))
    failed = [run.workload for run in results.runs if not run.ended]
    _show(results, shown, plot)
    for name in failed:
        shown.say(f"error: {name} failed")
    return 1 if failed else 0


def _lake(point: Point, folder: Path) -> Lake:
    return Lake(point.workload, Size("curves", point.records, PARTITIONS), folder / "curves", shared=True)


def _prepare(lakes: list[Lake], shown: ProgressPrinter) -> None:
    pristine = lakes[0].pristine
    mark = pristine.parent / "complete.json"
    identity = json.dumps([GENERATOR, [asdict(lake.workload) for lake in lakes]])
    if mark.is_file() and mark.read_text() == identity:
        return
    import shutil

    mark.unlink(missing_ok=True)
    for place in (lakes[0].home, pristine):
        shutil.rmtree(place, ignore_errors=True)
    ingest_lakes(lakes, shown.say)
    lakes[0].home.rename(pristine)
    for lake in lakes:
        shutil.rmtree(lake.origin.sources, ignore_errors=True)
    mark.write_text(identity)


def group_by_curve(results: Results) -> dict[str, list[tuple[float, dict[str, float]]]]:
    """Group the measurements by curve: x, and seconds by phase."""
    curves: dict[str, list[tuple[float, dict[str, float]]]] = {}
    for point in list_points():
        run = results.typical("curves", point.workload.name, "winnow")
        if run is not None:
            curves.setdefault(point.curve, []).append((point.x, run.phases))
    return curves


def _show(results: Results, shown: ProgressPrinter, plot: Path | None) -> None:
    from bench.plot import draw_curves
    from bench.tables import print_curves

    curves = group_by_curve(results)
    shown.out.print(print_curves(curves))
    if plot is not None:
        draw_curves(curves, plot)
        shown.say(f"wrote {plot}")
    shown.say(f"figures: {results.path}")
