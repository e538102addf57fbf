"""Takes known fixes out, one at a time, and counts the simulated histories until a promise is broken.

    python -m tests.simulation.known_faults [--histories N] [--only STEPS] [NAME...]

A fix that is not found within that many histories means a fault that the simulated world does not have.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.mutants import MUTANTS
from tests.mutants.__main__ import LEFT_OUT, ROOT
from tests.mutants.mutant import Mutant, mutate

NAMES: Final = (
    "publish-ignores-the-fence",
    "settle-voids-without-a-fence",
    "fence-does-not-look-for-the-receipt",
    "sweep-before-the-fence",
    "ingest-ignores-that-it-is-void",
    "sweep-of-ingests-that-are-not-void",
    "stale-plan-published",
    "published-without-a-last-look",
    "staged-files-not-listed",
    "older-head-not-tried-again",
    "published-run-swept",
    "recorded-run-voided",
    "state-change-of-a-replaced-attempt",
    "compared-with-a-log-that-moved",
    "paused-published",
    "expiry-not-judged",
    "horizon-moves",
    "log-start-stays",
    "sync-no-metadata",
    "sync-no-metadata-folder",
    "sync-no-state",
    "sync-no-state-folder",
    "sync-no-data-folder",
    "sync-no-new-ancestors",
    "sync-no-ingested-segments",
    "documents-copies-stay",
    "overtaken-update-fails",
    "recorded-metadata-without-a-commit",
    "paused-commit-keeps-its-time",
    "commit-dated-by-its-end",
    "late-arrivals-forgotten",
    "tombstone-dropped-in-one-run",
    "removed-ingest-files-come-back",
    "older-head-written-over",
    "restored-with-erased",
    "restored-with-old-snapshots",
    "restore-adopted-half-way",
    "pinned-while-expired",
    "forked-head-is-newest",
    "checksum-not-compared",
    "erase-behind-no-fence",
    "erase-of-the-live-alone",
    "erase-leaves-unused-files",
    "erase-with-a-grace",
    "erased-while-ingested-lands",
    "offsets-that-were-given-back-tell",
)
"""Mutants of :mod:`tests.mutants` that concern what happens between processes."""


def main(arguments: Sequence[str]) -> int:
    """Run all; print one JSON object for each as soon as it is known. 1 when one was not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.known_faults", description=__doc__)
    parser.add_argument("--histories", type=int, default=1_000)
    parser.add_argument("--only", help="steps, as of python -m simulation")
    parser.add_argument("names", nargs="*", default=NAMES)
    options = parser.parse_args(arguments)
    mutants = {mutant.name: mutant for mutant in MUTANTS}
    with tempfile.TemporaryDirectory(prefix="winnow-faults-") as folder:
        copy = Path(folder) / "checkout"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
        found = [_find(copy, mutants[name], options.histories, options.only) for name in options.names]
    return 0 if all(found) else 1


def _find(copy: Path, mutant: Mutant, histories: int, only: str | None) -> bool:
    path, broken = mutate(copy, mutant)
    sound = path.read_text()
    path.write_text(broken)
    command = [sys.executable, "-W", "ignore", "-m", "simulation", "--histories", str(histories), "--tries", "0"]
    chosen = [] if only is None else ["--only", only]
    try:
        run = subprocess.run([*command, *chosen, "--first"], cwd=copy, capture_output=True, text=True, check=False)
    finally:
        path.write_text(sound)
    match = re.search(r"^Seed (\d+) broke a promise: (.*)$", run.stdout, re.MULTILINE)
    result: dict[str, object] = {"fix": mutant.name, "without it": mutant.sentence, "histories": histories}
    if match is not None:
        result |= {"histories": int(match[1]), "broken": match[2]}
    elif run.returncode != 0:
        result |= {"error": run.stderr[-300:]}
    print(json.dumps({**result, "found": match is not None}), flush=True)
    return match is not None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
