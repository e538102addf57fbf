"""Breaks the rules one by one in a copy of the checkout and sees that the named test notices: ``make mutants``.

    python -m tests.mutants [NAME...]

A mutant survives when its test still passes; then the test, or the list, is wrong. Nothing in the checkout is changed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants import MUTANTS
from tests.mutants.mutant import Mutant, find_test, mutate

ROOT = Path(__file__).parents[2]
LEFT_OUT = (".*", "__pycache__", "dist", "node_modules")
TIMEOUT_S = 500


def main(names: list[str]) -> int:
    """Run all mutants, or those named; 1 when one survived or could not be made."""
    chosen = [each for each in MUTANTS if not names or each.name in names]
    unknown = sorted(set(names) - {each.name for each in chosen})
    if unknown or not chosen:
        print(f"There is no mutant {', '.join(unknown)}. Known: {', '.join(each.name for each in MUTANTS)}")
        return 2
    with tempfile.TemporaryDirectory(prefix="winnow-mutants-") as folder:
        copy = Path(folder) / "checkout"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*LEFT_OUT))
        tests = sorted({find_test(copy, each) for each in chosen})
        for each in chosen:
            mutate(copy, each)  # an entry that does not fit the code is told at once
        print(f"{len(chosen)} mutants. First the {len(tests)} tests that should catch them, on unbroken code:")
        if _run(copy, tests) != 0:
            print("They do not pass on unbroken code; mend that first.")
            return 1
        survivors = [each.name for each in chosen if not _caught(copy, each)]
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} caught." + "".join(f"\nsurvived: {n}" for n in survivors))
    return 1 if survivors else 0


def _caught(copy: Path, mutant: Mutant) -> bool:
    test = find_test(copy, mutant)
    path, broken = mutate(copy, mutant)
    sound = path.read_text()
    started = time.monotonic()
    path.write_text(broken)
    try:
        code = _run(copy, [test], quiet=True)
    finally:
        path.write_text(sound)
    seconds = time.monotonic() - started
    # 1 is pytest's "tests failed"; anything else says that the test was not even run.
    word = "caught  " if code == 1 else "SURVIVED" if code == 0 else f"BROKEN {code}"
    print(f"{word} {seconds:5.1f} s  {mutant.name}: {mutant.sentence}", flush=True)
    print(f"                  by {test}", flush=True)
    return code == 1


def _run(copy: Path, tests: list[str], *, quiet: bool = False) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    output = subprocess.DEVNULL if quiet else None
    return subprocess.run(command, cwd=copy, stdout=output, stderr=output, timeout=TIMEOUT_S, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
