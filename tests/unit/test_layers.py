"""Who may import whom: the contracts hold, and a breach is found."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
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
    "winnow.model",
    "winnow.planning.eligibility",
    "winnow.planning.estimates",
    "winnow.planning.plans",
    "winnow.results",
)
PACKAGES = ("winnow", "oracle", "demo", "bench", "plugins")


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
        ("winnow/newroom.py", "import winnow.model", "Imports run downwards only"),
        ("winnow/log/breach.py", "import winnow.planning.eligibility", "Adapters carry out decisions and make none"),
        (
            "winnow/pipeline/monitor/breach.py",
            "import winnow.pipeline.admin.sweep",
            "Commands do not import one another",
        ),
        ("winnow/pipeline/compaction/breach.py", "import winnow.pipeline.ingest", "Commands do not import one another"),
        ("oracle/breach.py", "import winnow.planning.eligibility", "The oracle shares nothing"),
        ("winnow/engine/breach.py", "import winnow_airflow", "The product knows nothing of what uses it"),
    ],
)
def test_a_breach_is_found_by_name(copy: Path, scripts: Path, module: str, line: str, contract: str) -> None:
    """An import across the picture breaks the contract that forbids it."""
    (copy / module).write_text(f"{line}\n")
    said = lint_imports(scripts, copy)
    assert said.returncode == 1
    assert any(contract in found and "BROKEN" in found for found in said.stdout.splitlines()), said.stdout


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
