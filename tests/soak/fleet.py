"""Many compactions of many small topics in one process, with what runs beside them; each figure must stay flat.

    python -m tests.soak.fleet COMPACTIONS RESULT.jsonl
    python -m tests.soak.fleet draw RESULT.jsonl PLOT.svg

Each compaction has an ingest before it; every few of them a sweep, a scrub, an attempt that dies, and a restart: the
installation is closed and opened again. A line of figures is added to RESULT.jsonl as it goes. Time moves, nothing
waits.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import time_machine
from sqlalchemy import func, select

from bench.plot import STYLE
from tests.soak.rounds import classify_file
from tests.support.world import FakeClock, World, open_world, record
from winnow.clock import read_wall_clock_ms
from winnow.pipeline.admin.scrub import open_scrub
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.compaction.open_runs import settle_open_runs
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.topics.leases import hold_lease
from winnow.store import tables
from winnow.values.model import Record

TOPICS: Final = 50
STEP_MS: Final = 600_000
"""How far the clock moves at each compaction."""
GRACE_MS: Final = 3_600_000
ROUND_MS: Final = TOPICS * STEP_MS
EVERY: Final = {"sweep": 5, "scrub": 25, "death": 10, "restart": 100, "figures": 50}
"""After how many compactions something happens, and that figures are taken."""
DOCUMENTS: Final = ("receipts", "ingests", "chains")
"""What a log keeps for ever, a file each: its own history."""
BUSY: Final = 5
"""So many topics have every second compaction: they live through the most."""
_KEYS: Final = 7
_PER_INGEST: Final = 10


@dataclass(frozen=True, slots=True)
class Figures:
    """What there is after ``compactions``; times are medians of one call's CPU time since the figures before."""

    compactions: int
    resident_bytes: int
    open_files: int
    files: int
    documents: int
    rows: int
    receipt_rows: int
    state_bytes: int
    metadata_bytes: int
    publish_busy_cpu_ms: float
    publish_quiet_cpu_ms: float
    ingest_cpu_ms: float
    sweep_cpu_ms: float


