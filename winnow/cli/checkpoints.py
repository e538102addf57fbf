"""``winnow checkpoints``: how far each topic partition is clean, and Kafka's checkpoint files in and out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from winnow.cli.command_errors import exit_with, guard_command, run_for_each_topic
from winnow.cli.command_group import CommandGroup
from winnow.cli.options import Json, OneTopic, Reason, Topics, choose_topics, open_for_command
from winnow.cli.output import (
    MAXIMUM_ROWS,
    format_short_time,
    print_lines,
    print_message,
    print_table,
    write_json,
)
from winnow.values.counts import format_count
from winnow.values.epochs import describe_offset

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation
    from winnow.values.topic_state import Cleaning

SHOW = "show"
"""The command behind ``winnow checkpoints [TOPIC]``; it is never typed."""

HELP = """Print how far each topic partition is clean, and since when.

A tombstone is removed by the first run after the delete horizon of its offset range. --json prints one document.

Example: winnow checkpoints orders

A topic named like a command is shown by: winnow checkpoints -- import
"""

CheckpointFile = Annotated[
    str, typer.Argument(metavar="FILE", help="A cleaner-offset-checkpoint file; a path or a URI.", show_default=False)
]


class CheckpointsGroup(CommandGroup):
    """Commands beside ``winnow checkpoints [TOPIC] [--json]``: anything that begins with none of them is a topic."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command in that is never typed, unless one is named or help is asked for."""
        visible = {name for name, command in self.commands.items() if not command.hidden}
        if not args or args[0] not in visible | set(ctx.help_option_names):
            args = [SHOW, *args]
        return super().parse_args(ctx, args)


def show_checkpoints(topic: OneTopic = None, as_json: Json = False) -> None:
    """Print how far each topic partition is clean, and since when.

    A tombstone is removed by the first run after the delete horizon of its offset range.

    Example: winnow checkpoints orders
    """
    with open_for_command(to_read=True) as installation:
        chosen = choose_topics(installation, [topic] if topic else None)
        outcome = run_for_each_topic(chosen, lambda name: list_checkpoints(installation, name))
    found = [row for per_topic in outcome.results for row in per_topic]
    if as_json:
        if not outcome.all_failed:
            write_json(found)
    elif found:
        _show_checkpoints(found)
    exit_with(outcome.exit_code)


def list_checkpoints(installation: Installation, topic: str) -> list[dict[str, Any]]:
    """One document per topic partition: the checkpoint from the metadata store, the log's ends from the log itself.

    The store learns of a partition when it is first cleaned, and of the log's ends only then.

    Raises:
        UnknownTopicError, ForeignTableError, ServiceError: see :class:`winnow.log.topic_log.TopicLog`.
    """
    stored = {row.partition: row for row in installation.store.projection.list_checkpoints([topic])}
    found = []
    head = installation.log.open(topic).head().state
    for number, state in sorted(head.partitions.items()):
        row = stored.get(number)
        history: tuple[Cleaning, ...] = row.history if row is not None else ()
        dirty = row.first_dirty_offset if row is not None else None
        found.append(
            {
                "topic": topic,
                "partition": number,
                "first_dirty_offset": dirty,
                "log_start_offset": state.log_start_offset,
                "log_end_offset": state.log_end_offset,
                "strategy": row.strategy if row is not None else None,
                "cleanings": [asdict(entry) for entry in history],
                **({} if dirty is None else describe_offset(head.epochs, number, dirty)),
            }
        )
    return found


def _show_checkpoints(found: Sequence[dict[str, Any]]) -> None:
    rows = []
    for row in found[:MAXIMUM_ROWS]:
        last = row["cleanings"][-1] if row["cleanings"] else {}
        rows.append(
            [
                f"{row['topic']}-{row['partition']}",
                _format_first_dirty(row),
                f"{row['log_start_offset']:,}",
                f"{row['log_end_offset']:,}",
                row["strategy"] or "",
                format_short_time(last.get("cleaning_time_ms")),
                format_short_time(last.get("delete_horizon_ms")),
            ]
        )
    header = ["partition", "first dirty", "log start", "log end", "strategy", "last cleaning", "delete horizon"]
    print_table(header, rows, right=(1, 2, 3))
    if len(found) > len(rows):
        print_lines(f"{format_count(len(found) - len(rows), 'more partition')}; --json lists all")


