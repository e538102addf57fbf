"""``winnow airflow``: Airflow's own command line, and Winnow's files in the folders of an Airflow that runs already."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from winnow.cli.command_errors import guard_command
from winnow.cli.options import Json
from winnow.cli.output import print_lines, write_json
from winnow.values.counts import format_count

PASS = "pass"
"""The command behind ``winnow airflow ...``; it is never typed."""

_UNTOUCHED = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""Settings of a command that hands on all of its arguments."""


class AirflowGroup(TyperGroup):
    """Winnow's own commands beside Airflow's: anything that begins with none of them is Airflow's."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the command in that is never typed, unless one is named."""
        visible = {name for name, command in self.commands.items() if not command.hidden}
        if not args or args[0] not in visible:
            args = [PASS, *args]
        return super().parse_args(ctx, args)


def run(ctx: typer.Context) -> None:
    """Hand all arguments to Airflow's own command line."""
    from winnow.config.settings import load_settings
    from winnow.embedded.airflow_home import run_airflow

    raise typer.Exit(run_airflow(load_settings(), os.environ, ctx.args))


def install(
    dags: Annotated[Path, typer.Option("--dags", metavar="FOLDER", help="Airflow's DAG folder, [core] dags_folder.")],
    plugins: Annotated[
        Path, typer.Option("--plugins", metavar="FOLDER", help="Airflow's plugins folder, [core] plugins_folder.")
    ],
    link: Annotated[
        bool, typer.Option("--link", help="Link to this environment's files, which Airflow must see, too.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Put Winnow's DAGs and plugin into the folders of an Airflow that runs already.

    The DAGs go into winnow_dags below the DAG folder, the plugin beside other plugins, hidden files too. A second call
    changes nothing, and after an upgrade it replaces what the earlier Winnow put there. Refuses to replace a file that
    did not come from Winnow, or that was changed since. Says what to restart; winnow doctor compares the copies.

    Example: winnow airflow install --dags /opt/airflow/dags --plugins /opt/airflow/plugins
    """
    from winnow.embedded import airflow_install

    done = airflow_install.install(dags, plugins, link=link)
    if as_json:
        places = [str(placement.target) for placement in done.placements]
        counts = {"written": done.written, "unchanged": done.unchanged, "removed": done.removed}
        write_json({"linked": done.is_linked, "places": places, **counts})
        return
    noun = "link" if done.is_linked else "file"
    gone = f", {format_count(done.removed, 'file')} of an earlier Winnow removed" if done.removed else ""
    print_lines(f"{format_count(done.written, noun)} written, {done.unchanged:,} in place already{gone}:")
    for placement in done.placements:
        print_lines(f"  {placement.target}" + (f" -> {placement.source}" if done.is_linked else ""))
    if done.written or done.removed:
        print_lines(RESTART)
    print_lines("\nNext, in Airflow's environment: winnow doctor")


RESTART = """
Restart what loads plugins only when it starts:
  airflow api-server      the page, and the timetable
  airflow scheduler       timetable, priorities and pool checks
  airflow dag-processor   reads the DAGs
  airflow triggerer, and workers if there are any
Every machine that runs one of them needs the same files, and winnow-log in its Python."""

HELP = """Run Airflow's own command line: winnow airflow dags list.

It runs in the embedded Airflow below WINNOW_HOME, whose database is started for it when nothing else runs it; in
a shell with AIRFLOW_HOME or AIRFLOW__DATABASE__SQL_ALCHEMY_CONN of another Airflow, in that one. All arguments are
Airflow's, --help too; without any, it lists its commands.

Winnow's own command here puts its DAGs and plugin into another Airflow's folders: winnow airflow install --help
"""


def make_airflow_group() -> typer.Typer:
    """Return the group of commands for the application."""
    group = typer.Typer(
        name="airflow",
        cls=AirflowGroup,
        help=HELP,
        short_help="Run Airflow's commands, or install Winnow into another Airflow.",
        rich_markup_mode=None,
        context_settings={"help_option_names": []},
    )
    group.command(PASS, hidden=True, context_settings=_UNTOUCHED)(guard_command(run))
    group.command("install", context_settings={"help_option_names": ["-h", "--help"]})(guard_command(install))
    return group
