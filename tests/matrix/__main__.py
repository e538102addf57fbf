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
from tests.matrix.results import keep_trial, read_trials
from tests.matrix.suite import TrialFailedError, try_environment

ROOT = Path(__file__).parents[2]


def try_combination(combination: Combination, wheel: Path, folder: Path) -> Trial:
    """Build one environment, run the suite in it, and report."""
    began = time.monotonic()
    environment = folder / combination.folder_name
    versions: dict[str, str] = {}
    try:
        binaries = make_environment(combination, wheel, environment)
        versions = list_versions(environment)
        outcome = f"passed: {', '.join(try_environment(binaries, folder / f'{environment.name}-data'))}"
    except NotTriedError as problem:
        outcome = f"not tried here: {problem}"
    except TrialFailedError as problem:
        outcome = f"failed: {problem}"
    return Trial(combination, versions, outcome, round(time.monotonic() - began), datetime.now(UTC).date())


def main() -> int:
    """Parse arguments, try, write; return 1 if a combination failed."""
    parser = argparse.ArgumentParser(prog="make matrix", description=__doc__)
    parser.add_argument("--only", metavar="NAME", help="this column, beside those that ran with this wheel")
    parser.add_argument("--folder", type=Path, default=ROOT / ".winnow" / "matrix", help="environments and data")
    options = parser.parse_args()
    folder = options.folder.absolute()
    wheel = build_wheel(ROOT, folder / "dist")
    failed = 0
    for combination in COMBINATIONS:
        if options.only in {None, combination.name}:
            trial = try_combination(combination, wheel, folder)
            keep_trial(folder, wheel.name, trial)
            failed += trial.outcome.startswith("failed")
            sys.stdout.write(f"{combination.name}: {trial.outcome} ({trial.seconds} s)\n")
            sys.stdout.flush()
    trials = read_trials(folder, wheel.name)
    missing = [each.name for each in COMBINATIONS if each.name not in {trial.combination.name for trial in trials}]
    if missing:
        sys.stdout.write(f"{PAGE} is as it was: {wheel.name} has not been tried as {', '.join(missing)}.\n")
    else:
        (ROOT / PAGE).write_text(format_page(trials))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
