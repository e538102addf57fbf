"""Short reports of failing tests: of what a test printed and logged, the end alone.

A DAG's log has thousands of lines, and would hide the assertion that comes before it.
"""

from __future__ import annotations

from typing import Final

MAXIMUM_SECTION_LINES: Final = 40


def keep_last_lines(content: str) -> str:
    """Keep the last lines of one captured section, and say how many were left out."""
    lines = content.splitlines(keepends=True)
    left_out = len(lines) - MAXIMUM_SECTION_LINES
    if left_out <= 0:
        return content
    return "".join([f"[{left_out:,} lines left out]\n", *lines[left_out:]])
