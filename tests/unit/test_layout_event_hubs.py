"""Azure Event Hubs Capture: the offset is the sequence number, the partition is the path's, or a person says it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fastavro
import pytest

from winnow.errors import BadInputError, UsageError
from winnow.sources.archive import Archive, ArchiveInput, open_archive
from winnow.sources.choices import Choices
from winnow.sources.inspection import inspect_archive

SYSTEM = ["long", "double", "string", "bytes"]
# As Microsoft documents it.
SCHEMA = {
    "type": "record",
    "name": "EventData",
    "namespace": "Microsoft.ServiceBus.Messaging",
    "fields": [
        {"name": "SequenceNumber", "type": "long"},
        {"name": "Offset", "type": "string"},
        {"name": "EnqueuedTimeUtc", "type": "string"},
        {"name": "SystemProperties", "type": {"type": "map", "values": SYSTEM}},
        {"name": "Properties", "type": {"type": "map", "values": [*SYSTEM, "null"]}},
        {"name": "Body", "type": ["null", "bytes"]},
    ],
}
USUAL = "lake/orders/3/2026/11/24/13/05/00.avro"


def make_event(number: int, **others: Any) -> dict[str, Any]:
    event = {
        "SequenceNumber": number,
        "Offset": str(number * 120),
        "EnqueuedTimeUtc": "11/24/2026 1:05:09 PM",
        "SystemProperties": {"x-opt-partition-key": "c1"},
        "Properties": {},
        "Body": b"v",
    }
    return event | others


def write(path: Path, events: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        fastavro.writer(stream, SCHEMA, events, codec="deflate")
    return path


def read(archive: Archive) -> list[dict[str, Any]]:
    opened = ArchiveInput(archive, archive.objects, "orders", None, Choices()).open_pass(32)
    rows = [row for at in range(len(archive.objects)) for batch in opened.read(at) for row in batch.to_pylist()]
    opened.finish()
    return rows


def test_sequence_numbers_are_offsets_and_the_usual_path_tells_hub_and_partition(tmp_path: Path) -> None:
    properties = {"trace": "ü", "raw": b"\xff", "tries": 3, "rate": 0.5, "none": None}
    events = [
        make_event(7, Properties=properties, Body=b"\xffv"),
        make_event(9, SystemProperties={}, Body=None, EnqueuedTimeUtc="11/24/2026 12:00:00 AM"),
        make_event(10, SystemProperties={"x-opt-kafka-key": b"\x00k", "x-opt-partition-key": "p"}, Body=b""),
    ]
    write(tmp_path / USUAL, events)
    write(tmp_path / "lake/orders/3/2026/11/24/13/10/00.avro", [])
    archive = open_archive([str(tmp_path)])
    assert (archive.layout.name, archive.topics) == ("event-hubs", ("orders",))
    first, second, third = read(archive)
    assert (first["partition"], first["offset"], first["key"], first["value"]) == (3, 7, b"c1", b"\xffv")
    assert first["timestamp"] == 1_795_525_509_000  # 2026-11-24T13:05:09Z
    assert first["headers"] == [
        {"key": "trace", "value": "ü".encode()},
        {"key": "raw", "value": b"\xff"},
        {"key": "tries", "value": b"3"},
        {"key": "rate", "value": b"0.5"},
        {"key": "none", "value": None},
    ]
    assert (second["offset"], second["key"], second["value"], second["headers"]) == (9, None, None, [])
    assert second["timestamp"] == 1_795_478_400_000  # 2026-11-24T00:00:00Z
    assert (third["key"], third["value"]) == (b"\x00k", b"")
    found = inspect_archive(archive, ["lake/"], full=True, progress=None)
    assert found.command == "winnow ingest files orders lake/ --create"
    (entry,) = found.partitions
    assert (entry.partition, entry.first_offset, entry.last_offset, entry.offsets) == (3, 7, 10, "exact")


@pytest.mark.parametrize("text", ["2026-11-24T13:05:09.000Z", "11/24/2026 13:05:09"])
def test_other_forms_of_the_time_are_read(text: str, tmp_path: Path) -> None:
    write(tmp_path / USUAL, [make_event(1, EnqueuedTimeUtc=text)])
    assert [row["timestamp"] for row in read(open_archive([str(tmp_path)]))] == [1_795_525_509_000]


@pytest.mark.parametrize(
    "name",
    [
        "lake/orders/2026/11/24/13/05/00/3.avro",
        "lake_orders_3/2026/11/24/13/05/00.avro",
        "lake/orders/3/2026/24/11/13/05/00.avro",
        "orders.avro",
    ],
)
def test_a_path_that_is_not_the_usual_one_tells_no_partition_and_a_person_has_to(name: str, tmp_path: Path) -> None:
    write(tmp_path / name, [make_event(4)])
    with pytest.raises(BadInputError, match=r"layout event-hubs.*Say it with --partition N"):
        open_archive([str(tmp_path)])
    (record,) = read(open_archive([str(tmp_path)], partition=2))
    assert (record["partition"], record["offset"]) == (2, 4)


def test_a_partition_that_contradicts_the_path_is_refused(tmp_path: Path) -> None:
    write(tmp_path / USUAL, [make_event(4)])
    with pytest.raises(BadInputError, match="its name tells partition 3, and --partition says 2"):
        open_archive([str(tmp_path)], partition=2)


def test_a_layout_that_tells_partitions_takes_none(tmp_path: Path) -> None:
    (tmp_path / "lines.jsonl").write_text('{"partition":0,"offset":0,"timestamp":1,"key":null,"value":null}\n')
    with pytest.raises(UsageError, match="those of layout winnow do"):
        open_archive([str(tmp_path)], partition=0)


def test_a_partition_that_was_said_holds_for_one_call() -> None:
    assert Choices().fill_from(Choices(partition=2).to_document()).partition is None


@pytest.mark.parametrize("numbers", [(5, 5), (6, 5)])
def test_sequence_numbers_that_do_not_increase_are_refused(numbers: tuple[int, int], tmp_path: Path) -> None:
    write(tmp_path / USUAL, [make_event(number) for number in numbers])
    with pytest.raises(BadInputError, match="record 2: its SequenceNumber is not above"):
        read(open_archive([str(tmp_path)]))


def test_hubs_of_one_name_in_two_namespaces_are_refused(tmp_path: Path) -> None:
    write(tmp_path / USUAL, [make_event(4)])
    write(tmp_path / USUAL.replace("lake", "other"), [make_event(9)])
    with pytest.raises(BadInputError, match="hub orders is there in several namespaces"):
        open_archive([str(tmp_path)])


def test_events_without_a_sequence_number_are_not_taken_for_those_of_a_capture(tmp_path: Path) -> None:
    fields = [field for field in SCHEMA["fields"] if field["name"] not in ("SequenceNumber", "Offset")]  # type: ignore[index]
    path = tmp_path / USUAL
    path.parent.mkdir(parents=True)
    with path.open("wb") as stream:
        fastavro.writer(stream, SCHEMA | {"fields": fields}, [make_event(1)])
    with pytest.raises(BadInputError, match="not recognised"):
        open_archive([str(tmp_path)])
