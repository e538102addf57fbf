"""Kafka's ``cleaner-offset-checkpoint`` file, version 0 (``CheckpointFile`` and ``OffsetCheckpointFile``).

UTF-8 text: the version, the number of entries, then a line per topic partition with topic, partition and first dirty
offset, separated by white space. An empty file has no entries. A broker writes one into each log directory.

Stricter than Kafka in three points, because a checkpoint that is too high hides records from the cleaner: a file that
ends after its version, a negative number, and a topic partition named twice are errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from winnow.errors import BadInputError
from winnow.files import storage
from winnow.sources.input_errors import open_to_read
from winnow.values.model import TopicPartition

VERSION = 0
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
_NOTHING = "Nothing was imported."
# Java's \s, at which Kafka splits.
_WHITE_SPACE = re.compile(r"[ \t\n\x0b\f\r]+")
_LINE_END = re.compile(r"\r\n|\n|\r")
_NUMBER = re.compile(r"-?[0-9]{1,19}")


@dataclass(frozen=True, slots=True, order=True)
class CheckpointEntry:
    """The first dirty offset of one topic partition."""

    topic: str
    partition: int
    offset: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic partition of the entry."""
        return TopicPartition(self.topic, self.partition)


def read_checkpoint_file(uri: str) -> list[CheckpointEntry]:
    """Return the entries of the file at ``uri`` (a path or an object store's URI), in its order.

    Raises:
        BadInputError: there is no such file, or it is not a checkpoint file of version 0; the line is named.
        ServiceError: the object store cannot be reached.
    """
    with open_to_read(uri) as stream:
        return parse_checkpoints(stream.read(), uri)


def parse_checkpoints(data: bytes, name: str) -> list[CheckpointEntry]:
    """Return the entries in ``data``; ``name`` names it in errors, which never quote a line.

    Raises:
        BadInputError: see :func:`read_checkpoint_file`.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as problem:
        line = data[: problem.start].count(b"\n") + 1
        raise _make_line_error(name, line, "is not UTF-8") from None
    if not text:
        return []
    lines = _LINE_END.split(text)
    if not lines[-1]:
        lines.pop()
    version = _parse_number(lines[0])
    if version is None:
        raise _make_line_error(name, 1, "is not a version number")
    if version != VERSION:
        raise _make_line_error(name, 1, f"is version {version}; only version {VERSION} is known")
    expected = _parse_number(lines[1]) if len(lines) > 1 else None
    if expected is None or expected < 0:
        raise _make_line_error(name, 2, "is not the number of entries")
    entries = _parse_entries(lines[2:], name)
    if len(entries) != expected:
        raise _make_line_error(name, 2, f"announces {expected} entries, but {len(entries)} follow")
    return entries


def _parse_entries(lines: list[str], name: str) -> list[CheckpointEntry]:
    seen: dict[TopicPartition, int] = {}
    entries = []
    for number, line in enumerate(lines, start=3):
        entry = _parse_entry(line, name, number)
        before = seen.setdefault(entry.topic_partition, number)
        if before != number:
            raise _make_line_error(name, number, f"names a topic partition that line {before} names already")
        entries.append(entry)
    return entries


def _parse_entry(line: str, name: str, number: int) -> CheckpointEntry:
    # As Java splits: white space at the end makes no field, at the beginning an empty one.
    fields = _WHITE_SPACE.split(line)
    while fields and not fields[-1]:
        fields.pop()
    if len(fields) != 3 or not fields[0]:  # noqa: PLR2004 - topic, partition, offset
        raise _make_line_error(name, number, "is not a topic, a partition and an offset")
    partition, offset = _parse_number(fields[1]), _parse_number(fields[2])
    if partition is None or not 0 <= partition <= INT_MAX:
        raise _make_line_error(name, number, f"has no partition from 0 to {INT_MAX}")
    if offset is None or not 0 <= offset <= LONG_MAX:
        raise _make_line_error(name, number, f"has no offset from 0 to {LONG_MAX}")
    return CheckpointEntry(fields[0], partition, offset)


def _parse_number(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text) else None


def _make_line_error(name: str, line: int, wrong: str) -> BadInputError:
    return BadInputError(
        f"{name} is no checkpoint file: line {line} {wrong}.",
        left=_NOTHING,
        next=f"Give a broker's cleaner-offset-checkpoint file of version {VERSION}.",
    )


def write_checkpoint_file(uri: str, entries: Iterable[CheckpointEntry]) -> None:
    """Write ``entries``, sorted, as Kafka does: atomically, replacing an existing file."""
    lines = [f"{entry.topic} {entry.partition} {entry.offset}" for entry in sorted(entries)]
    storage.write_bytes(uri, "".join(f"{line}\n" for line in (str(VERSION), str(len(lines)), *lines)).encode())
