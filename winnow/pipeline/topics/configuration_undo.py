"""Undoes a change of configuration from its entry in the audit log, if nobody has changed its keys since.

What is present decides, not what the log says was done: a key that has the value of before the entry again needs
nothing, one that has the value which the entry gave it is set back, and any other value is somebody's later decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from winnow.clock import format_ms
from winnow.config.values import trim_like_java
from winnow.errors import UndoRefusedError, UsageError, join_first
from winnow.log.recorded_configuration import check_recorded, read_overrides
from winnow.pipeline.installation import Installation
from winnow.store.audit import AuditAction
from winnow.store.rows import AuditEntry
from winnow.values.config_changes import KeyChanges, parse_changes

MAXIMUM_NAMED = 8
_NOTHING = "Nothing was changed."


@dataclass(frozen=True, slots=True)
class ConfigurationUndo:
    """What undoes an entry for one topic: keys to set and keys to reset; both empty: nothing is left to change.

    ``values``: of each key that the entry changed, the value before and after it.
    """

    entry_id: str
    topic: str
    values: KeyChanges
    changes: Mapping[str, str]
    deletions: tuple[str, ...]


def find_entry(installation: Installation, beginning: str) -> AuditEntry:
    """Find the entry of the audit log that is to be undone, by its id or the beginning of it.

    Raises:
        UsageError: there is none, or more than one.
        UndoRefusedError: it does not say what was in force before it.
    """
    found = installation.store.audit.find_entries(beginning) if beginning else []
    if len(found) != 1:
        many = "more than one entry" if found else "no entry"
        raise UsageError(
            f"The audit log has {many} whose id is {beginning!r} or begins so.",
            left=_NOTHING,
            next="See the ids: winnow audit list --action alter",
        )
    if not parse_changes(found[0].config_changes):
        raise UndoRefusedError(
            f"The entry {found[0].entry_id} of the audit log ({found[0].action}) cannot be undone so: it is no change "
            "of configuration, or from before Winnow recorded the values that a change replaced.",
            left=_NOTHING,
            next="Set a key by its name: winnow topics alter TOPIC --config KEY=VALUE",
        )
    return found[0]


def list_changed_topics(entry: AuditEntry) -> list[str]:
    """List the topics whose configuration an entry changed, by name."""
    return sorted(parse_changes(entry.config_changes))


def plan_undo(installation: Installation, entry: AuditEntry, topic: str) -> ConfigurationUndo:
    """Find what sets ``topic`` back to what it was before ``entry``; changes nothing.

    Raises:
        UndoRefusedError: the entry did not change this topic, the topic was created again since, or a key has another
            value by now.
        UnknownTopicError, ForeignTableError: see :meth:`winnow.log.topic_log.TopicLog.newest_head`.
        ForeignConfigurationError: another tool changed the table's properties.
    """
    values = parse_changes(entry.config_changes).get(topic)
    if values is None:
        raise UndoRefusedError(
            f"The entry {entry.entry_id} of the audit log changed nothing of topic {topic}, but of "
            f"{join_first(list_changed_topics(entry), MAXIMUM_NAMED, ', ', last=' and ')}.",
            left=_NOTHING,
        )
    log = installation.log.open(topic)
    head = log.newest_head()
    check_recorded(topic, head.state.configuration, head.table.properties, head.table.metadata_location)
    present = _strip(read_overrides(head.table.properties))
    changed = {key: before for key, (before, _) in values.items() if present.get(key) != _strip_value(before)}
    undo = ConfigurationUndo(
        entry.entry_id,
        topic,
        values,
        {key: before for key, before in changed.items() if before is not None},
        tuple(key for key, before in changed.items() if before is None),
    )
    require_as_left(installation, undo, present)
    return undo


def require_as_left(installation: Installation, undo: ConfigurationUndo, overrides: Mapping[str, str]) -> None:
    """Check that each key has the value that the entry gave it, or the one before; ``overrides``: what the topic sets.

    Raises:
        UndoRefusedError: one has another, or the topic was created again since.
    """
    later = installation.store.audit.list_later_changes(undo.entry_id, undo.topic)
    if any(each.action == AuditAction.CREATE for each in later):
        raise UndoRefusedError(
            f"Topic {undo.topic} was created again after the entry {undo.entry_id} of the audit log.", left=_NOTHING
        )
    present = _strip(overrides)
    others = {
        key: present.get(key)
        for key, pair in undo.values.items()
        if present.get(key) not in {_strip_value(value) for value in pair}
    }
    if others:
        raise _make_changed_error(undo, others, later)


def describe_undo(undo: ConfigurationUndo | None) -> list[str]:
    """Describe which entry is undone, for the audit log; nothing if none is."""
    return [] if undo is None else [f"undoes {undo.entry_id}"]


def _make_changed_error(
    undo: ConfigurationUndo, others: Mapping[str, str | None], later: list[AuditEntry]
) -> UndoRefusedError:
    by_key = {key: _find_origin(later, undo.topic, key, value) for key, value in others.items()}
    named = [
        f"{key} is {'not set' if others[key] is None else others[key]}{_describe_origin(origin)}"
        for key, origin in by_key.items()
    ]
    # The newest one first: the others can have set what it replaced.
    first = max((later.index(origin) for origin in by_key.values() if origin is not None), default=None)
    return UndoRefusedError(
        f"The configuration of topic {undo.topic} was changed after the entry {undo.entry_id} of the audit log: "
        f"{join_first(named, MAXIMUM_NAMED)}.",
        left=_NOTHING,
        next=(
            f"See what was done: winnow audit list --topic {undo.topic}"
            if first is None
            else f"Undo that first: winnow topics alter {undo.topic} --undo {later[first].entry_id}"
        ),
    )


def _find_origin(later: list[AuditEntry], topic: str, key: str, value: str | None) -> AuditEntry | None:
    """Find the oldest later entry that gave a key its present value: undoing that one skips what was undone since."""
    for entry in later:
        pair = parse_changes(entry.config_changes).get(topic, {}).get(key)
        if pair is not None and _strip_value(pair[1]) == value:
            return entry
    return None


def _describe_origin(entry: AuditEntry | None) -> str:
    return "" if entry is None else f" (by {entry.actor} at {format_ms(entry.at_ms)}, entry {entry.entry_id})"


def _strip(overrides: Mapping[str, str]) -> dict[str, str]:
    return {key: trim_like_java(text) for key, text in overrides.items()}


def _strip_value(value: str | None) -> str | None:
    return None if value is None else trim_like_java(value)
