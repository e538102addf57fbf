"""``winnow topics delete`` and ``winnow topics restore``."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from winnow.cli.options import Json, Reason, Topic, open_for_command
from winnow.cli.output import format_bytes, format_short_time, print_lines, write_json
from winnow.errors import UsageError
from winnow.values.counts import format_count

if TYPE_CHECKING:
    from winnow.pipeline.topics.deletion import DeletionReport, TopicContents


def delete(
    topic: Topic,
    now: Annotated[bool, typer.Option("--now", help="Remove the files at once, for good.", show_default=False)] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask before --now; a script needs it.", show_default=False)
    ] = False,
    reason: Reason = None,
    as_json: Json = False,
) -> None:
    """Delete a topic; until its files are removed, `winnow topics restore` brings it back.

    From the commit on nobody lists, reads or writes it. Its files stay for the topic's winnow.retired.grace.ms; the
    first sweep after that removes them for good. --now does so at once, says what is lost, and asks.

    Example: winnow topics delete orders
    """
    with open_for_command(reason=reason) as installation:
        from winnow.pipeline.topics.deletion import delete_topic, describe_contents

        if now and not yes:
            _confirm(describe_contents(installation, topic))
        report = delete_topic(installation, topic, now=now)
    if as_json:
        write_json(asdict(report))
        return
    print_lines(_format_report(report))


def restore(topic: Topic, reason: Reason = None) -> None:
    """Bring a deleted topic back, as it was.

    Possible until a sweep has begun to remove its files. Repeating it changes nothing.

    Example: winnow topics restore orders
    """
    with open_for_command(reason=reason) as installation:
        from winnow.pipeline.erase.older_states import restore_without_erased

        restored = restore_without_erased(installation, topic)
    done = f"Restored topic {topic}." if restored else f"Topic {topic} is not deleted; nothing was changed."
    print_lines(f"{done}\nNext: winnow topics describe {topic}")


def _confirm(contents: TopicContents) -> None:
    """Ask before files are removed for good.

    Raises:
        UsageError: the answer is no, or there is nobody to ask.
    """
    lost = _describe_loss(contents)
    if not sys.stdin.isatty():
        raise UsageError(
            f"Topic {contents.topic} was not deleted. --now would remove {lost}, for good.",
            next=(
                "Add --yes if that is what you want; without --now it can be restored for a while: winnow topics "
                f"delete {contents.topic}"
            ),
        )
    if not typer.confirm(f"This removes {lost}, for good. Nothing brings them back. Delete?", err=True):
        raise UsageError(
            f"Topic {contents.topic} was not deleted.",
            left="Nothing was changed.",
        )


def _describe_loss(contents: TopicContents) -> str:
    records = format_count(contents.records, "record")
    aside = f" and {contents.records_quarantined:,} in the quarantine" if contents.records_quarantined else ""
    partitions = format_count(contents.partitions, "partition")
    return f"{records}{aside} of {contents.topic} ({partitions}, {format_bytes(contents.size_bytes)})"


def _format_report(report: DeletionReport) -> str:
    from winnow.pipeline.admin.sweep_report import format_unnamed

    lost = _describe_loss(report.contents)
    if report.restorable_until_ms is None:
        freed = f"{format_count(report.files_deleted, 'file')} ({format_bytes(report.bytes_deleted)})"
        stays = format_unnamed(report.unnamed)
        return f"Deleted topic {report.topic} for good: {lost}. {freed} removed.{stays}"
    until = format_short_time(report.restorable_until_ms)
    return (
        f"Deleted topic {report.topic}: {lost}.\n"
        f"Its files stay until {until}; the first sweep after that removes them.\n"
        f"To bring it back: winnow topics restore {report.topic}"
    )
