"""Repeats ingest, compaction, failure and sweep on one topic and compares what is left behind.

Every sixth round is the same, so two rounds that are a multiple of six apart are comparable to the file.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest
import time_machine
from pyiceberg.serializers import ToOutputFile
from sqlalchemy import func, select

from tests.support.world import TOPIC, FakeClock, World, open_world, record, run_between_head_and_commit
from winnow.clock import read_wall_clock_ms
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.compaction.open_runs import settle_open_runs
from winnow.pipeline.compaction.validate import validate_attempt
from winnow.pipeline.topics.leases import hold_lease
from winnow.store import RunState, tables
from winnow.values.model import Record
from winnow.values.results import Verdict

PERIOD: Final = 6
"""Rounds after which everything happens again."""
ROUND_MS: Final = 7_200_000
GRACE_MS: Final = 3_600_000
RETENTION_MS: Final = 3 * ROUND_MS + ROUND_MS // 2
_KEYS: Final = 7
_PER_INGEST: Final = 10

KEPT_METADATA: Final = 21
"""The newest metadata of a table, and its property ``write.metadata.previous-versions-max``."""
MUST_GROW: Final[Mapping[str, tuple[int, str]]] = {
    # Kind of file or table: at most that many more a period, and why.
    "log: receipts": (3, "one per published plan: the table's own history"),
    "log: ingests": (6, "one ledger per ingest: no file lands twice"),
    "log: chains": (2, "which receipts and ledgers there are"),
    "copies: receipts": (3, "a copy of each receipt"),
    "copies: ingests": (6, "a copy of each ledger"),
    "log: orphaned by killed commits": (8, "a commit that dies halfway leaves metadata, state, receipt, copies"),
    "quarantine: data": (2, "keyless records: data"),
    "quarantine: metadata": (2, "one manifest per quarantined file"),
    "winnow_receipt": (3, "projection of the receipts"),
    "winnow_receipt_figures": (3, "their figures as columns"),
}


class Killed(BaseException):
    """A process that dies; nothing handles it."""


@dataclass(frozen=True, slots=True)
class Growth:
    """One kind of thing at two rounds. ``allowed``: by how much it may grow between them."""

    kind: str
    earlier: int
    later: int
    allowed: int
    why: str

    @property
    def is_too_much(self) -> bool:
        return self.later - self.earlier > self.allowed


class _MovedClock(FakeClock):
    """The wall clock, which the rounds move."""

    def __call__(self) -> int:
        return read_wall_clock_ms()


class Soak:
    """One topic that lives through rounds. ``judged``: one run of each period is judged by Great Expectations."""

    def __init__(self, world: World, *, judged: bool) -> None:
        self._world = world
        self._judged = judged
        self._offset = 0
        self._orphans: Counter[str] = Counter()
        self.round = 0
        world.create(
            1,
            min_cleanable_dirty_ratio="0",
            delete_retention_ms=str(GRACE_MS),
            winnow_keyless="quarantine",
            winnow_retired_grace_ms=str(GRACE_MS),
        )

    def go_on(self) -> None:
        """One more round, and the sweep at its end."""
        phase = self.round % PERIOD
        self._ingest(phase)
        if phase == 1:
            self._attempt_that_dies()
        elif phase == 2:
            self._attempt_that_is_invalid()
        elif phase == 4:
            self._commit_that_dies()
        else:
            self._compact(judged=self._judged and phase == 5)
        sweep_topics(self._world.installation, [TOPIC])
        self.round += 1

    def look(self) -> Counter[str]:
        """Files by kind, and rows by table."""
        found: Counter[str] = Counter()
        home = self._world.installation.settings.home
        for folder, folders, files in os.walk(home):
            place = Path(folder).relative_to(home).parts
            found["empty folders"] += not folders and not files
            for name in files:
                found[classify_file(place, name)] += 1
        found.subtract(self._orphans)
        found["log: orphaned by killed commits"] = self._orphans.total()
        with self._world.installation.store._database.reading() as session:
            for table in tables.Base.metadata.sorted_tables:
                found[table.name] = session.scalar(select(func.count()).select_from(table)) or 0
        found["snapshots of the log"] = len(self._world.snapshot_ids())
        side = self._world.installation.log.quarantine(TOPIC).table()
        found["snapshots of the quarantine"] = 0 if side is None else len(side.metadata.snapshots)
        return found

    def _ingest(self, phase: int) -> None:
        records = self._records(phase)
        if phase == 3:
            with run_between_head_and_commit(_die), pytest.raises(Killed):
                self._world.ingest(records)
        self._world.ingest(records)

    def _records(self, phase: int) -> list[Record]:
        first, self._offset = self._offset, self._offset + _PER_INGEST
        found = [
            record(n, f"key-{n % _KEYS}".encode(), None if n % 9 == 0 else f"value-{n}".encode())
            for n in range(first, self._offset)
        ]
        if phase in {0, 3}:
            found[3] = record(first + 3, None, b"keyless")
        return found

    def _compact(self, *, judged: bool) -> None:
        world = self._world
        if not judged:
            assert world.compact(attempt=f"a{self.round}") is not None
            return
        from winnow.pipeline.compaction.publish import publish_attempt

        plan_id, attempt = self._stage()
        validate_attempt(world.installation, plan_id, attempt)
        publish_attempt(world.installation, plan_id, attempt)

    def _stage(self) -> tuple[str, str]:
        world, attempt = self._world, f"a{self.round}"
        with hold_lease(world.installation, TOPIC):
            settle_open_runs(world.installation, TOPIC)
            plan = world.plan(world.clock(), attempt)
            assert plan is not None
            world.stage(plan, attempt)
        return plan.plan_id, attempt

    def _attempt_that_dies(self) -> None:
        self._stage()

    def _attempt_that_is_invalid(self) -> None:
        plan_id, attempt = self._stage()
        store, now_ms = self._world.installation.store, self._world.clock()
        store.verdicts.record(Verdict(plan_id, TOPIC, attempt, False, False, (), now_ms))
        store.runs.set_state(plan_id, RunState.INVALID, now_ms, attempt=attempt)

    def _commit_that_dies(self) -> None:
        """Manifests, manifest list and metadata are there, and the catalog has not heard of them."""
        before = self._files()

        def die(*rest: Any, **named: Any) -> NoReturn:
            genuine(*rest, **named)
            raise Killed

        genuine = ToOutputFile.table_metadata
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ToOutputFile, "table_metadata", die)
            with pytest.raises(Killed):
                self._world.compact(attempt=f"a{self.round}")
        self._orphans += self._files() - before

    def _files(self) -> Counter[str]:
        """Files of the log's table by kind, data apart, and copies of its documents."""
        found: Counter[str] = Counter()
        folder = self._world.log_folder()
        for namespace in ("winnow", "winnow_copies"):
            for name in self._world.listing(below=folder.replace("winnow", namespace, 1)):
                *below, last = Path(name).parts
                found[classify_file(("warehouse", namespace, TOPIC, *below), last)] += 1
        del found["log: data"]
        return found


