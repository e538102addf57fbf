"""The Typer application: every command by name, in the order of the path of the data."""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import typer

from winnow.cli import (
    airflow,
    assess,
    audit,
    backup,
    changes,
    checkpoints,
    compact,
    compare,
    connect,
    demo,
    doctor,
    erase,
    explain,
    ingest,
    ingest_history,
    ingest_iceberg,
    ingest_kafka,
    init,
    inspect,
    latest,
    maintenance,
    metrics,
    partitions,
    read,
    receipts,
    restore,
    schemas,
    topic_deletion,
    topic_recovery,
    topic_sources,
    topics,
    try_suite,
    undo,
    why,
)
from winnow.cli.command_errors import guard_command
from winnow.cli.command_group import CommandGroup, accept_old_options
from winnow.cli.output import prepare_output, print_lines

HELP = """Kafka's log compaction for archives of Kafka topics on a data lake.

The path of the data:

\b
  winnow topics create orders --partitions 3   a topic to archive into
  winnow inspect archive/                      what an archive has, and lost
  winnow ingest files orders archive/          append records to its log
  winnow assess orders                         what is due, and why
  winnow compact orders                        keep each key's last record
  winnow read orders                           what readers see now

Data is stored below WINNOW_HOME (.winnow in the current folder) unless configured otherwise (see winnow settings).
"""

EXIT_CODES = (
    "Exit codes: 0 done, also when there was nothing to do; 1 unexpected error; 2 wrong usage or configuration; "
    "3 bad input data, nothing landed; 4 validation failed, nothing published; 5 run it again; 6 a service cannot be "
    "reached."
)


class _PathOrder(CommandGroup):
    """Lists groups and commands together, in the order of the path of the data."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names, first what comes first on the path."""
        return sorted(self.commands, key=list(COMMANDS).index)


