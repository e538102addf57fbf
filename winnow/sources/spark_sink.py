"""What Spark's Structured Streaming writes beside its data: the log of its file sink, and checkpoints.

The sink's log, a folder ``_spark_metadata``, names the files of finished batches. Others in the folder are of a batch
that failed or runs: Spark itself does not read them. A checkpoint has numbers of offsets and batches, no records.
(``org.apache.spark.sql.execution.streaming``: ``FileStreamSinkLog``, ``CompactibleFileStreamLog``, ``OffsetSeqLog``.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
from pyarrow import fs

from winnow.errors import BadInputError
from winnow.sources.formats.json_records import UNREADABLE
from winnow.sources.input_errors import make_file_error

LOG_FOLDER: Final = "_spark_metadata"
_BATCH: Final = re.compile(r"(?P<number>\d+)(?P<compact>\.compact)?")
_VERSION: Final = b"v1"
_LISTED_MISSING: Final = 3


class _Entry(msgspec.Struct):
    path: str
    action: str = "add"


_decode_entry = msgspec.json.Decoder(_Entry).decode


@dataclass(frozen=True, slots=True)
class SinkFolder:
    """A folder that a file sink writes. ``inside``: its path below the folder that was listed, empty if it is that one.

    ``committed``: the names of the files of finished batches; Spark makes each of them once.
    """

    inside: str
    committed: frozenset[str]

    def holds(self, path: str) -> bool:
        """Check whether ``path``, below the folder that was listed, lies in this folder."""
        return not self.inside or path.startswith(self.inside + "/")


def find_sink_folders(filesystem: fs.FileSystem, root: str, inside: Sequence[str]) -> list[SinkFolder]:
    """Read the logs of all file sinks among the paths ``inside`` below ``root``; the innermost folder comes first.

    Raises:
        BadInputError: a log cannot be read, or names a file that is not there.
    """
    logs: dict[str, list[str]] = {}
    for path in inside:
        folder, _, name = path.rpartition("/")
        if (folder == LOG_FOLDER or folder.endswith("/" + LOG_FOLDER)) and _BATCH.fullmatch(name):
            logs.setdefault(folder, []).append(name)
    found = []
    for folder, batches in sorted(logs.items(), key=lambda log: (-log[0].count("/"), log[0])):
        sink = SinkFolder(
            folder.removesuffix(LOG_FOLDER).rstrip("/"),
            _read_log(filesystem, f"{root.rstrip('/')}/{folder}", batches),
        )
        there = {path.rpartition("/")[2] for path in inside if sink.holds(path)}
        missing = sorted(sink.committed - there)
        if missing:
            raise make_file_error(
                f"{root.rstrip('/')}/{folder}",
                f"Spark's log of its sink names {len(missing):,} files that are not there, such as "
                f"{', '.join(missing[:_LISTED_MISSING])}",
                f"copy them again; if they were removed on purpose, take what is there with --exclude '{LOG_FOLDER}/*'",
            )
        found.append(sink)
    return found


def find_checkpoints(inside: Iterable[str]) -> list[str]:
    """Return the folders among ``inside`` that are checkpoints of Structured Streaming."""
    kinds: dict[str, set[str]] = {}
    for path in inside:
        folder, _, name = path.rpartition("/")
        above, _, kind = folder.rpartition("/")
        if kind in ("offsets", "commits") and name.isdecimal():
            kinds.setdefault(above, set()).add(kind)
        elif name == "metadata":
            kinds.setdefault(folder, set()).add(name)
    return [folder for folder, found in kinds.items() if "offsets" in found and len(found) > 1]


def _read_log(filesystem: fs.FileSystem, folder: str, batches: Sequence[str]) -> frozenset[str]:
    """Return the names of committed files: of the newest batch that holds all before it, and of those behind it."""
    matches = [match for match in map(_BATCH.fullmatch, batches) if match is not None]
    start = max((int(match["number"]) for match in matches if match["compact"]), default=-1)
    committed: set[str] = set()
    for match in sorted(matches, key=lambda match: int(match["number"])):
        number = int(match["number"])
        if number < start or (number == start and not match["compact"]):
            continue
        with filesystem.open_input_stream(f"{folder}/{match.group()}") as stream:
            lines = stream.read().split(b"\n")
        if lines[0] != _VERSION:
            raise _make_log_error(folder, match.group())
        for line in filter(None, lines[1:]):
            try:
                entry = _decode_entry(line)
            except UNREADABLE:
                raise _make_log_error(folder, match.group()) from None
            name = entry.path.rpartition("/")[2]
            if entry.action == "delete":
                committed.discard(name)
            else:
                committed.add(name)
    return frozenset(committed)


def _make_log_error(folder: str, batch: str) -> BadInputError:
    wrong = f"batch {batch} of Spark's log of its sink cannot be read"
    return make_file_error(folder, wrong, f"copy it again, or take all files with --exclude '{LOG_FOLDER}/*'")
