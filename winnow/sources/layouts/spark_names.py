"""Names of the objects that Spark writes: folders ``column=value``, and files ``part-…``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

_FOLDER = re.compile(r"(?P<column>[^=/]+)=(?P<value>[^/]*)")
_FILE = re.compile(r"part-[0-9r-]+[0-9a-f-]*.*\.(?:json|parquet)(?:\.\w+)?|part-.*\.(?:json|parquet)")
_NULL = "__HIVE_DEFAULT_PARTITION__"
_NUMBER = re.compile(r"\d{1,10}")
_MAXIMUM_PARTITION = 2**31 - 1


@dataclass(frozen=True, slots=True)
class SparkName:
    """What a path tells: the values of the columns that are folders."""

    topic: str | None
    partition: int | None


def is_spark_file(name: str) -> bool:
    """Check whether Spark calls its files so."""
    return bool(_FILE.fullmatch(name))


def parse_path(path: str) -> SparkName:
    """Return what the folders of ``path`` tell; ``%3A`` and the like stand for characters that folders cannot have."""
    columns = {}
    for part in path.split("/")[:-1]:
        found = _FOLDER.fullmatch(part)
        if found:
            columns[unquote(found["column"])] = unquote(found["value"])
    topic = columns.get("topic")
    number = columns.get("partition", "")
    partition = int(number) if _NUMBER.fullmatch(number) else None
    return SparkName(
        None if topic in (None, "", _NULL) else topic,
        partition if partition is not None and partition <= _MAXIMUM_PARTITION else None,
    )
