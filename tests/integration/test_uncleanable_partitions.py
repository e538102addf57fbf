"""A segment that cannot be read: its partition is marked, the others go on, and it comes back when it is mended."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support import in_process_spark
from tests.support.world import TOPIC, World, build_versions, compute_survivors, open_world, run_between_head_and_commit
from winnow.engine import compaction_job as spark
from winnow.engine import staging
from winnow.engine.damage import CopyCountError, explain_failure
from winnow.engine.events import PartitionFailure, PlanFailure
from winnow.engine.rewrite import compact_partition
from winnow.errors import (
    BadInputError,
    CommitUnknownError,
    ConfigurationError,
    DamagedSegmentError,
    Explanation,
    PlanVoidError,
    ServiceError,
    UsageError,
    WinnowError,
)
from winnow.files import storage
from winnow.files.checked_reading import is_readable_by_duckdb
from winnow.pipeline.compaction import driver
from winnow.pipeline.compaction.assess import assess_topics
from winnow.pipeline.compaction.driver import CompactionOutcome, compact_topics
from winnow.pipeline.compaction.open_runs import settle_open_runs
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.installation import Installation
from winnow.pipeline.spark.submit import JobOutcome, Progress
from winnow.pipeline.topics.leases import hold_lease
from winnow.pipeline.topics.marks import (
    MINIMUM_BACK_OFF_MS,
    compute_back_off_ms,
    mark_failed_partitions,
    release_marks,
)
from winnow.planning.plans import PlanReference
from winnow.store import RunState
from winnow.values.model import PartitionPlan, Reason, Status, TopicPartition
from winnow.values.results import Receipt

ALL = [*build_versions(0, 12), *build_versions(0, 12, partition=1)]
MINUTE_MS = 60_000

without_spark = in_process_spark.without_spark


@pytest.fixture
def world(tmp_path: Path, without_spark: None) -> Iterator[World]:
    with open_world(tmp_path) as opened:
        opened.create(2, min_cleanable_dirty_ratio="0")
        opened.ingest(ALL)
        yield opened


def compact(world: World, *topics: str) -> CompactionOutcome:
    return compact_topics(world.installation, topics or [TOPIC], as_of_ms=world.clock())


def the_receipt(outcome: CompactionOutcome) -> Receipt:
    (receipt,) = outcome.receipts
    return receipt


def truncate(world: World, partition: int) -> bytes:
    """Cut the newest segment of ``partition`` short; its bytes as they were."""
    path = storage.parse_local_path(world.segments(partition)[-1].path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    return whole


def restore(world: World, partition: int, whole: bytes) -> None:
    storage.parse_local_path(world.segments(partition)[-1].path).write_bytes(whole)


def reasons(world: World) -> dict[int, Reason]:
    return {
        a.partition: a.reason for a in assess_topics(world.installation, [TOPIC], as_of_ms=world.clock(), record=False)
    }


@pytest.mark.kafka("82", "114")
def test_truncated_segment_marks_its_partition_and_the_next_run_takes_the_other(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """From the failure to the release, step by step."""
    started_ms = world.clock()
    segment = world.segments(0)[0]
    whole = truncate(world, 0)

    with caplog.at_level(logging.WARNING, "winnow.alerts"):
        outcome = compact(world)
    assert outcome.exit_code == 4
    receipt = the_receipt(outcome)
    assert (receipt.status, receipt.partitions, receipt.snapshot_id) == (Status.INVALID, (), None)
    assert receipt.message == outcome.errors[0].message == caplog.messages[0]
    for told in (
        f"orders-0: segment {segment.path} has {len(whole) // 2:,} bytes instead of {segment.size_bytes:,}",
        "Nothing was published",
        "Marked uncleanable until 2025-10-09T09:08:20.000Z: orders-0; the next run takes the others",
        "winnow partitions release orders --partition 0",
    ):
        assert told in receipt.message
    # Without the path: the folder is named after the topic and a uuid, which may begin with a 1.
    assert "orders-1" not in receipt.message.replace(segment.path, "")
    (closed,) = world.installation.store.runs.list_runs(TOPIC)
    assert (closed.status, closed.message) == (RunState.SPARK_FAILED, receipt.message)
    assert (world.state(1).uncleanable, world.state(1).first_dirty_offset) == (None, None)
    mark = world.state(0).uncleanable
    assert mark is not None
    assert (mark.plan_id, mark.attempts, mark.since_ms) == (receipt.plan_id, 1, started_ms)
    assert mark.next_attempt_ms == started_ms + MINIMUM_BACK_OFF_MS
    assert world.installation.store.projection.list_uncleanable([TOPIC]) == {TopicPartition(TOPIC, 0): mark}
    assert reasons(world) == {0: Reason.UNCLEANABLE, 1: Reason.DIRTY_RATIO}

    second = the_receipt(compact(world))
    assert (second.status, [part.partition for part in second.partitions]) == (Status.PUBLISHED, [1])
    assert world.read(1) == compute_survivors(build_versions(0, 12, partition=1))
    assert world.state(0).uncleanable == mark

    restore(world, 0, whole)
    assert reasons(world)[0] is Reason.UNCLEANABLE
    assert release_marks(world.installation, TOPIC, why="mended") == [0]
    assert world.state(0).uncleanable is None
    third = the_receipt(compact(world))
    assert (third.status, [part.partition for part in third.partitions]) == (Status.PUBLISHED, [0])
    assert world.read() == compute_survivors(ALL)


def test_every_further_failure_doubles_the_wait_and_success_ends_it(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    whole = truncate(world, 0)
    since_ms = world.clock()
    for attempts in range(1, 4):
        assert compact(world).exit_code == 4
        mark = world.state(0).uncleanable
        assert mark is not None
        assert (mark.attempts, mark.since_ms) == (attempts, since_ms)
        assert mark.next_attempt_ms == world.clock() + MINIMUM_BACK_OFF_MS * 2 ** (attempts - 1)
        compact(world)  # the other partition, or nothing
        assert world.state(0).uncleanable == mark
        world.clock.now_ms += MINIMUM_BACK_OFF_MS * 2 ** (attempts - 1)
    restore(world, 0, whole)
    with caplog.at_level(logging.WARNING, "winnow.alerts"):
        assert the_receipt(compact(world)).status is Status.PUBLISHED
    assert world.state(0).uncleanable is None
    assert world.installation.store.projection.list_uncleanable([TOPIC]) == {}
    assert [message for message in caplog.messages if message.startswith("Recovered: orders")] != []


def test_back_off_grows_from_a_quarter_of_an_hour_to_a_day() -> None:
    minutes = [compute_back_off_ms(attempts) // MINUTE_MS for attempts in (1, 2, 3, 7, 8, 9, 10_000)]
    assert minutes == [15, 30, 60, 960, 1440, 1440, 1440]


def test_missing_segment_is_named(world: World) -> None:
    path = world.segments(1)[0].path
    storage.delete(path)
    assert f"orders-1: segment {path} is missing" in the_receipt(compact(world)).message
    assert world.state(0).uncleanable is None


@pytest.mark.kafka("81")
def test_segment_whose_pages_are_damaged_is_named_though_its_size_is_right(world: World) -> None:
    """The middle of a page is overwritten: only reading it whole with its checksums tells."""
    segment = world.segments(0)[0]
    path = storage.parse_local_path(segment.path)
    content = bytearray(path.read_bytes())
    content[4:600] = b"\xff" * 596
    path.write_bytes(bytes(content))
    assert f"orders-0: segment {segment.path} cannot be" in the_receipt(compact(world)).message


@pytest.mark.kafka("81")
def test_bit_that_flips_in_a_value_is_not_copied_under_a_new_checksum(world: World) -> None:
    """The file can be read, and every key and offset is right: only the page's checksum tells."""
    segment = world.segments(0)[0]
    path = storage.parse_local_path(segment.path)
    damaged = bytearray(path.read_bytes())
    group = pq.read_metadata(path).row_group(0)
    (value,) = [group.column(n) for n in range(group.num_columns) if group.column(n).path_in_schema == "value"]
    damaged[value.data_page_offset + value.total_compressed_size - 1] ^= 1
    path.write_bytes(bytes(damaged))
    before = world.snapshot_ids()
    receipt = the_receipt(compact(world))
    assert (
        f"orders-0: segment {segment.path} cannot be decoded: a page is not the one that was written" in receipt.message
    )
    assert world.state(0).uncleanable is not None
    assert world.state(1).uncleanable is None
    assert set(before) < set(world.snapshot_ids())  # the mark, no result
    assert world.segments(0)[0] == segment


