"""The command line ``winnow``. Reads arguments, asks the pipeline, shows the answer; decides nothing itself.

Importing it loads no heavy library: every command imports what it needs when it runs.
"""

from __future__ import annotations

import sys

try:
    from winnow.cli.app import app, main
except ModuleNotFoundError as problem:
    if problem.name is None or problem.name.partition(".")[0] == "winnow":
        raise
    sys.stderr.write(
        f"error: {problem.name} is not installed. The package winnow-log alone has what Spark executors need; the "
        "command winnow and Spark drivers need more. Nothing was done. Install that with: "
        "pip install 'winnow-log[driver]'\n"
    )
    raise SystemExit(2) from None

__all__ = ["app", "main"]
