"""An ingest of a broker's log directory offers the broker's cleaner checkpoints, with the command that imports them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli_runner import winnow
from tests.support.sample_archives import unpack_sample
from tests.support.world import World, open_world

COMMAND = "winnow checkpoints import"


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("WINNOW_HOME", str(tmp_path / "home"))
    with open_world(tmp_path) as opened:
        yield opened


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    unpack_sample("logdirs/hot", tmp_path / "broker's logs")
    return tmp_path / "broker's logs"


def ingest(directory: Path, topic: str) -> list[str]:
    """The notices of an ingest."""
    done = winnow("ingest", "files", topic, directory, "--source-topic", topic, "--create", "--json")
    notices: list[str] = done.document["notices"]
    return notices


def test_the_command_that_is_offered_imports_the_checkpoints(world: World, directory: Path) -> None:
    (offer,) = [notice for notice in ingest(directory, "compacted") if COMMAND in notice]
    assert [world.state(number, "compacted").first_dirty_offset for number in (0, 1)] == [None, None]
    winnow(*shlex.split(offer.partition("winnow ")[2]))
    assert [world.state(number, "compacted").first_dirty_offset for number in (0, 1)] == [1529, 1473]


def test_it_is_offered_once(world: World, directory: Path) -> None:
    """Of a partition that was there before, the broker has perhaps compacted what the log still has."""
    assert any(COMMAND in notice for notice in ingest(directory, "compacted"))
    assert not any(COMMAND in notice for notice in ingest(directory, "compacted"))


@pytest.mark.parametrize("content", ["", "0\n0\n", "no checkpoint file", "0\n1\nothers 0 7\n"])
def test_a_file_that_tells_nothing_of_the_topic_is_not_offered(world: World, directory: Path, content: str) -> None:
    (directory / "cleaner-offset-checkpoint").write_text(content)
    assert not any(COMMAND in notice for notice in ingest(directory, "compacted"))
