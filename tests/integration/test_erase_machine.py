"""Everything that can happen to a topic, in any order, and keys that are erased amid it.

After each step readers see what the oracle says of a log without those keys, also in the table of the latest state, and
none of their old copies comes back.
"""

from __future__ import annotations

import operator
from dataclasses import replace

import pyarrow.parquet as pq
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule, run_state_machine_as_test

from oracle.latest_state import compute_latest_state
from oracle.log_model import LogModel
from tests.integration.test_latest import to_records
from tests.integration.test_state_machine import HOUR_MS, PARTITIONS, LogMachine
from tests.support.erasing import read_contents
from tests.support.examples import choose_examples
from tests.support.world import TOPIC, write_jsonl
from winnow.files import storage
from winnow.pipeline.erase.certificate import make_certificate
from winnow.pipeline.erase.complete import erase_keys
from winnow.pipeline.erase.erase import EraseRequest
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.latest.table import update_latest_table
from winnow.values.model import Record
from winnow.values.strategies import Strategy

_MARKERS = (b"key-ab", b"key-\xff\x00")
_ROWS = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.sampled_from([b"", b"a", *_MARKERS, None]),
        st.none() | st.sampled_from([b"", b"x", b"y" * 200]),
        st.none() | st.integers(-HOUR_MS, 5 * HOUR_MS),
        st.none() | st.just((("v", bytes(8)),)),
    ),
    min_size=1,
    max_size=6,
)


_BY_PLACE = operator.attrgetter("partition", "offset")
_partition = st.integers(0, PARTITIONS - 1)
Row = tuple[int, bytes | None, bytes | None, int | None, object]


