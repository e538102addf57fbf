"""Archives of real programs, from the door to the log: each gives the records of its topic, but for what it lost."""

from __future__ import annotations

import gzip
import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.record_batch_encoder import Record as Broker
from tests.support.record_batch_encoder import encode_batch, write_segment
from tests.support.sample_archives import SAMPLES, Dump, encode, load_dump, unpack_sample
from tests.support.world import TOPIC, World, build_versions, open_world, record, write_jsonl
from winnow.errors import BadInputError
from winnow.log import reference_chains
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.ingest.open import InputPaths, create_missing_topic
from winnow.pipeline.ingest.request import IngestReport
from winnow.sources.choices import Choices
from winnow.values.model import Record

ALL_FIELDS = ("timestamp", "key", "value", "headers")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with open_world(tmp_path / "home") as opened:
        yield opened


@dataclass(frozen=True)
class Sample:
    """An archive, the dump of its topic, and the fields that equal it."""

    name: str
    topic: str
    dump: str
    equal: tuple[str, ...] = ALL_FIELDS
    layout: str = "aiven"
    records: int | None = None
    path: str = ""
    choices: Choices = Choices()  # noqa: RUF009 - frozen


SAMPLES_THAT_GO_IN = [
    Sample("sinks/aiven-json-bytes", "rich-small", "sinks/rich-small.read_committed"),
    Sample("sinks/aiven-avro-orders", "orders-schema", "sinks/orders-schema.read_committed", ("timestamp", "key")),
    Sample(
        "sinks/aiven-parquet-headers", "rich-small", "sinks/rich-small.read_committed", ("timestamp", "key", "value")
    ),
    Sample("spark/parquet-by-topic.rich-small", "rich-small", "kcat/rich-small.read_committed", layout="spark"),
    Sample(
        "spark/parquet-text-by-date", "orders", "sinks/orders.read_committed", ("timestamp", "key", "value"), "spark"
    ),
    Sample("logdirs/hot", "codec-zstd", "logdirs/codec-zstd.read_committed", layout="kafka-log", path="codec-zstd-*"),
    Sample("logdirs/hot", "compacted", "logdirs/compacted.read_committed", layout="kafka-log", path="compacted-*"),
    Sample(
        "logdirs/hot",
        "log-append-time",
        "logdirs/log-append-time.read_committed",
        layout="kafka-log",
        path="log-append-time-*",
    ),
    Sample("logdirs/hot", "txn", "logdirs/txn.read_committed", layout="kafka-log", path="txn-*"),
]


def unpack(sample: Sample, folder: Path) -> list[str]:
    unpack_sample(sample.name, folder / "archive")
    return [str(folder / sample.path)] if sample.path else [str(folder / "archive")]


def ingest(
    world: World, topic: str, paths: Sequence[str], *, source_topic: str | None = None, **decided: Any
) -> IngestReport:
    """Ingest an archive, creating its topic, which keeps keyless records."""
    choices = Choices(**decided)
    if topic not in world.installation.log.names():
        partitions = create_missing_topic(
            world.installation, topic, InputPaths(paths), {}, layout="auto", choices=choices, source_topic=source_topic
        )
        assert partitions is not None
    return ingest_files(
        world.installation, topic, paths, as_of_ms=world.clock(), choices=choices, source_topic=source_topic
    )


def create_keeping_all(world: World, topic: str, partitions: int) -> None:
    world.installation.log.create(topic, partitions, {"cleanup.policy": "delete", "retention.ms": "-1"})


def as_dumped(records: Sequence[Record]) -> dict[tuple[int, int], dict[str, Any]]:
    """Records as a dump has them."""
    return {
        (each.partition, each.offset): {
            "timestamp": each.timestamp_ms,
            "key": encode(each.key),
            "value": encode(each.value),
            "headers": [(name, encode(value)) for name, value in each.headers or ()],
        }
        for each in records
    }


def differ(found: dict[tuple[int, int], dict[str, Any]], dump: Dump, fields: Sequence[str]) -> Counter[str]:
    """How many records differ in each field."""
    return Counter(name for place, row in found.items() for name in fields if row[name] != dump[place][name])


