"""Records of one topic never land in the log of another by accident: refused, or left out because somebody said so."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.cli_runner import b64, winnow
from tests.support.world import (
    TOPIC,
    World,
    build_versions,
    compute_survivors,
    define_world,
    json_line,
    record,
)
from winnow.errors import BadInputError, UsageError
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.ingest.request import IngestReport
from winnow.values.model import Record

Named = tuple[Record, str | None]
"""A record and the topic that it names."""
Write = Callable[[Path, Sequence[Named]], str]

ODD = "user-4711@example.com says: \x1b[31mhello"
"""What a field called topic may hold, and no message may show."""


world = define_world(2, min_cleanable_dirty_ratio="0.01", segment_bytes="2000")


def as_lines(path: Path, records: Sequence[Named]) -> str:
    """JSON lines; where a record names no topic the field is null in one line and absent in the next."""
    lines = []
    for number, (each, name) in enumerate(records):
        fields = json.loads(json_line(each))
        if name is not None or number % 2:
            fields["topic"] = name
        lines.append(json.dumps(fields) + "\n")
    target = path.with_suffix(".jsonl")
    target.write_text("".join(lines))
    return str(target)


def table_of(records: Sequence[Named]) -> pa.Table:
    """The columns of Spark's Kafka source."""
    found = [each for each, _ in records]
    return pa.table(
        {
            "topic": pa.array([name for _, name in records], pa.string()),
            "partition": pa.array([each.partition for each in found], pa.int32()),
            "offset": pa.array([each.offset for each in found], pa.int64()),
            "timestamp": pa.array([each.timestamp_ms for each in found], pa.int64()),
            "timestampType": pa.array([each.timestamp_type for each in found], pa.int32()),
            "key": pa.array([each.key for each in found], pa.binary()),
            "value": pa.array([each.value for each in found], pa.binary()),
        }
    )


def as_parquet(path: Path, records: Sequence[Named]) -> str:
    """Parquet as most writers leave it: topics in a dictionary, several row groups."""
    target = path.with_suffix(".parquet")
    pq.write_table(table_of(records), target, row_group_size=7)
    return str(target)


def as_plain_parquet(path: Path, records: Sequence[Named]) -> str:
    """Parquet with topics as bytes in a delta encoding, which cannot be read as a dictionary."""
    target = path.with_suffix(".parquet")
    table = table_of(records)
    table = table.set_column(0, "topic", table.column("topic").cast(pa.binary()))
    pq.write_table(table, target, use_dictionary=False, column_encoding={"topic": "DELTA_BYTE_ARRAY"})
    return str(target)


FORMATS = [as_lines, as_parquet, as_plain_parquet]


def named(records: Sequence[Record], topic: str | None) -> list[Named]:
    return [(each, topic) for each in records]


def in_turns(*several: Sequence[Named]) -> list[Named]:
    """Records of several topics as a dump of a broker interleaves them."""
    return [each for group in zip(*several, strict=True) for each in group]


def take(world: World, *paths: str, source_topic: str | None = None, topic: str = TOPIC) -> IngestReport:
    return ingest_files(world.installation, topic, paths, as_of_ms=world.clock(), source_topic=source_topic)


def refusal(world: World, *paths: str, source_topic: str | None = None) -> str:
    """The sentence with which a call is refused, having left nothing."""
    before, head = world.listing(), world.head()
    with pytest.raises(BadInputError) as refused:
        take(world, *paths, source_topic=source_topic)
    assert refused.value.exit_code == 3
    assert (world.head().state, world.listing()) == (head.state, before)
    assert "Nothing of this call landed." in str(refused.value)
    return str(refused.value)


