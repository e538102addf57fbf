"""What kafka-console-consumer prints: taken where a person says that nothing hides in it, refused where it shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from winnow.errors import BadInputError
from winnow.sources.archive import ArchiveInput, open_archive
from winnow.sources.choices import Choices
from winnow.sources.inspection import inspect_archive
from winnow.sources.layouts.console import NAME

TWO = (
    b"CreateTime:1700000000123\tPartition:0\tOffset:3\tk1\tv 1\n",
    b"LogAppendTime:1700000000124\tPartition:1\tOffset:7\t\xff\t\n",
)


def read(path: Path, lines: bytes, **choices: Any) -> list[dict[str, Any]]:
    path.write_bytes(lines)
    archive = open_archive([str(path)], NAME)
    opened = ArchiveInput(archive, archive.objects, "orders", None, Choices(**choices)).open_pass(8)
    rows = [row for batch in opened.read(0) for row in batch.to_pylist()]
    opened.finish()
    return rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "orders.txt"


def test_records_are_what_was_printed(path: Path) -> None:
    fields = ("partition", "offset", "timestamp", "timestampType", "key", "value")
    found = [tuple(row[name] for name in fields) for row in read(path, b"".join(TWO))]
    assert found == [(0, 3, 1_700_000_000_123, 0, b"k1", b"v 1"), (1, 7, 1_700_000_000_124, 1, b"\xff", b"")]
    (record,) = read(path, b"Partition:0\tOffset:3\tv\n")
    assert (record["offset"], record["timestamp"], record["key"], record["value"]) == (3, None, None, b"v")


def test_a_person_has_to_say_that_nothing_hides_in_it(path: Path) -> None:
    path.write_bytes(b"".join(TWO))
    with pytest.raises(BadInputError, match=r"--layout console if you know that key and value alone .* line break"):
        open_archive([str(path)])
    archive = open_archive([str(path)], suggests=True)
    found = inspect_archive(archive, ["orders.txt"], full=False, progress=None)
    assert found.command == "winnow ingest files TOPIC orders.txt --create --layout console"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (b"".join(TWO) + b"and on\n", "line 3: this line is no record"),
        (b"".join(TWO) + b"\n", "line 3: this line is no record"),
        (b"".join(TWO) + b"Partition:0\tOffset:4\tk\tv\tw\n", "line 3: behind its offset"),
        (b"".join(TWO) + b"Partition:0\tOffset:4\tv\n", "line 3: behind its offset"),
        (b"Partition:0\tOffset:4\th:1\tk\tv\n", "behind its offset .* headers"),
        (b"Partition:0\tOffset:4\tNO_HEADERS\tv\n", "behind its offset .* headers"),
        (b"".join(TWO) + b"Partition:0\tOffset:3\tk\tv\n", "offset 3 is not above that of a line before it"),
        (b"".join(TWO)[:-1], "its last line has no end"),
        (b"k\tv\n", "line 1: this line has no partition and no offset in front"),
        (b"Partition:0\tOffset:4\tnull\tv\n", "its key is printed as null"),
        (b"Partition:0\tOffset:4\tk\tnull\n", "--deletes null-text takes all of them as tombstones"),
    ],
)
def test_what_cannot_be_told_apart_is_refused(lines: bytes, said: str, path: Path) -> None:
    with pytest.raises(BadInputError, match=said) as refused:
        read(path, lines)
    assert "last line" in said or "kcat -J" in str(refused.value)


def test_null_is_a_tombstone_where_a_person_says_so(path: Path) -> None:
    lines = b"Partition:0\tOffset:4\tk\tnull\nPartition:0\tOffset:5\tk\tNULL\n"
    assert [row["value"] for row in read(path, lines, deletes="null-text")] == [None, b"NULL"]
    archive = open_archive([str(path)], suggests=True)
    found = inspect_archive(archive, ["orders.txt"], full=True, progress=None)
    assert found.command == "winnow ingest files TOPIC orders.txt --create --layout console --deletes null-text"
