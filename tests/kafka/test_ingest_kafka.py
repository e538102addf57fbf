"""Records of a running broker come into the log exactly once, as they were committed; anything else is said."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from broker.kafka_broker import KafkaBroker
from tests.kafka.live_topics import BASE_MS, LiveTopic, create_live_topic, make_rows
from tests.support.in_process_ingest import carry_out_plans_in_process
from tests.support.waiting import wait_until
from tests.support.world import World, define_world, run_between_head_and_commit, write_jsonl
from winnow.errors import BadInputError, CommitConflictError, ServiceError, UsageError
from winnow.kafka.client_settings import read_client_settings
from winnow.kafka.cluster import Cluster
from winnow.log.reference_chains import read_ledgers
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.ingest.kafka import run as kafka_run
from winnow.pipeline.ingest.kafka.ingest import KafkaOutcome, KafkaRequest, choose_topics, ingest_kafka_topics
from winnow.pipeline.ingest.kafka.reading import ReadingRules
from winnow.pipeline.ingest.request import IngestReport
from winnow.pipeline.ingest.undo import undo_ingest
from winnow.planning.kafka_configuration import TakingRules
from winnow.values.epochs import Epoch, LeaderEpoch
from winnow.values.model import Record

world = define_world()


@pytest.fixture(params=["local", "spark"])
def on(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where records are read; Spark's tasks run in this process."""
    monkeypatch.setattr(kafka_run, "submit_ingest_plans", carry_out_plans_in_process)
    monkeypatch.setattr(kafka_run, "MINIMUM_RANGE_OFFSETS", 7)
    return str(request.param)


def ingest_all(
    world: World, topics: Mapping[str, str], broker: KafkaBroker, on: str = "local", **rules: Any
) -> KafkaOutcome:
    options = {name: rules.pop(name) for name in ("creates", "configuration") if name in rules}
    wanted = KafkaRequest(ReadingRules(**rules), **{"creates": True, **options})
    cluster = Cluster(read_client_settings(broker.bootstrap_servers))
    return ingest_kafka_topics(world.installation, cluster, topics, wanted, as_of_ms=world.clock(), on=on)


def ingest(world: World, topic: LiveTopic, on: str = "local", here: str = "", **rules: Any) -> IngestReport:
    done = ingest_all(world, {here or topic.name: topic.name}, topic.broker, on, **rules)
    for failure in done.failures:
        raise failure.error
    (report,) = done.reports
    return report


def read(world: World, topic: LiveTopic) -> list[Record]:
    return world.read(topic=topic.name)


# ------------------------------------------------------------------------------------------------ what is read


def test_every_committed_record_arrives_as_it_was_written(broker: KafkaBroker, world: World, on: str) -> None:
    topic = create_live_topic(broker)
    chosen = random.Random(1)
    for part in range(4):
        topic.write(make_rows(chosen, 40))
        topic.write_transaction(make_rows(chosen, 15), commits=part % 2 == 0)
    report = ingest(world, topic, on)
    assert read(world, topic) == topic.records
    assert report.records_appended == len(topic.records)
    assert [world.state(p, topic.name).log_end_offset for p in range(2)] == [topic.find_end(p) for p in range(2)]


def test_progress_is_told_in_offsets_and_records(broker: KafkaBroker, world: World) -> None:
    """Brokers tell no bytes; aborted records and markers take offsets, too."""
    topic = create_live_topic(broker)
    topic.write(make_rows(random.Random(3), 40))
    topic.write_transaction(make_rows(random.Random(4), 15), commits=False)
    seen: list[tuple[int, int, int]] = []
    cluster = Cluster(read_client_settings(broker.bootstrap_servers))
    ingest_kafka_topics(
        world.installation,
        cluster,
        {topic.name: topic.name},
        KafkaRequest(creates=True),
        as_of_ms=world.clock(),
        progress=lambda *each: seen.append(each),
    )
    offsets = sum(topic.find_end(partition) for partition in range(2))
    assert offsets > len(topic.records)
    assert seen[-1] == (offsets, offsets, len(topic.records))


def test_what_comes_later_is_appended_and_nothing_twice(broker: KafkaBroker, world: World, on: str) -> None:
    topic = create_live_topic(broker)
    chosen = random.Random(2)
    for _ in range(3):
        topic.write(make_rows(chosen, 25))
        ingest(world, topic, on)
        assert read(world, topic) == topic.records
        snapshots = world.snapshot_ids(topic.name)
        assert ingest(world, topic, on).snapshot_id is None
        assert world.snapshot_ids(topic.name) == snapshots


