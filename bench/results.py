"""Stores the results as one JSON document that is saved after every run.

Format 1: ``format_version``, ``machine``, ``runs`` (:class:`CompetitorRun`), ``control`` (figures of the control plane
by name).
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FORMAT_VERSION = 1
TOO_LONG = "took too long"
"""Prefix of the note of a run that was stopped at the time limit."""


@dataclass(frozen=True, slots=True)
class CompetitorRun:
    """One run of one competitor on one workload.

    Seconds: ``seconds`` of the whole process, ``work_seconds`` of the work after its start (None where it did not get
    that far). ``fingerprint``: count:sum:xor over all columns of the surviving records, None where not computed.
    ``ended``: it finished by itself and with success. ``after``: figures of the log or table afterwards, the bytes of
    files that the run added (``new_bytes``) and those of :mod:`bench.keyed_tables`.
    """

    size: str
    workload: str
    competitor: str
    ended: bool
    seconds: float
    work_seconds: float | None
    cpu_seconds: float
    peak_bytes: int
    process_peaks: dict[str, int]
    read_bytes: int
    written_bytes: int
    disk_read_bytes: int
    disk_written_bytes: int
    records: int
    input_bytes: int
    output_bytes: int
    phases: dict[str, float] = field(default_factory=dict)
    engine: dict[str, float] = field(default_factory=dict)
    fingerprint: str | None = None
    note: str = ""
    after: dict[str, float] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether it ended with an error; a run stopped at the time limit has not failed."""
        return not self.ended and not self.note.startswith(TOO_LONG)

    @property
    def start_seconds(self) -> float:
        """Seconds before and after its work."""
        return self.seconds - (self.work_seconds or 0.0)


@dataclass
class Results:
    """All runs so far, saved after each."""

    path: Path
    machine: dict[str, Any] = field(default_factory=dict)
    runs: list[CompetitorRun] = field(default_factory=list)
    control: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Results:
        """Load the results in ``path``; empty when the file does not exist.

        Raises:
            ValueError: another version of the benchmark wrote it.
        """
        if not path.is_file():
            return cls(path)
        document = json.loads(path.read_text())
        if document.get("format_version") != FORMAT_VERSION:
            raise ValueError(
                f"{path} has format {document.get('format_version')}, and this benchmark reads {FORMAT_VERSION}. "
                "Nothing was changed. Name another file with --json."
            )
        runs = [CompetitorRun(**run) for run in document["runs"]]
        return cls(path, document["machine"], runs, document["control"])

    def save(self) -> None:
        """Write all results atomically."""
        document = {
            "format_version": FORMAT_VERSION,
            "machine": self.machine,
            "runs": [asdict(run) for run in self.runs],
            "control": self.control,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".draft")
        draft.write_text(json.dumps(document, indent=1) + "\n")
        draft.replace(self.path)

    def add(self, run: CompetitorRun) -> None:
        """Add one run."""
        self.runs.append(run)
        self.save()

    def of(self, size: str, workload: str, competitor: str) -> list[CompetitorRun]:
        """Return the runs that finished."""
        return [
            run
            for run in self.runs
            if (run.size, run.workload, run.competitor) == (size, workload, competitor) and run.ended
        ]

    def median(
        self, size: str, workload: str, competitor: str, figure: Callable[[CompetitorRun], float | None]
    ) -> float | None:
        """Return the median of a figure; None when there is none."""
        values = [value for run in self.of(size, workload, competitor) if (value := figure(run)) is not None]
        return statistics.median(values) if values else None

    def typical(self, size: str, workload: str, competitor: str) -> CompetitorRun | None:
        """Return the run with the median work time, the lower one of two; None when there is none."""
        runs = sorted(self.of(size, workload, competitor), key=lambda run: run.work_seconds or run.seconds)
        return runs[(len(runs) - 1) // 2] if runs else None
