"""The command line in a process of its own, which ends as soon as the command has."""

from __future__ import annotations

import atexit
import os
import sys

from winnow.cli import main


def run() -> None:
    """Run the command of the process's arguments and exit with its code."""
    try:
        main()
    except SystemExit as ending:
        _end_process(ending)
        raise


def _end_process(ending: SystemExit) -> None:
    """End the process with its exit handlers, and without Python's last look for garbage; return if output is stuck.

    Python would look once more through every object of every library: a second, where Great Expectations was at work.
    Leaving the objects out (``gc.freeze``) takes none, but then DuckDB's types are not found among them, and DuckDB
    prints 47 lines about leaks.
    """
    if not isinstance(ending.code, int | None):
        return
    atexit._run_exitfuncs()  # those of libraries: what is buffered is sent, temporary folders go
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):  # a reader that is gone; Python says so
        return
    os._exit(ending.code or 0)
