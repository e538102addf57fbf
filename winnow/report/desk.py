"""Raises alerts once, says when they are over, and sees to it that every channel gets every message at least once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from winnow.clock import Clock
from winnow.documents import dump_json, load_json
from winnow.errors import WinnowError
from winnow.model import Delivery, OpenAlert
from winnow.report import events
from winnow.report.alerts import RELEASABLE, SEVERITIES, Alert, AlertKind, Situation, make_alert, make_recovery
from winnow.report.channels import Channel

log = logging.getLogger("winnow.alerts")

MAXIMUM_CLAIM_MS = 5 * 60_000
"""How long a channel may take for one message before another process tries it too."""
RETRY_MS = 60_000
"""How long a channel that did not take a message is left alone."""
STALE_MS = 3_600_000
"""A message that its channel has not taken for so long holds up the others no more."""
MAXIMUM_REFUSALS = 5
"""A channel that took none of so many messages in a row is away."""
GIVE_UP_MS = 3 * 86_400_000
"""A message that no channel took for so long is news no more; the log and the page have it."""

Compose = Callable[[Sequence[OpenAlert]], Sequence[tuple[str, str]]]


class AlertStore(Protocol):
    """Keeps open alerts and undelivered messages; the metadata store is one (:mod:`winnow.store.alerts`)."""

    def remember_all(self, alerts: Sequence[OpenAlert], now_ms: int, compose: Compose) -> list[OpenAlert]:
        """Open ``alerts``; those that were not open before."""

    def forget_all(
        self, topic: str, kinds: Collection[str], partitions: Collection[int] | None, now_ms: int, compose: Compose
    ) -> list[OpenAlert]:
        """Close alerts; those that were open."""

    def release(self, topic: str, kinds: Collection[str], partitions: Collection[int], why: str) -> None:
        """Note that somebody took them in hand."""

    def claim_delivery(self, channel: str, now_ms: int, until_ms: int, *, stale_before_ms: int = 0) -> Delivery | None:
        """The oldest message that ``channel`` has not taken, for this caller alone."""

    def postpone_delivery(self, key: str, until_ms: int) -> None:
        """It was not taken."""

    def finish_delivery(self, key: str) -> None:
        """It was taken."""

    def drop_deliveries(self, before_ms: int) -> int:
        """Give up what is older; how many messages."""


@dataclass(frozen=True, slots=True)
class AlertManager:
    """Where the pipeline says what is wrong and what is well again. Nothing here ever decides how a run ends.

    ``channels``: those that this process can drive. ``queues``: the names of all that the installation has; what is for
    another waits until a process that can drive it comes by. ``page_url``: Airflow's address, for links.
    """

    memory: AlertStore
    now_ms: Clock
    channels: Sequence[Channel] = ()
    queues: Sequence[str] = ()
    page_url: str | None = None

    def open_alert(self, situation: Situation) -> Alert | None:
        """Tell of ``situation`` what is not open already, in the log and through every channel. None: all was told."""
        told = _AnnouncedAlert()

        def compose(fresh: Sequence[OpenAlert]) -> list[tuple[str, str]]:
            told.alert = make_alert(situation, fresh, self.page_url)
            return self._enqueue_for_channels(told.alert)

        with self._ignore_failures(situation.sentences):
            self.memory.remember_all(situation.open_alerts, situation.at_ms, compose)
            if told.alert is not None:
                self._announce(told.alert)
        return told.alert

    def recover(
        self,
        topic: str,
        kinds: Collection[AlertKind],
        partitions: Collection[int] | None,
        how: str,
        *,
        plan_id: str | None = None,
        safe: str | None = None,
    ) -> Alert | None:
        """Close what is open of ``kinds`` about ``partitions`` (None = all) and about the topic, and say so.

        ``how`` completes the sentence "Recovered: orders-0 …". None: nothing was open.
        """
        told = _AnnouncedAlert()
        now_ms = self.now_ms()
        more = {} if safe is None else {"safe": safe}

        def compose(ended: Sequence[OpenAlert]) -> list[tuple[str, str]]:
            told.alert = make_recovery(topic, ended, how, at_ms=now_ms, page_url=self.page_url, plan_id=plan_id, **more)
            return self._enqueue_for_channels(told.alert)

        with self._ignore_failures(f"{topic} {how}."):
            self.memory.forget_all(topic, kinds, partitions, now_ms, compose)
            if told.alert is not None:
                self._announce(told.alert)
        return told.alert

    def supersede(self, topic: str, kinds: Collection[AlertKind], partitions: Collection[int] | None) -> None:
        """Close without a word what a worse alert stands for from now on, or what nobody can mend any more."""
        with self._ignore_failures(f"{topic}: an alert could not be closed."):
            self.memory.forget_all(topic, kinds, partitions, self.now_ms(), lambda _: ())

    def release(self, topic: str, partitions: Collection[int], why: str) -> None:
        """Somebody released ``partitions``: told again if they fail again, and named when they recover."""
        with self._ignore_failures(f"{topic}: an alert could not be marked as released."):
            self.memory.release(topic, RELEASABLE, partitions, why)

    def deliver(self) -> int:
        """Send what channels have not taken yet; how many messages they took now."""
        delivered = 0
        with self._ignore_failures("Messages that wait for their channels could not be read."):
            dropped = self.memory.drop_deliveries(self.now_ms() - GIVE_UP_MS)
            if dropped:
                log.error("%d alert message(s) were given up: their channel took none for three days.", dropped)
            for channel in self.channels:
                delivered += self._deliver_queue(channel)
        return delivered

    def _enqueue_for_channels(self, alert: Alert) -> list[tuple[str, str]]:
        document = dump_json(alert).decode()
        return [(name, document) for name in self.queues]

    def _announce(self, alert: Alert) -> None:
        sentences = f"{alert.message} {alert.safe} {alert.next}"
        if alert.link is not None:
            sentences = f"{sentences} ({alert.link})"
        if alert.kind is AlertKind.RECOVERED:
            events.log_event(
                "recovered", alert.topic, level=logging.WARNING, message=sentences, partitions=alert.partitions
            )
        else:
            level = logging.WARNING if SEVERITIES[alert.kind] == "warning" else logging.ERROR
            events.log_event(
                "alerted",
                alert.topic,
                level=level,
                message=sentences,
                kind=alert.kind.value,
                partitions=alert.partitions,
            )
        for channel in self.channels:
            self._deliver_queue(channel)

    def _deliver_queue(self, channel: Channel) -> int:
        taken = refused = 0
        while refused < MAXIMUM_REFUSALS:
            now_ms = self.now_ms()
            stale_before_ms = now_ms - STALE_MS
            delivery = self.memory.claim_delivery(
                channel.name, now_ms, now_ms + MAXIMUM_CLAIM_MS, stale_before_ms=stale_before_ms
            )
            if delivery is None:
                break
            try:
                channel.deliver(load_json(Alert, delivery.document.encode()))
            except Exception as problem:  # an alert that cannot be delivered must not turn an outcome into another one
                refused += 1
                self.memory.postpone_delivery(delivery.key, self.now_ms() + RETRY_MS)
                # A stranger's words may quote the address, which is a secret.
                words = str(problem) if isinstance(problem, WinnowError) else f"{type(problem).__name__}."
                log.error("Channel %s did not take an alert: %s It is tried again later.", channel.name, words)
            else:
                self.memory.finish_delivery(delivery.key)
                taken += 1
                refused = 0
        return taken

    @contextmanager
    def _ignore_failures(self, otherwise: str) -> Iterator[None]:
        try:
            yield
        except Exception as problem:  # whatever it is, what the pipeline did is done
            # A stranger's words may quote data.
            words = str(problem) if isinstance(problem, WinnowError) else f"Unexpected {type(problem).__name__}."
            log.error("%s", otherwise)
            log.error("The metadata store did not take this alert, so it is in this log alone: %s", words)


@dataclass(slots=True)
class _AnnouncedAlert:
    alert: Alert | None = field(default=None)
