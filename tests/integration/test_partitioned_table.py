"""The table of the latest state, partitioned by columns: a file has rows of one place, and readers skip others."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table

from tests.integration.test_typed_table import KEEPS, create, encode, read_table, update
from tests.integration.test_typed_table_history import keep_documents
from tests.support.in_process_jobs import prefer_tasks
from tests.support.world import TOPIC, World, define_world, open_world, record
from winnow.config.topic import TopicConfig
from winnow.engine import latest_records, latest_rows
from winnow.errors import ConfigurationError, DamagedMetadataError, UsageError
from winnow.files import placed_files, sorted_rows
from winnow.files.placed_files import PlacedFileWriter
from winnow.log import table_placement
from winnow.log.snapshot_expiry import NO_GRACE_MS
from winnow.log.topic_configuration import set_config
from winnow.pipeline.backup.create import create_backup
from winnow.pipeline.backup.restore import restore_backup
from winnow.pipeline.erase.complete import erase_keys
from winnow.pipeline.erase.erase import EraseRequest
from winnow.pipeline.latest.table import update_latest_table
from winnow.pipeline.latest.table_files import sweep_latest_table
from winnow.pipeline.topics.deletion import delete_topic, restore_topic
from winnow.schemas import row_decoders

world = define_world(in_the_present=True)
"""At the present, since snapshots have the real time."""

JSON = {"winnow_value_format": "json", "winnow_key_format": "string"}


def alter_layout(world: World, text: str, **config: str) -> None:
    """Give the table this layout, and the topic what else is named, with dots for underscores, and these for two."""
    named = {name.replace("__", "-").replace("_", ".").replace("-", "_"): value for name, value in config.items()}
    set_config(world.installation.log.open(TOPIC), {**KEEPS, **named, "winnow.latest.partition_by": text}, [])


def create_partitioned(world: World, text: str, **config: str) -> None:
    create(world, partitions=1)
    alter_layout(world, text, **{**JSON, **config})


def load_table(world: World) -> Table:
    table: Table = world.installation.log.catalog.load_table(("winnow_latest", TOPIC))
    return table


def ingest(world: World, rows: dict[str, dict[str, Any] | None], *, first: int | None = None) -> None:
    begin = world.state(0).log_end_offset if first is None else first
    world.ingest(
        [
            record(begin + place, key.encode(), None if row is None else json.dumps(row).encode())
            for place, (key, row) in enumerate(rows.items())
        ]
    )


def list_files(world: World) -> list[dict[str, Any]]:
    """Each data file: the values of its place, the rows in it, and the field ids that have bounds."""
    table = load_table(world)
    files = []
    for task in table.scan().plan_files():
        assert task.file.spec_id == table.metadata.default_spec_id
        files.append(
            {
                "place": tuple(task.file.partition[number] for number in range(1, len(table.spec().fields))),
                "rows": pq.read_table(task.file.file_path.removeprefix("file://")).to_pylist(),
                "lower": task.file.lower_bounds.keys(),
                "upper": task.file.upper_bounds.keys(),
                "path": task.file.file_path,
            }
        )
    return files


def test_each_place_has_files_of_its_own_and_a_row_that_moves_leaves_the_former(world: World) -> None:
    create_partitioned(world, "city, bucket(4, visits)")
    ingest(world, {"anna": {"city": "Ulm", "visits": 1}, "bert": {"city": "Bonn", "visits": 1}, "carl": {"visits": 2}})
    update(world)
    assert {file["place"][0] for file in list_files(world)} == {"Ulm", "Bonn", None}
    assert [str(field.transform) for field in load_table(world).spec().fields] == ["identity", "identity", "bucket[4]"]
    ingest(world, {"anna": {"city": "Bonn", "visits": 1}, "dora": None, "carl": None})
    assert update(world).rebuilt is None
    assert {file["place"][0] for file in list_files(world)} == {"Bonn"}
    assert [(row["key"], row["city"]) for row in read_table(world)] == [("bert", "Bonn"), ("anna", "Bonn")]


def test_metadata_and_footers_have_bounds_of_the_columns_that_were_named_and_of_no_others(world: World) -> None:
    create_partitioned(world, "address.city, bucket(2, visits)")
    ingest(
        world,
        {
            "anna": {"address": {"city": "Ulm", "zip": "89073"}, "visits": 1, "iban": "DE02"},
            "bert": {"address": {"city": "Llanfairpwllgwyngyll", "zip": "LL61"}, "visits": 4, "iban": "GB33"},
        },
    )
    update(world)
    schema = load_table(world).schema()
    allowed = {schema.find_field(name).field_id for name in ("__partition", "__offset", "__timestamp")}
    allowed |= {schema.find_field(name).field_id for name in ("address.city", "visits")}
    for file in list_files(world):
        assert file["lower"] <= allowed
        assert schema.find_field("address.city").field_id in file["lower"]
        columns = pq.ParquetFile(file["path"].removeprefix("file://")).metadata.row_group(0)
        measured = {
            column.path_in_schema
            for column in (columns.column(number) for number in range(columns.num_columns))
            if column.is_stats_set and column.statistics.has_min_max
        }
        assert measured == {"address.city", "visits", "__partition", "__offset", "__timestamp"}
    files = load_table(world).scan("address.city = 'Llanfairpwllgwyngyll'").plan_files()
    assert [task.file.upper_bounds[schema.find_field("address.city").field_id] for task in files] == [
        b"Llanfairpwllgwyo"
    ]


def test_bounds_of_a_file_are_those_of_all_of_its_rows(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latest_records, "MAXIMUM_BATCH_ROWS", 2)
    create_partitioned(world, "bucket(1, n)")
    ingest(world, {f"k{number}": {"n": number} for number in (5, 6, 1, 9, 4)})
    update(world)
    table = load_table(world)
    (task,) = table.scan().plan_files()
    number = table.schema().find_field("n").field_id
    bounds = (task.file.lower_bounds[number], task.file.upper_bounds[number])
    assert [int.from_bytes(bound, "little") for bound in bounds] == [1, 9]


def test_a_filter_opens_the_files_of_its_places_alone(world: World) -> None:
    create_partitioned(world, "day(at), truncate(1, city)")
    cities = ("Ulm", "Bonn", "Ulm", "Kiel")
    ingest(
        world,
        {f"k{n}": {"city": city, "at": f"2026-01-0{n + 1}T23:59:59Z"} for n, city in enumerate(cities)},
    )
    alter_layout(world, "day(__timestamp), truncate(1, city)")
    update(world)
    table = load_table(world)
    assert len(list(table.scan().plan_files())) == 3
    (kept,) = table.scan("city = 'Kiel'").plan_files()
    for task in table.scan().plan_files():
        if task.file.file_path != kept.file.file_path:
            Path(task.file.file_path.removeprefix("file://")).unlink()
    assert table.scan("city = 'Kiel'").to_arrow().column("key").to_pylist() == ["k3"]


def test_another_layout_writes_the_table_anew_in_one_commit_and_older_snapshots_can_be_read(world: World) -> None:
    create_partitioned(world, "")
    ingest(world, {"a": {"n": 1, "city": "Ulm"}, "b": {"n": 2, "city": "Bonn"}})
    update(world)
    columns = load_table(world).schema().fields
    for layout, places in (
        ("n", {(1,), (2,)}),
        ("city, n", {("Ulm", 1), ("Bonn", 2)}),
        ("n", {(1,), (2,)}),
        ("", {()}),
    ):
        before = load_table(world)
        alter_layout(world, layout)
        assert update(world).rebuilt == "its files are partitioned in another way"
        assert not update(world).changed
        assert {file["place"] for file in list_files(world)} == places
        table = load_table(world)
        assert len(table.metadata.snapshots) == len(before.metadata.snapshots) + 1
        assert table.schema().fields == columns
        assert table.scan(snapshot_id=before.metadata.current_snapshot_id).to_arrow().num_rows == 2
    assert [spec.spec_id for spec in load_table(world).metadata.partition_specs] == [0, 1, 2]


def test_rows_of_a_sorted_table_are_in_its_order_in_every_file_after_every_update(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sorted in one run or in several; another order, and none, write the table anew in one commit."""
    create_partitioned(world, "", winnow_latest_sort__by="n desc, city nulls last")
    monkeypatch.setattr(sorted_rows, "RUN_BYTES", 1)
    monkeypatch.setattr(sorted_rows, "MERGED_ROWS", 3)
    monkeypatch.setattr(latest_records, "MAXIMUM_BATCH_ROWS", 4)
    ingest(world, {f"k{number}": {"n": number * 7 % 10, "city": f"c{number}"} for number in range(12)})
    update(world)
    for number in range(10):
        ingest(world, {f"k{number}": {"n": number, "new": number}, f"z{number}": {"n": None}, f"k{number + 1}": None})
        assert update(world).rebuilt is None
        for file in list_files(world):
            rows = [(-1 if row["n"] is None else row["n"], row["city"]) for row in file["rows"]]
            assert rows == sorted(rows, key=lambda row: (-row[0], row[1] is None, row[1] or ""))
    sorted_table, table = read_table(world), load_table(world)
    columns = [table.schema().find_column_name(known.source_id) for known in table.sort_order().fields]
    assert columns == ["n", "city", "__offset"]
    assert {task.file.sort_order_id for task in table.scan().plan_files()} == {table.sort_order().order_id}
    offset_id = table.schema().find_field("__offset").field_id
    for task in table.scan().plan_files():
        bounds = (task.file.lower_bounds[offset_id], task.file.upper_bounds[offset_id])
        offsets = pq.read_table(task.file.file_path.removeprefix("file://")).column("__offset").to_pylist()
        assert [int.from_bytes(bound, "little") for bound in bounds] == [min(offsets), max(offsets)]
    for order, reason in (("city", "its files are sorted in another way"), ("", "its files are sorted in another way")):
        alter_layout(world, "", winnow_latest_sort__by=order)
        assert update(world).rebuilt == reason
        assert not update(world).changed
        assert read_table(world) == sorted_table
    assert [known.source_id for known in load_table(world).sort_order().fields] == [
        load_table(world).schema().find_field(name).field_id for name in ("__partition", "__offset")
    ]


