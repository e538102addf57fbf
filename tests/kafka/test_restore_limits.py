"""A restored topic takes the archive's largest record and has its settings; what it cannot take is said before."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from tests.kafka.restored_topics import KEEPING, Target, list_rows, read_configuration
from tests.support.world import TOPIC, World, build_versions, record
from winnow.errors import BadInputError, ConfigurationError, ServiceError
from winnow.kafka import range_reader
from winnow.kafka.client import make_consumer
from winnow.kafka.client_settings import ClientSettings
from winnow.kafka.target_topic import TargetTopic
from winnow.kafka.transactional_writer import TransactionalWriter
from winnow.pipeline.restore import open_restore, write_records
from winnow.pipeline.restore.record_sizes import compute_record_sizes
from winnow.pipeline.restore.restore import restore_topic
from winnow.pipeline.restore.restore_request import RestoreRequest
from winnow.store.audit import AuditAction
from winnow.store.rows import Window
from winnow.values.model import Record

LARGE = random.Random(1).randbytes(5_000_000)


def make_large_log(world: World, **config: str) -> list[Record]:
    """A log with a record of 5 MB amid small ones."""
    world.create(1, **config)
    records = [*build_versions(0, 500), record(500, b"large", LARGE), *build_versions(501, 20)]
    world.ingest(records)
    return records


def list_audit(world: World) -> list[str]:
    """The details of the restores, oldest first."""
    found = world.installation.store.audit.list_entries(Window(1, 100), action=AuditAction.RESTORE_RECORDS.value)
    return [entry.detail for entry in reversed(found.rows)]


def test_a_record_of_5_mb_comes_back_and_no_transaction_is_aborted_for_it(world: World, target: Target) -> None:
    records = make_large_log(world, max_message_bytes="6000000")
    target.restore(world)
    written = target.read("read_uncommitted")
    assert [(number, row) for number, _, row in written] == list_rows(records)
    assert read_configuration(target)["max.message.bytes"] == "6000000"


def test_a_record_that_is_larger_than_the_archives_own_limit_comes_back_and_the_limit_is_the_archives_again(
    world: World, target: Target
) -> None:
    records = make_large_log(world)
    report = target.restore(world)
    assert [(number, row) for number, _, row in target.read("read_uncommitted")] == list_rows(records)
    assert read_configuration(target)["max.message.bytes"] == "1048588"
    assert any("takes no other of that size" in notice for notice in report.notices)


def test_a_topic_that_does_not_take_the_largest_record_is_refused_before_anything_is_written(
    world: World, target: Target
) -> None:
    records = make_large_log(world)
    target.create(1, **KEEPING)
    with pytest.raises(BadInputError, match=r"offset 500 that needs 5,000,\d\d\d bytes") as refused:
        target.restore(world)
    assert target.read("read_uncommitted") == []
    assert len(world.head().table.metadata.refs) == 1
    wanted = str(refused.value).rpartition("max.message.bytes=")[2]
    TargetTopic(target.settings, target.name).alter_configuration({"max.message.bytes": wanted})
    target.restore(world)
    assert [(number, row) for number, _, row in target.read()] == list_rows(records)


def test_small_records_go_into_a_topic_that_takes_small_batches_only(world: World, target: Target) -> None:
    world.create(1, max_message_bytes="2000")
    records = [record(n, b"%d" % n, random.Random(n).randbytes(150)) for n in range(300)]
    world.ingest(records)
    target.restore(world)
    assert [(number, row) for number, _, row in target.read("read_uncommitted")] == list_rows(records)
    assert read_configuration(target)["max.message.bytes"] == "2000"


def test_the_target_has_the_archives_settings_where_the_brokers_have_others(
    world: World, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic is created by brokers with defaults of their own."""
    genuine = TargetTopic.create

    def create(topic: TargetTopic, partitions: int, replicas: int | None, *values: dict[str, str]) -> None:
        genuine(topic, partitions, replicas, *values)
        # Set where a default of the brokers would be in force.
        topic.alter_configuration({"delete.retention.ms": "5", "min.cleanable.dirty.ratio": "0.9"})

    monkeypatch.setattr(TargetTopic, "create", create)
    monkeypatch.setattr(open_restore, "is_restoring", lambda found: True)
    world.create(1, min_compaction_lag_ms="7")
    world.ingest(build_versions(0, 5))
    target.restore(world)
    found = read_configuration(target)
    assert found["delete.retention.ms"] == "86400000"
    assert found["min.cleanable.dirty.ratio"] == "0.5"
    assert found["min.compaction.lag.ms"] == "7"
    assert found["cleanup.policy"] == "compact"


