"""`make matrix` in short: the lower end resolves to the lower bounds, and the page says what was tried."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.matrix.combinations import COMBINATIONS
from tests.matrix.environments import UV, build_arguments
from tests.matrix.page import INTRODUCTION, Trial, format_page
from tests.matrix.results import keep_trial, read_trials
from tests.matrix.suite import find_survivors, make_records


def resolve(tmp_path: Path, requirements: Sequence[str], *options: str) -> dict[str, str]:
    """The versions that uv takes; none where it refuses."""
    (tmp_path / "wanted.in").write_text("\n".join(requirements))
    done = subprocess.run(
        [str(UV), "pip", "compile", "--quiet", "--no-header", "--no-annotate", *options, str(tmp_path / "wanted.in")],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0 or "No solution found" in done.stderr, done.stderr
    return dict(re.findall(r"^([\w.-]+)(?:\[.*?\])?==(\S+)", done.stdout, re.MULTILINE))


def test_lower_end_resolves_to_the_lower_bounds(root: Path, tmp_path: Path) -> None:
    """What `make matrix` tries as the lower end is what pyproject.toml promises."""
    (lower,) = (each for each in COMBINATIONS if each.name == "lower end")
    (_, *arguments) = build_arguments(lower, tmp_path / "x.whl")
    split = arguments.index("--resolution")
    wanted, options = arguments[:split], arguments[split:]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    found = resolve(tmp_path, wanted, "--python-version", lower.python, *options)
    bounds = [Requirement(each) for each in project["dependencies"] + project["optional-dependencies"]["driver"]]
    for bound in bounds:
        if bound.marker is not None and not bound.marker.evaluate({"python_version": lower.python}):
            continue
        (lowest,) = (each.version for each in bound.specifier if each.operator == ">=")
        assert found[bound.name].startswith(lowest), bound
    assert found["apache-airflow"] == "3.1.8"


@pytest.mark.parametrize("python", ["3.11", "3.12"])
def test_numpy_1_resolves_to_an_arrow_that_imports_with_it(root: Path, tmp_path: Path, python: str) -> None:
    """PyArrow 26 says so only when it is imported, and asks for no NumPy."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    own = project["dependencies"]
    old = resolve(tmp_path, [*own, "numpy<2"], "--python-version", python)
    assert old["numpy"].startswith("1.26.")
    assert int(old["pyarrow"].split(".")[0]) < 26
    assert resolve(tmp_path, [*own, "numpy<2", "pyarrow>=26"], "--python-version", python) == {}
    assert resolve(tmp_path, [*own, "numpy<2"], "--python-version", "3.13") == {}


def test_page_shows_what_each_combination_had_and_what_came_of_it() -> None:
    """Also one that this machine cannot try."""
    first, second = COMBINATIONS[:2]
    trials = [
        Trial(first, {"pyspark": "3.5.2"}, "passed: ingest", 60, date(2026, 2, 1)),
        Trial(second, {}, "not tried here: no Python 3.12 here", 1, date(2026, 1, 31)),
    ]
    page = format_page(trials)
    assert "on 2026-01-31" in page
    assert "| pyspark | 3.5.2 | - |" in page
    assert "| outcome | passed: ingest | not tried here: no Python 3.12 here |" in page


def test_columns_that_ran_one_by_one_make_one_page_where_their_wheel_is_the_same(tmp_path: Path) -> None:
    """A result of another wheel is none; a column that runs again replaces its result."""
    first, second = COMBINATIONS[:2]
    passed = Trial(second, {"pyspark": "4.0.2"}, "passed: ingest", 60, date(2026, 1, 31))
    again = Trial(first, {}, "passed: ingest", 50, date(2026, 2, 1))
    keep_trial(tmp_path, "a.whl", passed)
    keep_trial(tmp_path, "a.whl", Trial(first, {}, "failed: ingest", 60, date(2026, 1, 31)))
    assert [each.outcome for each in read_trials(tmp_path, "a.whl")] == ["failed: ingest", "passed: ingest"]
    keep_trial(tmp_path, "a.whl", again)
    assert read_trials(tmp_path, "a.whl") == [again, passed]
    keep_trial(tmp_path, "b.whl", again)
    assert read_trials(tmp_path, "a.whl") == [passed]


def test_combinations_cover_every_python_airflow_and_spark_that_is_promised(root: Path) -> None:
    """Python 3.11 to 3.13; the ends, and Spark 3.5, 4.0 and 4.1 between."""
    assert {each.python for each in COMBINATIONS} == {"3.11", "3.12", "3.13"}
    asked = " ".join(requirement for each in COMBINATIONS for requirement in each.requirements)
    for part in ("apache-airflow==3.1", "apache-airflow==3.2", "apache-airflow==3.3", "pyspark>=3.5", "pyspark==4.0"):
        assert part in asked


def test_page_is_as_the_tool_wrote_it_with_every_step_passed_in_every_column(root: Path) -> None:
    """No cell and no sentence by hand: both would say more than was run."""
    page = (root / "docs" / "versions.md").read_text()
    (day,) = re.findall(r"^Written by `make matrix`, which ran on ([\d-]+),", page, re.MULTILINE)
    assert page.startswith(INTRODUCTION.format(day=day))
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| ")]
    assert rows[0][1:] == [each.name for each in COMBINATIONS]
    passed = "passed: ingest, compact by spark-submit, read, DAG parse, doctor, a scheduled run"
    assert rows[-1] == ["outcome", *[passed] * len(COMBINATIONS)]


def test_suite_has_something_to_lose_at_each_step() -> None:
    """Keys are overwritten and deleted, so that neither keeping all nor losing one goes unseen."""
    records, kept = make_records(), find_survivors(make_records())
    assert 0 < len(kept) < len(records) / 4
    assert any(each[3] is None for each in kept)
