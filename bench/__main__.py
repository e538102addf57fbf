"""Command line of the benchmark; see ``python -m bench --help``."""

from __future__ import annotations

import signal
import sys

from bench.cli import main

# The measured processes must end with the benchmark; an exception unwinds the stack, a signal alone does not.
signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
sys.exit(main(sys.argv[1:]))
