"""Checks that links in docstrings and comments, such as :func:`main`, name what exists; ``make lint`` runs it.

Modules are parsed and never imported, and only those with links and those that links lead to: it takes two seconds.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]

PLUGINS = "plugins"
"""Airflow puts this folder on the path; names begin below it."""

LINK = re.compile(r":(func|class|mod|meth|data|attr|exc):`~?([^`]+)`")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class DanglingLink:
    """A link that leads nowhere, and where it stands."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text} names nothing that exists"


@dataclass(frozen=True, slots=True)
class Module:
    """What a module defines and imports: its ``classes`` are among its ``names``, ``imports`` have their full names."""

    name: str
    tree: ast.Module
    names: set[str] = field(default_factory=set)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)


class Sources:
    """The modules of the folders below ``root``, parsed when they are first asked for."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.find_module = cache(self._find_module)

    def is_module(self, name: str) -> bool:
        """Whether ``name`` is a module, a package, or a folder of modules."""
        return self._find_file(name) is not None or any(p.is_dir() for p in self._list_places(name))

    def exists(self, name: str, *, steps: int = 8) -> bool:
        """Whether a dotted ``name`` from the top is defined or imported there, ``steps`` imports away at most."""
        parts = name.split(".")
        for count in range(len(parts), 0, -1):
            if self.is_module(".".join(parts[:count])):
                rest = parts[count:]
                module = self.find_module(".".join(parts[:count]))
                return not rest or (module is not None and self.has(module, rest, steps=steps))
        return parts[0] in sys.stdlib_module_names and exists_in_library(parts)

    def has(self, module: Module, parts: Sequence[str], *, steps: int = 8) -> bool:
        """Whether ``module`` has the first of ``parts``, that the second, and so on."""
        first, *rest = parts
        if (defined := module.classes.get(first)) is not None:
            return not rest or (len(rest) == 1 and self.has_member(module, defined, rest[0], steps=steps))
        if (target := module.imports.get(first)) is not None and steps:
            return self.exists(".".join([target, *rest]), steps=steps - 1)
        return not rest and first in module.names

    def has_member(self, module: Module, defined: ast.ClassDef, member: str, *, steps: int = 8) -> bool:
        """Whether a class, or one that it inherits from, defines ``member`` or sets it on itself."""
        if member in list_members(defined):
            return True
        bases = [ast.unparse(base).partition("[")[0].split(".") for base in defined.bases]
        return steps > 0 and any(self.has(module, [*base, member], steps=steps - 1) for base in bases)

    def _find_module(self, name: str) -> Module | None:
        path = self._find_file(name)
        return None if path is None else read_module(name, path.read_text(encoding="utf-8"))

    def _find_file(self, name: str) -> Path | None:
        places = self._list_places(name)
        files = [file for place in places for file in (place / "__init__.py", place.with_suffix(".py"))]
        return next((file for file in files if file.is_file()), None)

    def _list_places(self, name: str) -> list[Path]:
        relative = Path(*name.split("."))
        return [self._root / relative, self._root / PLUGINS / relative]


def read_module(name: str, text: str) -> Module:
    """Read what a module defines at its top, under conditions too, and what it imports anywhere."""
    module = Module(name, ast.parse(text))
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            module.imports.update({a.asname or a.name: f"{node.module}.{a.name}" for a in node.names})
        elif isinstance(node, ast.Import):
            tops = {a.name.split(".")[0] for a in node.names if a.asname is None}
            module.imports.update({top: top for top in tops} | {a.asname: a.name for a in node.names if a.asname})
    for node in list_statements(module.tree.body):
        module.names.update(list_names(node))
        if isinstance(node, ast.ClassDef):
            module.classes[node.name] = node
    return module


def list_statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """List statements, and those under conditions and ``try``, but not those inside functions and classes."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try | ast.With):
            yield from list_statements([n for n in ast.iter_child_nodes(node) if isinstance(n, ast.stmt)])


def list_names(node: ast.stmt) -> Iterator[str]:
    """List the names that a statement defines."""
    if isinstance(node, Function | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name))


def list_members(defined: ast.ClassDef) -> set[str]:
    """List what a class defines in its body, and what its methods set on ``self``."""
    members = {name for node in list_statements(defined.body) for name in list_names(node)}
    stored = (n for n in ast.walk(defined) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
    return members | {n.attr for n in stored if isinstance(n.value, ast.Name) and n.value.id == "self"}


def exists_in_library(parts: Sequence[str]) -> bool:
    """Whether the standard library has what the dotted name says; only there is a module imported."""
    for count in range(len(parts), 0, -1):
        try:
            place: object = importlib.import_module(".".join(parts[:count]))
        except ImportError:
            continue
        for part in parts[count:]:
            place = getattr(place, part, None)
        return place is not None
    return False


def find_dangling_links(root: Path, paths: Sequence[Path]) -> list[DanglingLink]:
    """Find the links in ``paths`` that name nothing: neither from the top, nor in their module, nor in their class."""
    sources = Sources(root)
    found = []
    for path in paths:
        text = path.read_text(encoding="utf-8")
        links = list(LINK.finditer(text))
        if not links:
            continue
        module = read_module(name_module(root, path), text)
        for link in links:
            line = text.count("\n", 0, link.start()) + 1
            if not leads_somewhere(sources, module, line, link[1], link[2]):
                found.append(DanglingLink(str(path.relative_to(root)), line, link[0]))
    return found


def leads_somewhere(sources: Sources, module: Module, line: int, role: str, target: str) -> bool:
    """Whether the ``target`` of a link on ``line`` of ``module`` exists; only that of ``mod`` is a module."""
    if role == "mod" or sources.is_module(target):
        return role == "mod" and sources.is_module(target)
    classes = [node for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)]
    enclosing = [defined for defined in classes if defined.lineno <= line <= (defined.end_lineno or line)]
    return (
        any(sources.has_member(module, defined, target) for defined in enclosing)
        or sources.has(module, target.split("."))
        or sources.exists(target)
    )


def name_module(root: Path, path: Path) -> str:
    """Name the module in ``path`` as an import does."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(part for part in parts[parts[0] == PLUGINS :] if part != "__init__")


def main(folders: Sequence[str]) -> int:
    """Check the Python files of ``folders`` of the checkout; return 1 if a link leads nowhere."""
    paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    dangling = find_dangling_links(ROOT, paths)
    sys.stderr.write("".join(f"{link}\n" for link in dangling))
    return 1 if dangling else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
