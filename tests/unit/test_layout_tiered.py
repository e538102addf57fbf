"""Segments outside of a broker's folder: in tiered storage, and alone with a partition that a person says."""

from __future__ import annotations

import base64
import gzip
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.record_batch_encoder import (
    ABORT,
    COMMIT,
    Record,
    encode_batch,
    encode_index,
    encode_marker,
    write_segment,
)
from winnow.arrivals.plan import plan_object, restore_object
from winnow.errors import BadInputError
from winnow.files.record_batch import RECORD_SCHEMA
from winnow.sources.archive import open_archive
from winnow.sources.inspection import inspect_archive
from winnow.sources.kafka_log.files import read_topic_ids
from winnow.sources.objects import ReadOptions

SAMPLES = Path(__file__).parents[1] / "samples" / "archives" / "logdirs"
TOPIC_ID = "MWJ6FHTfRYy67jzwZdeqSQ"
OTHER_ID = "_-5fEBmixCR5-dMntYSLI7"
SEGMENT_ID = "tqimKeZwStOEOwRzT3L5o{}"
CHUNK_BYTES = 4096
Writer = Callable[..., Path]


def write_kafka_s(root: Path, log: Path, topic: str, partition: int, base_offset: int, number: int) -> Path:
    """As Kafka's LocalTieredStorage: offsets are not padded."""
    folder = root / f"{topic}-{partition}-{TOPIC_ID}"
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{base_offset}-{SEGMENT_ID.format(number % 10)}"
    (folder / f"{stem}.log").write_bytes(log.read_bytes())
    (folder / f"{stem}.leader_epoch_checkpoint").write_bytes(b"0\n1\n0 0\n")
    index = log.with_suffix(".txnindex")
    if index.exists():
        (folder / f"{stem}.txnindex").write_bytes(index.read_bytes())
    return folder / f"{stem}.log"


def write_aiven_s(
    root: Path,
    log: Path,
    topic: str,
    partition: int,
    base_offset: int,
    number: int,
    *,
    compresses: bool = False,
    **others: Any,
) -> Path:
    """As Aiven's plug-in, by its source: the indexes one behind the other, and a manifest of version 1."""
    folder = root / f"{topic}-{TOPIC_ID}" / str(partition)
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{base_offset:020}-{SEGMENT_ID.format(number % 10)}"
    data = log.read_bytes()
    chunks = [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]
    wrapped = [pa.Codec("zstd").compress(chunk, asbytes=True) if compresses else chunk for chunk in chunks]
    (folder / f"{stem}.log").write_bytes(b"".join(wrapped))
    index = log.with_suffix(".txnindex")
    aborted = index.read_bytes() if index.exists() else b""
    (folder / f"{stem}.indexes").write_bytes(b"\x01" * 40 + aborted)
    parts = {name: {"position": 10 * at, "size": 10} for at, name in enumerate(("offset", "timestamp"))}
    parts |= {
        name: {"position": 20 + 10 * at, "size": 10} for at, name in enumerate(("producerSnapshot", "leaderEpoch"))
    }
    manifest = {
        "version": "1",
        "chunkIndex": {
            "type": "variable",
            "originalChunkSize": CHUNK_BYTES,
            "originalFileSize": len(data),
            "transformedChunks": "AAAAAgAAACgBAAAAAA==",
        },
        "segmentIndexes": {**parts, "transaction": {"position": 40, "size": len(aborted)} if aborted else None},
        "compression": compresses,
        "remoteLogSegmentMetadata": {
            "remoteLogSegmentId": {
                "topicIdPartition": {
                    "topicId": TOPIC_ID,
                    "topicPartition": {"topic": topic, "partition": partition},
                },
                "id": SEGMENT_ID.format(number % 10),
            },
            "startOffset": base_offset,
            "endOffset": base_offset + 1,
            "maxTimestampMs": 1,
            "brokerId": 1,
            "eventTimestampMs": 1,
            "segmentLeaderEpochs": {"0": 0},
        },
    }
    (folder / f"{stem}.rsm-manifest").write_text(json.dumps(manifest | others))
    return folder / f"{stem}.log"


def write_compressed(*arguments: Any) -> Path:
    return write_aiven_s(*arguments, compresses=True)


WRITERS = pytest.mark.parametrize("write", [write_kafka_s, write_aiven_s, write_compressed])


def make_log(folder: Path, *counts: int) -> list[Path]:
    """Segments whose records have the offsets from 0 on, so many each."""
    logs, base = [], 0
    for count in counts:
        records = [Record(base + at, b"k%d" % (base + at)) for at in range(count)]
        logs.append(write_segment(folder, base, encode_batch(records)))
        base += count
    return logs


