"""The recipes of docs/deploy: each says how it is known to work, and names only what exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from winnow.cli import app
from winnow.config.settings import load_settings

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "deploy"
RECIPES = sorted(page.stem for page in FOLDER.glob("*.md") if page.stem != "index")


def read(name: str) -> str:
    """The text of one page."""
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def list_variables(text: str) -> dict[str, str]:
    """Every WINNOW_ variable that a page gives a value, in a shell, a command or a list of YAML."""
    shell = re.findall(r"(WINNOW_\w+)=('[^']*'|[^\s,`'\"]+)", text)
    listed = re.findall(r"name: (WINNOW_\w+), value: ([^}\s]+)", text)
    return {name: value.strip("'") for name, value in (*shell, *listed)}


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_says_how_it_is_known_to_work(name: str) -> None:
    """Once, at its head; tests that it names are there."""
    head = read(name).split("\n\n")[1]
    assert head.startswith(("**Tested** by `", "**By the book**: "))
    named = re.findall(r"`(tests/[\w/.]+)`", read(name))
    assert [path for path in named if not (ROOT / path).is_file()] == []
    assert not head.startswith("**Tested**") or named


@pytest.mark.parametrize("name", RECIPES)
def test_every_step_of_a_recipe_was_run_or_is_by_the_book(name: str) -> None:
    """The third paragraph says which, and when; steps are numbered from one."""
    text = read(name)
    steps = [int(number) for number in re.findall(r"^\*\*(\d+)\.\*\* ", text, re.MULTILINE)]
    assert steps == list(range(1, len(steps) + 1))
    told = text.split("\n\n")[2]
    assert told.startswith(("Run on 20", "By the book: "))
    run = re.search(r"Run on \d{4}-\d\d-\d\d: steps? ([\d, ]*\d)", told)
    book = re.search(r"By the book: steps? ([\d, ]*\d)\.", told)
    listed = [int(number) for each in (run, book) if each is not None for number in each[1].split(", ")]
    assert sorted(listed) == steps
    assert ("**Tested**" in text) <= (run is not None)


def test_the_index_lists_every_recipe_with_its_status() -> None:
    """As the pages say themselves."""
    listed = dict(re.findall(r"\]\(([\w-]+)\.md\) \| (tested|by the book) \|", read("index")))
    assert sorted(listed) == RECIPES
    for name, status in listed.items():
        assert ("**Tested**" in read(name)) == (status == "tested"), name


@pytest.mark.parametrize("name", ["index", *RECIPES])
def test_every_setting_that_a_recipe_names_exists(name: str, tmp_path: Path) -> None:
    """With its value it loads without a complaint or a notice; names alone are known, too."""
    text = read(name)
    values = list_variables(text)
    named = set(re.findall(r"\bWINNOW_\w+", text)) - set(values)
    # A name without a value gets one that any setting of text takes.
    env = {**dict.fromkeys(named - {"WINNOW_HOME"}, "postgresql+psycopg://winnow@db/store"), **values}
    settings = load_settings(cwd=tmp_path, env={**env, "WINNOW_HOME": str(tmp_path)})
    assert settings.notices == ()


def test_a_setting_that_does_not_exist_would_be_found(tmp_path: Path) -> None:
    """What the test before relies on."""
    settings = load_settings(cwd=tmp_path, env={"WINNOW_HOME": str(tmp_path), "WINNOW_SPARK_MASTER": "yarn"})
    assert settings.notices != ()


@pytest.mark.parametrize("name", ["index", *RECIPES])
def test_every_command_of_winnow_in_a_recipe_exists(name: str) -> None:
    """With its options."""
    for line in re.findall(r"^(?:RUN )?(winnow .+)$", read(name), re.MULTILINE):
        command: Any = typer.main.get_command(app)
        words = shlex.split(line)[1:]
        while hasattr(command, "commands"):
            command = command.commands[words.pop(0)]
        known = {option for parameter in command.params for option in parameter.opts}
        assert [word for word in words if word.startswith("--") and word not in known] == [], line
