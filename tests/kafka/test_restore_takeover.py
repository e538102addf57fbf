"""A restore that another one takes over writes nothing more and says so; an error that is none is told as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from tests.kafka.restored_topics import (
    Target,
    assert_restored,
)
from tests.support.world import World
from winnow.errors import (
    ServiceError,
    TopicBusyError,
)
from winnow.kafka.transactional_writer import TransactionalWriter
from winnow.values.model import Record


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