def test_an_open_transaction_waits_for_its_end(broker: KafkaBroker, world: World, on: str) -> None:
    topic = create_live_topic(broker, partitions=1)
    topic.write([(0, b"before", b"1", BASE_MS, ())])
    writer = topic._open(**{"transactional.id": topic.name})
    writer.init_transactions()
    writer.begin_transaction()
    writer.produce(topic.name, b"2", b"inside", 0, timestamp=BASE_MS)
    writer.flush()
    topic.write([(0, b"after", b"3", BASE_MS, ())])
    ingest(world, topic, on)
    assert [each.key for each in read(world, topic)] == [b"before"]
    writer.commit_transaction()

    def is_ended() -> bool:
        # The broker answers the commit before its marker stands in the log.
        ingest(world, topic, on)
        return len(read(world, topic)) > 1

    wait_until(is_ended, within_s=60)
    assert [each.key for each in read(world, topic)] == [b"before", b"inside", b"after"]


def test_a_topic_that_ends_with_aborted_records_is_read_to_its_end_once(
    broker: KafkaBroker, world: World, on: str
) -> None:
    topic = create_live_topic(broker, partitions=1)
    topic.write([(0, b"k", b"1", BASE_MS, ())])
    topic.write_transaction(make_rows(random.Random(3), 20, partitions=1), commits=False)
    ingest(world, topic, on)
    assert world.state(0, topic.name).log_end_offset == topic.find_end(0) == 22
    assert ingest(world, topic, on).snapshot_id is None
    assert [each.key for each in read(world, topic)] == [b"k"]


def test_records_without_a_timestamp_and_of_the_broker_s_time_keep_them(broker: KafkaBroker, world: World) -> None:
    topic = create_live_topic(broker, partitions=1, message_timestamp_type="LogAppendTime")
    topic.write([(0, b"k", b"1", BASE_MS, ())])
    ingest(world, topic)
    (found,) = read(world, topic)
    assert found.timestamp_type == 1
    assert found.timestamp_ms is not None
    assert found.timestamp_ms > BASE_MS


def test_many_topics_in_one_call_and_one_that_fails_stops_no_other(broker: KafkaBroker, world: World, on: str) -> None:
    topics = [create_live_topic(broker) for _ in range(3)]
    for number, topic in enumerate(topics):
        topic.write(make_rows(random.Random(number), 10))
    names = {topic.name: topic.name for topic in topics} | {"missing": "missing"}
    done = ingest_all(world, names, broker, on)
    assert sorted(each.topic for each in done.reports) == sorted(topic.name for topic in topics)
    assert all(read(world, topic) == topic.records for topic in topics)
    (failure,) = done.failures
    assert failure.topic == "missing"
    assert "has no topic missing" in str(failure.error)


def test_topics_are_chosen_by_their_whole_names(broker: KafkaBroker) -> None:
    topic = create_live_topic(broker)
    cluster = Cluster(read_client_settings(broker.bootstrap_servers))
    assert choose_topics(cluster, topic.name.replace(".", r"\.")) == [topic.name]
    with pytest.raises(BadInputError, match="matches"):
        choose_topics(cluster, topic.name[:-1])


# ------------------------------------------------------------------------------------------------ what is refused


def test_a_topic_that_was_created_again_is_refused(broker: KafkaBroker, world: World, on: str) -> None:
    topic = create_live_topic(broker, partitions=1)
    topic.write(make_rows(random.Random(4), 5, partitions=1))
    ingest(world, topic, on)
    before = read(world, topic)
    topic.delete()
    again = create_live_topic(broker, 1, topic.name)
    again.write(make_rows(random.Random(5), 50, partitions=1))
    with pytest.raises(BadInputError, match=r"topic id is .* --new-epoch"):
        ingest(world, again, on)
    assert read(world, topic) == before


