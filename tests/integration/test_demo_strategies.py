"""The demo's aircraft under two strategies: what compare foretells, two compactions show, and why explains."""

from __future__ import annotations

import csv
import io
import zipfile
from dataclasses import dataclass
from datetime import datetime

import pytest

from demo.archive import write_archive
from demo.flights import locate_flights_file, read_flights
from demo.records import AIRCRAFT, CARRIER_GROUPS, CONFIGURATION, PARTITIONS
from tests.integration.test_compare import in_process
from tests.support.world import FakeClock, World, open_world
from winnow.pipeline.explain.compare import Comparison, compare_strategies
from winnow.pipeline.explain.why import explain_key
from winnow.pipeline.explain.why_answer import WhyAnswer
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.topics.definition import create_topic
from winnow.values.strategies import Strategy

BY_OFFSET, BY_TIME = "aircraft-by-offset", "aircraft-by-time"
Position = tuple[int, int]
"""Place of a flight in the order of arrival, and its moment in ms."""


def _positions() -> dict[str, list[Position]]:
    """Of each tail number its flights in the order of arrival, straight from the CSV: carriers in the order of the
    files, within a carrier by time.
    """
    with zipfile.ZipFile(locate_flights_file()) as archive, archive.open(archive.namelist()[0]) as member:
        rows = [row for row in csv.DictReader(io.TextIOWrapper(member, encoding="utf-8")) if row["tailnum"] != "NA"]
    carriers = [carrier for group in CARRIER_GROUPS for carrier in group]
    flights = []
    for row in rows:
        hour_s = int(datetime.fromisoformat(row["time_hour"]).timestamp())
        late = 0 if row["dep_delay"] == "NA" else int(row["dep_delay"])
        moment_ms = (hour_s + 60 * (int(row["minute"]) + late)) * 1000
        order = (carriers.index(row["carrier"]), moment_ms, int(row["flight"]), row["origin"])
        flights.append((order, row["tailnum"], moment_ms))
    found: dict[str, list[Position]] = {}
    for place, (_, tail, moment_ms) in enumerate(sorted(flights)):
        found.setdefault(tail, []).append((place, moment_ms))
    return found


@dataclass(frozen=True)
class Told:
    """What was foretold, what each copy kept, and what is said of one aircraft afterwards."""

    foretold: Comparison
    kept: dict[str, dict[bytes, Position]]
    """Per copy and tail number: partition and offset of the survivor."""
    late: bytes
    answers: dict[str, WhyAnswer]


@pytest.fixture(scope="module")
def positions() -> dict[str, list[Position]]:
    return _positions()


@pytest.fixture(scope="module")
def late(positions: dict[str, list[Position]]) -> set[bytes]:
    """The tail numbers whose last report is not that of their last flight; of equal times the later report counts."""
    return {
        tail.encode()
        for tail, flights in positions.items()
        if max(flights) != max(flights, key=lambda flight: (flight[1], flight[0]))
    }


@pytest.fixture(scope="module")
def told(late: set[bytes], tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder = tmp_path_factory.mktemp("strategies")
    files = [str(file) for file in write_archive(folder / "archive", AIRCRAFT, list(read_flights()))]
    with open_world(folder, FakeClock()) as world:
        for topic, strategy in ((BY_OFFSET, "offset"), (BY_TIME, "timestamp")):
            create_topic(
                world.installation, topic, PARTITIONS, {**CONFIGURATION[AIRCRAFT], "compaction.strategy": strategy}
            )
            ingest_files(world.installation, topic, files, as_of_ms=world.clock())
        foretold = compare_strategies(
            world.installation,
            BY_OFFSET,
            strategy=Strategy.TIMESTAMP,
            header=None,
            as_of_ms=world.clock(),
            sample=1_000,
            run=in_process,
        )
        for topic in (BY_OFFSET, BY_TIME):
            assert world.compact(topic=topic) is not None
        kept = {topic: _kept(world, topic) for topic in (BY_OFFSET, BY_TIME)}
        one = min(late)
        answers = {
            topic: explain_key(world.installation, topic, one, partition=None, as_of_ms=world.clock())
            for topic in (BY_OFFSET, BY_TIME)
        }
    return Told(foretold, kept, one, answers)


def _kept(world: World, topic: str) -> dict[bytes, Position]:
    return {each.key or b"": (each.partition, each.offset) for each in world.read(topic=topic)}


def test_compare_foretells_as_many_late_reports_as_the_csv_holds(told: Told, late: set[bytes]) -> None:
    """Counted from the CSV in plain Python."""
    assert late
    assert (told.foretold.keys, told.foretold.keys_differing) == (4_043, len(late))


def test_the_two_copies_differ_in_exactly_those_survivors(told: Told, late: set[bytes]) -> None:
    """One copy compacted by offset, one by timestamp; the sample names both coordinates of each."""
    by_offset, by_time = told.kept[BY_OFFSET], told.kept[BY_TIME]
    assert by_offset.keys() == by_time.keys()
    assert {key for key in by_offset if by_offset[key] != by_time[key]} == late
    foretold = {
        ((key.partition, key.present.offset), (key.partition, key.other.offset)) for key in told.foretold.sample
    }
    assert foretold == {(by_offset[key], by_time[key]) for key in late}


@pytest.mark.parametrize(
    ("topic", "rule"),
    [(BY_OFFSET, "highest offset"), (BY_TIME, "highest timestamp, then highest offset")],
    ids=["offset", "timestamp"],
)
def test_why_names_the_winners_offset_and_the_rule_by_which_it_won(told: Told, topic: str, rule: str) -> None:
    """The same aircraft, two winners, two rules."""
    answer = told.answers[topic]
    partition, offset = told.kept[topic][told.late]
    assert answer.winner is not None
    assert (answer.winner.partition, answer.winner.offset, answer.rule) == (partition, offset, rule)
    assert f"{topic}-{partition}, offset {offset} " in answer.sentence
    assert f"won this key by {rule} in run " in answer.sentence
    assert told.late.decode() not in answer.sentence
