"""Simulated histories: fixed seeds hold every promise, a script replays, a broken promise is found, shrunk and told."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from simulation import history, runner
from simulation.history import Outcome
from simulation.runner import choose_config, replay, run_seed
from simulation.script import Fault, FaultKind, Place, Script, Start, read_script, write_script
from simulation.shrinking import shrink
from simulation.story import tell_story
from winnow.log.latest_tables import LatestTable
from winnow.pipeline.erase.later_erasures import LaterErasures
from winnow.values.model import Segment

SEEDS = range(1, 5)
TYPED_SEED = 3
"""Its topic has a typed table of the latest state."""
STORIES = sorted((Path(__file__).parent / "stories").glob("*.json"))

pytestmark = pytest.mark.filterwarnings(
    # Files that a killed process leaves open.
    "ignore::ResourceWarning",
    "ignore::pytest.PytestUnraisableExceptionWarning",
)


@pytest.mark.parametrize("seed", SEEDS)
def test_history_of_a_seed_holds_every_promise(seed: int) -> None:
    """Thirty processes, or fewer if the topic is removed, with the faults that the seed switches on."""
    script, outcome = run_seed(seed)
    assert outcome.broken is None, tell_story(script, outcome)
    assert runner.LENGTH // 2 < sum(outcome.steps.values()) <= runner.LENGTH
    assert outcome.commits > 0


@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_story_that_once_broke_a_promise_holds_it(story: Path) -> None:
    script = read_script(story)
    outcome = replay(script)
    assert outcome.broken is None, tell_story(script, outcome)
    assert sum(outcome.faults.values()) == len(script.faults)


def test_script_replays_to_the_same_story(tmp_path: Path) -> None:
    script, outcome = run_seed(3)
    assert sum(outcome.faults.values()) > 1
    write_script(tmp_path / "script.json", script)
    again = replay(read_script(tmp_path / "script.json"))
    assert again.story == outcome.story
    assert again.calls == outcome.calls


def test_broken_promise_is_found_made_smaller_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Metadata files that are not synced are torn when the power goes, and the catalog names them."""
    unsynced = SimpleNamespace(fsync=lambda _: None, environ=os.environ)
    monkeypatch.setattr("winnow.log.file_io.os", unsynced)
    script, outcome = _run_until(lambda outcome: outcome.broken is not None, first_seed=14)
    assert outcome.broken is not None
    smaller, told = shrink(script, outcome.broken, tries=12, report=lambda _: None)
    assert smaller.size < script.size
    assert told is not None
    text = tell_story(smaller, told)
    assert "1. " in text
    assert text.endswith(told.broken or "")
    monkeypatch.setattr("winnow.log.file_io.os", os)
    assert replay(smaller).broken is None


def test_row_that_is_missing_in_the_table_of_the_latest_state_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    commit = LatestTable.commit

    def forget_a_file(self: LatestTable, *args: Any, add: Sequence[Segment], **rest: Any) -> int | None:
        return commit(self, *args, add=add[1:], **rest)

    monkeypatch.setattr(LatestTable, "commit", forget_a_file)
    _, outcome = run_seed(TYPED_SEED, only=("ingest", "latest-table"))
    assert str(outcome.broken).startswith("The table of the latest state has ")


def test_process_that_is_killed_has_no_effect_any_more() -> None:
    """Whatever a killed process still tries in its clean-up is not done."""
    script, outcome = _run_until(lambda outcome: "kill" in outcome.faults)
    for name in {fault.at.process for fault in script.faults if fault.kind == "kill"}:
        sentences = [sentence for sentence in outcome.story if sentence.startswith(f"{name} ")]
        assert "is killed" in sentences[-1]


def test_processes_compact_while_faults_are_on() -> None:
    """A world in which that is rare would prove little, and nobody would notice."""
    outcomes = [run_seed(seed, only=())[1] for seed in (1, 2)]
    assert [outcome.broken for outcome in outcomes] == [None, None]
    assert sum(outcome.operations["compact"] for outcome in outcomes) > 1


def test_topic_of_the_name_of_one_that_is_gone_is_another_one() -> None:
    def has_another_topic(outcome: Outcome) -> bool:
        gone = [number for number, sentence in enumerate(outcome.story) if "the topic is gone for good" in sentence]
        return bool(gone) and any(" commits ingest" in sentence for sentence in outcome.story[gone[0] :])

    _, outcome = _run_until(has_another_topic, first_seed=19, only=("remove-topic", "create-topic"))
    assert outcome.broken is None


def test_what_was_erased_after_a_backup_is_looked_for_in_what_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is lost but a backup of before an erasure; a person restores it."""
    steps = ("back-up", "erase", "read", "restore-backup")
    starts = tuple(Start(f"{step}-{number}", step, None, 1_000, 0) for number, step in enumerate(steps))
    lost = Fault(FaultKind.LOST_LAKE, Place("read-2", 3))
    script = Script(0, choose_config(0), starts, (lost,))
    outcome = replay(script)
    assert outcome.broken is None
    assert any("everything is lost" in sentence for sentence in outcome.story)
    assert outcome.operations["restore-backup"] == 1
    monkeypatch.setattr(LaterErasures, "find", lambda *_: False)
    broken = replay(script).broken
    assert broken is not None
    assert "was erased, and is back with the backup" in broken


def _run_until(
    holds: Callable[[Outcome], bool], *, first_seed: int = 1, only: Sequence[str] | None = None
) -> tuple[Script, Outcome]:
    for seed in range(first_seed, first_seed + 40):
        script, outcome = run_seed(seed, only=only)
        if holds(outcome):
            return script, outcome
    raise AssertionError("no seed has it")


def test_history_that_does_not_end_breaks_a_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress is a promise, too: what never comes to rest is found."""
    monkeypatch.setattr(history, "MAXIMUM_CALLS", 500)
    _, outcome = run_seed(1)
    assert outcome.broken == "The processes do not come to an end."


ABORTED = """
import os, sys
from simulation import __main__ as simulation

simulation.run_seed = lambda *_: os.abort()
sys.exit(simulation.watch(["--seed", "7", "--histories", "2"]))
"""


def test_history_amid_which_a_library_ends_the_process_is_named() -> None:
    ended = subprocess.run([sys.executable, "-c", ABORTED], capture_output=True, text=True)
    assert ended.returncode == 1
    assert "Amid the history of seed 7 the process was ended by SIGABRT." in ended.stdout
    assert "-m simulation --seed 7 --histories 1" in ended.stdout
