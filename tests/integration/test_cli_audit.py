"""`winnow audit`: who did what, and whether that is as it was written."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.support.cli_runner import make_topic, winnow


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store whose log says that a topic was created and ingested into."""
    monkeypatch.setenv("WINNOW_HOME", str(tmp_path / "home"))
    make_topic("orders", tmp_path / "records.jsonl")
    return tmp_path / "home" / "store.db"


def change(store: Path, statement: str) -> None:
    with sqlite3.connect(store) as database:
        database.execute(statement)


def test_entries_are_listed_newest_first_by_topic_and_action(store: Path) -> None:
    listed = winnow("audit", "list", "--json").document
    assert [(entry["action"], entry["topic"]) for entry in listed] == [("ingest", "orders"), ("create", "orders")]
    assert "6 records appended, layout winnow" in winnow("audit", "list", "--action", "ingest").stdout
    assert "no such entry" in winnow("audit", "list", "--topic", "clicks").stderr
    assert "Older entries: 1; see --limit." in winnow("audit", "list", "--limit", 1).stdout


def test_verify_says_how_many_entries_hold_and_prints_the_newest_digest(store: Path) -> None:
    said = winnow("audit", "verify").stdout
    digest = winnow("audit", "verify", "--json").document["last_digest"]
    assert said.splitlines() == [
        "The audit log has 2 entries.",
        "Each is as it was written, and none is missing.",
        f"Digest of entry 2, the newest: {digest}",
    ]
    winnow("topics", "alter", "orders", "--config", "segment.ms=1000")
    assert winnow("audit", "verify", "--expect", digest, "--json").document["holds"]


def test_verify_names_the_first_break_and_exits_with_4(store: Path) -> None:
    change(store, "UPDATE winnow_audit SET actor = 'eve' WHERE action = 'create'")
    answer = winnow("audit", "verify", code=4)
    assert "error: The audit log is not as it was written: at entry 1 (20" in answer.stderr
    document = winnow("audit", "verify", "--json", code=4).document
    assert (document["holds"], document["first_break"]["number"]) == (False, 1)


def test_digest_that_was_written_down_shows_that_the_newest_entries_were_cut_off(store: Path) -> None:
    digest = winnow("audit", "verify", "--json").document["last_digest"]
    change(store, "DELETE FROM winnow_audit WHERE number = 2")
    change(store, "UPDATE winnow_audit_chain SET number = 1, digest = (SELECT digest FROM winnow_audit)")
    winnow("audit", "verify")
    assert "newest entries were cut off" in winnow("audit", "verify", "--expect", digest, code=4).stderr
    assert "64 hexadecimal digits" in winnow("audit", "verify", "--expect", "beef", code=2).stderr