def test_the_size_of_a_record_counts_its_key_value_and_every_header(world: World) -> None:
    world.create(1)
    headers = (("name", b"x" * 1_000), ("name", b"x" * 1_000), ("other", None))
    world.ingest([record(0, b"k", b"v"), Record(1, b"k" * 10, b"v" * 100, 5, headers, 0, 0), record(2, b"k", None)])
    from winnow.files.checked_reading import read_segment

    sizes = [size for batch in read_segment(world.segments()[0]) for size in compute_record_sizes(batch)]
    assert 2_100 < sizes[1] - sizes[2] < 2_200
    assert sizes[0] - sizes[2] == 1


class Refused:
    """A producer whose fourth positions are refused, as if the topic's limit had been lowered meanwhile."""

    def __init__(self, producer: Producer) -> None:
        self._producer, self._count = producer, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def send_offsets_to_transaction(self, *arguments: Any) -> None:
        self._count += 1
        if self._count == 5:
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        self._producer.send_offsets_to_transaction(*arguments)


def test_what_is_said_after_committed_transactions_is_what_they_hold_and_how_to_go_on(
    world: World, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that is said then says that nothing was changed."""
    world.create(2)
    records = build_versions(0, 1_000)
    world.ingest(records)
    genuine = TransactionalWriter._make_producer
    monkeypatch.setattr(TransactionalWriter, "_make_producer", lambda writer: Refused(genuine(writer)))
    monkeypatch.setattr(write_records, "TRANSACTION_BYTES", 5_000)
    with pytest.raises(ConfigurationError, match=r"max\.message\.bytes") as failed:
        target.restore(world)
    message = str(failed.value)
    committed = len(target.read())
    assert 0 < committed < len(records)
    what = f"Known to be committed in topic {target.name}: {committed:,} records in 1 of 2 partitions"
    assert failed.value.left == f"{what}, {committed:,} of them by this call."
    assert "Run the same command again" in failed.value.next
    give_up = f"--target-topic {target.name} --bootstrap-servers {target.servers} --abandon"
    assert message.endswith(f"To give it up: winnow restore {TOPIC} {give_up}")
    assert "not changed" not in message
    assert "Nothing" not in message
    assert any(f"stopped. {what}, {committed:,} of them by this call." in detail for detail in list_audit(world))
    with pytest.raises(ConfigurationError, match=r"max\.message\.bytes") as failed:
        target.restore(world)
    more = len(target.read())
    assert f"{more:,} records in 1 of 2 partitions, {more - committed:,} of them by this call" in str(failed.value)
    monkeypatch.undo()
    target.restore(world)
    assert [(number, row) for number, _, row in target.read()] == list_rows(records)
    assert any(detail.endswith(f"complete, {len(records):,} records") for detail in list_audit(world))


def test_a_restore_that_only_had_to_be_configured_has_its_records_in_the_audit_log(
    world: World, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create(1)
    world.ingest(build_versions(0, 20))

    def fail(*arguments: object) -> None:
        raise ServiceError("the brokers are away.")

    monkeypatch.setattr(TargetTopic, "alter_configuration", fail)
    with pytest.raises(ServiceError, match=r"20 records are in topic .*, all read back\. Run the same"):
        target.restore(world)
    monkeypatch.undo()
    target.restore(world)
    assert any(detail.endswith("complete, 20 records") for detail in list_audit(world))


def test_brokers_that_cannot_be_reached_have_nothing_and_that_is_said(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create(1)
    monkeypatch.setattr("winnow.kafka.target_topic.REQUEST_TIMEOUT_S", 1)
    monkeypatch.setattr("winnow.kafka.cluster.REQUEST_TIMEOUT_S", 1)
    with pytest.raises(ServiceError, match="Nothing was written to topic restored") as failed:
        restore_topic(
            world.installation, RestoreRequest(TOPIC, "restored", tmp_path / "o"), ClientSettings("localhost:1")
        )
    assert "The log was not changed" not in str(failed.value)
    assert list_audit(world) == []


def test_properties_that_the_library_refuses_after_commits_are_not_said_to_have_changed_nothing(
    world: World, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clients that read back are made when all records are committed."""
    world.create(1)
    world.ingest(build_versions(0, 20))
    genuine = make_consumer

    def make(settings: ClientSettings, **named: Any) -> Any:
        wrong = ClientSettings(
            settings.bootstrap_servers, properties={"security.protocol": "sasl_plaintext", "sasl.mechanism": "NONE"}
        )
        return genuine(wrong, **named)

    monkeypatch.setattr(range_reader, "make_consumer", make)
    with pytest.raises(ConfigurationError, match="refuses the client properties") as failed:
        target.restore(world)
    message = str(failed.value)
    assert f"Known to be committed in topic {target.name}: 20 records" in message
    assert "not changed" not in message
    assert "Nothing" not in message


def test_topic_without_brokers_for_its_replicas_is_refused_with_the_number_that_there_are(
    world: World, target: Target
) -> None:
    world.create(1)
    with pytest.raises(ConfigurationError, match=r"has 1 broker\..* Say --replication-factor 1") as refused:
        target.restore(world, replication_factor=3)
    assert f"Nothing was written to topic {target.name}." in str(refused.value)
    assert target.describe() is None
