"""Recognises folders of lake tables, whose files must not be read as they lie there.

Only a table's own metadata tell which of its files are live: the others hold rows that were deleted or rewritten, and
reading them would bring these back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from winnow.errors import BadInputError
from winnow.sources.input_errors import NOTHING_INGESTED

_SPARK_ADVICE = (
    "Write its rows with Spark and ingest what is written: spark.read.format('{}').load(PATH)"
    ".write.parquet(NEW_PATH). Later appends are then a new folder."
)
_ICEBERG_METADATA = re.compile(r"[^/]+\.metadata\.json|version-hint\.text")


def refuse_table_folder(path: str, names: Iterable[str]) -> None:
    """Raise if one of ``names``, files below the folder ``path``, is a lake table's metadata.

    Raises:
        BadInputError: it is a table of Delta Lake, Hudi or Iceberg.
    """
    for name in names:
        *folders, last = name.split("/")
        if "_delta_log" in folders:
            raise _refuse(path, folders, "_delta_log", "Delta Lake", _SPARK_ADVICE.format("delta"))
        if ".hoodie" in folders:
            raise _refuse(path, folders, ".hoodie", "Hudi", _SPARK_ADVICE.format("hudi"))
        if folders[-1:] == ["metadata"] and _ICEBERG_METADATA.fullmatch(last):
            advice = "Name the table instead: winnow ingest iceberg TOPIC CATALOG.TABLE, or the path of its folder."
            raise _refuse(path, folders, "metadata", "Iceberg", advice)


def _refuse(path: str, folders: list[str], marker: str, kind: str, advice: str) -> BadInputError:
    place = "/".join([path.rstrip("/"), *folders[: folders.index(marker)]])
    return BadInputError(
        f"{place} is a table of {kind}: it has a folder {marker}. Which of its files are live only that says; the "
        f"others hold rows that were deleted or rewritten. {NOTHING_INGESTED} {advice}"
    )
