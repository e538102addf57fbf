"""Everything that can happen to a topic, in any order, through the real log and through the oracle.

After each step readers see the oracle's records, every partition is assessed as the oracle says, and the guarantees
that need no oracle hold: records never change or come back, offsets are for ever, keys are unique in the clean section.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from oracle import surviving_records
from oracle.log_model import LogModel
from oracle.model_values import NO_MAX_LAG_MS, ModelConfig
from tests.support.examples import choose_examples
from tests.support.world import TOPIC, FakeClock, World, list_visible_rows, open_world, write_jsonl
from winnow.errors import UndoRefusedError
from winnow.log.head import Head
from winnow.pipeline.admin.checkpoints import import_checkpoints
from winnow.pipeline.admin.delete_records import delete_records
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.compaction.assess import assess_view
from winnow.pipeline.compaction.open_runs import settle_open_runs
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.ingest.history import list_ingests
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.ingest.undo import undo_ingest
from winnow.pipeline.topics.definition import alter_topic
from winnow.pipeline.topics.leases import hold_lease
from winnow.pipeline.topics.marks import mark_uncleanable
from winnow.pipeline.topics.partitions import pause_partitions, resume_partitions
from winnow.pipeline.topics.topic_view import load_topic_view
from winnow.sources.checkpoint_file import read_checkpoint_file
from winnow.store import RunState
from winnow.store.projection import Projection
from winnow.values.model import Record
from winnow.values.strategies import Strategy
from winnow.values.topic_state import Cleaning

HOUR_MS = 3_600_000
LATER_MS = 4_102_444_800_000
"""The year 2100: after the real time that snapshots carry, so that sweep has something to expire."""
PARTITIONS = 2

_keys = st.sampled_from([b"", b"a", b"b", b"ab", b"\xff\x00", None])
_values = st.none() | st.sampled_from([b"", b"null", b"x", b"y" * 200])
_versions = st.sampled_from([-1, 0, 1, 2, 3, 2**63 - 1, -(2**63)])
_headers = st.one_of(
    st.none(),
    st.just(()),
    st.just((("v", None),)),
    st.just((("v", b"\x00\x01"), ("V", bytes(8)))),
    _versions.map(lambda number: (("v", number.to_bytes(8, "big", signed=True)),)),
    _versions.map(lambda number: (("v", bytes(8)), ("v", number.to_bytes(8, "big", signed=True)))),
)
_rows = st.lists(
    st.tuples(st.integers(1, 3), _keys, _values, st.none() | st.integers(-HOUR_MS, 5 * HOUR_MS), _headers),
    min_size=1,
    max_size=8,
)
_partition = st.integers(0, PARTITIONS - 1)
_settings = st.fixed_dictionaries(
    {},
    optional={
        "cleanup.policy": st.sampled_from(["compact", "compact", "compact,delete", "delete", ""]),
        "compaction.strategy": st.sampled_from(["offset", "timestamp", "header"]),
        "min.cleanable.dirty.ratio": st.sampled_from(["0", "0.3", "0.5", "1"]),
        "min.compaction.lag.ms": st.sampled_from(["0", str(HOUR_MS)]),
        "max.compaction.lag.ms": st.sampled_from([str(2 * HOUR_MS), str(NO_MAX_LAG_MS)]),
        "delete.retention.ms": st.sampled_from(["0", str(3 * HOUR_MS)]),
        "winnow.late.arrival.ms": st.sampled_from(["0", str(2 * HOUR_MS), str(6 * HOUR_MS)]),
        "segment.ms": st.sampled_from(["1", str(4 * HOUR_MS)]),
        "segment.bytes": st.sampled_from(["14", "3000", str(1 << 30)]),
        "retention.ms": st.sampled_from(["-1", str(HOUR_MS), str(8 * HOUR_MS)]),
        "retention.bytes": st.sampled_from(["-1", "3000", "9000"]),
        "winnow.retention.protect.latest": st.sampled_from(["false", "true"]),
        "winnow.retired.grace.ms": st.sampled_from(["0", str(HOUR_MS)]),
    },
)
_DEFAULTS = {"cleanup.policy": "compact", "compaction.strategy.header": "v", "segment.ms": "1", "segment.bytes": "3000"}


def model_config(config: dict[str, str]) -> ModelConfig:
    """The oracle's view of a topic configuration."""
    policy = config.get("cleanup.policy", "compact").split(",")
    whole = {
        name: int(config[key])
        for name, key in (
            ("min_compaction_lag_ms", "min.compaction.lag.ms"),
            ("max_compaction_lag_ms", "max.compaction.lag.ms"),
            ("segment_bytes", "segment.bytes"),
            ("segment_ms", "segment.ms"),
            ("delete_retention_ms", "delete.retention.ms"),
            ("late_arrival_ms", "winnow.late.arrival.ms"),
            ("retention_ms", "retention.ms"),
            ("retention_bytes", "retention.bytes"),
        )
        if key in config
    }
    return replace(
        ModelConfig(
            compacts="compact" in policy,
            deletes="delete" in policy,
            strategy=Strategy(config.get("compaction.strategy", "offset")),
            header="v",
            min_cleanable_dirty_ratio=float(config.get("min.cleanable.dirty.ratio", "0.5")),
            protects_latest=config.get("winnow.retention.protect.latest") == "true",
        ),
        **whole,  # type: ignore[arg-type]
    )


