"""What came of each column, kept beside the environments: columns that ran one by one make one page."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import date
from pathlib import Path

from tests.matrix.combinations import COMBINATIONS
from tests.matrix.page import Trial


def keep_trial(folder: Path, wheel: str, trial: Trial) -> None:
    """Keep what came of one column with the wheel of this name, in place of what came of it before."""
    told = {**asdict(trial), "combination": trial.combination.name, "day": trial.day.isoformat(), "wheel": wheel}
    (folder / f"{trial.combination.folder_name}.json").write_text(json.dumps(told, indent=1))


def read_trials(folder: Path, wheel: str) -> list[Trial]:
    """Read what came of the columns with the wheel of this name, in the page's order; no other wheel's results."""
    trials = []
    for combination in COMBINATIONS:
        kept = folder / f"{combination.folder_name}.json"
        told = json.loads(kept.read_text()) if kept.exists() else {}
        if told.pop("wheel", None) == wheel:
            day = date.fromisoformat(told["day"])
            trials.append(Trial(**{**told, "combination": combination, "day": day}))
    return trials
