"""The target's configuration: while records are restored it removes none of them, then it is the topic's."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from winnow.config.definitions import BY_NAME
from winnow.config.topic import TopicConfig, list_entries
from winnow.errors import BadInputError, ConfigurationError
from winnow.kafka.target_topic import TargetDescription, TargetTopic
from winnow.kafka.transactional_writer import BATCH_BYTES
from winnow.pipeline.restore.record_sizes import BATCH_OVERHEAD_BYTES, LargestRecord
from winnow.values.counts import format_count

_UNLIMITED: Final = str(2**63 - 1)
RESTORING: Final[Mapping[str, str]] = MappingProxyType(
    {
        # Old records would be removed, and versions of a key compacted, before they were read back.
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "message.timestamp.type": "CreateTime",
        # By default brokers refuse records from more than an hour ahead.
        "message.timestamp.before.max.ms": _UNLIMITED,
        "message.timestamp.after.max.ms": _UNLIMITED,
        # The marker of a transaction has the present as its time: after old records it would close the segment.
        "segment.ms": _UNLIMITED,
    }
)
"""The configuration of a topic that a restore creates, until it is verified."""
_TIMESTAMP_AGE: Final = "message.timestamp.difference.max.ms"
_TIMESTAMP_SIDES: Final = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")
RESTORING_BEFORE_3_6: Final[Mapping[str, str]] = MappingProxyType(
    {_TIMESTAMP_AGE: _UNLIMITED} | {name: RESTORING[name] for name in RESTORING if name not in _TIMESTAMP_SIDES}
)
"""The same for brokers before Kafka 3.6, which have one limit of a timestamp's distance from the present."""
MESSAGE_BYTES: Final = "max.message.bytes"
"""The setting that the largest record needs."""
MINIMUM_SEGMENT_BYTES: Final = 1 << 20
"""Kafka's own since 4.0."""
_NOT_KAFKAS: Final = frozenset({"compaction.strategy", "compaction.strategy.header", "internal.segment.bytes"})
"""KIP-280's, which no release of Kafka has, and one that brokers do not show."""
_ALWAYS_SET: Final = ("cleanup.policy", "retention.ms", "retention.bytes")
"""Set even where the topic does not: Winnow's defaults are others than Kafka's."""


@dataclass(frozen=True, slots=True)
class FinalConfiguration:
    """What the target gets at the end; None: the brokers' default. ``notices``: what differs from the topic's."""

    values: Mapping[str, str | None]
    notices: tuple[str, ...]


def is_restoring(found: TargetDescription) -> bool:
    """Check whether a topic's own configuration is exactly that of a topic that a restore has created."""
    values = {name: value for name, value in found.topic.configuration.items() if name != MESSAGE_BYTES}
    return values in (dict(RESTORING), dict(RESTORING_BEFORE_3_6))


def make_final_configuration(config: TopicConfig) -> FinalConfiguration:
    """Make the configuration that the target gets once it is verified: the topic's, as far as Kafka knows it."""
    values: dict[str, str | None] = dict.fromkeys([*RESTORING, MESSAGE_BYTES])
    notices = []
    own = {"cleanup.policy": ",".join(sorted(config.cleanup_policy))}
    own |= {"retention.ms": str(config.retention_ms), "retention.bytes": str(config.retention_bytes)}
    values |= {name: own[name] for name in _ALWAYS_SET}
    for name, value in config.overrides.items():
        if name not in BY_NAME or name.startswith("winnow.") or name in _NOT_KAFKAS or name in _ALWAYS_SET:
            continue
        values[name] = value
    size = values.get("segment.bytes")
    if size is not None and int(size) < MINIMUM_SEGMENT_BYTES:
        values["segment.bytes"] = str(MINIMUM_SEGMENT_BYTES)
        notices.append(f"segment.bytes is {MINIMUM_SEGMENT_BYTES} in Kafka, its minimum, not {size}.")
    if config.compacts and config.compaction_strategy.value != "offset":
        notices.append(
            f"Winnow compacts by {config.compaction_strategy.value}; Kafka's cleaner keeps the highest offset of a key."
        )
    return FinalConfiguration(values, tuple(notices))


def list_settings_to_change(found: TargetDescription, config: TopicConfig) -> dict[str, str]:
    """List the settings in force for the archive that are others in force at the target; those that brokers have."""
    differences = {}
    for entry in list_entries(config):
        present = found.configuration.get(entry.name)
        if present is None or entry.name.startswith("winnow.") or entry.name in _NOT_KAFKAS:
            continue
        wanted = entry.value
        if entry.name == "segment.bytes":
            wanted = str(max(int(wanted), MINIMUM_SEGMENT_BYTES))
        if _normalize(wanted) != _normalize(present):
            differences[entry.name] = wanted
    return differences


def _normalize(value: str) -> object:
    try:
        return float(value) if "." in value else int(value)
    except ValueError:
        return frozenset(part.strip() for part in value.split(","))