def test_a_topic_that_is_created_again_while_it_is_read_is_refused(
    broker: KafkaBroker, world: World, on: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = create_live_topic(broker, partitions=1)
    topic.write(make_rows(random.Random(4), 5, partitions=1))
    genuine = Cluster.describe_topics
    calls = 0

    def describe(self: Cluster, *args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            topic.delete()
            create_live_topic(broker, 1, topic.name)
        return genuine(self, *args, **options)

    monkeypatch.setattr(Cluster, "describe_topics", describe)
    with pytest.raises(BadInputError, match="while it was read"):
        ingest(world, topic, on)
    assert not read(world, topic)
    assert calls == 2


def test_records_deleted_before_they_were_read_are_named_and_never_passed_over(
    broker: KafkaBroker, world: World, on: str
) -> None:
    topic = create_live_topic(broker, partitions=1)
    topic.write(make_rows(random.Random(6), 10, partitions=1))
    ingest(world, topic, on)
    kept = read(world, topic)
    topic.write(make_rows(random.Random(7), 10, partitions=1))
    topic.delete_records(0, 15)
    with pytest.raises(BadInputError, match=f"{topic.name}-0 from 10 to 14"):
        ingest(world, topic, on)
    assert read(world, topic) == kept
    report = ingest(world, topic, on, accepts_gap=True)
    assert read(world, topic) == [*kept, *topic.records]
    assert any("offsets 10 to 14 were deleted" in notice for notice in report.notices)
    *_, ledger = read_ledgers(world.head(topic.name).state)
    assert ledger.choices["accepted-gap.0"] == "10-14"
    assert ingest(world, topic, on).snapshot_id is None


def test_records_deleted_before_the_first_call_are_no_gap(broker: KafkaBroker, world: World, on: str) -> None:
    topic = create_live_topic(broker, partitions=2)
    topic.write(make_rows(random.Random(6), 30))
    topic.delete_records(0, 5)
    topic.delete_records(1, topic.find_end(1))
    report = ingest(world, topic, on)
    assert read(world, topic) == topic.records
    assert world.state(0, topic.name).log_start_offset == 5
    assert world.state(1, topic.name).log_end_offset == topic.find_end(1)
    assert any("do not begin at offset 0" in notice for notice in report.notices)


def test_a_partition_seen_empty_and_deleted_from_since_is_a_gap(broker: KafkaBroker, world: World) -> None:
    topic = create_live_topic(broker, partitions=1)
    ingest(world, topic)
    topic.write(make_rows(random.Random(6), 10, partitions=1))
    topic.delete_records(0, 4)
    with pytest.raises(BadInputError, match=f"{topic.name}-0 from 0 to 3"):
        ingest(world, topic)


def test_offsets_that_were_set_back_are_refused(broker: KafkaBroker, world: World) -> None:
    topic, other = create_live_topic(broker, partitions=1), create_live_topic(broker, partitions=1)
    topic.write(make_rows(random.Random(8), 5, partitions=1))
    other.write(make_rows(random.Random(8), 9, partitions=1))
    path = write_jsonl(world.path(), other.records)
    world.create(1, topic.name)
    ingest_files(world.installation, topic.name, [path], as_of_ms=world.clock())
    with pytest.raises(BadInputError, match=r"were set back: .* ends at offset 5, but .* holds it up to offset 9"):
        ingest(world, topic)


def test_records_without_a_key_are_refused_with_their_offset(broker: KafkaBroker, world: World, on: str) -> None:
    topic = create_live_topic(broker, 1)
    topic.write([(0, b"k", b"1", BASE_MS, ()), (0, None, b"2", BASE_MS, ())])
    world.create(1, topic.name)
    with pytest.raises(BadInputError, match="offset 1"):
        ingest(world, topic, on)
    assert not read(world, topic)


def test_records_without_a_key_go_to_the_quarantine_where_the_topic_says_so(
    broker: KafkaBroker, world: World, on: str
) -> None:
    topic = create_live_topic(broker, partitions=1)
    topic.write([(0, b"k", b"1", BASE_MS, ()), (0, None, b"2", BASE_MS, ()), (0, b"k", b"3", BASE_MS, ())])
    world.create(1, topic.name, winnow_keyless="quarantine")
    report = ingest(world, topic, on)
    assert (report.records_appended, report.records_quarantined) == (2, 1)
    assert [each.offset for each in read(world, topic)] == [0, 2]
    assert ingest(world, topic, on).snapshot_id is None


def test_added_partitions_are_added_here_and_said(broker: KafkaBroker, world: World, on: str) -> None:
    topic = create_live_topic(broker, partitions=1)
    topic.write(make_rows(random.Random(9), 5, partitions=1))
    ingest(world, topic, on)
    topic.add_partitions(3)
    topic.write(make_rows(random.Random(10), 30, partitions=3))
    report = ingest(world, topic, on)
    assert read(world, topic) == topic.records
    assert any("has 3 partitions now" in notice for notice in report.notices)


def test_first_records_of_an_added_partition_deleted_before_they_were_read_are_a_gap(
    broker: KafkaBroker, world: World, on: str
) -> None:
    topic = create_live_topic(broker, partitions=1)
    topic.write(make_rows(random.Random(9), 5, partitions=1))
    ingest(world, topic, on)
    kept = read(world, topic)
    topic.add_partitions(2)
    topic.write([(1, b"k%d" % number, b"v", BASE_MS, ()) for number in range(6)])
    topic.delete_records(1, 4)
    with pytest.raises(BadInputError, match=rf"{topic.name}-1 from 0 to 3.* --accept-gap"):
        ingest(world, topic, on)
    assert read(world, topic) == kept
    assert len(world.head(topic.name).state.partitions) == 1
    report = ingest(world, topic, on, accepts_gap=True)
    assert read(world, topic) == topic.records
    assert any("offsets 0 to 3 were deleted" in notice for notice in report.notices)
    *_, ledger = read_ledgers(world.head(topic.name).state)
    assert ledger.choices["accepted-gap.1"] == "0-3"


def test_another_configuration_is_said_and_taken_over_on_demand(broker: KafkaBroker, world: World) -> None:
    topic = create_live_topic(broker, 1, cleanup_policy="compact", min_cleanable_dirty_ratio="0.25")
    report = ingest(world, topic)
    assert any(
        "min.cleanable.dirty.ratio differs: here 0.5, at Kafka 0.25 (topic)" in notice for notice in report.notices
    )
    ingest(world, topic, configuration=TakingRules(takes=True))
    log = world.installation.log.open(topic.name)
    assert log.config(log.head()).min_cleanable_dirty_ratio == 0.25


def test_a_broker_that_is_gone_is_a_service_that_cannot_be_reached(broker: KafkaBroker, world: World) -> None:
    topic = create_live_topic(broker, partitions=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("winnow.kafka.cluster.REQUEST_TIMEOUT_S", 1.0)
        cluster = Cluster(read_client_settings("127.0.0.1:1"))
        with pytest.raises(ServiceError, match=r"127\.0\.0\.1:1 cannot be reached"):
            ingest_kafka_topics(world.installation, cluster, {topic.name: topic.name}, KafkaRequest(), as_of_ms=1)


# ------------------------------------------------------------------------------------------------ beside each other


def test_two_calls_at_once_append_every_record_once(broker: KafkaBroker, world: World, on: str) -> None:
    topic = create_live_topic(broker)
    topic.write(make_rows(random.Random(11), 40))
    with (
        run_between_head_and_commit(lambda: ingest(world, topic, on)),
        pytest.raises(CommitConflictError, match="Another call ingested"),
    ):
        ingest(world, topic, on)
    assert read(world, topic) == topic.records


def test_an_undone_call_is_read_again(broker: KafkaBroker, world: World, on: str) -> None:
    topic = create_live_topic(broker)
    topic.write(make_rows(random.Random(12), 20))
    ingest(world, topic, on)
    topic.write(make_rows(random.Random(13), 20))
    report = ingest(world, topic, on)
    assert report.ingest_id is not None
    undo_ingest(world.installation, topic.name, report.ingest_id)
    assert len(read(world, topic)) == 20
    ingest(world, topic, on)
    assert read(world, topic) == topic.records


def test_the_undone_first_call_leaves_no_epoch(broker: KafkaBroker, world: World) -> None:
    topic = create_live_topic(broker)
    topic.write(make_rows(random.Random(12), 20))
    report = ingest(world, topic)
    assert report.ingest_id is not None
    undo_ingest(world.installation, topic.name, report.ingest_id)
    assert world.head(topic.name).state.epochs == ()
    ingest(world, topic)
    assert read(world, topic) == topic.records


# ------------------------------------------------------------------------------------------------ epochs, and files


def test_a_new_epoch_goes_on_at_the_end_of_the_log(broker: KafkaBroker, world: World, on: str) -> None:
    topic = create_live_topic(broker, partitions=2)
    topic.write(make_rows(random.Random(14), 30))
    ingest(world, topic, on)
    first = read(world, topic)
    ends = [world.state(p, topic.name).log_end_offset for p in range(2)]
    topic.delete()
    again = create_live_topic(broker, 2, topic.name)
    again.write(make_rows(random.Random(15), 30, start_ms=BASE_MS + 60_000))
    report = ingest(world, again, on, begins_epoch=True)
    moved = [Record(r.offset + ends[r.partition], *_rest(r)) for r in again.records]
    assert read(world, topic) == sorted([*first, *moved], key=lambda each: (each.partition, each.offset))
    assert any("epoch 2" in notice for notice in report.notices)
    again.write(make_rows(random.Random(16), 10))
    ingest(world, again, on)
    moved = [Record(r.offset + ends[r.partition], *_rest(r)) for r in again.records]
    assert read(world, topic) == sorted([*first, *moved], key=lambda each: (each.partition, each.offset))
    with pytest.raises(UsageError, match="no new epoch"):
        ingest(world, again, on, begins_epoch=True)


def _rest(record: Record) -> tuple[Any, ...]:
    return record.key, record.value, record.timestamp_ms, record.headers, record.timestamp_type, record.partition


def test_a_log_of_files_goes_on_with_the_brokers_once_its_newest_records_are_theirs(
    broker: KafkaBroker, world: World, on: str
) -> None:
    topic = create_live_topic(broker, partitions=2)
    topic.write(make_rows(random.Random(17), 30))
    path = write_jsonl(world.path(), topic.records)
    world.create(2, topic.name)
    ingest_files(world.installation, topic.name, [path], as_of_ms=world.clock())
    topic.write(make_rows(random.Random(18), 30))
    report = ingest(world, topic, on)
    assert read(world, topic) == topic.records
    assert any("were compared with the brokers'" in notice for notice in report.notices)


def test_a_log_of_files_of_another_topic_is_not_gone_on_with(broker: KafkaBroker, world: World) -> None:
    topic, other = create_live_topic(broker, partitions=1), create_live_topic(broker, partitions=1)
    topic.write(make_rows(random.Random(17), 30, partitions=1))
    other.write(make_rows(random.Random(18), 10, partitions=1))
    world.create(1, topic.name)
    ingest_files(world.installation, topic.name, [write_jsonl(world.path(), other.records)], as_of_ms=world.clock())
    with pytest.raises(BadInputError, match="is not the one that"):
        ingest(world, topic)
    assert len(read(world, topic)) == 10


def test_what_cannot_be_compared_any_more_is_believed_only_on_demand(broker: KafkaBroker, world: World) -> None:
    topic = create_live_topic(broker, partitions=1)
    topic.write(make_rows(random.Random(19), 10, partitions=1))
    world.create(1, topic.name)
    held = list(topic.records)
    ingest_files(world.installation, topic.name, [write_jsonl(world.path(), held)], as_of_ms=world.clock())
    topic.delete_records(0, 10)
    topic.write(make_rows(random.Random(20), 10, partitions=1))
    with pytest.raises(BadInputError, match="--trust-offsets"):
        ingest(world, topic)
    ingest(world, topic, trusts_offsets=True)
    assert read(world, topic) == [*held, *topic.records]


def test_the_state_names_the_topic_s_id_and_how_far_it_was_read(broker: KafkaBroker, world: World) -> None:
    topic = create_live_topic(broker, partitions=1)
    topic.write(make_rows(random.Random(21), 10, partitions=1))
    report = ingest(world, topic)
    (epoch,) = world.head(topic.name).state.epochs
    found = Cluster(read_client_settings(broker.bootstrap_servers)).describe_topics([topic.name])[topic.name]
    leader_epochs: dict[int, tuple[LeaderEpoch, ...]] = {0: (LeaderEpoch(0, 0, 10),)}
    assert epoch == Epoch(topic.name, found.topic_id, {}, {0: 10}, report.ingest_id or "", leader_epochs=leader_epochs)


def test_small_calls_stay_in_the_process_and_large_ones_go_to_spark(
    broker: KafkaBroker, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def submit(installation: Any, plans: Any, *rest: Any) -> Any:
        asked.append(len(plans))
        return carry_out_plans_in_process(installation, plans, *rest)

    monkeypatch.setattr(kafka_run, "submit_ingest_plans", submit)
    topic = create_live_topic(broker)
    cluster = Cluster(read_client_settings(broker.bootstrap_servers))
    for limit, submitted in ((1_000, 0), (1, 1)):
        ingest_settings = world.installation.settings.ingest.model_copy(update={"spark_from_records": limit})
        settings = world.installation.settings.model_copy(update={"ingest": ingest_settings})
        topic.write(make_rows(random.Random(22), 10))
        installation = replace(world.installation, settings=settings)
        ingest_kafka_topics(
            installation, cluster, {topic.name: topic.name}, KafkaRequest(creates=True), as_of_ms=world.clock()
        )
        assert len(asked) == submitted
    assert read(world, topic) == topic.records
