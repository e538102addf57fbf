"""A broker that does not know some settings takes a restore; what is left out is said."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.kafka_broker import KafkaBroker, run_broker
from tests.kafka.restored_topics import Target, assert_restored, make_log, read_configuration
from tests.support.world import World
from winnow.errors import BadInputError
from winnow.kafka.target_topic import TargetTopic

VERSION = "3.3.2"
"""It checks the names of settings, and has no ``message.timestamp.before.max.ms``, which came with 3.6."""


@pytest.fixture(scope="module")
def old_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with run_broker(tmp_path_factory.mktemp("old"), version=VERSION) as running:
        yield running


def test_settings_that_the_brokers_do_not_know_are_left_out_and_said(world: World, old_broker: KafkaBroker) -> None:
    records = make_log(world, rounds=10, retention_ms="1000")
    target = Target(old_broker.bootstrap_servers)
    report = target.restore(world)
    assert_restored(target, records)
    found = read_configuration(target)
    assert found["cleanup.policy"] == "compact"
    assert found["retention.ms"] == "1000"
    assert found["message.timestamp.difference.max.ms"] == str(2**63 - 1)
    own = TargetTopic(target.settings, target.name).describe()
    assert own is not None
    assert "message.timestamp.difference.max.ms" not in own.topic.configuration
    left_out = "do not know message.timestamp.before.max.ms, message.timestamp.after.max.ms, which was left out"
    assert any(left_out in notice for notice in report.notices)


def test_topic_that_does_not_take_old_timestamps_is_refused_with_the_setting_that_its_brokers_know(
    world: World, old_broker: KafkaBroker
) -> None:
    make_log(world, rounds=10)
    target = Target(old_broker.bootstrap_servers)
    target.create(2, retention_ms="-1", segment_ms=str(2**63 - 1), message_timestamp_difference_max_ms="1000")
    with pytest.raises(
        BadInputError, match=r"--add-config message\.timestamp\.difference\.max\.ms=9223372036854775807"
    ):
        target.restore(world)
    assert target.read() == []
