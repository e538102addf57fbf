"""Recognises folders of lake tables, whose files must not be read as they lie there.

Only a table's own metadata tell which of its files are live: the others hold rows that were deleted or rewritten, and
reading them would bring these back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from winnow.errors import BadInputError
from winnow.files import storage
from winnow.sources.input_errors import NOTHING_INGESTED

_SPARK_ADVICE = (
    "Write its rows with Spark and ingest what is written: spark.read.format('{}').load(PATH)"
    ".write.parquet(NEW_PATH). Later appends are then a new folder."
)
_METADATA = "metadata"
PARTITIONED_MARKERS = ("_delta_log", ".hoodie")
"""Folders of metadata beside folders like ``day=2026-03-01``."""
_KINDS = (
    ("_delta_log", "Delta Lake", _SPARK_ADVICE.format("delta")),
    (".hoodie", "Hudi", _SPARK_ADVICE.format("hudi")),
    (
        _METADATA,
        "Iceberg",
        "Name the table instead: winnow ingest iceberg TOPIC CATALOG.TABLE, or the path of its folder.",
    ),
)
"""Folder, kind of table, and what to do."""
_TABLE_NAME = re.compile(r"[^.*?\[]+(\.[^.*?\[]+){2,}")
_ICEBERG_METADATA = re.compile(r"[^/]+\.metadata\.json|version-hint\.text")


@dataclass(frozen=True, slots=True)
class TableFolder:
    """The folder of a lake table. ``inside``: its path below the folder that was listed, empty if it is that one."""

    inside: str
    marker: str
    kind: str
    advice: str

    def make_error(self, path: str) -> BadInputError:
        """Make the error about an object of the table; ``path``: the folder that was listed."""
        place = "/".join(filter(None, [path.rstrip("/"), self.inside]))
        return BadInputError(
            f"{place} is a table of {self.kind}: it has a folder {self.marker}. Which of its files are live only that "
            "says; the others hold rows that were deleted or rewritten.",
            left=NOTHING_INGESTED,
            next=self.advice,
        )


def names_iceberg_table(path: str) -> bool:
    """Check whether ``path`` is an Iceberg table: a metadata file, a table's folder, or CATALOG.NAMESPACE.TABLE."""
    if path.endswith(".metadata.json"):
        return True
    if "/" not in path:
        return _TABLE_NAME.fullmatch(path) is not None and not Path(path).exists()
    return not re.search(r"[*?\[]", path) and storage.exists(storage.join(path, "metadata", "version-hint.text"))


def find_table_folders(names: Iterable[str]) -> list[TableFolder]:
    """Find the folders of tables of Delta Lake, Hudi and Iceberg by the names of their metadata files."""
    found: dict[str, TableFolder] = {}
    for name in names:
        *folders, last = name.split("/")
        for marker, kind, advice in _KINDS:
            if marker not in folders or (marker == _METADATA and not _is_iceberg(folders, last)):
                continue
            place = len(folders) - 1 if marker == _METADATA else folders.index(marker)
            inside = "/".join(folders[:place])
            found.setdefault(inside, TableFolder(inside, marker, kind, advice))
    return list(found.values())


def find_table_of(name: str, tables: Iterable[TableFolder]) -> TableFolder | None:
    """Return the table in whose folder the object ``name`` lies, None if in none."""
    return next((table for table in tables if not table.inside or name.startswith(f"{table.inside}/")), None)


def _is_iceberg(folders: list[str], last: str) -> bool:
    return folders[-1] == _METADATA and _ICEBERG_METADATA.fullmatch(last) is not None
