"""Parquet with the columns of Spark's Kafka source: what is taken, what is refused, and that memory stays bounded."""

from __future__ import annotations

import hashlib
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from winnow.errors import BadInputError
from winnow.files.partitioner import choose_partition
from winnow.files.record_batch import HEADERS, MAXIMUM_BATCH_ROWS, MAXIMUM_TIMESTAMP_MS, RECORD_SCHEMA
from winnow.sources.layouts.winnow.files import read_file
from winnow.sources.layouts.winnow.parquet import list_extra_columns

TWO = {"key": pa.array([b"a", b"b"], pa.binary()), "value": pa.array([b"x", None], pa.binary())}


def write(path: Path, columns: dict[str, Any], **how: Any) -> Path:
    """A Parquet file of these columns."""
    pq.write_table(pa.table(columns), path, **how)
    return path


def rows(path: Path, *, partitions: int = 4, batch_bytes: int = 1 << 20) -> list[dict[str, Any]]:
    """All records of a file, with the names and types of the arriving schema."""
    batches = list(read_file(str(path), topic="orders", partitions=partitions, batch_bytes=batch_bytes))
    found: list[dict[str, Any]] = pa.Table.from_batches(batches, RECORD_SCHEMA).to_pylist()
    return found


def refusal(path: Path) -> str:
    """The message with which a file is refused."""
    with pytest.raises(BadInputError) as refused:
        rows(path)
    assert refused.value.left == "Nothing of this call landed."
    return str(refused.value.with_left(""))


# ------------------------------------------------------------------------------------------------------- what is taken


def test_file_of_sparks_kafka_source_arrives_as_written(tmp_path: Path) -> None:
    """All columns, in another order than ours, with the topic compared; row numbers begin at 1."""
    moment = datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC)
    path = write(
        tmp_path / "spark.parquet",
        {
            "key": pa.array([b"abc", None], pa.binary()),
            "value": pa.array([b"\x00\xff", b""], pa.binary()),
            "topic": ["orders", "orders"],
            "partition": pa.array([2, 3], pa.int32()),
            "offset": [12, 2**63 - 1],
            "timestamp": pa.array([moment, None], pa.timestamp("us", "UTC")),
            "timestampType": pa.array([1, 0], pa.int32()),
            "headers": pa.array([[{"key": "v", "value": b"1"}, {"key": "v", "value": None}], None], HEADERS),
        },
    )
    headers = [{"key": "v", "value": b"1"}, {"key": "v", "value": None}]
    first = {"row": 1, "partition": 2, "offset": 12, "timestamp": 1700000000123, "timestampType": 1}
    second = {"row": 2, "partition": 3, "offset": 2**63 - 1, "timestamp": None, "timestampType": 0}
    assert rows(path) == [
        first | {"key": b"abc", "value": b"\x00\xff", "headers": headers},
        second | {"key": None, "value": b"", "headers": None},
    ]


def test_key_and_value_alone_get_the_defaults(tmp_path: Path) -> None:
    """Partition by key, no offset, no timestamp, create time, no headers."""
    _, row = rows(write(tmp_path / "least.parquet", TWO), partitions=1000)
    defaults = {"offset": None, "timestamp": None, "timestampType": 0, "headers": None}
    assert row == {"row": 2, "partition": choose_partition(b"b", 1000), "key": b"b", "value": None} | defaults


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.large_binary(),
        pa.string_view(),
        pa.binary_view(),
        pa.binary(2),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dictionary(pa.int32(), pa.binary()),
    ],
    ids=str,
)
def test_byte_columns_of_any_kind_are_taken(tmp_path: Path, kind: pa.DataType) -> None:
    """Strings are their UTF-8 bytes; null stays null."""
    values = pa.array(["é", None, "ab", "é"]).cast(pa.binary())
    if pa.types.is_dictionary(kind):
        column = values.cast(kind.value_type).dictionary_encode().cast(kind)
    else:
        column = values.cast(kind)
    path = write(tmp_path / "kinds.parquet", {"key": column, "value": column})
    assert [row["value"] for row in rows(path)] == ["é".encode(), None, b"ab", "é".encode()]
    assert [row["key"] for row in rows(path)] == ["é".encode(), None, b"ab", "é".encode()]


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.int64(), pa.uint64()], ids=str)
def test_integers_of_any_width_are_taken(tmp_path: Path, kind: pa.DataType) -> None:
    """Partition, offset and type of timestamp; null means absent."""
    columns = {name: pa.array([1, None], kind) for name in ("partition", "offset", "timestampType")}
    first, second = rows(write(tmp_path / "widths.parquet", TWO | columns))
    assert (first["partition"], first["offset"], first["timestampType"]) == (1, 1, 1)
    assert (second["partition"], second["offset"], second["timestampType"]) == (choose_partition(b"b", 4), None, 0)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1700000000123, None]),
        pa.array([1700000000123, None], pa.timestamp("ms")),
        pa.array([1700000000123000, None], pa.timestamp("us")),
        pa.array([1700000000123000, None], pa.timestamp("us", "Europe/Berlin")),
        pa.array([1700000000123000000, None], pa.timestamp("ns", "UTC")),
    ],
    ids=lambda column: str(column.type),
)
def test_timestamps_of_any_unit_and_zone_are_milliseconds_since_the_epoch(tmp_path: Path, column: pa.Array) -> None:
    """A zone is only how a moment is shown, and a naive timestamp is taken as UTC."""
    path = write(tmp_path / "units.parquet", TWO | {"timestamp": column})
    assert [row["timestamp"] for row in rows(path)] == [1700000000123, None]