def apply_configuration(target: TargetTopic, config: TopicConfig, final: FinalConfiguration) -> tuple[str, ...]:
    """Give the target the archive's configuration: what is set, then what is in force and other at the brokers.

    Returns notices about what is not as in the archive.

    Raises:
        ConfigurationError: the brokers refuse a value that the topic sets.
        ServiceError: the cluster cannot be reached.
    """
    before = target.describe()
    if before is None:
        raise BadInputError(
            f"Topic {target.name} is gone from the cluster.",
            next="Run it again: it begins anew.",
        )
    # A name that the brokers do not know would have them refuse all others with it.
    known = {name: value for name, value in final.values.items() if name in before.settings}
    known |= {_TIMESTAMP_AGE: None} if before.topic.configuration.get(_TIMESTAMP_AGE) == _UNLIMITED else {}
    target.alter_configuration(known)
    notices = []
    unknown = [name for name in final.values if name not in before.settings]
    if unknown:
        notices.append(f"The target's brokers do not know {', '.join(unknown)}, which was left out.")
    found = target.describe()
    if found is None:
        return tuple(notices)
    differences = list_settings_to_change(found, config)
    if differences:
        try:
            target.alter_configuration(differences)
        except ConfigurationError as problem:
            listed = ", ".join(f"{name}={value}" for name, value in differences.items())
            return (*notices, f"What is in force for the archive and not at the target: {listed}. {problem}")
    needed_bytes = int(before.configuration.get(MESSAGE_BYTES, "0"))
    if needed_bytes > config.max_message_bytes:
        notices.append(
            f"The log has a record of {needed_bytes:,} bytes, more than its {MESSAGE_BYTES} of "
            f"{config.max_message_bytes:,}. It was restored; topic {target.name} takes no other of that size."
        )
    return tuple(notices)


def choose_batch_bytes(target: TargetTopic, config: TopicConfig) -> int:
    """Choose the maximum size of a batch of several records: what the target takes, or will.

    Raises:
        ServiceError: the cluster cannot be reached.
    """
    found = target.describe()
    limit = None if found is None else found.configuration.get(MESSAGE_BYTES)
    limit_bytes = config.max_message_bytes if limit is None else int(limit)
    return max(1, min(BATCH_BYTES, limit_bytes - BATCH_OVERHEAD_BYTES))


def require_large_enough(found: TargetDescription, topic: str, largest: LargestRecord | None) -> None:
    """Check that the target takes the largest record of ``topic``.

    Raises:
        BadInputError: it does not, or the brokers do not say what it takes.
    """
    limit_bytes = int(found.configuration.get(MESSAGE_BYTES, "0"))
    if largest is None or largest.size_bytes <= limit_bytes:
        return
    name = found.topic.name
    raise BadInputError(
        f"{topic}-{largest.partition} has a record at offset {largest.offset} that needs {largest.size_bytes:,} "
        f"bytes, and topic {name} takes {limit_bytes:,} ({MESSAGE_BYTES}; how far a record compresses is not counted "
        "on).",
        left="Nothing was written.",
        next=(
            f"Raise it: kafka-configs.sh --alter --entity-type topics --entity-name {name} --add-config "
            f"{MESSAGE_BYTES}={largest.size_bytes}"
        ),
    )


def require_restorable(found: TargetDescription, partitions: int, times_ms: tuple[int | None, int | None]) -> None:
    """Check that a topic that exists may be restored into; ``times_ms``: the log's lowest and highest timestamp.

    Raises:
        BadInputError: it has records, other partitions, or a configuration that would remove or change records.
    """
    name = found.topic.name
    count = len(found.topic.partitions)
    if not found.is_empty:
        raise BadInputError(
            f"Topic {name} is not empty, and what it holds is not known as the beginning of this restore.",
            left="Nothing was written.",
            next=(
                "Name another --target-topic, or delete this one. (Brokers forget a restore's positions "
                "offsets.retention.minutes after its last write.)"
            ),
        )
    if count != partitions:
        raise BadInputError(
            f"Topic {name} has {format_count(count, 'partition')}, and the log has {partitions}. Records go back to "
            "the partitions they came from.",
            left="Nothing was written.",
            next="Delete it, so that it is created as it must be, or name another --target-topic.",
        )
    wrong = _list_wrong_values(found.configuration, times_ms)
    if wrong:
        pairs = ",".join(f"{key}={value}" for key, value in wrong.items())
        raise BadInputError(
            f"Topic {name} would remove, change or refuse records while they are restored, or begin a segment with "
            "each transaction.",
            left="Nothing was written.",
            next=(
                "Delete it, so that it is created as it must be, or set until the restore is done: kafka-configs.sh "
                f"--alter --entity-type topics --entity-name {name} --add-config {pairs}"
            ),
        )


def _list_wrong_values(found: Mapping[str, str], times_ms: tuple[int | None, int | None]) -> dict[str, str]:
    lowest, highest = times_ms
    now_ms = int(time.time() * 1000)
    before, after = (int(found.get(name, found.get(_TIMESTAMP_AGE, _UNLIMITED))) for name in _TIMESTAMP_SIDES)
    is_early, is_late = (
        lowest is not None and now_ms - lowest > before,
        highest is not None and highest - now_ms > after,
    )
    has_sides = all(name in found for name in _TIMESTAMP_SIDES)
    right = {
        "cleanup.policy": found.get("cleanup.policy", "delete") in {"", "delete"},
        "retention.ms": found.get("retention.ms", "-1") == "-1",
        "retention.bytes": found.get("retention.bytes", "-1") == "-1",
        "message.timestamp.type": found.get("message.timestamp.type", "CreateTime") == "CreateTime",
        _TIMESTAMP_SIDES[0]: not (has_sides and is_early),
        _TIMESTAMP_SIDES[1]: not (has_sides and is_late),
        _TIMESTAMP_AGE: has_sides or not (is_early or is_late),
        "segment.ms": lowest is None or now_ms - lowest <= int(found.get("segment.ms", _UNLIMITED)),
    }
    wanted = {**RESTORING_BEFORE_3_6, **RESTORING}
    return {name: wanted[name] for name, is_right in right.items() if not is_right}