# ------------------------------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize("write", FORMATS)
def test_two_topics_in_one_folder_are_refused_with_topics_and_files_named(
    world: World, tmp_path: Path, write: Write
) -> None:
    """One's offsets come after the other's: taken together, compaction would remove the first topic's records."""
    folder = tmp_path / "dump"
    folder.mkdir()
    mine = write(folder / "a", named(build_versions(0, 9), TOPIC))
    others = write(folder / "b", named(build_versions(100, 9), "payments"))
    message = refusal(world, str(folder))
    assert message.startswith(f"{others}, ")
    assert "1 (partition 0, offset 100): this record names topic payments, not orders." in message
    assert f"Found in the input: payments ({others}), orders ({mine})." in message
    assert "--source-topic NAME" in message


@pytest.mark.parametrize("write", FORMATS)
def test_one_record_of_another_topic_in_the_middle_of_a_file_is_enough(
    world: World, tmp_path: Path, write: Write
) -> None:
    records = named(build_versions(0, 20), TOPIC)
    records[13] = (records[13][0], "payments")
    assert "14 (partition 0, offset 13): this record names topic payments" in refusal(
        world, write(tmp_path / "in", records)
    )


@pytest.mark.parametrize("write", FORMATS)
def test_it_is_refused_on_the_way_over_the_spool_too(
    world: World, tmp_path: Path, spooled: list[str], write: Write
) -> None:
    """A record without a key comes first, which the one pass leaves to the spool."""
    keyless = write(tmp_path / "a", named([record(0, None, b"v")], TOPIC))
    other = write(tmp_path / "b", named(build_versions(1, 1), "payments"))
    assert "offset 1): this record names topic payments" in refusal(world, keyless, other)
    assert spooled == [TOPIC]


@pytest.mark.parametrize("write", FORMATS)
def test_a_renamed_topic_is_refused_until_its_old_name_is_given(world: World, tmp_path: Path, write: Write) -> None:
    """All records name one other topic: a folder that was mistaken looks the same."""
    records = build_versions(0, 9)
    path = write(tmp_path / "in", named(records, "orders-v1"))
    assert "names topic orders-v1, not orders" in refusal(world, path)
    report = take(world, path, source_topic="orders-v1")
    assert (report.records_appended, report.records_left_out, report.notices) == (9, 0, ())
    assert world.read() == records


@pytest.mark.parametrize("write", FORMATS)
def test_records_of_the_topic_itself_and_those_that_name_none_are_taken_as_ever(
    world: World, tmp_path: Path, spooled: list[str], write: Write
) -> None:
    records = build_versions(0, 10)
    names = [TOPIC, None] * 5
    report = take(world, write(tmp_path / "in", list(zip(records, names, strict=True))))
    assert (report.records_appended, report.records_left_out, spooled) == (10, 0, [])
    assert world.read() == records


@pytest.mark.parametrize("write", FORMATS)
def test_what_is_no_topic_name_is_never_shown(world: World, tmp_path: Path, write: Write) -> None:
    """The field may hold anything, also a user's bytes."""
    path = write(tmp_path / "in", named(build_versions(0, 3), ODD))
    message = refusal(world, path)
    assert "this record names an invalid topic name, not orders" in message
    assert "4711" not in message
    assert "\x1b" not in message
    assert "4711" not in refusal(world, path, source_topic=TOPIC)


def test_of_many_topics_and_files_a_refusal_names_some(world: World, tmp_path: Path) -> None:
    folder = tmp_path / "dump"
    folder.mkdir()
    for number in range(40):
        as_lines(folder / f"f{number:02d}", named(build_versions(0, 1), f"topic-{number % 20:02d}" + "x" * 200))
    message = refusal(world, str(folder))
    assert "and 10 more. Nothing of this call landed." in message
    assert len(message) < 10 * (249 + 2 * len(str(folder)) + 100)


def test_a_column_of_topics_that_are_no_strings_is_refused(world: World, tmp_path: Path) -> None:
    """Numbers cannot be compared with a name, so nobody knows whose records these are."""
    table = table_of(named(build_versions(0, 3), None)).set_column(0, "topic", pa.array([1, 2, 3]))
    pq.write_table(table, tmp_path / "in.parquet")
    assert "column topic is of type int64. Nothing of this call landed. It must be a string" in refusal(
        world, str(tmp_path / "in.parquet")
    )


