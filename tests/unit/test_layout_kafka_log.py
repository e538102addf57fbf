"""Broker log directories: what a real broker left equals its dump, and what is damaged or undecided is not taken in."""

from __future__ import annotations

import base64
import gzip
import json
import struct
import tarfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.record_batch_encoder import (
    ABORT,
    CODECS,
    COMMIT,
    LEADER_CHANGE,
    Record,
    compress,
    encode_batch,
    encode_index,
    encode_marker,
    encode_record,
    encode_varint,
    seal_batch,
    write_segment,
)
from winnow.errors import BadInputError
from winnow.files.record_batch import RECORD_SCHEMA
from winnow.sources.checkpoint_file import read_checkpoint_file
from winnow.sources.kafka_log.files import (
    CLEANER_CHECKPOINT,
    LOG_START_CHECKPOINT,
    FolderState,
    PartitionFolder,
    collect_segments,
    parse_folder_name,
    parse_segment_name,
    parse_segment_path,
    parse_topic_id,
    read_log_start_offsets,
)
from winnow.sources.kafka_log.log import LogSurvey, PartitionLog, read_log, survey_log
from winnow.sources.kafka_log.segments import Tail
from winnow.sources.objects import ReadOptions, StoredObject
from winnow.values.model import TopicPartition

SAMPLES = Path(__file__).parents[1] / "samples" / "archives" / "logdirs"
TOPICS = ("codec-zstd", "compacted", "log-append-time", "txn")
NOW = 1_700_000_000_000


def survey(folder: Path, log_start_offset: int = 0) -> LogSurvey:
    files = [StoredObject(str(file), file.stat().st_size) for file in folder.iterdir()]
    return survey_log(PartitionLog("orders", 0, collect_segments(files), log_start_offset))


