"""Command line of the parity certificate; see ``python -m parity --help``."""

from __future__ import annotations

import logging
import signal
import sys

from parity.cli import main

# The broker must end with this process; an exception unwinds the stack, a signal alone does not.
signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
# A line for each of a thousand ingests would hide what is printed here.
logging.getLogger("winnow").setLevel(logging.WARNING)
sys.exit(main())
