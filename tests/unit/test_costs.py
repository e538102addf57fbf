"""The table of expensive tests names what there is, with marks that are registered."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests import groups
from tests.costs import COSTS, TESTS, marks_of
from tests.groups import GROUPS, PROCESSES, WAITING, list_folders, plan_groups


def test_every_name_in_the_table_is_a_file_or_a_folder_of_tests() -> None:
    """A test that was moved takes its cost along."""
    assert [name for name in COSTS if not (TESTS / name).exists()] == []


def test_every_mark_is_registered_and_explained(root: Path) -> None:
    """`pytest --markers` lists them."""
    options = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    registered = {line.partition(":")[0] for line in options["markers"]}
    assert {mark for marks in COSTS.values() for mark in marks} <= registered


def test_a_file_has_the_marks_of_its_folder_and_its_own() -> None:
    """Each once."""
    assert list(marks_of(TESTS / "spark" / "test_application.py")) == ["spark"]
    assert list(marks_of(TESTS / "faults" / "test_spark_killed.py")) == ["spark", "slow"]
    assert list(marks_of(TESTS / "unit" / "test_costs.py")) == []


def test_each_file_runs_in_one_group_also_one_of_a_new_folder() -> None:
    """A folder that is in no group runs in its own, so that no test is left out."""
    planned = [TESTS / name for group in plan_groups(list_folders()) for name in group]
    files = [path for name in planned for path in ([name] if name.suffix else name.glob("test_*.py"))]
    assert sorted(files) == sorted(TESTS.glob("*/test_*.py"))
    assert {folder for group in GROUPS for folder in group} <= set(list_folders())
    assert {(folder,) for folder in PROCESSES} <= set(GROUPS)
    assert [len(plan_groups([folder])) for folder in PROCESSES] == list(PROCESSES.values())
    assert plan_groups(["docs", "new", "contract", "catalogue"]) == [["new"], ["docs"], ["contract", "catalogue"]]


def test_groups_that_wait_begin_beside_groups_that_work() -> None:
    assert plan_groups(["docs", "browser", "airflow", "spark", "page"]) == [
        ["airflow"], ["spark"], ["browser"], ["page"], ["docs"],
    ]  # fmt: skip
    assert set(list_folders()) >= WAITING


@pytest.fixture(autouse=True)
def no_plugins_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The groups of these tests need none, and importing them takes most of their time."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def write_folders(root: Path, folders: dict[str, str]) -> None:
    """Folders with one module of tests each, below ``root``."""
    (root / "pytest.ini").write_text("[pytest]\n")
    for name, text in folders.items():
        (root / name).mkdir()
        (root / name / f"test_{name}.py").write_text(text)


FAILS_ONCE = """
from pathlib import Path

def test_waits():
    seen = Path("seen")
    if not seen.exists():
        seen.touch()
        raise AssertionError("the wait ended too early")
"""


@pytest.mark.parametrize(("other", "exit_code"), [("def test_right(): pass", 0), ("def test_wrong(): assert False", 1)])
def test_a_test_that_failed_beside_others_is_run_again_by_itself_and_a_fault_fails_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], other: str, exit_code: int
) -> None:
    """One that passes the second time is named; one that fails twice makes the run fail."""
    write_folders(tmp_path, {"waits": FAILS_ONCE, "other": other})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(groups, "TESTS", tmp_path)
    assert groups.run_groups([["waits"], ["other"]]) == exit_code
    printed = capfd.readouterr().out
    assert "the wait ended too early" in printed
    assert "Passed only when they were run again: waits/test_waits.py::test_waits" in printed


def test_many_failed_tests_are_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """They have a common cause, and it is not that the machine was busy."""
    write_folders(tmp_path, {"broken": "".join(f"def test_{n}(): assert False\n" for n in range(4))})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(groups, "TESTS", tmp_path)
    assert groups.run_groups([["broken"]]) == 1
    assert "Again" not in capfd.readouterr().out