def read(
    found: LogSurvey, batch_bytes: int = 1 << 20, first_offset: int = 0, end_offset: int | None = None
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    options = ReadOptions(batch_bytes=batch_bytes)
    for chunk in read_log(found, options, first_offset=first_offset, end_offset=end_offset):
        assert chunk.records.schema == RECORD_SCHEMA
        chunk.records.validate(full=True)
        assert chunk.topics is None
        rows += chunk.records.to_pylist()
    assert [row["row"] for row in rows] == list(range(1, len(rows) + 1))
    return rows


def read_offsets(folder: Path, log_start_offset: int = 0) -> list[int]:
    found = survey(folder, log_start_offset)
    offsets = [row["offset"] for row in read(found)]
    if not log_start_offset:
        assert len(offsets) == found.records
    return offsets


# -- what a broker left


@pytest.fixture(scope="module")
def log_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    with tarfile.open(SAMPLES / "hot.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def read_dump(topic: str, isolation: str = "read_committed") -> list[dict[str, Any]]:
    with gzip.open(SAMPLES / f"{topic}.{isolation}.jsonl.gz") as lines:
        return [json.loads(line) for line in lines]


def write_as_dump(row: dict[str, Any]) -> dict[str, Any]:
    def encode(data: bytes | None) -> str | None:
        return None if data is None else base64.b64encode(data).decode()

    return {
        "partition": row["partition"],
        "offset": row["offset"],
        "timestamp": row["timestamp"],
        "timestampType": ("CreateTime", "LogAppendTime")[row["timestampType"]],
        "key": encode(row["key"]),
        "value": encode(row["value"]),
        "headers": [[header["key"], encode(header["value"])] for header in row["headers"]] or None,
    }


def survey_topic(directory: Path, topic: str) -> Iterator[LogSurvey]:
    starts = read_log_start_offsets(str(directory / LOG_START_CHECKPOINT))
    for folder in sorted(directory.iterdir()):
        named = parse_folder_name(folder.name)
        if named is not None and named.topic == topic:
            segments = collect_segments(StoredObject(str(file), file.stat().st_size) for file in folder.iterdir())
            start = starts.get(TopicPartition(topic, named.partition), 0)
            yield survey_log(PartitionLog(topic, named.partition, segments, start))


@pytest.mark.parametrize("batch_bytes", [1, 5_000, 16 << 20])
@pytest.mark.parametrize("topic", TOPICS)
def test_every_record_equals_what_a_consumer_of_committed_records_sees(
    log_directory: Path, topic: str, batch_bytes: int
) -> None:
    rows = [row for found in survey_topic(log_directory, topic) for row in read(found, batch_bytes)]
    assert [write_as_dump(row) for row in rows] == read_dump(topic)


@pytest.mark.parametrize("topic", TOPICS)
def test_counts_of_headers_are_what_is_read(log_directory: Path, topic: str) -> None:
    for found in survey_topic(log_directory, topic):
        rows = read(found)
        assert found.records == len(rows)
        assert found.maximum_timestamp_ms is not None
        assert found.maximum_timestamp_ms >= max(row["timestamp"] for row in rows)
        assert found.tail.cut_off_bytes == 0


def test_open_transaction_of_a_real_broker_waits(log_directory: Path) -> None:
    surveys = list(survey_topic(log_directory, "txn"))
    assert [each.open_transactions for each in surveys] == [1, 1]
    assert sum(each.waiting_records for each in surveys) == 25
    everything = sum(each.records + each.waiting_records + each.aborted_records for each in surveys)
    assert everything == len(read_dump("txn", "read_uncommitted"))
    assert all(each.last_stable_offset < each.end_offset for each in surveys)


def test_transactions_are_resolved_without_the_index_too(log_directory: Path) -> None:
    for found in survey_topic(log_directory, "txn"):
        bare = tuple(type(each.segment)(each.segment.base_offset, each.segment.log) for each in found.segments)
        again = survey_log(PartitionLog("txn", found.log.partition, bare))
        assert read(again) == read(found)
        assert again.aborted_records == found.aborted_records


def test_checkpoints_of_a_real_broker_are_offered(log_directory: Path) -> None:
    assert read_log_start_offsets(str(log_directory / LOG_START_CHECKPOINT)) == {
        TopicPartition("deleted-records", 0): 307
    }
    entries = read_checkpoint_file(str(log_directory / CLEANER_CHECKPOINT))
    cleaned = {entry.topic_partition: entry.offset for entry in entries}
    assert cleaned[TopicPartition("compacted", 1)] == 1473
    assert TopicPartition("txn", 0) not in cleaned


def test_reading_goes_on_from_an_offset(log_directory: Path) -> None:
    (found, _) = survey_topic(log_directory, "codec-zstd")
    rows = read(found)
    for first in (0, 1, 409, 410, 411, 744, 745):
        later = read(found, first_offset=first)
        assert [row["offset"] for row in later] == [row["offset"] for row in rows if row["offset"] >= first]


@pytest.mark.parametrize("topic", TOPICS)
def test_ranges_of_offsets_make_up_the_log(log_directory: Path, topic: str) -> None:
    for found in survey_topic(log_directory, topic):
        offsets = [row["offset"] for row in read(found)]
        bounds = [0, 1, 17, 150, 288, 289, 500, found.end_offset]
        for size in (2, 5, len(bounds)):
            parts = sorted({*bounds[:size], found.end_offset})
            joined = [
                row["offset"]
                for first, end in pairwise(parts)
                for row in read(found, first_offset=first, end_offset=end)
            ]
            assert joined == offsets


# -- names


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-0", PartitionFolder("orders", 0)),
        ("a.b_c-d-12", PartitionFolder("a.b_c-d", 12)),
        ("orders-7-0", PartitionFolder("orders-7", 0)),
        ("-0", None),
        ("orders", None),
        ("orders-", None),
        ("orders-01", None),
        ("orders-2147483648", None),
        ("or ders-0", None),
        ("..-0", None),
        (f"orders-3.{'0a' * 16}-delete", PartitionFolder("orders", 3, FolderState.DELETED)),
        (f"orders-3.{'0a' * 16}-future", PartitionFolder("orders", 3, FolderState.FUTURE)),
        (f"orders-3.{'0a' * 16}-stray", PartitionFolder("orders", 3, FolderState.STRAY)),
        ("a.b-delete", None),
        (f"{'x' * 249}-0", PartitionFolder("x" * 249, 0)),
        (f"{'x' * 250}-0", None),
    ],
)
def test_folder_name_tells_topic_and_partition(name: str, expected: PartitionFolder | None) -> None:
    assert parse_folder_name(name) == expected


