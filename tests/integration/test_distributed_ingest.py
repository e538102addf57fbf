"""An archive that many tasks read gives the log, the report and the refusals of one process."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.in_process_ingest import carry_out_in_process
from tests.support.record_batch_encoder import Record, encode_batch, write_segment
from tests.support.sample_archives import encode, unpack_sample
from tests.support.world import World, build_versions, open_world, run_between_head_and_commit, write_jsonl
from winnow.arrivals.read_range import ObjectReader
from winnow.config.setting_fields import IngestSettings
from winnow.errors import BadInputError, UsageError, WinnowError
from winnow.files import storage
from winnow.log.reference_chains import read_ledgers
from winnow.pipeline.ingest import run_spark
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.ingest.request import IngestReport
from winnow.pipeline.ingest.undo import undo_ingest
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.definition import alter_topic
from winnow.planning import ingest_ranges
from winnow.sources.choices import Choices
from winnow.values.ingest_plans import IngestPlan, IngestResult


@pytest.fixture
def worlds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[World, World]]:
    """Two installations, for one process and for tasks, whose ranges are small."""
    monkeypatch.setattr(run_spark, "submit_ingest_plan", carry_out_in_process)
    monkeypatch.setattr(ingest_ranges, "MINIMUM_RANGE_BYTES", 1)
    with open_world(tmp_path / "local") as local, open_world(tmp_path / "spark") as spark:
        yield local, spark


def ingest(world: World, paths: Sequence[Path], on: str, topic: str, **options: Any) -> IngestReport:
    choices = options.pop("choices", Choices())
    return ingest_files(
        world.installation,
        topic,
        [str(path) for path in paths],
        as_of_ms=world.clock(),
        choices=choices,
        on=on,
        **options,
    )


def describe(report: IngestReport) -> dict[str, Any]:
    """Return a report without what differs from call to call."""
    return {name: each for name, each in asdict(report).items() if name not in {"snapshot_id", "ingest_id"}}


def list_ledgers(world: World, topic: str) -> list[tuple[Any, ...]]:
    return [
        (each.slices, each.layout, each.choices, each.source_topic, each.objects)
        for each in read_ledgers(world.head(topic).state)
    ]


SAMPLES = [
    ("sinks/aiven-json-bytes", "rich-small", Choices()),
    ("sinks/aiven-avro-orders", "orders-schema", Choices()),
    ("sinks/confluent-json-keys", "orders", Choices(tombstones="last")),
    ("spark/parquet-by-topic.rich-small", "rich-small", Choices()),
    ("logdirs/hot", "txn", Choices()),
    ("tiered/local", "tier-ed.7", Choices()),
]


@pytest.mark.parametrize(("sample", "topic", "choices"), SAMPLES, ids=[sample for sample, *_ in SAMPLES])
def test_tasks_give_the_log_the_report_and_the_ledger_of_one_process(
    worlds: tuple[World, World], tmp_path: Path, sample: str, topic: str, choices: Choices
) -> None:
    archive = tmp_path / "archive"
    unpack_sample(sample, archive)
    reports = []
    for world, on in zip(worlds, ("local", "spark"), strict=True):
        world.create(4, topic, cleanup_policy="delete")
        reports.append(describe(ingest(world, [archive], on, topic, source_topic=topic, choices=choices)))
    local, spark = worlds
    assert reports[0]["records_appended"] > 0
    assert reports[1] == reports[0]
    files = {entry.uri for entry in storage.list_files(f"{spark.head(topic).location}/data")}
    assert files == {each.path for number in range(4) for each in spark.segments(number, topic)}
    assert spark.read(topic=topic) == local.read(topic=topic)
    assert list_ledgers(spark, topic) == list_ledgers(local, topic)


def test_what_a_person_said_of_objects_reaches_the_tasks(worlds: tuple[World, World], tmp_path: Path) -> None:
    """The partition of segments outside of their folder, and what null is where the console consumer printed it."""
    for world in worlds:
        world.create(4)
    for base in (0, 2):
        write_segment(tmp_path / "segments", base, encode_batch([Record(base), Record(base + 1)]))
    report = compare(worlds, tmp_path / "segments", choices=Choices(partition=3))
    assert [(each["partition"], each["records_appended"]) for each in report["partitions"]] == [(3, 4)]
    for number in range(2):
        lines = f"Partition:{number}\tOffset:7\tk\tnull\nPartition:{number}\tOffset:8\tk\tv\n"
        (tmp_path / f"{number}.txt").write_text(lines)
    printed = tmp_path / "*.txt"
    report = compare(worlds, printed, choices=Choices(deletes="null-text"), layout="console")
    assert report["records_appended"] == 4
    assert [each.value for each in worlds[1].read() if each.offset == 7] == [None, None]


def write_aiven(folder: Path, offsets: range, partition: int = 0, value: str = "value") -> Path:
    """Write an object as Aiven's sink does, with values of bytes as base64."""
    path = folder / f"orders-{partition}-{offsets[0]}.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        {
            "key": encode(f"key-{offset % 7}\xff".encode("latin-1")),
            "value": encode(f"{value}-{offset}\xff".encode("latin-1")) if offset % 5 else None,
            "offset": offset,
            "timestamp": "2024-01-02T03:04:05.678Z",
            "headers": [{"key": "header", "value": encode(b"\xff")}],
        }
        for offset in offsets
    ]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


