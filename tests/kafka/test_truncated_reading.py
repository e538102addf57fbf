"""A broker that says that records are gone: it is asked again, and believed only if it stays with that."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.kafka_broker import KafkaBroker
from tests.kafka.live_topics import LiveTopic, create_live_topic, make_rows
from tests.kafka.test_ingest_kafka import ingest
from tests.support.in_process_ingest import carry_out_plans_in_process
from tests.support.world import open_world
from winnow.errors import BadInputError, RunAgainError
from winnow.kafka import range_reader
from winnow.kafka.client_settings import read_client_settings
from winnow.kafka.range_reader import TRUNCATION_PAUSES_S, BrokerRange, RangeReader, TruncatedRangeError
from winnow.pipeline.ingest.kafka import ingest as kafka_ingest
from winnow.pipeline.ingest.kafka import reading as kafka_reading
from winnow.pipeline.ingest.kafka import run as kafka_run
from winnow.values.epochs import LeaderEpoch
from winnow.values.model import Record

THERE = 10
"""Records that a partition has when its reading begins."""


@pytest.fixture
def topic(broker: KafkaBroker) -> LiveTopic:
    made = create_live_topic(broker, partitions=1)
    write(made, THERE)
    return made


def write(topic: LiveTopic, count: int) -> None:
    topic.write(make_rows(random.Random(count), count, partitions=1))


def do_in_pauses(monkeypatch: pytest.MonkeyPatch, *actions: Callable[[], Any]) -> list[float]:
    """Let the reader, in place of waiting before it asks again, do one of ``actions``; return how long it waits."""
    waiting, pauses_s, sleep = list(actions), [], time.sleep

    def pause(seconds: float) -> None:
        if seconds not in TRUNCATION_PAUSES_S:
            sleep(seconds)
            return
        pauses_s.append(seconds)
        if waiting:
            waiting.pop(0)()

    monkeypatch.setattr(time, "sleep", pause)
    return pauses_s


def read(topic: LiveTopic, start: int, end: int, after: LeaderEpoch | None) -> list[int]:
    with RangeReader(read_client_settings(topic.broker.bootstrap_servers)) as reader:
        wanted = BrokerRange(topic.name, 0, start, end, after=after)
        return [offset for batch in reader.read(wanted) for offset in batch.column("offset").to_pylist()]


def end_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a broker that has nothing more say that the rest was lost, once some batches were read."""
    monkeypatch.setattr(range_reader, "MAXIMUM_BATCH_MESSAGES", 4)
    genuine = RangeReader._judge

    def judge(self: RangeReader, event: Any, wanted: BrokerRange) -> bool:
        if not genuine(self, event, wanted):
            raise TruncatedRangeError("It ends here.")
        return True

    monkeypatch.setattr(RangeReader, "_judge", judge)


def test_node_that_does_not_have_everything_yet_is_asked_again(
    topic: LiveTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses_s = do_in_pauses(monkeypatch, lambda: None, lambda: write(topic, 5))
    assert read(topic, THERE + 2, THERE + 5, LeaderEpoch(0, 0, THERE + 2)) == [THERE + 2, THERE + 3, THERE + 4]
    assert pauses_s == [0.25, 0.5]


def test_reading_goes_on_behind_the_last_record_that_the_broker_still_has(
    topic: LiveTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    end_early(monkeypatch)
    pauses_s = do_in_pauses(monkeypatch, lambda: write(topic, 5))
    assert read(topic, 0, THERE + 5, None) == [*range(THERE + 5)]
    assert pauses_s == [0.25]


def test_log_that_has_grown_again_is_no_answer_where_no_leader_epoch_is_checked(
    topic: LiveTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither where nothing is known of what was read before, nor where the broker tells no leader epochs."""
    pauses_s = do_in_pauses(monkeypatch, lambda: write(topic, 5))
    for after in (None, LeaderEpoch(-1, 0, THERE + 2)):
        with pytest.raises(TruncatedRangeError):
            read(topic, THERE + 2, THERE + 5, after)
    end_early(monkeypatch)
    monkeypatch.setattr(range_reader, "_get_leader_epoch", lambda _: -1)
    with pytest.raises(TruncatedRangeError):
        read(topic, 0, THERE + 5, None)
    assert pauses_s == []


def test_broker_that_stays_with_it_is_believed(topic: LiveTopic, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log grows, but what is in it is not of the leader epoch that was read."""
    pauses_s = do_in_pauses(monkeypatch, lambda: write(topic, 5))
    with pytest.raises(TruncatedRangeError, match="lost the end of its log"):
        read(topic, THERE + 2, THERE + 5, LeaderEpoch(4, 0, THERE + 2))
    assert tuple(pauses_s) == TRUNCATION_PAUSES_S


def test_broker_that_answers_before_the_library_has_taken_the_place_is_heard(
    topic: LiveTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library does not take it any more then."""
    genuine = RangeReader._seek

    def seek_late(*arguments: Any) -> None:
        time.sleep(1.1)
        genuine(*arguments)

    monkeypatch.setattr(RangeReader, "_seek", seek_late)
    monkeypatch.setattr(range_reader, "ASSIGNMENT_S", 5.0)
    pauses_s = do_in_pauses(monkeypatch, lambda: write(topic, 5))
    assert read(topic, THERE + 2, THERE + 5, LeaderEpoch(0, 0, THERE + 2)) == [THERE + 2, THERE + 3, THERE + 4]
    assert pauses_s == [0.25]


@pytest.mark.parametrize("on", ["local", "spark"])
def test_records_deleted_while_they_are_read_are_a_reason_to_run_it_again_which_names_the_gap(
    topic: LiveTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on: str
) -> None:
    genuine = kafka_reading.plan_reading
    monkeypatch.setattr(kafka_run, "submit_ingest_plans", carry_out_plans_in_process)
    with open_world(tmp_path) as world:
        ingest(world, topic, on)
        before: list[Record] = world.read(topic=topic.name)
        write(topic, 10)

        def delete_first(*arguments: Any) -> Any:
            planned = genuine(*arguments)
            topic.delete_records(0, THERE + 5)
            return planned

        pauses_s = do_in_pauses(monkeypatch)
        with monkeypatch.context() as late:
            late.setattr(kafka_ingest, "plan_reading", delete_first)
            with pytest.raises(RunAgainError, match=f"deleted records of {topic.name}-0"):
                ingest(world, topic, on)
        assert world.read(topic=topic.name) == before
        with pytest.raises(BadInputError, match=f"{topic.name}-0 from {THERE} to {THERE + 4}"):
            ingest(world, topic, on)
        assert pauses_s == []