def read(paths: list[str], **options: Any) -> list[dict[str, Any]]:
    """Read everything, the objects as a task on Spark gets them."""
    archive = open_archive(paths, **options)
    rows: list[dict[str, Any]] = []
    for number, each in enumerate(archive.objects):
        for chunk in archive.layout.read(restore_object(each.layout, plan_object(number, each)), ReadOptions()):
            assert chunk.records.schema == RECORD_SCHEMA
            rows += chunk.records.to_pylist()
    return rows


def list_offsets(paths: list[str], **options: Any) -> list[int]:
    return [row["offset"] for row in read(paths, **options)]


def decode(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


@WRITERS
@pytest.mark.parametrize("topic", ["codec-zstd", "txn", "log-append-time"])
def test_segments_of_a_real_broker_give_what_a_consumer_sees(write: Writer, topic: str, tmp_path: Path) -> None:
    with tarfile.open(SAMPLES / "hot.tar.xz") as archive:
        archive.extractall(tmp_path / "broker", filter="data")
    for folder in sorted((tmp_path / "broker").glob(f"**/{topic}-[0-9]")):
        for number, log in enumerate(sorted(folder.glob("*.log"))):
            write(tmp_path / "remote", log, topic, int(folder.name[-1]), int(log.stem), number)
    archive_ = open_archive([str(tmp_path / "remote")])
    assert (archive_.layout.name, archive_.topics) == ("kafka-log", (topic,))
    assert set(read_topic_ids(archive_.stored, archive_.objects).values()) == {TOPIC_ID}
    with gzip.open(SAMPLES / f"{topic}.read_committed.jsonl.gz") as lines:
        expected = [json.loads(line) for line in lines]
    found = read([str(tmp_path / "remote")])
    fields = ("partition", "offset", "timestamp")
    assert [[row[name] for name in fields] for row in found] == [[row[name] for name in fields] for row in expected]
    assert [row["key"] for row in found] == [decode(row["key"]) for row in expected]
    assert [row["value"] for row in found] == [decode(row["value"]) for row in expected]


def test_what_a_real_broker_put_into_tiered_storage_equals_what_a_consumer_sees(tmp_path: Path) -> None:
    """Kafka 4.3.1's own LocalTieredStorage; a transaction goes over the end of each partition's last segment."""
    samples = SAMPLES.parent / "tiered"
    with tarfile.open(samples / "local.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    with gzip.open(samples / "local.read_committed.jsonl.gz") as lines:
        everything = [json.loads(line) for line in lines]
    # The producer's own record of its transactions says where the open one of each partition begins.
    begun = {0: 576, 1: 591}
    expected = [row for row in everything if row["offset"] < begun[row["partition"]]]
    found = read([str(tmp_path)])
    assert len(found) == len(expected) == 890
    for row, wanted in zip(found, expected, strict=True):
        headers = [[each["key"], each["value"]] for each in row["headers"]]
        assert headers == [[name, decode(value)] for name, value in wanted["headers"] or []]
        assert [row[name] for name in ("partition", "offset", "timestamp")] == [
            wanted[name] for name in ("partition", "offset", "timestamp")
        ]
        assert (row["key"], row["value"]) == (decode(wanted["key"]), decode(wanted["value"]))


@WRITERS
def test_an_index_of_aborted_transactions_has_to_agree_with_the_markers(write: Writer, tmp_path: Path) -> None:
    records = encode_batch([Record(0), Record(1)], producer_id=7, is_transactional=True)
    plain = encode_batch([Record(3)])
    for kind, said in ((ABORT, [3]), (COMMIT, None)):
        marker = encode_marker(2, kind, 7)
        log = write_segment(tmp_path / "local", 0, records, marker, plain, index=encode_index([(7, 0, 2)]))
        write(tmp_path / f"remote-{kind}", log, "orders", 0, 0, 1)
        if said is not None:
            assert list_offsets([str(tmp_path / f"remote-{kind}")]) == said
            continue
        with pytest.raises(BadInputError, match=r"commits a transaction that the \.txnindex beside"):
            read([str(tmp_path / f"remote-{kind}")])


@WRITERS
def test_an_offset_that_does_not_follow_is_refused_in_tiered_storage(write: Writer, tmp_path: Path) -> None:
    """No check-sum covers the offset of a batch: a flipped bit of it would move records."""
    first, second = encode_batch([Record(0), Record(1)]), encode_batch([Record(2)])
    for number, batches in enumerate(((first, b"\0\0\0\0\0\0\0\x12" + second[8:]), (b"\0" * 7 + b"\4" + first[8:],))):
        log = write_segment(tmp_path / "local", 0, *batches)
        write(tmp_path / str(number), log, "orders", 0, 0, 1)
        with pytest.raises(BadInputError, match=r"should begin at offset [20]: .*there are no gaps"):
            read([str(tmp_path / str(number))])


@WRITERS
def test_a_tiered_segment_without_records_is_refused(write: Writer, tmp_path: Path) -> None:
    first, last = make_log(tmp_path / "local", 2, 2)
    last.write_bytes(b"")
    for number, log in enumerate((first, last)):
        write(tmp_path / "remote", log, "orders", 0, int(log.stem), number)
    with pytest.raises(BadInputError, match="it has no records"):
        read([str(tmp_path / "remote")])


@WRITERS
def test_a_tiered_segment_that_is_cut_off_is_refused_though_it_is_the_last(write: Writer, tmp_path: Path) -> None:
    first, last = make_log(tmp_path / "local", 2, 2)
    last.write_bytes(last.read_bytes()[:-3])
    for number, log in enumerate((first, last)):
        write(tmp_path / "remote", log, "orders", 0, int(log.stem), number)
    with pytest.raises(BadInputError, match="is cut off"):
        read([str(tmp_path / "remote")])


@WRITERS
def test_a_tiered_segment_that_is_missing_is_refused(write: Writer, tmp_path: Path) -> None:
    for number, log in enumerate(make_log(tmp_path / "local", 2, 3, 2)):
        if number != 1:
            write(tmp_path / "remote", log, "orders", 0, int(log.stem), number)
    with pytest.raises(BadInputError, match="no segment has the offsets from 2 to 4"):
        read([str(tmp_path / "remote")])


@WRITERS
def test_two_copies_of_a_tiered_segment_are_refused(write: Writer, tmp_path: Path) -> None:
    (log,) = make_log(tmp_path / "local", 2)
    for number in (1, 2):
        write(tmp_path / "remote", log, "orders", 0, 0, number)
    with pytest.raises(BadInputError, match="another segment begins at offset 0 too"):
        read([str(tmp_path / "remote")])
    left = SEGMENT_ID.format(1)
    assert list_offsets([str(tmp_path / "remote")], exclude=[f"*{left}*"]) == [0, 1]


def test_ids_with_dashes_and_numbers_in_names_are_told_apart(tmp_path: Path) -> None:
    (log,) = make_log(tmp_path / "local", 1)
    moved = write_kafka_s(tmp_path / "remote", log, "a-1", 3, 0, 0)
    moved.parent.rename(tmp_path / "remote" / f"a-1-3-{OTHER_ID[:-2]}-7")
    (obj,) = open_archive([str(tmp_path / "remote")]).objects
    assert (obj.topic, obj.partition) == ("a-1", 3)


def test_a_prefix_before_the_topic_is_not_part_of_it(tmp_path: Path) -> None:
    (log,) = make_log(tmp_path / "local", 1)
    write_aiven_s(tmp_path / "remote", log, "orders", 2, 0, 0)
    (tmp_path / "remote" / f"orders-{TOPIC_ID}").rename(tmp_path / "remote" / f"tiered-orders-{TOPIC_ID}")
    (obj,) = open_archive([str(tmp_path / "remote")]).objects
    assert (obj.topic, obj.partition) == ("orders", 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"encryption": {"dataKey": "k:YQ==", "aad": "YQ=="}}, "it is encrypted, and the key lies with the brokers"),
        ({"version": "2"}, "only version 1 is known"),
        ({"compression": True}, "it holds .* bytes of a segment"),
        ({"chunkIndex": {"originalFileSize": 5}}, "its manifest says 5"),
        ({"chunkIndex": {}}, "no manifest of a tiered segment"),
    ],
)
def test_what_a_manifest_says_is_held_against_the_object(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    (log,) = make_log(tmp_path / "local", 3)
    write_aiven_s(tmp_path / "remote", log, "orders", 0, 0, 0, **change)
    if "compression" in change:
        (data,) = (tmp_path / "remote").rglob("*.log")
        data.write_bytes(pa.Codec("zstd").compress(log.read_bytes()[:-70], asbytes=True))
    with pytest.raises(BadInputError, match=said):
        read([str(tmp_path / "remote")])


@pytest.mark.parametrize("name", [f"other-{TOPIC_ID}/0", f"orders-{OTHER_ID}/0", f"orders-{TOPIC_ID}/1"])
def test_a_manifest_that_contradicts_the_path_is_refused(name: str, tmp_path: Path) -> None:
    (log,) = make_log(tmp_path / "local", 1)
    write_aiven_s(tmp_path / "remote", log, "orders", 0, 0, 0)
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / "remote" / f"orders-{TOPIC_ID}" / "0").rename(tmp_path / name)
    with pytest.raises(BadInputError, match="its name says otherwise"):
        open_archive([str((tmp_path / name).parent)])