@pytest.mark.parametrize(
    ("place", "offset", "wrong"), [(-1, 10**9, "above"), (0, 10**9, "do not increase"), (0, -1, "do not increase")]
)
def test_segment_with_a_wrong_offset_is_named_when_its_records_are_not_found_again(
    world: World, place: int, offset: int, wrong: str
) -> None:
    """A readable file that holds other offsets than were written: no retry can help."""
    segment = world.segments(0)[0]
    path = storage.parse_local_path(segment.path)
    rows = pq.read_table(path)
    offsets = rows.column("offset").to_pylist()
    offsets[place] = offset
    damaged = rows.set_column(rows.schema.get_field_index("offset"), rows.schema.field("offset"), pa.array(offsets))
    pq.write_table(damaged, path)
    reference = world.plan(world.clock())
    assert reference is not None
    partition = staging.read_plan(reference.uri).partitions[0]
    assert partition.segments[0] == segment
    same_size = replace(partition, segments=(replace(segment, size_bytes=path.stat().st_size), *partition.segments[1:]))
    found = explain_failure(CopyCountError("of offsets 0 to 9 3 records survive, but 1 were copied"), TOPIC, same_size)
    assert isinstance(found, DamagedSegmentError)
    assert f"segment {segment.path} holds offsets" in str(found)
    assert wrong in str(found)