def _format_first_dirty(row: dict[str, Any]) -> str:
    if row["first_dirty_offset"] is None:
        return "never cleaned"
    epoch = f" (epoch {row['epoch']}: {row['source_offset']:,})" if "epoch" in row else ""
    return f"{row['first_dirty_offset']:,}{epoch}"


def import_file(file: CheckpointFile, reason: Reason = None, as_json: Json = False) -> None:
    """Import the cleaner checkpoints of a Kafka broker.

    FILE is the cleaner-offset-checkpoint of a broker's log directory (version 0). A checkpoint of Winnow's own cleaning
    is never overwritten, an imported one never lowered; importing again changes nothing. The time of the broker's
    cleaning is unknown, so delete.retention.ms of the tombstones below starts with the first run.

    Example: winnow checkpoints import /var/lib/kafka/data/cleaner-offset-checkpoint
    """
    with open_for_command(reason=reason) as installation:
        from winnow.pipeline.admin.checkpoints import group_by_topic, import_checkpoints
        from winnow.sources.checkpoint_file import read_checkpoint_file

        entries = group_by_topic(read_checkpoint_file(file))
        outcome = run_for_each_topic(
            list(entries), lambda topic: import_checkpoints(installation, topic, entries[topic])
        )
    found = [row for per_topic in outcome.results for row in per_topic]
    if as_json:
        if not outcome.all_failed:
            write_json([asdict(row) for row in found])
        exit_with(outcome.exit_code)
        return
    if found:
        rows = [
            [f"{row.topic}-{row.partition}", f"{row.offset:,}", row.outcome.replace("_", " "), row.message]
            for row in found[:MAXIMUM_ROWS]
        ]
        print_table(["partition", "offset", "outcome", "which means"], rows, right=(1,), sentences=(3,))
        if len(found) > len(rows):
            print_lines(f"{format_count(len(found) - len(rows), 'more line')}; --json lists all")
    elif not outcome.codes:
        print_lines(f"{file} holds no entries; nothing was changed.")
    exit_with(outcome.exit_code)


def export_file(file: CheckpointFile, topics: Topics = None) -> None:
    """Write the checkpoints as a broker's cleaner-offset-checkpoint file.

    The file (version 0) is replaced as a whole or not at all. A broker that uses it cleans logs that are not in it from
    their start. Partitions without a checkpoint are left out. Importing it again changes nothing.

    Example: winnow checkpoints export cleaner-offset-checkpoint orders
    """
    with open_for_command(to_read=True) as installation:
        from winnow.pipeline.admin.checkpoints import export_checkpoints
        from winnow.sources.checkpoint_file import write_checkpoint_file

        outcome = run_for_each_topic(
            choose_topics(installation, topics), lambda topic: export_checkpoints(installation, topic)
        )
        entries = [entry for per_topic in outcome.results for entry in per_topic]
        if outcome.exit_code:
            print_message(f"{file} was not written, because it would be incomplete.")
        else:
            write_checkpoint_file(file, entries)
    if not outcome.exit_code:
        print_lines(f"Wrote {format_count(len(entries), 'checkpoint')} to {file}.")
    exit_with(outcome.exit_code)


def make_checkpoints_group() -> typer.Typer:
    """``winnow checkpoints`` with its commands."""
    made = typer.Typer(
        name="checkpoints",
        cls=CheckpointsGroup,
        help=HELP,
        rich_markup_mode=None,
        subcommand_metavar="[TOPIC] | import FILE | export FILE [TOPIC]...",
    )
    made.command(SHOW, hidden=True)(guard_command(show_checkpoints))
    made.command("import")(guard_command(import_file))
    made.command("export")(guard_command(export_file))
    return made
