"""CPU of short commands at the shell, as multiples of what Python takes to start and end."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench.lake import build_environment, open_home
from bench.process_measurement import ROOT
from bench.synthetic_topics import register_topic

ROUNDS: Final = 15
"""The smallest of so many is taken: other work on the machine only ever adds."""

COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "help": ("--help",),
    "topics_list": ("topics", "list"),
    "assess": ("assess", "orders"),
}
"""Figure to the command's arguments."""

PARTITIONS, SEGMENTS = 3, 6


def measure_commands(home: Path, rounds: int = ROUNDS) -> dict[str, Any]:
    """Measure ``python -c pass`` and every command in turn, in a home with one topic.

    Returns:
        CPU seconds of each (the smallest of all rounds), and each command's as a multiple of Python's.
    """
    home.mkdir(parents=True, exist_ok=True)
    with open_home(home) as installation:
        register_topic(installation, "orders", partitions=PARTITIONS, segments=SEGMENTS, clean=SEGMENTS - 1)
    environment = build_environment(home)
    commands = {"python": ("-c", "pass")} | {name: ("-m", "winnow.cli", *words) for name, words in COMMANDS.items()}
    cpu: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, words in commands.items():
            cpu[name].append(_measure_cpu(words, environment))
    seconds = {f"{name}_cpu_seconds": min(found) for name, found in cpu.items()}
    multiples = {f"{name}_multiple": min(cpu[name]) / min(cpu["python"]) for name in COMMANDS}
    return {"rounds": rounds, **seconds, **multiples}


def _measure_cpu(words: Sequence[str], environment: Mapping[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *words],
        env=dict(environment),
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
