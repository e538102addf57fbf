"""User bytes rest in data files only; metadata of every kind holds counts, offsets and times."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import read_manifest_list

from tests.support.world import TOPIC, World, open_world, record, write_jsonl
from winnow.errors import BadInputError
from winnow.files import storage
from winnow.log.table import make_log_properties
from winnow.pipeline.compaction.validate import validate_attempt
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.values.model import Record

MARKERS = (b"KeyMarkerXYZZY", b"ValueMarkerXYZZY", b"HeaderMarkerXYZZY")
KEY, VALUE, HEADER = MARKERS


def marked(offset: int, *, keyless: bool = False, partition: int = 0) -> Record:
    return record(
        offset,
        None if keyless else KEY + str(offset % 2).encode(),
        VALUE + str(offset).encode(),
        headers=(("name", HEADER), ("other", None)),
        partition=partition,
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A log of markers that went through everything: quarantine, refusal, compaction with real validation, publish."""
    folder = tmp_path_factory.mktemp("private")
    with open_world(folder) as opened:
        opened.create(2, min_cleanable_dirty_ratio="0", winnow_keyless="quarantine")
        opened.ingest([*(marked(n) for n in range(8)), marked(8, keyless=True), marked(0, partition=1)])
        for attempt in ("a1", "a2"):
            plan = opened.plan(opened.clock(), attempt=attempt)
            assert plan is not None
            manifest = opened.stage(plan, attempt)
            if attempt == "a1":
                # What was staged is damaged, so that failures are described too.
                path = storage.parse_local_path(manifest.partitions[0].rewrites[0].outputs[0].path)
                content = bytearray(path.read_bytes())
                content[40] ^= 0xFF
                path.write_bytes(bytes(content))
                with pytest.raises(Exception, match="failed"):
                    validate_attempt(opened.installation, plan.plan_id, attempt)
                opened.clock.now_ms += 3_600_000
            else:
                validate_attempt(opened.installation, plan.plan_id, attempt)
        refused = write_jsonl(folder / "refused.jsonl", [record(1, KEY, VALUE + b"other")])
        with pytest.raises(BadInputError):
            ingest_files(opened.installation, TOPIC, [refused], as_of_ms=opened.clock())
        opened.compact()
        opened.ingest([marked(9), marked(10)])
        yield opened


def is_data(path: Path) -> bool:
    return path.suffix == ".parquet" and "data" in path.parts


def test_no_file_but_data_files_holds_a_user_byte(world: World) -> None:
    """State, receipts, ledgers, plans, staging manifests, metadata, Data Docs, logs and both databases."""
    home = world.installation.settings.home
    files = [path for path in home.rglob("*") if path.is_file()]
    others = [path for path in files if not is_data(path)]
    data = [path for path in files if is_data(path)]
    kinds = {path.suffix for path in others}
    assert {".json", ".avro", ".html"} <= kinds
    folders = {part for path in others for part in path.parts}
    assert {"metadata", "state", "receipts", "ingests", "plans", "data_docs"} <= folders
    for path in others:
        content = path.read_bytes()
        assert not [marker for marker in MARKERS if marker in content or marker.hex().encode() in content], path
    assert data


def test_data_files_keep_no_extremes_of_user_bytes_in_their_footers(world: World) -> None:
    """Data pages are compressed, so what shows in a file's plain bytes is its footer."""
    import pyarrow.parquet as pq

    found = [path for path in world.installation.settings.home.rglob("*.parquet") if is_data(path)]
    assert len(found) > 3
    for path in found:
        metadata = pq.ParquetFile(path).metadata
        for group in range(metadata.num_row_groups):
            for number in range(metadata.num_columns):
                column = metadata.row_group(group).column(number)
                if column.path_in_schema.split(".")[0] in {"key", "value", "headers"}:
                    assert column.statistics is None or not column.statistics.has_min_max


