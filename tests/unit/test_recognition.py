"""No program is recognised by a name alone: names of many end in two numbers, and records of many have a value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from winnow.errors import BadInputError
from winnow.sources.archive import open_archive
from winnow.sources.inspection import inspect_archive
from winnow.sources.objects import ReadOptions

EVENT = {"id": 1, "amount": 2.5}
POSITIONED = {"kafka_offset": 17, "kafka_partition": 3, "key": "k", "value": "v"}
FLINK = "orders/2026-11-24--10/part-0f3a8c1e-6a77-4b0e-9c8e-2d0a3f4b5c6d-0-1"
DATED = "orders/2026/11/24/part-0f3a8c1e-6a77-4b0e-9c8e-2d0a3f4b5c6d-0-1"
SNOWFLAKE = "unload/data_0_0_0.snappy.parquet"
SECOR = "backup/orders/offset=0/1_0_00000000000000001700.json"
REDPANDA_CONNECT = "orders/1-1700000000000000000.json"


def write(folder: Path, name: str, row: dict[str, Any]) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist([row]), path)
    elif name.endswith(".orc"):
        orc.write_table(pa.Table.from_pylist([row]), path)
    else:
        path.write_text(json.dumps(row) + "\n")


@pytest.mark.parametrize("row", [EVENT, POSITIONED, {"value": "v", "offset": 500, "timestamp": "2026-11-24T10:00:00Z"}])
@pytest.mark.parametrize("name", [FLINK, DATED, FLINK + "1.parquet", SNOWFLAKE, SECOR, REDPANDA_CONNECT])
def test_other_programs_names_tell_no_offsets(name: str, row: dict[str, Any], tmp_path: Path) -> None:
    write(tmp_path, name, row)
    with pytest.raises(BadInputError) as refused:
        open_archive([str(tmp_path)])
    text = str(refused.value)
    assert "what wrote it is not recognised" in text
    assert all(way in text for way in ("--layout", "--map", "Winnow's own JSON lines"))
    assert all(column in text for column in row)


def test_a_refusal_proposes_the_columns_that_seem_to_be_a_record_s(tmp_path: Path) -> None:
    write(tmp_path, FLINK + ".parquet", {"kafka_offset": 17, "kafka_partition": 3, "customer": "c", "amount": 1})
    with pytest.raises(BadInputError) as refused:
        open_archive([str(tmp_path)])
    text = str(refused.value)
    assert (
        "Parquet with columns kafka_offset (int64), kafka_partition (int64), customer (string), amount (int64)" in text
    )
    assert "--map offset=kafka_offset --map partition=kafka_partition --map 'value=*:json' if these are" in text


@pytest.mark.parametrize("name", ["rows.json", "rows.orc", "rows.parquet", "array.json"])
def test_a_refusal_proposes_members_of_structures(name: str, tmp_path: Path) -> None:
    row = {"id": "a", "meta": {"kafka_offset": 17, "partition": 3}, "note": "n"}
    write(tmp_path, name, row)
    if name.startswith("array"):
        (tmp_path / name).write_text(json.dumps([row], indent=2))
    with pytest.raises(BadInputError, match="not recognised") as refused:
        open_archive([str(tmp_path)])
    assert "--map offset=meta.kafka_offset --map partition=meta.partition --map 'value=*:json' if" in str(refused.value)


def test_values_under_aiven_s_usual_name_need_a_person_who_says_so(tmp_path: Path) -> None:
    write(tmp_path, "orders-0-17", EVENT)
    with pytest.raises(
        BadInputError, match="--layout aiven if you know that it is that: its name alone tells an offset"
    ):
        open_archive([str(tmp_path)])
    found = inspect_archive(open_archive([str(tmp_path)], suggests=True), ["archive/"], full=False, progress=None)
    assert found.command == "winnow ingest files orders archive/ --create --layout aiven"
    (entry,) = found.partitions
    assert entry.offsets == "derived"
    assert any(finding.text.startswith("Offsets are derived") for finding in entry.findings)


@pytest.mark.parametrize("name", ["orders-0-1700000000", "part-0f3a8c1e-6a77-4b0e-9c8e-2d0a3f4b5c6d-0-1"])
def test_a_time_or_a_random_id_in_a_name_is_never_proposed_as_aiven_s(name: str, tmp_path: Path) -> None:
    write(tmp_path, name, EVENT)
    with pytest.raises(BadInputError, match="--layout NAME if you know"):
        open_archive([str(tmp_path)], suggests=True)


def test_a_record_that_tells_another_offset_than_its_name_is_not_aiven_s(tmp_path: Path) -> None:
    row = {"key": "k", "value": "v", "offset": 18, "timestamp": "2026-11-24T10:00:00.000Z"}
    write(tmp_path, "orders-0-17", row)
    with pytest.raises(BadInputError, match="not recognised"):
        open_archive([str(tmp_path)])
    write(tmp_path, "orders-0-17", {**row, "offset": 17})
    assert open_archive([str(tmp_path)]).layout.name == "aiven"


@pytest.mark.parametrize("name", ["rows.orc", "export.json", "rows.parquet", "rows.bin"])
def test_inspecting_what_cannot_be_read_is_an_error(name: str, tmp_path: Path) -> None:
    if name.endswith(".bin"):
        (tmp_path / name).write_bytes(b"\xff\xfe\x00 nothing")
    else:
        write(tmp_path, name, EVENT)
    with pytest.raises(BadInputError, match="not recognised"):
        open_archive([str(tmp_path)], suggests=True)


def test_an_archive_of_which_nothing_can_be_read_is_an_error(tmp_path: Path) -> None:
    pq.write_table(pa.table({"key": [b"k"], "value": [b"v"], "partition": [0], "offset": [1]}), tmp_path / "a.parquet")
    sound = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(sound[:-20])
    with pytest.raises(BadInputError, match=r"a\.parquet"):
        inspect_archive(open_archive([str(tmp_path)], suggests=True), ["archive/"], full=True, progress=None)


@pytest.mark.parametrize(
    "text", ['[\n  {\n    "offset": 3,\n    "partition": 0\n  }\n]', '[{"offset": 3, "partition": 0}]']
)
def test_members_of_an_exported_array_are_told_and_proposed(text: str, tmp_path: Path) -> None:
    (tmp_path / "topic-messages.json").write_text(text)
    with pytest.raises(BadInputError, match="JSON with members offset, partition") as refused:
        open_archive([str(tmp_path)])
    assert "--map offset=offset --map partition=partition --map 'value=*:json'" in str(refused.value)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("00000000000000000000.log", bytes(80), "does not begin with a record batch of its offset"),
        ("00000000000000000123-QWERTYUIOPasdfghjkl_-1.log", bytes(80), "goes in with --partition N"),
        ("dump.txt", b"CreateTime:1700000000000\tk\tv\n", "without the partition and the offset of each"),
        ("dump.txt", b"Partition:3\tk\tv\n", "Print it with kcat -J"),
    ],
)
def test_what_is_well_known_and_cannot_be_read_is_told_the_way_on(
    name: str, content: bytes, said: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInputError, match=said):
        open_archive([str(tmp_path)])


def test_more_records_than_the_hdfs_sink_s_name_has_offsets_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "topics" / "orders"
    for place, rows in (
        ("partition=0/orders+0+0000000007+0000000008.json", 2),
        ("+tmp/orders/partition=0/x_tmp.json", 9),
    ):
        (folder / place).parent.mkdir(parents=True)
        (folder / place).write_text('{"a":1}\n' * rows)
    archive = open_archive([str(tmp_path)])
    (obj,) = archive.objects
    chunks = list(archive.layout.read(obj, ReadOptions()))
    assert [offset for chunk in chunks for offset in chunk.records.column("offset").to_pylist()] == [7, 8]
    (folder / "partition=0/orders+0+0000000007+0000000008.json").write_text('{"a":1}\n' * 3)
    with pytest.raises(BadInputError, match="more records than its name has offsets, from 7 to 8"):
        list(archive.layout.read(open_archive([str(tmp_path)]).objects[0], ReadOptions()))
