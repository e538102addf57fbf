"""What Kafka says of a topic's configuration, and the record of it that a topic here keeps beside its overrides."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from winnow.clock import format_duration
from winnow.config.definitions import BY_NAME

RETENTION_KEYS = frozenset({"retention.ms", "retention.bytes"})
"""Keys by which retention removes records. What Kafka does by default removes nothing here."""

_MINUTE_MS, _CENTURY_MS = 60_000, 100 * 365 * 86_400_000


class Origin(StrEnum):
    """What sets a value at Kafka; the words that people read."""

    TOPIC = "topic"
    BROKER = "broker"
    CLUSTER = "cluster"
    DEFAULT = "default"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SourceSetting:
    """A value in force for a topic at Kafka, and what sets it there."""

    value: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class RecordedSetting:
    """What was last known of one key at Kafka.

    Args:
        value: in force there.
        origin: what set it there.
        taken: the origin that it had there when the override here was taken from Kafka; None: the override here, if
            there is one, was set by a person.
        held: whether Kafka's value waits for a person's acceptance, because taking it would remove records.
    """

    value: str
    origin: Origin
    taken: Origin | None = None
    held: bool = False

    @property
    def setting(self) -> SourceSetting:
        """What Kafka said."""
        return SourceSetting(self.value, self.origin)


KafkaRecord = Mapping[str, RecordedSetting]
"""The record of a topic: of each key that was taken from Kafka or differs from it; of ``cleanup.policy`` always."""


def format_record(record: KafkaRecord) -> str:
    """Write ``record`` as the value of a table property."""
    return json.dumps(
        {
            name: {
                "value": each.value,
                "origin": each.origin.value,
                **({} if each.taken is None else {"taken": each.taken.value}),
                **({"held": True} if each.held else {}),
            }
            for name, each in sorted(record.items())
        }
    )


def parse_record(text: str | None) -> dict[str, RecordedSetting]:
    """Read what :func:`format_record` wrote. What cannot be read is left out: it proves nothing about a key."""
    try:
        members = json.loads(text or "{}")
    except ValueError:
        return {}
    record = {}
    for name, member in members.items() if isinstance(members, dict) else ():
        if not isinstance(member, dict) or not isinstance(member.get("value"), str):
            continue
        taken = member.get("taken")
        record[name] = RecordedSetting(
            member["value"],
            _parse_origin(member.get("origin")),
            None if taken is None else _parse_origin(taken),
            member.get("held") is True,
        )
    return record


def _parse_origin(text: object) -> Origin:
    return Origin(text) if isinstance(text, str) and text in set(Origin) else Origin.UNKNOWN


def forget_taken(record: KafkaRecord, names: Collection[str]) -> dict[str, RecordedSetting]:
    """Return ``record`` after a person set or reset ``names`` here: nothing of them is Kafka's or waits any more."""
    return {
        name: replace(each, taken=None, held=False) if name in names else each for name, each in sorted(record.items())
    }


def format_setting(name: str, value: str) -> str:
    """Format a value for people: times in words, no limit as such."""
    unit = BY_NAME[name].unit if name in BY_NAME else ""
    if name in RETENTION_KEYS and value.startswith("-"):
        return "no limit"
    if unit == "ms" and value.isdecimal() and _MINUTE_MS <= int(value) < _CENTURY_MS:
        return format_duration(int(value))
    if unit == "ms":
        return f"{value} ms"
    return f"{value} bytes" if unit == "bytes" else value or "(empty)"


def describe_recorded(name: str, recorded: RecordedSetting | None, here: str) -> str | None:
    """Say where the value ``here`` stands to Kafka's; None if there is nothing to say."""
    if recorded is None:
        return None
    there = f"{format_setting(name, recorded.value)} ({recorded.origin})"
    if recorded.held:
        return f"at Kafka: {there}; waits for --accept-kafka-config"
    if recorded.taken is not None:
        came = f"from Kafka: {recorded.taken}"
        return came if recorded.value == here else f"{came}; at Kafka now: {there}"
    if recorded.value == here:
        return None
    if name in RETENTION_KEYS:
        return f"at Kafka: {there}; removes nothing here until it is accepted (--accept-kafka-config)"
    return f"at Kafka: {there}"
