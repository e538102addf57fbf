"""``python -m winnow.cli``: the command line where no console script is installed."""

from __future__ import annotations

from winnow.cli.console_script import run

run()