def test_a_filter_by_what_a_table_is_sorted_by_opens_few_files_and_row_groups(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latest_rows, "FILE_BYTES", 1 << 14)
    monkeypatch.setattr(sorted_rows, "MERGED_ROWS", 64)
    monkeypatch.setattr(sorted_rows, "RUN_BYTES", 1 << 14)
    monkeypatch.setattr(latest_records, "MAXIMUM_BATCH_ROWS", 100)
    create_partitioned(world, "", winnow_latest_sort__by="n")
    ingest(world, {f"k{number}": {"n": number * 7919 % 4096, "text": f"{number:040}" * 4} for number in range(4096)})
    update(world)
    groups = []
    for file in sorted(list_files(world), key=lambda file: file["rows"][0]["n"]):
        footer = pq.ParquetFile(file["path"].removeprefix("file://")).metadata
        place = footer.schema.names.index("n")
        groups += [footer.row_group(number).column(place).statistics for number in range(footer.num_row_groups)]
    assert len(groups) > 2
    assert all(former.max < later.min for former, later in pairwise(groups))
    table = load_table(world)
    assert len(list(table.scan("n = 5").plan_files())) < len(list(table.scan().plan_files()))


def test_a_table_may_be_partitioned_and_sorted_and_its_order_may_not_be_of_a_missing_column(world: World) -> None:
    create_partitioned(world, "city", winnow_latest_sort__by="n")
    ingest(world, {f"k{number}": {"n": 9 - number, "city": "Ulm" if number % 3 else "Bonn"} for number in range(9)})
    update(world)
    ingest(world, {"k5": {"n": 100, "city": "Ulm"}})
    assert update(world).rebuilt is None
    found = {file["place"][0]: [row["n"] for row in file["rows"]] for file in list_files(world)}
    assert found == {"Bonn": [3, 6, 9], "Ulm": [1, 2, 5, 7, 8, 100]}
    alter_layout(world, "city", winnow_latest_sort__by="town")
    with pytest.raises(ConfigurationError, match=r"winnow\.latest\.sort_by of topic .* names town, which is no column"):
        update(world)


