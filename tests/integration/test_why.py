"""``winnow why``: what is said of records that are there, of records that are not, and of keys, against a real log."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle import surviving_records
from tests.support.world import NOW_MS, TOPIC, World, build_versions, open_world, record, write_jsonl
from winnow.errors import DamagedSegmentError, UnknownTopicError, UsageError
from winnow.files import storage
from winnow.files.partitioner import choose_partition
from winnow.log.topic_configuration import set_config
from winnow.pipeline.explain.gaps import explain_gaps, find_gaps
from winnow.pipeline.explain.why import explain_key, explain_offset
from winnow.pipeline.explain.why_answer import WhyAnswer
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.topics.topic_view import load_topic_view
from winnow.values.model import Record
from winnow.values.strategies import Strategy

DAY_MS = 86_400_000
LATE_MS = NOW_MS - 30 * DAY_MS


def by_key(world: World, key: bytes, **options: object) -> WhyAnswer:
    defaults: dict[str, object] = {"partition": None, "as_of_ms": world.clock()}
    return explain_key(world.installation, TOPIC, key, **(defaults | options))  # type: ignore[arg-type]


def by_offset(world: World, offset: int, partition: int = 0) -> WhyAnswer:
    return explain_offset(world.installation, TOPIC, partition, offset, as_of_ms=world.clock())


# By key


def test_winner_is_told_with_its_rule_and_the_run_that_chose_it(world: World) -> None:
    """The receipt's plan, snapshot and times; nothing of key or value."""
    world.create(1, segment_ms="1", compaction_strategy="timestamp")
    world.ingest([record(0, b"secret", b"secret-a", 90), record(1, b"secret", b"secret-b", 10)])
    receipt = world.compact()
    assert receipt is not None

    answer = by_key(world, b"secret")

    assert (answer.present, answer.verdict, answer.partition) == (True, "survived", 0)
    assert answer.winner is not None
    assert (answer.winner.offset, answer.winner.timestamp_ms, answer.winner.section) == (0, 90, "clean")
    assert (answer.strategy, answer.rule) == ("timestamp", "highest timestamp, then highest offset")
    assert answer.won_in is not None
    assert (answer.won_in.plan_id, answer.won_in.snapshot_id) == (receipt.plan_id, receipt.snapshot_id)
    assert (answer.won_in.as_of_ms, answer.won_in.finished_at_ms) == (receipt.as_of_ms, receipt.finished_at_ms)
    assert "offset 0" in answer.sentence
    assert "highest timestamp, then highest offset" in answer.sentence
    assert str(receipt.plan_id)[:12] in answer.sentence
    assert "secret" not in repr(answer)


def test_dirty_record_of_a_key_is_told_with_who_wins_next(world: World) -> None:
    """The clean winner stands until a run covers the newer record; what is too young is out of that run's reach."""
    world.create(1, segment_bytes="14", min_compaction_lag_ms=str(DAY_MS))
    world.ingest([record(0, b"a", b"x", LATE_MS), record(1, b"b", b"x", LATE_MS)])
    world.compact()
    world.ingest([record(2, b"a", b"y", LATE_MS)])
    world.ingest([record(3, b"a", b"z", NOW_MS)])

    answer = by_key(world, b"a")

    assert answer.winner is not None
    assert answer.next_winner is not None
    assert (answer.winner.offset, answer.next_winner.offset) == (0, 2)
    assert [(r.offset, r.section.value) for r in answer.records] == [
        (0, "clean"),
        (2, "dirty"),
        (3, "not_yet_cleanable"),
    ]
    assert "In the next run offset 2" in answer.sentence


def test_key_that_no_run_has_covered_is_undecided(world: World) -> None:
    """Readers see all its records; the order in force says who would win."""
    world.create(1, segment_ms="1")
    world.ingest([record(0, b"a", b"x"), record(1, b"a", b"y")])

    answer = by_key(world, b"a")

    assert (answer.verdict, answer.winner, answer.won_in, answer.records_total) == ("undecided", None, None, 2)
    assert answer.next_winner is not None
    assert answer.next_winner.offset == 1


