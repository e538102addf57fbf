"""Records which lines of Winnow simulated processes reach: ``python -m simulation --reach``."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import winnow

ROOT: Final = Path(winnow.__file__).parent
PACKAGES: Final = (
    "log",
    "store",
    "pipeline/compaction",
    "pipeline/ingest",
    "pipeline/latest",
    "pipeline/topics",
    "pipeline/admin",
    "pipeline/erase",
    "pipeline/undo",
)
"""Folders of what processes share."""
LEFT_OUT: Final = ("store/migrations", "pipeline/ingest/kafka")


class Reach:
    """The lines that threads reach while it is entered."""

    def __init__(self) -> None:
        self._lines: set[tuple[str, int]] = set()
        self._is_recorded: dict[CodeType, bool] = {}

    def __enter__(self) -> Reach:
        threading.settrace(self._enter_function)
        return self

    def __exit__(self, *_: object) -> None:
        threading.settrace(None)

    def _enter_function(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        recorded = self._is_recorded.get(code)
        if recorded is None:
            recorded = self._is_recorded[code] = code.co_filename.startswith(str(ROOT))
        if not recorded:
            return None
        self._lines.add((code.co_filename, frame.f_lineno))
        return self._reach_line

    def _reach_line(self, frame: FrameType, event: str, argument: Any) -> Any:
        self._lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._reach_line

    def describe(self) -> str:
        """Return a table in Markdown: the functions and lines of each folder that were reached, and what was not."""
        rows = [
            "| folder | functions reached | lines reached | modules of which no function was |",
            "|---|---|---|---|",
        ]
        for package in PACKAGES:
            functions: Counter[bool] = Counter()
            lines: Counter[bool] = Counter()
            untouched = []
            for path in sorted((ROOT / package).rglob("*.py")):
                name = path.relative_to(ROOT).as_posix()
                if name.startswith(LEFT_OUT) or (package != "log" and path.parent != ROOT / package):
                    continue
                reached = Counter[bool]()
                for code in _list_functions(compile(path.read_text(), str(path), "exec")):
                    body = {(str(path), line) for _, _, line in code.co_lines() if line and line > code.co_firstlineno}
                    reached[bool(body & self._lines)] += 1
                    lines.update(line in self._lines for line in body)
                functions += reached
                if reached[False] and not reached[True]:
                    untouched.append(path.stem)
            rows.append(f"| `{package}` | {_share(functions)} | {_share(lines)} | {', '.join(untouched) or 'none'} |")
        return "\n".join(rows)


def _list_functions(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if not constant.co_name.startswith("<") and constant.co_name[:1].lower() == constant.co_name[:1]:
                yield constant
            yield from _list_functions(constant)


def _share(counts: Counter[bool]) -> str:
    total = counts.total()
    return f"{counts[True]} of {total} ({counts[True] / total:.0%})" if total else "none"
