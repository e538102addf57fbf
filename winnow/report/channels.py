"""Ways to tell people: a webhook, and whatever else can take a document. The log is told in any case."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict
from email.message import Message
from typing import IO, Protocol

from winnow.config.settings import Settings
from winnow.errors import ServiceError
from winnow.report.alerts import Alert

WEBHOOK = "webhook"
WEBHOOK_TIMEOUT_S = 10


class Channel(Protocol):
    """Takes alerts. ``name`` is the same in every process of an installation."""

    @property
    def name(self) -> str:
        """Under which what it has not taken yet is kept."""

    def deliver(self, alert: Alert) -> None:
        """Hand ``alert`` over; whatever it raises means that it was not taken."""


class Webhook:
    """Posts each alert as a JSON document."""

    name = WEBHOOK

    def __init__(self, url: str) -> None:
        self._url = url

    def deliver(self, alert: Alert) -> None:
        """Post it.

        Raises:
            ServiceError: nobody answered, or not with success. The message holds no part of the address.
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
