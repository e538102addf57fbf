"""The table of expensive tests names what there is, with marks that are registered."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tests.costs import COSTS, SERVICES, TESTS, group_of, marks_of
from tests.lanes import Queue, every_group


def test_every_name_in_the_table_is_a_file_or_a_folder_of_tests() -> None:
    """A test that was moved takes its cost along."""
    assert [name for name in COSTS if not (TESTS / name).exists()] == []


def test_every_mark_is_registered_and_explained(root: Path) -> None:
    """`pytest --markers` lists them."""
    options = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    registered = {line.partition(":")[0] for line in options["markers"]}
    assert {mark for cost in COSTS.values() for mark in cost.marks} <= registered


def test_a_file_has_the_marks_of_its_folder_and_its_own() -> None:
    """Each once."""
    assert list(marks_of(TESTS / "spark" / "test_application.py")) == ["spark"]
    assert list(marks_of(TESTS / "faults" / "test_spark_killed.py")) == ["spark", "slow"]
    assert list(marks_of(TESTS / "unit" / "test_costs.py")) == []


def test_tests_that_share_servers_are_one_group_and_others_one_a_file() -> None:
    """A lane takes the whole folder, so the servers start once."""
    for folder in SERVICES:
        assert {group_of(path) for path in (TESTS / folder).glob("test_*.py")} == {folder}
    assert group_of(TESTS / "unit" / "test_costs.py") == "unit/test_costs.py"


def test_each_group_is_taken_once_and_what_nobody_took_is_known(tmp_path: Path) -> None:
    """Two lanes that want the same group: one gets it."""
    one, other = Queue(tmp_path), Queue(tmp_path)
    assert one.take("unit/test_costs.py")
    assert not other.take("unit/test_costs.py")
    assert other.take("airflow")
    assert one.taken() == {"unit/test_costs.py", "airflow"}
    assert "unit/test_costs.py" in every_group(["unit"]) - {"airflow"}
    assert every_group(["unit"]) < every_group([])