def test_internal_topics_are_recognised() -> None:
    names = ["__consumer_offsets-49", "__transaction_state-0", "__cluster_metadata-0", "__mine-0", "orders-0"]
    folders = [parse_folder_name(name) for name in names]
    assert [each is not None and each.is_internal for each in folders] == [True, True, True, False, False]


def test_segment_name_tells_its_base_offset() -> None:
    assert parse_segment_name(f"{410:020}.log") == 410
    assert parse_segment_name(f"{410:020}.index") is None
    assert parse_segment_name(f"{410:020}.log.deleted") is None
    assert parse_segment_name("410.log") is None
    assert parse_segment_path(f"s3://b/x/or-ders-3/{7:020}.log") == (PartitionFolder("or-ders", 3), 7)
    assert parse_segment_path(f"{7:020}.log") is None


def test_topic_id_is_read() -> None:
    assert parse_topic_id(b"version: 0\ntopic_id: Znr4nIEJQI6JH3Uvt3Cs5Q") == "Znr4nIEJQI6JH3Uvt3Cs5Q"
    assert parse_topic_id(b"version: 0\n") is None


def test_folder_copied_while_segments_are_swapped_is_refused() -> None:
    with pytest.raises(BadInputError, match="replaced segments"):
        collect_segments([StoredObject(f"/x/{0:020}.log.swap", 1)])


def test_segments_that_wait_for_their_removal_are_left_out() -> None:
    names = [f"{9:020}.log", f"{0:020}.log.deleted", f"{0:020}.log", f"{0:020}.log.cleaned", f"{0:020}.timeindex"]
    assert [each.base_offset for each in collect_segments(StoredObject(f"/x/{name}", 1) for name in names)] == [0, 9]


# -- records


def make_records(count: int, first: int = 0) -> list[Record]:
    return [
        Record(
            first + number,
            None if number % 7 == 3 else b"" if number % 7 == 4 else f"key-{number}".encode(),
            None if number % 5 == 2 else b"" if number % 5 == 3 else bytes([number % 256]) * (number % 300),
            NOW + (number * 7919) % 100_000 - 50_000,
            tuple((f"h{index}".encode(), None if index == 1 else b"v" * index) for index in range(number % 4)),
        )
        for number in range(count)
    ]


def expect(records: list[Record]) -> list[dict[str, Any]]:
    return [
        {
            "row": row,
            "partition": 0,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "timestampType": 0,
            "key": record.key,
            "value": record.value,
            "headers": [{"key": key.decode(), "value": value} for key, value in record.headers],
        }
        for row, record in enumerate(records, start=1)
    ]


@pytest.mark.parametrize("batch_bytes", [1, 999, 1 << 20])
@pytest.mark.parametrize("codec", CODECS)
def test_each_codec_gives_the_records_back(tmp_path: Path, codec: str, batch_bytes: int) -> None:
    records = make_records(500)
    parts = [records[start : start + 90] for start in range(0, 500, 90)]
    write_segment(tmp_path, 0, *(encode_batch(part, codec=codec) for part in parts))
    assert read(survey(tmp_path), batch_bytes) == expect(records)


def test_snappy_streams_written_one_after_the_other_are_read(tmp_path: Path) -> None:
    records = make_records(50)
    payload = [encode_record(record, 0, NOW) for record in records]
    framed = compress("snappy", b"".join(payload[:20])) + compress("snappy", b"".join(payload[20:]), block_bytes=100)
    batch = encode_batch(records, base_timestamp=NOW, payload=framed)
    write_segment(tmp_path, 0, seal_batch(0, struct.pack(">h", 2) + batch[23:]))
    assert read(survey(tmp_path)) == expect(records)


@pytest.mark.parametrize("codec", CODECS)
def test_batch_larger_than_a_piece_is_read(tmp_path: Path, codec: str) -> None:
    sizes = [10, 3_000_000, 700_000, 700_000, 0, 1_048_576, 5]
    records = [Record(offset, b"k", bytes([offset]) * size) for offset, size in enumerate(sizes)]
    write_segment(tmp_path, 0, encode_batch(records, codec=codec))
    assert read(survey(tmp_path)) == expect(records)