def test_changed_strategy_is_told_beside_the_one_that_decided(world: World) -> None:
    """The rule of the last cleaning explains the winner, the one in force who wins next."""
    world.create(1, segment_ms="1")
    world.ingest([record(0, b"a", b"x", 90), record(1, b"a", b"y", 10)])
    world.compact()
    world.ingest([record(2, b"a", b"z", 5)])
    set_config(world.installation.log.open(TOPIC), {"compaction.strategy": "timestamp"}, [])

    answer = by_key(world, b"a")

    assert (answer.rule, answer.next_rule) == ("highest offset", "highest timestamp, then highest offset")
    assert answer.winner is not None
    assert answer.next_winner is not None
    assert (answer.winner.offset, answer.next_winner.offset) == (1, 1)


def test_version_in_the_header_is_told_where_it_decides(world: World) -> None:
    """KIP-280: a missing version is below every one."""
    world.create(1, segment_ms="1", compaction_strategy="header", compaction_strategy_header="v")
    version = (7).to_bytes(8, "big")
    world.ingest([record(0, b"a", b"x", headers=(("v", version),)), record(1, b"a", b"y")])
    world.compact()

    answer = by_key(world, b"a")

    assert answer.winner is not None
    assert (answer.winner.offset, answer.winner.version) == (0, 7)
    assert "version 7" in answer.sentence


def test_key_is_first_looked_for_where_kafka_puts_it_and_then_elsewhere(world: World) -> None:
    """Found in its default partition the others are left alone; a custom partitioner's key is found all the same."""
    world.create(8, segment_ms="1")
    key = b"a"
    default = choose_partition(key, 8)
    other = (default + 3) % 8
    world.ingest([record(0, b"stray", b"x", partition=(choose_partition(b"stray", 8) + 1) % 8)])
    world.ingest([record(0, key, b"x", partition=default), record(1, key, b"x", partition=other)])

    at_home = by_key(world, key)
    assert (at_home.partition, at_home.partitions_searched, at_home.default_partition) == (default, 1, default)
    assert "7 other partitions of the topic were not searched" in at_home.sentence
    everywhere = by_key(world, key, everywhere=True)
    assert [(each.partition, each.records) for each in everywhere.elsewhere] == [(other, 1)]
    stray = by_key(world, b"stray")
    assert stray.present
    assert stray.partition != stray.default_partition
    assert by_key(world, key, partition=other).records[0].offset == 1
    assert not by_key(world, key, partition=(default + 1) % 8).present


def test_tombstone_is_told_with_its_delete_horizon(world: World) -> None:
    """Not covered; covered and waiting; horizon passed."""
    world.create(1, segment_ms="1", delete_retention_ms=str(2 * DAY_MS), min_cleanable_dirty_ratio="0")
    world.ingest([record(0, b"a", b"x"), record(1, b"a", None)])
    life = by_key(world, b"a").tombstone
    assert life is not None
    assert (life.covered, life.goes_at_next_run, life.earliest_removal_ms) == (False, False, NOW_MS + 2 * DAY_MS)
    world.compact()

    answer = by_key(world, b"a")
    assert answer.verdict == "tombstone"
    assert answer.tombstone is not None
    assert (answer.tombstone.covered, answer.tombstone.delete_horizon_ms) == (True, NOW_MS + 2 * DAY_MS)
    assert not answer.tombstone.goes_at_next_run
    world.clock.now_ms += 2 * DAY_MS
    answer = by_key(world, b"a")
    assert answer.tombstone is not None
    assert answer.tombstone.goes_at_next_run
    assert "has passed" in answer.sentence


def test_tombstone_that_fends_off_late_arrivals_says_so(world: World) -> None:
    """Under timestamp it outlives delete.retention.ms by winnow.late.arrival.ms."""
    world.create(
        1,
        segment_ms="1",
        compaction_strategy="timestamp",
        delete_retention_ms=str(DAY_MS),
        winnow_late_arrival_ms=str(5 * DAY_MS),
    )
    world.ingest([record(0, b"a", None, 90)])
    world.compact()
    world.clock.now_ms += 2 * DAY_MS

    life = by_key(world, b"a").tombstone

    assert life is not None
    assert (life.delete_horizon_ms, life.waiting_for_late_arrivals) == (NOW_MS + 5 * DAY_MS, True)


