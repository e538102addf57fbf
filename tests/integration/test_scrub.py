"""Damage is found by a scrub before a reader needs the bytes: everything live is read, the longest unchecked first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.cli_runner import find_location, make_topic, winnow
from tests.support.cli_runner import record as json_record
from tests.support.world import NOW_MS, TOPIC, World, build_versions, open_world, record
from winnow.errors import DamagedSegmentError, UnknownTopicError
from winnow.files import storage
from winnow.files.checked_reading import read_segment
from winnow.files.segments import ARROW_SCHEMA
from winnow.pipeline.admin import scrub as module
from winnow.pipeline.admin.scrub import DAY_MS, compute_bytes_left_today, open_scrub
from winnow.pipeline.monitor.metrics import measure_topic
from winnow.pipeline.topics.definition import describe_topic
from winnow.report.alert_kinds import AlertKind
from winnow.values.model import Segment

HOUR_MS = 3_600_000


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """Three appends to two partitions: six segments, nothing compacted."""
    with open_world(tmp_path) as opened:
        opened.create(2, min_cleanable_dirty_ratio="0", segment_ms="1")
        for first in (0, 40, 80):
            opened.ingest([*build_versions(first, 40), *build_versions(first, 40, partition=1)])
        yield opened


def flip(path: str, at: int) -> bytes:
    """Change one byte of a file; the bytes it had."""
    file = storage.parse_local_path(path)
    data = file.read_bytes()
    file.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
    return data


def flip_in(path: str, column: str) -> bytes:
    """Change a byte in the last page of a column; the bytes that the file had."""
    metadata = pq.read_metadata(storage.parse_local_path(path))
    chunks = [metadata.row_group(0).column(number) for number in range(metadata.num_columns)]
    (chunk, *_) = [each for each in chunks if each.path_in_schema.split(".")[0] == column]
    start = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)))
    return flip(path, start + chunk.total_compressed_size - 3)


def restore(path: str, data: bytes) -> None:
    """What a backup does."""
    storage.parse_local_path(path).write_bytes(data)


def open_partitions(world: World) -> list[int | None]:
    """The partitions about which damage is alerted and has not recovered."""
    return [row.partition for row in world.installation.store.alerts.list_open({AlertKind.SEGMENT_DAMAGED}, TOPIC)]


def test_sound_topic_is_read_in_full_and_nothing_is_found(world: World) -> None:
    (report,) = open_scrub(world.installation, [TOPIC])
    live = [*world.segments(0), *world.segments(1)]
    assert (report.segments, report.segments_checked) == (6, 6)
    checks = world.installation.store.segment_checks.list_checks(TOPIC).values()
    documents = [check.size_bytes for check in checks if check.kind == "document"]
    assert report.other_files_checked == len(documents)
    assert report.bytes_checked == sum(segment.size_bytes for segment in live) + sum(documents)
    assert (report.bytes_left, report.findings) == (0, ())
    assert (report.last_checked_ms, report.oldest_checked_ms) == (NOW_MS, NOW_MS)


def test_bit_that_flips_in_any_column_is_found_and_told_once_until_it_is_mended(world: World) -> None:
    (_, segment, _) = world.segments(1)
    for column in ARROW_SCHEMA.names:
        sound = flip_in(segment.path, column)
        for _ in range(2):
            (report,) = open_scrub(world.installation, [TOPIC])
            (finding,) = report.findings
            assert (finding.partition, finding.path, finding.kind) == (1, segment.path, "damaged"), column
            assert report.segments_checked == 6
            assert open_partitions(world) == [1]
            assert measure_topic(world.installation, TOPIC, as_of_ms=world.clock()).damaged == 1
        restore(segment.path, sound)
        (report,) = open_scrub(world.installation, [TOPIC])
        assert report.findings == ()
        assert open_partitions(world) == []
        assert measure_topic(world.installation, TOPIC, as_of_ms=world.clock()).damaged == 0


def test_missing_segment_is_found(world: World) -> None:
    (segment, *_) = world.segments(0)
    storage.delete(segment.path)
    (report,) = open_scrub(world.installation, [TOPIC])
    assert [(each.path, each.kind) for each in report.findings] == [(segment.path, "missing")]


def test_sound_file_that_is_another_than_its_manifest_entry_is_found(world: World) -> None:
    """A backup that gave back the wrong file: every page is sound, and the records are those of another segment."""
    (first, second, _) = world.segments(0)
    restore(first.path, storage.parse_local_path(second.path).read_bytes())
    (report,) = open_scrub(world.installation, [TOPIC])
    assert [each.path for each in report.findings] == [first.path]


def test_page_without_checksum_that_cannot_be_decoded_is_found(world: World) -> None:
    """Other writers leave no checksums; such a page is decoded, and its damage shows there."""
    (segment, *_) = world.segments(0)
    file = storage.parse_local_path(segment.path)
    table = pq.read_table(file, schema=ARROW_SCHEMA)
    pq.write_table(table, file, compression="zstd", store_schema=False, use_dictionary=False)
    entry = replace(segment, size_bytes=file.stat().st_size)
    list(read_segment(entry))
    flip_in(entry.path, "value")
    with pytest.raises(DamagedSegmentError):
        list(read_segment(entry))


def test_budget_takes_the_files_that_were_checked_longest_ago_and_goes_on_where_it_was(world: World) -> None:
    """Each scrub stays below its budget, documents included; after some, all were checked."""
    budget_bytes = 2 * max(segment.size_bytes for number in (0, 1) for segment in world.segments(number))
    for rounds in range(1, 40):
        world.clock.now_ms += HOUR_MS
        (report,) = open_scrub(world.installation, [TOPIC], max_bytes=budget_bytes)
        assert 0 < report.bytes_checked <= budget_bytes
        if report.oldest_checked_ms is not None:
            assert rounds > 3
            break
    else:
        pytest.fail("some file was never checked")
    checks = world.installation.store.segment_checks.list_checks(TOPIC)
    oldest_ms = min(check.checked_at_ms for check in checks.values())
    world.clock.now_ms += HOUR_MS
    open_scrub(world.installation, [TOPIC], max_bytes=1)
    again = {p for p, check in world.installation.store.segment_checks.list_checks(TOPIC).items() if check != checks[p]}
    assert [checks[path].checked_at_ms for path in again] == [oldest_ms]


def test_scrub_that_dies_goes_on_with_what_it_had_not_checked(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    genuine, read = module._read_segment, list[str]()

    def dies_at_the_fourth(segment: Segment, passed: object) -> None:
        if len(read) == 3:
            raise KeyboardInterrupt
        read.append(segment.path)
        genuine(segment, passed)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(module, "_read_segment", dies_at_the_fourth)
        with pytest.raises(KeyboardInterrupt):
            open_scrub(world.installation, [TOPIC])
    world.clock.now_ms += 1
    largest = max(segment.size_bytes for number in (0, 1) for segment in world.segments(number))
    open_scrub(world.installation, [TOPIC], max_bytes=3 * largest)
    rows = world.installation.store.segment_checks.list_checks(TOPIC).values()
    again = {row.path for row in rows if row.kind == "segment" and row.checked_at_ms == world.clock()}
    assert again.isdisjoint(read)
    assert len(again) == 3


def test_file_larger_than_the_budget_is_read_all_the_same(world: World) -> None:
    """Or it would never be checked."""
    (report,) = open_scrub(world.installation, [TOPIC], max_bytes=1)
    assert report.segments_checked + report.other_files_checked == 1


def test_budget_of_a_day_counts_what_earlier_scrubs_read_and_comes_back_a_day_later(tmp_path: Path) -> None:
    with open_world(tmp_path, lake={"WINNOW_SCRUB__BYTES_PER_DAY": "1MB"}) as world:
        world.create(1)
        world.ingest(build_versions(0, 40))
        assert compute_bytes_left_today(world.installation) == 1_000_000
        open_scrub(world.installation, [TOPIC])
        sizes = {
            path: check.size_bytes for path, check in world.installation.store.segment_checks.list_checks(TOPIC).items()
        }
        assert len(sizes) > len(world.segments())
        assert sizes == {path: storage.read_size_bytes(path) for path in sizes}, "documents, too"
        assert compute_bytes_left_today(world.installation) == 1_000_000 - sum(sizes.values())
        world.clock.now_ms += DAY_MS
        assert compute_bytes_left_today(world.installation) == 1_000_000


def test_segments_that_left_the_log_are_forgotten_and_their_alert_is_closed(world: World) -> None:
    (segment, *_) = world.segments(0)
    sound = flip_in(segment.path, "value")
    open_scrub(world.installation, [TOPIC])
    assert open_partitions(world) == [0]
    restore(segment.path, sound)
    world.clock.now_ms += HOUR_MS
    world.compact()
    assert segment not in world.segments(0)
    (report,) = open_scrub(world.installation, [TOPIC], max_bytes=1)
    assert report.findings == ()
    assert open_partitions(world) == []
    assert segment.path not in world.installation.store.segment_checks.list_checks(TOPIC)


def test_segment_that_is_compacted_away_while_it_is_read_is_no_finding(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    (gone, *_) = world.segments(0)
    genuine = module._read_segment

    def swept_meanwhile(segment: Segment, passed: object) -> None:
        if segment == gone and gone in world.segments(0):
            world.compact()
            storage.delete(gone.path)
        genuine(segment, passed)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_read_segment", swept_meanwhile)
    world.clock.now_ms += HOUR_MS
    (report,) = open_scrub(world.installation, [TOPIC])
    assert gone.path not in {finding.path for finding in report.findings}


def test_damaged_receipts_ledgers_and_quarantined_records_are_found(tmp_path: Path) -> None:
    with open_world(tmp_path) as world:
        world.create(1, winnow_keyless="quarantine", min_cleanable_dirty_ratio="0", segment_ms="1")
        world.ingest([*build_versions(0, 40), record(40, None, b"without a key")])
        world.clock.now_ms += HOUR_MS
        world.compact()
        state = world.head().state
        (quarantined,) = world.installation.log.quarantine(TOPIC).files()
        damaged = {state.receipts[0].path, state.ingests[0].path, quarantined.path}
        assert open_scrub(world.installation, [TOPIC])[0].findings == ()
        flip_in(quarantined.path, "value")
        for path in damaged - {quarantined.path}:
            flip(path, len(storage.read_bytes(path)) // 3)
        (report,) = open_scrub(world.installation, [TOPIC])
        assert {finding.path for finding in report.findings} == damaged
        assert open_partitions(world) == [None]


def test_topic_description_tells_when_segments_were_checked(world: World) -> None:
    assert describe_topic(world.installation, TOPIC).segments_unchecked == 6
    assert describe_topic(world.installation, TOPIC).last_checked_ms is None
    open_scrub(world.installation, [TOPIC])
    world.clock.now_ms += HOUR_MS
    world.ingest(build_versions(120, 40))
    found = describe_topic(world.installation, TOPIC)
    assert (found.last_checked_ms, found.oldest_checked_ms) == (NOW_MS, NOW_MS)
    assert (found.segments_unchecked, found.scrub_findings) == (1, 0)


def test_a_topic_without_files_is_checked_as_it_is(world: World) -> None:
    """A run that waits until all files are checked does not wait for a topic that has none."""
    world.create(1, "empty")
    (empty,) = open_scrub(world.installation, ["empty"])
    assert (empty.segments, empty.other_files, empty.oldest_checked_ms) == (0, 0, None)
    assert empty.is_checked_since(NOW_MS)
    (full,) = open_scrub(world.installation, [TOPIC])
    assert full.is_checked_since(NOW_MS)
    assert not full.is_checked_since(NOW_MS + 1)


def test_unknown_topic_is_refused(world: World) -> None:
    with pytest.raises(UnknownTopicError):
        open_scrub(world.installation, ["nobody"])


def test_command_tells_findings_and_ends_with_code_4(tmp_path: Path, winnow_home: Path) -> None:
    make_topic("orders", tmp_path / "orders.jsonl")
    make_topic("clicks", tmp_path / "clicks.jsonl")
    (sound, also_sound) = winnow("scrub", "--json").document
    assert {sound["topic"], also_sound["topic"]} == {"orders", "clicks"}
    assert sound["segments"] == sound["segments_checked"] >= 1
    assert "Last checked: never" not in winnow("topics", "describe", "orders").stdout
    (segment, *_) = storage.parse_local_path(find_location("orders")).joinpath("data").rglob("*.parquet")
    flip_in(str(segment), "value")
    answer = winnow("scrub", "orders", "--json", code=4)
    (document,) = answer.document
    assert document["findings"][0]["path"].endswith(segment.name)
    assert "Restore each file" in answer.stderr  # the alert, which says what to do
    told = winnow("scrub", code=4).stdout
    assert segment.name in told
    assert "clicks" in told
    winnow("scrub", "nobody", code=2)
    winnow("scrub", "--max-bytes", "many", code=2)


def test_reader_and_overlap_refuse_a_value_that_changed(tmp_path: Path, winnow_home: Path) -> None:
    """The bytes are another record's; neither a reader nor the comparison of an ingest may take them for the log's."""
    make_topic("orders", tmp_path / "orders.jsonl")
    sound = winnow("read", "orders").stdout
    (tmp_path / "again.jsonl").write_text(sound)
    (segment, *_) = storage.parse_local_path(find_location("orders")).joinpath("data").rglob("*.parquet")
    flip_in(str(segment), "value")
    for command in (["read", "orders"], ["ingest", "files", "orders", tmp_path / "again.jsonl"]):
        answer = winnow(*command, code=4)
        assert segment.name in answer.stderr
        assert "winnow scrub orders" in answer.stderr


def test_overlap_refuses_a_footer_in_which_a_column_has_another_name(tmp_path: Path, winnow_home: Path) -> None:
    """No page tells, and DuckDB does not know the column."""
    make_topic("orders", tmp_path / "orders.jsonl")
    (tmp_path / "again.jsonl").write_text(winnow("read", "orders").stdout)
    (segment, *_) = storage.parse_local_path(find_location("orders")).joinpath("data").rglob("*.parquet")
    sound = segment.read_bytes()
    footer = len(sound) - 8 - int.from_bytes(sound[-8:-4], "little")
    place = sound.index(b"key", footer)
    segment.write_bytes(sound[:place] + b"kuy" + sound[place + 3 :])
    answer = winnow("ingest", "files", "orders", tmp_path / "again.jsonl", code=4)
    assert segment.name in answer.stderr
    assert "has other columns than a segment" in answer.stderr


def test_quarantined_records_that_changed_are_refused(tmp_path: Path) -> None:
    with open_world(tmp_path) as world:
        world.create(1, winnow_keyless="quarantine")
        world.ingest([record(0, b"key", b"value"), *(record(n, None, b"%d" % n * 50) for n in range(1, 200))])
        quarantine = world.installation.log.quarantine(TOPIC)
        (file,) = quarantine.files()
        flip_in(file.path, "value")
        with pytest.raises(DamagedSegmentError, match="quarantined records of topic orders"):
            list(quarantine.read(world.head().state.quarantine_ingests))


def test_why_refuses_a_key_that_changed(tmp_path: Path, winnow_home: Path) -> None:
    make_topic("orders", tmp_path / "orders.jsonl")
    (segment, *_) = storage.parse_local_path(find_location("orders")).joinpath("data").rglob("*.parquet")
    flip_in(str(segment), "key")
    answer = winnow("why", "orders", "--key", json_record("a", None)["key"], code=4)
    assert segment.name in answer.stderr
