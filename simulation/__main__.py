"""Runs simulated histories of Winnow: processes that die, stand still, get errors; a judge reads after every commit.

    python -m simulation --seed 1 --histories 100          # the histories of 100 seeds
    python -m simulation --seconds 3600 --seed 20261126    # as many as an hour takes
    python -m simulation --only compact,sweep              # no other steps but ingests
    python -m simulation --replay FILE                     # the history of a file, told in sentences

A seed gives the same history on the same checkout. A broken promise ends a run with exit code 1; its history is made
smaller, told, and written to a file for --replay.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from mmap import mmap
from pathlib import Path
from typing import Final

from simulation.history import Outcome
from simulation.reach import Reach
from simulation.runner import LENGTH, replay, run_seed
from simulation.script import Script, read_script, write_script
from simulation.shrinking import get_kind, shrink
from simulation.steps import STEPS
from simulation.story import tell_story


@dataclass
class Summary:
    """What many histories came to."""

    histories: int = 0
    calls: int = 0
    commits: int = 0
    steps: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    broken: dict[str, int] = field(default_factory=dict)

    def add(self, seed: int, outcome: Outcome) -> None:
        """Add one history."""
        self.histories += 1
        self.calls += outcome.calls
        self.commits += outcome.commits
        self.steps += outcome.steps
        self.operations += outcome.operations
        self.faults += outcome.faults
        self.pairs += outcome.pairs
        self.errors += outcome.errors
        if outcome.broken is not None:
            self.broken.setdefault(get_kind(outcome.broken), seed)

    def to_json(self) -> dict[str, object]:
        """Return it as one JSON object: counts by name, ``pairs`` as step and fault."""
        return {
            "histories": self.histories,
            "processes": sum(self.steps.values()),
            "calls": self.calls,
            "commits": self.commits,
            "steps": dict(sorted(self.steps.items())),
            "operations": dict(sorted(self.operations.items())),
            "faults": dict(sorted(self.faults.items())),
            "pairs": {f"{step} {kind}": count for (step, kind), count in sorted(self.pairs.items())},
            "errors": dict(sorted(self.errors.items())),
            "broken": self.broken,
        }


def watch(arguments: Sequence[str]) -> int:
    """Run :func:`main` in a process of its own; 1 also when a library ended that, with the seed of its history."""
    present = mmap(-1, _SEED_BYTES)
    pid = os.fork()
    if not pid:
        faulthandler.enable()
        sys.exit(main(arguments, lambda seed: present.__setitem__(slice(_SEED_BYTES), seed.to_bytes(_SEED_BYTES))))
    while True:
        with suppress(KeyboardInterrupt):
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            break
    if code >= 0:
        return code
    seed = int.from_bytes(present[:])
    print(f"\nAmid the history of seed {seed} the process was ended by {signal.Signals(-code).name}.")
    print(f"Again: {Path(sys.executable)} -m simulation --seed {seed} --histories 1", flush=True)
    return 1


_SEED_BYTES: Final = 8


def main(arguments: Sequence[str], note: Callable[[int], None] = lambda seed: None) -> int:
    """Run histories; 1 when one of them broke a promise, 2 for arguments that make no sense.

    ``note``: told each seed before its history.
    """
    parser = argparse.ArgumentParser(
        prog="python -m simulation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--histories", type=int, help="how many; 10 unless --seconds is given")
    parser.add_argument("--seconds", type=float, help="begin no history after that time")
    parser.add_argument("--only", help="steps, separated by commas; ingest and compact are always among them")
    parser.add_argument("--length", type=int, default=LENGTH, help="processes of a history")
    parser.add_argument("--tries", type=int, default=150, help="runs to make a broken history smaller; 0: leave it")
    parser.add_argument("--first", action="store_true", help="end with the first broken promise")
    parser.add_argument("--reach", action="store_true", help="also say which lines were reached; three times as slow")
    parser.add_argument("--json", type=Path, help="write the summary there")
    parser.add_argument("--found", type=Path, default=Path(".winnow/simulation"), help="where broken histories go")
    parser.add_argument("--replay", type=Path, help="run the history of this file")
    options = parser.parse_args(arguments)
    if options.replay is not None:
        script = read_script(options.replay)
        outcome = replay(script)
        print(tell_story(script, outcome))
        return 1 if outcome.broken else 0
    only = None if options.only is None else set(options.only.split(","))
    if only is not None and not only <= STEPS.keys():
        parser.error(f"there is no step {', '.join(sorted(only - STEPS.keys()))}; there are {', '.join(STEPS)}")
    with Reach() if options.reach else nullcontext() as reach:
        summary = _run_all(options, only, note)
    gc.collect()  # connections that killed processes left open, before their library ends
    print(_describe(summary))
    if reach is not None:
        print(reach.describe())
    if options.json is not None:
        options.json.write_text(json.dumps(summary.to_json(), indent=1) + "\n")
    return 1 if summary.broken else 0


def _run_all(options: argparse.Namespace, only: set[str] | None, note: Callable[[int], None]) -> Summary:
    summary = Summary()
    histories = options.histories or (sys.maxsize if options.seconds else 10)
    begun = time.monotonic()
    for seed in range(options.seed, options.seed + histories):
        if options.seconds and time.monotonic() - begun > options.seconds:
            break
        note(seed)
        script, outcome = run_seed(seed, options.length, only)
        is_new = outcome.broken is not None and get_kind(outcome.broken) not in summary.broken
        summary.add(seed, outcome)
        if is_new:
            _tell_broken(seed, script, outcome, options)
        if is_new and options.first:
            break
        if sys.stderr.isatty():
            print(f"\r{summary.histories} histories, {len(summary.broken)} broken", end="", file=sys.stderr)
    return summary


def _tell_broken(seed: int, script: Script, outcome: Outcome, options: argparse.Namespace) -> None:
    assert outcome.broken is not None
    print(f"\nSeed {seed} broke a promise: {outcome.broken}", flush=True)
    smaller, told = shrink(script, outcome.broken, tries=options.tries, report=lambda _: None)
    options.found.mkdir(parents=True, exist_ok=True)
    path = options.found / f"seed-{seed}.json"
    write_script(path, smaller)
    print(tell_story(smaller, told or outcome))
    print(f"Again: {Path(sys.executable)} -m simulation --replay {os.path.relpath(path)}", flush=True)


def _describe(summary: Summary) -> str:
    faults = ", ".join(f"{count} {kind}" for kind, count in sorted(summary.faults.items())) or "no faults"
    operations = ", ".join(f"{count} {name}" for name, count in summary.operations.most_common())
    return (
        f"{summary.histories} histories, {sum(summary.steps.values())} processes, {summary.calls} calls, "
        f"{summary.commits} commits ({operations}); {faults}; {len(summary.pairs)} pairs of step and fault; "
        f"{len(summary.broken)} promises broken."
    )


if __name__ == "__main__":
    sys.exit(watch(sys.argv[1:]))
