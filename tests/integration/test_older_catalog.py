"""The catalog went back: restored from a backup, or failed over to a replica that lagged behind."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.cli_runner import Answer, make_topic, record, winnow, write_lines
from tests.support.in_process_spark import submit
from winnow.pipeline.compaction import driver
from winnow.pipeline.installation import open_installation

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


def list_data(home: Path) -> set[Path]:
    return {path for path in list_warehouse(home) if path.suffix == ".parquet"}


def list_live_paths() -> list[Path]:
    with open_installation(to_read=True) as installation:
        log = installation.log.open(TOPIC)
        return [Path(each.path.removeprefix("file://")) for some in log.segments(log.head()).values() for each in some]


def read_values() -> list[dict[str, object]]:
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
    assert "It lacks 1 published run, the newest of " in said
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


def accept(*, code: int = 0, reason: str = "the newer catalog is gone") -> Answer:
    return winnow("topics", "alter", TOPIC, "--accept-older-head", "--reason", reason, code=code)


def list_metadata_numbers(home: Path) -> list[int]:
    return sorted(int(path.name.partition("-")[0]) for path in (home / "warehouse").rglob("*.metadata.json"))


def test_an_accepted_older_head_works_on_and_what_was_given_up_goes_after_a_grace(lake: Path) -> None:
    """Numbers are raised, the store fits the log, what is missing comes in again, and no file goes before its grace."""
    put_back(lake, "catalog.backup")
    values = read_values()
    before = max(list_metadata_numbers(lake))
    data = list_data(lake)
    said = accept().stdout
    assert "Given up: 1 published run, 1 ingest call, 3 offsets." in said
    document = json.loads(Path(said.partition("written down in file://")[2].partition(";")[0]).read_text())
    assert document["log_ends"] == {"0": 9}
    assert [receipt["plan_id"] for receipt in document["receipts"]] == document["plan_ids"]
    assert read_values() == values
    assert max(list_metadata_numbers(lake)) > before
    assert [row["log_end_offset"] for row in winnow("checkpoints", TOPIC, "--json").document] == [6]
    winnow("sweep", TOPIC)
    winnow("sweep", TOPIC)
    assert list_data(lake) == data, "nothing goes before the grace"
    assert ingest(lake, 6) == ""
    winnow("compact", TOPIC, "--now")
    assert [row["offset"] for row in read_values()] == [6, 7, 8]
    winnow("topics", "alter", TOPIC, "--config", "winnow.retired.grace.ms=0")
    with closing(sqlite3.connect(lake / "store.db")) as store, store:  # the time of a lease passes
        store.execute("UPDATE winnow_ingest SET renewed_at_ms = renewed_at_ms - 86400000")
    for _ in range(2):
        winnow("sweep", TOPIC)
    assert not [path for path in list_data(lake) if path in data]
    assert [row["offset"] for row in read_values()] == [6, 7, 8]
    entries = winnow("audit", "list", "--json").document
    assert "the newer catalog is gone" in {entry["reason"] for entry in entries}


def test_an_older_head_is_accepted_with_a_reason_only_and_only_where_it_is_older(lake: Path) -> None:
    """Without a reason, and with the newest catalog, nothing is accepted."""
    assert "is not older" in accept(code=2).stderr
    put_back(lake, "catalog.backup")
    files = list_warehouse(lake)
    assert "--reason" in accept(code=2, reason=" ").stderr
    assert list_warehouse(lake) == files


def test_an_older_head_whose_segments_a_sweep_took_is_not_accepted(lake: Path) -> None:
    """What compaction replaced since, and a sweep deleted, the older head still names: it cannot be gone on from."""
    put_back(lake, "catalog.backup")
    live = json.loads(winnow("topics", "describe", TOPIC, "--json").stdout)
    assert live["log"][0]["records"] == 3
    for path in list_live_paths():
        path.unlink()
    said = accept(code=4).stderr
    assert "1 of its 1 segments were deleted since" in said


def test_the_given_up_history_is_refused_when_its_catalog_comes_back(lake: Path) -> None:
    """Once the older head was gone on from, the catalog of the given-up history is the older one."""
    put_back(lake, "catalog.backup")
    accept()
    put_back(lake, "catalog.newer")
    assert "the catalog is older" in winnow("sweep", TOPIC, code=4).stderr
