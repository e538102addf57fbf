"""Runs the demo and exits with its code: ``python -m demo``."""

from __future__ import annotations

import sys
import warnings

from demo.demo_run import run_demo
from demo.screen import Screen
from winnow.config.settings import load_settings
from winnow.errors import WinnowError

INTERRUPTED = 130


def main() -> int:
    """Run the demo; return the exit code."""
    if not sys.warnoptions:
        # A viewer of the demo cannot act on deprecations inside libraries.
        warnings.simplefilter("ignore")
    screen = Screen()
    try:
        return run_demo(load_settings(), screen)
    except WinnowError as problem:
        screen.say(f"\n{problem}")
        return problem.exit_code
    except KeyboardInterrupt:
        screen.say("\nStopped. The next run of the demo starts anew.")
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
