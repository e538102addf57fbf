"""``winnow inspect``: what an archive is and what it has lost, per topic and partition."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.cli_runner import winnow
from tests.support.sample_archives import load_dump, unpack_sample
from winnow.sources.archive import count_partitions, open_archive, select_objects
from winnow.sources.inspection import Inspection, inspect_archive
from winnow.sources.layout import FindingKind


def inspect(path: Path, *, full: bool = True, exclude: Sequence[str] = ()) -> Inspection:
    return inspect_archive(open_archive([str(path)], exclude=exclude), ["archive/"], full=full, progress=None)


def kinds(found: Inspection) -> set[str]:
    return {finding.kind.value for entry in found.partitions for finding in entry.findings}


@pytest.mark.parametrize(
    ("name", "layout", "expected"),
    [
        ("sinks/aiven-json-bytes", "aiven", {"gap"}),
        ("sinks/aiven-parquet-headers", "aiven", {"gap", "headers_lost"}),
        ("sinks/aiven-avro-orders", "aiven", {"headers_lost", "no_tombstones"}),
        ("sinks/aiven-key-template", "aiven", {"last_per_key_only", "gap"}),
        (
            "sinks/confluent-defaults",
            "confluent",
            {"offsets_derived", "no_timestamps", "no_keys", "headers_lost", "no_tombstones"},
        ),
        ("sinks/confluent-json-keys", "confluent", {"offsets_derived", "no_timestamps", "tombstone_order_unknown"}),
        ("sinks/confluent-avro-keys", "confluent", {"offsets_derived", "no_timestamps", "tombstone_order_unknown"}),
        ("spark/parquet-text-by-date", "spark", {"headers_lost"}),
        ("logdirs/hot", "kafka-log", {"several_topics", "gap", "uncommitted_at_end"}),
    ],
)
def test_an_archive_is_told_for_what_it_is_and_lacks(
    tmp_path: Path, name: str, layout: str, expected: set[str]
) -> None:
    unpack_sample(name, tmp_path)
    found = inspect(tmp_path)
    assert found.layout == layout
    assert kinds(found) - {"overlap"} == expected


def test_counts_are_those_of_the_topic(tmp_path: Path) -> None:
    unpack_sample("sinks/aiven-json-bytes", tmp_path)
    dump = load_dump("sinks/rich-small.read_committed")
    for entry in inspect(tmp_path).partitions:
        rows = [row for (partition, _), row in dump.items() if partition == entry.partition]
        assert (entry.topic, entry.offsets, entry.records) == ("rich-small", "exact", len(rows))
        assert entry.tombstones == sum(row["value"] is None for row in rows)
        assert entry.keyless == sum(row["key"] is None for row in rows)
        assert (entry.first_offset, entry.last_offset) == (
            min(row["offset"] for row in rows),
            max(row["offset"] for row in rows),
        )
        assert entry.min_timestamp_ms == min(row["timestamp"] for row in rows)


@pytest.mark.parametrize("name", ["records.jsonl", "records.parquet"])
def test_partitions_of_own_files_are_those_that_the_records_name(tmp_path: Path, name: str) -> None:
    """However many: no topic is there yet that could have fewer."""
    rows = [{"partition": number, "offset": 7, "timestamp": 5, "key": b"k", "value": b"v"} for number in (0, 2, 40)]
    if name.endswith("jsonl"):
        text = {field: base64.b64encode(b"x").decode() for field in ("key", "value")}
        (tmp_path / name).write_text("".join(json.dumps({**row, **text}) + "\n" for row in rows))
    else:
        table = pa.Table.from_pylist(rows)
        pq.write_table(table.set_column(2, "timestamp", pa.array([5] * 3, pa.timestamp("ms", "UTC"))), tmp_path / name)
    found = inspect(tmp_path)
    assert found.layout == "winnow"
    assert [(each.partition, each.records, each.first_offset) for each in found.partitions] == [
        (0, 1, 7),
        (2, 1, 7),
        (40, 1, 7),
    ]
    archive = open_archive([str(tmp_path)])
    assert count_partitions(archive, select_objects(archive, "orders", None)) == 41


def test_without_full_nothing_is_counted_that_would_need_all_bytes(tmp_path: Path) -> None:
    """Footers of Parquet and headers of record batches tell the number of records."""
    unpack_sample("sinks/aiven-json-bytes", tmp_path / "json")
    unpack_sample("sinks/aiven-parquet-headers", tmp_path / "parquet")
    unpack_sample("logdirs/hot", tmp_path / "log")
    for entry in inspect(tmp_path / "json", full=False).partitions:
        assert (entry.records, entry.tombstones, entry.last_offset) == (None, None, None)
        assert (entry.first_offset, entry.objects) == (0, 3 if entry.partition == 2 else 2)
        assert entry.size_bytes == sum(
            path.stat().st_size for path in (tmp_path / "json").glob(f"rich-small-{entry.partition}-*")
        )
    assert sum(entry.records or 0 for entry in inspect(tmp_path / "parquet", full=False).partitions) == 1_939
    full = {(entry.topic, entry.partition): entry.records for entry in inspect(tmp_path / "log").partitions}
    assert {
        (entry.topic, entry.partition): entry.records for entry in inspect(tmp_path / "log", full=False).partitions
    } == full


def test_a_cut_off_object_is_named_and_the_others_are_counted(tmp_path: Path) -> None:
    unpack_sample("sinks/aiven-json-bytes", tmp_path)
    broken = tmp_path / "rich-small-2-0.snappy"
    broken.write_bytes(broken.read_bytes()[:-30])
    found = inspect(tmp_path)
    (fault,) = [
        finding for entry in found.partitions for finding in entry.findings if finding.kind is FindingKind.CUT_OFF
    ]
    assert "rich-small-2-0.snappy" in fault.text
    assert [entry.records is None for entry in found.partitions] == [False, False, True]


def test_records_written_twice_are_counted(tmp_path: Path) -> None:
    rows = [
        {"key": "a!", "offset": at, "timestamp": "2026-03-01T00:00:00Z", "headers": [], "value": "v!"}
        for at in range(30)
    ]
    for first, end in ((0, 20), (10, 30)):
        path = tmp_path / f"orders-0-{first}"
        path.write_text("\n".join(json.dumps(row) for row in rows[first:end]))
    (entry,) = inspect(tmp_path).partitions
    assert "overlap" in {finding.kind for finding in entry.findings}


def test_bytes_that_a_text_converter_destroyed_are_counted(tmp_path: Path) -> None:
    rows = [
        {"key": key, "offset": at, "timestamp": "2026-03-01T00:00:00Z", "headers": [], "value": "v!"}
        for at, key in enumerate(["ann!", "b\ufffdb", "cl\ufffd\ufffdo"])
    ]
    (tmp_path / "orders-0-0").write_text("\n".join(json.dumps(row) for row in rows))
    (entry,) = inspect(tmp_path).partitions
    assert [finding.count for finding in entry.findings if finding.kind is FindingKind.BYTES_DESTROYED] == [2]


def test_keys_with_a_schema_id_are_found_with_those_that_have_several(tmp_path: Path) -> None:
    """One logical key under two schema ids is two keys to compaction."""
    keys = [b"\0\0\0\0\1ann", b"\0\0\0\0\1bob", b"\0\0\0\0\2ann", b"\0\0\0\0\2cleo"]
    rows = [
        {"partition": 0, "offset": at, "timestamp": 1, "key": base64.b64encode(key).decode(), "value": "AA=="}
        for at, key in enumerate(keys)
    ]
    (tmp_path / "dump.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + "\n")
    (entry,) = inspect(tmp_path).partitions
    assert [finding.count for finding in entry.findings if finding.kind is FindingKind.SCHEMA_ID_IN_KEYS] == [1]


def test_json_document_has_the_fields_that_scripts_read(tmp_path: Path) -> None:
    unpack_sample("sinks/confluent-defaults", tmp_path)
    (first, *_) = winnow("inspect", tmp_path, "--full", "--json").document
    assert set(first) >= {
        "layout", "topic", "partition", "objects", "records", "first_offset", "last_offset", "offsets", "tombstones",
        "keyless", "min_timestamp_ms", "max_timestamp_ms", "findings",
    }  # fmt: skip
    assert set(first["findings"][0]) == {"kind", "count", "text"}
    shown = winnow("inspect", tmp_path)
    assert f"winnow ingest files orders-live {tmp_path} --create" in shown.stdout
    assert asdict(inspect(tmp_path))["layout"] == "confluent"
