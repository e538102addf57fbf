"""Nothing in a simulated process comes from outside: modules keep nothing unseen, time and chance are the seed's."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import winnow
from simulation.adapters import CACHES, CONSTANT_STATE, MODULE_STATE

ROOT = Path(winnow.__file__).parent
OUTSIDE = ("winnow.cli", "winnow.embedded", "winnow.kafka", "winnow.pipeline.doctor", "winnow.pipeline.restore")
"""Packages that no simulated step runs."""


@cache
def _list_modules() -> tuple[str, ...]:
    found = pkgutil.walk_packages(winnow.__path__, "winnow.", onerror=lambda _: None)
    return tuple(module.name for module in found if not module.name.startswith("winnow.store.migrations"))


def test_every_module_that_keeps_something_is_known() -> None:
    """A simulated process begins with fresh module state; what a module or a cache keeps is on a list."""
    known = {f"{module.__name__}.{name}" for module, name, _ in MODULE_STATE} | CONSTANT_STATE
    known |= {f"{cached.__module__}.{cached.__name__}" for cached in CACHES}
    assert set(_list_kept()) - known == set()


def _list_kept() -> Iterator[str]:
    lock = type(threading.Lock())
    for name in _list_modules():
        tree = ast.parse(_find_source(name))
        assigned = {
            target.id
            for node in tree.body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name) and target.id.lower() == target.id and not target.id.startswith("__")
        }
        if assigned:
            module = importlib.import_module(name)
            for variable in sorted(assigned):
                if isinstance(getattr(module, variable, None), dict | set | list | lock):
                    yield f"{name}.{variable}"
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and "cache" in " ".join(map(ast.unparse, node.decorator_list)):
                yield f"{name}.{node.name}"


def _find_source(name: str) -> str:
    path = ROOT.parent / Path(*name.split("."))
    return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()


def test_time_and_chance_are_asked_where_the_simulation_sees_it() -> None:
    """Functions are called through their modules, where they are replaced; nothing else tells time or draws."""
    breaches = [
        f"{name}: {ast.unparse(node)}"
        for name in _list_modules()
        if not name.startswith(OUTSIDE)
        for node in ast.walk(ast.parse(_find_source(name)))
        if _reads_time_or_chance(node)
    ]
    assert breaches == []


def _reads_time_or_chance(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module in {"time", "random", "secrets", "uuid"} and any(
            alias.name not in {"UUID", "gmtime", "strftime"} for alias in node.names
        )
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in {"utcnow", "today", "uuid1"} or (
            node.func.attr == "now" and ast.unparse(node.func.value).endswith(("datetime", "date"))
        )
    return False
