"""What people export from a browser, with the offset and the partition of each record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from winnow.errors import BadInputError
from winnow.sources.archive import ArchiveInput, open_archive
from winnow.sources.choices import Choices
from winnow.sources.inspection import inspect_archive

KAFKA_UI = {
    "Value": '{"a":1}',
    "Offset": 7,
    "Key": "ü",
    "Partition": 1,
    "Headers": {"trace": "x"},
    "Timestamp": "2026-11-24T13:05:09.123Z",
}
AKHQ = {
    "partition": 1,
    "offset": 7,
    "timestamp": 1795525509.123,
    "keySchemaId": None,
    "valueSchemaId": "3",
    "headers": [{"key": "trace", "value": "x"}],
    "key": "ü",
    "value": '{"a":1}',
}


def read(path: Path) -> list[dict[str, Any]]:
    archive = open_archive([str(path)])
    assert archive.layout.name == "ui-export"
    opened = ArchiveInput(archive, archive.objects, "orders", None, Choices()).open_pass(8)
    rows = [row for batch in opened.read(0) for row in batch.to_pylist()]
    opened.finish()
    return rows


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("row", [KAFKA_UI, AKHQ], ids=["kafka-ui", "akhq"])
def test_an_export_is_read_by_the_members_that_its_program_writes(
    row: dict[str, Any], indent: int | None, tmp_path: Path
) -> None:
    path = tmp_path / "topic-messages.json"
    offset, value = ("Offset", "Value") if "Value" in row else ("offset", "value")
    many = [row | {offset: number, value: "x y" * 7_000} for number in range(100, 0, -1)]
    path.write_text(json.dumps([row | {value: None}, *many], indent=indent, ensure_ascii=False))
    first, second, *others = read(path)
    assert (first["partition"], first["offset"], first["timestamp"]) == (1, 7, 1_795_525_509_123)
    assert (first["key"], first["value"]) == ("ü".encode(), None)
    assert first["headers"] == [{"key": "trace", "value": b"x"}]
    assert (second["offset"], second["value"], len(others)) == (100, b"x y" * 7_000, 99)
    found = inspect_archive(open_archive([str(path)]), ["e.json"], full=False, progress=None)
    assert found.command == "winnow ingest files TOPIC e.json --create"


@pytest.mark.parametrize("missing", ["Key", "Value", "Headers"])
def test_what_kafka_ui_leaves_out_is_not_taken_for_null(missing: str, tmp_path: Path) -> None:
    row = {name: value for name, value in KAFKA_UI.items() if name != missing}
    for rows in ([row], [KAFKA_UI, row | {"Offset": 8}]):
        (tmp_path / "e.json").write_text(json.dumps(rows))
        with pytest.raises(BadInputError, match=rf"record {len(rows)}: it has no column '{missing}'"):
            read(tmp_path / "e.json")


def test_a_timestamp_finer_than_a_millisecond_is_refused(tmp_path: Path) -> None:
    (tmp_path / "e.json").write_text(json.dumps([AKHQ | {"timestamp": 1795525509.1234}]))
    with pytest.raises(BadInputError, match="--timestamps floor"):
        read(tmp_path / "e.json")


@pytest.mark.parametrize("row", [KAFKA_UI | {"x": 1}, AKHQ | {"x": 1}])
def test_other_members_are_of_another_program(row: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "e.json").write_text(json.dumps([row]))
    with pytest.raises(BadInputError, match="not recognised"):
        open_archive([str(tmp_path / "e.json")])


def test_the_csv_of_kafka_ui_is_refused_with_the_way_on(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("Value,Offset,Key,Partition,Headers,Timestamp\na,b,1,k,0,{},2026\n")
    with pytest.raises(BadInputError, match=r"escapes neither commas nor line breaks.*Export it as JSON"):
        open_archive([str(tmp_path / "e.csv")])
