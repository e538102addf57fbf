"""Command line of the benchmark; see ``python -m bench --help``."""

from __future__ import annotations

import signal
import sys

from bench.cli import main

# What is being measured must end with the benchmark: an exception unwinds, a signal by itself does not.
signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
sys.exit(main(sys.argv[1:]))
