"""``winnow airflow``: Airflow's own command line, in the embedded Airflow or in the one that the shell names."""

from __future__ import annotations

import os

import typer


def airflow(ctx: typer.Context) -> None:
    """Run Airflow's own command line: winnow airflow dags list.

    It runs in the embedded Airflow below WINNOW_HOME, whose database is started for it when nothing else runs it; in
    a shell with AIRFLOW_HOME or AIRFLOW__DATABASE__SQL_ALCHEMY_CONN of another Airflow, in that one. All arguments are
    Airflow's; without any, it lists its commands.
    """
    from winnow.config.settings import load_settings
    from winnow.embedded.airflow_home import run_airflow

    raise typer.Exit(run_airflow(load_settings(), os.environ, ctx.args))
