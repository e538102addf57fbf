"""Runs histories from seeds and scripts."""

from __future__ import annotations

import fcntl
import gc
import os
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from random import Random
from typing import Final

from simulation.choices import ALWAYS, HOUR_MS, Choices, RandomChoices, ScriptedChoices
from simulation.history import History, Outcome
from simulation.script import Script
from simulation.source import VERSION_HEADER
from simulation.steps import LATEST_CHOICES, STEPS

LENGTH: Final = 30
"""Processes of a history."""
TYPED: Final = 0.5
"""Share of the tables of a latest state that have typed columns."""
KEYLESS: Final = 0.4
"""Share of the topics with records that have no key, which wait in the quarantine."""
SMALLEST_SEGMENT_BYTES: Final = "14"
AHEAD_MS: Final = 10 * 365 * 24 * HOUR_MS


@contextmanager
def open_folder(seed: int) -> Iterator[Path]:
    """Provide where the history of a seed runs: in memory where the machine has such a folder, else a temporary one.

    It is the same each time, since paths stand in files, and their digests decide what is read first. Only while
    another process runs the same seed it is another one.
    """
    memory = Path("/dev/shm")
    above = memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
    name = f"winnow-simulation-{os.getuid()}"
    with (above / f"{name}.lock").open("w") as lock:
        folder = above / f"{name}-{seed}"
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, seed)
        except OSError:
            folder = above / f"{name}-{seed}-{os.getpid()}"
        yield folder


def choose_config(seed: int) -> dict[str, str]:
    """Choose a topic's configuration."""
    config = _choose_log_config(seed)
    random = Random(f"latest {seed}")
    if config["winnow.latest.table"] == "true" and random.random() < TYPED:
        config |= {name: random.choice(values) for name, values in LATEST_CHOICES.items()}
        config["winnow.value.format"] = "string"
    return config


def _choose_log_config(seed: int) -> dict[str, str]:
    random = Random(f"config {seed}")
    deletes = random.random() < 0.4
    late_ms = random.choice([None, None, "0", str(HOUR_MS), str(48 * HOUR_MS)])
    strategy = random.choice(["timestamp", "timestamp", "header"])
    keyless = random.random() < KEYLESS
    policies = ["compact,delete", "compact,delete", "delete"] if keyless else ["compact,delete"]
    deletes |= keyless and random.random() < 0.5
    return {
        "cleanup.policy": random.choice(policies) if deletes else "compact",
        "segment.ms": "1",
        # Where producers' clocks are ahead, a segment closes by its size alone.
        "segment.bytes": SMALLEST_SEGMENT_BYTES,
        "min.cleanable.dirty.ratio": random.choice(["0", "0", "0.5"]),
        "delete.retention.ms": random.choice(["0", str(HOUR_MS), str(48 * HOUR_MS)]),
        "winnow.retired.grace.ms": random.choice(["0", str(HOUR_MS), str(48 * HOUR_MS)]),
        "winnow.latest.table": random.choice(["true", "false"]),
        **({"compaction.strategy": strategy, "winnow.late.arrival.ms": late_ms} if late_ms is not None else {}),
        **({"compaction.strategy.header": VERSION_HEADER} if late_ms is not None and strategy == "header" else {}),
        **({"winnow.keyless": "quarantine"} if keyless else {}),
        **({"retention.ms": random.choice(["-1", str(100 * HOUR_MS)])} if deletes else {}),
    }


def run_seed(seed: int, length: int = LENGTH, only: Collection[str] | None = None) -> tuple[Script, Outcome]:
    """Run the history of a seed; return what was decided, and what came of it. ``only``: steps, None: all."""
    config = choose_config(seed)
    weights = {name: step.weight for name, step in STEPS.items() if only is None or name in {*only, *ALWAYS}}
    # Else every record that comes after an erasure is older than that by its time.
    ahead_ms = Random(f"source {seed}").choice([0, AHEAD_MS])
    choices = RandomChoices(seed, config, weights, length, ahead_ms)
    outcome = _run(seed, config, choices, ahead_ms)
    return choices.script, outcome


def replay(script: Script) -> Outcome:
    """Run a script."""
    return _run(script.seed, dict(script.config), ScriptedChoices(script), script.ahead_ms)


def _run(seed: int, config: dict[str, str], choices: Choices, ahead_ms: int) -> Outcome:
    """Run a history, whose processes print what nobody reads."""
    with (
        open_folder(seed) as folder,
        Path(os.devnull).open("w") as nowhere,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
    ):
        outcome = History(seed, config, choices, folder, ahead_ms).run()
    if outcome.broken is not None:
        gc.collect()  # what processes had open that were ended amid their work
    return outcome