def compare(worlds: tuple[World, World], archive: Path, **options: Any) -> dict[str, Any]:
    """Ingest both ways; return the report, which must be the same, as must be the log."""
    reports = [
        describe(ingest(world, [archive], on, "orders", **options))
        for world, on in zip(worlds, ("local", "spark"), strict=True)
    ]
    assert reports[1] == reports[0]
    assert worlds[1].read() == worlds[0].read()
    assert list_ledgers(worlds[1], "orders") == list_ledgers(worlds[0], "orders")
    return reports[1]


def test_repeats_of_a_sink_that_started_again_are_skipped_across_ranges(
    worlds: tuple[World, World], tmp_path: Path
) -> None:
    """Objects reach into the next ones, which names do not tell: it is found out and planned again."""
    for world in worlds:
        world.create(2)
    archive = tmp_path / "archive"
    for start in range(0, 500, 100):
        write_aiven(archive, range(start, start + 150))
        write_aiven(archive, range(start, start + 100), partition=1)
    report = compare(worlds, archive)
    assert (report["records_appended"], report["records_skipped"]) == (550 + 500, 200)
    assert [record.offset for record in worlds[1].read(0)] == list(range(550))


def test_records_that_the_log_has_are_compared_and_skipped(worlds: tuple[World, World], tmp_path: Path) -> None:
    """Below the log end equal records are skipped; the rest is appended."""
    for world in worlds:
        world.create(1)
    write_aiven(tmp_path / "first", range(100))
    compare(worlds, tmp_path / "first")
    write_aiven(tmp_path / "second", range(50, 250))
    report = compare(worlds, tmp_path / "second")
    assert (report["records_appended"], report["records_skipped"]) == (150, 50)
    write_aiven(tmp_path / "third", range(80, 90), value="another")
    refuse(worlds, tmp_path / "third", "holds another record at this offset")


def refuse(worlds: tuple[World, World], archive: Path, message: str, **options: Any) -> None:
    """Both ways refuse ``archive`` with one message, and neither log changes."""
    messages = []
    for world, on in zip(worlds, ("local", "spark"), strict=True):
        before = world.snapshot_ids(), world.read()
        with pytest.raises(BadInputError, match=message) as caught:
            ingest(world, [archive], on, "orders", **options)
        messages.append(str(caught.value))
        assert (world.snapshot_ids(), world.read()) == before
    assert messages[1] == messages[0]


def test_two_different_records_at_one_offset_are_refused(worlds: tuple[World, World], tmp_path: Path) -> None:
    for world in worlds:
        world.create(1)
    write_aiven(tmp_path / "archive" / "a", range(100))
    write_aiven(tmp_path / "archive" / "b", range(60, 160), value="another")
    refuse(worlds, tmp_path / "archive", "two different records have the same offset")
    assert storage.list_files(f"{worlds[1].head().location}/data") == []


def test_text_and_base64_are_decided_over_all_objects(worlds: tuple[World, World], tmp_path: Path) -> None:
    """One value that is no base64 in the last object makes the field text everywhere."""
    for world in worlds:
        world.create(1)
    for start in range(0, 400, 100):
        write_aiven(tmp_path / "archive", range(start, start + 100))
    path = tmp_path / "archive" / "orders-0-400.jsonl"
    line = {"key": "k", "value": "plain text", "offset": 400, "timestamp": "2024-01-02T03:04:05Z", "headers": []}
    path.write_text(json.dumps(line))
    report = compare(worlds, tmp_path / "archive")
    assert report["records_appended"] == 401
    assert worlds[1].read()[-1].value == b"plain text"


