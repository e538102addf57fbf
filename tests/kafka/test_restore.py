"""A restore gives back every record as it was, exactly once, in order, and nothing else."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from confluent_kafka import TopicPartition

from broker.kafka_broker import KafkaBroker
from tests.kafka.restored_topics import (
    KEEPING,
    NOW_MS,
    Target,
    assert_restored,
    break_off_restore,
    list_rows,
    make_log,
    wait_until,
)
from tests.kafka.small_share import SMALL
from tests.support.world import TOPIC, World, build_versions, record
from winnow.errors import (
    BadInputError,
    DamagedSegmentError,
    UsageError,
)
from winnow.kafka.group_offsets import GroupOffsets
from winnow.kafka.transactional_writer import TransactionalWriter
from winnow.log.pinned_snapshots import unpin_snapshots
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.restore import write_records
from winnow.pipeline.restore.offset_translation import read_group_file
from winnow.pipeline.restore.restore import abandon_restore
from winnow.pipeline.restore.source_log import RestoreBound
from winnow.values.model import Record


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
    break_off_restore(monkeypatch, target, world, commits=4)
    monkeypatch.setattr(write_records, "TRANSACTION_BYTES", SMALL)
    world.ingest(build_versions(600, 40))
    assert world.compact(attempt="a2") is not None
    world.clock.now_ms += 10 * 86_400_000
    sweep_topics(world.installation)
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
    sweep_topics(world.installation)
    files = {path for path in world.listing() if path.endswith(".parquet") and TOPIC in path}
    live = {each.path.rpartition("/")[2] for number in range(2) for each in world.segments(number)}
    assert {path.rpartition("/")[2] for path in files} == live


def test_an_abandoned_restore_releases_its_snapshot_and_its_target_is_refused_from_then_on(
    world: World, target: Target, small_transactions: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_log(world)
    break_off_restore(monkeypatch, target, world, commits=3)
    assert len(world.head().table.metadata.refs) == 2
    abandon_restore(world.installation, TOPIC, target.name, target.settings)
    assert len(world.head().table.metadata.refs) == 1
    with pytest.raises(BadInputError, match="is not empty"):
        target.restore(world)


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
    break_off_restore(monkeypatch, target, world, commits=4)
    unpin_snapshots(world.installation.log.open(TOPIC), lambda tag: True)
    world.ingest(build_versions(600, 40))
    assert world.compact(attempt="a2") is not None
    world.clock.now_ms += 10 * 86_400_000
    sweep_topics(world.installation)
    written = target.read()
    with pytest.raises(BadInputError, match="which is gone"):
        target.restore(world)
    assert target.read() == written


def test_a_restore_with_another_wish_is_refused(
    odd: World, target: Target, small_transactions: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_off_restore(monkeypatch, target, odd, commits=3)
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
    assert any("Restored without their timestamp of 0 or before 1970: 1 record" in each for each in report.notices)


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
    assert any("1 line of --groups" in each for each in report.notices)


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


def test_a_groups_offsets_in_other_topics_are_not_those_in_the_target(target: Target) -> None:
    other = Target(target.servers)
    for topic in (target, other):
        topic.create(1)
    consumer = target.make_consumer(f"billing-{target.name}")
    consumer.commit(offsets=[TopicPartition(other.name, 0, 0)], asynchronous=False)
    consumer.close()
    assert GroupOffsets(target.settings, target.name).read(f"billing-{target.name}") == {}
    assert GroupOffsets(target.settings, other.name).read(f"billing-{target.name}") == {0: 0}


def test_a_throttled_restore_takes_its_time(world: World, target: Target) -> None:
    world.create(1)
    world.ingest(build_versions(0, 500))
    began_s = time.monotonic()
    target.restore(world, bytes_per_second=10_000)
    assert time.monotonic() - began_s > 1.5
    assert_restored(target, build_versions(0, 500))


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