def test_the_columns_of_a_former_layout_may_be_gone(world: World) -> None:
    """Other formats give columns other ids; the files that leave were partitioned by the former ones.

    A spec that names a gone column goes with the last snapshot that has files of it: lists of files can be made again.
    """
    create_partitioned(world, "city")
    ingest(world, {"a": {"city": "Ulm", "n": 1}, "b": {"city": "Bonn", "n": 2}})
    update(world)
    alter_layout(world, "n", winnow_latest_fields="n")
    assert update(world).rebuilt == "its columns are made in another way"
    assert load_table(world).inspect.files().num_rows == 2
    ingest(world, {"a": {"city": "Hof", "n": 3}})
    assert update(world).rebuilt is None
    assert {file["place"] for file in list_files(world)} == {(3,), (2,)}
    alter_layout(world, "", winnow_value_format="bytes", winnow_key_format="bytes", winnow_latest_fields="")
    update(world)
    table = load_table(world)
    assert sorted(table.scan().to_arrow().column("offset").to_pylist()) == [1, 2]
    assert len(table.metadata.snapshots) == 3
    for grace_ms, specs in ((1 << 50, 2), (NO_GRACE_MS, 1), (NO_GRACE_MS, 1)):
        sweep_latest_table(world.installation, TOPIC, world.clock(), grace_ms)
        table = load_table(world)
        assert len(table.metadata.partition_specs) == specs
        snapshots = [table.scan(snapshot_id=snapshot.snapshot_id) for snapshot in table.metadata.snapshots]
        assert [scan.to_arrow().num_rows for scan in snapshots] == [2] * len(snapshots)
    assert (table.inspect.files().num_rows, table.inspect.entries().num_rows) == (1, 3)
    alter_layout(world, "city", **JSON)
    update(world)
    assert {file["place"] for file in list_files(world)} == {("Hof",), ("Bonn",)}


