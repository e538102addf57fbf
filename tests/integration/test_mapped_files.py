"""Files of any program go in by the columns that a person names, and go on without naming them again."""

from __future__ import annotations

import shlex
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.cli_runner import winnow
from winnow.sources import archive as sources_archive
from winnow.sources import listing

FLINK = "part-0f3a8c1e-6a77-4b0e-9c8e-2d0a3f4b5c6d-0-{}"
MAP = shlex.split("--map offset=kafka_offset --map partition=kafka_partition --map key=customer --map value=*:json")


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WINNOW_HOME", str(tmp_path / "home"))
    folder = tmp_path / "archive"
    folder.mkdir()
    write_part(folder, 1, range(5, 8))
    return folder


def write_part(folder: Path, number: int, offsets: range) -> None:
    rows = [{"kafka_offset": each, "kafka_partition": 0, "customer": f"c{each}", "amount": each} for each in offsets]
    pq.write_table(pa.Table.from_pylist(rows), folder / FLINK.format(number))


def count_calls(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> list[object]:
    """The first arguments of the calls of a function from now on, which is carried out as ever."""
    genuine, calls = getattr(module, name), []

    def note(*arguments: Any, **named: Any) -> Any:
        calls.append(arguments[0])
        return genuine(*arguments, **named)

    monkeypatch.setattr(module, name, note)
    return calls


def test_columns_that_were_named_once_hold_for_the_next_calls(archive: Path) -> None:
    inspected = winnow("inspect", archive, code=3)
    assert "--map offset=kafka_offset --map partition=kafka_partition --map 'value=*:json'" in inspected.stderr
    assert (
        f"Next: winnow ingest files TOPIC {archive} --create {shlex.join(MAP)}"
        in winnow("inspect", archive, *MAP).stdout
    )
    first = winnow("ingest", "files", "orders", archive, "--create", *MAP, "--json")
    assert (first.document["records_appended"], first.document["layout"]) == (3, "mapped")
    write_part(archive, 2, range(8, 10))
    again = winnow("ingest", "files", "orders", archive, "--json")
    assert (again.document["records_appended"], again.document["records_skipped"]) == (2, 0)
    assert r"{\"customer\":\"c9\",\"amount\":9}" in winnow("read", "orders", "--text").stdout


def test_a_refused_archive_leaves_no_topic(archive: Path) -> None:
    refused = winnow("ingest", "files", "orders", archive, "--create", code=3)
    assert "Parquet with columns kafka_offset (int64)" in refused.stderr
    winnow("ingest", "files", "orders", archive, "--create", *MAP, "--map", "timestamp=when", code=3)
    assert winnow("topics", "list", "--json").document == []


def test_a_layout_and_columns_contradict_each_other(archive: Path) -> None:
    refused = winnow("ingest", "files", "orders", archive, "--create", "--layout", "aiven", *MAP, code=2)
    assert "Leave one of the two out" in refused.stderr


def test_an_archive_of_many_topics_is_listed_once_and_says_each_thing_once(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = archive.parent / "events"
    folder.mkdir()
    rows = [
        {"topic": f"t{number}", "kafka_offset": offset, "kafka_partition": 0, "customer": "c", "amount": offset}
        for number in range(3)
        for offset in range(2)
    ]
    pq.write_table(pa.Table.from_pylist(rows), folder / "events.parquet")
    listed = count_calls(monkeypatch, listing, "_list_folder")
    done = winnow("ingest", "files", "--each-topic", folder, "--create", *MAP, "--map", "topic=topic")
    assert done.stdout.count("2 records appended") == 3
    assert done.stderr.count("Read as Files of another program") == 1
    assert "notice: t0, t1, t2: Read as" in done.stderr
    assert len(listed) == 1
    again = winnow("ingest", "files", "--each-topic", folder, "--json", *MAP, "--map", "topic=topic")
    assert [(each["topic"], each["records_appended"]) for each in again.document] == [("t0", 0), ("t1", 0), ("t2", 0)]


@pytest.mark.parametrize(
    ("options", "recognised"),
    [
        pytest.param([], 1, id="topic-there"),
        pytest.param(["--create"], 1, id="created"),
        pytest.param(["--create", "--partitions", "2", "--exclude", "*.tmp"], 1, id="created-with-partitions"),
        pytest.param(["--create", "--layout", "winnow"], 0, id="layout-named"),
    ],
)
def test_each_path_is_listed_once_and_recognised_once_a_call_whatever_the_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], recognised: int
) -> None:
    """Files of Winnow's own layout too, which are read in the order of the paths."""
    monkeypatch.setenv("WINNOW_HOME", str(tmp_path / "home"))
    paths = [tmp_path / "b", tmp_path / "a"]
    for number, folder in enumerate(paths):
        folder.mkdir()
        line = f'{{"partition":0,"offset":{number},"timestamp":1,"key":"YQ==","value":"YQ=="}}'
        (folder / "records.jsonl").write_text(f"{line}\n")
    if "--create" not in options:
        winnow("topics", "create", "orders", "--partitions", "1")
    listed = count_calls(monkeypatch, listing, "_list_folder")
    looked_at = count_calls(monkeypatch, sources_archive, "find_layout")
    done = winnow("ingest", "files", "orders", *paths, *options)
    assert "2 records appended" in done.stdout
    assert listed == [str(path) for path in paths]
    assert len(looked_at) == recognised