def test_surprise_in_a_unit_marks_its_partition_and_keeps_exit_code_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug, or an engine out of memory. Its words may quote data, so only its kind is told."""

    def broken(plan: object, partition: PartitionPlan, **named: object) -> object:
        if partition.partition == 1:
            raise ValueError("cannot read b'secret'")
        return compact_partition(plan, partition, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(spark, "compact_partition", broken)
        outcome = compact(world)
    receipt = the_receipt(outcome)
    assert (outcome.exit_code, receipt.status) == (1, Status.INVALID)
    assert "orders-1: unexpected ValueError" in receipt.message
    assert "secret" not in receipt.message
    mark = world.state(1).uncleanable
    assert mark is not None
    assert "secret" not in mark.reason
    assert world.state(0).uncleanable is None


@pytest.mark.parametrize(
    ("problem", "code", "state"),
    [
        (ServiceError("The store is away."), 6, RunState.SPARK_FAILED),
        (ConfigurationError("No such header."), 2, RunState.SPARK_FAILED),
        (PlanVoidError("Gone."), 5, RunState.VOID),
    ],
)
def test_services_settings_and_a_log_that_moved_mark_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, problem: WinnowError, code: int, state: RunState
) -> None:
    def broken(*_: object, **__: object) -> object:
        raise problem

    snapshots = world.snapshot_ids()
    monkeypatch.setattr(spark, "compact_partition", broken)
    outcome = compact(world)
    receipt = the_receipt(outcome)
    assert (outcome.exit_code, receipt.status) == (code, Status.REFUSED)
    assert str(problem).rstrip(".") in receipt.message
    run = world.installation.store.runs.list_runs(TOPIC)[0]
    assert (run.status, run.message) == (state, receipt.message)
    assert world.snapshot_ids() == snapshots
    assert world.installation.store.projection.list_uncleanable([TOPIC]) == {}


def test_inputs_that_a_sweep_removed_after_a_takeover_are_no_damage(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease lapsed while Spark waited: another run compacted the topic, and a sweep removed what it retired."""
    other = World(replace(world.installation, holder="other"), world.clock, world.folder / "other")

    def submit(
        installation: Installation, plans: Sequence[PlanReference], attempt: str, progress: Progress | None = None
    ) -> JobOutcome:
        world.clock.now_ms += installation.settings.lease_ms + 1
        with hold_lease(other.installation, TOPIC):
            settle_open_runs(other.installation, TOPIC)
            theirs = other.plan(world.clock(), "theirs")
            assert theirs is not None
            other.stage(theirs, "theirs")
            other.accept(theirs, "theirs")
            publish_attempt(other.installation, theirs.plan_id, "theirs")
        for file in world.head().state.waiting_files:
            storage.delete(file.path)
        return in_process_spark.submit(installation, plans, attempt, progress)

    monkeypatch.setattr(driver, "submit_plans", submit)
    outcome = compact(world)
    receipt = the_receipt(outcome)
    assert (outcome.exit_code, receipt.status) == (PlanVoidError.exit_code, Status.REFUSED)
    assert "run other took it" in receipt.message
    assert world.installation.store.projection.list_uncleanable([TOPIC]) == {}
    statuses = {run.holder: run.status for run in world.installation.store.runs.list_runs(TOPIC)}
    assert statuses == {world.installation.holder: RunState.VOID, "other": RunState.PUBLISHED}
    assert world.read() == compute_survivors(ALL)