def test_absent_key_is_told_with_the_runs_in_which_tombstones_expired(world: World) -> None:
    """The key is gone with its last record, so more cannot be known."""
    world.create(1, segment_ms="1", delete_retention_ms="0")
    world.ingest([record(0, b"a", b"x"), record(1, b"a", None), record(2, b"b", b"x")])
    assert by_key(world, b"missing").runs == ()
    world.compact()
    world.clock.now_ms += DAY_MS
    receipt = world.compact()
    assert receipt is not None

    answer = by_key(world, b"a")

    assert (answer.present, answer.verdict, answer.records) == (False, "absent", ())
    assert [(run.plan_id, run.tombstones_expired) for run in answer.runs] == [(receipt.plan_id, 1)]
    assert "1 tombstone of orders-0 expired so far" in answer.sentence


def test_hot_key_is_counted_whole_and_listed_from_its_end(world: World) -> None:
    """A hundred records are listed, all are counted."""
    world.create(1, segment_ms="1")
    world.ingest(build_versions(0, 150, keys=1))

    answer = by_key(world, b"key-0")

    assert answer.records_total == 150
    assert [each.offset for each in answer.records] == list(range(50, 150))


def test_damaged_segment_is_named_without_a_byte_of_the_key(world: World) -> None:
    """What an engine says about what it choked on is not repeated."""
    world.create(1)
    world.ingest([record(0, b"secret", b"x")])
    (segment,) = world.segments()
    storage.delete(segment.path)

    with pytest.raises(DamagedSegmentError, match=r"orders-0 could not be searched: segment .* is missing") as told:
        by_key(world, b"secret")
    assert "secret" not in str(told.value)


# By offset


def test_record_that_is_there_is_told_with_what_becomes_of_it(world: World) -> None:
    """Survived; will be superseded; will win; cannot be judged yet."""
    world.create(1, segment_bytes="14", min_compaction_lag_ms=str(DAY_MS))
    world.ingest([record(0, b"a", b"x", LATE_MS), record(1, b"b", b"x", LATE_MS), record(2, b"b", b"y", LATE_MS)])
    world.compact()
    world.ingest([record(3, b"a", b"y", LATE_MS)])
    world.ingest([record(4, b"a", b"z", NOW_MS)])

    assert [by_offset(world, offset).verdict for offset in (0, 1, 2, 3, 4)] == [
        "superseded_next",
        "superseded",
        "survived",
        "wins_next",
        "not_yet_cleanable",
    ]
    doomed = by_offset(world, 0)
    assert doomed.present
    assert doomed.record is not None
    assert doomed.next_winner is not None
    assert (doomed.record.offset, doomed.next_winner.offset) == (0, 3)
    assert "offset 3" in doomed.sentence
    assert doomed.segment is not None
    assert doomed.segment.path == world.segments()[0].path


def test_superseded_offset_is_told_with_the_run_and_what_a_reader_gets_instead(world: World) -> None:
    """One run covered it and superseded records only: no doubt is left."""
    world.create(1, segment_ms="1")
    world.ingest(build_versions(0, 6))
    receipt = world.compact()
    assert receipt is not None

    answer = by_offset(world, 1)

    assert (answer.present, answer.verdict, answer.causes, answer.ingested) == (
        False,
        "superseded",
        ("superseded",),
        "yes",
    )
    assert [run.plan_id for run in answer.runs] == [receipt.plan_id]
    assert answer.next_offset == 3
    assert answer.sentence.startswith(f"orders-0, offset 1 was removed by run {str(receipt.plan_id)[:12]}")