def test_int96_is_read_beyond_the_year_2262(tmp_path: Path) -> None:
    """Older Sparks write INT96; read as nanoseconds it would wrap there in silence."""
    moments = [1700000000123000, 32503680000000000]
    columns = TWO | {"timestamp": pa.array(moments, pa.timestamp("us"))}
    path = write(tmp_path / "int96.parquet", columns, use_deprecated_int96_timestamps=True)
    assert [row["timestamp"] for row in rows(path)] == [1700000000123, 32503680000000]


@pytest.mark.parametrize(
    "column", [pa.array([-1, 0]), pa.array([-1000, 0], pa.timestamp("us", "UTC"))], ids=["ms", "us"]
)
def test_one_millisecond_before_the_epoch_means_none(tmp_path: Path, column: pa.Array) -> None:
    """Spark shows Kafka's -1 as 1969-12-31T23:59:59.999."""
    path = write(tmp_path / "none.parquet", TWO | {"timestamp": column})
    assert [row["timestamp"] for row in rows(path)] == [None, 0]


def test_null_empty_and_repeated_headers_are_kept_apart(tmp_path: Path) -> None:
    """Also in a large list with large strings, and with another order of the fields."""
    element = pa.struct([("value", pa.large_binary()), ("key", pa.large_string())])
    wanted = [[], None, [{"key": "", "value": b""}, {"key": "é", "value": None}, {"key": "é", "value": b"1"}], None]
    columns = {
        "key": pa.array([b"k"] * 4, pa.binary()),
        "value": pa.nulls(4, pa.binary()),
        "headers": pa.array(wanted, pa.large_list(element)),
    }
    assert [row["headers"] for row in rows(write(tmp_path / "h.parquet", columns))] == wanted


def test_columns_of_nulls_alone_are_taken_as_absent(tmp_path: Path) -> None:
    """Pandas writes a column without any value with the type null."""
    names = ("value", "partition", "offset", "timestamp", "timestampType", "headers")
    row, _ = rows(write(tmp_path / "nulls.parquet", TWO | {name: pa.nulls(2) for name in names}))
    assert row == {
        "row": 1,
        "partition": choose_partition(b"a", 4),
        "offset": None,
        "timestamp": None,
        "timestampType": 0,
        "key": b"a",
        "value": None,
        "headers": None,
    }


def test_extra_columns_are_passed_over_and_named(tmp_path: Path) -> None:
    """For a notice: the topic is no surprise, anything else is."""
    more = {"topic": ["orders", "orders"], "ingested_by": ["x", "y"], "key.id": [1, 2]}
    path = write(tmp_path / "extra.parquet", TWO | more)
    assert list_extra_columns(str(path)) == ["ingested_by", "key.id"]
    assert [row["key"] for row in rows(path)] == [b"a", b"b"]


