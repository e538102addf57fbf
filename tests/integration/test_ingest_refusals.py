"""A refused call leaves nothing: not in the table, not in the state, not in the folder of data files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.world import TOPIC, World, build_versions, define_world, json_line, record, write_jsonl
from winnow.errors import BadInputError
from winnow.files.segments import SegmentWriter
from winnow.pipeline.ingest.ingest import ingest_files

SECRET = b"do-not-show-this-value"


world = define_world(2, [*build_versions(0, 4), *build_versions(7, 3)], segment_bytes="20000")


def lines(path: Path, text: Sequence[str]) -> str:
    path.write_text("".join(line + "\n" for line in text))
    return str(path)


def other_bytes(folder: Path) -> list[str]:
    return [write_jsonl(folder / "f.jsonl", [replace(build_versions(2, 1)[0], value=SECRET), *build_versions(10, 2)])]


def other_timestamp(folder: Path) -> list[str]:
    return [write_jsonl(folder / "f.jsonl", [replace(build_versions(2, 1)[0], timestamp_ms=5)])]


def null_header_instead_of_empty(folder: Path) -> list[str]:
    return [write_jsonl(folder / "f.jsonl", [replace(build_versions(2, 1)[0], headers=())])]


def filled_hole(folder: Path) -> list[str]:
    return [write_jsonl(folder / "f.jsonl", build_versions(5, 1))]


def wrong_order_of_files(folder: Path) -> list[str]:
    return [
        write_jsonl(folder / "late.jsonl", build_versions(20, 3)),
        write_jsonl(folder / "f.jsonl", build_versions(12, 3)),
    ]


def wrong_order_within_a_file(folder: Path) -> list[str]:
    return [write_jsonl(folder / "f.jsonl", [*build_versions(12, 3), *build_versions(11, 1)])]


def repeated_offset(folder: Path) -> list[str]:
    return [write_jsonl(folder / "f.jsonl", [*build_versions(12, 2), *build_versions(13, 1)])]


def wrong_order_after_many_good_records(folder: Path) -> list[str]:
    """Long after the first files of both partitions were begun."""
    good = [*build_versions(10, 20_000), *build_versions(0, 20_000, partition=1)]
    return [write_jsonl(folder / "f.jsonl", [*good, *build_versions(5, 1, partition=1)])]


def with_and_without_offsets(folder: Path) -> list[str]:
    without = json_line(build_versions(0, 1)[0], with_offset=False)
    return [lines(folder / "f.jsonl", [json_line(build_versions(12, 1)[0]), without])]


def keyless_record(folder: Path) -> list[str]:
    keyless = record(13, None, SECRET)
    return [write_jsonl(folder / "f.jsonl", [*build_versions(12, 1), keyless, *build_versions(14, 1)])]


def broken_line_at_the_end(folder: Path) -> list[str]:
    return [lines(folder / "f.jsonl", [json_line(build_versions(12, 1)[0]), json.dumps({"key": "%%", "partition": 0})])]


@pytest.mark.parametrize(
    ("files", "row", "coordinates"),
    [
        (other_bytes, 1, "(partition 0, offset 2)"),
        (other_timestamp, 1, "(partition 0, offset 2)"),
        (null_header_instead_of_empty, 1, "(partition 0, offset 2)"),
        (filled_hole, 1, "(partition 0, offset 5)"),
        (wrong_order_of_files, 1, "(partition 0, offset 12)"),
        (wrong_order_within_a_file, 4, "(partition 0, offset 11)"),
        (repeated_offset, 3, "(partition 0, offset 13)"),
        (wrong_order_after_many_good_records, 40_001, "(partition 1, offset 5)"),
        (with_and_without_offsets, 2, "(partition 0)"),
        (keyless_record, 2, "(partition 0, offset 13)"),
        (broken_line_at_the_end, 2, ""),
    ],
)
def test_a_refused_call_names_its_place_and_leaves_nothing(
    world: World, tmp_path: Path, files: Callable[[Path], list[str]], row: int, coordinates: str
) -> None:
    """File, row, partition and offset are named, user bytes are not, and every file of the table is as before."""
    folder = tmp_path / "input"
    folder.mkdir()
    paths = files(folder)
    before, state, snapshots, read = world.listing(), world.head().state, world.snapshot_ids(), world.read()
    with pytest.raises(BadInputError) as refused:
        ingest_files(world.installation, TOPIC, paths, as_of_ms=world.clock())
    message = str(refused.value)
    assert refused.value.exit_code == 3
    assert f"{folder / 'f.jsonl'}" in message
    assert f" {row}" in message
    assert coordinates in message
    assert SECRET.decode() not in message
    assert (world.head().state, world.snapshot_ids(), world.read()) == (state, snapshots, read)
    assert world.listing().keys() == before.keys()
    assert world.listing() == before


def test_files_in_the_right_order_are_taken_where_the_wrong_one_was_refused(world: World, tmp_path: Path) -> None:
    """The advice of the message works."""
    late, early = wrong_order_of_files(tmp_path)
    report = ingest_files(world.installation, TOPIC, [early, late], as_of_ms=world.clock())
    assert report.records_appended == 6
    assert world.read(0)[-6:] == [*build_versions(12, 3), *build_versions(20, 3)]


def test_an_ingest_into_an_unknown_topic_is_bad_input(world: World, tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "a.jsonl", build_versions(0, 1))
    with pytest.raises(BadInputError, match=r"There is no topic nowhere.*Nothing of this call landed") as refused:
        ingest_files(world.installation, "nowhere", [path], as_of_ms=world.clock())
    assert refused.value.exit_code == 3


def test_an_unforeseen_error_while_segments_are_written_leaves_no_segment(world: World, tmp_path: Path) -> None:
    """A full disk, say: the exception goes through and what was begun is removed."""
    path = write_jsonl(tmp_path / "a.jsonl", [*build_versions(10, 3), *build_versions(0, 3, partition=1)])
    before = world.listing()
    genuine = SegmentWriter.finish

    def fail_at_the_second(writer: SegmentWriter) -> object:
        if writer._partition == 1:
            raise OSError("no space left on device")
        return genuine(writer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SegmentWriter, "finish", fail_at_the_second)
        with pytest.raises(OSError, match="no space"):
            ingest_files(world.installation, TOPIC, [path], as_of_ms=world.clock())
    assert world.listing() == before
    assert ingest_files(world.installation, TOPIC, [path], as_of_ms=world.clock()).records_appended == 6


def test_an_offset_beyond_which_no_log_end_can_be_written_is_refused(world: World) -> None:
    """The log end offset comes after the last record and is a 64-bit number too; one below it is the last that fits."""
    world.create(1, topic="far")
    with pytest.raises(BadInputError, match=r"row 1 \(partition 0, offset 9223372036854775807\)"):
        world.ingest([record(2**63 - 1, b"k", b"v")], topic="far")
    assert world.ingest([record(2**63 - 2, b"k", b"v")], topic="far").records_appended == 1
    assert world.installation.log.open("far").head().state.partitions[0].log_end_offset == 2**63 - 1