def test_expired_tombstone_and_superseded_record_cannot_always_be_told_apart(world: World) -> None:
    """A later run removed both kinds, so both are named, with the runs that may have done it."""
    world.create(1, segment_ms="1", delete_retention_ms="0", min_cleanable_dirty_ratio="0")
    world.ingest([record(0, b"a", None), record(1, b"b", b"x")])
    first = world.compact()
    world.clock.now_ms += DAY_MS
    world.ingest([record(2, b"b", b"y")])
    second = world.compact()
    assert first is not None
    assert second is not None

    answer = by_offset(world, 0)

    assert answer.verdict == "removed"
    assert answer.causes == ("superseded", "tombstone_expired")
    assert [run.plan_id for run in answer.runs] == [second.plan_id]
    assert "or a tombstone whose delete horizon had passed" in answer.sentence


def test_tombstone_is_no_cause_in_the_first_run_that_covered_the_offset(world: World) -> None:
    """Two phases: the run that first covers a tombstone never drops it."""
    world.create(1, segment_ms="1", delete_retention_ms="0", min_cleanable_dirty_ratio="0")
    world.ingest([record(0, b"a", None)])
    world.compact()
    world.clock.now_ms += DAY_MS
    world.ingest([record(1, b"b", b"x"), record(2, b"b", b"y")])
    receipt = world.compact()
    assert receipt is not None
    assert receipt.partitions[0].tombstones_expired == 1

    assert by_offset(world, 1).causes == ("superseded",)


def test_offsets_around_the_log_are_told_apart(world: World) -> None:
    """Not written yet; before the archive began; in a gap of the source, dirty or clean."""
    world.create(1, segment_ms="1")
    world.ingest([record(5, b"a", b"x"), record(6, b"b", b"x")])
    world.ingest([record(9, b"c", b"x")])
    dirty_gap = by_offset(world, 7)
    assert (dirty_gap.verdict, dirty_gap.ingested, dirty_gap.next_offset) == ("never_ingested", "no", 9)
    world.compact()

    assert by_offset(world, 10).verdict == "not_written"
    assert "the log ends at 10" in by_offset(world, 10).sentence
    assert by_offset(world, 4).verdict == "never_ingested"
    assert by_offset(world, 7).verdict == "never_ingested"
    assert by_offset(world, 8).next_offset == 9


def test_hole_inside_an_ingested_slice_is_likely_and_not_certain(world: World) -> None:
    """The slice brought three records for offsets 0 to 4, and a run removed one record of it."""
    world.create(1, segment_ms="1")
    world.ingest([record(0, b"a", b"x"), record(2, b"a", b"y"), record(4, b"b", b"x")])
    assert by_offset(world, 1).verdict == "never_ingested"
    world.compact()

    answer = by_offset(world, 1)

    assert (answer.verdict, answer.ingested) == ("removed_or_never_written", "perhaps")
    assert "brought 3 records for offsets 0 to 4" in answer.sentence


def test_record_of_a_topic_that_is_not_compacted_is_judged_by_no_run(world: World) -> None:
    """Its policy deletes by age alone, so nothing supersedes it."""
    world.create(1, segment_ms="1", cleanup_policy="delete")
    world.ingest([record(0, b"a", b"x"), record(1, b"a", b"y")])
    answer = by_offset(world, 0)
    assert answer.verdict == "not_compacted"
    assert "does not include compact" in answer.sentence


def test_keyless_offset_is_found_in_the_quarantine(world: World) -> None:
    """Ingest put it aside; the log goes on beyond its offset."""
    world.create(1, winnow_keyless="quarantine")
    world.ingest([record(0, b"a", b"x"), record(1, None, b"x"), record(2, b"b", b"x")])

    answer = by_offset(world, 1)

    assert (answer.present, answer.verdict, answer.next_offset) == (False, "quarantined", 2)


def test_offset_below_the_log_start_is_not_asked_of_files_that_still_hold_it(world: World) -> None:
    """The log start may lie inside a segment; what is below it cannot be read any more."""
    world.create(1, segment_ms="1")
    world.ingest(build_versions(0, 6))
    log = world.installation.log.open(TOPIC)

    def raised(head):  # type: ignore[no-untyped-def]
        from winnow.log.head import Change

        state = head.state.partitions[0]
        return Change(replace(head.state, partitions={0: replace(state, log_start_offset=3)}))

    log.commit(raised)

    answer = by_offset(world, 1)

    assert (answer.present, answer.verdict, answer.next_offset) == (False, "below_log_start", 3)
    assert "so it was delete-records" in answer.sentence
    assert by_key(world, b"key-0").records_total == 1