def test_many_small_records_in_one_batch_come_in_bounded_chunks(tmp_path: Path) -> None:
    records = [Record(offset, None, None, NOW) for offset in range(70_000)]
    write_segment(tmp_path, 0, encode_batch(records, codec="zstd"))
    chunks = list(read_log(survey(tmp_path), ReadOptions()))
    assert sum(chunk.records.num_rows for chunk in chunks) == 70_000
    assert max(chunk.records.num_rows for chunk in chunks) <= 1 << 16


def test_append_time_is_the_time_of_every_record(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, encode_batch(make_records(5), append_time=NOW + 77), encode_batch(make_records(1, 5)))
    rows = read(survey(tmp_path))
    assert [row["timestampType"] for row in rows] == [1] * 5 + [0]
    assert {row["timestamp"] for row in rows[:5]} == {NOW + 77}


def test_delete_horizon_in_place_of_the_first_timestamp_changes_no_timestamp(tmp_path: Path) -> None:
    batch = encode_batch(make_records(9), base_timestamp=NOW + 10**9)
    checked = struct.pack(">h", 1 << 6) + batch[23:]
    write_segment(tmp_path, 0, seal_batch(0, checked))
    assert read(survey(tmp_path)) == expect(make_records(9))


def test_record_without_a_timestamp_has_none(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, encode_batch([Record(0, timestamp=-1)]))
    assert read(survey(tmp_path))[0]["timestamp"] is None
    assert survey(tmp_path).maximum_timestamp_ms is None


def test_many_headers_on_few_records(tmp_path: Path) -> None:
    many = tuple((f"name-{number}".encode(), b"x" * (number % 200)) for number in range(1000))
    records = [Record(0), Record(1, headers=many), Record(2, headers=many[:3])]
    write_segment(tmp_path, 0, encode_batch(records))
    assert read(survey(tmp_path)) == expect(records)


NUMBERS = st.one_of(st.integers(0, 300), st.integers(0, 2**31 - 1))
RECORDS = st.lists(
    st.tuples(
        NUMBERS,
        st.none() | st.binary(max_size=200),
        st.none() | st.binary(max_size=300),
        st.integers(0, 2**52),
        st.lists(st.tuples(st.text(max_size=70), st.none() | st.binary(max_size=70)), max_size=3),
    ),
    min_size=1,
    max_size=40,
    unique_by=lambda each: each[0],
)


@settings(deadline=None, max_examples=60)
@given(RECORDS, st.integers(0, 2**62), st.sampled_from(CODECS))
def test_whatever_is_encoded_is_decoded(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[Any], base: int, codec: str
) -> None:
    records = [
        Record(base + delta, key, value, time, tuple((name.encode(), each) for name, each in headers))
        for delta, key, value, time, headers in sorted(drawn, key=lambda each: each[0])
    ]
    folder = tmp_path_factory.mktemp("any")
    write_segment(folder, base, encode_batch(records, base_offset=base, codec=codec))
    assert read(survey(folder)) == expect(records)


@settings(deadline=None, max_examples=150)
@given(st.binary(max_size=60), st.integers(0, 6))
def test_whatever_stands_in_a_batch_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, payload: bytes, count: int
) -> None:
    """A valid check-sum does not make records valid: a broken client computes it too."""
    folder = tmp_path_factory.mktemp("any")
    write_segment(folder, 0, encode_batch([], payload=payload, count=count, last_offset=10, base_timestamp=0))
    try:
        rows = read(survey(folder))
    except BadInputError:
        return
    assert len(rows) == count


