"""Writes files of quarantined records, and names their folders.

An ingest call writes into its own folder, a compaction below plan id and attempt. The records count once the quarantine
table names the file and the log's state names their ingest id.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import pyarrow as pa

from winnow.files import storage
from winnow.files.file_names import find_attempt
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
"""Prefix of the folder of an ingest call, in the log and in the quarantine; its id follows."""


def name_ingest_folder(ingest_id: str) -> str:
    """Return the path of the folder of one ingest call, below the location of a log or a quarantine."""
    return f"data/{INGEST_FOLDER_PREFIX}{ingest_id}"


def locate_ingest_folder(location: str, ingest_id: str) -> str:
    """Return the folder of the files of one ingest call, below the ``location`` of a log or a quarantine."""
    return storage.join(location, name_ingest_folder(ingest_id))


def make_keyless_move_id(plan_id: str, attempt: str) -> str:
    """Return the ingest id of the keyless records that one attempt at a plan moved."""
    return f"{plan_id}-{attempt}"


def locate_keyless_move_folder(location: str, plan_id: str) -> str:
    """Return the folder of the files that attempts at a plan wrote, below the quarantine's ``location``."""
    return storage.join(location, "data", plan_id)


def locate_keyless_move_file(location: str, plan_id: str, attempt: str, partition: int, number: int) -> str:
    """Return the URI of the ``number``-th file with keyless records of ``partition`` that one attempt writes."""
    return storage.join(locate_keyless_move_folder(location, plan_id), attempt, f"{partition:05d}-{number:05d}.parquet")


def is_of_keyless_move(path: str, location: str, plan_id: str, attempt: str) -> bool:
    """Check whether one attempt at a plan wrote the file at ``path`` of the quarantine at ``location``."""
    folder = f"{locate_keyless_move_folder(location, plan_id)}/"
    return path.startswith(folder) and find_attempt(path.removeprefix(folder), (attempt,)) is not None


def may_contain_ingest(path: str, location: str, ingest_ids: Collection[str]) -> bool:
    """Check by its folder whether the file at ``path`` may hold records of one of ``ingest_ids``.

    Files from before each call had its own folder may hold records of any.
    """
    root = storage.join(location, "data") + "/"
    folder, _, name = path.removeprefix(root).partition("/")
    if not path.startswith(root) or not name:
        return True
    if folder.startswith(INGEST_FOLDER_PREFIX):
        return folder.removeprefix(INGEST_FOLDER_PREFIX) in ingest_ids
    attempt = name.partition("/")[0]
    # Formerly the folder was named after the attempt, followed by application and task.
    cuts = [len(attempt), *(at for at, letter in enumerate(attempt) if letter == "-")]
    return any(make_keyless_move_id(folder, attempt[:cut]) in ingest_ids for cut in cuts)


class QuarantineWriter(RollingParquetWriter):
    """Writes rows of :data:`QUARANTINE_SCHEMA` into files of about ``file_bytes`` or less."""

    def __init__(self, *, file_bytes: int, name: Callable[[int], str], below: str | None = None) -> None:
        super().__init__(
            QUARANTINE_SCHEMA,
            file_bytes=file_bytes,
            name=name,
            below=below,
            # As in segments: no minima and maxima of user bytes.
            write_statistics=["ingest_id", "row", "partition", "offset"],
        )

    def finish(self) -> tuple[str, ...]:
        """Close the open file and return the URIs of all files (none without rows)."""
        self._end()
        return tuple(self._write)