@pytest.mark.parametrize("sample", SAMPLES_THAT_GO_IN, ids=lambda sample: f"{sample.name}-{sample.topic}")
def test_an_archive_gives_the_records_of_its_topic(world: World, tmp_path: Path, sample: Sample) -> None:
    """But for the fields that its writer lost; ingesting it again reads and changes nothing."""
    unpack_sample(sample.name, tmp_path / "archive")
    paths = [str(tmp_path / "archive" / sample.path)] if sample.path else [str(tmp_path / "archive")]
    dump = load_dump(sample.dump)
    create_keeping_all(world, sample.topic, 1 + max(partition for partition, _ in dump))
    report = ingest(world, sample.topic, paths)
    found = as_dumped(world.read(topic=sample.topic))
    assert report.layout == sample.layout
    assert report.records_appended == len(found)
    assert found.keys() == dump.keys()
    assert not differ(found, dump, sample.equal)
    before = world.head(sample.topic).state
    again = ingest(world, sample.topic, paths)
    assert (again.snapshot_id, again.files) == (None, 0)
    assert world.head(sample.topic).state == before


def test_kcat_output_is_read_bytes_that_are_no_text_included(world: World, tmp_path: Path) -> None:
    path = tmp_path / "dump.json"
    path.write_bytes(gzip.decompress((SAMPLES / "kcat/rich-small.read_uncommitted.kcat-J.gz").read_bytes()))
    create_keeping_all(world, "rich-small", 3)
    assert ingest(world, "rich-small", [str(path)]).layout == "kcat"
    found = as_dumped(world.read(topic="rich-small"))
    dump = load_dump("kcat/rich-small.read_uncommitted")
    assert found.keys() == dump.keys()
    assert not differ(found, dump, ALL_FIELDS)


# ---------------------------------------------------------------- what must be refused


@pytest.mark.parametrize(
    ("name", "topic", "said"),
    [
        ("sinks/aiven-csv-plain", "rich-small", "values hold line ends"),
        ("sinks/aiven-key-template", "orders", "neither it nor the object's name has a partition"),
        ("sinks/confluent-json-keys", "orders", "--tombstones last deletes these keys"),
        ("sinks/confluent-defaults", "orders-live", "a record without a key; 4000 in this call"),
    ],
)
def test_an_archive_that_cannot_tell_is_refused(world: World, tmp_path: Path, name: str, topic: str, said: str) -> None:
    """The sentence says why; nothing lands."""
    unpack_sample(name, tmp_path / "archive")
    world.create(3, topic)
    before = world.head(topic).state
    with pytest.raises(BadInputError, match=said) as refused:
        ingest(world, topic, [str(tmp_path / "archive")])
    assert "Nothing of this call landed" in str(refused.value)
    assert world.head(topic).state == before


def test_an_archive_of_several_topics_names_them(world: World, tmp_path: Path) -> None:
    unpack_sample("logdirs/hot", tmp_path / "archive")
    world.create(2, "txn")
    with pytest.raises(BadInputError, match=r"codec-zstd \(2 objects\), compacted|--source-topic NAME"):
        ingest(world, "txn", [str(tmp_path / "archive")])
    assert ingest(world, "txn", [str(tmp_path / "archive")], source_topic="txn").records_appended == 361
    world.create(2, "mine")
    assert ingest(world, "mine", [str(tmp_path / "archive")], source_topic="compacted").records_appended == 237


def test_an_excluded_object_is_left_out_and_stays_left_out(world: World, tmp_path: Path) -> None:
    """A cut-off object is refused by name; the decision to leave it out is the default of the next call."""
    unpack_sample("sinks/aiven-json-bytes", tmp_path)
    broken = tmp_path / "rich-small-0-0.snappy"
    broken.write_bytes(broken.read_bytes()[:-40])
    create_keeping_all(world, "rich-small", 3)
    with pytest.raises(BadInputError, match=r"rich-small-0-0\.snappy"):
        ingest(world, "rich-small", [str(tmp_path / "*.snappy")])
    done = ingest(world, "rich-small", [str(tmp_path / "*.snappy")], exclude=("rich-small-0-0.snappy",))
    assert done.files == 6
    assert ingest(world, "rich-small", [str(tmp_path / "*.snappy")]).files == 0


# ---------------------------------------------------------------- decisions


def test_tombstones_of_unknown_order_go_where_the_user_says(world: World, tmp_path: Path) -> None:
    """All records are there either way; last deletes a key of unknown order, first keeps its value."""
    unpack_sample("sinks/confluent-json-keys", tmp_path / "archive")
    dump = load_dump("sinks/orders.read_committed")
    latest: dict[str, dict[tuple[int, str | None], bool]] = {}
    for where in ("first", "last"):
        topic = f"orders-{where}"
        ingest(world, topic, [str(tmp_path / "archive")], source_topic="orders", tombstones=where)
        records = world.read(topic=topic)
        assert Counter((each.partition, encode(each.key), each.value is None) for each in records) == Counter(
            (partition, row["key"], row["value"] is None) for (partition, _), row in dump.items()
        )
        latest[where] = {(each.partition, encode(each.key)): each.value is None for each in records}
    truth = {(partition, row["key"]): row["value"] is None for (partition, _), row in sorted(dump.items())}
    for key, is_deleted in truth.items():
        assert is_deleted in (latest["first"][key], latest["last"][key])
        assert latest["last"][key] or not latest["first"][key]
    assert latest["first"] != latest["last"]


