"""What a file of quarantined records is and where those of a compaction rest.

A compaction writes the keyless records that leave the log straight into the quarantine's folder, under plan id and
attempt, where the sweep of the log never looks. They count when the quarantine's table names the file and the log's
state names their ingest id.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from winnow.files import storage
from winnow.files.rolling import RollingWriter

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


def moved_id(plan_id: str, attempt: str) -> str:
    """The ingest id of the keyless records that one attempt at a plan moved."""
    return f"{plan_id}-{attempt}"


def moved_folder(location: str, plan_id: str) -> str:
    """The folder, below the quarantine's ``location``, of the files that attempts at a plan wrote."""
    return storage.join(location, "data", plan_id)


def moved_file(location: str, plan_id: str, attempt: str, partition: int, number: int) -> str:
    """The URI of the ``number``-th file with keyless records of ``partition`` that one attempt writes."""
    return storage.join(moved_folder(location, plan_id), attempt, f"{partition:05d}-{number:05d}.parquet")


class QuarantineWriter(RollingWriter):
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