@pytest.mark.parametrize(
    ("layout", "wrong"),
    [
        ("town", "names town, which is no column; the table's columns are city, n, at.day, tags, key."),
        ("days(city)", "has day(city), and city is of the type string"),
        ("at", "has at, and at is of the type struct"),
        ("bucket(4, tags)", "has bucket(4, tags), and tags is of the type list"),
        ("ratio", "has ratio, and ratio is of the type double"),
    ],
)
def test_a_layout_that_cannot_be_leaves_the_table_as_it_was(world: World, layout: str, wrong: str) -> None:
    create_partitioned(world, "city")
    row: dict[str, Any] = {"city": "Ulm", "n": 1, "at": {"day": 1}, "tags": ["x"]}
    if layout == "ratio":
        row["ratio"] = 0.5
    ingest(world, {"a": row})
    update(world)
    before = list_files(world)
    alter_layout(world, layout)
    with pytest.raises(ConfigurationError) as raised:
        update(world)
    assert wrong in str(raised.value)
    assert list_files(world) == before
    data = {path.as_uri() for path in (world.folder / "home" / "warehouse" / "winnow_latest").rglob("*.parquet")}
    assert data == {file["path"] for file in before}


def test_a_column_that_comes_later_begins_with_rows_in_the_place_null(world: World) -> None:
    create_partitioned(world, "city")
    ingest(world, {"a": {"n": 1}})
    with pytest.raises(ConfigurationError, match="names city, which is no column"):
        update(world)
    ingest(world, {"b": {"n": 2, "city": "Ulm"}, "c": {"n": 3, "city": None}})
    update(world)
    assert {file["place"]: [row["key"] for row in file["rows"]] for file in list_files(world)} == {
        (None,): ["a", "c"],
        ("Ulm",): ["b"],
    }


