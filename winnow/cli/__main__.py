"""``python -m winnow.cli``: the command line where no console script is installed."""

from __future__ import annotations

from winnow.cli.app import main

main()