def test_ledgers_are_bisected_over_calls_that_brought_nothing_to_the_partition(world: World) -> None:
    """Every offset finds its slice, whichever call brought it."""
    world.create(2, segment_ms="1")
    for first in range(0, 12, 2):
        partition = 1 if first in {4, 6} else 0
        world.ingest([record(n, b"k", b"x", partition=partition) for n in (first, first + 1)])
    world.compact()

    found = [by_offset(world, offset).ingested for offset in range(11)]

    assert found == ["yes"] * 4 + ["no"] * 4 + ["yes"] * 3
    assert by_offset(world, 11).present


def test_unknown_topics_and_partitions_are_refused(world: World) -> None:
    """With what there is."""
    world.create(2)
    with pytest.raises(UnknownTopicError):
        explain_offset(world.installation, "missing", 0, 0, as_of_ms=0)
    with pytest.raises(UsageError, match="partitions 0 to 1; there is no partition 2"):
        by_offset(world, 0, partition=2)
    with pytest.raises(UsageError, match="there is no partition 2"):
        by_key(world, b"a", partition=2)


def test_answers_outlive_the_metadata_store(world: World) -> None:
    """Receipts rest beside the table, too."""
    world.create(1, segment_ms="1")
    world.ingest(build_versions(0, 6))
    world.compact()
    told = by_offset(world, 1)
    world.installation.store.projection.forget_topic(TOPIC)

    assert by_offset(world, 1) == told


def test_a_damaged_ledger_leaves_gaps_not_known_and_hides_nothing_else(world: World) -> None:
    """Records stay readable on the page; ``winnow why`` names what is damaged."""
    world.create(1, segment_ms="1")
    world.ingest(build_versions(0, 6))
    world.compact()
    there = [each.offset for each in world.read()]
    view = load_topic_view(world.installation, TOPIC)
    gaps = find_gaps(there, 0, 6)
    assert {gap.verdict for gap in explain_gaps(world.installation, view, 0, gaps)} == {"superseded"}
    for path in (world.folder / "home").rglob("*.json"):
        if path.parent.name == "ingests":
            path.write_bytes(b"{}")
    damaged = explain_gaps(world.installation, load_topic_view(world.installation, TOPIC), 0, gaps)
    assert [(gap.first_offset, gap.last_offset) for gap in damaged] == gaps
    assert {gap.verdict for gap in damaged} == {"not_known"}


