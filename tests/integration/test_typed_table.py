"""The table of the latest state with typed columns: its rows are the oracle's winners, decoded by other code."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.erasing import certify, list_holding
from tests.support.world import TOPIC, World, define_world, open_world, record
from winnow.engine.key_changes import LogExtent
from winnow.engine.latest_rows import TypedForm, count_rows_without_record
from winnow.errors import ConfigurationError, ValidationFailedError
from winnow.log.topic_configuration import set_config
from winnow.pipeline.backup.create import create_backup
from winnow.pipeline.backup.restore import restore_backup
from winnow.pipeline.erase.complete import erase_keys
from winnow.pipeline.erase.erase import EraseRequest
from winnow.pipeline.latest import judgement
from winnow.pipeline.latest.table import LatestUpdate, update_latest_table
from winnow.pipeline.topics.deletion import delete_topic, restore_topic

KEEPS = {"winnow.latest.table": "true"}
ALWAYS_DUE = {"segment_ms": "1", "min_cleanable_dirty_ratio": "0"}
SYSTEM = ("__raw", "__raw_key", "__error", "__partition", "__offset", "__timestamp", "__headers")
CUSTOMER = {
    "type": "record",
    "name": "Customer",
    "fields": [{"name": "city", "type": "string"}, {"name": "visits", "type": "int"}],
}

world = define_world(in_the_present=True)
"""At the present, since snapshots have the real time."""


def create(world: World, *, topic: str = TOPIC, partitions: int = 2, **config: str) -> None:
    world.create(partitions, topic, **ALWAYS_DUE)
    alter(world, topic=topic, **config)


def alter(world: World, *, topic: str = TOPIC, **config: str) -> None:
    named = {name.replace("_", "."): text for name, text in config.items()}
    set_config(world.installation.log.open(topic), {**KEEPS, **named}, [])


def update(world: World, topic: str = TOPIC) -> LatestUpdate:
    return update_latest_table(world.installation, topic)


def read_table(world: World, topic: str = TOPIC) -> list[dict[str, Any]]:
    rows = world.installation.log.catalog.load_table(("winnow_latest", topic)).scan().to_arrow().to_pylist()
    return sorted(rows, key=lambda row: (row["__partition"], row["__offset"]))


def read_topic_columns(world: World) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in SYSTEM} for row in read_table(world)]


def encode(schema: dict[str, Any], value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def write_schema(folder: Path, schema: dict[str, Any]) -> str:
    path = folder / "customer.avsc"
    path.write_text(json.dumps(schema))
    return path.as_uri()


def test_fields_of_values_are_columns_and_the_record_s_place_follows(world: World, tmp_path: Path) -> None:
    create(
        world,
        winnow_key_format="string",
        winnow_value_format="avro",
        winnow_value_schema=write_schema(tmp_path, CUSTOMER),
    )
    world.ingest(
        [
            record(0, b"anna", encode(CUSTOMER, {"city": "Ulm", "visits": 1})),
            record(1, b"bert", encode(CUSTOMER, {"city": "Bonn", "visits": 2})),
            record(2, b"anna", encode(CUSTOMER, {"city": "Kiel", "visits": 3})),
        ]
    )
    update(world)
    rows = read_table(world)
    assert list(rows[0]) == ["city", "visits", "key", *SYSTEM]
    assert [(row["city"], row["visits"], row["key"], row["__offset"]) for row in rows] == [
        ("Bonn", 2, "bert", 1),
        ("Kiel", 3, "anna", 2),
    ]
    world.ingest([record(3, b"bert", None), record(4, b"carl", encode(CUSTOMER, {"city": "Hof", "visits": 4}))])
    world.compact()
    assert [(row["city"], row["key"]) for row in read_topic_columns(world)] == [("Kiel", "anna"), ("Hof", "carl")]


def test_values_are_the_message_that_follows_the_place_of_their_file(world: World, tmp_path: Path) -> None:
    file = tmp_path / "shop.proto"
    file.write_text('syntax = "proto3"; package shop; message Cart { int32 a = 1; } message Order { int32 n = 1; }')
    create(world, winnow_value_format="protobuf", winnow_value_schema=f"{file.as_uri()}#shop.Order")
    world.ingest([record(0, b"a", b"\x08\x07")])
    update(world)
    assert [row["n"] for row in read_table(world)] == [7]
    alter(world, winnow_value_schema=file.as_uri())
    assert update(world).rebuilt == "its columns are made in another way"
    assert [row["a"] for row in read_table(world)] == [7]


def test_a_value_that_cannot_be_decoded_is_a_row_with_its_bytes_and_an_error(world: World, tmp_path: Path) -> None:
    create(world, winnow_value_format="avro", winnow_value_schema=write_schema(tmp_path, CUSTOMER))
    world.ingest([record(0, b"a", b"\xff\xff secret"), record(1, b"b", encode(CUSTOMER, {"city": "Ulm", "visits": 1}))])
    assert update(world).rows_not_decoded == 1
    broken, fine = read_table(world)
    assert broken["__raw"] == b"\xff\xff secret"
    assert broken["__error"].startswith("value: ")
    assert "secret" not in broken["__error"]
    assert (broken["city"], broken["key"]) == (None, b"a")
    assert (fine["city"], fine["__raw"], fine["__error"]) == ("Ulm", None, None)


def test_every_update_is_judged_before_its_commit(world: World) -> None:
    """A row that was lost on the way is found: the table stays as it was, without the new files."""
    create(world, winnow_value_format="string")
    world.ingest([record(0, b"a", b"1"), record(1, b"b", b"1")])
    update(world)
    world.ingest([record(2, b"b", b"2"), record(3, b"c", b"1")])
    genuine = TypedForm.make_rows

    def lose_the_last(form: TypedForm, records: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in genuine(form, records):
            form.dropped.append(3)
            yield rows.slice(0, rows.num_rows - 1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TypedForm, "make_rows", lose_the_last)
        with pytest.raises(ValidationFailedError, match="greatest record of every key"):
            update(world)
    assert [row["value"] for row in read_table(world)] == ["1", "1"]
    update(world)
    assert [row["value"] for row in read_table(world)] == ["1", "2", "1"]


def test_an_erased_key_leaves_the_typed_table_with_all_of_its_files(world: World) -> None:
    """Of a typed row no key can be read: it is proven gone because every row is that of a record of the log."""
    create(world, winnow_key_format="string", winnow_value_format="string")
    world.ingest([record(0, b"anna", b"anna lives in Ulm"), record(1, b"bert", b"bert lives in Bonn")])
    update(world)
    assert list_holding(world, b"anna lives")
    report = erase_keys(world.installation, EraseRequest(TOPIC, (b"anna",), "request 4711"))
    assert [row["key"] for row in read_table(world)] == ["bert"]
    assert not list_holding(world, b"anna lives")
    verified = certify(world, report, verify=True).verified
    assert verified is not None
    assert (verified.old_records, verified.later_records) == (0, 0)
    rows = world.installation.log.latest_table(TOPIC)
    head = rows.load()
    assert head is not None
    assert verified.files >= 1 + sum(map(len, rows.segments(head).values()))


def test_rows_whose_records_are_not_in_the_log_are_counted(world: World) -> None:
    """So a proof of an erasure finds what a late table still shows: records that are gone, or tombstones now."""
    create(world, winnow_value_format="string")
    world.ingest([record(place, b"k%d" % place, b"1") for place in range(3)])
    update(world)
    table = world.installation.log.latest_table(TOPIC)
    head = table.load()
    assert head is not None
    (rows,) = table.segments(head).values()
    (log,) = world.installation.log.open(TOPIC).segments(world.head()).values()
    for start, end, missing in ((0, 3, 0), (1, 3, 1), (0, 1, 2)):
        extent = LogExtent(log, start, end)
        assert count_rows_without_record(rows, extent, world.installation.budget) == missing
    world.ingest([record(3, b"k0", None)])
    assert update(world).rows == 2


def test_another_form_of_columns_rewrites_the_table_and_no_form_makes_it_one_of_records_again(world: World) -> None:
    create(world, winnow_value_format="string")
    world.ingest([record(0, b"a", b"1")])
    assert update(world).rebuilt == "it is new"
    alter(world, winnow_key_format="string")
    assert update(world).rebuilt == "its columns are made in another way"
    assert [(row["key"], row["value"]) for row in read_table(world)] == [("a", "1")]
    alter(world, winnow_key_format="bytes", winnow_value_format="bytes")
    assert update(world).rebuilt == "its columns are made in another way"
    rows = world.installation.log.catalog.load_table(("winnow_latest", TOPIC)).scan().to_arrow().to_pylist()
    assert [(row["key"], row["value"], row["offset"]) for row in rows] == [(b"a", b"1", 0)]


def test_fields_that_are_hidden_or_masked_leave_the_table_and_its_old_snapshots(world: World) -> None:
    """Neither rows nor files of before show them; equal values have equal digests, and new fields stay hidden."""
    create(world, winnow_value_format="json", winnow_key_format="string")
    people = [
        {"email": "a@x.org", "ssn": "078-05-1120", "city": "Ulm"},
        {"email": "a@x.org", "ssn": "1", "city": "Hof"},
    ]
    world.ingest([record(place, f"p{place}".encode(), json.dumps(row).encode()) for place, row in enumerate(people)])
    update(world)
    assert list_holding(world, b"078-05-1120")
    alter(world, winnow_latest_fields="city,email:hmac,ssn:drop")
    with pytest.raises(ConfigurationError, match="keyed digests"):
        update(world)
    with open_world(world.folder, world.clock, {"WINNOW_LATEST__SECRET": "sixteen bytes or more"}) as again:
        assert update(again).rebuilt == "its columns are made in another way"
        world.ingest([record(2, b"p2", json.dumps({"city": "Kiel", "phone": "0123"}).encode()), record(3, b"p3", b"!")])
        update(again)
        rows = read_table(again)
    assert list(rows[0]) == ["email", "city", "__error", "__partition", "__offset", "__timestamp"]
    assert [row["city"] for row in rows] == ["Ulm", "Hof", "Kiel", None]
    assert rows[0]["email"] == rows[1]["email"]
    assert len(rows[0]["email"]) == 64
    latest = world.folder / "home" / "warehouse" / "winnow_latest"
    columns = {name for path in latest.rglob("*.parquet") for name in pq.read_schema(path).names}
    assert columns == set(rows[0])


def test_a_typed_table_comes_back_from_a_backup_and_goes_on(world: World) -> None:
    create(world, winnow_value_format="json", winnow_key_format="string")
    world.ingest([record(0, b"a", b'{"n":1}'), record(1, b"b", b'{"n":2}')])
    update(world)
    create_backup(world.installation, str(world.folder / "backup"))
    (world.folder / "home").rename(world.folder / "aside")
    with open_world(world.folder, world.clock) as restored:
        restore_backup(restored.installation, str(world.folder / "backup"))
        restored.ingest([record(2, b"a", b'{"n":3,"new":true}')])
        done = update(restored)
        assert (done.rebuilt, done.rows_updated, done.columns_added) == (None, 1, ("new",))
        assert [(row["key"], row["n"], row["new"]) for row in read_table(restored)] == [("b", 2, None), ("a", 3, True)]


def test_a_deleted_topic_comes_back_with_its_typed_table(world: World) -> None:
    create(world, winnow_value_format="json")
    world.ingest([record(0, b"a", b'{"n":1}')])
    update(world)
    delete_topic(world.installation, TOPIC)
    restore_topic(world.installation, TOPIC)
    world.ingest([record(1, b"b", b'{"n":2}')])
    update(world)
    assert [row["n"] for row in read_table(world)] == [1, 2]


def test_a_table_that_follows_ingests_shows_each_of_them(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes wrong with the table is a warning: the records are in the log."""
    create(world, winnow_value_format="string", winnow_latest_update="ingest")
    for number in range(3):
        world.ingest([record(number, b"k", b"%d" % number)])
        assert [row["value"] for row in read_table(world)] == [str(number)]
    with monkeypatch.context() as patch:
        patch.setattr(judgement, "compute_latest_facts", lambda *_, **__: 1 // 0)
        world.ingest([record(3, b"k", b"3")])
    assert [row["value"] for row in read_table(world)] == ["2"]
    assert update(world).rows_updated == 1


@pytest.mark.parametrize("values", [(), (b"1",)], ids=["empty", "other-keys"])
def test_erasing_a_key_that_no_row_has_is_through_at_once(world: World, values: tuple[bytes, ...]) -> None:
    """The table says that it shows the log after the erasure, although nothing of it changed."""
    create(world, winnow_value_format="string")
    world.ingest([record(place, b"other", value) for place, value in enumerate(values)])
    update(world)
    report = erase_keys(world.installation, EraseRequest(TOPIC, (b"anna",), "request 4711"))
    (reference,) = world.head().state.erasures
    assert (reference.erasure_id, reference.deleted_at_ms is None) == (report.erasure_id, False)
    assert not update(world).changed