def write_csv(path: Path, rows: Sequence[tuple[str, int, str]]) -> None:
    """Aiven's CSV: key, offset, timestamp, value, base64; a tombstone is an empty value."""
    lines = [f"{encode(key.encode())},{offset},1772323200000,{value}" for key, offset, value in rows]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines))


def test_empty_values_of_csv_are_what_the_user_says(world: World, tmp_path: Path) -> None:
    rows = [("ann", 0, "YmVybGlu"), ("bob", 1, "cGFyaXM="), ("ann", 2, "")]
    write_csv(tmp_path / "csv" / "orders-0-0", rows)
    with pytest.raises(BadInputError, match="--empty-values tombstone"):
        ingest(world, TOPIC, [str(tmp_path / "csv")])
    ingest(world, TOPIC, [str(tmp_path / "csv")], empty_values="tombstone")
    assert [each.value for each in world.read()] == [b"berlin", b"paris", None]
    write_csv(tmp_path / "csv" / "orders-0-3", [("bob", 3, ""), ("cleo", 4, "b3Nsbw==")])
    done = ingest(world, TOPIC, [str(tmp_path / "csv")])
    assert (done.files, done.records_appended) == (1, 2)
    assert [each.value for each in world.read()][3:] == [None, b"oslo"]
    assert any("1 empty values" in notice and "tombstones" in notice for notice in done.notices)


