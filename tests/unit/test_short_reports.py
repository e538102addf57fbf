"""A failing test's report shows its assertion, and of what it printed and logged the last 40 lines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.short_reports import keep_last_lines

FAILING_TEST = """
import logging

def test_fails():
    for number in range(1, 101):
        print(f"printed {number}")
        logging.getLogger("any").warning(f"logged {number}")
    assert 1 + 1 == 3
"""


def test_a_short_section_is_kept_whole() -> None:
    """Forty lines, and one without an end of line."""
    for content in ("", "one", "one\ntwo\n", "line\n" * 40):
        assert keep_last_lines(content) == content


def test_of_a_long_section_the_end_is_kept() -> None:
    """With the number of lines that are missing."""
    content = "".join(f"line {number}\n" for number in range(1, 1_235))
    lines = keep_last_lines(content).splitlines()
    assert lines[0] == "[1,194 lines left out]"
    assert lines[1:] == [f"line {number}" for number in range(1_195, 1_235)]


def test_a_failing_test_reports_its_assertion_and_little_of_its_output(root: Path, tmp_path: Path) -> None:
    """By pytest itself, with the hooks of these tests."""
    test = tmp_path / "test_failing.py"
    test.write_text(FAILING_TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "--rootdir", str(tmp_path), str(test)]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(root)}, stdout=subprocess.PIPE, text=True
    )
    assert done.returncode == 1, done.stdout
    assert "assert (1 + 1) == 3" in done.stdout
    for word in ("printed", "logged"):
        found = [number for number in range(1, 101) if f"{word} {number}\n" in done.stdout]
        assert found == list(range(61, 101)), word
    assert done.stdout.count("[60 lines left out]") == 2
