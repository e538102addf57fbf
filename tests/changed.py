"""The tests that are nearest to what changed since a commit, for every day; ``make test`` runs all of them.

    python -m tests.changed [--since COMMIT] [--files N] [--show]

Importing decides: test files that import a changed module, through others too, by grimp's graph, as import-linter has
it. First those that have the module's name, then the nearer, the fewer imports lie between, then by the cost of their
folder. What tests start as processes of their own, or read as files, is declared in :data:`STARTED` and :data:`READ`.
Test files that need Spark, servers or a browser run if they are changed themselves.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import grimp

from tests.costs import marks_of

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = ("winnow", "oracle", "demo", "broker", "bench", "parity", "simulation", "winnow_airflow", "tests")

STARTED: Final[Mapping[str, tuple[str, ...]]] = {
    "tests.support.cli_runner": ("winnow.cli.app",),
    "tests.page.": ("winnow_airflow.page.app",),
    "tests.unit.test_log_reader": ("winnow.log_reader.answering",),
}
"""A test module, or the beginning of names of some, to what its processes import and it does not."""

READ: Final[Mapping[str, tuple[str, ...]]] = {
    "*.md": ("tests/unit/test_documents.py",),
    "docs/*": ("tests/unit/test_documents.py",),
    "scripts/docs_site/*": (
        "tests/unit/test_archives_page.py",
        "tests/unit/test_client_properties_page.py",
        "tests/unit/test_config_reference.py",
    ),
    "dags/*": ("tests/dags/test_parsing.py",),
    "jobs/*": ("tests/unit/test_layers.py",),
    "expectations/*": ("tests/unit/test_quality_suites.py",),
    "monitoring/*": ("tests/unit/test_monitoring.py",),
    "deploy/*": ("tests/unit/test_deploy_pages.py",),
    "pyproject.toml": ("tests/unit/test_layers.py", "tests/unit/test_packaging.py"),
    "requirements*.lock": ("tests/unit/test_packaging.py",),
}
"""Files that are no modules, to the test files that read them."""

FOLDERS: Final = ("unit", "contract", "catalogue", "page", "integration", "docs", "bench", "dags")
"""Folders of tests, what costs least first."""

DEAR: Final = frozenset({"slow", "spark", "airflow", "browser", "cluster", "kafka_broker"})
"""Marks of test files that run only if they are changed themselves."""


def list_changed(since: str) -> list[str]:
    """List the files that differ from the commit ``since``, new ones too, below the root."""
    commands = (["git", "diff", "--name-only", since], ["git", "ls-files", "--others", "--exclude-standard"])
    return sorted({name for each in commands for name in _run(each).splitlines() if (ROOT / name).exists()})


def _run(command: list[str]) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def build_graph() -> grimp.ImportGraph:
    """Build the graph of imports, with what tests start as if they imported it."""
    sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]
    graph = grimp.build_graph(PACKAGES[0], *PACKAGES[1:])
    for test, modules in STARTED.items():
        for importer in [name for name in graph.modules if name == test or (test[-1] == "." and name.startswith(test))]:
            for imported in modules:
                graph.add_import(importer=importer, imported=imported)
    return graph


def name_module(path: str) -> str | None:
    """Name the module of the file ``path``; None if it is no module of :data:`PACKAGES`."""
    parts = Path(path.removeprefix("plugins/")).with_suffix("").parts
    if not path.endswith(".py") or parts[0] not in PACKAGES:
        return None
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def find_path(module: str) -> str | None:
    """Find the file of the test module ``module``; None if it is no module with tests."""
    path = f"{module.replace('.', '/')}.py"
    return path if module.startswith("tests.") and Path(path).name.startswith("test_") else None


def rank_tests(graph: grimp.ImportGraph, modules: Collection[str]) -> Iterator[tuple[int, str]]:
    """Yield test files with how many imports lie between them and one of ``modules``, the nearest first."""
    seen = {module for module in modules if module in graph.modules}
    layer, distance = sorted(seen), 0
    while layer:
        for path in filter(None, map(find_path, layer)):
            yield distance, path
        above = {found for module in layer for found in graph.find_modules_that_directly_import(module)} - seen
        seen |= above
        layer, distance = sorted(above), distance + 1


def choose_tests(graph: grimp.ImportGraph, changed: Iterable[str], maximum: int) -> tuple[list[str], int]:
    """Choose at most ``maximum`` test files for the files ``changed``; return them, and how many more reach these."""
    changed = list(changed)
    readers = [test for name in changed for pattern, tests in READ.items() if fnmatch(name, pattern) for test in tests]
    ranked = list(rank_tests(graph, [module for name in changed if (module := name_module(name))]))
    cheap = [each for each in ranked if each[0] == 0 or DEAR.isdisjoint(marks_of(ROOT / each[1]))]
    names = {Path(name).stem for name in changed}
    cheap.sort(key=lambda each: (not _has_name(each[1], names), each[0], _rank_folder(each[1]), each[1]))
    chosen = list(dict.fromkeys([*readers, *(path for _, path in cheap)]))[:maximum]
    return chosen, len({path for _, path in ranked} - set(chosen))


def _has_name(path: str, names: Iterable[str]) -> bool:
    return any(f"_{name}_" in f"{Path(path).stem}_" for name in names)


def _rank_folder(path: str) -> int:
    folder = Path(path).parts[1]
    return FOLDERS.index(folder) if folder in FOLDERS else len(FOLDERS)


def main() -> int:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser(description="The tests nearest to what changed since a commit.")
    parser.add_argument("--since", default="HEAD", metavar="COMMIT", help="the commit to compare with; default: HEAD")
    parser.add_argument("--files", type=int, default=20, metavar="N", help="at most N test files; default: 20")
    parser.add_argument("--show", action="store_true", help="print the files and run nothing")
    options = parser.parse_args()
    changed = list_changed(options.since)
    chosen, left = choose_tests(build_graph(), changed, options.files)
    print(f"{len(changed)} files changed since {options.since}: {len(chosen)} test files, {left} more import them.")
    if not chosen or options.show:
        print("\n".join(chosen) or "No test imports or reads what changed. All tests: make test")
        return 0
    done = subprocess.call([sys.executable, "-m", "pytest", "-q", "--durations=5", *chosen], cwd=ROOT)
    if left:
        print(f"{left} more test files import what changed, from farther away or with servers. All of them: make test")
    return done


if __name__ == "__main__":
    sys.exit(main())
