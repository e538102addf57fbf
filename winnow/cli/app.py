"""The Typer application: every command by name, in the order of the path of the data."""

from __future__ import annotations

import gc
import sys
import warnings
from typing import Annotated, Any

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
    topic_deletion,
    topic_recovery,
    topic_sources,
    topics,
    why,
)
from winnow.cli.command_errors import guard_command
from winnow.cli.command_group import CommandGroup
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

_ORDER = (
    "demo", "init", "doctor", "topics", "inspect", "ingest", "assess", "explain", "compare", "compact", "read",
    "latest", "changes", "connect", "why", "restore", "receipts", "checkpoints", "partitions", "metrics", "sweep",
    "scrub", "watch", "audit", "store", "backup", "settings", "airflow", "ui",
)  # fmt: skip


class _PathOrder(CommandGroup):
    """Lists groups and commands together, in the order of the path of the data."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names, first what comes first on the path."""
        return sorted(self.commands, key=_ORDER.index)


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


def _add_group(name: str, help_text: str) -> typer.Typer:
    group = typer.Typer(name=name, cls=CommandGroup, help=help_text, no_args_is_help=True, rich_markup_mode=None)
    app.add_typer(group)
    return group


app.command("demo")(guard_command(demo.demo))
app.command("init")(guard_command(init.init))
app.command("doctor")(guard_command(doctor.doctor))
_topics = _add_group(
    "topics",
    "Create, list, describe, alter, delete, restore, recover, adopt, follow and unfollow topics; delete records.",
)
_topics.command("create")(guard_command(topics.create))
_topics.command("list")(guard_command(topics.list_all))
_topics.command("describe")(guard_command(topics.describe))
_topics.command("alter")(guard_command(topics.alter))
_topics.command("delete-records")(guard_command(topics.delete_records))
_topics.command("unfollow")(guard_command(topic_sources.unfollow))
_topics.command("follow")(guard_command(topic_sources.follow))
_topics.command("delete")(guard_command(topic_deletion.delete))
_topics.command("restore")(guard_command(topic_deletion.restore))
_topics.command("recover")(guard_command(topic_recovery.recover))
_topics.command("adopt")(guard_command(topic_recovery.adopt))
app.command("inspect")(guard_command(inspect.inspect))
_ingest = _add_group("ingest", "Append records to a topic's log; list and undo such calls.")
_ingest.command("files")(guard_command(ingest.files))
_ingest.command("iceberg")(guard_command(ingest_iceberg.iceberg))
_ingest.command("kafka")(guard_command(ingest_kafka.kafka))
_ingest.command("list")(guard_command(ingest_history.list_calls))
_ingest.command("undo")(guard_command(ingest_history.undo))
app.command("assess")(guard_command(assess.assess))
app.command("explain")(guard_command(explain.explain))
app.command("compare")(guard_command(compare.compare))
app.command("compact")(guard_command(compact.compact))
app.command("read")(guard_command(read.read))
app.command("latest")(guard_command(latest.latest))
app.command("changes")(guard_command(changes.changes))
app.command("connect")(guard_command(connect.connect))
app.command("why")(guard_command(why.why))
app.command("restore")(guard_command(restore.restore))
app.command("receipts")(guard_command(receipts.receipts))
app.add_typer(checkpoints.make_checkpoints_group())
_partitions = _add_group("partitions", "Pause, resume, release and list topic partitions.")
_partitions.command("list")(guard_command(partitions.list_all))
_partitions.command("pause")(guard_command(partitions.pause))
_partitions.command("resume")(guard_command(partitions.resume))
_partitions.command("release")(guard_command(partitions.release))
app.command("metrics")(guard_command(metrics.metrics))
app.command("sweep")(guard_command(maintenance.sweep))
app.command("scrub")(guard_command(maintenance.scrub))
app.command("watch")(guard_command(maintenance.watch))
_audit = _add_group("audit", "Who did what to which topic; whether that log is as it was written.")
_audit.command("list")(guard_command(audit.list_entries))
_audit.command("verify")(guard_command(audit.verify))
_add_group("store", "Maintain the metadata store.").command("rebuild")(guard_command(maintenance.rebuild))
_backup = _add_group("backup", "Back up the whole installation, verify backups, restore one.")
_backup.command("create")(guard_command(backup.create))
_backup.command("verify")(guard_command(backup.verify))
_backup.command("restore")(guard_command(backup.restore))
app.command("settings")(guard_command(init.settings))
app.add_typer(airflow.make_airflow_group())
app.command("ui")(guard_command(demo.ui))


_OBJECTS_PER_COLLECTION = 50_000
"""Loading libraries makes hundreds of thousands of objects that stay; looking through them for garbage every 700, as
Python does, is an eighth of the time before a command begins."""


def _leave_out_others(name: str) -> None:
    """Leave the other commands out if ``name`` is a command or a group: Typer makes all 43 before it looks for one."""
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