BODY = encode_record(Record(0), 0, NOW)[1:]


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        ((encode_varint(-len(BODY) - 1) + BODY) * 2, "impossible length"),
        (encode_record(Record(1), 0, NOW) + encode_record(Record(9), 0, NOW), "offset outside of the batch"),
        (encode_record(Record(2), 0, NOW) * 2, "not above the one before"),
        (encode_record(Record(0), 0, NOW) + encode_record(Record(1), 0, NOW) + b"\0", "more bytes than records"),
        (encode_record(Record(0), 0, NOW), "fewer records"),
        (encode_record(Record(0), 0, NOW) + encode_record(Record(1, timestamp=-2), 0, NOW), "timestamp"),
        (encode_record(Record(0, headers=((b"\xff", b""),)), 0, NOW) + encode_record(Record(1), 0, NOW), "not UTF-8"),
        ((encode_varint(7) + b"\0\0\0\x01\x01\x02\x01") * 2, "header"),
        ((encode_varint(6) + b"\0\0\0\x01\x01\x01") * 2, "number of headers"),
        ((encode_varint(8) + b"\0\0\0\x01\x01\x00\0\0") * 2, "longer or shorter"),
        ((encode_varint(8) + b"\0\0" + b"\x80" * 6) * 2, "too"),
        ((encode_varint(12) + b"\0\0" + b"\xff" * 4 + b"\x7f" + b"\0" * 5) * 2, "too"),
    ],
)
def test_impossible_record_is_refused(tmp_path: Path, payload: bytes, words: str) -> None:
    write_segment(tmp_path, 0, encode_batch([], payload=payload, count=2, last_offset=5, base_timestamp=NOW))
    with pytest.raises(BadInputError, match=words) as problem:
        read(survey(tmp_path))
    assert f"{0:020}.log" in str(problem.value)
    assert "offset 0" in str(problem.value)


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "none"])
@pytest.mark.parametrize("damage", ["cut off", "replaced", "followed by others"])
def test_payload_that_cannot_be_decompressed_is_refused(tmp_path: Path, codec: str, damage: str) -> None:
    batch = encode_batch(make_records(100), codec=codec)
    checked = batch[21:]
    changed = {
        "cut off": checked[:-7],
        "replaced": checked[:40] + bytes(len(checked) - 40),
        "followed by others": checked + b"\x07\x01\x02",
    }[damage]
    write_segment(tmp_path, 0, seal_batch(0, changed))
    with pytest.raises(BadInputError):
        read(survey(tmp_path))


def test_claim_of_an_enormous_block_is_refused(tmp_path: Path) -> None:
    batch = encode_batch([], payload=b"\xff\xff\xff\xff\x0f" + b"x" * 30, count=1)
    write_segment(tmp_path, 0, seal_batch(0, struct.pack(">h", 2) + batch[23:]))
    with pytest.raises(BadInputError, match="decompressed"):
        read(survey(tmp_path))


# -- transactions


def data(producer: int, first: int, count: int = 2) -> bytes:
    return encode_batch(make_records(count, first), producer_id=producer, is_transactional=producer >= 0)


def test_aborted_transactions_are_left_out_and_committed_ones_read(tmp_path: Path) -> None:
    write_segment(
        tmp_path,
        0,
        data(1, 0),
        data(2, 2),
        data(-1, 4),
        data(1, 6),
        encode_marker(8, ABORT, 1),
        data(1, 9),
        encode_marker(11, COMMIT, 2),
        encode_marker(12, COMMIT, 1),
        encode_marker(13, ABORT, 3),
        data(2, 14),
        encode_marker(16, ABORT, 2),
    )
    assert read_offsets(tmp_path) == [2, 3, 4, 5, 9, 10]
    found = survey(tmp_path)
    assert (found.aborted_records, found.waiting_records, found.control_batches) == (6, 0, 5)
    assert found.last_stable_offset == found.end_offset == 17


def test_batches_outside_of_transactions_of_a_producer_are_read(tmp_path: Path) -> None:
    plain = encode_batch(make_records(2, 2), producer_id=1)
    write_segment(tmp_path, 0, data(1, 0), plain, encode_marker(4, ABORT, 1))
    assert read_offsets(tmp_path) == [2, 3]


def test_transaction_spans_segments(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, data(1, 0), data(-1, 2))
    write_segment(tmp_path, 4, data(1, 4))
    write_segment(tmp_path, 6, encode_marker(6, ABORT, 1), data(-1, 7))
    assert read_offsets(tmp_path) == [2, 3, 7, 8]


