"""``winnow audit``: who did what to which topic, and whether the log of it is as it was written."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from winnow.cli.command_errors import exit_with
from winnow.cli.options import Json, open_for_command
from winnow.cli.output import format_short_time, print_lines, print_message, print_table, write_json
from winnow.errors import UsageError, ValidationFailedError

if TYPE_CHECKING:
    from winnow.store.audit_chain import AuditBreak, AuditChainReport
    from winnow.store.rows import AuditEntry

DIGEST_CHARACTERS = 64
_MADE_ID_LENGTH = 32
"""Of an id that Winnow made up; one of a DAG run begins with its name, which many entries can have."""

TopicFilter = Annotated[
    str | None, typer.Option("--topic", metavar="TOPIC", help="Entries about this topic.", show_default=False)
]
Actor = Annotated[str | None, typer.Option("--actor", metavar="NAME", help="Of this actor.", show_default=False)]
Action = Annotated[str | None, typer.Option("--action", metavar="NAME", help="Of this action.", show_default=False)]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Maximum entries.")]
Expect = Annotated[
    str | None,
    typer.Option(
        "--expect",
        metavar="DIGEST",
        help="The digest of an entry that was written down elsewhere: it has to be in the chain.",
        show_default=False,
    ),
]


def list_entries(
    topic: TopicFilter = None, actor: Actor = None, action: Action = None, limit: Limit = 50, as_json: Json = False
) -> None:
    """Print who did what to which topic, when and why; the newest entry first.

    A change of configuration whose entry has an id here can be undone: winnow topics alter --undo.

    Example: winnow audit list --topic orders
    """
    from winnow.store.rows import Window

    with open_for_command(to_read=True) as installation:
        found = installation.store.audit.list_entries(Window(size=limit), topic=topic, actor=actor, action=action)
    if as_json:
        write_json([_build_document(entry) for entry in found.rows])
        return
    if not found.rows:
        print_message("The audit log has no such entry.")
        return
    rows = [
        [
            format_short_time(entry.at_ms),
            entry.actor,
            entry.action,
            entry.topic,
            entry.detail,
            entry.reason,
            _shorten_id(entry) if entry.config_changes else "",
        ]
        for entry in found.rows
    ]
    print_table(["time", "actor", "action", "topic", "detail", "reason", "id"], rows, sentences=(4, 5))
    if found.total > len(rows):
        print_lines(f"Older entries: {found.total - len(rows):,}; see --limit.")


def _shorten_id(entry: AuditEntry) -> str:
    return entry.entry_id if len(entry.entry_id) > _MADE_ID_LENGTH else entry.entry_id[:12]


def _build_document(entry: AuditEntry) -> dict[str, object]:
    from winnow.values.config_changes import parse_changes

    return {**asdict(entry), "config_changes": parse_changes(entry.config_changes) or None}


def verify(expect: Expect = None, as_json: Json = False) -> None:
    """Check that every entry of the audit log is as it was written, and that none is missing.

    Entries are chained by digest. The digest of the newest one is printed: write it down where nobody who may write to
    the metadata store can change it, and give it to --expect later; only that shows that the newest entries were cut
    off, or that all of them were written anew. The exit code is 4 if the chain does not hold.

    Example: winnow audit verify --expect 9f2c...
    """
    expected = None if expect is None else _parse_digest(expect)
    with open_for_command(to_read=True) as installation:
        report = installation.store.audit.verify_chain(expected)
    problems = _list_problems(report)
    if as_json:
        write_json({**asdict(report), "holds": not problems})
    else:
        _show_report(report)
    for problem in problems:
        print_message(f"error: {problem}")
    exit_with(ValidationFailedError.exit_code if problems else 0)


def _parse_digest(text: str) -> str:
    digest = text.strip().lower()
    if len(digest) != DIGEST_CHARACTERS or set(digest) - set("0123456789abcdef"):
        raise UsageError(
            f"--expect takes the {DIGEST_CHARACTERS} hexadecimal digits that winnow audit verify prints.",
            left="Nothing was checked.",
        )
    return digest


def _list_problems(report: AuditChainReport) -> list[str]:
    problems = []
    if report.first_break is not None:
        problems.append(f"The audit log is not as it was written: {_describe_break(report.first_break)}.")
    if report.contains_expected is False:
        problems.append(
            "The expected digest is not in the audit log: its newest entries were cut off, all of it was written anew, "
            "or retention has removed that entry (history.retention_ms)."
        )
    return problems


def _describe_break(found: AuditBreak) -> str:
    if found.number is None:
        return found.problem
    return f"at entry {found.number:,} ({format_short_time(found.at_ms)}, {found.entry_id}): {found.problem}"


def _show_report(report: AuditChainReport) -> None:
    text = f"The audit log has {report.entries:,} {'entry' if report.entries == 1 else 'entries'}"
    text += f"; retention removed {report.removed:,} before them" if report.removed else ""
    print_lines(f"{text}.")
    if report.first_break is None:
        print_lines("Each is as it was written, and none is missing.")
    if report.last_digest:
        print_lines(f"Digest of entry {report.last_number:,}, the newest: {report.last_digest}")
