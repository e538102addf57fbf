"""``winnow init``: the file says what holds already, sets what was chosen, keeps secrets out, overwrites nothing."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from tests.support.cli_runner import winnow
from winnow.config.layers import name_variable
from winnow.config.setting_names import MAPS, NAMES
from winnow.config.settings import Settings, load_settings


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, and no home that the environment names."""
    place = tmp_path / "installation"
    place.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.delenv("WINNOW_HOME")
    return place


def loaded(folder: Path) -> dict[str, Any]:
    """What the file in ``folder`` gives, without any environment."""
    return load_settings(cwd=folder, env={}).model_dump()


def names_of(model: type[BaseModel], above: str = "") -> set[str]:
    """Dotted names of all settings, maps as one."""
    found = set()
    for field, info in model.model_fields.items():
        name = f"{above}{field}"
        kind = info.annotation
        inner = isinstance(kind, type) and issubclass(kind, BaseModel) and name not in MAPS
        found |= names_of(kind, f"{name}.") if inner and isinstance(kind, type) else {name}
    return found


def test_file_without_choices_loads_to_the_defaults(folder: Path) -> None:
    """Whoever writes it down first changes nothing."""
    before = loaded(folder)
    winnow("init")
    assert (folder / "winnow.toml").is_file()
    assert loaded(folder) == before


def test_defaults_in_the_file_are_those_in_force(folder: Path) -> None:
    """Each line with a # and no space is taken in: still the same settings, and now they come from the file."""
    before = loaded(folder)
    winnow("init")
    path = folder / "winnow.toml"
    text, changed = re.subn(r'^#(?=[a-z"])', "", path.read_text(), flags=re.MULTILINE)
    path.write_text(text)
    assert changed > 10
    settings = load_settings(cwd=folder, env={})
    assert settings.model_dump() == before
    assert {row.source for row in settings.rows() if row.name in ("warehouse", "lease_ms", "catalog.uri")} == {
        "winnow.toml"
    }


def test_examples_in_the_file_are_settings_that_load(folder: Path) -> None:
    """What has no default is shown by an example, which is valid as it stands."""
    winnow("init")
    path = folder / "winnow.toml"
    text, changed = re.subn("^# For example: ", "", path.read_text(), flags=re.MULTILINE)
    path.write_text(text)
    settings = load_settings(cwd=folder, env={})
    assert changed >= 5
    assert settings.engine.tasks == 2
    assert settings.alert.webhook is not None
    assert settings.kafka == {"log.cleaner.min.cleanable.ratio": "0.3"}


def test_every_setting_stands_in_the_file_with_its_variable(folder: Path) -> None:
    """A setting that is added to the program is in the next file, or this fails."""
    winnow("init")
    text = (folder / "winnow.toml").read_text()
    assert names_of(Settings) == {*NAMES, *MAPS}
    missing = [
        name for name in NAMES if f"[{name_variable(name)}]" not in text or f"{name.split('.')[-1]} = " not in text
    ]
    assert missing == []
    assert [name for name in MAPS if f"[{name}]" not in text or f"[{name_variable(name)}__*]" not in text] == []


def test_what_is_chosen_is_set_and_the_staging_area_follows_a_remote_warehouse(folder: Path) -> None:
    """Executors could not read plans from a folder of this machine."""
    answer = winnow(
        "init", "--warehouse", "s3://lake/winnow/", "--store-url", "postgresql+psycopg://winnow@db/winnow",
        "--spark-master", "spark://head:7077", "--catalog-uri", "https://catalog", "--json",
    )  # fmt: skip
    settings = load_settings(cwd=folder, env={})
    assert settings.warehouse == "s3://lake/winnow"
    assert settings.staging == "s3://lake/winnow/_staging"
    assert settings.store_url == "postgresql+psycopg://winnow@db/winnow"
    assert settings.spark.master == "spark://head:7077"
    assert settings.catalog == {"uri": "https://catalog"}
    assert answer.document["path"] == str(folder / "winnow.toml")
    assert set(answer.document["settings"]) == {"warehouse", "staging", "store_url", "spark.master", "catalog.uri"}
    assert answer.document["next"][0] == "winnow doctor"


def test_home_that_is_chosen_moves_the_defaults_of_the_file(folder: Path) -> None:
    """What is embedded lies below it; a relative path is written down in full."""
    winnow("init", "--home", "data")
    text = (folder / "winnow.toml").read_text()
    assert load_settings(cwd=folder, env={}).home == folder / "data"
    assert f'#store_url = "sqlite:///{folder}/data/store.db"' in text


def test_password_is_not_written_down_but_its_variable_is_named(folder: Path) -> None:
    """Neither into the file nor onto the terminal."""
    answer = winnow("init", "--store-url", "postgresql+psycopg://winnow:hunter2@db/winnow")
    text = (folder / "winnow.toml").read_text()
    assert "hunter2" not in text + answer.stdout + answer.stderr
    assert "export WINNOW_STORE_URL=" in text
    assert "export WINNOW_STORE_URL=" in answer.stdout
    assert "--store-url holds a password and was not written down" in answer.stderr
    assert loaded(folder)["store_url"].startswith("sqlite:///")


def test_only_the_owner_may_read_the_file(folder: Path) -> None:
    """A webhook or a key may come to stand in it."""
    before = os.umask(0)
    try:
        winnow("init")
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "winnow.toml").stat().st_mode) == 0o600


def test_file_that_is_there_is_left_alone_until_it_is_asked_for(folder: Path) -> None:
    """Nothing lies beside it afterwards either."""
    path = folder / "winnow.toml"
    path.write_text("lease_ms = 5\n")
    answer = winnow("init", "--json", code=2)
    assert (answer.stdout, path.read_text()) == ("", "lease_ms = 5\n")
    assert "--force" in answer.stderr
    winnow("init", "--force")
    assert "lease_ms = 5\n" not in path.read_text()
    assert [each.name for each in folder.iterdir()] == ["winnow.toml"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--warehouse", "s3://"], "warehouse (--warehouse) is not valid: it must be a path"),
        (["--store-url", "db"], "store_url (--store-url) is not valid: it must be a SQLAlchemy URL"),
        (["--home", "100%"], "installation/100% cannot hold data"),
        (["--path", "nowhere/winnow.toml"], "could not be written: No such file or directory"),
    ],
)
def test_value_that_is_not_valid_leaves_no_file(folder: Path, arguments: list[str], sentence: str) -> None:
    """The sentence names the option."""
    answer = winnow("init", *arguments, code=2)
    assert sentence in answer.stderr
    assert list(folder.iterdir()) == []


def test_file_elsewhere_is_read_after_the_command_that_is_printed(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder is as good as a file name."""
    other = tmp_path / "conf"
    other.mkdir()
    answer = winnow("init", "--path", other, "--spark-master", "local[3]", "--json")
    command = answer.document["next"][0]
    assert command == f"export WINNOW_CONFIG={other / 'winnow.toml'}"
    monkeypatch.setenv("WINNOW_CONFIG", command.partition("=")[2])
    assert load_settings().spark.master == "local[3]"
