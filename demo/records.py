"""The topics of the demo, their configuration, and their records in order of arrival.

``aircraft``: every flight, cancelled ones too. Key = tail number, value = the flight, timestamp = its departure (the
scheduled one when it was cancelled). Records arrive carrier by carrier, as airlines report, within a carrier by time:
the offsets of an aircraft that flew for two carriers may not be in the order of its flights. A flight without tail
number is a record without key.

``departures``: key = one scheduled flight. First, a day before the scheduled departure, its schedule; then its
departure, or a tombstone at the scheduled time if it was cancelled. Records arrive by time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from demo.flights import Flight
from winnow.clock import parse_as_of
from winnow.files.partitioner import choose_partition

AIRCRAFT, DEPARTURES = "aircraft", "departures"

PARTITIONS = 4

_DAY_MS = 86_400_000

_encode = msgspec.json.Encoder().encode

CARRIER_GROUPS = (
    ("9E", "AA", "AS", "B6"),
    ("DL", "EV"),
    ("F9", "FL", "HA", "MQ", "OO"),
    ("UA", "US", "VX", "WN", "YV"),
)
"""Carriers per file of ``aircraft``, in alphabetical order like the files."""

QUARTER_ENDS_MS = tuple(parse_as_of(f"2013-{month:02d}-01T00:00:00Z") for month in (4, 7, 10))
"""Times (ms) at which ``departures`` is split into files."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One incoming record, in the file numbered ``file`` from 0. No key: keyless; no value: a tombstone."""

    file: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class PlacedRecord:
    """A record with its place in the log: offsets count from 0 per partition, in order of arrival."""

    partition: int
    offset: int
    arrival: Arrival


Arrivals = Callable[[Sequence[Flight]], Iterator[Arrival]]


def list_aircraft_arrivals(flights: Sequence[Flight]) -> Iterator[Arrival]:
    """Yield the records of ``aircraft`` in order of arrival, which does not depend on the order of ``flights``."""
    file_of = {carrier: number for number, group in enumerate(CARRIER_GROUPS) for carrier in group}
    for flight in sorted(flights, key=lambda f: (f.carrier, f.moment_ms, f.number, f.origin)):
        key = None if flight.aircraft is None else flight.aircraft.encode()
        yield Arrival(file_of[flight.carrier], key, _encode_report(flight), flight.moment_ms)


def list_departure_arrivals(flights: Sequence[Flight]) -> Iterator[Arrival]:
    """Yield the records of ``departures`` in order of arrival, which does not depend on the order of ``flights``."""
    named = sorted(flights, key=lambda f: f.name)
    # Two numbers per flight, schedule first; a stable sort keeps that order where times are equal.
    times = [time for f in named for time in (f.scheduled_ms - _DAY_MS, f.moment_ms)]
    for position in sorted(range(len(times)), key=times.__getitem__):
        flight, is_second = named[position // 2], position % 2
        timestamp_ms = times[position]
        file = sum(timestamp_ms >= end for end in QUARTER_ENDS_MS)
        value = _encode_outcome(flight) if is_second else _encode_schedule(flight)
        yield Arrival(file, flight.name.encode(), value, timestamp_ms)


ARRIVALS: dict[str, Arrivals] = {AIRCRAFT: list_aircraft_arrivals, DEPARTURES: list_departure_arrivals}
"""Functions that yield the records of the demo's topics."""


def place_records(arrivals: Iterable[Arrival]) -> Iterator[PlacedRecord]:
    """Yield each record with a key and its place: Kafka's default partition for the key, and its next offset.

    Keyless records have no place: they go to quarantine.
    """
    next_offset = [0] * PARTITIONS
    partitions: dict[bytes, int] = {}
    for arrival in arrivals:
        key = arrival.key
        if key is None:
            continue
        partition = partitions.get(key)
        if partition is None:
            partition = partitions[key] = choose_partition(key, PARTITIONS)
        yield PlacedRecord(partition, next_offset[partition], arrival)
        next_offset[partition] += 1


def _encode_report(flight: Flight) -> bytes:
    return _encode(
        {
            "flight": f"{flight.carrier}{flight.number}",
            "origin": flight.origin,
            "destination": flight.destination,
            "scheduled": _format_moment(flight.scheduled_ms),
            "departed": None if flight.departed_ms is None else _format_moment(flight.departed_ms),
            "arrival_delay_minutes": flight.arrival_delay_minutes,
            "distance_miles": flight.distance_miles,
        }
    )


def _encode_schedule(flight: Flight) -> bytes:
    return _encode({"status": "scheduled", "scheduled": _format_moment(flight.scheduled_ms), "to": flight.destination})


def _encode_outcome(flight: Flight) -> bytes | None:
    if flight.departed_ms is None:
        return None
    delay_minutes = (flight.departed_ms - flight.scheduled_ms) // 60_000
    return _encode(
        {
            "status": "departed",
            "departed": _format_moment(flight.departed_ms),
            "delay_minutes": delay_minutes,
            "to": flight.destination,
            "aircraft": flight.aircraft,
        }
    )


def _format_moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms // 1000, UTC)


TOPICS = tuple(ARRIVALS)

DELETE_RETENTION_MS = 86_400_000

RETIRED_GRACE_MS = 1_000

_COMMON = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    # A day, so that all segments of 2013 are closed.
    "segment.ms": "86400000",
    "delete.retention.ms": str(DELETE_RETENTION_MS),
    # So that the demo can show the sweep at once. The default, a day, is for lakes with readers.
    "winnow.retired.grace.ms": str(RETIRED_GRACE_MS),
}

CONFIGURATION = {
    AIRCRAFT: {**_COMMON, "winnow.keyless": "quarantine"},
    DEPARTURES: _COMMON,
}
"""Configuration that each topic sets; everything else is Winnow's default."""