app = typer.Typer(
    name="winnow",
    cls=_PathOrder,
    help=HELP,
    epilog=EXIT_CODES,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from winnow import __version__

        print_lines(f"winnow {__version__}")
        raise typer.Exit


@app.callback()
def prepare_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Set up what every command needs; the help is the application's."""
    prepare_output()


@dataclass(frozen=True, slots=True)
class Command:
    """A command and, of its options, the names that were typed before: they stay, and no help shows them."""

    function: Callable[..., None]
    old_options: Mapping[str, str] = field(default_factory=dict)
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Commands below one name."""

    help: str
    commands: Mapping[str, Command]


_ENGINE: Final = {"--on": "--engine"}
_ACTIVE_SEGMENT: Final = {"--now": "--include-active-segment"}

COMMANDS: Final[Mapping[str, Command | Group | typer.Typer]] = {
    "demo": Command(demo.demo),
    "init": Command(init.init),
    "doctor": Command(doctor.doctor),
    "topics": Group(
        "Create, list, describe, alter, delete, restore, recover, adopt, follow and unfollow topics; delete records.",
        {
            "create": Command(topics.create),
            "list": Command(topics.list_all),
            "describe": Command(topics.describe),
            "alter": Command(topics.alter),
            "delete-records": Command(topics.delete_records),
            "unfollow": Command(topic_sources.unfollow),
            "follow": Command(topic_sources.follow),
            "delete": Command(topic_deletion.delete),
            "restore": Command(topic_deletion.restore),
            "undelete": Command(topic_deletion.restore, hidden=True),
            "recover": Command(topic_recovery.recover),
            "adopt": Command(topic_recovery.adopt),
        },
    ),
    "inspect": Command(inspect.inspect),
    "ingest": Group(
        "Append records to a topic's log; list and undo such calls.",
        {
            "files": Command(ingest.files, {**_ENGINE, "--again": "--allow-duplicates"}),
            "iceberg": Command(ingest_iceberg.iceberg),
            "kafka": Command(ingest_kafka.kafka, _ENGINE),
            "list": Command(ingest_history.list_calls),
            "undo": Command(ingest_history.undo),
        },
    ),
    "assess": Command(assess.assess, _ACTIVE_SEGMENT),
    "explain": Command(explain.explain, _ACTIVE_SEGMENT),
    "compare": Command(compare.compare),
    "try-suite": Command(try_suite.try_suite),
    "compact": Command(compact.compact, _ACTIVE_SEGMENT),
    "read": Command(read.read),
    "latest": Command(latest.latest),
    "latest-table": Group(
        "Bring the table of a topic's latest state up to date, or drop it.",
        {"update": Command(latest.update_table), "drop": Command(latest.drop_table)},
    ),
    "schemas": Group(
        "The schemas that keys and values were written with.",
        {"list": Command(schemas.list_schemas), "pull": Command(schemas.pull_schemas)},
    ),
    "changes": Command(changes.changes),
    "connect": Command(connect.connect),
    "why": Command(why.why, {"--everywhere": "--all-partitions"}),
    "restore": Command(restore.restore),
    "receipts": Command(receipts.receipts),
    "undo": Command(undo.undo),
    "erase": Command(erase.erase),
    "checkpoints": checkpoints.make_checkpoints_group(),
    "partitions": Group(
        "Pause, resume, release and list topic partitions.",
        {
            "list": Command(partitions.list_all),
            "pause": Command(partitions.pause),
            "resume": Command(partitions.resume),
            "release": Command(partitions.release),
        },
    ),
    "metrics": Command(metrics.metrics),
    "sweep": Command(maintenance.sweep),
    "scrub": Command(maintenance.scrub),
    "watch": Command(maintenance.watch),
    "audit": Group(
        "Who did what to which topic; whether that log is as it was written.",
        {"list": Command(audit.list_entries), "verify": Command(audit.verify)},
    ),
    "store": Group("Maintain the metadata store.", {"rebuild": Command(maintenance.rebuild)}),
    "backup": Group(
        "Back up the whole installation, verify backups, restore one, delete those with erased records.",
        {
            "create": Command(backup.create),
            "verify": Command(backup.verify),
            "restore": Command(backup.restore),
            "erase": Command(backup.erase),
        },
    ),
    "settings": Command(init.settings),
    "airflow": airflow.make_airflow_group(),
    "ui": Command(demo.ui),
}
"""Every command and group, in the order of the path of the data."""


def _add(parent: typer.Typer, name: str, command: Command) -> None:
    kind = accept_old_options(command.old_options)
    parent.command(name, cls=kind, hidden=command.hidden)(guard_command(command.function))


def _add_all() -> None:
    for name, found in COMMANDS.items():
        if isinstance(found, Command):
            _add(app, name, found)
        elif isinstance(found, Group):
            group = typer.Typer(
                name=name, cls=CommandGroup, help=found.help, no_args_is_help=True, rich_markup_mode=None
            )
            app.add_typer(group)
            for below, command in found.commands.items():
                _add(group, below, command)
        else:
            app.add_typer(found)


_add_all()


_OBJECTS_PER_COLLECTION = 50_000
"""Loading libraries makes hundreds of thousands of objects that stay; looking through them for garbage every 700, as
Python does, is an eighth of the time before a command begins."""


def _leave_out_others(name: str) -> None:
    """Leave the other commands out if ``name`` is a command or a group: Typer makes all 44 before it looks for one."""
    commands = [each for each in app.registered_commands if each.name == name]
    groups = [each for each in app.registered_groups if each.typer_instance and each.typer_instance.info.name == name]
    if commands or groups:
        app.registered_commands, app.registered_groups = commands, groups


def main() -> None:
    """Run the command of the process's arguments and exit with its code (SystemExit)."""
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    _leave_out_others(sys.argv[1] if len(sys.argv) > 1 else "")
    if not sys.warnoptions:
        # Deprecations inside libraries are nothing a user of the command line can act on.
        warnings.simplefilter("ignore")
    app(prog_name="winnow")
