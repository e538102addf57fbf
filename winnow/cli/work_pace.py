"""Estimates how far long work is between two of its reports, and how long it still takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ASSUMED_BYTES_PER_SECOND: Final = 32 << 20
ASSUMED_RECORDS_PER_SECOND: Final = 200_000
"""Paces before anything was measured."""

_TRUST_S: Final = 5.0
"""Seconds of work that count as much as the expectation: a first report says little where tasks run in parallel."""

_UNREPORTED_SHARE: Final = 0.95
"""Share of what is not reported yet that the estimate may run ahead: work is not done before it says so."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """How far work is. ``records_per_second``: None where the number of records is not known."""

    done_bytes: int
    bytes_per_second: float
    records_per_second: float | None
    seconds_left: float


class WorkPace:
    """The pace of one piece of work, from what it reports and what was expected. Times are seconds of any one clock.

    Where nobody knows the bytes, as of a Kafka topic, all sizes are numbers of records instead.
    """

    def __init__(self, expected_bytes_per_second: float | None = None) -> None:
        self._expected = expected_bytes_per_second or ASSUMED_BYTES_PER_SECOND
        self._began_s: float | None = None
        self._total_bytes = self._done_bytes = 0
        self._total_records: int | None = None
        self._measured_records_per_second: float | None = None
        self._reported_s = 0.0

    def start(self, total_bytes: int, total_records: int | None, now_s: float) -> None:
        """Set the size of the work, which begins at ``now_s`` unless it is under way already."""
        self._total_bytes, self._total_records = total_bytes, total_records
        if self._began_s is None:
            self._began_s = self._reported_s = now_s

    def report(self, done_bytes: int, now_s: float, done_records: int | None = None) -> None:
        """Take in that ``done_bytes`` of all bytes are done, and ``done_records`` if they are counted.

        Records are counted within a file, too, whose bytes are reported at its end: until then the estimate goes on.
        """
        if done_records is not None and self._began_s is not None and now_s > self._began_s:
            self._measured_records_per_second = done_records / (now_s - self._began_s)
            if done_bytes == self._done_bytes:
                return
        self._done_bytes, self._reported_s = min(done_bytes, self._total_bytes), now_s

    def estimate(self, now_s: float) -> Estimate | None:
        """Estimate how far the work is at ``now_s``; None before it has a size.

        It never runs ahead of what is left, never falls behind what was reported, and slows down without reports.
        """
        if self._began_s is None or self._total_bytes <= 0:
            return None
        elapsed_s = max(now_s - self._began_s, 1e-3)
        worked_s = self._reported_s - self._began_s
        pace = (self._done_bytes + self._expected * _TRUST_S) / (worked_s + _TRUST_S)
        ahead = _UNREPORTED_SHARE * (self._total_bytes - self._done_bytes)
        done = self._done_bytes + min(pace * max(now_s - self._reported_s, 0.0), ahead)
        if done >= self._done_bytes + ahead:
            pace = done / elapsed_s
        records = self._measured_records_per_second
        if self._total_records is not None:
            records = pace * self._total_records / self._total_bytes
        return Estimate(int(done), pace, records, (self._total_bytes - done) / pace)
