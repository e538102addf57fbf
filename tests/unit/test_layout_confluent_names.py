"""What the names of Confluent's S3 sink tell."""

from __future__ import annotations

import pytest

from winnow.sources.layouts.confluent.names import ConfluentName, Format, parse_name


def parse(uri: str) -> ConfluentName:
    name = parse_name(uri)
    assert name is not None, uri
    return name


@pytest.mark.parametrize(
    ("uri", "topic", "partition", "offset", "folder"),
    [
        ("/a/topics/orders/partition=0/orders+0+0000000400.json", "orders", 0, 400, "partition=0"),
        (
            "topics/o/year=2026/month=01/day=02/hour=03/o+12+0000000007.avro",
            "o",
            12,
            7,
            "year=2026/month=01/day=02/hour=03",
        ),
        ("topics/o/id=7/name=x/o+1+12345678901.bin", "o", 1, 12345678901, "id=7/name=x"),
        ("topics/o/schema_name=shop.Order/partition=1/o+1+0.avro", "o", 1, 0, "schema_name=shop.Order/partition=1"),
        ("archive/my_t_1/partition=2/my_t_1_2_0004.snappy.parquet", "my_t_1", 2, 4, "partition=2"),
        ("s3://bucket/topics/o/tombstone/o%2B0%2B0000000004.keys.avro", "o", 0, 4, "tombstone"),
        ("t/orders.1/partition=0/orders.1.0.0000000012.lz4.parquet", "orders.1", 0, 12, "partition=0"),
        ("t/a-1/partition=0/a-1-0-12.json", "a-1", 0, 12, "partition=0"),
        ("t/a/partition=0/a#1#0#1#12.json", "a", 0, 12, "partition=0"),  # a delimiter with a digit
        ("t/a/partition=0/a__0__7", "a", 0, 7, "partition=0"),
        ("t/a_/partition=0/a__0_7", "a_", 0, 7, "partition=0"),
        ("orders/topics/orders-1/partition=3/orders-1-3-0.json", "orders-1", 3, 0, "partition=3"),
        # Without the folders above, split from the right.
        ("partition=0/my_t_1_2_0004.json", "my_t_1", 2, 4, "partition=0"),
        ("a__0__0007.bin", "a", 0, 7, ""),
        ("a_b-1-0-12.dat", "a_b-1", 0, 12, ""),
        ("orders.1.0.0000000012.bin", "orders.1", 0, 12, ""),
    ],
)
def test_names_are_split_from_the_right(uri: str, topic: str, partition: int, offset: int, folder: str) -> None:
    name = parse(uri)
    assert (name.topic, name.partition, name.first_offset, name.folder) == (topic, partition, offset, folder)


def test_the_hdfs_sink_s_names_have_the_last_offset_too() -> None:
    name = parse("hdfs://nn/topics/my+x/orders.v-1/partition=3/orders.v-1+3+0000000400+0000000799.avro")
    assert (name.topic, name.partition, name.first_offset, name.last_offset) == ("orders.v-1", 3, 400, 799)
    assert (name.folder, name.format, name.in_topic_folder) == ("partition=3", Format.AVRO, True)
    assert parse("topics/o/partition=0/o+0+0000000400.avro").last_offset is None
    assert parse_name("topics/o/partition=0/o+0+0000000400+0000000399.avro") is None


@pytest.mark.parametrize(
    ("extension", "role", "form", "compression"),
    [
        (".json", "value", Format.JSON, None),
        (".json.gz", "value", Format.JSON, "gzip"),
        (".keys.json.gz", "key", Format.JSON, "gzip"),
        (".headers.avro", "headers", Format.AVRO, None),
        (".avro", "value", Format.AVRO, None),
        (".snappy.parquet", "value", Format.PARQUET, None),
        (".keys.zstd.parquet", "key", Format.PARQUET, None),
        (".parquet", "value", Format.PARQUET, None),
        (".bin", "value", Format.BIN, None),
        (".bin.gz", "value", Format.BIN, "gzip"),
        (".001", "value", Format.BIN, None),
        (".keys.dat", "key", Format.BIN, None),
        ("raw", "value", Format.BIN, None),
        ("", "value", Format.BIN, None),
    ],
)
def test_extensions_tell_role_format_and_compression(
    extension: str, role: str, form: Format, compression: str | None
) -> None:
    name = parse(f"topics/o/partition=0/o+0+0000000400{extension}")
    assert (name.role, name.format, name.compression, name.first_offset) == (role, form, compression, 400)
    assert name.group == "topics/o/partition=0/o+0+0000000400"
    assert (name.delimiter, name.in_topic_folder) == ("+", True)


@pytest.mark.parametrize(
    "uri",
    [
        "part-00000-8f0c-c000.snappy.parquet",
        "topics/o/partition=0/o+0.json",
        "topics/o/partition=0/o+00+0000000000.json",
        "topics/o/partition=0/o+0-0000000000.json",
        "topics/o/partition=0/o+0+x.json",
        "topics/o/partition=0/_SUCCESS",
        f"topics/o/partition=0/o+0+{2**63}.json",
        f"topics/o/partition=0/o+{2**31}+0.json",
        "topics/o/partition=0/",
        "",
    ],
)
def test_other_names_tell_nothing(uri: str) -> None:
    assert parse_name(uri) is None


def test_a_tombstone_by_its_folder() -> None:
    gone = parse_name("topics/o/deleted/x/o+0+4.keys.json", "deleted/x")
    assert gone is not None
    assert gone.is_tombstone
    assert not parse("topics/o/deleted/x/o+0+4.keys.json").is_tombstone
    assert parse("topics/o/tombstone/o+0+4.keys.json").is_tombstone
    assert not parse("topics/o/partition=0/o+0+4.keys.json").is_tombstone
    assert not parse("topics/o/tombstone/o+0+4.json").is_tombstone


def test_whether_a_folder_confirms_the_topic() -> None:
    # Aiven's default names have the same shape, without the folder.
    assert not parse("bucket/rich-0-0").in_topic_folder
    assert parse("bucket/rich/partition=0/rich-0-0").in_topic_folder
