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
from winnow.errors import ServiceError, WinnowError
from winnow.report import events
from winnow.report.alert_kinds import RELEASABLE, AlertKind, Situation
from winnow.report.alerts import Alert, dump_message, list_alert_keys, make_alert, make_recovery, make_reminders
from winnow.values.counts import format_count
from winnow.values.documents import load_json
from winnow.values.results import Delivery, OpenAlert

WEBHOOK = "webhook"

WEBHOOK_TIMEOUT_S = 10


class Channel(Protocol):
    """A channel that delivers alerts. ``name`` is the same in every process of an installation."""

    @property
    def name(self) -> str:
        """Name under which the undelivered messages of this channel are kept."""

    def deliver(self, alert: Alert) -> None:
        """Deliver ``alert``; any exception means that it was not delivered."""


class Webhook:
    """Posts each alert as a JSON document."""

    name = WEBHOOK

    def __init__(self, url: str) -> None:
        self._url = url

    def deliver(self, alert: Alert) -> None:
        """Post ``alert``.

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
    """Refuses redirects: a redirected POST would arrive as a GET without its document, and count as delivered."""

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
    """Make the channels that need only the settings."""
    webhook = settings.alert.webhook
    return () if webhook is None else (Webhook(webhook.get_secret_value()),)


def list_queue_names(settings: Settings) -> tuple[str, ...]:
    """List the names of all channels of an installation, including those that only Airflow can use."""
    notifiers = [make_notifier_name(number, each.path) for number, each in enumerate(settings.alert.notifiers)]
    return (*(channel.name for channel in make_channels(settings)), *notifiers)


def make_notifier_name(number: int, path: str) -> str:
    """Make the name of the notifier at position ``number`` (from 0) in the settings."""
    return f"notifiers.{number}.{path}"


log = logging.getLogger("winnow.alerts")

MAXIMUM_CLAIM_MS = 5 * 60_000
"""Maximum time (ms) a channel may take for one message before another process tries it too."""

RETRY_MS = 60_000
"""Time (ms) before a channel that failed is tried again."""

STALE_MS = 3_600_000
"""Time (ms) after which an undelivered message no longer holds up the others."""

MAXIMUM_REFUSALS = 5
"""Maximum failed messages in a row before a channel counts as unreachable."""

GIVE_UP_MS = 3 * 86_400_000
"""Time (ms) after which an undelivered message is dropped; the log and the page still have it."""

Compose = Callable[[Sequence[OpenAlert]], Sequence[tuple[str, str]]]


class AlertStore(Protocol):
    """Interface of a store for open alerts and undelivered messages (:mod:`winnow.store.alerts` is one)."""

    def remember_all(self, alerts: Sequence[OpenAlert], now_ms: int, compose: Compose) -> list[OpenAlert]:
        """Open ``alerts``; return those that were not open before."""

    def forget_all(
        self,
        topic: str,
        kinds: Collection[str],
        partitions: Collection[int] | None,
        now_ms: int,
        compose: Compose,
        *,
        recovered: bool = True,
        how: str = "",
    ) -> list[OpenAlert]:
        """Close alerts; return those that were open. ``recovered`` and ``how``: for the history of alerts."""

    def release(self, topic: str, kinds: Collection[str], partitions: Collection[int], why: str, now_ms: int) -> None:
        """Record that a person works on them."""

    def end_mutes(self, now_ms: int, compose: Compose) -> list[OpenAlert]:
        """Write messages about open alerts whose mute is over, once; return them."""

    def are_muted(self, keys: Collection[str], now_ms: int) -> bool:
        """Check whether all of these alerts are muted."""

    def claim_delivery(self, channel: str, now_ms: int, until_ms: int, *, stale_before_ms: int = 0) -> Delivery | None:
        """Return the oldest message that ``channel`` has not delivered, for this caller alone."""

    def postpone_delivery(self, key: str, until_ms: int) -> None:
        """Record that the delivery failed."""

    def finish_delivery(self, key: str) -> None:
        """Record that the message was delivered."""

    def drop_deliveries(self, before_ms: int) -> int:
        """Drop older messages; return their number."""


@dataclass(frozen=True, slots=True)
class AlertManager:
    """Opens and closes the pipeline's alerts and delivers them. It never decides how a run ends.

    ``channels``: those that this process can use. ``queues``: names of all channels of the installation; messages for
    other channels wait for a process that can use them. ``page_url``: Airflow's address, for links.
    """

    memory: AlertStore
    now_ms: Clock
    channels: Sequence[Channel] = ()
    queues: Sequence[str] = ()
    page_url: str | None = None

    def open_alert(self, situation: Situation) -> Alert | None:
        """Alert, in the log and through every channel, of new findings in ``situation``; None if all are open."""
        made = _AnnouncedAlert()

        def compose(fresh: Sequence[OpenAlert]) -> list[tuple[str, str]]:
            made.alert = make_alert(situation, fresh, self.page_url)
            return self._enqueue_for_channels(made.alert)

        with self._ignore_failures(str(situation.explain())):
            fresh = self.memory.remember_all(situation.open_alerts, situation.at_ms, compose)
            if made.alert is not None:
                self._announce(made.alert)
            elif fresh:
                log.warning("Muted, so no channel gets this: %s", str(situation.explain()))
        return made.alert

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
        """Close open alerts of ``kinds`` about ``partitions`` (None = all) and about the topic; report the recovery.

        ``how`` completes the sentence "Recovered: orders-0 …". None: nothing was open.
        """
        made = _AnnouncedAlert()
        now_ms = self.now_ms()
        more = {} if safe is None else {"safe": safe}

        def compose(ended: Sequence[OpenAlert]) -> list[tuple[str, str]]:
            made.alert = make_recovery(topic, ended, how, at_ms=now_ms, page_url=self.page_url, plan_id=plan_id, **more)
            return self._enqueue_for_channels(made.alert)

        with self._ignore_failures(f"{topic} {how}."):
            self.memory.forget_all(topic, kinds, partitions, now_ms, compose, how=how)
            if made.alert is not None:
                self._announce(made.alert)
        return made.alert

    def supersede(self, topic: str, kinds: Collection[AlertKind], partitions: Collection[int] | None) -> None:
        """Close, without a message, alerts that a worse alert now covers, or that can no longer recover."""
        with self._ignore_failures(f"{topic}: an alert could not be closed."):
            self.memory.forget_all(topic, kinds, partitions, self.now_ms(), lambda _: (), recovered=False)

    def release(self, topic: str, partitions: Collection[int], why: str) -> None:
        """Mark alerts of ``partitions`` as released: a new failure alerts again, a recovery names them."""
        with self._ignore_failures(f"{topic}: an alert could not be marked as released."):
            self.memory.release(topic, RELEASABLE, partitions, why, self.now_ms())

    def deliver(self) -> int:
        """Send undelivered messages, and alerts that are open after their mute; return how many were delivered."""
        delivered = 0
        with self._ignore_failures("Mutes that are over could not be read."):
            self.memory.end_mutes(self.now_ms(), self._compose_reminders)
        with self._ignore_failures("Messages that wait for their channels could not be read."):
            dropped = self.memory.drop_deliveries(self.now_ms() - GIVE_UP_MS)
            if dropped:
                log.error(
                    "Dropped, since their channel accepted none for three days: %s.",
                    format_count(dropped, "alert message"),
                )
            for channel in self.channels:
                delivered += self._deliver_queue(channel)
        return delivered

    def _compose_reminders(self, unmuted: Sequence[OpenAlert]) -> list[tuple[str, str]]:
        made = make_reminders(unmuted, at_ms=self.now_ms(), page_url=self.page_url)
        return [message for alert in made for message in self._enqueue_for_channels(alert)]

    def _enqueue_for_channels(self, alert: Alert) -> list[tuple[str, str]]:
        document = dump_message(alert)
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
            level = logging.WARNING if alert.kind.severity == "warning" else logging.ERROR
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
                alert = load_json(Alert, delivery.document.encode())
                if self._is_muted(alert, now_ms):
                    # It waited for its channel when it was muted; the end of the mute sends it.
                    self.memory.finish_delivery(delivery.key)
                    continue
                channel.deliver(alert)
            except Exception as problem:  # an undeliverable alert must not change an outcome
                refused += 1
                self.memory.postpone_delivery(delivery.key, self.now_ms() + RETRY_MS)
                # Another library's message may quote the address, which is a secret.
                words = str(problem) if isinstance(problem, WinnowError) else f"{type(problem).__name__}."
                log.error("Channel %s did not accept an alert: %s It is sent again later.", channel.name, words)
            else:
                self.memory.finish_delivery(delivery.key)
                taken += 1
                refused = 0
        return taken

    def _is_muted(self, alert: Alert, now_ms: int) -> bool:
        return alert.kind is not AlertKind.RECOVERED and self.memory.are_muted(list_alert_keys(alert), now_ms)

    @contextmanager
    def _ignore_failures(self, otherwise: str) -> Iterator[None]:
        try:
            yield
        except Exception as problem:  # an alert that fails must not fail the run
            # Another library's message may quote data.
            words = str(problem) if isinstance(problem, WinnowError) else f"Unexpected {type(problem).__name__}."
            log.error("%s", otherwise)
            log.error("The metadata store did not accept this alert, so it is in this log only: %s", words)


@dataclass(slots=True)
class _AnnouncedAlert:
    alert: Alert | None = field(default=None)
