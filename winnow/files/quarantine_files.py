"""Writes files of quarantined records, and names their folders.

An ingest call writes below a folder of its own, a compaction below plan id and attempt. The records count when the
quarantine's table names the file and the log's state names their ingest id.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import pyarrow as pa

from winnow.files import storage
from winnow.files.parquet_writer import RollingParquetWriter

QUARANTINE_SCHEMA = pa.schema(
    [
        ("ingest_id", pa.string()),
        ("file_digest", pa.string()),
        ("row", pa.int64()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))),
    ]
)
"""Column order and types. ``file_digest`` and ``row`` are null for records that a compaction moved."""


INGEST_FOLDER_PREFIX = "ingest-"
"""How the folder of an ingest call begins, in the log and in the quarantine; its id follows."""


def locate_ingest_folder(location: str, ingest_id: str) -> str:
    """The folder, below the ``location`` of a log or a quarantine, of the files that one ingest call wrote."""
    return storage.join(location, "data", f"{INGEST_FOLDER_PREFIX}{ingest_id}")


def make_keyless_move_id(plan_id: str, attempt: str) -> str:
    """The ingest id of the keyless records that one attempt at a plan moved."""
    return f"{plan_id}-{attempt}"


def locate_keyless_move_folder(location: str, plan_id: str) -> str:
    """The folder, below the quarantine's ``location``, of the files that attempts at a plan wrote."""
    return storage.join(location, "data", plan_id)


def locate_keyless_move_file(location: str, plan_id: str, attempt: str, partition: int, number: int) -> str:
    """The URI of the ``number``-th file with keyless records of ``partition`` that one attempt writes."""
    return storage.join(locate_keyless_move_folder(location, plan_id), attempt, f"{partition:05d}-{number:05d}.parquet")


def may_contain_ingest(path: str, location: str, ingest_ids: Collection[str]) -> bool:
    """Whether the file at ``path`` may hold records of one of ``ingest_ids``, by the folder it lies in.

    Files from before there was a folder for each may hold records of any.
    """
    root = storage.join(location, "data") + "/"
    folder, _, name = path.removeprefix(root).partition("/")
    if not path.startswith(root) or not name:
        return True
    if folder.startswith(INGEST_FOLDER_PREFIX):
        return folder.removeprefix(INGEST_FOLDER_PREFIX) in ingest_ids
    attempt = name.partition("/")[0]
    # Formerly the folder's name was that of the attempt and went on with application and task.
    cuts = [len(attempt), *(at for at, letter in enumerate(attempt) if letter == "-")]
    return any(make_keyless_move_id(folder, attempt[:cut]) in ingest_ids for cut in cuts)


class QuarantineWriter(RollingParquetWriter):
    """Writes rows of :data:`QUARANTINE_SCHEMA` into files of at most about ``file_bytes``."""

    def __init__(self, *, file_bytes: int, name: Callable[[int], str]) -> None:
        super().__init__(
            QUARANTINE_SCHEMA,
            file_bytes=file_bytes,
            name=name,
            # As in segments: no minima and maxima of user bytes.
            write_statistics=["ingest_id", "row", "partition", "offset"],
        )

    def finish(self) -> tuple[str, ...]:
        """Close the open file; the URIs of all files (none when there were no rows)."""
        self._end()
        return tuple(self._written)
