"""A restore gives back every record as it was, exactly once, in order, and nothing else; otherwise it says so."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from tests.kafka.restored_topics import NOW_MS, Target, list_rows, make_log, open_present_world, wait_until
from tests.support.world import TOPIC, World, build_versions, record
from winnow.embedded.kafka_broker import KafkaBroker
from winnow.errors import (
    BadInputError,
    DamagedSegmentError,
    ServiceError,
    TopicBusyError,
    UsageError,
    ValidationFailedError,
)
from winnow.kafka.target_topic import TargetTopic
from winnow.kafka.transactional_writer import TransactionalWriter
from winnow.log.pinned_snapshots import unpin_snapshots
from winnow.model import Record
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.restore import write_records
from winnow.pipeline.restore.offset_translation import read_group_file
from winnow.pipeline.restore.restore import abandon_restore
from winnow.pipeline.restore.source_log import RestoreBound

SMALL = 1_500
"""Bytes of a transaction where several are wanted."""
KEEPING = {"retention_ms": "-1", "segment_ms": str(2**63 - 1)}
"""What a topic must be set to for a restore of old records."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with open_present_world(tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world with the odd log, for tests that leave it as it is."""
    with open_present_world(tmp_path_factory.mktemp("odd")) as opened:
        make_log(opened)
        yield opened


@pytest.fixture(scope="module")
def records(odd: World) -> list[Record]:
    """What the odd log publishes."""
    return odd.read()


@pytest.fixture
def target(broker: KafkaBroker) -> Target:
    return Target(broker.bootstrap_servers)


@pytest.fixture
def small_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_records, "TRANSACTION_BYTES", SMALL)


def assert_restored(target: Target, records: list[Record]) -> None:
    assert [(number, row) for number, _, row in target.read()] == list_rows(records)


class StoppedError(Exception):
    """Stands for whatever ends a call."""


def stop_after(monkeypatch: pytest.MonkeyPatch, commits: int) -> None:
    """The call ends when so many transactions were committed, before it knows of the last."""
    genuine = TransactionalWriter._commit
    left = [commits]

    def commit(writer: TransactionalWriter) -> None:
        genuine(writer)
        left[0] -= 1
        if left[0] == 0:
            raise StoppedError

    monkeypatch.setattr(TransactionalWriter, "_commit", commit)


def test_every_record_comes_back_as_it_was(
    odd: World, records: list[Record], target: Target, small_transactions: None
) -> None:
    report = target.restore(odd)
    assert_restored(target, records)
    assert report.records == len(records)
    assert [each.tombstones for each in report.partitions] == [
        sum(one.partition == number and one.value is None for one in records) for number in range(2)
    ]


def test_the_translation_leads_from_each_record_of_the_log_to_the_same_record_in_the_target(
    odd: World, records: list[Record], target: Target, small_transactions: None
) -> None:
    report = target.restore(odd)
    written = {(number, offset): row for number, offset, row in target.read()}
    translated = {
        (run["partition"], run["source_offset"] + at): (run["partition"], run["target_offset"] + at)
        for run in pq.read_table(report.offsets_file).to_pylist()
        for at in range(run["records"])
    }
    assert {key: written[place] for key, place in translated.items()} == {
        (each.partition, each.offset): row for each, (_, row) in zip(records, list_rows(records), strict=True)
    }


def test_what_was_restored_and_ingested_again_compacts_to_the_same_log(world: World, target: Target) -> None:
    make_log(world)
    target.restore(world)
    world.create(2, topic="again", min_cleanable_dirty_ratio="0", segment_bytes="4000")
    world.ingest(
        [Record(offset, row[0], row[1], row[2], row[3], partition=number) for number, offset, row in target.read()],
        topic="again",
    )
    for topic in (TOPIC, "again"):
        # A record after all others, so that the whole log before it is compacted.
        ends = {n: state.log_end_offset for n, state in world.head(topic).state.partitions.items()}
        world.ingest([record(end, b"last", b"x" * 5_000, NOW_MS, partition=n) for n, end in ends.items()], topic=topic)
        ends = {n: state.log_end_offset for n, state in world.head(topic).state.partitions.items()}
        world.ingest([record(end, b"end", b"x", NOW_MS, partition=n) for n, end in ends.items()], topic=topic)
        assert world.compact(topic=topic, attempt="a2") is not None
    assert list_rows(world.read(topic="again")) == list_rows(world.read())


