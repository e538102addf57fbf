"""What tasks are to read and write as Parquet files for people to take away, and what they wrote, as documents."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from winnow.engine.key_changes import LogExtent
from winnow.engine.strategy_diff import RecordOrder
from winnow.files import storage
from winnow.files.file_copies import FileDigest
from winnow.values.model import PartitionPlan

READ_JOB: Final = "read"
"""The program, below jobs/, that writes files; they lie below the folder of this name in the staging area."""


def locate_read_files(staging: str, topic: str, plan_id: str = "") -> str:
    """Return the folder of a reading's files; without ``plan_id``, what those of all readings of ``topic`` begin with.

    No topic's name holds an ``@``.
    """
    return storage.join(staging, READ_JOB, f"{topic}@{plan_id}")


def name_read_file(number: int) -> str:
    """Name the ``number``-th file that somebody takes away, from 0; names are in the order of the records."""
    return f"part-{number:06}.parquet"


class ReadKind(StrEnum):
    """What is read: every record, the latest one of each key, or the keys whose latest value changed."""

    RECORDS = "records"
    LATEST = "latest"
    CHANGES = "changes"

    @property
    def command(self) -> str:
        """The command that reads it, after ``winnow``."""
        return "read" if self is ReadKind.RECORDS else self.value


@dataclass(frozen=True, slots=True)
class ReadPart:
    """What becomes one file, or several where many tasks write it.

    The records of ``log`` from its log start offset up to its log end offset. ``number``: in the plan; parts are in the
    order of their records. ``size_bytes``: about what is read of segments. ``before``, ``after``: of changes, the two
    states.
    """

    number: int
    log: PartitionPlan
    size_bytes: int
    before: LogExtent | None = None
    after: LogExtent | None = None


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """A reading for tasks, which write below ``folder``, where nobody reads; below ``root`` no folder may be a link.

    ``order``: of winners; None: every record is wanted. ``columns``: those of records that are written; empty: all.
    ``compares_records``: as of :func:`winnow.engine.key_changes.read_key_changes`.
    """

    plan_id: str
    topic: str
    kind: ReadKind
    parts: tuple[ReadPart, ...]
    root: str = ""
    folder: str = ""
    order: RecordOrder | None = None
    columns: tuple[str, ...] = ()
    compares_records: bool = False
    format_version: int = 1

    @property
    def size_bytes(self) -> int:
        """About how much of segments is read."""
        return sum(part.size_bytes for part in self.parts)


@dataclass(frozen=True, slots=True)
class ReadFile:
    """A file that a task wrote for the part ``number``, or for the range ``range`` of it; it is synced.

    ``rows``: how many it holds.

    ``digest``: of the bytes that the task wrote, whatever the place holds later.
    """

    number: int
    uri: str
    rows: int
    digest: FileDigest
    range: int = 0


@dataclass(frozen=True, slots=True)
class ReadResult:
    """The files of all parts of a plan, in the order of the parts and of the ranges of each."""

    plan_id: str
    files: tuple[ReadFile, ...]
    format_version: int = 1