def test_nothing_is_read_from_the_first_open_transaction_on(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, data(-1, 0), data(1, 2), data(2, 4), encode_marker(6, COMMIT, 2), data(-1, 7))
    write_segment(tmp_path, 9, data(3, 9), encode_marker(11, ABORT, 3), data(-1, 12))
    found = survey(tmp_path)
    assert [row["offset"] for row in read(found)] == [0, 1]
    assert (found.last_stable_offset, found.end_offset, found.open_transactions) == (2, 14, 1)
    assert (found.records, found.waiting_records, found.aborted_records) == (2, 8, 2)


def test_damage_above_the_last_stable_offset_is_refused_too(tmp_path: Path) -> None:
    file = write_segment(tmp_path, 0, data(-1, 0), data(1, 2), data(-1, 4), data(-1, 6))
    content = bytearray(file.read_bytes())
    content[-len(data(-1, 6)) - 3] ^= 1
    file.write_bytes(content)
    with pytest.raises(BadInputError, match="check-sum"):
        read(survey(tmp_path))


def test_open_transaction_from_before_the_log_start_holds_back_everything(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, data(1, 0), data(-1, 2), data(-1, 4))
    found = survey(tmp_path, log_start_offset=3)
    assert (found.last_stable_offset, read(found)) == (3, [])


def test_index_stands_in_for_a_missing_marker(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, data(1, 0), data(-1, 2), data(-1, 5), index=encode_index([(1, 0, 4)]))
    write_segment(tmp_path, 7, data(1, 7), encode_marker(9, COMMIT, 1))
    assert read_offsets(tmp_path) == [2, 3, 5, 6, 7, 8]
    assert survey(tmp_path).aborted_records == 2


def test_index_that_runs_ahead_of_the_log_decides_nothing(tmp_path: Path) -> None:
    """The segment was copied before its index."""
    write_segment(tmp_path, 0, data(1, 0), data(-1, 2), index=encode_index([(1, 0, 4)]))
    assert (survey(tmp_path).last_stable_offset, survey(tmp_path).waiting_records) == (0, 4)


def test_index_that_contradicts_a_marker_is_refused(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, data(1, 0), encode_marker(2, COMMIT, 1), index=encode_index([(1, 0, 2)]))
    with pytest.raises(BadInputError, match="txnindex"):
        survey(tmp_path)


def test_damaged_index_is_refused_but_for_the_end_of_the_active_one(tmp_path: Path) -> None:
    index = encode_index([(1, 0, 2)])
    write_segment(tmp_path, 0, data(1, 0), encode_marker(2, ABORT, 1), index=index + index[:9])
    assert survey(tmp_path).aborted_records == 2
    write_segment(tmp_path, 3, data(-1, 3))
    with pytest.raises(BadInputError, match="inside of an entry"):
        survey(tmp_path)
    write_segment(tmp_path, 0, data(1, 0), encode_marker(2, ABORT, 1), index=b"\0\1" + index[2:])
    with pytest.raises(BadInputError, match="version 1"):
        survey(tmp_path)


def test_control_batches_outside_of_transactions_mean_nothing(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, data(-1, 0), encode_marker(2, LEADER_CHANGE, -1), data(-1, 3))
    assert read_offsets(tmp_path) == [0, 1, 3, 4]


def test_emptied_control_batch_ends_its_transaction(tmp_path: Path) -> None:
    empty = encode_batch([], base_offset=2, producer_id=1, is_transactional=True, is_control=True)
    write_segment(tmp_path, 0, data(1, 0), empty, data(-1, 3))
    assert read_offsets(tmp_path) == [0, 1, 3, 4]


def test_emptied_batch_of_a_transaction_holds_nothing_back(tmp_path: Path) -> None:
    empty = encode_batch([], base_offset=0, last_offset=5, producer_id=1, is_transactional=True)
    write_segment(tmp_path, 0, empty, data(-1, 6))
    assert read_offsets(tmp_path) == [6, 7]


# -- compacted and shortened logs


def test_gaps_and_batches_whose_first_records_are_gone_are_fine(tmp_path: Path) -> None:
    write_segment(tmp_path, 0)
    write_segment(
        tmp_path,
        100,
        encode_batch([Record(205), Record(207)], base_offset=200, last_offset=210),
        encode_batch([], base_offset=300, last_offset=320, producer_id=4),
        encode_batch([Record(400)], base_offset=390, last_offset=409, codec="lz4"),
    )
    write_segment(tmp_path, 1000)
    assert read_offsets(tmp_path) == [205, 207, 400]
    assert survey(tmp_path).end_offset == 1000