class Fleet:
    """The topics, what was ingested into them, and the times of calls."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._newest: dict[str, dict[bytes, Record]] = {f"topic-{n:02d}": {} for n in range(TOPICS)}
        self._cpu_ms: dict[str, list[float]] = {
            name: [] for name in ("publish_busy", "publish_quiet", "ingest", "sweep")
        }
        self._offsets: Counter[str] = Counter()

    @contextmanager
    def open(self) -> Iterator[World]:
        """Open the installation, as a process does that starts."""
        lake = {"WINNOW_HISTORY__RETENTION_MS": str(2 * ROUND_MS)}
        with open_world(self._folder, _MovedClock(), lake) as world:
            yield world

    def create(self, world: World) -> None:
        """Create the topics."""
        for topic in self._newest:
            world.create(
                1,
                topic,
                min_cleanable_dirty_ratio="0",
                delete_retention_ms=str(GRACE_MS),
                winnow_retired_grace_ms=str(GRACE_MS),
            )

    def compact(self, world: World, number: int) -> None:
        """Ingest into the topic whose turn it is, compact it, and do what is due beside."""
        topic = self._choose(number)
        is_busy = number % 2 == 0
        records = self._make_records(topic)
        with self._measure("ingest"):
            world.ingest(records, topic=topic)
        attempt = f"a{number}"
        if number % EVERY["death"] == 0:
            with hold_lease(world.installation, topic):
                plan = world.plan(world.clock(), attempt, topic)
                assert plan is not None
                world.stage(plan, attempt)
        with hold_lease(world.installation, topic):
            settle_open_runs(world.installation, topic)
            plan = world.plan(world.clock(), attempt, topic)
            assert plan is not None
            world.stage(plan, attempt)
            world.accept(plan, attempt)
            with self._measure("publish_busy" if is_busy else "publish_quiet"):
                publish_attempt(world.installation, plan.plan_id, attempt)
        if number % EVERY["sweep"] == 0:
            with self._measure("sweep"):
                sweep_topics(world.installation, [self._choose(number // EVERY["sweep"])])
        if number % EVERY["scrub"] == 0:
            assert [report.findings for report in open_scrub(world.installation, [topic])] == [()]

    def check(self, world: World) -> None:
        """Check that each topic has its newest records, no other but deletions, and each once."""
        for topic, newest in self._newest.items():
            records = world.read(topic=topic)
            offsets = [each.offset for each in records]
            assert offsets == sorted(set(offsets)), topic
            assert {each for each in records if each.value is not None} == {
                each for each in newest.values() if each.value is not None
            }, topic
            assert {each.offset for each in records} <= {each.offset for each in newest.values()}, topic

    def take_figures(self, world: World, compactions: int) -> Figures:
        """Count what there is now."""
        gc.collect()
        kinds: Counter[str] = Counter()
        home = world.installation.settings.home
        for folder, _, files in os.walk(home):
            place = Path(folder).relative_to(home).parts
            kinds.update(classify_file(place, name) for name in files)
        documents = sum(count for kind, count in kinds.items() if kind.endswith(DOCUMENTS))
        with world.installation.store._database.reading() as session:
            rows = {
                table.name: session.scalar(select(func.count()).select_from(table)) or 0
                for table in tables.Base.metadata.sorted_tables
            }
        receipt_rows = sum(count for name, count in rows.items() if name.startswith("winnow_receipt"))
        heads = [world.head(topic) for topic in self._newest]
        figures = Figures(
            compactions=compactions,
            resident_bytes=int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize(),
            open_files=len(list(Path("/proc/self/fd").iterdir())),
            files=kinds.total() - documents,
            documents=documents,
            rows=sum(rows.values()) - receipt_rows,
            receipt_rows=receipt_rows,
            state_bytes=_find_largest_state(home),
            metadata_bytes=max(_measure_file(head.table.metadata_location) for head in heads),
            **{f"{name}_cpu_ms": round(statistics.median(times or [0.0]), 2) for name, times in self._cpu_ms.items()},
        )
        for times in self._cpu_ms.values():
            times.clear()
        return figures

    def _choose(self, number: int) -> str:
        topics = list(self._newest)
        return topics[number // 2 % BUSY] if number % 2 == 0 else topics[BUSY + number // 2 % (TOPICS - BUSY)]

    @contextmanager
    def _measure(self, name: str) -> Iterator[None]:
        began = time.process_time()
        yield
        self._cpu_ms[name].append((time.process_time() - began) * 1_000)

    def _make_records(self, topic: str) -> list[Record]:
        first = self._offsets[topic]
        self._offsets[topic] += _PER_INGEST
        records = [
            record(n, f"key-{n % _KEYS}".encode(), None if n % 9 == 0 else f"value-{n}".encode())
            for n in range(first, first + _PER_INGEST)
        ]
        self._newest[topic] |= {each.key: each for each in records if each.key is not None}
        return records


class _MovedClock(FakeClock):
    """The wall clock, which the soak moves."""

    def __call__(self) -> int:
        return read_wall_clock_ms()


def run_fleet(folder: Path, compactions: int, result: Path) -> list[Figures]:
    """Compact so many times in ``folder``; add figures to ``result`` as it goes."""
    fleet = Fleet(folder)
    start = datetime.now(tz=UTC).timestamp()
    found: list[Figures] = []
    done = 0
    while done < compactions:
        with fleet.open() as world:
            if done == 0:
                fleet.create(world)
            for number in range(done, min(compactions, done + EVERY["restart"])):
                with time_machine.travel(start + (number + 1) * STEP_MS / 1_000):
                    fleet.compact(world, number)
                done = number + 1
                if done % EVERY["figures"] == 0:
                    found.append(fleet.take_figures(world, done))
                    with result.open("a", encoding="utf-8") as lines:
                        lines.write(json.dumps(asdict(found[-1])) + "\n")
            fleet.check(world)
    return found


def _find_largest_state(home: Path) -> int:
    return max(path.stat().st_size for path in home.glob("warehouse/winnow/*/_winnow/state/*"))


def _measure_file(location: str) -> int:
    return Path(location.removeprefix("file://")).stat().st_size


def draw_figures(result: Path, plot: Path) -> None:
    """Draw what ``result`` has, against the compactions."""
    import matplotlib
    from matplotlib.figure import Figure

    lines = [json.loads(line) for line in result.read_text(encoding="utf-8").splitlines()]
    curves = {
        "resident memory, MiB": ("resident_bytes", 1 << 20),
        "files, but receipts, ledgers, chains": ("files", 1),
        "rows of the store, but receipts": ("rows", 1),
        "a publish, CPU ms": ("publish_busy_cpu_ms", 1),
    }
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 5.0), layout="constrained")
        for axes, (label, (name, unit)) in zip(figure.subplots(2, 2).flat, curves.items(), strict=True):
            axes.plot([line["compactions"] for line in lines], [line[name] / unit for line in lines], color="#3182bd")
            axes.set_title(label, loc="left")
            axes.set_ylim(bottom=0)
        figure.supxlabel("compactions")
        figure.savefig(plot, format="svg", metadata={"Date": None, "Creator": None})


def main(arguments: list[str]) -> int:
    """Run it in a temporary folder, or draw what it had written."""
    if arguments[0] == "draw":
        draw_figures(Path(arguments[1]), Path(arguments[2]))
        return 0
    compactions, result = int(arguments[0]), Path(arguments[1])
    with tempfile.TemporaryDirectory(prefix="winnow-soak-") as folder:
        run_fleet(Path(folder), compactions, result)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
