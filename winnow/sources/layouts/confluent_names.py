"""What the names of Confluent's S3 sink tell, and of its HDFS sink.

An object is called ``<topic>+<partition>+<first offset>[.keys|.headers]<extension>``, where ``+`` may be another
delimiter, and lies in ``<topics.dir>/<topic>/<encoded partition>/``.

Keys and headers lie beside the values, under the same name but for ``.keys`` and ``.headers``. Tombstones have keys and
headers, no values, and a folder of their own instead of the encoded partition (``tombstone.encoded.partition``).

The HDFS sink writes ``<topic>+<partition>+<first offset>+<last offset><extension>`` (``FileUtils.committedFileName``),
values alone, and before it has finished a file, under ``+tmp``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote

from winnow.files.record_batch import MAXIMUM_OFFSET

LAYOUT = "confluent"

TOMBSTONE_FOLDER = "tombstone"
"""The default of ``tombstone.encoded.partition``."""

MAXIMUM_PARTITION = 2**31 - 1

VALUE, KEY, HEADERS = "value", "key", "headers"
"""The roles of stored objects. An archive object without :data:`VALUE` holds tombstones."""


class Format(StrEnum):
    """How an object holds its entries."""

    JSON = "json"
    BIN = "bin"
    AVRO = "avro"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True)
class ConfluentName:
    """What a name tells.

    ``folder``: the folders between topic and object (the encoded partition). ``group``: what the names of values, keys
    and headers of the same records have in common. ``in_topic_folder``: a folder above has the topic's name, as this
    sink always writes it. ``is_tombstone``: it lies in the folder of tombstones; a value never does. ``last_offset``:
    None where the name has none.
    """

    topic: str
    partition: int
    first_offset: int
    role: str
    format: Format
    compression: str | None
    folder: str
    group: str
    delimiter: str
    in_topic_folder: bool
    is_tombstone: bool
    last_offset: int | None = None


# A partition has no leading zeros, an offset may have; what follows the offset is the extension.
_NUMBERS = (
    r"(?P<partition>0|[1-9]\d*)(?P=delimiter)(?P<offset>\d+)"
    r"(?:\.(?P<role>keys|headers)(?=\.|$))?(?P<extension>(?:[.A-Za-z].*)?)"
)

_FROM_THE_RIGHT = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)(?P<delimiter>[^A-Za-z0-9/]+)" + _NUMBERS, re.ASCII)
"""The first group is greedy, so a topic may hold the delimiter."""

_AFTER_TOPIC = re.compile(r"(?P<delimiter>\D(?:.*?\D)?)" + _NUMBERS, re.ASCII)

_WITH_LAST = re.compile(
    r"(?P<topic>[A-Za-z0-9._-]+)(?P<delimiter>\+)(?P<partition>0|[1-9]\d*)\+(?P<offset>\d+)\+(?P<last>\d+)"
    r"(?P<extension>(?:\..*)?)",
    re.ASCII,
)
"""No topic holds a plus sign."""

_ROLES = {None: VALUE, "keys": KEY, "headers": HEADERS}

_GZIP = ".gz"


def parse_name(uri: str, tombstone_folder: str = TOMBSTONE_FOLDER) -> ConfluentName | None:
    """Return what the name of an object tells, None if this sink does not name objects so.

    The topic is split off from the right, unless a folder above has its name: then that folder decides.
    ``tombstone_folder``: as ``tombstone.encoded.partition`` was set.
    """
    path = unquote(uri) if "://" in uri else uri
    *folders, name = path.split("/")
    if ranged := _WITH_LAST.fullmatch(name):
        return _make_ranged_name(ranged, folders)
    found = None
    depth = len(folders)
    while found is None and depth:
        depth -= 1
        if folders[depth] and name.startswith(folders[depth]):
            found = _AFTER_TOPIC.fullmatch(name, len(folders[depth]))
    if found is not None:
        topic, folder = folders[depth], "/".join(folders[depth + 1 :])
    else:
        found = _FROM_THE_RIGHT.fullmatch(name)
        if found is None:
            return None
        topic, folder = found["topic"], folders[-1] if folders else ""
    partition, offset = int(found["partition"]), int(found["offset"])
    if partition > MAXIMUM_PARTITION or offset > MAXIMUM_OFFSET:
        return None
    role, extension = _ROLES[found["role"]], found["extension"]
    return ConfluentName(
        topic=topic,
        partition=partition,
        first_offset=offset,
        role=role,
        format=_find_format(extension),
        compression="gzip" if extension.endswith(_GZIP) else None,
        folder=folder,
        group="/".join([*folders, name[: found.end("offset")]]),
        delimiter=found["delimiter"],
        in_topic_folder=topic in folders,
        is_tombstone=folder == tombstone_folder.strip("/") and role != VALUE,
    )


def parse_last_offset(uri: str) -> int | None:
    """Return the offset of an object's last record by its name, None if it has none, as all but the HDFS sink's."""
    name = parse_name(uri)
    return None if name is None else name.last_offset


def _make_ranged_name(found: re.Match[str], folders: list[str]) -> ConfluentName | None:
    partition, first, last = (int(found[name]) for name in ("partition", "offset", "last"))
    if partition > MAXIMUM_PARTITION or not first <= last <= MAXIMUM_OFFSET:
        return None
    topic = found["topic"]
    depth = max((place for place, folder in enumerate(folders) if folder == topic), default=len(folders) - 2)
    return ConfluentName(
        topic=topic,
        partition=partition,
        first_offset=first,
        role=VALUE,
        format=_find_format(found["extension"]),
        compression="gzip" if found["extension"].endswith(_GZIP) else None,
        folder="/".join(folders[depth + 1 :]),
        group="/".join([*folders, found.group()]),
        delimiter=found["delimiter"],
        in_topic_folder=topic in folders,
        is_tombstone=False,
        last_offset=last,
    )


def _find_format(extension: str) -> Format:
    """Return the format of a file extension; ``format.bytearray.extension`` can be any that is not another format's."""
    suffix = extension.removesuffix(_GZIP).rpartition(".")[2].lower()
    return Format(suffix) if suffix in set(Format) else Format.BIN
