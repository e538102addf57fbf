"""Who may import whom: the contracts hold, and a breach is found."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HEAVY = (
    "airflow",
    "alembic",
    "duckdb",
    "great_expectations",
    "pandas",
    "pyarrow",
    "pyiceberg",
    "pyspark",
    "sqlalchemy",
)
LIGHT = (
    "oracle.log_model",
    "winnow",
    "winnow.clock",
    "winnow.config",
    "winnow.embedded.bundle",
    "winnow.embedded.java",
    "winnow.errors",
    "winnow.values.model",
    "winnow.planning.eligibility",
    "winnow.planning.estimates",
    "winnow.planning.plans",
    "winnow.values.results",
)
PACKAGES = ("winnow", "oracle", "demo", "broker", "bench", "parity", "simulation", "plugins")

ALLOWED_IMPORTS = {
    "dags": ("airflow.sdk", "winnow.clock", "winnow.config", "winnow.errors", "winnow_airflow"),
    "jobs": (
        "winnow.arrivals.run_task",
        "winnow.engine",
        "winnow.kafka",
        "winnow.quality",
        "winnow.schemas.row_task",
    ),
    "scripts": (
        "mkdocs",
        "psycopg",
        "pyarrow",
        "scripts.docs_site",
        "typer",
        "winnow.cli.app",
        "winnow.config",
        "winnow.embedded",
        "winnow.kafka",
        "winnow.sources",
        "winnow.version",
    ),
}
"""What the folders that are no packages may import beside the standard library."""


def lint_imports(scripts: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the import contracts of the project in ``folder``."""
    return subprocess.run(
        [scripts / "lint-imports", "--no-cache", "--no-logo"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "plugins")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    """The packages and their contracts in a folder where they may be broken."""
    for package in PACKAGES:
        shutil.copytree(root / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(root / "pyproject.toml", tmp_path)
    return tmp_path


def test_every_contract_holds(scripts: Path, root: Path) -> None:
    """The package as it is keeps all of its import contracts."""
    said = lint_imports(scripts, root)
    assert said.returncode == 0, said.stdout + said.stderr
    assert " 0 broken" in said.stdout


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("winnow/store_breach.py", "import sqlalchemy", "SQLAlchemy and Alembic only in winnow.store"),
        ("winnow/pipeline/breach.py", "import pyspark", "PySpark only in winnow.engine"),
        ("winnow/log/breach.py", "import great_expectations", "Great Expectations only in winnow.quality"),
        ("winnow/quality/breach.py", "import pyiceberg", "PyIceberg only in winnow.log"),
        ("winnow/pipeline/breach.py", "import airflow", "Airflow only where its home is prepared"),
        ("winnow/engine/breach.py", "import winnow.log", "Imports run downwards only"),
        ("winnow/files/breach.py", "import winnow.planning.plans", "Imports run downwards only"),
        ("winnow/newroom.py", "import winnow.values.model", "Imports run downwards only"),
        ("winnow/log/breach.py", "import winnow.planning.eligibility", "Adapters carry out decisions and make none"),
        (
            "winnow/pipeline/monitor/breach.py",
            "import winnow.pipeline.admin.sweep",
            "Commands do not import one another",
        ),
        ("winnow/pipeline/compaction/breach.py", "import winnow.pipeline.ingest", "Commands do not import one another"),
        ("winnow/arrivals/breach.py", "import winnow.store", "What writes arriving records in a task"),
        ("oracle/breach.py", "import winnow.planning.eligibility", "The oracle shares nothing"),
        ("winnow/engine/breach.py", "import winnow_airflow", "The product knows nothing of what uses it"),
        ("winnow/kafka/breach.py", "import broker.kafka_broker", "The product knows nothing of what uses it"),
        ("plugins/winnow_airflow/newroom.py", "import winnow.values.model", "Airflow's tasks stand on steps"),
        (
            "plugins/winnow_airflow/metrics.py",
            "import winnow_airflow.tasks.compaction_steps",
            "Airflow's tasks stand on steps",
        ),
        ("plugins/winnow_airflow/page/breach.py", "import winnow.pipeline.installation", "The page in Airflow's UI"),
    ],
)
def test_a_breach_is_found_by_name(copy: Path, scripts: Path, module: str, line: str, contract: str) -> None:
    """An import across the picture breaks the contract that forbids it."""
    (copy / module).write_text(f"{line}\n")
    said = lint_imports(scripts, copy)
    assert said.returncode == 1
    assert any(contract in found and "BROKEN" in found for found in said.stdout.splitlines()), said.stdout


def list_imports(source: str) -> Iterator[str]:
    """The full names of the modules that ``source`` imports, at its top and inside of functions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            assert node.level == 0
            yield node.module


def find_foreign_imports(folder: str, source: str) -> list[str]:
    """The imports of ``source`` that ``folder`` may not have."""
    allowed = ALLOWED_IMPORTS[folder]
    return [
        name
        for name in list_imports(source)
        if name.partition(".")[0] not in sys.stdlib_module_names
        and not any(name == each or name.startswith(f"{each}.") for each in allowed)
    ]


@pytest.mark.parametrize("folder", ALLOWED_IMPORTS)
def test_folders_without_a_package_import_only_what_they_may(root: Path, folder: str) -> None:
    """DAGs import Airflow and the plugin, jobs the engine, scripts the embedded services and tables of the pages."""
    files = sorted((root / folder).glob("**/*.py"))
    assert files
    assert {file.name: find_foreign_imports(folder, file.read_text()) for file in files} == {
        file.name: [] for file in files
    }


@pytest.mark.parametrize(
    ("folder", "line"),
    [
        ("dags", "from winnow.pipeline.installation import Installation"),
        ("dags", "def task():\n    import winnow.store"),
        ("jobs", "import winnow.pipeline"),
        ("jobs", "import airflow"),
        ("scripts", "from winnow.cli import app"),
    ],
)
def test_a_foreign_import_of_a_folder_is_found(folder: str, line: str) -> None:
    """Also inside of a function, where the linter allows heavy imports."""
    assert find_foreign_imports(folder, line)


def test_nouns_and_decisions_load_no_heavy_library(root: Path) -> None:
    """Importing them in a fresh Python leaves every heavy library unloaded, also by way of third parties."""
    code = f"import sys, {', '.join(LIGHT)}; print(sorted(set(sys.modules) & set({HEAVY!r})))"
    said = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


@pytest.mark.parametrize("library", ["pyspark", "great_expectations", "pyiceberg", "winnow.pipeline"])
@pytest.mark.parametrize("folder", ["dags", "plugins"])
def test_heavy_import_at_the_top_of_a_dag_or_plugin_is_found(
    scripts: Path, root: Path, folder: str, library: str
) -> None:
    """The linter refuses it at the top and allows it inside a task."""
    assert _banned(scripts, root, f"{folder}/example.py", f"import {library}\n")
    assert not _banned(scripts, root, f"{folder}/example.py", f"def task() -> None:\n    import {library}\n")
    assert not _banned(scripts, root, "jobs/example.py", f"import {library}\n")


def _banned(scripts: Path, root: Path, name: str, source: str) -> bool:
    said = subprocess.run(
        [scripts / "ruff", "check", "--no-cache", "--output-format=concise", "--stdin-filename", name, "-"],
        cwd=root,
        input=source,
        capture_output=True,
        text=True,
        check=False,
    )
    return "TID253" in said.stdout
