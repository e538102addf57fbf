"""The table of expensive tests names what there is, with marks that are registered."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tests.costs import COSTS, TESTS, marks_of
from tests.groups import GROUPS, list_folders, plan_groups


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


def test_each_folder_runs_in_one_group_also_one_that_is_new() -> None:
    """A folder that is in no group runs in its own, so that no test is left out."""
    assert sorted(folder for group in plan_groups(list_folders()) for folder in group) == list_folders()
    assert {folder for group in GROUPS for folder in group} <= set(list_folders())
    assert plan_groups(["unit", "new", "page", "catalogue"]) == [["new"], ["unit"], ["catalogue", "page"]]