def test_file_without_rows_gives_no_batch(tmp_path: Path) -> None:
    """An empty partition makes an empty file; that is no mistake."""
    path = write(tmp_path / "empty.parquet", {name: column.slice(2) for name, column in TWO.items()})
    assert list(read_file(str(path), topic="orders", partitions=1)) == []


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"use_dictionary": False},
        {"row_group_size": 70},
        {"dictionary_pagesize_limit": 400, "data_page_size": 200},
        {"data_page_version": "2.0", "compression": "zstd", "row_group_size": 133},
        {"use_dictionary": False, "column_encoding": {"value": "DELTA_BYTE_ARRAY", "key": "DELTA_LENGTH_BYTE_ARRAY"}},
    ],
    ids=str,
)
@pytest.mark.parametrize("batch_bytes", [1, 2000, 1 << 20])
def test_records_are_the_same_however_the_file_is_laid_out(
    tmp_path: Path, how: dict[str, Any], batch_bytes: int
) -> None:
    """Dictionaries, plain and delta encodings, small pages and row groups, and batches of any size."""
    count = 300
    keys = [b"k%d" % (n % 7) for n in range(count)]
    values = [None if n % 9 == 0 else b"v%d" % (n if n > 100 else n % 3) * (n % 5) for n in range(count)]
    headers = [None, [], [{"key": "a", "value": b"x"}, {"key": "b", "value": None}]]
    path = write(
        tmp_path / "layout.parquet",
        {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.array([headers[n % 3] for n in range(count)], HEADERS),
        },
        **how,
    )
    taken = rows(path, batch_bytes=batch_bytes)
    assert [row["row"] for row in taken] == list(range(1, count + 1))
    assert [row["key"] for row in taken] == keys
    assert [row["value"] for row in taken] == values
    assert [row["headers"] for row in taken] == [headers[n % 3] for n in range(count)]


# ----------------------------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"key": TWO["key"]}, "column value is missing. Write the columns of Spark's Kafka source; keep null values"),
        ({"value": TWO["value"]}, "column key is missing"),
        ({"key": [1, 2]}, "column key is of type int64. It must be binary or string"),
        ({"value": [[b"x"], None]}, "column value is of type list<"),
        ({"partition": ["0", "1"]}, "column partition is of type string. It must be an integer"),
        ({"partition": [True, False]}, "column partition is of type bool"),
        ({"offset": [1.0, 2.0]}, "column offset is of type double. It must be an integer"),
        ({"timestamp": ["2024", "2025"]}, "column timestamp is of type string. It must be a timestamp or an integer"),
        ({"timestamp": pa.array([1, 2], pa.date32())}, "column timestamp is of type date32[day]"),
        ({"timestampType": ["CREATE_TIME", "x"]}, "column timestampType is of type string"),
        (
            {"headers": ["a", "b"]},
            "column headers is of type string. It must be list<struct<key: string, value: binary>>",
        ),
        ({"headers": pa.array([[{"key": "a"}], None])}, "column headers is of type list<"),
        ({"headers": pa.array([[{"key": b"a", "value": b"b"}], None])}, "column headers is of type list<"),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_column_missing_or_of_a_wrong_type_is_refused(tmp_path: Path, columns: dict[str, Any], said: str) -> None:
    """The message names the column, its type and the types that are taken."""
    complete = columns if "is missing" in said else TWO | columns
    path = write(tmp_path / "typed.parquet", complete)
    assert refusal(path).startswith(f"{path}: {said}")


def test_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    """There is no telling which one is meant."""
    path = tmp_path / "twice.parquet"
    pq.write_table(pa.Table.from_arrays([TWO["key"], TWO["value"], TWO["key"]], ["key", "value", "key"]), path)
    assert refusal(path).startswith(f"{path}: column key is there 2 times. Write it once")


WITH_HEADERS = pa.struct([("key", pa.string()), ("value", pa.binary())])
NULL_HEADER = pa.ListArray.from_arrays([0, 0, 1], pa.nulls(1, WITH_HEADERS))
GARBLED = pa.ListArray.from_arrays(
    [0, 1, 2],
    pa.StructArray.from_arrays(
        [
            pa.Array.from_buffers(pa.string(), 2, pa.array([b"a", b"\xff"], pa.binary()).buffers()),
            pa.array([b"", b""], pa.binary()),
        ],
        names=["key", "value"],
    ),
)