def test_records_below_the_log_start_are_not_there(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, encode_batch(make_records(10)), encode_batch(make_records(10, 10)))
    write_segment(tmp_path, 20, encode_batch(make_records(30, 20), codec="gzip"))
    for start in (0, 1, 9, 10, 15, 20, 33, 50, 90):
        expected = [*expect(make_records(10)), *expect(make_records(10, 10)), *expect(make_records(30, 20))]
        rows = read(survey(tmp_path, log_start_offset=start))
        wanted = [row for row in expected if row["offset"] >= start]
        assert rows == [{**row, "row": number} for number, row in enumerate(wanted, start=1)]


def test_log_without_segments_or_records_is_empty(tmp_path: Path) -> None:
    assert read_offsets(tmp_path) == []
    write_segment(tmp_path, 0)
    assert read_offsets(tmp_path) == []


def test_segments_that_overlap_are_refused(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, encode_batch(make_records(10)))
    write_segment(tmp_path, 5, encode_batch(make_records(10, 5)))
    with pytest.raises(BadInputError, match="segment before it"):
        survey(tmp_path)


def test_offsets_that_go_back_are_refused(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, encode_batch(make_records(3, 3)), encode_batch(make_records(3)), data(-1, 10))
    with pytest.raises(BadInputError, match="below the batch before it"):
        survey(tmp_path)


def test_log_start_checkpoint_that_is_damaged_is_refused(tmp_path: Path) -> None:
    file = tmp_path / LOG_START_CHECKPOINT
    file.write_text("0\n2\norders 0 5\n")
    with pytest.raises(BadInputError, match=LOG_START_CHECKPOINT):
        read_log_start_offsets(str(file))


# -- ends and damage


LAST = encode_batch(make_records(4, 10), codec="none")


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_active_segment_may_end_inside_of_its_last_batch(tmp_path: Path, codec: str) -> None:
    first, last = encode_batch(make_records(10), codec=codec), encode_batch(make_records(4, 10), codec=codec)
    for kept in range(len(last)):
        write_segment(tmp_path, 0, first, last[:kept])
        found = survey(tmp_path)
        # The offset begins with zeros.
        expected = Tail(len(first), 0, kept) if kept <= 7 else Tail(len(first), kept, 0)
        assert found.tail == expected, kept
        assert [row["offset"] for row in read(found)] == list(range(10))
        assert found.end_offset == 10


def test_closed_segment_may_not_end_inside_of_a_batch(tmp_path: Path) -> None:
    write_segment(tmp_path, 14, encode_batch(make_records(1, 14)))
    for kept in range(1, len(LAST)):
        file = write_segment(tmp_path, 0, encode_batch(make_records(10)), LAST[:kept])
        with pytest.raises(BadInputError, match="is cut off") as problem:
            survey(tmp_path)
        assert str(file) in str(problem.value)


def test_active_segment_may_end_in_zeros(tmp_path: Path) -> None:
    first = encode_batch(make_records(10))
    for zeros in (1, 11, 12, 13, 16, 17, 60, 61, 62, 100, 5 << 20):
        write_segment(tmp_path, 0, first, LAST, bytes(zeros))
        found = survey(tmp_path)
        assert found.tail == Tail(len(first) + len(LAST), 0, zeros), zeros
        assert len(read(found)) == 14
    write_segment(tmp_path, 14)
    with pytest.raises(BadInputError, match="zeros"):
        survey(tmp_path)


def test_active_segment_of_zeros_alone_is_empty(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, bytes(4096))
    assert survey(tmp_path).tail == Tail(0, 0, 4096)
    assert read_offsets(tmp_path) == []


def test_batch_that_ends_in_preallocated_zeros_is_cut_off(tmp_path: Path) -> None:
    first = encode_batch(make_records(10))
    last = encode_batch([Record(10, value=b"x" * 500)])
    for kept in (*range(1, 90, 2), *range(90, len(last) - 20, 17)):
        write_segment(tmp_path, 0, first, last[:kept], bytes(3000))
        found = survey(tmp_path)
        assert found.tail.valid_bytes == len(first), kept
        assert found.tail.cut_off_bytes <= kept
        assert [row["offset"] for row in read(found)] == list(range(10)), kept


