"""Tables of the command line on terminals of any width."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

TABLE = """
from winnow.cli.output import print_table
print_table(
    ["partition", "first dirty offset", "why", "nothing"],
    [["orders-0", "1,234,567", "a sentence that may be folded where the terminal ends", ""]],
    right=(1,), sentences=(2,),
)
"""


def draw_table(columns: int) -> list[str]:
    """Print the table on a terminal of ``columns`` columns."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": str(columns), "NO_COLOR": "1"}
    subprocess.run([sys.executable, "-c", TABLE], stdout=follower, env=environment, check=True, timeout=60)
    os.close(follower)
    drawn = os.read(leader, 1 << 16).decode()
    os.close(leader)
    return [line for line in drawn.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines() if line.strip()]


@pytest.mark.parametrize("columns", [120, 80, 60, 30])
def test_no_line_is_wider_than_the_terminal_and_no_value_is_cut(columns: int) -> None:
    lines = draw_table(columns)
    assert [line for line in lines if len(line) > columns and "a sentence" not in line] == []
    text = " ".join(" ".join(lines).split())
    assert "orders-0" in text
    assert "1,234,567" in text


def test_table_that_cannot_fit_is_a_block_of_lines_per_row() -> None:
    assert draw_table(30) == [
        "partition           orders-0",
        "first dirty offset  1,234,567",
        "why                 a sentence that may be folded where the terminal ends",
    ]