@pytest.mark.parametrize(
    ("column", "where", "said"),
    [
        (
            {"partition": [0, 4]},
            " (offset 8)",
            "partition is above what it can be. Topic orders has 4, numbered from 0",
        ),
        ({"partition": [0, -1]}, " (offset 8)", "partition is below what it can be"),
        ({"partition": [0, 2**40]}, " (offset 8)", "partition is above what it can be"),
        ({"offset": [0, -1]}, " (partition 1)", "offset is below what it can be. Write offsets from 0 to 2^63 - 1"),
        ({"offset": pa.array([0, 2**63], pa.uint64())}, " (partition 1)", "offset is above what it can be"),
        (
            {"timestampType": [0, 2]},
            " (partition 1, offset 8)",
            "timestampType is above what it can be. Write 0 (create",
        ),
        ({"timestampType": [0, -2]}, " (partition 1, offset 8)", "timestampType is below what it can be"),
        ({"timestamp": [0, -2]}, " (partition 1, offset 8)", "timestamp is below what it can be"),
        ({"timestamp": [0, MAXIMUM_TIMESTAMP_MS + 1]}, " (partition 1, offset 8)", "timestamp is above what it can be"),
        (
            {"timestamp": pa.array([0, MAXIMUM_TIMESTAMP_MS + 1], pa.timestamp("ms"))},
            " (partition 1, offset 8)",
            "timestamp is above what it can be",
        ),
        (
            {"timestamp": pa.array([1000, 1001], pa.timestamp("us", "UTC"))},
            " (partition 1, offset 8)",
            "timestamp is not a whole number of milliseconds. Kafka's timestamps are",
        ),
        (
            {"timestamp": pa.array([1000000, 1000001], pa.timestamp("ns", "UTC"))},
            " (partition 1, offset 8)",
            "timestamp is not a whole number of milliseconds",
        ),
        (
            {"timestamp": pa.array([0, -1], pa.timestamp("us", "UTC"))},
            " (partition 1, offset 8)",
            "timestamp is not a whole number of milliseconds",
        ),
        (
            {"headers": pa.array([None, [{"key": None, "value": b"secret"}]], HEADERS)},
            " (partition 1, offset 8)",
            "a header has no key. A header's key is a string, never null",
        ),
        ({"headers": NULL_HEADER}, " (partition 1, offset 8)", "a header is null"),
        ({"headers": GARBLED}, " (partition 1, offset 8)", "a header's key is not valid UTF-8"),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, dict) else "",
)
def test_record_that_is_not_as_documented_is_refused_with_its_place_and_remedy(
    tmp_path: Path, column: dict[str, Any], where: str, said: str
) -> None:
    """The message names file, row, partition and offset where known, what is wrong and what to do."""
    path = write(tmp_path / "bad.parquet", TWO | {"partition": [1, 1], "offset": [7, 8]} | column)
    message = refusal(path)
    assert message.startswith(f"{path}, row 2{where}: {said}")
    assert "secret" not in message


def test_row_of_a_refusal_counts_over_row_groups_and_batches(tmp_path: Path) -> None:
    """The number is that of the file, and the earliest wrong record is the one named."""
    offsets = np.arange(5000)
    offsets[[3210, 4000]] = -5
    kinds = np.zeros(5000, np.int32)
    kinds[3500] = 9
    keys = pa.array([b"k"] * 5000, pa.binary())
    columns = {"key": keys, "value": keys, "offset": offsets, "timestampType": kinds}
    path = write(tmp_path / "deep.parquet", columns, row_group_size=900)
    for batch_bytes in (1000, 5000, 1 << 24):
        with pytest.raises(BadInputError, match=r"deep\.parquet, row 3211: offset is below"):
            rows(path, batch_bytes=batch_bytes)


def flipped(whole: bytes, start: int) -> bytes:
    """``whole`` with a hundred bytes from ``start`` on turned round."""
    return whole[:start] + bytes(byte ^ 0xFF for byte in whole[start : start + 100]) + whole[start + 100 :]


