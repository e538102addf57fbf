"""Everything that can happen to a topic, in any order, and runs and deletions of records that are taken back amid it.

After each undo readers see what the oracle says: the log as if what was taken back had never been, and all else had.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

from oracle.log_model import LogModel
from oracle.undone_changes import LogEvent, PartitionHistory, make_log_start_raise, make_state_setter
from tests.integration.test_state_machine import HOUR_MS, PARTITIONS, LogMachine
from tests.support.examples import choose_examples
from tests.support.world import TOPIC
from winnow.errors import UndoRefusedError
from winnow.log.state import read_receipt
from winnow.pipeline.admin.delete_records import delete_records
from winnow.pipeline.topics.partitions import resume_partitions
from winnow.pipeline.undo.listing import list_undoable
from winnow.pipeline.undo.undo import undo_change
from winnow.values.results import Receipt

_partition = st.integers(0, PARTITIONS - 1)
_hours = st.integers(-2, 30)
_rows = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.sampled_from([b"a", b"b", b"ab", None]),
        st.none() | st.sampled_from([b"", b"x", b"y" * 200]),
        st.none() | st.integers(-HOUR_MS, 5 * HOUR_MS),
        st.none() | st.just((("v", bytes(8)),)),
    ),
    min_size=1,
    max_size=6,
)


@dataclass
class Change:
    """Something that an undo can name. ``swept``: a sweep came after it, and may have taken what it replaced."""

    name: str
    partitions: frozenset[int]
    swept: bool = False


class UndoMachine(LogMachine):
    """The machine of all that happens to a topic, with a history for each partition."""

    def __init__(self) -> None:
        super().__init__()
        self.histories = [PartitionHistory() for _ in range(PARTITIONS)]
        self.changes: list[Change] = []

    # ------------------------------------------------------------------ what happens, and is noted

    @initialize(
        policy=st.sampled_from(["compact", "compact,delete", "delete"]),
        strategy=st.sampled_from(["offset", "timestamp", "header"]),
        retention=st.sampled_from(["-1", str(8 * HOUR_MS)]),
        patience=st.sampled_from(["0", str(3 * HOUR_MS)]),
    )
    def create(self, policy: str, strategy: str, retention: str, patience: str) -> None:
        """Whatever was appended is due at the next run."""
        config = {
            "cleanup.policy": policy,
            "compaction.strategy": strategy,
            "retention.ms": retention,
            "delete.retention.ms": patience,
            "winnow.late.arrival.ms": patience,
            "min.cleanable.dirty.ratio": "0",
            "winnow.retired.grace.ms": str(HOUR_MS),
        }
        super().create(config)

    @rule(
        changes=st.fixed_dictionaries(
            {},
            optional={
                "cleanup.policy": st.sampled_from(["compact", "compact,delete", "delete"]),
                "compaction.strategy": st.sampled_from(["offset", "timestamp", "header"]),
                "retention.ms": st.sampled_from(["-1", str(HOUR_MS)]),
            },
        )
    )
    def configure(self, changes: dict[str, str]) -> None:
        super().configure(changes)

    @rule(
        partition=_partition,
        rows=_rows,
        hours=st.sampled_from([0, 0, -5, 5]),
    )
    def append(
        self, partition: int, rows: list[tuple[int, bytes | None, bytes | None, int | None, object]], hours: int
    ) -> None:
        super().append(partition, rows, hours)
        model = self.models[partition]
        file, start, end = model.files[-1], model.log_start_offset, model.log_end_offset
        was_empty = self.appended[partition][-1][2] == 0

        def apply(other: LogModel) -> None:
            if was_empty:
                other.log_start_offset = start
            other.files.append(file)
            other.log_end_offset = end

        self.histories[partition].add(LogEvent(self.appended[partition][-1][0], apply))

    @rule(partition=_partition)
    def undo(self, partition: int) -> None:
        before = list(self.appended[partition])
        super().undo(partition)
        if len(self.appended[partition]) == len(before):
            return
        history, end = self.histories[partition], self.models[partition].log_end_offset
        for event in history.events:
            event.is_undone = event.is_undone or event.name == before[-1][0]

        def apply(other: LogModel) -> None:
            other.log_end_offset = end

        history.add(LogEvent(None, apply))

    @rule(hours=_hours)
    def compact(self, hours: int) -> None:
        self._note_run(lambda: super(UndoMachine, self).compact(hours))

    @rule(hours=_hours)
    def crash_before_the_checkpoint(self, hours: int) -> None:
        self._note_run(lambda: super(UndoMachine, self).crash_before_the_checkpoint(hours))

    @rule(partition=_partition, offset=st.integers(0, 20))
    def import_a_checkpoint(self, partition: int, offset: int) -> None:
        model = self.models[partition]
        before = (model.first_dirty_offset, model.history)
        super().import_a_checkpoint(partition, offset)
        if (model.first_dirty_offset, model.history) == before:
            return  # over a cleaning it is not taken, and is not taken later either
        self.histories[partition].add(LogEvent(None, lambda other: other.import_checkpoint(offset)))

    @precondition(lambda self: "delete" in self.config["cleanup.policy"])
    @rule(partition=_partition, back=st.integers(0, 6))
    def delete_oldest(self, partition: int, back: int) -> None:
        offset = max(0, self.models[partition].log_end_offset - back)
        (deleted,) = delete_records(self.world.installation, TOPIC, {partition: offset})
        self.models[partition].delete_records_before(offset)
        self.untouched[partition] = False
        assert (deleted.change_id is None) == (deleted.previous_log_start_offset == deleted.log_start_offset)
        if deleted.change_id is None:
            return
        event = LogEvent(deleted.change_id, lambda model: model.delete_records_before(offset))
        self.histories[partition].add(event)
        self.changes.append(Change(deleted.change_id, frozenset({partition})))

    @rule()
    def resume(self) -> None:
        resume_partitions(self.world.installation, TOPIC, by="ann", everybody=True)
        for model in self.models:
            model.paused = False

    @rule()
    def sweep(self) -> None:
        super().sweep()
        for change in self.changes:
            change.swept = True

    def _note_run(self, run: Callable[[], None]) -> None:
        aside = [set(each) for each in self.aside]
        before = len(self.world.head().state.receipts)
        run()
        head = self.world.head()
        if len(head.state.receipts) == before:
            return
        receipt = read_receipt(head.state, head.state.receipts[-1])
        # Files get the shape of the real ones, which the oracle does not choose.
        self._mirror(head)
        for part in receipt.partitions:
            model, number = self.models[part.partition], part.partition
            retains = part.reason == "retention" and not part.records_in and not self._has_cleaned(receipt, number)
            apply = make_log_start_raise(model.log_start_offset) if retains else make_state_setter(model)
            gone = frozenset(self.aside[number] - aside[number])
            self.histories[number].add(LogEvent(receipt.plan_id, apply, compacts=not retains, keyless=gone))
        self.changes.append(Change(str(receipt.plan_id), frozenset(part.partition for part in receipt.partitions)))

    def _has_cleaned(self, receipt: Receipt, partition: int) -> bool:
        part = next(each for each in receipt.partitions if each.partition == partition)
        return part.next_first_dirty_offset > part.first_dirty_offset

    # ------------------------------------------------------------------ what is taken back

    @rule(
        partition=_partition,
        batches=st.lists(_rows, min_size=1, max_size=3),
        back=st.integers(0, 2),
        only=st.none() | _partition,
        takes_later=st.booleans(),
    )
    def run_and_take_back(
        self,
        partition: int,
        batches: list[list[tuple[int, bytes | None, bytes | None, int | None, object]]],
        back: int,
        only: int | None,
        takes_later: bool,
    ) -> None:
        """Several runs, one over the result of the other, of which one is taken back."""
        for rows in batches:
            self.append(partition, rows, 0)
            self.compact(5)
            self.everything_holds()
        if self.changes:
            self.take_back(min(back, len(batches) - 1), only, takes_later)

    @precondition(lambda self: self.changes)
    @rule(back=st.integers(0, 4), only=st.none() | _partition, takes_later=st.booleans())
    def take_back(self, back: int, only: int | None, takes_later: bool) -> None:
        """A run or a deletion is taken back, in one partition or all, perhaps with what was made over its result."""
        change = self.changes[max(0, len(self.changes) - 1 - back)]
        wanted = change.partitions if only is None else change.partitions & {only}
        if not wanted:
            return
        before = self.world.read()
        listed = {each.change_id: each for each in list_undoable(self.world.installation, TOPIC).changes}
        try:
            report = undo_change(self.world.installation, TOPIC, change.name, sorted(wanted), takes_later=takes_later)
        except UndoRefusedError:
            assert self.world.read() == before
            assert self._may_be_refused(change, wanted, takes_later=takes_later)
            return
        if only is None and report.partitions:
            assert listed[change.name].undoable
            assert takes_later or not listed[change.name].needs_later
        assert report.was_undone == (not report.partitions)
        for part in report.partitions:
            self._take_back_in_oracle(part.partition, change.name, set(part.undone))
        done = {part.partition for part in report.partitions}
        assert all(not self.histories[number].list_standing(change.name) for number in wanted - done)

    def _take_back_in_oracle(self, number: int, name: str, names: set[str]) -> None:
        history = self.histories[number]
        standing = history.list_standing(name)
        assert name in names
        assert {each.name for each in standing[1:] if each.compacts} <= names
        self.aside[number] -= {offset for each in standing if each.name in names for offset in each.keyless}
        present = self.models[number]
        model = history.undo(names)
        assert self.world.read(number) == model.read()
        model.paused, model.uncleanable = True, present.uncleanable
        self.models[number] = model
        self.untouched[number] = False

    def _may_be_refused(self, change: Change, wanted: frozenset[int], *, takes_later: bool) -> bool:
        standing = [each for number in wanted for each in self.histories[number].list_standing(change.name)]
        later = {each.name for each in standing} - {change.name}
        involved = [each for each in self.changes if each.name in {change.name, *later}]
        parted = any(each.keyless for history in self.histories for each in history.events if not each.is_undone)
        appended_again = any(each.is_undone for number in wanted for each in self.histories[number].events)
        return (
            any(each.swept for each in involved)
            or (not takes_later and bool(later))
            or (parted and wanted != frozenset(range(PARTITIONS)))
            or appended_again
        )


def test_anything_taken_back_in_any_order_leaves_the_log_as_if_it_had_never_been() -> None:
    """Runs, retention, deletions of records; with appends, imports, pauses, sweeps, crashes before and after."""
    run_state_machine_as_test(
        UndoMachine, settings=settings(max_examples=choose_examples(quick=15), stateful_step_count=14)
    )