def test_append_beside_the_mark_loses_neither(world: World) -> None:
    truncate(world, 0)
    with run_between_head_and_commit(lambda: world.ingest(build_versions(12, 2, partition=1))):
        compact(world)
    assert world.state(0).uncleanable is not None
    assert world.state(1).log_end_offset == 14


def test_mark_that_cannot_be_committed_is_said_and_the_failure_all_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object, **__: object) -> object:
        raise CommitUnknownError("The catalog did not say.")

    truncate(world, 0)
    monkeypatch.setattr("winnow.pipeline.topics.marks.mark_uncleanable", unknown)
    receipt = the_receipt(compact(world))
    assert receipt.status is Status.INVALID
    assert "The mark itself could not be committed (CommitUnknownError)" in receipt.message


def test_every_topic_asked_for_has_one_entry_also_those_that_were_never_planned(world: World) -> None:
    """Foreign table, unknown topic, idle topic and a damaged one; the exit code is the highest."""
    for topic in ("idle", "foreign"):
        world.create(1, topic=topic)
    world.ingest(build_versions(0, 3), topic="foreign")
    table = world.head("foreign").table
    table.append(table.scan().to_arrow().slice(0, 0))
    truncate(world, 0)
    outcome = compact(world, "idle", "missing", TOPIC, "foreign")
    assert [(receipt.topic, receipt.status.value) for receipt in outcome.receipts] == [
        ("idle", "nothing_to_do"),
        ("missing", "refused"),
        ("orders", "invalid"),
        ("foreign", "refused"),
    ]
    assert outcome.exit_code == 4
    said = {error.topic: error.message for error in outcome.errors}
    assert said == {r.topic: r.message for r in outcome.receipts if r.status is not Status.NOTHING_TO_DO}
    assert "There is no topic missing" in said["missing"]