_keys = st.sampled_from([b"a", b"b", b"c"])
_steps = st.lists(
    st.one_of(
        st.lists(
            st.tuples(st.integers(1, 3), _keys, st.none() | st.just(b"x"), st.integers(0, 5)), min_size=1, max_size=6
        ),
        st.just("compact"),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=max(10, settings().max_examples // 5))
@given(steps=_steps, strategy=st.sampled_from([Strategy.OFFSET, Strategy.TIMESTAMP]))
def test_every_offset_of_a_random_log_is_explained_as_it_happened(
    steps: list[list[tuple[int, bytes, bytes | None, int]] | str], strategy: Strategy
) -> None:
    """Present exactly where readers see a record; a removed one names its true rule, a gap none unless it must."""
    with tempfile.TemporaryDirectory() as folder, open_world(Path(folder)) as world:
        world.create(
            1, segment_ms="1", delete_retention_ms="0", winnow_late_arrival_ms="0", compaction_strategy=strategy.value,
            min_cleanable_dirty_ratio="0",
        )  # fmt: skip
        brought: dict[int, Record] = {}
        offset = -1
        expired: set[int] = set()
        for step in steps:
            world.clock.now_ms += DAY_MS
            if isinstance(step, str):
                before = world.read()
                receipt = world.compact()
                gone = {each.offset for each in before} - {each.offset for each in world.read()}
                expired |= _expired(before, gone, strategy) if receipt is not None else set()
                continue
            rows: list[Record] = []
            for gap, key, value, timestamp_ms in step:
                offset += gap
                rows.append(record(offset, key, value, timestamp_ms))
            world.ingest(rows)
            brought |= {each.offset: each for each in rows}
        _check_offsets(world, brought, expired, offset)
        _check_gaps(world, offset)
        _check_keys(world, strategy)


def _expired(before: Sequence[Record], gone: set[int], strategy: Strategy) -> set[int]:
    """Of what a run removed, the tombstones that had won."""
    outcome = surviving_records.compute_survivors(
        before, next_first_dirty_offset=before[-1].offset + 1, strategy=strategy, header=None, expired=lambda _: True
    )
    return gone & set(outcome.tombstones_expired)


def _check_offsets(world: World, brought: dict[int, Record], expired: set[int], last: int) -> None:
    there = {each.offset for each in world.read()}
    for offset in range(last + 2):
        answer = by_offset(world, offset)
        assert answer.present == (offset in there)
        if answer.present or offset > last:
            continue
        assert answer.next_offset == min((each for each in there if each > offset), default=None)
        if offset in brought:
            true = "tombstone_expired" if offset in expired else "superseded"
            assert true in answer.causes
            assert answer.verdict in {true, "removed", "removed_or_never_written"}
        else:
            assert answer.ingested in {"no", "perhaps"}


def _check_gaps(world: World, last: int) -> None:
    """Ranges of offsets are told as each of their offsets is."""
    there = [each.offset for each in world.read()]
    view = load_topic_view(world.installation, TOPIC)
    told: list[int] = []
    for gap in explain_gaps(world.installation, view, 0, find_gaps(there, 0, last + 1)):
        for offset in range(gap.first_offset, gap.last_offset + 1):
            told.append(offset)
            answer = by_offset(world, offset)
            assert (gap.verdict, gap.causes) == (answer.verdict, answer.causes)
            assert gap.runs_total >= len(answer.runs)
            if gap.runs_total == 1 and answer.runs:
                assert gap.runs[0].plan_id == answer.runs[0].plan_id
    assert told == [offset for offset in range(last + 1) if offset not in there]


def _check_keys(world: World, strategy: Strategy) -> None:
    records = world.read()
    first_dirty = world.state().first_dirty_offset or 0
    for key in (b"a", b"b", b"c"):
        mine = [each for each in records if each.key == key]
        answer = by_key(world, key)
        assert (answer.present, [each.offset for each in answer.records]) == (bool(mine), [r.offset for r in mine])
        for told, candidates in (
            (answer.winner, [each for each in mine if each.offset < first_dirty]),
            (answer.next_winner, mine),
        ):
            best = max(candidates, key=lambda r: surviving_records.compute_version(r, strategy, None), default=None)
            assert (told.offset if told is not None else None) == (best.offset if best is not None else None)


def test_same_file_again_changes_no_answer(world: World, tmp_path: Path) -> None:
    """A skipped ingest leaves no slice that could mislead."""
    world.create(1, segment_ms="1")
    path = write_jsonl(tmp_path / "again.jsonl", build_versions(0, 6))
    ingest_files(world.installation, TOPIC, [path], as_of_ms=NOW_MS)
    world.compact()
    told = by_offset(world, 1)
    ingest_files(world.installation, TOPIC, [path], as_of_ms=NOW_MS)

    assert by_offset(world, 1) == told


def test_record_of_an_archive_that_a_tool_wrote_is_told_as_removed(world: World, tmp_path: Path) -> None:
    """The ledger of such a call also notes its input, in slices without records, which span no offset."""
    lines = [
        f'{{"topic":"{TOPIC}","partition":0,"offset":{offset},"tstype":"create","ts":{LATE_MS},"broker":0,'
        f'"key":"ann","payload":"{offset}"}}\n'
        for offset in range(3)
    ]
    (tmp_path / "archive.json").write_text("".join(lines))
    world.create(1, segment_ms="1")
    ingest_files(world.installation, TOPIC, [str(tmp_path / "archive.json")], as_of_ms=NOW_MS)
    world.compact()

    answer = by_offset(world, 0)

    assert (answer.present, answer.verdict, answer.ingested) == (False, "superseded", "yes")
