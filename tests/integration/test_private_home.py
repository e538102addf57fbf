"""What lies below the home, as other users of the machine meet it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli_runner import make_topic, winnow
from winnow.pipeline.installation import open_installation

DATABASES = ("store.db", "catalog.db")
ABANDONED = f"{'a' * 16}-{'b' * 16}"
"""A private folder's name: a boot of the machine and a random number."""


@pytest.fixture(autouse=True)
def generous_umask() -> Iterator[None]:
    """A umask that takes no rights away."""
    before = os.umask(0)
    yield
    os.umask(before)


def rights(home: Path) -> dict[str, int]:
    """The mode of each file of the embedded databases."""
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in home.glob("*.db*") if path.suffix != ".lock"}


def test_embedded_databases_can_be_read_by_their_owner_alone_and_an_older_home_is_tightened(
    tmp_path: Path, winnow_home: Path
) -> None:
    """Under any umask, and with what SQLite keeps beside them while they are open."""
    make_topic("orders", tmp_path / "orders.jsonl")
    assert rights(winnow_home) == dict.fromkeys(DATABASES, 0o600)
    for name in DATABASES:
        (winnow_home / name).chmod(0o664)
    with open_installation() as installation, installation.store._database.writing() as session:
        session.connection()
        beside = rights(winnow_home)
        assert beside.keys() > set(DATABASES)
        assert set(beside.values()) == {0o600}
    assert winnow("topics", "list").exit_code == 0


def test_a_database_outside_of_the_home_keeps_the_rights_that_somebody_gave_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group may share it; it begins as its owner's alone."""
    (tmp_path / "shared").mkdir()
    store = tmp_path / "shared" / "store.db"
    monkeypatch.setenv("WINNOW_STORE_URL", f"sqlite:///{store}")
    winnow("assess", "--json")
    assert stat.S_IMODE(store.stat().st_mode) == 0o600
    store.chmod(0o660)
    winnow("assess", "--json")
    assert stat.S_IMODE(store.stat().st_mode) == 0o660


def test_what_a_killed_process_left_below_the_home_goes_with_the_next_command(winnow_home: Path) -> None:
    """Spilled records, and files that held keys; whichever command it is."""
    left = [winnow_home / place / f"winnow-{os.geteuid()}" / ABANDONED for place in ("spill", "run")]
    for path in left:
        path.mkdir(parents=True)
        (path / "records").write_text("a customer's name")
        path.with_name(f"{ABANDONED}.lock").touch()
    winnow("topics", "list")
    assert [path for folder in left for path in folder.parent.iterdir()] == []
