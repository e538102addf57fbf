"""Alerts: what happened to which topic partitions, what is safe, what to do next. Deduplicated; recovery says so."""

from __future__ import annotations

import json
import logging
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from winnow.config.settings import Settings
from winnow.model import TopicPartition

log = logging.getLogger("winnow.alerts")
WEBHOOK_TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert.

    ``kind`` is fixed vocabulary: validation_failed, validation_broken, uncleanable_partition, commit_unknown,
    recovered.
    """

    kind: str
    topic: str
    partitions: tuple[int, ...] | None
    message: str
    at_ms: int

    @property
    def keys(self) -> tuple[str, ...]:
        """What the alert is about, for deduplication: one key per topic partition, or the topic."""
        if self.partitions is None:
            return (f"{self.kind}:{self.topic}",)
        return tuple(f"{self.kind}:{TopicPartition(self.topic, number)}" for number in self.partitions)


class AlertMemory(Protocol):
    """Remembers which alerts were sent; the metadata store is one."""

    def remember_alert(self, key: str, now_ms: int) -> bool:
        """True the first time a key is remembered."""

    def forget_alert(self, key: str) -> bool:
        """True when the key was remembered."""


def raise_alert(settings: Settings, memory: AlertMemory, alert: Alert) -> bool:
    """Send ``alert`` to log and webhook unless all it is about was alerted already. Returns whether it was sent."""
    if not any([memory.remember_alert(key, alert.at_ms) for key in alert.keys]):  # noqa: C419 - remember every key
        return False
    log.error("%s", alert.message)
    _post(settings, alert)
    return True


def recovered(settings: Settings, memory: AlertMemory, topic: str, partitions: Sequence[int], now_ms: int) -> bool:
    """After a publish: forget what was alerted about these partitions and say so. Returns whether anything was."""
    kinds = ("validation_failed", "validation_broken", "uncleanable_partition", "commit_unknown")
    keys = [f"{kind}:{topic}" for kind in kinds] + [
        f"{kind}:{TopicPartition(topic, p)}" for kind in kinds for p in partitions
    ]
    if not any([memory.forget_alert(key) for key in keys]):  # noqa: C419 - forget every key
        return False
    message = f"Recovered: {topic} was compacted and published again. Nothing is left to do."
    log.warning("%s", message)
    _post(settings, Alert("recovered", topic, tuple(partitions), message, now_ms))
    return True


def _post(settings: Settings, alert: Alert) -> None:
    if settings.alert.webhook is None:
        return
    request = urllib.request.Request(
        settings.alert.webhook.get_secret_value(),
        data=json.dumps(asdict(alert)).encode(),
        headers={"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=WEBHOOK_TIMEOUT_S):
            return
    except OSError as problem:
        # An alert that cannot be delivered must not turn a recorded outcome into another one.
        log.error("The alert webhook did not take the alert (%s); it is in this log and in the store.", problem)