def test_a_segment_without_its_manifest_is_refused(tmp_path: Path) -> None:
    (log,) = make_log(tmp_path / "local", 1)
    write_aiven_s(tmp_path / "remote", log, "orders", 0, 0, 0).with_suffix(".rsm-manifest").unlink()
    with pytest.raises(BadInputError, match=r"its manifest \(\.rsm-manifest\) is not there"):
        open_archive([str(tmp_path / "remote")])


def test_a_partition_in_both_tiers_or_of_two_topics_is_refused(tmp_path: Path) -> None:
    (log,) = make_log(tmp_path / "broker" / "orders-0", 1)
    moved = write_kafka_s(tmp_path / "remote", log, "orders", 0, 0, 0)
    with pytest.raises(BadInputError, match="orders-0 is there in tiered storage too"):
        open_archive([str(tmp_path)])
    other = tmp_path / "remote" / f"orders-0-{OTHER_ID}"
    other.mkdir()
    (other / moved.name).write_bytes(moved.read_bytes())
    with pytest.raises(BadInputError, match="orders-0 is there twice"):
        open_archive([str(tmp_path / "remote")])


def test_a_segment_alone_needs_its_partition_from_a_person(tmp_path: Path) -> None:
    make_log(tmp_path / "copied", 2, 3)
    with pytest.raises(BadInputError, match=r"layout kafka-log.*Say it with --partition N"):
        open_archive([str(tmp_path)])
    found = read([str(tmp_path)], partition=4)
    assert [(row["partition"], row["offset"]) for row in found] == [(4, at) for at in range(5)]
    archive = open_archive([str(tmp_path)], partition=4)
    inspected = inspect_archive(archive, ["copied/"], full=True, options=["--partition", "4"], progress=None)
    assert inspected.command == "winnow ingest files TOPIC copied/ --create --partition 4"
    assert [(each.partition, each.first_offset, each.last_offset) for each in inspected.partitions] == [(4, 0, 4)]


