"""Opens and closes alerts and delivers them to every channel."""

from __future__ import annotations

import http.client
import json
import logging
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from email.message import Message
from typing import IO, Protocol

from winnow.clock import Clock
from winnow.config.settings import Settings
from winnow.documents import dump_json, load_json
from winnow.errors import ServiceError, WinnowError
from winnow.report import events
from winnow.report.alerts import RELEASABLE, SEVERITIES, Alert, AlertKind, Situation, make_alert, make_recovery
from winnow.results import Delivery, OpenAlert

WEBHOOK = "webhook"

WEBHOOK_TIMEOUT_S = 10


class Channel(Protocol):
    """Takes alerts. ``name`` is the same in every process of an installation."""

    @property
    def name(self) -> str:
        """Under which what it has not taken yet is kept."""

    def deliver(self, alert: Alert) -> None:
        """Deliver ``alert``; any exception means that it was not delivered."""


class Webhook:
    """Posts each alert as a JSON document."""

    name = WEBHOOK

    def __init__(self, url: str) -> None:
        self._url = url

    def deliver(self, alert: Alert) -> None:
        """Post it.

        Raises:
            ServiceError: no answer, or one that is not success. The message holds no part of the address.
        """
        body = json.dumps(asdict(alert)).encode()
        request = urllib.request.Request(self._url, data=body, headers={"Content-Type": "application/json"})
        try:
            with _opener.open(request, timeout=WEBHOOK_TIMEOUT_S):
                return
        except urllib.error.HTTPError as problem:
            problem.close()
            raise ServiceError(f"The webhook answered {problem.code}.") from None
        except (OSError, http.client.HTTPException) as problem:
            raise ServiceError(f"The webhook does not answer ({_describe_failure(problem)}).") from None


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirected POST would arrive as a GET without its document, and count as delivered."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirects)


def _describe_failure(problem: Exception) -> str:
    cause = problem.reason if isinstance(problem, urllib.error.URLError) else problem
    words = cause.strerror if isinstance(cause, OSError) else None
    return words or type(cause).__name__


def make_channels(settings: Settings) -> tuple[Channel, ...]:
    """The channels that need nothing but the settings."""
    webhook = settings.alert.webhook
    return () if webhook is None else (Webhook(webhook.get_secret_value()),)


def list_queue_names(settings: Settings) -> tuple[str, ...]:
    """The names of all channels of an installation, also of those that Airflow alone can drive."""
    notifiers = [make_notifier_name(number, each.path) for number, each in enumerate(settings.alert.notifiers)]
    return (*(channel.name for channel in make_channels(settings)), *notifiers)


def make_notifier_name(number: int, path: str) -> str:
    """The name of the notifier that stands at ``number`` (from 0) in the settings."""
    return f"notifiers.{number}.{path}"


def list_channel_names(channels: Sequence[Channel]) -> list[str]:
    """The names of ``channels``."""
    return [channel.name for channel in channels]


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
        """Alert, in the log and through every channel, of what in ``situation`` is not open already; None: all is."""
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
        """Close without a message what a worse alert now covers, or what can no longer be repaired."""
        with self._ignore_failures(f"{topic}: an alert could not be closed."):
            self.memory.forget_all(topic, kinds, partitions, self.now_ms(), lambda _: ())

    def release(self, topic: str, partitions: Collection[int], why: str) -> None:
        """Mark alerts of ``partitions`` as released: a new failure alerts again, a recovery names them."""
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
        except Exception as problem:  # an alert that fails must not fail the run
            # A stranger's words may quote data.
            words = str(problem) if isinstance(problem, WinnowError) else f"Unexpected {type(problem).__name__}."
            log.error("%s", otherwise)
            log.error("The metadata store did not take this alert, so it is in this log alone: %s", words)


@dataclass(slots=True)
class _AnnouncedAlert:
    alert: Alert | None = field(default=None)
