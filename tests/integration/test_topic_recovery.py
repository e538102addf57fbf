"""Adopting and recovering topics: a lost catalog, an older one, and files that must not be taken."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli_runner import Answer, winnow
from tests.support.world import build_versions, write_jsonl
from winnow.config.settings import load_settings
from winnow.files import storage
from winnow.model import Record
from winnow.pipeline.context import Context, open_context

TOPIC = "orders"


class Home:
    """An installation in a folder, used by its command line."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.files = 0

    @property
    def catalog(self) -> Path:
        return self.home / "catalog.db"

    @property
    def store(self) -> Path:
        return next(iter(self.home.glob("store*.db")))

    def ingest(self, first: int, count: int, topic: str = TOPIC) -> None:
        self.files += 1
        winnow("ingest", "files", topic, write_jsonl(self.folder / f"in-{self.files}.jsonl", build_versions(first, count)))

    def compact(self) -> None:
        winnow("compact", TOPIC, "--now", "--engine", "local") if False else winnow("compact", TOPIC, "--now")

    def read(self, topic: str = TOPIC) -> list[dict[str, object]]:
        return [json.loads(line) for line in winnow("read", topic).stdout.splitlines()]

    def describe(self, topic: str = TOPIC) -> dict[str, object]:
        return dict(winnow("topics", "describe", topic, "--json").document)

    def open(self) -> Iterator[Context]:
        return open_context(load_settings(cwd=self.folder))  # type: ignore[return-value]

    def location(self, topic: str = TOPIC) -> str:
        with open_context(load_settings(cwd=self.folder)) as ctx:
            return str(ctx.log.open(topic).head(even_deleted=True).location)

    def metadata(self, topic: str = TOPIC) -> str:
        with open_context(load_settings(cwd=self.folder)) as ctx:
            return str(ctx.log.open(topic).head(even_deleted=True).table.metadata_location)

    def fence(self, topic: str = TOPIC) -> int:
        with open_context(load_settings(cwd=self.folder)) as ctx:
            return ctx.log.open(topic).head(even_deleted=True).fence


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINNOW_HOME", str(tmp_path / "home"))
    found = Home(tmp_path)
    winnow("topics", "create", TOPIC, "--partitions", 1, "--config", "min.cleanable.dirty.ratio=0")
    found.ingest(0, 6)
    found.ingest(6, 6)
    return found


def test_a_lost_catalog_is_made_anew_from_the_warehouse(home: Home) -> None:
    """What is read, the log's ends and its configuration are what they were, and the log goes on."""
    before, location, described, fence = home.read(), home.location(), home.describe(), home.fence()
    home.catalog.unlink()
    dry = winnow("topics", "adopt", TOPIC, location)
    assert "--yes" in dry.stdout
    winnow("topics", "describe", TOPIC, code=2)
    winnow("topics", "adopt", TOPIC, location, "--yes")
    assert home.read() == before
    assert home.describe() == described
    assert home.fence() > fence
    home.ingest(12, 3)
    assert len(home.read()) == len(before) + 3


def test_an_older_catalog_is_brought_forward(home: Home) -> None:
    """What was committed since the backup is back; repeating it changes nothing."""
    backup = home.folder / "backup.db"
    shutil.copy(home.catalog, backup)
    home.ingest(12, 4)
    home.ingest(16, 4)
    before = home.read()
    shutil.copy(backup, home.catalog)
    assert len(home.read()) == len(before) - 8
    winnow("topics", "recover", TOPIC)
    assert len(home.read()) == len(before) - 8
    winnow("topics", "recover", TOPIC, "--yes")
    assert home.read() == before
    at = home.metadata()
    again = winnow("topics", "recover", TOPIC, "--yes", "--json").document
    assert not again["was_needed"]
    assert home.metadata() == at
