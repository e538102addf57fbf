"""One mutant: a function by its name, a change of its syntax tree, and the test that must notice."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TypeAlias

from tests.mutants.changes import Change

CODE = ("winnow", "plugins")

Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign | ast.AnnAssign


@dataclass(frozen=True, slots=True)
class Mutant:
    """A deliberate breakage of a rule: ``Mutant(name, sentence).changes(function, change).caught_by(test)``."""

    name: str
    sentence: str
    function: str = ""
    change: Change | None = None
    test: str = ""

    def changes(self, function: str, change: Change) -> Mutant:
        """Say what is changed.

        Args:
            function: a function, a method (``Class.method``), or a constant of a module. Where several modules have
                what the change fits, the module's name goes before it: ``module.function``.
            change: one of ``tests.mutants.changes``.
        """
        return replace(self, function=function, change=change)

    def caught_by(self, test: str) -> Mutant:
        """Say which test must fail: the name of a test function, with the parameters in brackets where it has any."""
        return replace(self, test=test)


@dataclass(frozen=True, slots=True)
class _Found:
    path: Path
    node: Definition


def mutate(root: Path, mutant: Mutant) -> tuple[Path, str]:
    """Apply ``mutant`` to the code below ``root``: the file's path and its new text. Nothing is written.

    Raises:
        ValueError: the code has changed and the list has not.
    """
    found = _definitions(root).get(mutant.function, [])
    assert mutant.change is not None
    places = [
        (each, tree, edit)
        for each, tree in ((each, copy.deepcopy(each.node)) for each in found)
        for edit in mutant.change.find(tree)
    ]
    if len(places) != 1:
        where = ", ".join(str(each.path.relative_to(root)) for each in found) or "nowhere"
        raise ValueError(
            f"{mutant.name}: the code has changed and the list has not. {mutant.change.text} fits {len(places)} places "
            f"in {mutant.function} (defined in: {where}), and should fit one."
        )
    each, tree, edit = places[0]
    edit()
    lines = each.path.read_text().splitlines(keepends=True)
    first = min([each.node.lineno, *(d.lineno for d in getattr(each.node, "decorator_list", []))])
    lines[first - 1 : each.node.end_lineno] = [_unparse(tree, each.node.col_offset // 4)]
    return each.path, "".join(lines)


def find_test(root: Path, mutant: Mutant) -> str:
    """The node id of the test that must notice ``mutant``.

    Raises:
        ValueError: no test has this name, or several have.
    """
    name, bracket, parameters = mutant.test.partition("[")
    paths = _tests(root).get(name, [])
    if len(paths) != 1:
        raise ValueError(f"{mutant.name}: {len(paths)} files have a test {name}, and one should: {paths}")
    return f"{paths[0].relative_to(root)}::{name}{bracket}{parameters}"


def _unparse(node: ast.stmt, depth: int) -> str:
    # Within blocks, so that code is indented and text within strings is not.
    for _ in range(depth):
        node = ast.If(ast.Constant(True), [node], [])
    lines = ast.unparse(ast.fix_missing_locations(node)).split("\n")[depth:]
    return "\n".join(lines).lstrip("\n") + "\n"


@cache
def _definitions(root: Path) -> dict[str, list[_Found]]:
    """By name, with and without the module's."""
    definitions: dict[str, list[_Found]] = {}
    for path in sorted(path for folder in CODE for path in (root / folder).rglob("*.py")):
        for name, node in _named(ast.parse(path.read_text()), ""):
            for known_as in (name, f"{path.stem}.{name}"):
                definitions.setdefault(known_as, []).append(_Found(path, node))
    return definitions


def _named(tree: ast.AST, prefix: str) -> Iterator[tuple[str, Definition]]:
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield prefix + node.name, node
                yield from _named(node, f"{prefix}{node.name}.")
            case ast.ClassDef():
                yield from _named(node, f"{prefix}{node.name}.")
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]) if not prefix:
                yield name, node
            case _:
                yield from _named(node, prefix)


@cache
def _tests(root: Path) -> dict[str, list[Path]]:
    tests: dict[str, list[Path]] = {}
    for path in sorted((root / "tests").rglob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                tests.setdefault(node.name, []).append(path)
    return tests
