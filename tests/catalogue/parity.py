"""Generates docs/kafka-parity.md from the cases and the tests that cover them.

Tests are found by reading the source, so nothing is imported and nothing runs.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.catalogue.cases import SECTIONS, Case, Relevance

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "kafka-parity.md"
MARK = "pytest.mark.kafka"
HEAD = ("| # | Kafka's test | Rule | Tests | Beyond Kafka |", "|---|---|---|---|---|")
COMMAND = "python -m tests.catalogue.parity > docs/kafka-parity.md"

Covering = Mapping[str, Sequence[str]]


def covering_tests(root: Path = ROOT) -> dict[str, list[str]]:
    """Number -> ``file::test`` of every test below ``tests`` that carries it, sorted.

    Raises:
        ValueError: a mark without numbers, or with anything but literal text.
    """
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((root / "tests").rglob("test_*.py")):
        name = path.relative_to(root).as_posix()
        for function in _functions(ast.parse(path.read_text(encoding="utf-8"))):
            for number in _numbers(function, name):
                found[number].append(f"{name}::{function.name}")
    return {number: sorted(set(tests)) for number, tests in found.items()}


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def _numbers(function: ast.FunctionDef, file: str) -> Iterator[str]:
    for decorator in function.decorator_list:
        if ast.unparse(decorator).split("(")[0] != MARK:
            continue
        arguments = decorator.args if isinstance(decorator, ast.Call) else []
        numbers = [each.value for each in arguments if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        if not numbers or len(numbers) != len(arguments):
            raise ValueError(f"{file}::{function.name}: @{MARK} takes the numbers of the cases, each as text.")
        yield from numbers


def document(covering: Covering) -> str:
    """The page as Markdown."""
    wanted = [case for section in SECTIONS for case in section.cases if case.relevance is not Relevance.BROKER]
    covered = sum(bool(covering.get(case.number)) for case in wanted)
    left_out = sum(len(section.cases) for section in SECTIONS) - len(wanted)
    lines = [
        "# Kafka's cleaner, case by case",
        "",
        "Each case of Apache Kafka's own tests of log compaction, with the tests that check it in Winnow.",
        f"{covered} of {len(wanted)} cases that concern an archive are covered; {left_out} concern a broker alone, and",
        "say why. The last but one section goes beyond Kafka's tests; the last lists what its documentation promises.",
        "",
        f"Generated from `tests/catalogue/cases.py` and the marks on tests; write it again with `{COMMAND}`.",
    ]
    for section in SECTIONS:
        lines += ["", f"## {section.title}", "", *HEAD]
        lines += [_row(case, covering.get(case.number, ())) for case in section.cases]
    return "\n".join(lines) + "\n"


def _row(case: Case, tests: Sequence[str]) -> str:
    shown = "<br>".join(f"[`{test.rpartition('/')[2]}`](../{test.partition('::')[0]})" for test in tests)
    if case.why_not:
        shown = f"{shown}<br>{case.why_not}" if shown else case.why_not
    return f"| {case.number} | {case.kafka} | {case.rule} | {shown} | {case.beyond} |"


def main() -> None:
    """Print the page."""
    sys.stdout.write(document(covering_tests()))


if __name__ == "__main__":
    main()
