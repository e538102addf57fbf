"""The Typer application: every command by name, in the order of the path of the data."""

from __future__ import annotations

import gc
import sys
import warnings
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from winnow.cli import (
    assess,
    checkpoints,
    compact,
    compare,
    doctor,
    explain,
    ingest,
    init,
    maintenance,
    metrics,
    partitions,
    read,
    receipts,
    scrub,
    settings,
    topics,
    watch,
    why,
)
from winnow.cli.failures import guarded
from winnow.cli.output import prepare, tell

HELP = """Kafka's log compaction for archives of Kafka topics on a data lake.

The path of the data:

\b
  winnow topics create orders --partitions 3   a topic to archive into
  winnow ingest files orders dump/             append records to its log
  winnow assess orders                         why each partition would or would not be compacted
  winnow compact orders                        keep the last record of each key, judge it, publish it
  winnow read orders                           what readers see now

Everything rests below WINNOW_HOME (.winnow in the current folder) unless `winnow settings` says otherwise.
"""

EXIT_CODES = """\b
Exit codes: 0 done, also when there was nothing to do; 1 unexpected error; 2 wrong usage or configuration;
3 bad input data, nothing landed; 4 validation failed, nothing published; 5 run it again; 6 a service cannot be
reached.
"""

_ORDER = (
    "init", "doctor", "topics", "ingest", "assess", "explain", "compare", "compact", "read", "why", "receipts",
    "checkpoints", "partitions", "metrics", "sweep", "scrub", "watch", "store", "settings",
)  # fmt: skip


class _PathOrder(TyperGroup):
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
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


def _version(wanted: bool) -> None:
    if wanted:
        from winnow import __version__

        tell(f"winnow {__version__}")
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Set up what every command needs; the help is the application's."""
    prepare()


def _group(name: str, help_text: str) -> typer.Typer:
    group = typer.Typer(name=name, help=help_text, no_args_is_help=True, rich_markup_mode=None)
    app.add_typer(group)
    return group


app.command("init")(guarded(init.init))
app.command("doctor")(guarded(doctor.doctor))
_topics = _group("topics", "Create, list, describe and alter topics, and delete their oldest records.")
_topics.command("create")(guarded(topics.create))
_topics.command("list")(guarded(topics.list_all))
_topics.command("describe")(guarded(topics.describe))
_topics.command("alter")(guarded(topics.alter))
_topics.command("delete-records")(guarded(topics.delete_records))
_group("ingest", "Append records to a topic's log.").command("files")(guarded(ingest.files))
app.command("assess")(guarded(assess.assess))
app.command("explain")(guarded(explain.explain))
app.command("compare")(guarded(compare.compare))
app.command("compact")(guarded(compact.compact))
app.command("read")(guarded(read.read))
app.command("why")(guarded(why.why))
app.command("receipts")(guarded(receipts.receipts))
app.add_typer(checkpoints.group())
_partitions = _group("partitions", "Pause, resume and release topic partitions, and list what keeps them.")
_partitions.command("list")(guarded(partitions.list_all))
_partitions.command("pause")(guarded(partitions.pause))
_partitions.command("resume")(guarded(partitions.resume))
_partitions.command("release")(guarded(partitions.release))
app.command("metrics")(guarded(metrics.metrics))
app.command("sweep")(guarded(maintenance.sweep))
app.command("scrub")(guarded(scrub.scrub))
app.command("watch")(guarded(watch.watch))
_group("store", "Look after the metadata store.").command("rebuild")(guarded(maintenance.rebuild))
app.command("settings")(guarded(settings.settings))


_OBJECTS_PER_COLLECTION = 50_000
"""Loading libraries makes hundreds of thousands of objects that stay; looking through them for garbage every 700, as
Python does, is an eighth of the time before a command begins."""


def main() -> None:
    """The console script: run the command of the process's arguments and exit with its code."""
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    if not sys.warnoptions:
        # Deprecations inside libraries are nothing a user of the command line can act on.
        warnings.simplefilter("ignore")
    try:
        app(prog_name="winnow")
    finally:
        # As it ends Python looks once more through every object of every library for garbage: a third of a second.
        # DuckDB's own types are among it, and where they are not found DuckDB prints 47 lines about leaks.
        if "duckdb" not in sys.modules:
            gc.freeze()
