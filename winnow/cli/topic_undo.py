"""``winnow topics alter --undo``: undoes a change of configuration from its entry in the audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winnow.cli.command_errors import exit_with, run_for_each_topic
from winnow.cli.options import open_for_command
from winnow.cli.output import format_names, print_lines, print_message

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation
    from winnow.store.rows import AuditEntry


def undo_configuration(beginning: str, topic: str | None, reason: str | None) -> None:
    """Undo the entry whose id begins so for ``topic``, or for every topic that it changed (None)."""
    with open_for_command(reason=reason) as installation:
        from winnow.pipeline.topics.configuration_undo import find_entry, list_changed_topics

        entry = find_entry(installation, beginning)
        topics = list_changed_topics(entry) if topic is None else [topic]
        outcome = run_for_each_topic(topics, lambda each: _undo(installation, entry, each))
    for sentence in outcome.results:
        print_lines(sentence)
    exit_with(outcome.exit_code)


def _undo(installation: Installation, entry: AuditEntry, topic: str) -> str:
    """Undo the entry for ``topic``; return what was done."""
    from winnow.pipeline.topics.configuration_undo import plan_undo
    from winnow.pipeline.topics.definition import alter_topic

    undo = plan_undo(installation, entry, topic)
    if not undo.changes and not undo.deletions:
        return f"Nothing is left to change: {topic} has the values from before the entry {entry.entry_id}."
    found = alter_topic(installation, topic, undo.changes, undo.deletions, undoes=undo)
    for notice in found.notices:
        print_message(f"notice: {notice}")
    values = [f"{key}={value}" for key, value in sorted(undo.changes.items())]
    values += [f"{key} is not set" for key in undo.deletions]
    return f"Undid the entry {entry.entry_id} for topic {topic}: {format_names(values)}."