@pytest.mark.parametrize("codec", CODECS)
def test_flipped_bit_is_refused(tmp_path: Path, codec: str) -> None:
    """Offset and leader epoch are covered by no check-sum."""
    batches = [encode_batch(make_records(5, first), codec=codec) for first in (0, 5, 10)]
    content = b"".join(batches)
    places = [start + at for start in (0, len(batches[0]), len(content) - len(batches[2])) for at in range(61)]
    unchecked = {start + at for start in places[::61] for at in (*range(8), *range(12, 16))}
    for place in [*places, *range(61, len(content), 13)]:
        if place in unchecked:
            continue
        for bit in (0, 3, 7):
            damaged = bytearray(content)
            damaged[place] ^= 1 << bit
            write_segment(tmp_path, 0, bytes(damaged))
            with pytest.raises(BadInputError):
                read(survey(tmp_path))


def test_flipped_bit_of_an_offset_is_refused_where_the_neighbours_show_it(tmp_path: Path) -> None:
    content = b"".join(encode_batch(make_records(5, first)) for first in (0, 5, 10))
    for place, bit in ((0, 7), (0, 6), (4, 1), (7, 3)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << bit
        write_segment(tmp_path, 0, bytes(damaged))
        with pytest.raises(BadInputError):
            read(survey(tmp_path))


def test_damaged_length_does_not_hide_what_follows(tmp_path: Path) -> None:
    """It makes a batch look as if the file ended inside of it."""
    content = bytearray(b"".join(encode_batch(make_records(5, first)) for first in (0, 5, 10)))
    content[8] |= 0x40
    write_segment(tmp_path, 0, bytes(content))
    with pytest.raises(BadInputError, match="cut off"):
        survey(tmp_path)


def old_message(magic: int) -> bytes:
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", NOW) if magic else b"") + struct.pack(">i", -1)
    body += struct.pack(">i", 5) + b"value"
    return struct.pack(">qiI", 0, len(body) + 4, 0xDEADBEEF) + body


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("is_active", [True, False])
def test_older_message_formats_are_refused_with_a_sentence(tmp_path: Path, magic: int, is_active: bool) -> None:
    write_segment(tmp_path, 0, old_message(magic))
    if not is_active:
        write_segment(tmp_path, 1)
    with pytest.raises(BadInputError, match=f"message format {magic}, which brokers before 0.11 wrote"):
        survey(tmp_path)


def test_unknown_message_format_is_refused(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, seal_batch(0, LAST[21:], magic=3))
    with pytest.raises(BadInputError, match="unknown message format 3"):
        survey(tmp_path)


def test_unknown_codec_is_refused(tmp_path: Path) -> None:
    write_segment(tmp_path, 0, seal_batch(0, struct.pack(">h", 5) + LAST[23:]), LAST)
    with pytest.raises(BadInputError, match="codec 5"):
        survey(tmp_path)


def test_errors_show_no_user_bytes(tmp_path: Path) -> None:
    secret = Record(0, b"secret-key", b"secret-value", headers=((b"secret-\xff", b"secret"),))
    write_segment(tmp_path, 0, encode_batch([secret]))
    with pytest.raises(BadInputError) as problem:
        read(survey(tmp_path))
    assert "secret" not in str(problem.value)


def test_growth_after_the_survey_is_left_for_the_next_time(tmp_path: Path) -> None:
    file = write_segment(tmp_path, 0, encode_batch(make_records(10)))
    found = survey(tmp_path)
    with file.open("ab") as more:
        more.write(LAST)
    assert len(read(found)) == 10
    assert len(read(survey(tmp_path))) == 14


def test_log_that_became_shorter_after_the_survey_is_refused(tmp_path: Path) -> None:
    file = write_segment(tmp_path, 0, encode_batch(make_records(10)), LAST)
    found = survey(tmp_path)
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(BadInputError, match="shorter"):
        read(found)
