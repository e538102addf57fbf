"""Runs histories from seeds and scripts."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from random import Random
from typing import Final

from simulation.choices import ALWAYS, HOUR_MS, RandomChoices, ScriptedChoices
from simulation.history import History, Outcome
from simulation.script import Script
from simulation.steps import STEPS

LENGTH: Final = 30
"""Processes of a history."""


def find_folder() -> Path:
    """Return where histories run: in memory where the machine has such a folder, else below the temporary one."""
    memory = Path("/dev/shm")
    return (memory if memory.is_dir() else Path("/tmp")) / f"winnow-simulation-{os.getpid()}"


def choose_config(seed: int) -> dict[str, str]:
    """Choose a topic's configuration."""
    random = Random(f"config {seed}")
    deletes = random.random() < 0.4
    late_ms = random.choice([None, None, "0", str(HOUR_MS), str(48 * HOUR_MS)])
    return {
        "cleanup.policy": "compact,delete" if deletes else "compact",
        "segment.ms": "1",
        "min.cleanable.dirty.ratio": random.choice(["0", "0", "0.5"]),
        "delete.retention.ms": random.choice(["0", str(HOUR_MS), str(48 * HOUR_MS)]),
        "winnow.retired.grace.ms": random.choice(["0", str(HOUR_MS), str(48 * HOUR_MS)]),
        "winnow.latest.table": random.choice(["true", "false"]),
        **({"compaction.strategy": "timestamp", "winnow.late.arrival.ms": late_ms} if late_ms is not None else {}),
        **({"retention.ms": random.choice(["-1", str(100 * HOUR_MS)])} if deletes else {}),
    }


def run_seed(seed: int, length: int = LENGTH, only: Collection[str] | None = None) -> tuple[Script, Outcome]:
    """Run the history of a seed; return what was decided, and what came of it. ``only``: steps, None: all."""
    config = choose_config(seed)
    weights = {name: step.weight for name, step in STEPS.items() if only is None or name in {*only, *ALWAYS}}
    choices = RandomChoices(seed, config, weights, length)
    return choices.script, _run(History(seed, config, choices, find_folder()))


def replay(script: Script) -> Outcome:
    """Run a script."""
    return _run(History(script.seed, dict(script.config), ScriptedChoices(script), find_folder()))


def _run(history: History) -> Outcome:
    """Run a history whose processes print what nobody reads."""
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        return history.run()