def test_text_that_each_object_reads_both_ways_needs_a_decision(worlds: tuple[World, World], tmp_path: Path) -> None:
    """No value shows whether it is base64: nobody guesses."""
    for world in worlds:
        world.create(1)
    (tmp_path / "archive").mkdir()
    for offset in (0, 1):
        line: dict[str, object] = {
            "key": "YWJj",
            "value": "YWJj",
            "offset": offset,
            "timestamp": "2024-01-02T03:04:05Z",
            "headers": [],
        }
        (tmp_path / "archive" / f"orders-0-{offset}.jsonl").write_text(json.dumps(line))
    refuse(worlds, tmp_path / "archive", "may be text or base64")
    assert compare(worlds, tmp_path / "archive", choices=Choices(encodings={"key": "text", "value": "text"}))


def test_compacted_records_are_known_by_their_objects(worlds: tuple[World, World], tmp_path: Path) -> None:
    """An object that was ingested is skipped though its records are gone; one that never was is refused."""
    for world in worlds:
        world.create(1, min_cleanable_dirty_ratio="0")
    for start in range(0, 300, 100):
        write_aiven(tmp_path / "archive", range(start, start + 100))
    compare(worlds, tmp_path / "archive")
    for world in worlds:
        assert world.compact() is not None
        assert len(world.read()) < 300
    shutil.copytree(tmp_path / "archive", tmp_path / "copy")
    assert compare(worlds, tmp_path / "copy")["records_skipped"] == 300
    write_aiven(tmp_path / "other", range(10, 90))
    refuse(worlds, tmp_path / "other", "without this record")
    assert compare(worlds, tmp_path / "other", trust_compacted=True)["records_skipped"] == 80


def test_records_without_a_key_are_refused(worlds: tuple[World, World], tmp_path: Path) -> None:
    for world in worlds:
        world.create(1)
    path = write_aiven(tmp_path / "archive", range(100))
    lines = path.read_text().splitlines()
    lines[40] = json.dumps(json.loads(lines[40]) | {"key": None})
    path.write_text("\n".join(lines))
    refuse(worlds, tmp_path / "archive", "a record without a key; 1 in this call")


