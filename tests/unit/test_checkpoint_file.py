"""Kafka's ``cleaner-offset-checkpoint`` file, version 0: what is read, what is refused, what is written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winnow.errors import BadInputError
from winnow.sources.checkpoint_file import (
    CheckpointEntry,
    parse_checkpoints,
    read_checkpoint_file,
    write_checkpoint_file,
)

ENTRIES = [CheckpointEntry("orders", 0, 12), CheckpointEntry("orders", 1, 0), CheckpointEntry("returns.eu", 7, 2**62)]


def entry_of(line: str) -> CheckpointEntry:
    (entry,) = parse_checkpoints(f"0\n1\n{line}\n".encode(), "file")
    return entry


@pytest.mark.kafka("96")
def test_file_is_written_read_overwritten_and_read_again(tmp_path: Path) -> None:
    """CheckpointFileTest.shouldPersistAndOverwriteAndReloadFile."""
    file = tmp_path / "cleaner-offset-checkpoint"
    write_checkpoint_file(str(file), reversed(ENTRIES))
    assert file.read_text() == f"0\n3\norders 0 12\norders 1 0\nreturns.eu 7 {2**62}\n"
    assert read_checkpoint_file(str(file)) == ENTRIES
    write_checkpoint_file(str(file), [CheckpointEntry("orders", 1, 5)])
    assert read_checkpoint_file(str(file)) == [CheckpointEntry("orders", 1, 5)]
    assert [each.name for each in tmp_path.iterdir()] == [file.name], "no temporary sibling is left"


@pytest.mark.kafka("97")
def test_ten_partitions_come_back_as_they_were_written(tmp_path: Path) -> None:
    """CheckpointFileTest.shouldHandleMultipleLines."""
    entries = [CheckpointEntry("orders", number, number * 1000) for number in range(10)]
    write_checkpoint_file(str(tmp_path / "file"), entries)
    assert read_checkpoint_file(str(tmp_path / "file")) == entries


@pytest.mark.kafka("98")
def test_empty_file_and_a_file_of_no_entries_hold_none(tmp_path: Path) -> None:
    """CheckpointFileTest.shouldReturnEmptyMapForEmptyFile: a broker that never cleaned leaves 0 bytes."""
    (tmp_path / "new").write_bytes(b"")
    assert read_checkpoint_file(str(tmp_path / "new")) == []
    write_checkpoint_file(str(tmp_path / "none"), [])
    assert (tmp_path / "none").read_text() == "0\n0\n"
    assert read_checkpoint_file(str(tmp_path / "none")) == []


@pytest.mark.kafka("99")
def test_version_that_is_not_known_is_refused() -> None:
    """CheckpointFileTest.shouldThrowIfVersionIsNotRecognised."""
    with pytest.raises(BadInputError, match=r"line 1 is version 1; only version 0 is known.*") as refused:
        parse_checkpoints(b"1\n0\n", "file")
    assert refused.value.exit_code == 3
    assert "Nothing was imported" in str(refused.value)


@pytest.mark.kafka("88", "100")
def test_file_that_is_written_without_an_entry_has_it_no_more(tmp_path: Path) -> None:
    """Every write drops what is not there any more; writing nothing clears."""
    file = str(tmp_path / "file")
    write_checkpoint_file(file, ENTRIES)
    write_checkpoint_file(file, ENTRIES[1:])
    assert read_checkpoint_file(file) == ENTRIES[1:]
    write_checkpoint_file(file, [])
    assert read_checkpoint_file(file) == []


@pytest.mark.parametrize("line", ["orders 3 17", "orders\t3   17", "orders 3 17   ", "orders\x0b3\x0c17"])
def test_fields_are_separated_by_any_white_space(line: str) -> None:
    assert entry_of(line) == CheckpointEntry("orders", 3, 17)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_javas_do(end: str) -> None:
    assert parse_checkpoints(end.join(["0", "1", "orders 3 17"]).encode(), "file") == [CheckpointEntry("orders", 3, 17)]


@pytest.mark.parametrize(
    ("text", "line", "wrong"),
    [
        (b"zero\n0\n", 1, "is not a version number"),
        (b"\n", 1, "is not a version number"),
        ("\ufeff0\n0\n".encode(), 1, "is not a version number"),
        (b"-1\n0\n", 1, "is version -1"),
        (b"0\n", 2, "is not the number of entries"),
        (b"0\nmany\n", 2, "is not the number of entries"),
        (b"0\n-1\n", 2, "is not the number of entries"),
        (b"0\n2\norders 0 1\n", 2, "announces 2 entries, but 1 follow"),
        (b"0\n1\norders 0 1\norders 1 1\n", 2, "announces 1 entries, but 2 follow"),
        (b"0\n1\norders 0\n", 3, "is not a topic, a partition and an offset"),
        (b"0\n1\norders 0 1 2\n", 3, "is not a topic, a partition and an offset"),
        (b"0\n1\n orders 0 1\n", 3, "is not a topic, a partition and an offset"),
        (b"0\n1\norders 0 1\n\n", 4, "is not a topic, a partition and an offset"),
        (b"0\n1\norders 0 1\nsecret junk\n", 4, "is not a topic, a partition and an offset"),
        (b"0\n1\norders -1 1\n", 3, "has no partition from 0"),
        (b"0\n1\norders 2147483648 1\n", 3, "has no partition from 0"),
        (b"0\n1\norders 0 -1\n", 3, "has no offset from 0"),
        (b"0\n1\norders 0 9223372036854775808\n", 3, "has no offset from 0"),
        (b"0\n1\norders 0 1.5\n", 3, "has no offset from 0"),
        ("0\n1\norders 0 \u0665\n".encode(), 3, "has no offset from 0"),
        (b"0\n2\norders 0 1\norders 0 2\n", 4, "names a topic partition that line 3 names already"),
        (b"0\n1\nord\xffers 0 1\n", 3, "is not UTF-8"),
        (b"PAR1\x00\xff", 1, "is not UTF-8"),
    ],
)
def test_damaged_file_is_refused_with_its_line_and_without_its_words(text: bytes, line: int, wrong: str) -> None:
    """Kafka marks the log directory offline; a wrong file may hold anything, so nothing of it is quoted."""
    with pytest.raises(BadInputError, match=rf"line {line} {wrong}") as refused:
        parse_checkpoints(text, "file")
    assert "secret" not in str(refused.value)


def test_file_that_is_not_there_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="there is no such file"):
        read_checkpoint_file(str(tmp_path / "missing"))


@given(
    st.dictionaries(
        st.tuples(st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True), st.integers(0, 2**31 - 1)),
        st.integers(0, 2**63 - 1),
        max_size=8,
    )
)
def test_every_checkpoint_survives_the_round_trip(checkpoints: dict[tuple[str, int], int]) -> None:
    entries = sorted(CheckpointEntry(topic, number, offset) for (topic, number), offset in checkpoints.items())
    lines = [f"{each.topic} {each.partition} {each.offset}" for each in entries]
    text = "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines))
    assert parse_checkpoints(text.encode(), "file") == entries