def test_publish_that_broke_after_its_commit_is_unknown_and_settled_by_the_next_run(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused would be a lie: readers see the new log already."""

    def away(*_: object, **__: object) -> None:
        raise ServiceError("The metadata store cannot be reached.")

    with monkeypatch.context() as patch:
        patch.setattr(type(world.installation.store.projection), "record_publication", away)
        outcome = compact(world)
    assert (outcome.exit_code, the_receipt(outcome).status) == (6, Status.UNKNOWN)
    assert world.read() == compute_survivors(ALL)
    again = the_receipt(compact(world))
    assert (again.status, again.plan_id) == (Status.PUBLISHED, the_receipt(outcome).plan_id)


def test_what_keeps_spark_from_starting_is_told_of_every_topic(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> object:
        raise OSError("cannot fork")

    monkeypatch.setattr(driver, "submit_plans", broken)
    outcome = compact(world)
    assert (outcome.exit_code, the_receipt(outcome).status) == (1, Status.REFUSED)
    assert world.installation.store.projection.list_uncleanable([TOPIC]) == {}


def test_release_of_a_partition_that_is_not_there_changes_nothing(world: World) -> None:
    snapshots = world.snapshot_ids()
    with pytest.raises(UsageError, match="partitions 0 to 1, not 7"):
        release_marks(world.installation, TOPIC, [7], why="typo")
    assert release_marks(world.installation, TOPIC, why="nothing is marked") == []
    assert world.snapshot_ids() == snapshots


def test_partition_that_fails_again_after_a_release_is_alerted_again(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    truncate(world, 0)
    with caplog.at_level(logging.ERROR, "winnow.alerts"):
        compact(world)
        release_marks(world.installation, TOPIC, [0], why="thought to be mended")
        compact(world)
    assert len(caplog.messages) == 2


def test_failure_that_names_no_partition_marks_none(world: World) -> None:
    plan = world.plan(world.clock())
    assert plan is not None
    assert (
        mark_failed_partitions(world.installation, plan, PlanFailure(Explanation("two Sparks are mixed"), 2), "a1")
        is None
    )
    away = PlanFailure(Explanation("away"), 6, (PartitionFailure(0, "away", 6),))
    assert mark_failed_partitions(world.installation, plan, away, "a1") is None
    assert world.installation.store.projection.list_uncleanable([TOPIC]) == {}


def damage_where_arrow_passes_over(path: Path) -> None:
    """Change one bit of the footer so that Arrow reads every record as before, and DuckDB reads none."""
    sound = path.read_bytes()
    rows = pq.read_table(path)
    for place in range(len(sound) - 9, 4, -1):
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
        try:
            is_passed_over = pq.ParquetFile(path, page_checksum_verification=True).read().equals(rows)
        except (pa.ArrowException, OSError, UnicodeDecodeError):
            continue
        if is_passed_over and not is_readable_by_duckdb(str(path)):
            return
    raise AssertionError("There is no such byte.")


def test_byte_that_only_duckdb_minds_is_damage_too(world: World) -> None:
    reference = world.plan(world.clock())
    assert reference is not None
    plan = staging.read_plan(reference.uri).partitions[0]
    segment = plan.segments[0]
    damage_where_arrow_passes_over(storage.parse_local_path(segment.path))
    found = explain_failure(duckdb.Error("TProtocolException: Invalid data"), TOPIC, plan)
    assert isinstance(found, DamagedSegmentError)
    assert f"segment {segment.path} cannot be decoded: a byte of its footer" in str(found)


class TestExplained:
    """What an exception of the engine means."""

    @pytest.fixture
    def plan(self, world: World) -> PartitionPlan:
        reference = world.plan(world.clock())
        assert reference is not None
        return staging.read_plan(reference.uri).partitions[0]

    @pytest.mark.parametrize(
        ("problem", "code"),
        [
            (OSError(28, "No space left on device"), 6),
            (duckdb.IOException("IO Error: Could not write: No space left on device"), 6),
            (duckdb.OutOfMemoryException("could not allocate b'secret'"), 6),
            (duckdb.InvalidInputException("b'secret'"), 1),
            (BadInputError("The records are odd."), 3),
            (ServiceError("The store is away."), 6),
            (CopyCountError("3 records survive, but 1 were copied"), 1),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_intact_segments_are_not_blamed(self, plan: PartitionPlan, problem: Exception, code: int) -> None:
        found = explain_failure(problem, TOPIC, plan)
        assert found.exit_code == code
        assert not isinstance(found, DamagedSegmentError)
        assert "secret" not in str(found)

    @pytest.mark.parametrize(
        "problem",
        [
            FileNotFoundError(2, "gone"),
            duckdb.IOException("No files found"),
            duckdb.InvalidInputException("No magic bytes"),
            duckdb.BinderException("no column"),
            BadInputError("The segment file is missing."),
        ],
        ids=lambda value: type(value).__name__,
    )
    @pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b"x")])
    def test_damaged_segment_is_blamed_and_named(
        self, plan: PartitionPlan, problem: Exception, damage: Callable[[Path], object]
    ) -> None:
        damage(storage.parse_local_path(plan.segments[0].path))
        found = explain_failure(problem, TOPIC, plan)
        assert isinstance(found, DamagedSegmentError)
        assert plan.segments[0].path in str(found)

    def test_engine_out_of_memory_is_no_reason_to_read_everything_again(self, plan: PartitionPlan) -> None:
        """Nor to blame a segment for it."""
        storage.delete(plan.segments[0].path)
        assert not isinstance(explain_failure(MemoryError(), TOPIC, plan), DamagedSegmentError)