def test_the_target_has_the_topics_configuration_at_the_end_and_loses_nothing_before(
    world: World, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_log(world, retention_ms="1000", cleanup_policy="compact,delete", max_message_bytes="2000000")
    stop_after(monkeypatch, 2)
    with pytest.raises(StoppedError):
        target.restore(world)
    monkeypatch.undo()
    assert read_configuration(target)["cleanup.policy"] == "delete"
    assert read_configuration(target)["retention.ms"] == "-1"
    target.restore(world)
    found = read_configuration(target)
    assert found["cleanup.policy"] == "compact,delete"
    assert found["retention.ms"] == "1000"
    assert found["max.message.bytes"] == "2000000"
    assert found["message.timestamp.after.max.ms"] == "3600000"


def read_configuration(target: Target) -> dict[str, str]:
    found = TargetTopic(target.settings, target.name).describe()
    assert found is not None
    return dict(found.configuration)


def test_a_restore_that_is_complete_does_nothing_more(odd: World, records: list[Record], target: Target) -> None:
    target.restore(odd)
    target.produce({"key": b"later", "value": b"of the application", "partition": 0})
    report = target.restore(odd)
    assert report.was_complete
    assert len(target.read()) == len(records) + 1


def test_a_stopped_restore_goes_on_with_its_snapshot_though_the_log_went_on_and_was_swept(
    world: World, target: Target, small_transactions: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = make_log(world)
    stop_after(monkeypatch, 4)
    with pytest.raises(StoppedError):
        target.restore(world)
    monkeypatch.undo()
    monkeypatch.setattr(write_records, "TRANSACTION_BYTES", SMALL)
    world.ingest(build_versions(600, 40))
    assert world.compact(attempt="a2") is not None
    world.clock.now_ms += 10 * 86_400_000
    sweep_topics(world.ctx)
    before = sum(each.records for each in world.segments())
    report = target.restore(world)
    assert_restored(target, records)
    assert sum(each.records for each in world.segments()) == before
    assert 0 < sum(each.records_written for each in report.partitions) < len(records)


def test_the_snapshot_is_released_at_the_end_and_its_files_go(world: World, target: Target) -> None:
    make_log(world)
    target.restore(world)
    pinned = {name for name in world.head().table.metadata.refs if name != "main"}
    assert pinned == set()
    world.ingest(build_versions(600, 40))
    assert world.compact(attempt="a2") is not None
    world.clock.now_ms += 10 * 86_400_000
    sweep_topics(world.ctx)
    files = {path for path in world.listing() if path.endswith(".parquet") and TOPIC in path}
    live = {each.path.rpartition("/")[2] for number in range(2) for each in world.segments(number)}
    assert {path.rpartition("/")[2] for path in files} == live


def test_an_abandoned_restore_releases_its_snapshot_and_its_target_is_refused_from_then_on(
    world: World, target: Target, small_transactions: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_log(world)
    stop_after(monkeypatch, 3)
    with pytest.raises(StoppedError):
        target.restore(world)
    monkeypatch.undo()
    assert len(world.head().table.metadata.refs) == 2
    abandon_restore(world.ctx, TOPIC, target.name, target.settings)
    assert len(world.head().table.metadata.refs) == 1
    with pytest.raises(BadInputError, match="is not empty"):
        target.restore(world)


@pytest.mark.parametrize("phase", ["Measuring", "Writing", "Verifying"])
def test_a_second_restore_takes_over_and_the_first_writes_nothing_more(
    odd: World, records: list[Record], target: Target, small_transactions: None, phase: str
) -> None:
    taken: list[int] = []

    def watch(what: str, done: int, total: int) -> None:
        # While it writes: in the reader's thread of the first one, with a transaction open.
        if not taken and what == phase and done * 2 > total:
            taken.append(target.restore(odd).records)

    with pytest.raises(TopicBusyError, match="has taken over"):
        target.restore(odd, watch=watch)
    assert taken == [len(records)]
    assert_restored(target, records)


class Answering:
    """A producer whose transactions' positions meet ``code`` once, as if the brokers had answered that."""

    def __init__(self, producer: Producer, code: int, before: Callable[[], object]) -> None:
        self._producer, self._code, self._before, self._count = producer, code, before, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def send_offsets_to_transaction(self, *arguments: Any) -> None:
        self._count += 1
        if self._count == 4:
            self._before()
            raise KafkaException(KafkaError(self._code))
        self._producer.send_offsets_to_transaction(*arguments)


def answer_once(monkeypatch: pytest.MonkeyPatch, code: int, before: Callable[[], object]) -> None:
    genuine = TransactionalWriter._make_producer
    made: list[Answering] = []

    def make(writer: TransactionalWriter) -> Any:
        if made:
            return genuine(writer)
        made.append(Answering(genuine(writer), code, before))
        return made[0]

    monkeypatch.setattr(TransactionalWriter, "_make_producer", make)


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN, KafkaError.INVALID_PRODUCER_EPOCH])
def test_whether_a_restore_was_taken_over_is_asked_before_an_error_that_does_not_say_it(
    odd: World,
    records: list[Record],
    target: Target,
    small_transactions: None,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
) -> None:
    """The brokers may answer a fenced producer that something unknown went wrong."""
    answer_once(monkeypatch, code, lambda: target.restore(odd))
    with pytest.raises(TopicBusyError, match="has taken over"):
        target.restore(odd)
    assert_restored(target, records)


@pytest.mark.parametrize("code", [KafkaError.UNKNOWN, KafkaError.INVALID_PRODUCER_EPOCH])
def test_an_error_without_another_restore_is_told_as_it_is_and_the_next_call_goes_on(
    odd: World,
    records: list[Record],
    target: Target,
    small_transactions: None,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
) -> None:
    """An epoch is outdated, too, when the brokers ended a transaction for its age."""
    answer_once(monkeypatch, code, lambda: None)
    with pytest.raises(ServiceError, match=r"Known to be committed in topic .* by this call\. Run the same command"):
        target.restore(odd)
    monkeypatch.undo()
    target.restore(odd)
    assert_restored(target, records)


def test_positions_of_another_restore_show_that_it_took_over_where_the_producer_cannot_ask(
    odd: World, records: list[Record], target: Target, small_transactions: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take_over() -> None:
        target.restore(odd)
        # From here on this producer answers nothing but that it has failed for good.
        monkeypatch.setattr(TransactionalWriter, "_abort", fail)

    def fail(writer: TransactionalWriter) -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL))

    answer_once(monkeypatch, KafkaError.UNKNOWN, take_over)
    with pytest.raises(TopicBusyError, match="has taken over"):
        target.restore(odd)
    assert_restored(target, records)


