"""``make matrix``: tries each combination, and writes docs/versions.md."""

from __future__ import annotations

import argparse
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from tests.matrix.combinations import COMBINATIONS, Combination
from tests.matrix.environments import NotTriedError, build_wheel, list_versions, make_environment
from tests.matrix.page import PAGE, Trial, format_page
from tests.matrix.suite import TrialFailedError, try_environment

ROOT = Path(__file__).parents[2]


def try_combination(combination: Combination, wheel: Path, folder: Path) -> Trial:
    """Build one environment, run the suite in it, and report."""
    began = time.monotonic()
    environment = folder / combination.name.replace(" ", "-").replace(",", "").lower()
    versions: dict[str, str] = {}
    try:
        binaries = make_environment(combination, wheel, environment)
        versions = list_versions(environment)
        outcome = f"passed: {', '.join(try_environment(binaries, folder / 'data'))}"
    except NotTriedError as problem:
        outcome = f"not tried here: {problem}"
    except TrialFailedError as problem:
        outcome = f"failed: {problem}"
    return Trial(combination, versions, outcome, round(time.monotonic() - began))


def main() -> int:
    """Parse arguments, try, write; return 1 if a combination failed."""
    parser = argparse.ArgumentParser(prog="make matrix", description=__doc__)
    parser.add_argument("--only", metavar="NAME", help="this combination; the page is not written")
    parser.add_argument("--folder", type=Path, default=ROOT / ".winnow" / "matrix", help="environments and data")
    options = parser.parse_args()
    folder = options.folder.absolute()
    wheel = build_wheel(ROOT, folder / "dist")
    trials = []
    for combination in COMBINATIONS:
        if options.only in {None, combination.name}:
            trials.append(try_combination(combination, wheel, folder))
            sys.stdout.write(f"{combination.name}: {trials[-1].outcome} ({trials[-1].seconds} s)\n")
            sys.stdout.flush()
    if options.only is None:
        (ROOT / PAGE).write_text(format_page(trials, datetime.now(UTC).date()))
    return int(any(trial.outcome.startswith("failed") for trial in trials))


if __name__ == "__main__":
    sys.exit(main())