def write_envelopes(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Aiven's JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    common = {"timestamp": "2026-03-01T00:00:00.000Z", "headers": []}
    path.write_text("\n".join(json.dumps({**row, **common}) for row in rows))


def test_text_that_may_be_base64_is_refused_until_decided(world: World, tmp_path: Path) -> None:
    """Every value reads as both, so nothing is guessed; a decision holds for the next call too."""
    write_envelopes(tmp_path / "a" / "orders-0-0", [{"key": "ann", "offset": 0, "value": "YWJj"}])
    with pytest.raises(BadInputError, match="--encoding value=base64"):
        ingest(world, TOPIC, [str(tmp_path / "a")])
    ingest(world, TOPIC, [str(tmp_path / "a")], encodings={"value": "text", "key": "text"})
    write_envelopes(tmp_path / "a" / "orders-0-1", [{"key": "anna", "offset": 1, "value": "YmVybGlu"}])
    ingest(world, TOPIC, [str(tmp_path / "a")])
    assert [each.value for each in world.read()] == [b"YWJj", b"YmVybGlu"]


def test_base64_is_told_by_the_whole_call_and_not_by_its_first_records(world: World, tmp_path: Path) -> None:
    """The first object reads as base64, the last is certainly text: then all of them are text."""
    rows = [{"key": "a=", "offset": at, "value": value} for at, value in enumerate(["YmVybGluCg==", "cGFyaXM="])]
    write_envelopes(tmp_path / "a" / "orders-0-0", rows)
    write_envelopes(tmp_path / "a" / "orders-0-2", [{"key": "b!", "offset": 2, "value": "not base64"}])
    ingest(world, TOPIC, [str(tmp_path / "a")])
    assert [each.value for each in world.read()] == [b"YmVybGluCg==", b"cGFyaXM=", b"not base64"]


@pytest.mark.parametrize(
    ("kind", "deleted"),
    [("null-text", "null"), ("debezium", '{"before":{"id":1},"after":null,"op":"d"}')],
)
def test_values_that_stand_for_a_deletion_become_tombstones(
    world: World, tmp_path: Path, kind: str, deleted: str
) -> None:
    kept = '{"before":null,"after":{"note":"\\"op\\":\\"d\\""},"op":"u"}'
    rows = [{"key": "a!", "offset": 0, "value": kept}, {"key": "a!", "offset": 1, "value": deleted}]
    write_envelopes(tmp_path / "a" / "orders-0-0", rows)
    done = ingest(world, TOPIC, [str(tmp_path / "a")], deletes=kind)
    assert [each.value for each in world.read()] == [kept.encode(), None]
    assert any("1 values that stand for a deletion" in notice for notice in done.notices)


def test_unknown_fields_are_said_once_and_left_out(world: World, tmp_path: Path) -> None:
    for first in (0, 5):
        rows = [{"key": "a!", "offset": first, "value": "v!", "region": "eu"}]
        write_envelopes(tmp_path / "a" / f"orders-0-{first}", rows)
    done = ingest(world, TOPIC, [str(tmp_path / "a")])
    assert [notice for notice in done.notices if "region" in notice] == [
        "Fields that are not a Kafka record's were left out: region."
    ]


# ---------------------------------------------------------------- order and repeats


def write_objects(folder: Path, cuts: Sequence[tuple[int, int]], *, changed: int | None = None) -> None:
    """Objects of partition 0 with the offsets of ``cuts``, in reverse order within each."""
    for number, (first, end) in enumerate(cuts):
        rows = [
            {"key": f"k!{at % 7}", "offset": at, "value": f"v!{'other' if number and at == changed else at}"}
            for at in range(first, end)
        ]
        write_envelopes(folder / str(number) / f"orders-0-{first}.json", rows[::-1])


def test_objects_that_overlap_and_are_not_in_order_give_each_record_once(world: World, tmp_path: Path) -> None:
    write_objects(tmp_path / "a", [(40, 90), (0, 50), (45, 60), (85, 100)])
    done = ingest(world, TOPIC, [str(tmp_path / "a")])
    assert (done.records_appended, done.records_skipped) == (100, 30)
    assert [(each.offset, each.value) for each in world.read()] == [(at, f"v!{at}".encode()) for at in range(100)]
    (state,) = world.head().state.partitions.values()
    assert len(state.appends) == 1


def test_two_different_records_with_one_offset_are_refused(world: World, tmp_path: Path) -> None:
    write_objects(tmp_path / "a", [(40, 90), (0, 50)], changed=45)
    with pytest.raises(BadInputError, match=r"partition 0, offset 45\): two different records have the same offset"):
        ingest(world, TOPIC, [str(tmp_path / "a")])
    assert world.read() == []


def test_a_growing_folder_costs_what_is_new(world: World, tmp_path: Path) -> None:
    """Known objects are not opened, even when nothing of them can be read any more."""
    write_objects(tmp_path / "a", [(0, 50)])
    ingest(world, TOPIC, [str(tmp_path / "a")])
    write_objects(tmp_path / "b", [(50, 80)])
    shutil.copy2(tmp_path / "b" / "0" / "orders-0-50.json", tmp_path / "a" / "orders-0-50.json")
    done = ingest(world, TOPIC, [str(tmp_path / "a")])
    assert (done.files, done.records_appended, done.records_skipped) == (1, 30, 0)
    assert any("1 objects were ingested before" in notice for notice in done.notices)


def test_an_object_written_anew_is_read_again_and_its_records_are_known(world: World, tmp_path: Path) -> None:
    """As a sink does that is killed and starts again: the same name, more records."""
    write_objects(tmp_path / "a", [(0, 50)])
    ingest(world, TOPIC, [str(tmp_path / "a")])
    write_objects(tmp_path / "a", [(0, 70)])
    done = ingest(world, TOPIC, [str(tmp_path / "a")])
    assert (done.records_appended, done.records_skipped) == (20, 50)


def test_an_archive_ingested_again_after_a_compaction_changes_nothing(world: World, tmp_path: Path) -> None:
    """Its records are gone from the log, but the ledger knows each object by its content."""
    write_objects(tmp_path / "a", [(0, 60), (30, 90)])
    world.create(1, segment_bytes="2000")
    ingest(world, TOPIC, [str(tmp_path / "a")])
    assert world.compact(as_of_ms=1_772_323_200_000 + 30 * 86_400_000) is not None
    before = world.read()
    assert len(before) < 90
    for path in (tmp_path / "a").rglob("*.json"):
        path.touch()
    again = ingest(world, TOPIC, [str(tmp_path / "a")])
    assert (again.records_appended, again.records_skipped, again.snapshot_id) == (0, 120, None)
    assert world.read() == before


def write_log(folder: Path, records: int, *, topic_id: str = "AAAAAAAAAAAAAAAAAAAAAA") -> None:
    """A broker's log of one partition, 30 records a batch; ``records`` of 7 keys."""
    batches = [
        encode_batch([Broker(at, f"k{at % 7}".encode(), f"v{at}".encode()) for at in range(first, first + 30)])
        for first in range(0, records, 30)
    ]
    write_segment(folder, 0, *batches)
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")


def test_a_broker_s_log_that_grew_goes_on_where_it_ended_even_after_a_compaction(world: World, tmp_path: Path) -> None:
    """Its earlier records are gone from the log here, and are not asked for again."""
    folder = tmp_path / "data" / "orders-0"
    folder.mkdir(parents=True)
    write_log(folder, 90)
    world.create(1, segment_bytes="2000")
    assert ingest(world, TOPIC, [str(tmp_path / "data")]).records_appended == 90
    assert world.compact(as_of_ms=world.clock()) is not None
    compacted = world.read()
    assert len(compacted) < 90
    write_log(folder, 150)
    done = ingest(world, TOPIC, [str(tmp_path / "data")])
    assert (done.records_appended, done.records_skipped) == (60, 0)
    assert world.read()[: len(compacted)] == compacted
    assert [each.offset for each in world.read()[len(compacted) :]] == list(range(90, 150))


def test_own_files_are_read_as_before_whatever_they_are_called(world: World, tmp_path: Path) -> None:
    """A name like a sink's does not make records of Winnow's own layout another layout's."""
    world.create(1)
    path = write_jsonl(tmp_path / "orders-0-0.jsonl", build_versions(0, 5))
    done = ingest_files(world.installation, TOPIC, [path], as_of_ms=world.clock())
    assert (done.layout, done.records_appended) == ("winnow", 5)
    assert world.read() == build_versions(0, 5)
    wrong = write_jsonl(tmp_path / "orders-0-3.jsonl", [replace(record(4, b"x", b"y"))])
    with pytest.raises(BadInputError, match="holds another record at this offset"):
        ingest_files(world.installation, TOPIC, [wrong], as_of_ms=world.clock())


def write_by_status(folder: Path, rows: Sequence[tuple[int, str, str]]) -> None:
    """Confluent's JSON by a field, one object a folder: (first offset, status, key), each one value."""
    for offset, status, key in rows:
        place = folder / "topics" / "orders" / f"status={status}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"orders+0+{offset:010d}.json").write_text(f'{{"status":"{status}","at":{offset}}}\n')
        (place / f"orders+0+{offset:010d}.keys.json").write_text(f'"{key}"\n')


def test_values_of_a_key_in_several_folders_of_one_flush_are_refused(world: World, tmp_path: Path) -> None:
    """Which is the newest is not in the archive; the same keys in folders of their own go in."""
    write_by_status(tmp_path / "split", [(0, "new", "order!1"), (5, "paid", "order!1")])
    with pytest.raises(BadInputError, match="orders-0: 1 keys have values in several folders"):
        ingest(world, TOPIC, [str(tmp_path / "split")])
    write_by_status(tmp_path / "apart", [(0, "new", "order!1"), (5, "paid", "order!2")])
    assert ingest(world, TOPIC, [str(tmp_path / "apart")]).records_appended == 2


def test_what_a_log_holds_back_is_said(world: World, tmp_path: Path) -> None:
    """Records above the last stable offset wait; a batch that is cut off at the end of the log is left out."""
    unpack_sample("logdirs/hot", tmp_path / "archive")
    done = ingest(world, "txn", [str(tmp_path / "archive" / "txn-*")])
    assert sum("open transactions and are not taken" in notice for notice in done.notices) == 2
    folder = tmp_path / "data" / "orders-0"
    folder.mkdir(parents=True)
    write_log(folder, 90)
    (segment,) = folder.glob("*.log")
    segment.write_bytes(segment.read_bytes()[:-20])
    cut = ingest(world, TOPIC, [str(tmp_path / "data")])
    assert cut.records_appended == 60
    assert any("orders-0: the last batch of the active segment is cut off" in notice for notice in cut.notices)


def test_known_objects_are_remembered_over_many_calls(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when references to their ledgers have moved out of the state, between calls of other input."""
    monkeypatch.setattr(reference_chains, "MAXIMUM_LINK_REFERENCES", 2)
    world.create(1)
    for number in range(0, 12, 2):
        write_envelopes(tmp_path / "a" / f"orders-0-{number}", [{"key": "a!", "offset": number, "value": "v!"}])
        assert ingest(world, TOPIC, [str(tmp_path / "a")]).files == 1
        world.ingest(build_versions(number + 1, 1))
    assert world.head().state.older_ingests is not None
    assert ingest(world, TOPIC, [str(tmp_path / "a")]).files == 0


def test_a_topic_without_archives_reads_no_old_ledger(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many ingests it has had: each further one costs the same."""
    monkeypatch.setattr(reference_chains, "MAXIMUM_LINK_REFERENCES", 2)
    world.create(1)
    for number in range(9):
        world.ingest(build_versions(number, 1))
    state = world.head().state
    assert state.older_ingests is not None

    def refuse(*_: object) -> bytes:
        raise AssertionError

    monkeypatch.setattr(reference_chains, "_read_link", refuse)
    assert list(reference_chains.read_ledgers(state, of_archives=True)) == []