def test_footers_tell_the_offsets_of_parquet_objects(
    worlds: tuple[World, World], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are not read twice."""
    archive = tmp_path / "archive"
    unpack_sample("spark/parquet-by-topic.rich-small", archive)
    read: list[int] = []
    genuine = ObjectReader.read

    def note(reader: ObjectReader, number: int) -> Iterator[pa.RecordBatch]:
        read.append(number)
        return genuine(reader, number)

    monkeypatch.setattr(ObjectReader, "read", note)
    world = worlds[1]
    world.create(3, "rich-small", cleanup_policy="delete")
    assert ingest(world, [archive], "spark", "rich-small").records_appended > 0
    assert sorted(read) == [0, 1, 2]


def test_an_ingest_by_tasks_can_be_undone(worlds: tuple[World, World], tmp_path: Path) -> None:
    """Its segments are deeper in the call's folder than those of one process."""
    world = worlds[1]
    world.create(1)
    write_aiven(tmp_path / "archive", range(100))
    report = ingest(world, [tmp_path / "archive"], "spark", "orders")
    assert report.ingest_id is not None
    undo_ingest(world.installation, "orders", report.ingest_id)
    assert world.read() == []


def test_a_topic_that_began_again_is_refused_with_the_reason(worlds: tuple[World, World], tmp_path: Path) -> None:
    """Smaller offsets with later times and other bytes."""
    for world in worlds:
        world.create(1)
    write_aiven(tmp_path / "first", range(100))
    compare(worlds, tmp_path / "first")
    path = write_aiven(tmp_path / "second", range(60), value="another")
    path.write_text(path.read_text().replace("2024-01-02", "2025-01-02"))
    refuse(worlds, tmp_path / "second", "the topic was deleted and created again")


def test_another_ingest_meanwhile_makes_it_plan_again(worlds: tuple[World, World], tmp_path: Path) -> None:
    """The log end has moved before the commit: nothing lands twice."""
    world = worlds[1]
    world.create(1)
    archive = tmp_path / "archive"
    write_aiven(archive, range(100))
    with run_between_head_and_commit(lambda: ingest(world, [archive], "local", "orders")):
        report = ingest(world, [archive], "spark", "orders")
    assert (report.records_appended, report.records_skipped) == (0, 100)
    assert [each.offset for each in world.read()] == list(range(100))
    assert len(storage.list_files(f"{world.head().location}/data")) == len(world.segments())


def test_a_compaction_meanwhile_does_not_matter_to_records_above_the_log_end(
    worlds: tuple[World, World], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was compared with the log, so hours of reading are not for nothing."""
    world = worlds[1]
    world.create(1, min_cleanable_dirty_ratio="0")
    write_aiven(tmp_path / "first", range(100))
    write_aiven(tmp_path / "second", range(100, 200))
    ingest(world, [tmp_path / "first"], "spark", "orders")
    plans: list[IngestPlan] = []

    def submit(installation: Installation, plan: IngestPlan, progress: Any, _: bytes | None) -> IngestResult:
        plans.append(plan)
        return carry_out_in_process(installation, plan, progress)

    monkeypatch.setattr(run_spark, "submit_ingest_plan", submit)
    with run_between_head_and_commit(world.compact):
        report = ingest(world, [tmp_path / "second"], "spark", "orders")
    assert (report.records_appended, len(plans)) == (100, 1)
    assert world.state().first_dirty_offset == 100
    assert [each.offset for each in world.read() if each.offset >= 100] == list(range(100, 200))


def lose_a_range(result: IngestResult) -> IngestResult:
    return replace(result, ranges=result.ranges[1:])


def lose_a_record(result: IngestResult) -> IngestResult:
    first, *others = result.ranges
    return replace(result, ranges=(replace(first, records=first.records + 1), *others))


def name_a_foreign_file(result: IngestResult) -> IngestResult:
    first, *others = result.ranges
    segment = replace(first.segments[0], path=first.segments[0].path.replace("/app-1/", "/app-2/"))
    return replace(result, ranges=(replace(first, segments=(segment,)), *others))


def move_a_segment(result: IngestResult) -> IngestResult:
    first, *others = result.ranges
    segment = replace(first.segments[0], last_offset=first.segments[0].last_offset + 100)
    return replace(result, ranges=(replace(first, segments=(segment,)), *others))


def forget_an_object(result: IngestResult) -> IngestResult:
    first, *others = result.ranges
    return replace(result, ranges=(replace(first, findings=replace(first.findings, objects=())), *others))


def enlarge_a_segment(result: IngestResult) -> IngestResult:
    first, *others = result.ranges
    segment = replace(first.segments[0], size_bytes=first.segments[0].size_bytes + 1)
    return replace(result, ranges=(replace(first, segments=(segment,)), *others))


FORGERIES = [
    lose_a_range,
    lose_a_record,
    name_a_foreign_file,
    move_a_segment,
    forget_an_object,
    enlarge_a_segment,
]


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_a_result_that_is_not_of_its_plan_is_refused(
    worlds: tuple[World, World],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    forge: Callable[[IngestResult], IngestResult],
) -> None:
    world = worlds[1]
    world.create(1)
    for start in (0, 100):
        write_aiven(tmp_path / "archive", range(start, start + 100))

    def submit(installation: Installation, plan: IngestPlan, progress: Any, _: bytes | None) -> IngestResult:
        return forge(carry_out_in_process(installation, plan, progress))

    monkeypatch.setattr(run_spark, "submit_ingest_plan", submit)
    with pytest.raises(WinnowError, match="Nothing of this call landed"):
        ingest(world, [tmp_path / "archive"], "spark", "orders")
    assert world.read() == []


def test_what_only_one_process_can_ingest_says_why(worlds: tuple[World, World], tmp_path: Path) -> None:
    """Forced, it is refused; otherwise it is read here."""
    world = worlds[1]
    world.create(1)
    path = write_jsonl(tmp_path / "records.jsonl", build_versions(0, 3))
    with pytest.raises(UsageError, match="files of Winnow's own layout are read in the order given"):
        ingest(world, [Path(path)], "spark", "orders")
    settings = world.installation.settings.model_copy(
        update={"ingest": IngestSettings.model_construct(spark_from_bytes=1)}
    )
    large = replace(world.installation, settings=settings)
    alter_topic(world.installation, "orders", {"winnow.keyless": "quarantine"}, ())
    write_aiven(tmp_path / "archive", range(10))
    report = ingest_files(large, "orders", [str(tmp_path / "archive")], as_of_ms=world.clock())
    assert report.records_appended == 10
    assert any("not on Spark, because records without a key go to the quarantine" in each for each in report.notices)