@pytest.mark.parametrize("damage", ["nothing", "text", "head only", "no footer", "footer", "page"])
def test_damaged_file_is_refused(tmp_path: Path, damage: str) -> None:
    """Cut off, not Parquet at all, or with wrong bytes in the footer or in a page that carries a checksum."""
    path = tmp_path / "damaged.parquet"
    values = pa.array([hashlib.sha256(b"%d" % number).digest() for number in range(500)], pa.binary())
    whole = write(path, {"key": values, "value": values}, write_page_checksum=True).read_bytes()
    contents = {
        "nothing": b"",
        "text": b"key,value\n" * 20,
        "head only": whole[:100],
        "no footer": whole[:-400],
        "footer": flipped(whole, len(whole) - 300),
        "page": flipped(whole, len(whole) // 2),
    }
    path.write_bytes(contents[damage])
    assert refusal(path).startswith(f"{path}: this is not Parquet, or its footer or a page is damaged. Copy the file")
    if damage != "page":
        with pytest.raises(BadInputError, match="this is not Parquet"):
            list_extra_columns(str(path))


def test_file_with_fewer_rows_than_its_footer_says_is_refused(tmp_path: Path) -> None:
    """Arrow reads what is there and says nothing; records would be lost."""
    path = tmp_path / "fewer.parquet"
    columns = {"key": pa.array([b"a"] * 100, pa.binary()), "value": pa.nulls(100, pa.binary())}
    whole = write(path, columns, store_schema=False).read_bytes()
    # The last 100 in the footer, as Thrift writes it, is the number of rows of the row group.
    at = whole.rindex(b"\xc8\x01")
    path.write_bytes(whole[:at] + b"\xf0\x01" + whole[at + 2 :])
    assert "its footer or a page is damaged" in refusal(path)


def test_page_that_points_outside_its_dictionary_is_refused(tmp_path: Path) -> None:
    """Without checksums a flipped bit may make an index too large; it is not followed."""
    path = tmp_path / "outside.parquet"
    columns = {"key": pa.array([b"a", b"b", b"c"] * 40, pa.binary()), "value": pa.nulls(120, pa.binary())}
    write(path, columns, compression="none", write_statistics=False, store_schema=False)
    whole = bytearray(path.read_bytes())
    # Three values take two bits each: 0, 1, 2, 0 | 1, 2, 0, 1 | ... from the lowest bit up.
    at = whole.index(bytes([0b00100100, 0b01001001, 0b10010010]))
    whole[at] = 0xFF
    path.write_bytes(whole)
    assert "its footer or a page is damaged" in refusal(path)


# -------------------------------------------------------------------------------------------------------- it streams


def test_first_batch_arrives_before_a_later_bad_row_is_met(tmp_path: Path) -> None:
    """Reading is lazy: what comes first is not held back by what comes last."""
    offsets = np.arange(5000)
    offsets[-1] = -1
    keys = pa.array([b"k"] * 5000, pa.binary())
    path = write(tmp_path / "late.parquet", {"key": keys, "value": keys, "offset": offsets})
    batches = read_file(str(path), topic="orders", partitions=4, batch_bytes=10_000)
    assert next(batches).column("row")[0].as_py() == 1
    with pytest.raises(BadInputError, match="row 5000"):
        list(batches)


def test_many_small_records_keep_batches_within_rows_and_bytes(tmp_path: Path) -> None:
    """200,000 records: no batch over 64k rows or over the bytes asked for, and every row once, in order."""
    count = 200_000
    keys = pa.array([b""] * count, pa.binary())
    path = write(tmp_path / "many.parquet", {"key": keys, "value": keys, "offset": np.arange(count)})
    for batch_bytes in (1 << 18, 16 << 20):
        expected = 1
        for batch in read_file(str(path), topic="orders", partitions=1, batch_bytes=batch_bytes):
            assert batch.schema == RECORD_SCHEMA
            assert batch.num_rows <= MAXIMUM_BATCH_ROWS
            assert batch.nbytes <= batch_bytes
            assert (batch.column("row").to_numpy() == np.arange(expected, expected + batch.num_rows)).all()
            expected += batch.num_rows
        assert expected == count + 1


def test_one_large_value_repeated_is_never_spelt_out_all_at_once(tmp_path: Path) -> None:
    """A dictionary makes 500 kB of file stand for a gigabyte of values and headers; batches stay at the bound."""
    count, large = 2000, random.Random(1).randbytes(250_000)
    values = pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([large], pa.binary()))
    headers = pa.ListArray.from_arrays(
        np.arange(count + 1, dtype=np.int32),
        pa.StructArray.from_arrays([pa.array(["h"] * count), values], names=["key", "value"]),
    )
    keys = pa.array([b"k"] * count, pa.binary())
    path = write(tmp_path / "large.parquet", {"key": keys, "value": values, "headers": headers}, row_group_size=1500)
    assert path.stat().st_size < 2_500_000
    before = pa.total_allocated_bytes()
    batches = read_file(str(path), topic="orders", partitions=1, batch_bytes=4 << 20)
    for batch, _ in zip(batches, range(20), strict=False):
        assert batch.num_rows == 8
        assert batch.nbytes <= 4 << 20
        assert batch.column("value")[0].as_py() == large
        assert pa.total_allocated_bytes() - before < 64 << 20


def test_record_larger_than_a_batch_is_a_batch_by_itself(tmp_path: Path) -> None:
    """The bound never splits or refuses a record."""
    noise = random.Random(2)
    values = pa.array([b"small", noise.randbytes(300_000), b"small", b"small", noise.randbytes(200_000)], pa.binary())
    path = write(tmp_path / "big.parquet", {"key": values, "value": values})
    sizes = [b.num_rows for b in read_file(str(path), topic="orders", partitions=1, batch_bytes=100_000)]
    assert sum(sizes) == 5
    assert [row["value"] for row in rows(path, batch_bytes=100_000)] == values.to_pylist()
    assert max(sizes) <= 2
