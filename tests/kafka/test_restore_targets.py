"""Which topics a restore takes as its target, how it configures them, and what it finds in them that is not its own."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition

from broker.kafka_broker import KafkaBroker
from tests.kafka.restored_topics import (
    KEEPING,
    NOW_MS,
    Target,
    assert_restored,
    break_off_restore,
    make_log,
    read_configuration,
    wait_until,
)
from tests.kafka.small_share import SMALL
from tests.support.world import World, build_versions
from winnow.errors import (
    BadInputError,
    ValidationFailedError,
)
from winnow.kafka.cluster import BrokerTopic
from winnow.kafka.target_topic import TargetTopic
from winnow.pipeline.restore import write_records
from winnow.values.model import Record


def test_the_target_has_the_topics_configuration_at_the_end_and_loses_nothing_before(
    world: World, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_log(world, retention_ms="1000", cleanup_policy="compact,delete", max_message_bytes="2000000")
    break_off_restore(monkeypatch, target, world, commits=2)
    assert read_configuration(target)["cleanup.policy"] == "delete"
    assert read_configuration(target)["retention.ms"] == "-1"
    target.restore(world)
    found = read_configuration(target)
    assert found["cleanup.policy"] == "compact,delete"
    assert found["retention.ms"] == "1000"
    assert found["max.message.bytes"] == "2000000"
    assert found["message.timestamp.after.max.ms"] == "3600000"


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
    break_off_restore(monkeypatch, target, odd, commits=3)
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
    break_off_restore(monkeypatch, target, odd, commits=4)
    target.produce({"key": b"stranger", "value": b"", "partition": 1})
    with pytest.raises(ValidationFailedError, match=r"Did another producer write|holds more than was restored"):
        target.restore(odd)
    with pytest.raises(ValidationFailedError):
        target.restore(odd)


def test_another_producers_record_behind_the_last_one_is_found(
    odd: World, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = TargetTopic.wait_for_stable_end

    def wait(topic: TargetTopic) -> BrokerTopic:
        target.produce({"key": b"stranger", "value": b"", "partition": 1})
        return genuine(topic)

    monkeypatch.setattr(TargetTopic, "wait_for_stable_end", wait)
    with pytest.raises(ValidationFailedError, match="holds more than was restored"):
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
    break_off_restore(monkeypatch, target, odd, commits=6)
    monkeypatch.setattr(write_records, "TRANSACTION_BYTES", SMALL)
    deleted = target.admin.delete_records([TopicPartition(target.name, 0, 3)])
    for future in deleted.values():
        future.result()
    with pytest.raises((ValidationFailedError, BadInputError)):
        target.restore(odd)


def test_old_records_are_written_into_one_segment_however_many_transactions_there_are(
    odd: World, target: Target, broker: KafkaBroker, small_transactions: None
) -> None:
    target.restore(odd)
    for number in range(2):
        assert len(list((broker.data_folder / f"{target.name}-{number}").glob("*.log"))) == 1