def test_manifests_hold_no_user_byte_and_no_bounds_of_user_columns(world: World) -> None:
    """Manifests are compressed Avro, so they are decoded; quarantine included."""
    catalog = world.installation.log.catalog
    for identifier in (("winnow", TOPIC), ("winnow_quarantine", TOPIC)):
        table = catalog.load_table(identifier)
        private = {table.schema().find_field(name).field_id for name in ("key", "value", "headers")}
        entries = [
            entry.data_file
            for snapshot in table.metadata.snapshots
            for manifest in read_manifest_list(PyArrowFileIO().new_input(snapshot.manifest_list))
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
        ]
        assert entries
        for entry in entries:
            bounds = {**(entry.lower_bounds or {}), **(entry.upper_bounds or {})}
            assert not private & bounds.keys()
            assert not [marker for marker in MARKERS if marker in repr(entry).encode()]
            assert not [marker for marker in MARKERS for bound in bounds.values() if marker in bound]


def test_no_row_of_the_metadata_store_holds_a_user_byte(world: World) -> None:
    """Read as rows too: a page of the database may lie in its write-ahead log."""
    connection = sqlite3.connect(world.installation.settings.store_url.removeprefix("sqlite:///"))
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    rows = [repr(row).encode() for name in tables for row in connection.execute(f"SELECT * FROM {name}")]
    connection.close()
    assert {f"winnow_{kind}" for kind in ("checkpoint", "receipt", "run", "verdict", "assessment")} <= set(tables)
    assert len(rows) > 10
    assert not [marker for marker in MARKERS for row in rows if marker in row]


def test_the_table_is_made_as_designed(world: World) -> None:
    """Counts for user columns, bounds for the others, names for readers without field ids, no retry of PyIceberg's."""
    table = world.head().table
    properties = table.properties
    assert table.format_version == 2
    assert [field.name for field in table.spec().fields] == ["partition"]
    assert {name: properties[f"write.metadata.metrics.column.{name}"] for name in ("key", "value", "headers")} == {
        "key": "counts",
        "value": "counts",
        "headers": "counts",
    }
    assert {properties[f"write.metadata.metrics.column.{name}"] for name in ("offset", "timestamp")} == {"full"}
    assert properties["write.metadata.metrics.default"] == "counts"
    assert properties["write.delete.isolation-level"] == "snapshot"
    assert properties["commit.retry.num-retries"] == "0"
    assert table.name_mapping() is not None
    assert properties["schema.name-mapping.default"] == make_log_properties(2, {})["schema.name-mapping.default"]


def plain(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
    # PyIceberg's own scan makes an empty list of missing headers, so both count as the same here.
    return sorted(
        (
            row["partition"],
            row["offset"],
            row["key"],
            row["value"],
            tuple((h["key"], h["value"]) for h in row["headers"] or []),  # type: ignore[attr-defined]
        )
        for row in rows
    )


def test_pyiceberg_reads_the_same_records(world: World) -> None:
    """A reader that knows nothing of Winnow."""
    mine = [(r.partition, r.offset, r.key, r.value, r.headers or ()) for r in world.read()]
    assert plain(world.head().table.scan().to_arrow().to_pylist()) == mine


def test_duckdb_reads_the_same_records_field_by_field(world: World) -> None:
    """From the files that the table lists, by plain Parquet."""
    paths = [task.file.file_path.removeprefix("file://") for task in world.head().table.scan().plan_files()]
    rows = (
        duckdb.connect()
        .execute(
            'SELECT "partition", "offset", epoch_ms("timestamp"), "timestampType", key, value, headers '
            f'FROM read_parquet({paths}) ORDER BY "partition", "offset"'
        )
        .fetchall()
    )
    assert [
        (p, o, t, kind, key, value, None if headers is None else tuple((h["key"], h["value"]) for h in headers))
        for p, o, t, kind, key, value, headers in rows
    ] == [(r.partition, r.offset, r.timestamp_ms, r.timestamp_type, r.key, r.value, r.headers) for r in world.read()]