# ------------------------------------------------------------------------------------------------------------- chosen


@pytest.mark.parametrize("write", FORMATS)
def test_of_a_chosen_source_topic_all_records_are_taken_and_others_are_left_out_and_counted(
    world: World, tmp_path: Path, spooled: list[str], write: Write
) -> None:
    """In one pass, at the same offsets, with other topics' partitions beyond those of this one."""
    mine = build_versions(0, 9)
    payments = [replace(each, partition=77) for each in build_versions(1_000, 9)]
    path = write(
        tmp_path / "in", in_turns(named(payments, "payments"), named(mine, TOPIC), named(build_versions(0, 9), ODD))
    )
    assert "names topic payments, not orders" in refusal(world, path)
    report = take(world, path, source_topic=TOPIC)
    assert (report.records_appended, report.records_left_out, report.source_topic) == (9, 18, TOPIC)
    (notice,) = report.notices
    assert notice.startswith("Records of other topics than orders were left out: 18 in all, by topic ")
    assert "payments (9)" in notice
    assert "an invalid topic name (9)" in notice
    assert world.read() == mine
    assert spooled == []


@pytest.mark.parametrize("write", FORMATS)
def test_a_chosen_source_topic_is_heeded_on_the_way_over_the_spool(
    world: World, tmp_path: Path, spooled: list[str], write: Write
) -> None:
    mine = build_versions(0, 9)
    world.ingest(mine[:4])
    path = write(tmp_path / "in", in_turns(named(mine, TOPIC), named(build_versions(0, 9), "payments")))
    report = take(world, path, source_topic=TOPIC)
    assert (report.records_appended, report.records_skipped, report.records_left_out) == (5, 4, 9)
    assert spooled == [TOPIC]
    assert world.read() == mine


@pytest.mark.parametrize("write", FORMATS)
def test_one_file_serves_two_topics_and_twice_changes_nothing(
    world: World, tmp_path: Path, spooled: list[str], write: Write
) -> None:
    """Each log knows the slice that it took, also when a compaction has removed records of it."""
    world.create(1, topic="payments", min_cleanable_dirty_ratio="0.01", segment_bytes="2000")
    slices = {TOPIC: build_versions(0, 30), "payments": build_versions(500, 30, keys=4)}
    path = write(tmp_path / "in", in_turns(*(named(records, topic) for topic, records in slices.items())))
    for topic in slices:
        assert take(world, path, source_topic=topic, topic=topic).records_appended == 30
    for topic, records in slices.items():
        world.compact(world.clock() + 10**10, topic=topic)
        assert len(world.read(topic=topic)) < 30
        before = world.head(topic).state
        report = take(world, path, source_topic=topic, topic=topic)
        assert (report.records_appended, report.records_skipped, report.records_left_out) == (0, 30, 30)
        assert world.head(topic).state == before
        assert set(world.read(topic=topic)) <= set(records)


def test_a_slice_of_a_mixed_file_is_known_as_the_same_records_alone(world: World, tmp_path: Path) -> None:
    """The digest is of what was taken, so the topic's own dump is recognised after a compaction."""
    mine = build_versions(0, 30)
    mixed = as_parquet(
        tmp_path / "mixed", in_turns(named(build_versions(0, 30, keys=9), "payments"), named(mine, TOPIC))
    )
    take(world, mixed, source_topic=TOPIC)
    world.compact(world.clock() + 10**10)
    assert len(world.read()) < 30
    alone = as_lines(tmp_path / "alone", named(mine, TOPIC))
    assert take(world, alone).records_skipped == 30


@pytest.mark.parametrize("write", FORMATS)
def test_a_record_that_names_no_topic_is_refused_where_a_source_topic_is_chosen(
    world: World, tmp_path: Path, write: Write
) -> None:
    """Taken it may be another topic's, left out it may be lost: nobody can say whose it is."""
    records = named(build_versions(0, 10), TOPIC)
    records[7] = (records[7][0], None)
    message = refusal(world, write(tmp_path / "in", records), source_topic=TOPIC)
    assert "8 (partition 0, offset 7): this record names no topic" in message


