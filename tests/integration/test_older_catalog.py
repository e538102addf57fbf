"""The catalog went back: restored from a backup, or failed over to a replica that lagged behind."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.cli_runner import make_topic, record, winnow, write_lines
from tests.support.in_process_spark import submit
from winnow.pipeline.compaction import driver

TOPIC = "orders"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a lake whose topic was compacted twice, the second time after ``catalog.backup`` was made.

    Each test works in the same place: tables hold absolute paths.
    """
    folder = tmp_path_factory.mktemp("older")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WINNOW_HOME", str(folder / "work" / "home"))
        patch.setattr(driver, "submit_plans", submit)
        (folder / "work").mkdir()
        home = folder / "work" / "home"
        make_topic(TOPIC, folder / "work" / "first.jsonl", config=["min.cleanable.dirty.ratio=0"])
        winnow("compact", TOPIC, "--now")
        back_up(home / "catalog.db", folder / "work" / "catalog.backup")
        go_on(home)
        shutil.copytree(folder / "work", folder / "kept")
        yield folder


@pytest.fixture
def lake(template: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    work = template / "work"
    shutil.rmtree(work)
    shutil.copytree(template / "kept", work)
    monkeypatch.chdir(work)
    monkeypatch.setenv("WINNOW_HOME", str(work / "home"))
    monkeypatch.setattr(driver, "submit_plans", submit)
    return work / "home"


def go_on(home: Path) -> None:
    """Ingest and compact after the backup, and keep the catalog of then as ``catalog.newer``."""
    ingest(home, 6)
    winnow("compact", TOPIC, "--now")
    winnow("sweep", TOPIC)
    back_up(home / "catalog.db", home.parent / "catalog.newer")


def back_up(database: Path, copy: Path) -> None:
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)


def put_back(home: Path, name: str) -> None:
    for left in home.glob("catalog.db-*"):
        left.unlink()
    shutil.copyfile(home.parent / name, home / "catalog.db")


def ingest(home: Path, first_offset: int, *, code: int = 0) -> str:
    lines = [record(f"key-{n}", f"at-{first_offset + n}", partition=0, offset=first_offset + n) for n in range(3)]
    path = write_lines(home.parent / f"from-{first_offset}.jsonl", lines)
    return winnow("ingest", "files", TOPIC, path, code=code).stderr


def list_warehouse(home: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (home / "warehouse").rglob("*") if path.is_file()}


def read_values() -> list[object]:
    return [json.loads(line) for line in winnow("read", TOPIC).stdout.splitlines()]


def test_with_an_older_catalog_every_command_that_writes_is_refused_and_nothing_is_deleted(lake: Path) -> None:
    """Ingested and compacted since, the old catalog.db back: exit 4, no file touched, and all is there again later."""
    records = read_values()
    files = list_warehouse(lake)
    put_back(lake, "catalog.backup")
    for command in (
        ["sweep", TOPIC],
        ["sweep"],
        ["compact", TOPIC, "--now"],
        ["topics", "alter", TOPIC, "--config", "retention.ms=1"],
        ["topics", "delete", TOPIC, "--yes"],
        ["topics", "delete-records", TOPIC, "--before-offset", "1"],
        ["partitions", "pause", TOPIC, "--partition", "0"],
        ["store", "rebuild"],
        ["sweep", TOPIC],
    ):
        said = winnow(*command, code=4).stderr
        assert "the catalog is older" in said, (command, said)
        assert "Nothing was swept and nothing was written." in said, (command, said)
        assert f"winnow topics recover {TOPIC}" in said, (command, said)
        assert f"winnow topics alter {TOPIC} --accept-older-head" in said, (command, said)
    assert "the catalog is older" in ingest(lake, 9, code=4)
    assert list_warehouse(lake) == files
    put_back(lake, "catalog.newer")
    assert read_values() == records
    winnow("sweep", TOPIC)
    assert ingest(lake, 9) == ""


def test_the_refusal_says_both_ages_and_what_the_older_catalog_lacks(lake: Path) -> None:
    """Sequence numbers, fences and times of both, the published runs and the offsets that are missing."""
    put_back(lake, "catalog.backup")
    said = winnow("sweep", TOPIC, code=4).stderr
    assert "It lacks 1 published run(s), the newest of " in said
    assert "orders-0, whose log ends at 6 here and ended at 9" in said
    assert "Recorded at 20" in said
    assert ", fence " in said


def test_it_is_said_also_where_a_sweep_removed_what_the_older_catalog_names(lake: Path) -> None:
    """With the state gone that the older head names, readers and writers hear of the catalog, not of a damaged file."""
    winnow("topics", "alter", TOPIC, "--config", "winnow.retired.grace.ms=0")
    winnow("sweep", TOPIC)
    put_back(lake, "catalog.backup")
    for command in (["sweep", TOPIC], ["read", TOPIC], ["topics", "delete-records", TOPIC, "--before-offset", "1"]):
        assert "the catalog is older than the log" in winnow(*command, code=4).stderr


def test_it_is_said_also_where_the_metadata_file_itself_is_gone(lake: Path) -> None:
    """After twenty more commits the file that the older catalog names is deleted."""
    put_back(lake, "catalog.backup")
    with closing(sqlite3.connect(lake / "catalog.db")) as catalog:
        ((location,),) = catalog.execute("SELECT metadata_location FROM iceberg_tables WHERE table_name = ?", [TOPIC])
    Path(location.removeprefix("file://")).unlink()
    for command in (["sweep", TOPIC], ["read", TOPIC]):
        assert "the catalog is older than the log" in winnow(*command, code=4).stderr


def test_readers_go_on_and_say_it_once(lake: Path) -> None:
    """What the older catalog names is read; standard error has one sentence about it, standard output none."""
    put_back(lake, "catalog.backup")
    for command in (["read", TOPIC], ["assess", TOPIC], ["latest", TOPIC], ["assess", TOPIC, "--json"]):
        answer = winnow(*command)
        assert answer.stderr.count("the catalog is older than the log") == 1, (command, answer.stderr)
        assert "older" not in answer.stdout