def test_own_positions_show_no_other_restore_where_the_producer_cannot_ask(
    odd: World, records: list[Record], target: Target, small_transactions: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(writer: TransactionalWriter) -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL))

    answer_once(monkeypatch, KafkaError.UNKNOWN, lambda: monkeypatch.setattr(TransactionalWriter, "_abort", fail))
    with pytest.raises(ServiceError, match="Known to be committed"):
        target.restore(odd)
    monkeypatch.undo()
    target.restore(odd)
    assert_restored(target, records)


def test_a_paused_restore_whose_transaction_was_aborted_by_another_adds_nothing_when_it_continues(
    odd: World, records: list[Record], target: Target, small_transactions: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = TransactionalWriter._commit
    paused: list[bool] = []

    def commit(writer: TransactionalWriter) -> None:
        if len(paused) == 3:
            paused.append(True)
            writer._producer.flush(5)  # its records are in the target, not committed
            target.restore(odd)
        elif len(paused) < 3:
            paused.append(True)
        genuine(writer)

    monkeypatch.setattr(TransactionalWriter, "_commit", commit)
    with pytest.raises(TopicBusyError):
        target.restore(odd)
    assert_restored(target, records)
    assert len(target.read("read_uncommitted")) > len(records)


def test_a_target_that_was_created_again_meanwhile_is_refused(
    odd: World, target: Target, small_transactions: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = write_records._commit
    done: list[bool] = []

    def commit(*arguments: object) -> object:
        state = genuine(*arguments)  # type: ignore[arg-type]
        if not done:
            done.append(True)
            target.delete()
            target.create(2, cleanup_policy="delete", retention_ms="-1")
        return state

    monkeypatch.setattr(write_records, "_commit", commit)
    with pytest.raises(BadInputError, match="deleted while it was being restored"):
        target.restore(odd)
    assert target.read() == []


def test_a_topic_of_the_same_name_created_later_is_not_gone_on_with(
    odd: World, records: list[Record], target: Target, small_transactions: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_after(monkeypatch, 3)
    with pytest.raises(StoppedError):
        target.restore(odd)
    monkeypatch.undo()
    target.delete()
    # The brokers forget the positions with the topic, so the restore begins anew and is whole.
    wait_until(lambda: not committed_positions(target))
    target.restore(odd)
    assert_restored(target, records)


def committed_positions(target: Target) -> dict[int, int]:
    from winnow.kafka.group_offsets import GroupOffsets

    return GroupOffsets(target.settings, target.name).read(f"winnow-restore-{target.name}")


def test_positions_of_a_former_topic_are_refused(odd: World, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    from winnow.pipeline.restore import open_restore
    from winnow.pipeline.restore.restore_state import Identity

    def of_another_topic(**fields: object) -> Identity:
        return dataclasses.replace(Identity(**fields), target_id="AAAAAAAAAAAAAAAAAAAAAB")  # type: ignore[arg-type]

    monkeypatch.setattr(open_restore, "Identity", of_another_topic)
    with pytest.raises(BadInputError):
        target.restore(odd)
    monkeypatch.undo()
    with pytest.raises(BadInputError, match="was deleted and created again"):
        target.restore(odd)
    assert target.read() == []


def test_a_topic_with_records_is_refused_and_stays_as_it_is(world: World, target: Target) -> None:
    make_log(world)
    target.create(2, **KEEPING)
    target.produce({"key": b"k", "value": b"of another", "partition": 1})
    with pytest.raises(BadInputError, match="is not empty"):
        target.restore(world)
    assert [row[:2] for _, _, row in target.read()] == [(b"k", b"of another")]
    assert len(world.head().table.metadata.refs) == 1


@pytest.mark.parametrize(
    ("partitions", "config", "message"),
    [
        (1, KEEPING, "has 1 partition"),
        (3, KEEPING, "has 3 partition"),
        (2, {"cleanup_policy": "compact", "retention_ms": "-1"}, "cleanup.policy=delete"),
        (2, {"retention_ms": "604800000"}, "retention.ms=-1"),
        (2, {"retention_ms": "-1", "message_timestamp_type": "LogAppendTime"}, "message.timestamp.type=CreateTime"),
        (2, {"retention_ms": "-1"}, "message.timestamp.after.max.ms="),
    ],
)
def test_a_topic_that_would_not_keep_the_records_is_refused(
    odd: World, target: Target, partitions: int, config: dict[str, str], message: str
) -> None:
    target.create(partitions, **config)
    with pytest.raises(BadInputError, match=message):
        target.restore(odd)
    assert target.read() == []


def test_a_topic_that_was_there_keeps_its_configuration(world: World, target: Target) -> None:
    world.create(1)
    world.ingest(build_versions(0, 20))
    target.create(1, **KEEPING, min_insync_replicas="1", segment_index_bytes="777777")
    report = target.restore(world)
    assert read_configuration(target)["segment.index.bytes"] == "777777"
    assert read_configuration(target)["cleanup.policy"] == "delete"
    assert any("stays as it is" in each for each in report.notices)


def test_another_producers_record_is_found(
    odd: World, target: Target, small_transactions: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_after(monkeypatch, 4)
    with pytest.raises(StoppedError):
        target.restore(odd)
    monkeypatch.undo()
    target.produce({"key": b"stranger", "value": b"", "partition": 1})
    with pytest.raises(ValidationFailedError, match=r"Did another producer write|holds more than was restored"):
        target.restore(odd)
    with pytest.raises(ValidationFailedError):
        target.restore(odd)


@pytest.mark.parametrize(
    "change", [{"value": b"other"}, {"key": None}, {"headers": (("a", b"x"),)}, {"timestamp_ms": NOW_MS + 1}]
)
def test_a_record_that_came_out_otherwise_is_found(
    world: World, target: Target, monkeypatch: pytest.MonkeyPatch, change: dict[str, object]
) -> None:
    world.create(1)
    world.ingest(build_versions(0, 20))
    genuine = write_records._make_writable

    def changed(batch):  # type: ignore[no-untyped-def]
        from tests.support.random_logs import build_table

        row = batch.to_pylist()[7]
        one = Record(row["offset"], row["key"], row["value"], round(row["timestamp"].timestamp() * 1000), None)
        middle = build_table([dataclasses.replace(one, **change)])  # type: ignore[arg-type]
        parts = [batch.slice(0, 7), *middle.to_batches(), batch.slice(8)]
        return genuine(pa.Table.from_batches(parts).combine_chunks().to_batches()[0])

    monkeypatch.setattr(write_records, "_make_writable", changed)
    with pytest.raises(ValidationFailedError, match="offset 7 of the log"):
        target.restore(world)


def test_records_that_left_the_target_before_they_were_read_back_are_missed(
    odd: World, target: Target, small_transactions: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_after(monkeypatch, 6)
    with pytest.raises(StoppedError):
        target.restore(odd)
    monkeypatch.undo()
    monkeypatch.setattr(write_records, "TRANSACTION_BYTES", SMALL)
    deleted = target.admin.delete_records([TopicPartition(target.name, 0, 3)])
    for future in deleted.values():
        future.result()
    with pytest.raises((ValidationFailedError, BadInputError)):
        target.restore(odd)


def test_a_damaged_segment_ends_the_restore_and_once_it_is_mended_it_goes_on(
    world: World, target: Target, small_transactions: None
) -> None:
    records = make_log(world)
    file = Path(world.segments(1)[-1].path.removeprefix("file://"))
    whole = file.read_bytes()
    file.write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
    with pytest.raises(DamagedSegmentError, match=r"winnow scrub"):
        target.restore(world)
    file.write_bytes(whole)
    target.restore(world)
    assert_restored(target, records)


def test_a_restore_whose_snapshot_was_released_and_swept_does_not_go_on_with_another(
    world: World, target: Target, small_transactions: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_log(world)
    stop_after(monkeypatch, 4)
    with pytest.raises(StoppedError):
        target.restore(world)
    monkeypatch.undo()
    unpin_snapshots(world.ctx.log.open(TOPIC), lambda tag: True)
    world.ingest(build_versions(600, 40))
    assert world.compact(attempt="a2") is not None
    world.clock.now_ms += 10 * 86_400_000
    sweep_topics(world.ctx)
    written = target.read()
    with pytest.raises(BadInputError, match="which is gone"):
        target.restore(world)
    assert target.read() == written


def test_a_transaction_in_which_a_record_was_not_taken_is_not_committed(
    odd: World, records: list[Record], target: Target, small_transactions: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = TransactionalWriter._make_producer

    class Refusing:
        """A producer that does not take the 101st record, and is well otherwise."""

        def __init__(self, producer: Producer) -> None:
            self._producer, self._count = producer, 0

        def __getattr__(self, name: str) -> Any:
            return getattr(self._producer, name)

        def produce(self, *arguments: Any, **named: Any) -> None:
            self._count += 1
            if self._count == 101:
                raise KafkaException(KafkaError(KafkaError._INVALID_ARG))
            self._producer.produce(*arguments, **named)

    monkeypatch.setattr(TransactionalWriter, "_make_producer", lambda writer: Refusing(genuine(writer)))
    with pytest.raises(ServiceError):
        target.restore(odd)
    monkeypatch.undo()
    target.restore(odd)
    assert_restored(target, records)


def test_a_restore_with_another_wish_is_refused(
    odd: World, target: Target, small_transactions: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_after(monkeypatch, 3)
    with pytest.raises(StoppedError):
        target.restore(odd)
    monkeypatch.undo()
    with pytest.raises(UsageError, match="it restores all, and this call says offset 5"):
        target.restore(odd, bound=RestoreBound(offset=5))
    with pytest.raises(UsageError):
        target.restore(odd, snapshot_id=odd.snapshot_ids()[0])


def test_the_log_is_restored_up_to_an_offset_a_time_or_a_snapshot(world: World, broker: KafkaBroker) -> None:
    world.create(2)
    first = [
        dataclasses.replace(each, timestamp_ms=NOW_MS + (each.offset * 7) % 50)
        for number in range(2)
        for each in build_versions(0, 50, partition=number)
    ]
    world.ingest(first)
    snapshot = world.head().snapshot_id
    world.ingest(build_versions(50, 10))
    cases: list[tuple[dict[str, object], list[Record]]] = [
        ({"bound": RestoreBound(offset=20)}, [each for each in first if each.offset < 20]),
        (
            {"bound": RestoreBound(offsets={0: 5, 1: 0})},
            [each for each in first if each.offset < 5 and each.partition == 0],
        ),
        # The first record of this time or later is at offset 7 (49): what follows it is later in the log.
        ({"bound": RestoreBound(time_ms=NOW_MS + 49)}, [each for each in first if each.offset < 7]),
        ({"snapshot_id": snapshot}, first),
    ]
    for request, expected in cases:
        target = Target(broker.bootstrap_servers)
        target.restore(world, **request)
        assert_restored(target, expected)


def test_timestamps_that_clients_cannot_write_are_refused_unless_they_are_to_be_left_out(
    world: World, target: Target
) -> None:
    world.create(1)
    records = [record(0, b"a", b"1", 0), record(1, b"b", b"2", 5)]
    world.ingest(records)
    with pytest.raises(BadInputError, match="timestamp of 0"):
        target.restore(world)
    assert target.describe() is None
    report = target.restore(world, drops_timestamps=True)
    assert_restored(target, [dataclasses.replace(records[0], timestamp_ms=None), records[1]])
    assert any("1 record(s) with a timestamp of 0" in each for each in report.notices)


def test_consumer_groups_continue_at_the_record_that_they_would_have_read_next(
    odd: World, records: list[Record], target: Target, small_transactions: None
) -> None:
    beyond = max(each.offset for each in records) + 1_000
    wanted = [0, 7, 30, 31, 32, 390, 401, beyond]
    lines = [f"group-{number},{TOPIC},{partition},{n}" for number, n in enumerate(wanted) for partition in range(2)]
    file = odd.folder / "groups.csv"
    file.write_text("\n".join([*lines, "strange,another topic,0,5"]) + "\n")
    report = target.restore(odd, groups=read_group_file(file, [TOPIC], 2))
    written = target.read()
    for number, offset in enumerate(wanted):
        consumer = target.make_consumer(f"group-{number}")
        for each in consumer.committed([TopicPartition(target.name, partition) for partition in range(2)], 10):
            left = [row for part, at, row in written if part == each.partition and at >= each.offset]
            assert left == [
                row for part, row in list_rows([r for r in records if r.offset >= offset]) if part == each.partition
            ]
        consumer.close()
    assert any("1 line(s)" in each for each in report.notices)


def test_groups_with_members_or_other_offsets_are_refused(world: World, target: Target) -> None:
    world.create(1)
    world.ingest(build_versions(0, 20))
    file = world.folder / "groups.csv"
    file.write_text(f"group,topic,partition,offset\nbilling-{target.name},{TOPIC},0,5\n")
    groups = read_group_file(file, [TOPIC], 1)
    consumer = target.make_consumer(f"billing-{target.name}")
    target.create(1, **KEEPING)
    consumer.subscribe([target.name])
    wait_until(lambda: consumer.poll(0.1) is not None or bool(consumer.assignment()))
    with pytest.raises(BadInputError, match="has members"):
        target.restore(world, groups=groups)
    consumer.close()
    other = target.make_consumer(f"billing-{target.name}")
    other.commit(offsets=[TopicPartition(target.name, 0, 1)], asynchronous=False)
    with pytest.raises(BadInputError, match="has other offsets"):
        target.restore(world, groups=groups)
    other.commit(offsets=[TopicPartition(target.name, 0, 5)], asynchronous=False)
    other.close()
    assert target.restore(world, groups=groups).records == 20


def test_a_throttled_restore_takes_its_time(world: World, target: Target) -> None:
    world.create(1)
    world.ingest(build_versions(0, 500))
    began_s = time.monotonic()
    target.restore(world, bytes_per_second=10_000)
    assert time.monotonic() - began_s > 1.5
    assert_restored(target, build_versions(0, 500))


def test_old_records_are_written_into_one_segment_however_many_transactions_there_are(
    odd: World, target: Target, broker: KafkaBroker, small_transactions: None
) -> None:
    target.restore(odd)
    for number in range(2):
        assert len(list((broker.data_folder / f"{target.name}-{number}").glob("*.log"))) == 1


def test_positions_of_partitions_at_rest_are_committed_again_before_the_brokers_forget_them(
    world: World, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create(2)
    world.ingest([*build_versions(0, 5), *build_versions(0, 2_000, partition=1)])
    committed: list[set[int]] = []
    genuine = TransactionalWriter.commit

    def commit(writer: TransactionalWriter, positions: dict[int, object], *more: object) -> None:
        committed.append(set(positions))
        genuine(writer, positions, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(TransactionalWriter, "commit", commit)
    monkeypatch.setattr(write_records, "TRANSACTION_BYTES", 20_000)
    monkeypatch.setattr(write_records, "REFRESH_SECONDS", 0)
    target.restore(world)
    assert len(committed) > 5
    assert sum(each == {0, 1} for each in committed) > 5
    assert_restored(target, [*build_versions(0, 5), *build_versions(0, 2_000, partition=1)])


def test_a_partition_without_records_and_a_log_without_any_are_restored(world: World, broker: KafkaBroker) -> None:
    world.create(2)
    empty = Target(broker.bootstrap_servers)
    assert empty.restore(world).records == 0
    world.ingest(build_versions(3, 5, partition=1))
    half = Target(broker.bootstrap_servers)
    half.restore(world)
    assert_restored(half, build_versions(3, 5, partition=1))
    assert half.restore(world).was_complete