class EraseMachine(LogMachine):
    """The machine of all that happens to a topic, with keys that are erased.

    ``erased``: when, by key; ``ends``: the log end of each partition then, or the lowest since;
    ``highest``: the highest log end at any erasure.
    """

    def __init__(self) -> None:
        super().__init__()
        self.erased: dict[bytes, int] = {}
        self.ends: dict[bytes | None, list[int]] = {}
        self.highest = [0] * PARTITIONS

    @initialize(
        policy=st.sampled_from(["compact", "compact,delete", "delete"]),
        strategy=st.sampled_from(["offset", "timestamp", "header"]),
        retention=st.sampled_from(["-1", str(8 * HOUR_MS)]),
        patience=st.sampled_from(["0", str(3 * HOUR_MS)]),
        update=st.sampled_from(["", "publish", "ingest"]),
        rows=_ROWS,
    )
    def create(self, policy: str, strategy: str, retention: str, patience: str, update: str, rows: list[Row]) -> None:
        """Whatever was appended is due at the next run; something was."""
        super().create(
            {
                "cleanup.policy": policy,
                "compaction.strategy": strategy,
                "retention.ms": retention,
                "delete.retention.ms": patience,
                "winnow.late.arrival.ms": patience,
                "min.cleanable.dirty.ratio": "0",
                "winnow.retired.grace.ms": str(HOUR_MS),
                **({"winnow.latest.table": "true", "winnow.latest.update": update} if update else {}),
            }
        )
        self.append(0, rows, 0)

    @rule(partition=_partition, rows=_ROWS, hours=st.sampled_from([0, 0, -5, 5]))
    def append(self, partition: int, rows: list[Row], hours: int) -> None:
        """What is old of an erased key is left out; everything else is appended."""
        fresh = [self._date(partition, row) for row in rows if not self._is_old_copy(row[1], row[3])]
        if fresh:
            super().append(partition, fresh, hours)
        old = [row for row in rows if self._is_old_copy(row[1], row[3])]
        end = self.models[partition].log_end_offset
        records = [
            Record(end + number, self._get_key(key), value, self.clock() - (age or 0), headers, partition=partition)  # type: ignore[arg-type]
            for number, (_, key, value, age, headers) in enumerate(old)
        ]
        self._bring_again(records)

    @rule(partition=_partition)
    def bring_all_again(self, partition: int) -> None:
        """Whatever of an erased key was ever written comes again, and is left out."""
        ends = {key: found[partition] for key, found in self.ends.items()}
        written = self.written[partition].values()
        self._bring_again([each for each in written if each.offset < ends.get(each.key, 0)])

    @rule(choice=st.integers(0, 3), with_tombstone=st.booleans())
    def erase(self, choice: int, with_tombstone: bool) -> None:
        """One of the keys that are in the log, or one that is not."""
        present = sorted(
            {each.key for model in self.models for file in model.files for each in file.records if each.key}
        )
        keys = {present[choice % len(present)]} if present else {b"nobody"}
        report = erase_keys(
            self.world.installation, EraseRequest(TOPIC, sorted(keys), "request", with_tombstone=with_tombstone)
        )
        assert report.deleted
        certificate = make_certificate(self.world.installation, report.erasure_id, verify=True)
        assert certificate.verified is not None
        assert certificate.verified.old_records == 0
        self.erased |= dict.fromkeys(keys, self.clock())
        for number, model in enumerate(self.models):
            self.highest[number] = max(self.highest[number], model.log_end_offset)
        self.ends |= {key: [model.log_end_offset for model in self.models] for key in keys}
        for model in self.models:
            _drop(model, keys, with_tombstone=with_tombstone)
        for number, model in enumerate(self.models):
            # What is a tombstone now has never been anything else.
            self.written[number] |= {each.offset: each for file in model.files for each in file.records}
        if not report.was_erased:
            self.untouched = [False] * PARTITIONS
        kept = report.tombstones > 0
        assert kept or not [
            path
            for path in (self.world.folder / "home" / "warehouse").rglob("*.parquet")
            if any(marker in data for data in read_contents(path) for marker in keys.intersection(_MARKERS))
        ]

    @rule(partition=_partition)
    def undo(self, partition: int) -> None:
        """Where the log ends lower, offsets are given away again, and do not tell an old copy any more."""
        super().undo(partition)
        for ends in self.ends.values():
            ends[partition] = min(ends[partition], self.models[partition].log_end_offset)

    @precondition(lambda self: "winnow.latest.table" in self.config)
    @rule()
    def update_table(self) -> None:
        """The table of the latest state shows the log as it is."""
        update_latest_table(self.world.installation, TOPIC)

    @invariant()
    def the_table_has_the_newest_version_of_each_key(self) -> None:
        """Wherever it shows the newest snapshot of the log: one row of each key that is not deleted."""
        table = self.world.installation.log.latest_table(TOPIC)
        head = table.load() if "winnow.latest.table" in self.config else None
        if head is None or head.reflected is None or head.reflected.snapshot_id != self.world.head().snapshot_id:
            return
        files = [file for files in table.segments(head).values() for file in files]
        batches = [batch for file in files for batch in pq.read_table(storage.parse_local_path(file.path)).to_batches()]
        strategy = Strategy(self.config["compaction.strategy"])
        latest = compute_latest_state((each for model in self.models for each in model.read()), strategy, "v")
        assert sorted(to_records(batches), key=_BY_PLACE) == sorted(latest.values(), key=_BY_PLACE)

    def _date(self, partition: int, row: Row) -> Row:
        """Return ``row`` with a time where its offset alone would not tell that it is new."""
        gap, key, value, age_ms, headers = row
        untold = self._get_key(key) in self.ends and self.models[partition].log_end_offset < self.highest[partition]
        return (gap, key, value, -1, headers) if age_ms is None and untold else row

    def _get_key(self, key: bytes | None) -> bytes | None:
        return b"a" if key is None and "compact" in self.config["cleanup.policy"] else key

    def _is_old_copy(self, key: bytes | None, age_ms: int | None) -> bool:
        at_ms = self.erased.get(self._get_key(key) or b"") if self._get_key(key) is not None else None
        return at_ms is not None and age_ms is not None and self.clock() - age_ms <= at_ms

    def _bring_again(self, records: list[Record]) -> None:
        if not records:
            return
        path = write_jsonl(self.world.path(), records)
        report = ingest_files(self.world.installation, TOPIC, [path], as_of_ms=self.clock())
        assert (report.records_appended, report.records_erased) == (0, len(records))


def _drop(model: LogModel, keys: set[bytes], *, with_tombstone: bool) -> None:
    """Take the records of ``keys`` out of a log; what is left of a file keeps its place.

    A tombstone takes the place of the newest one that readers see, and is dirty, so that it waits its whole time.
    """
    newest: dict[bytes, int] = {}
    for each in (record for file in model.files for record in file.records):
        if each.key in keys and each.key is not None:
            newest[each.key] = each.offset
    stays = {offset for offset in newest.values() if offset >= model.log_start_offset} if with_tombstone else set()

    def change(record: Record) -> Record:
        return replace(record, value=None, headers=()) if record.offset in stays else record

    files = [
        replace(
            file, records=tuple(change(each) for each in file.records if each.key not in keys or each.offset in stays)
        )
        for file in model.files
    ]
    model.files = [file for file in files if file.records]
    if stays and model.first_dirty_offset is not None and model.first_dirty_offset > min(stays):
        model.first_dirty_offset = min(stays)
        history = tuple(entry for entry in model.history if entry.end_offset <= min(stays))
        model.cleaned_with = model.cleaned_with if history == model.history else None
        model.history = history


def test_erased_keys_stay_away_whatever_happens() -> None:
    """Append, late copies, undo of ingests, runs, imports, deletions, sweeps, configuration."""
    run_state_machine_as_test(
        EraseMachine, settings=settings(max_examples=choose_examples(quick=8), stateful_step_count=12)
    )
