"""Runs the soak and prints what has grown between the middle and the end.

python -m tests.soak [ROUNDS]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.soak.rounds import Growth, soak


def main(arguments: list[str]) -> int:
    """The exit code: 0 when there was only expected growth."""
    rounds = int(arguments[0]) if arguments else 1_000
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="winnow-soak-") as folder:
        found = soak(Path(folder), rounds)
    print(f"{rounds} rounds in {time.monotonic() - begun:,.0f} s. Files by kind and rows by table:\n")
    print(f"{'':36}{'middle':>8}{'end':>8}{'grew':>7}{'may':>7}  why it must")
    for each in found:
        print(_line(each))
    too_much = [each.kind for each in found if each.is_too_much]
    print(f"\nGrew and must not: {', '.join(too_much)}." if too_much else "\nNothing grew but what must.")
    return 1 if too_much else 0


def _line(each: Growth) -> str:
    grew = each.later - each.earlier
    flag = "!" if each.is_too_much else " "
    return f"{flag} {each.kind:34}{each.earlier:>8}{each.later:>8}{grew:>7}{each.allowed:>7}  {each.why}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