@contextmanager
def open_soak(folder: Path, *, judged: bool = True) -> Iterator[Soak]:
    """A soak in ``folder``, which has to be empty, with a short history retention."""
    lake = {"WINNOW_HISTORY__RETENTION_MS": str(RETENTION_MS)}
    with open_world(folder, _MovedClock(), lake) as world:
        yield Soak(world, judged=judged)


def soak(folder: Path, rounds: int, *, judged: bool = True) -> list[Growth]:
    """Go through ``rounds`` and compare the last one with the one in the middle; time moves, nothing waits.

    Args:
        folder: an empty one.
        rounds: at least two periods; the middle is a whole number of periods before the end.
        judged: whether Great Expectations judges some of the runs, which takes some seconds to begin with.
    """
    periods = rounds // PERIOD // 2
    if periods < 1:
        raise ValueError(f"{rounds} rounds are too few: at least {2 * PERIOD} show something.")
    middle = rounds - periods * PERIOD
    start = datetime.now(tz=UTC).timestamp()
    seen: dict[int, Counter[str]] = {}
    with open_soak(folder, judged=judged) as going:
        for number in range(1, rounds + 1):
            with time_machine.travel(start + number * ROUND_MS / 1_000):
                going.go_on()
            if number in {middle, rounds}:
                seen[number] = going.look()
    return _growth(seen[middle], seen[rounds], periods)


def _growth(earlier: Mapping[str, int], later: Mapping[str, int], periods: int) -> list[Growth]:
    found = []
    for kind in sorted({*earlier, *later}):
        most, why = MUST_GROW.get(kind, (0, ""))
        allowed = most * periods
        if kind == "quarantine: metadata.json":
            allowed, why = max(0, KEPT_METADATA - earlier.get(kind, 0)), f"never more than {KEPT_METADATA}"
        found.append(Growth(kind, earlier.get(kind, 0), later.get(kind, 0), allowed, why))
    return found


def classify_file(place: tuple[str, ...], name: str) -> str:
    """Say of which kind the file ``name`` in the folder ``place`` below a home is."""
    match place:
        case ("warehouse", "winnow", _, "_winnow", part, *_):
            return f"log: {part}"
        case ("warehouse", "winnow_copies", _, "_winnow", part, *_):
            return f"copies: {part}"
        case ("warehouse", "winnow_quarantine", _, part, *_):
            return f"quarantine: {'metadata.json' if name.endswith('.metadata.json') else part}"
        case ("warehouse", "winnow", _, part, *_):
            return f"log: {part}"
        case ("data_docs", "results", *_):
            return "data docs: results"
        case ("data_docs", "site", "validations", *_):
            return "data docs: pages"
        case ():
            return "home"
        case (part, *_):
            return part.replace("_", " ")
    raise AssertionError(place)


def _die() -> NoReturn:
    raise Killed
