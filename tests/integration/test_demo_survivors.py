"""The demo's year of flights through ingest, two compactions and the readers, against plain Python.

The first compaction is by spark-submit, the second does the same work in this process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import pytest

from demo import expected
from demo.archive import write_archive
from demo.flights import Flight, read_flights
from demo.records import AIRCRAFT, ARRIVALS, CONFIGURATION, DEPARTURES, PARTITIONS, TOPICS, PlacedRecord
from tests.support import in_process_spark
from winnow.clock import read_wall_clock_ms
from winnow.config.settings import load_settings
from winnow.pipeline.compaction import driver
from winnow.pipeline.compaction.driver import compact_topics
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.installation import Installation, open_installation
from winnow.pipeline.read.records import read_batches
from winnow.pipeline.topics.definition import create_topic
from winnow.values.model import Status
from winnow.values.results import Receipt

TWO_DAYS_MS = 2 * 86_400_000

Row = tuple[int, int, bytes | None, bytes | None, int]
"""Partition, offset, key, value, timestamp in ms."""


@dataclass(frozen=True)
class Told:
    """What the ingest of one topic said, and the first record that readers saw differently, after each run."""

    appended: int
    quarantined: int
    receipts: tuple[Receipt, ...]
    differences: tuple[tuple[Row | None, Row | None] | None, ...]
    last_ms: dict[str, int]
    """Of ``aircraft``: the timestamp of the record that a reader sees of each tail number."""


@pytest.fixture(scope="module")
def flights() -> list[Flight]:
    return list(read_flights())


@pytest.fixture(scope="module")
def told(flights: list[Flight], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Told]:
    """The whole story without Airflow: one append per file, one compaction of all topics now and one two days later."""
    folder = tmp_path_factory.mktemp("demo")
    settings = load_settings(cwd=folder, env={"WINNOW_HOME": str(folder / "home"), "WINNOW_SPARK__MASTER": "local[2]"})
    now_ms = read_wall_clock_ms()
    with open_installation(settings) as installation:
        ingested = {topic: _ingest(installation, topic, flights, folder, now_ms) for topic in TOPICS}
        wanted = {topic: expected.list_survivors(ARRIVALS[topic](flights), tombstones=True) for topic in TOPICS}
        receipts: dict[str, list[Receipt]] = {topic: [] for topic in TOPICS}
        differences: dict[str, list[tuple[Row | None, Row | None] | None]] = {topic: [] for topic in TOPICS}
        for as_of_ms, tombstones in ((now_ms, True), (now_ms + TWO_DAYS_MS, False)):
            with pytest.MonkeyPatch.context() as patch:
                if not tombstones:
                    patch.setattr(driver, "submit_plans", in_process_spark.submit)
                outcome = compact_topics(installation, TOPICS, as_of_ms=as_of_ms)
            assert outcome.errors == []
            for receipt in outcome.receipts:
                receipts[receipt.topic].append(receipt)
            for topic in TOPICS:
                left = (placed for placed in wanted[topic] if tombstones or placed.arrival.value is not None)
                differences[topic].append(_first_difference(map(_row, left), _read(installation, topic)))
        last_ms = {(key or b"").decode(): timestamp_ms for _, _, key, _, timestamp_ms in _read(installation, AIRCRAFT)}
    return {
        topic: Told(*ingested[topic], tuple(receipts[topic]), tuple(differences[topic]), last_ms) for topic in TOPICS
    }


def _ingest(
    installation: Installation, topic: str, flights: list[Flight], folder: Path, as_of_ms: int
) -> tuple[int, int]:
    create_topic(installation, topic, PARTITIONS, CONFIGURATION[topic])
    files = write_archive(folder / "archive", topic, flights)
    reports = [ingest_files(installation, topic, [str(file)], as_of_ms=as_of_ms) for file in files]
    return sum(r.records_appended for r in reports), sum(r.records_quarantined for r in reports)


def _row(placed: PlacedRecord) -> Row:
    arrival = placed.arrival
    return (placed.partition, placed.offset, arrival.key, arrival.value, arrival.timestamp_ms)


def _read(installation: Installation, topic: str) -> Iterator[Row]:
    for batch in read_batches(installation, topic):
        columns = [batch.column(name).to_pylist() for name in ("partition", "offset", "key", "value")]
        times = batch.column("timestamp").cast("int64").to_pylist()
        yield from zip(*columns, (time // 1000 for time in times), strict=True)


def _first_difference(wanted: Iterator[Row], found: Iterator[Row]) -> tuple[Row | None, Row | None] | None:
    pairs = zip_longest(wanted, found)
    return next(((mine, theirs) for mine, theirs in pairs if mine != theirs), None)


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("run", [0, 1], ids=["now", "two days later"])
def test_every_surviving_record_is_the_one_plain_python_expects(told: dict[str, Told], topic: str, run: int) -> None:
    """Key, value, offset and timestamp of all survivors agree, record by record, after the first and the second run."""
    assert told[topic].differences[run] is None


def test_flights_without_tail_number_go_to_quarantine_and_take_no_offset(told: dict[str, Told]) -> None:
    """2,512 records have no key; the other 334,264 of the year are in the log."""
    assert (told[AIRCRAFT].quarantined, told[AIRCRAFT].appended) == (2_512, 334_264)


def test_first_run_keeps_one_record_per_tail_number(told: dict[str, Told]) -> None:
    """4,043 tail numbers occur: the 4,037 aircraft that flew, and six of which every flight was cancelled."""
    receipt = told[AIRCRAFT].receipts[0]

    assert sum(p.records_kept for p in receipt.partitions) == 4_043
    assert sum(p.records_superseded for p in receipt.partitions) == 334_264 - 4_043


def test_4037_of_the_surviving_tail_numbers_belong_to_aircraft_that_flew(
    told: dict[str, Told], flights: list[Flight]
) -> None:
    """Flown means with at least one departure, wherever the surviving record comes from."""
    assert len(told[AIRCRAFT].last_ms.keys() & expected.list_aircraft_flown(flights)) == 4_037


def test_nine_aircraft_are_seen_on_a_flight_that_is_not_their_last(
    told: dict[str, Told], flights: list[Flight]
) -> None:
    """The highest offset wins, and another carrier's reports of earlier flights arrived later."""
    latest_ms: dict[str, int] = {}
    for flight in flights:
        if flight.aircraft is not None:
            latest_ms[flight.aircraft] = max(flight.moment_ms, latest_ms.get(flight.aircraft, 0))

    assert sum(told[AIRCRAFT].last_ms[aircraft] < last for aircraft, last in latest_ms.items()) == 9


def test_first_run_keeps_the_tombstones_of_cancelled_flights(told: dict[str, Told]) -> None:
    """Nobody has had a day to read them, so all 336,776 flights still have a record, 8,255 of them a tombstone."""
    first, _ = told[DEPARTURES].receipts

    assert sum(p.records_kept for p in first.partitions) == 336_776
    assert sum(p.tombstones_expired for p in first.partitions) == 0


def test_second_run_two_days_later_removes_the_8255_tombstones(told: dict[str, Told]) -> None:
    """delete.retention.ms, a day, has passed since the first run covered them."""
    _, second = told[DEPARTURES].receipts

    assert second.status is Status.PUBLISHED
    assert sum(p.tombstones_expired for p in second.partitions) == 8_255
    assert sum(p.records_kept for p in second.partitions) == 336_776 - 8_255


def test_second_run_finds_nothing_to_do_for_a_clean_topic_without_tombstones(told: dict[str, Told]) -> None:
    """Nothing of ``aircraft`` is dirty any more, so nothing is read or written."""
    _, second = told[AIRCRAFT].receipts

    assert second.status is Status.NOTHING_TO_DO