def _world(stack: ExitStack, clock: FakeClock) -> World:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    return stack.enter_context(open_world(folder, clock))


class CrashError(Exception):
    """The process died here."""


class LogMachine(RuleBasedStateMachine):
    """One topic of two partitions, its oracle, and everything ever written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.clock = FakeClock(LATER_MS)
        self.world = _world(self.stack, self.clock)
        self.seen: list[list[Record]] = [[] for _ in range(PARTITIONS)]
        self.models = [LogModel() for _ in range(PARTITIONS)]
        self.written: list[dict[int, Record]] = [{} for _ in range(PARTITIONS)]
        self.appended: list[list[tuple[str | None, int, int, int]]] = [[] for _ in range(PARTITIONS)]
        self.untouched = [False] * PARTITIONS
        self.aside: list[set[int]] = [set() for _ in range(PARTITIONS)]
        self.backs_off_until_ms: dict[int, int] = {}
        self.attempts: dict[int, int] = {}
        self.config: dict[str, str] = {}

    def teardown(self) -> None:
        self.stack.close()

    @initialize(config=_settings)
    def create(self, config: dict[str, str]) -> None:
        self.config = {**_DEFAULTS, **config}
        self.world.create(PARTITIONS, **{name.replace(".", "_"): value for name, value in self.config.items()})

    # ------------------------------------------------------------------ what happens

    @rule(partition=_partition, rows=_rows, hours=st.sampled_from([0, 0, -5, 5]))
    def append(
        self, partition: int, rows: list[tuple[int, bytes | None, bytes | None, int | None, object]], hours: int
    ) -> None:
        as_of_ms = self.clock() + hours * HOUR_MS
        model = self.models[partition]
        offset = model.log_end_offset - 1
        records = []
        for gap, key, value, age_ms, headers in rows:
            offset += gap
            keyed = b"a" if key is None and "compact" in self.config["cleanup.policy"] else key
            timestamp_ms = None if age_ms is None else self.clock() - age_ms
            records.append(Record(offset, keyed, value, timestamp_ms, headers, partition=partition))  # type: ignore[arg-type]
        path = write_jsonl(self.world.path(), records)
        before = (model.log_end_offset, model.log_start_offset)
        for times in (1, 2):
            report = ingest_files(self.world.installation, TOPIC, [path], as_of_ms=as_of_ms)
            assert report.records_appended == (len(records) if times == 1 else 0)
            if times == 1:
                self.appended[partition].append((report.ingest_id, records[0].offset, *before))
                self.untouched[partition] = True
        if not model.files and model.log_end_offset == 0:
            model.log_start_offset = records[0].offset
        size_bytes = self.world.segments(partition)[-1].size_bytes
        model.append(records, as_of_ms, size_bytes=size_bytes, now_ms=self.clock())
        self.written[partition] |= {each.offset: each for each in records}

    @rule(partition=_partition)
    def undo(self, partition: int) -> None:
        """The newest append is taken back, unless a run, an import or a deletion has touched it."""
        if not self.appended[partition]:
            return
        ingest_id, first, log_end_offset, log_start_offset = self.appended[partition][-1]
        assert ingest_id is not None
        call = next(each for each in list_ingests(self.world.installation, TOPIC).calls if each.ingest_id == ingest_id)
        if not call.undoable:
            assert not self.untouched[partition]
            with pytest.raises(UndoRefusedError):
                undo_ingest(self.world.installation, TOPIC, ingest_id)
            return
        undo_ingest(self.world.installation, TOPIC, ingest_id)
        self.appended[partition].pop()
        self.untouched[partition] = False
        model = self.models[partition]
        model.files = [file for file in model.files if file.records[0].offset < first]
        model.log_end_offset = self.world.state(partition).log_end_offset
        assert log_end_offset <= model.log_end_offset <= first
        if log_end_offset == 0:
            model.log_start_offset = log_start_offset
        for offset in [each for each in self.written[partition] if each >= first]:
            del self.written[partition][offset]

    @rule(hours=st.integers(0, 30))
    def tick(self, hours: int) -> None:
        self.clock.now_ms += hours * HOUR_MS

    @rule(changes=_settings)
    def configure(self, changes: dict[str, str]) -> None:
        alter_topic(self.world.installation, TOPIC, changes, [])
        before, self.config = self.config, {**self.config, **changes}
        if before != self.config:
            self.backs_off_until_ms.clear()
            self.attempts.clear()

    @rule(hours=st.integers(-2, 30))
    def compact(self, hours: int) -> None:
        as_of_ms = self.clock() + hours * HOUR_MS
        outcomes = self._expect(as_of_ms)
        receipt = self.world.compact(as_of_ms)
        self.untouched = [each and receipt is None for each in self.untouched]
        assert (receipt is None) == (not outcomes)
        if receipt is not None:
            assert {part.partition for part in receipt.partitions} == outcomes.keys()
        for part in receipt.partitions if receipt is not None else ():
            outcome = outcomes[part.partition]
            below = part.next_first_dirty_offset
            assert (
                part.records_superseded,
                part.tombstones_expired,
                part.records_keyless,
                part.records_retired,
            ) == (
                len(outcome.superseded),
                len(outcome.tombstones_expired),
                len(outcome.keyless),
                len(outcome.retired),
            )
            assert part.records_in == (
                part.records_kept + part.records_superseded + part.tombstones_expired + part.records_keyless
            )
            retention_only = part.reason == "retention" and not part.records_in
            assert retention_only or part.records_kept == sum(each.offset < below for each in outcome.kept)

    @rule(hours=st.integers(-2, 30), partition=_partition)
    def fail_validation(self, hours: int, partition: int) -> None:
        """What was staged is judged bad: nothing is published, one partition is marked."""
        with hold_lease(self.world.installation, TOPIC):
            settle_open_runs(self.world.installation, TOPIC)
            plan = self.world.plan(self.clock() + hours * HOUR_MS)
            if plan is None:
                return
            self.world.stage(plan)
            mark = mark_uncleanable(self.world.installation, TOPIC, plan.plan_id, {partition: "does not add up"})[
                partition
            ]
            self.world.installation.store.runs.set_state(plan.plan_id, RunState.INVALID, self.clock(), attempt="a1")
        assert mark.next_attempt_ms is not None
        self.backs_off_until_ms[partition] = mark.next_attempt_ms

    @rule(hours=st.integers(-2, 30), staged=st.booleans())
    def crash_before_publishing(self, hours: int, staged: bool) -> None:
        """The process dies with a plan, or with staged files; nobody sees anything of it."""
        with hold_lease(self.world.installation, TOPIC):
            settle_open_runs(self.world.installation, TOPIC)
            plan = self.world.plan(self.clock() + hours * HOUR_MS)
            if plan is not None and staged:
                self.world.stage(plan)

    @rule(hours=st.integers(-2, 30))
    def crash_before_the_checkpoint(self, hours: int) -> None:
        """The commit lands and the process dies before the metadata store hears of it."""
        as_of_ms = self.clock() + hours * HOUR_MS
        with pytest.MonkeyPatch.context() as patch:

            def die(*_: object, **__: object) -> None:
                raise CrashError

            with hold_lease(self.world.installation, TOPIC):
                settle_open_runs(self.world.installation, TOPIC)
                plan = self.world.plan(as_of_ms)
                outcomes = self._expect(as_of_ms)
                assert (plan is None) == (not outcomes)
                if plan is None:
                    return
                self.untouched = [False] * PARTITIONS
                self.world.stage(plan)
                self.world.accept(plan)
                patch.setattr(Projection, "record_publication", die)
                with pytest.raises(CrashError):
                    publish_attempt(self.world.installation, plan.plan_id, "a1")

    @rule(partition=_partition, offset=st.integers(0, 20))
    def import_a_checkpoint(self, partition: int, offset: int) -> None:
        path = self.world.folder / "cleaner-offset-checkpoint"
        path.write_text(f"0\n1\n{TOPIC} {partition} {offset}\n")
        import_checkpoints(self.world.installation, TOPIC, read_checkpoint_file(str(path)))
        self.models[partition].import_checkpoint(offset)
        self.untouched[partition] = False

    @precondition(lambda self: "delete" in self.config["cleanup.policy"])
    @rule(partition=_partition, back=st.integers(0, 6))
    def delete_oldest(self, partition: int, back: int) -> None:
        offset = max(0, self.models[partition].log_end_offset - back)
        delete_records(self.world.installation, TOPIC, {partition: offset})
        self.models[partition].delete_records_before(offset)
        self.untouched[partition] = False

    @rule(partition=_partition)
    def pause(self, partition: int) -> None:
        pause_partitions(self.world.installation, TOPIC, [partition], by="ann")
        self.models[partition].paused = True

    @rule()
    def resume(self) -> None:
        resume_partitions(self.world.installation, TOPIC, by="ann")
        for model in self.models:
            model.paused = False

    @rule()
    def sweep(self) -> None:
        sweep_topics(self.world.installation, [TOPIC])

    def _expect(self, as_of_ms: int) -> dict[int, surviving_records.CleaningOutcome]:
        """Let the oracle run, and give its files the shape of the real ones: byte sums stay comparable."""
        self._mark_models()
        found = {}
        config = model_config(self.config)
        for number, model in enumerate(self.models):
            outcome = model.compact(config, as_of_ms, self.clock())
            if outcome is not None:
                found[number] = outcome
                self.aside[number] |= set(outcome.keyless)
                if model.cleaned_with == config.order:
                    self.backs_off_until_ms.pop(number, None)
        return found

    def _mark_models(self) -> None:
        for number, model in enumerate(self.models):
            model.uncleanable = self.clock() < self.backs_off_until_ms.get(number, 0)

    def _mirror(self, head: Head) -> None:
        segments = self.world.installation.log.open(TOPIC).segments(head)
        for number, model in enumerate(self.models):
            records = {each.offset: each for file in model.files for each in file.records}
            files_of = {each.offset: file for file in model.files for each in file.records}
            files = []
            for segment in segments.get(number, ()):
                inside = tuple(records[o] for o in sorted(records) if segment.first_offset <= o <= segment.last_offset)
                assert inside, f"partition {number}: nothing of the oracle's is in a real segment"
                files.append(replace(files_of[inside[0].offset], records=inside, size_bytes=segment.size_bytes))
            model.files = files
            self._mirror_history(model, head.state.partitions[number].history)

    def _mirror_history(self, model: LogModel, history: tuple[Cleaning, ...]) -> None:
        """Each tombstone lives as long as the oracle says. The real history keeps entries by files, so it says more."""
        for file in model.files:
            for each in file.records:
                if each.value is None:
                    mine, theirs = (
                        surviving_records.find_history_entry(each.offset, one) for one in (model.history, history)
                    )
                    assert (mine and replace(mine, end_offset=0)) == (theirs and replace(theirs, end_offset=0))
        model.history = history

    # ------------------------------------------------------------------ what always holds

    @invariant()
    def everything_holds(self) -> None:
        if not self.config:
            return
        # In this order: the first one reads for those after it.
        self.readers_see_what_the_oracle_says()
        self.every_partition_is_assessed_as_the_oracle_says()
        self.records_never_change_and_offsets_are_for_ever()
        self.no_key_is_twice_in_what_was_cleaned()
        self.keyless_records_are_never_dropped()

    def readers_see_what_the_oracle_says(self) -> None:
        head = self.world.head()
        self._mirror(head)
        read = self.world.read()
        self.seen = [[each for each in read if each.partition == number] for number in range(PARTITIONS)]
        for number, model in enumerate(self.models):
            state = head.state.partitions[number]
            assert self.seen[number] == model.read()
            assert (state.log_start_offset, state.log_end_offset) == (model.log_start_offset, model.log_end_offset)

    def every_partition_is_assessed_as_the_oracle_says(self) -> None:
        self._mark_models()
        installation = self.world.installation
        config = model_config(self.config)
        for found in assess_view(installation, load_topic_view(installation, TOPIC), as_of_ms=self.clock()):
            expected = self.models[found.partition].assess(config, self.clock(), self.clock())
            assert (
                found.reason,
                found.first_dirty_offset,
                found.first_uncleanable_offset,
                found.dirty_ratio,
                found.max_compaction_delay_ms,
                found.deadline_ms,
            ) == (
                expected.reason,
                expected.first_dirty_offset,
                expected.first_uncleanable_offset,
                expected.dirty_ratio,
                expected.max_compaction_delay_ms,
                expected.deadline_ms,
            )

    def records_never_change_and_offsets_are_for_ever(self) -> None:
        """G2, G3, G4: what is read was written so; from any offset one reads on at the next record that is there."""
        for written, seen in zip(self.written, self.seen, strict=True):
            assert all(written[each.offset] == each for each in seen)
            assert [each.offset for each in seen] == sorted({each.offset for each in seen})
        number = sum(map(len, self.written)) % PARTITIONS
        middle = self.models[number].log_end_offset // 2
        if self.written[number]:
            later = [each for each in self.seen[number] if each.offset >= middle]
            assert self.world.read(number, from_offset=middle) == later

    def no_key_is_twice_in_what_was_cleaned(self) -> None:
        """G6, G24: below the end of the last cleaning, exactly one record per key."""
        for number, model in enumerate(self.models):
            if model.cleaned_with is None:
                continue
            end = model.first_dirty_offset or 0
            keys = [each.key for each in self.seen[number] if each.offset < end]
            assert len(keys) == len(set(keys))

    def keyless_records_are_never_dropped(self) -> None:
        """What compaction could not keep in the log is in the quarantine, every record of it, once."""
        if not any(self.aside):
            return
        installation = self.world.installation
        rows = list_visible_rows(installation.log.quarantine(TOPIC), self.world.head().state)
        found = sorted(zip(rows.column("partition").to_pylist(), rows.column("offset").to_pylist(), strict=True))
        assert found == sorted((number, offset) for number, offsets in enumerate(self.aside) for offset in offsets)


@pytest.mark.kafka("46", "G1", "G2", "G3", "G4", "G5", "G6", "G7", "G8", "G17", "G18", "G19")
def test_anything_in_any_order_leaves_the_log_as_the_oracle_says() -> None:
    """Append, undo, clock, configuration, runs that end well, badly or not, imports, pauses, deletions, sweeps."""
    run_state_machine_as_test(
        LogMachine, settings=settings(max_examples=choose_examples(quick=12), stateful_step_count=12)
    )