def test_a_segment_alone_is_whole_and_its_offsets_are_those_of_its_name_or_above(tmp_path: Path) -> None:
    first, last = make_log(tmp_path, 2, 3)
    sound = last.read_bytes()
    last.write_bytes(sound[:-3])
    with pytest.raises(BadInputError, match="is cut off"):
        read([str(last)], partition=0)
    first.unlink()
    last.write_bytes(sound)
    renamed = last.rename(last.with_name("00000000000000000003.log"))
    with pytest.raises(BadInputError, match="does not begin with a record batch of its offset"):
        open_archive([str(renamed)], partition=0)
    with pytest.raises(BadInputError, match="has an offset below the batch before it or its segment's name"):
        read([str(renamed)], partition=0, layout="kafka-log")


def test_a_segment_alone_begins_at_the_offset_of_its_name_and_has_records(tmp_path: Path) -> None:
    first, last = make_log(tmp_path, 2, 3)
    last.rename(tmp_path / "00000000000000000001.log")
    first.unlink()
    with pytest.raises(BadInputError, match=r"should begin at offset 1, by the segment's name; .* in its folder"):
        read([str(tmp_path)], partition=0)
    (tmp_path / "00000000000000000005.log").write_bytes(b"")
    (tmp_path / "00000000000000000001.log").rename(last)
    with pytest.raises(BadInputError, match="it has no records"):
        read([str(tmp_path)], partition=0)


def test_segments_of_two_partitions_are_not_taken_as_one(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        make_log(tmp_path / folder, 2)
    with pytest.raises(
        BadInputError, match=r"another segment begins at offset 0 too.*files of one partition at a time"
    ):
        open_archive([str(tmp_path)], partition=0)


def test_a_segment_alone_beside_folders_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    make_log(tmp_path / "orders-0", 2)
    make_log(tmp_path / "copied", 2)
    with pytest.raises(BadInputError, match=r"copied.*Say it with --partition N"):
        open_archive([str(tmp_path)])
    assert list_offsets([str(tmp_path)], exclude=["copied/*"]) == [0, 1]


def test_an_open_transaction_at_the_end_of_a_tier_waits(tmp_path: Path) -> None:
    opened = encode_batch([Record(2), Record(3)], producer_id=7, is_transactional=True)
    log = write_segment(tmp_path / "local", 0, encode_batch([Record(0), Record(1)]), opened)
    write_kafka_s(tmp_path / "remote", log, "orders", 0, 0, 0)
    assert list_offsets([str(tmp_path / "remote")]) == [0, 1]
    after = write_segment(tmp_path / "local", 4, encode_marker(4, ABORT, 7), encode_batch([Record(5)]))
    write_kafka_s(tmp_path / "remote", after, "orders", 0, 4, 1)
    assert list_offsets([str(tmp_path / "remote")]) == [0, 1, 5]