def test_rows_that_could_not_be_decoded_are_in_the_place_null(world: World) -> None:
    create_partitioned(world, "city")
    ingest(world, {"a": {"city": "Ulm"}})
    world.ingest([record(1, b"b", b"no json")])
    assert update(world).rows_not_decoded == 1
    assert {file["place"] for file in list_files(world)} == {("Ulm",), (None,)}


def test_a_column_that_is_renamed_or_widened_stays_what_the_table_is_partitioned_by(
    world: World, tmp_path: Path
) -> None:
    """Its second column, of another type, is not. The one schema in a file is replaced by newer ones in a registry."""
    first = {"type": "record", "name": "Row", "fields": [{"name": "n", "type": "int"}]}
    second = {"type": "record", "name": "Row", "fields": [{"name": "number", "aliases": ["n"], "type": "long"}]}
    third = {"type": "record", "name": "Row", "fields": [{"name": "number", "aliases": ["n"], "type": "string"}]}
    schemas = [first, second, third]
    with (
        pytest.MonkeyPatch.context() as patch,
        open_world(tmp_path, world.clock, {"WINNOW_SCHEMA_REGISTRY__URL": "http://localhost"}) as other,
    ):
        patch.setattr(row_decoders, "open_registry", lambda _: keep_documents(schemas))
        create_partitioned(other, "n", winnow_value_format="avro")
        for number, value in enumerate((1, 2**40, "many")):
            body = b"\0" + number.to_bytes(4, "big") + encode(schemas[number], {"n" if not number else "number": value})
            other.ingest([record(number, b"k%d" % number, body)])
            assert update(other).rebuilt == ("it is new" if not number else None)
            spec = load_table(other).spec()
            name = load_table(other).schema().find_column_name(spec.fields[1].source_id)
            assert name == ("number" if number else "n")
        assert {file["place"] for file in list_files(other)} == {(1,), (2**40,), (None,)}
        table = load_table(other)
        assert len(list(table.scan(f"number = {2**40}").plan_files())) == 1


def test_a_masked_column_is_partitioned_by_its_digest_and_a_hidden_one_is_refused(world: World, tmp_path: Path) -> None:
    lake = {"WINNOW_LATEST__SECRET": "sixteen bytes or more"}
    with open_world(tmp_path, world.clock, lake) as other:
        create_partitioned(other, "bucket(4, email), email", winnow_latest_fields="city,email:hmac,ssn:drop")
        ingest(other, {"a": {"email": "a@x.org", "ssn": "078-05-1120"}, "b": {"email": "a@x.org", "city": "Ulm"}})
        update(other)
        (file,) = list_files(other)
        assert file["place"][1] == file["rows"][0]["email"]
        assert len(file["place"][1]) == 64
        for hidden in ("ssn", "phone", "truncate(3, email.host)"):
            with pytest.raises(ConfigurationError, match=r"which winnow\.latest\.fields does not show"):
                alter_layout(other, hidden)
        with pytest.raises(ConfigurationError, match=r"names ssn, which winnow\.latest\.fields does not show"):
            TopicConfig.parse(
                {
                    "winnow.value.format": "json",
                    "winnow.latest.fields": "ssn:drop,city",
                    "winnow.latest.partition_by": "ssn",
                }
            )


