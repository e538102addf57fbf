"""Numbers are said with their nouns by one function."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from winnow.values.counts import format_count

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("number", "verb", "said"),
    [
        (0, "", "0 files"),
        (1, "", "1 file"),
        (12_345, "", "12,345 files"),
        (1, "wait", "1 file waits"),
        (2, "are", "2 files are"),
        (1, "are", "1 file is"),
    ],
)
def test_noun_and_verb_follow_the_number(number: int, verb: str, said: str) -> None:
    assert format_count(number, "file", verb) == said


def test_no_message_leaves_the_plural_to_the_reader() -> None:
    """As ``file(s)`` does."""
    sources = [path for folder in ("winnow", "plugins", "dags", "jobs") for path in (ROOT / folder).rglob("*.py")]
    assert [path for path in sources if re.search(r"[a-z]\(e?s\)", path.read_text())] == []
