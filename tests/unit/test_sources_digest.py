"""The digest of what a file brings: the same for the same records, another for any other."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from winnow.files.record_batch import HEADERS, RECORD_SCHEMA
from winnow.sources.layouts.winnow.files import read_file
from winnow.sources.slice_digests import SliceDigests

Record = dict[str, Any]

BYTES = st.sampled_from([None, b"", b"a", b"b", b"ab", b"\x00", b"\xff" * 8])
HEADER = st.fixed_dictionaries({"key": st.sampled_from(["", "a", "ab"]), "value": BYTES})
RECORD = st.fixed_dictionaries(
    {
        "partition": st.none() | st.integers(0, 2),
        "offset": st.none() | st.integers(0, 2**63 - 1),
        "timestamp": st.none() | st.integers(0, 10**15),
        "timestampType": st.integers(-1, 1),
        "key": BYTES,
        "value": BYTES,
        "headers": st.none() | st.lists(HEADER, max_size=3),
    }
)
RECORDS = st.lists(RECORD, max_size=15)


def as_batch(records: list[Record]) -> pa.RecordBatch:
    """Records as they would arrive, numbered from 1."""
    numbered = [{"row": number, **record} for number, record in enumerate(records, 1)]
    return pa.RecordBatch.from_pylist(numbered, RECORD_SCHEMA)


def digests_of(*batches: pa.RecordBatch) -> tuple[dict[int | None, str], str]:
    """The digests per partition and of the whole."""
    running = SliceDigests()
    for batch in batches:
        running.update(batch)
    return running.digests(), running.file_digest()


def digests_of_file(path: Path, batch_bytes: int) -> tuple[dict[int | None, str], str]:
    """The same over a file read in batches of that size."""
    return digests_of(*read_file(str(path), topic="orders", partitions=3, batch_bytes=batch_bytes))


@given(records=RECORDS, batch_bytes=st.sampled_from([1, 200, 1 << 20]), row_group_size=st.integers(1, 20))
def test_digest_is_the_same_from_json_lines_gzip_and_parquet_however_cut(
    tmp_path_factory: Any, records: list[Record], batch_bytes: int, row_group_size: int
) -> None:
    """What counts are the records, not the format, the batches or the row groups."""

    def written(value: object) -> object:
        if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        if isinstance(value, list):
            return [written(element) for element in value]
        return {name: written(inner) for name, inner in value.items()} if isinstance(value, dict) else value

    folder = tmp_path_factory.getbasetemp()
    text = "".join(json.dumps(written(record)) + "\n" for record in records).encode()
    (folder / "same.jsonl").write_bytes(text)
    (folder / "same.jsonl.gz").write_bytes(gzip.compress(text))
    types = {"key": pa.binary(), "value": pa.binary(), "headers": HEADERS, "timestamp": pa.timestamp("us", "UTC")}
    columns = {
        name: pa.array([record[name] for record in records], types.get(name, pa.int64()))
        for name in ("value", "partition", "offset", "timestampType", "headers", "key")
    }
    moments = pa.array([r["timestamp"] and r["timestamp"] * 1000 for r in records], pa.int64())
    columns["timestamp"] = moments.cast(types["timestamp"])
    pq.write_table(pa.table(columns), folder / "same.parquet", row_group_size=row_group_size)
    expected = digests_of_file(folder / "same.jsonl", 16 << 20)
    for name in ("same.jsonl", "same.jsonl.gz", "same.parquet"):
        assert digests_of_file(folder / name, batch_bytes) == expected


@given(records=RECORDS, cuts=st.lists(st.integers(0, 15), max_size=4))
def test_digest_is_the_same_however_the_records_are_cut_into_batches(records: list[Record], cuts: list[int]) -> None:
    """Also for slices of one batch, and for empty ones."""
    whole = as_batch(records)
    edges = sorted({0, len(records), *(min(cut, len(records)) for cut in cuts)})
    parts = [whole.slice(start, end - start) for start, end in pairwise(edges)]
    assert digests_of(*parts, whole.slice(0, 0)) == digests_of(whole)


@given(records=RECORDS)
def test_digest_does_not_depend_on_how_partitions_lie_between_one_another(records: list[Record]) -> None:
    """Only the order within a partition counts."""
    by_partition = sorted(records, key=lambda record: -1 if record["partition"] is None else record["partition"])
    assert digests_of(as_batch(by_partition)) == digests_of(as_batch(records))


@given(one=RECORDS, other=RECORDS)
def test_different_records_have_different_digests(one: list[Record], other: list[Record]) -> None:
    """Per partition and for the file: equal exactly when the records are equal, in order."""

    def slices(records: list[Record]) -> dict[int | None, list[Record]]:
        found: dict[int | None, list[Record]] = {}
        for record in records:
            found.setdefault(record["partition"], []).append({k: v for k, v in record.items() if k != "partition"})
        return found

    (one_digests, one_file), (other_digests, other_file) = digests_of(as_batch(one)), digests_of(as_batch(other))
    assert set(one_digests) == set(slices(one))
    for partition in set(one_digests) & set(other_digests):
        same = slices(one)[partition] == slices(other)[partition]
        assert (one_digests[partition] == other_digests[partition]) == same
    assert (one_file == other_file) == (slices(one) == slices(other))


@given(
    records=st.lists(RECORD, min_size=1, max_size=8),
    at=st.integers(0, 7),
    field=st.sampled_from(list(RECORD_SCHEMA.names[1:])),
    data=st.data(),
)
def test_any_change_of_one_field_changes_the_digest_of_the_file(
    records: list[Record], at: int, field: str, data: st.DataObject
) -> None:
    """Null against empty, one header more, one byte, one millisecond."""
    at %= len(records)
    change = data.draw(RECORD.map(lambda record: record[field]).filter(lambda value: value != records[at][field]))
    changed = [*records[:at], records[at] | {field: change}, *records[at + 1 :]]
    assert digests_of(as_batch(changed))[1] != digests_of(as_batch(records))[1]


def test_bytes_that_move_between_neighbouring_fields_change_the_digest() -> None:
    """Lengths are part of what is hashed, so bytes cannot wander from record to record or from key to value."""
    bare: Record = {"partition": 0, "offset": None, "timestamp": None, "timestampType": 0, "headers": None}
    variants: list[list[Record]] = [
        [{"key": b"ab", "value": b"c"}, {"key": b"d", "value": b""}],
        [{"key": b"a", "value": b"bc"}, {"key": b"d", "value": b""}],
        [{"key": b"ab", "value": b"c"}, {"key": b"", "value": b"d"}],
        [{"key": b"a", "value": b"c"}, {"key": b"bd", "value": b""}],
        [{"key": b"abd", "value": b"c"}, {"key": None, "value": b""}],
        [{"key": b"abd", "value": b"c"}, {"key": b"", "value": None}],
        [{"key": b"ab", "value": b"c"}, {"key": b"d", "value": None}],
        [{"key": b"d", "value": b""}, {"key": b"ab", "value": b"c"}],
    ]
    found = {digests_of(as_batch([bare | record for record in records]))[1] for records in variants}
    assert len(found) == len(variants)


def test_headers_that_move_between_records_change_the_digest() -> None:
    """How many headers a record has is part of what is hashed; null is not an empty list."""
    bare: Record = {"partition": 0, "offset": None, "timestamp": None, "timestampType": 0, "key": b"k", "value": b"v"}
    a, b = {"key": "a", "value": b"1"}, {"key": "b", "value": None}
    variants: list[tuple[Any, Any]] = [
        ([a, b], []),
        ([a], [b]),
        ([], [a, b]),
        ([b, a], []),
        ([a, b], None),
        (None, [a, b]),
    ]
    found = {digests_of(as_batch([bare | {"headers": headers} for headers in both]))[1] for both in variants}
    assert len(found) == len(variants)


def test_bytes_behind_a_null_do_not_count() -> None:
    """Arrow leaves open what the place of a null holds."""
    bare: Record = {"offset": 1, "timestamp": None, "timestampType": 0, "value": None, "headers": None, "partition": 0}
    plain = as_batch([bare | {"key": key} for key in (b"a", None, b"c")])
    buffers = pa.array([b"a", b"junk", b"c"], pa.binary()).buffers()
    valid = pa.array([b"", None, b""], pa.binary()).buffers()[0]
    position = RECORD_SCHEMA.get_field_index("key")
    column = pa.Array.from_buffers(pa.binary(), 3, [valid, *buffers[1:]])
    other = plain.set_column(position, RECORD_SCHEMA.field(position), column)
    assert other.equals(plain)
    assert digests_of(other) == digests_of(plain)


def test_no_records_and_keyless_records_without_partition_have_digests() -> None:
    """The empty file has one digest; records that belong to no partition are a group of their own."""
    nothing = digests_of()
    assert nothing[0] == {}
    keyless: Record = {
        "partition": None,
        "offset": None,
        "timestamp": None,
        "timestampType": 0,
        "key": None,
        "value": b"v",
    }
    digests, whole = digests_of(as_batch([keyless | {"headers": None}, keyless | {"headers": None, "partition": 2}]))
    assert list(digests) == [None, 2]
    assert digests[None] == digests[2]
    assert whole != nothing[1]


def test_digest_of_known_records_never_changes() -> None:
    """Digests outlive versions: a file ingested years ago must be known again."""
    header = {"key": "version", "value": b"\x01"}
    first = {"partition": 0, "offset": 5, "timestamp": 1700000000123, "timestampType": 1, "key": b"a", "value": b"x"}
    second = {"partition": 0, "offset": 6, "timestamp": None, "timestampType": 0, "key": b"a", "value": None}
    digests, whole = digests_of(as_batch([first | {"headers": [header]}, second | {"headers": None}]))
    numbers = struct.pack("<12q", 5, 1700000000123, 1, 1, 1, 1, 6, -1, 0, 1, -1, -1)
    streams = [numbers, b"aa", b"x", struct.pack("<2q", 7, 1), b"version", b"\x01"]
    hashes = b"".join(hashlib.sha256(stream).digest() for stream in streams)
    expected = hashlib.sha256(b"winnow slice 1\n" + struct.pack("<q", 2) + hashes)
    assert digests == {0: expected.hexdigest()}
    assert expected.hexdigest().startswith("60dff124d8798b75")
    assert whole == hashlib.sha256(b"winnow file 1\n" + struct.pack("<2q", 0, 2) + expected.digest()).hexdigest()