def test_a_masked_column_is_sorted_by_its_digest_and_a_hidden_one_is_refused(world: World, tmp_path: Path) -> None:
    """The order of rows says nothing of the text, which is in no file of the table."""
    lake = {"WINNOW_LATEST__SECRET": "sixteen bytes or more"}
    with open_world(tmp_path, world.clock, lake) as other:
        shown = {"winnow_latest_fields": "email:hmac,ssn:drop", "winnow_latest_sort__by": "email desc"}
        create_partitioned(other, "", **shown)
        ingest(other, {f"k{number}": {"email": f"{number:02}@x.org", "ssn": "078-05-1120"} for number in range(20)})
        update(other)
        ingest(other, {"k5": {"email": "05@y.org"}, "k6": None})
        update(other)
        (file,) = list_files(other)
        digests = [row["email"] for row in file["rows"]]
        assert [len(digest) for digest in digests] == [64] * 19
        assert digests == sorted(digests, reverse=True)
        offsets = [row["__offset"] for row in file["rows"]]
        assert offsets not in (sorted(offsets), sorted(offsets, reverse=True))
        for path in (tmp_path / "home" / "warehouse" / "winnow_latest").rglob("*.*"):
            assert b".org" not in path.read_bytes()
        with pytest.raises(ConfigurationError, match=r"names ssn, which winnow\.latest\.fields does not show"):
            alter_layout(other, "", **{**shown, "winnow_latest_sort__by": "ssn"})


def test_rows_of_a_database_s_change_events_are_partitioned_by_its_columns(world: World) -> None:
    create_partitioned(world, "region", winnow_value_envelope="debezium")
    events: list[dict[str, Any]] = [
        {"before": None, "after": {"id": 1, "region": "EU"}, "op": "c", "ts_ms": 1},
        {"before": None, "after": {"id": 2, "region": "US"}, "op": "c", "ts_ms": 1},
        {"before": {"id": 1, "region": "EU"}, "after": {"id": 1, "region": "US"}, "op": "u", "ts_ms": 2},
        {"before": {"id": 2, "region": "US"}, "after": None, "op": "d", "ts_ms": 3},
    ]
    for number, event in enumerate(events):
        key = (event["after"] or event["before"] or {})["id"]
        world.ingest([record(number, str(key).encode(), json.dumps(event).encode())])
        update(world)
    assert [(file["place"], [row["id"] for row in file["rows"]]) for file in list_files(world)] == [(("US",), [1])]


def test_a_partitioned_table_comes_back_from_a_backup_and_with_its_topic_and_goes_on(world: World) -> None:
    create_partitioned(world, "city")
    ingest(world, {"a": {"city": "Ulm"}, "b": {"city": "Bonn"}})
    update(world)
    create_backup(world.installation, str(world.folder / "backup"))
    (world.folder / "home").rename(world.folder / "aside")
    with open_world(world.folder, world.clock) as restored:
        restore_backup(restored.installation, str(world.folder / "backup"))
        ingest(restored, {"a": {"city": "Bonn"}})
        assert update(restored).rebuilt is None
        assert {file["place"] for file in list_files(restored)} == {("Bonn",)}
        delete_topic(restored.installation, TOPIC)
        restore_topic(restored.installation, TOPIC)
        ingest(restored, {"b": {"city": "Hof"}})
        assert update(restored).rebuilt is None
        assert sorted(file["place"] for file in list_files(restored)) == [("Bonn",), ("Hof",)]


def test_small_files_of_one_place_are_put_together_and_those_of_others_stay(world: World) -> None:
    create_partitioned(world, "city")
    ingest(world, {f"other{n}": {"city": f"c{n}"} for n in range(20)})
    for number in range(10):
        ingest(world, {f"k{number}": {"city": "Ulm"}})
        done = update(world)
        assert done.files_replaced == (8 if number == 8 else 0)
    assert len([file for file in list_files(world) if file["place"] == ("Ulm",)]) == 3
    assert len(read_table(world)) == 30


def test_however_many_places_there_are_few_files_are_open_and_none_is_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placed_files, "MAXIMUM_OPEN_FILES", 2)
    monkeypatch.setattr(placed_files, "MAXIMUM_HELD_BYTES", 500)
    monkeypatch.setattr(latest_records, "MAXIMUM_BATCH_ROWS", 7)
    opened: list[int] = []
    held: list[int] = []
    genuine = PlacedFileWriter.write

    def count_open(writer: PlacedFileWriter, batch: pa.RecordBatch) -> None:
        genuine(writer, batch)
        opened.append(sum(part.has_open_file for part in writer._writers.values()))
        held.append(sum(part.held_bytes for part in writer._writers.values()))

    monkeypatch.setattr(PlacedFileWriter, "write", count_open)
    create_partitioned(world, "city")
    ingest(world, {f"k{n}": {"city": f"c{n % 9}"} for n in range(60)})
    update(world)
    assert max(opened) == 2
    assert 0 < max(held) <= 500
    assert [row["city"] for row in read_table(world)] == [f"c{n % 9}" for n in range(60)]
    assert all({(row["city"],) for row in file["rows"]} == {file["place"]} for file in list_files(world))