def test_a_file_without_any_topics_is_refused_where_a_source_topic_is_chosen(world: World, tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(table_of(named(build_versions(0, 3), None)).drop_columns(["topic"]), path)
    assert "row 1 (partition 0, offset 0): this record names no topic" in refusal(world, str(path), source_topic=TOPIC)


@pytest.mark.parametrize("write", FORMATS)
def test_a_source_topic_that_no_record_names_is_refused(world: World, tmp_path: Path, write: Write) -> None:
    """A typing error must not look like a finished ingest."""
    path = write(tmp_path / "in", named(build_versions(0, 3), "payments"))
    assert "No record of topic paymentz is in the input: its 3 records are of other topics: payments (3)" in refusal(
        world, path, source_topic="paymentz"
    )


def test_a_source_topic_that_can_be_none_is_wrong_usage(world: World, tmp_path: Path) -> None:
    path = as_lines(tmp_path / "in", named(build_versions(0, 3), TOPIC))
    with pytest.raises(UsageError, match="--source-topic"):
        take(world, path, source_topic="no/name")


def test_files_without_offsets_are_known_by_what_was_taken_of_them(world: World, tmp_path: Path) -> None:
    """Offsets are given in file order over the records that are taken alone."""
    lines = [
        {"key": b64(f"k{number}"), "value": b64(topic), "partition": 0, "topic": topic}
        for number in range(5)
        for topic in ("payments", TOPIC)
    ]
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert take(world, str(path), source_topic=TOPIC).records_appended == 5
    assert [(each.offset, each.value) for each in world.read()] == [(n, TOPIC.encode()) for n in range(5)]
    again = take(world, str(path), source_topic=TOPIC)
    assert (again.records_appended, again.records_skipped, again.records_left_out) == (0, 5, 5)
    assert take(world, str(path), source_topic="payments").records_appended == 5


def test_a_damaged_record_of_another_topic_is_refused_all_the_same(world: World, tmp_path: Path) -> None:
    """What is no record cannot be trusted in the topic that it names either."""
    path = tmp_path / "in.jsonl"
    path.write_text(
        json_line(build_versions(0, 1)[0])[:-1] + ',"topic":"orders"}\n{"key":"%%","value":null,"topic":"x"}\n'
    )
    assert "line 2: key is not base64" in refusal(world, str(path), source_topic=TOPIC)


def test_keyless_records_of_other_topics_do_not_matter(world: World, tmp_path: Path) -> None:
    """The log is compacted, the other topic is not."""
    mine = build_versions(0, 4)
    others = [record(n, None, b"v") for n in range(4)]
    path = as_parquet(tmp_path / "in", in_turns(named(mine, TOPIC), named(others, "clicks")))
    assert take(world, path, source_topic=TOPIC).records_appended == 4
    assert world.read() == mine == compute_survivors(mine, 0)


def test_the_command_line_counts_what_was_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINNOW_HOME", str(tmp_path / "home"))
    winnow("topics", "create", TOPIC, "--partitions", 1)
    path = as_lines(
        tmp_path / "in", in_turns(named(build_versions(0, 3), TOPIC), named(build_versions(0, 3), "payments"))
    )
    refused = winnow("ingest", "files", TOPIC, path, code=3)
    assert refused.stderr.startswith(f"error: {path}, line 2")
    assert refused.stderr.count("\n") == 1
    answer = winnow("ingest", "files", TOPIC, path, "--source-topic", TOPIC, "--json")
    assert (answer.document["records_appended"], answer.document["records_left_out"]) == (3, 3)
    assert "notice: Records of other topics than orders were left out: 3 in all" in answer.stderr
    assert winnow("ingest", "files", TOPIC, path, "--source-topic", "a/b", code=2).stdout == ""
