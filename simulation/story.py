"""Tells what happened in a history, for people: numbered sentences, then the promise that was broken."""

from __future__ import annotations

from simulation.history import Outcome
from simulation.script import Script


def tell_story(script: Script, outcome: Outcome) -> str:
    """Tell the story of a history: the topic, what happened in which order, and how it ended."""
    config = ", ".join(f"{name}={value}" for name, value in sorted(script.config.items()))
    lines = [f"Topic orders, two partitions, {config}. Source of seed {script.seed}."]
    lines += [f"{number}. {sentence}" for number, sentence in enumerate(outcome.story, 1)]
    lines.append(outcome.broken or "Every promise held.")
    return "\n".join(lines)
