"""Questions about a lake that may only be read: an archive mounted read-only, or somebody else's."""

from __future__ import annotations

import ctypes
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_runner import NOW_MS, make_topic, winnow
from winnow.store.migrations import VERSION_TABLE

QUESTIONS = (
    ("read", "orders"),
    ("topics", "list"),
    ("topics", "describe", "orders"),
    ("explain", "orders", "--as-of", str(NOW_MS + 10**9)),
    ("why", "orders", "--key", "a2V5LTE="),
    ("try-suite", "orders", "--suite", "example_json_values"),
    ("schemas", "list", "orders"),
    ("checkpoints", "orders", "--json"),
    ("receipts", "orders", "--json"),
)
_PROGRAM = """
import json, os, sys
from typer.testing import CliRunner
from winnow.cli import app
home = os.environ["WINNOW_HOME"]
assert not os.access(f"{home}/store.db", os.W_OK) and not os.access(home, os.W_OK), "this user may write there"
found = []
for question in json.loads(sys.argv[1]):
    answer = CliRunner().invoke(app, question)
    found.append([answer.exit_code, answer.stdout, answer.stderr])
print(json.dumps(found))
"""
_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE = 24, 1


def _without_the_power_to_ignore_modes() -> None:
    """Root minds the modes of files from now on, once it has started another program."""
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, 0, 0, 0)


def ask(*questions: tuple[str, ...]) -> list[list[Any]]:
    """Exit code, standard output and standard error of each command, as a user for whom modes count."""
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, json.dumps(questions)],
        capture_output=True,
        text=True,
        preexec_fn=_without_the_power_to_ignore_modes,
    )
    assert done.returncode == 0, done.stderr
    found: list[list[Any]] = json.loads(done.stdout)
    return found


@contextmanager
def read_only(home: Path) -> Iterator[None]:
    """Nobody may write below ``home``."""
    places = [home, *home.rglob("*")]
    for path in places:
        path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        yield
    finally:
        for path in places:
            path.chmod(0o700 if path.is_dir() else 0o600)


@pytest.fixture
def lake(tmp_path: Path, winnow_home: Path) -> Path:
    """One topic, part of it given to the cleaner before."""
    make_topic("orders", tmp_path / "orders.jsonl", config=["min.cleanable.dirty.ratio=0"])
    return winnow_home


def test_every_question_is_answered_without_the_right_to_write(lake: Path) -> None:
    """Word for word as with it, and nothing below the home is touched."""
    answers = [[0, winnow(*question).stdout, ""] for question in QUESTIONS]
    before = sorted(lake.rglob("*"))
    with read_only(lake):
        assert ask(*QUESTIONS) == answers
    assert sorted(lake.rglob("*")) == before


def test_a_store_of_an_older_winnow_is_named_and_left_as_it_is(lake: Path) -> None:
    """Who may only read it cannot bring it up to date; reading records does not need it."""
    with closing(sqlite3.connect(lake / "store.db")) as store:
        store.execute(f"UPDATE {VERSION_TABLE} SET version_num = '0001'")
        store.commit()
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with read_only(lake):
        (code, _, said), read = ask(("receipts", "orders"), ("read", "orders"))
    assert code == 6
    assert "tables of another Winnow (revision 0001)" in said
    assert "Nothing was changed. Let a user who may write there run any command" in said
    assert (read[0], read[1].count("\n")) == (0, 6)


def test_changes_that_only_a_writer_can_read_are_said_and_not_passed_over(lake: Path) -> None:
    """A killed process left them in the write-ahead log: the file alone would be an older state."""
    with closing(sqlite3.connect(lake / "store.db")) as writer:
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        writer.execute("CREATE TABLE unread (x)")
        writer.commit()
        for name in ("store.db", "store.db-wal"):
            (lake / f"{name}.copy").write_bytes((lake / name).read_bytes())
    for name in ("store.db", "store.db-wal"):
        (lake / f"{name}.copy").rename(lake / name)
    with read_only(lake):
        ((code, _, said),) = ask(("receipts", "orders"))
    assert code == 6
    assert "write-ahead log" in said