def test_an_update_that_would_write_too_many_files_leaves_none(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_placement, "MAXIMUM_FILES", 3)
    create_partitioned(world, "n")
    ingest(world, {f"k{n}": {"n": n} for n in range(4)})
    with pytest.raises(ConfigurationError, match="more than 3 files of its partition 0"):
        update(world)
    assert not list(world.folder.rglob("winnow_latest/**/*.parquet"))


@pytest.mark.parametrize(("layout", "order"), [("n", ""), ("", "n")])
def test_spark_does_not_write_a_table_that_is_partitioned_or_sorted(world: World, layout: str, order: str) -> None:
    """Whoever asks for Spark is refused and told the way; where the size alone would choose it, this process does."""
    create_partitioned(world, layout, winnow_latest_sort__by=order)
    ingest(world, {"a": {"n": 2}, "b": {"n": 1}})
    with pytest.raises(UsageError, match=r"partitioned or sorted by columns.*latest-table update \S+ --engine local"):
        update_latest_table(world.installation, TOPIC, "spark")
    assert not world.installation.log.catalog.table_exists(("winnow_latest", TOPIC))
    assert update(prefer_tasks(world)).rows == 2
    rows_by_file = sorted([row["n"] for row in file["rows"]] for file in list_files(world))
    assert rows_by_file == ([[1], [2]] if layout else [[1, 2]])


def test_a_table_that_another_program_partitioned_is_not_touched(world: World) -> None:
    create_partitioned(world, "n")
    ingest(world, {"a": {"n": 1, "city": "Ulm"}})
    update(world)
    with load_table(world).update_spec() as spec:
        spec.add_identity("city")
    with pytest.raises(DamagedMetadataError, match="not partitioned by the topic partition and n"):
        update(world)


def test_values_of_rows_that_are_gone_are_not_in_the_metadata_of_the_newest_snapshot(world: World) -> None:
    """An erasure leaves no other snapshot, so then they are nowhere."""
    create_partitioned(world, "city, truncate(3, name)")
    ingest(world, {"a": {"city": "Ulm", "name": "Anna"}, "b": {"city": "Bonn", "name": "Bert"}})
    update(world)
    erase_keys(world.installation, EraseRequest(TOPIC, (b"a",), "request 4711"))
    table = load_table(world)
    (snapshot,) = table.metadata.snapshots
    said = ""
    for manifest in snapshot.manifests(table.io):
        said += repr(manifest.partitions)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
            file = entry.data_file
            said += repr((file.partition, file.lower_bounds, file.upper_bounds))
    assert "Bonn" in said
    assert "Ulm" not in said
    assert "Ann" not in said
    ingest(world, {"b": {"city": "Hof", "name": "Berta"}})
    update(world)
    newest = load_table(world).inspect.entries().to_pylist()
    assert "Bonn" not in repr([(entry["data_file"], entry["readable_metrics"]) for entry in newest])


def test_a_table_without_rows_needs_no_columns(world: World) -> None:
    create_partitioned(world, "city")
    ingest(world, {"a": None})
    assert update(world).rows == 0
    assert not update(world).changed
    ingest(world, {"a": {"city": "Ulm"}})
    assert update(world).rebuilt is None
    assert [file["place"] for file in list_files(world)] == [("Ulm",)]
    ingest(world, {"a": None})
    assert update(world).rows == 0
    ingest(world, {"b": {"city": "Hof"}})
    update(world)
    assert [file["place"] for file in list_files(world)] == [("Hof",)]
