"""What the names of Confluent's S3 sink tell, and of its HDFS sink, and which objects belong to the same records.

An object is called ``<topic>+<partition>+<first offset>[.keys|.headers]<extension>``, where ``+`` may be another
delimiter, and lies in ``<topics.dir>/<topic>/<encoded partition>/``.

Keys and headers lie beside the values, under the same name but for ``.keys`` and ``.headers``. Tombstones have keys and
headers, no values, and a folder of their own instead of the encoded partition (``tombstone.encoded.partition``).

The HDFS sink writes ``<topic>+<partition>+<first offset>+<last offset><extension>`` (``FileUtils.committedFileName``),
values alone, and before it has finished a file, under ``+tmp``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote

from winnow.files.record_batch import MAXIMUM_OFFSET
from winnow.sources.input_errors import make_file_error
from winnow.sources.objects import ArchiveObject, FieldForm, StoredObject

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


@dataclass(frozen=True, slots=True)
class PairedObjects:
    """The objects of an archive. ``orphans``: keys and headers whose values are missing; they must not be read."""

    objects: tuple[ArchiveObject, ...]
    orphans: tuple[StoredObject, ...]


def pair_objects(stored: Iterable[StoredObject], tombstone_folder: str | None = None) -> PairedObjects:
    """Put values, keys and headers of the same records together, ordered by topic, partition and first offset.

    Keys without values are tombstones if they lie where tombstones do: in ``tombstone_folder``; if that is None, in a
    folder called :data:`TOMBSTONE_FOLDER`, or in the only one of their topic that has keys but no values and is not
    named as its partitions are. Otherwise their values are missing.

    Raises:
        BadInputError: an object is not named as this sink does, or two objects claim to be the keys or the headers of
            the same values.
    """
    groups: dict[str, list[tuple[ConfluentName, StoredObject]]] = defaultdict(list)
    for obj in stored:
        name = parse_name(obj.uri)
        if name is None:
            raise make_file_error(
                obj.uri, "it is not named as Confluent's S3 sink names objects", "choose another --layout"
            )
        groups[name.group].append((name, obj))
    tombstones = _find_tombstone_folders((name for group in groups.values() for name, _ in group), tombstone_folder)
    found: list[ArchiveObject] = []
    orphans: list[StoredObject] = []
    for group in groups.values():
        name = group[0][0]
        if any(entry.role == VALUE for entry, _ in group) or _is_tombstone_group(group, tombstones):
            found += _make_objects(group)
        else:
            orphans += [entry for _, entry in group]
    found.sort(key=lambda each: (each.topic or "", each.partition or 0, each.first_offset or 0, each.uri))
    return PairedObjects(tuple(found), tuple(sorted(orphans, key=lambda each: each.uri)))


def _is_tombstone_group(group: Sequence[tuple[ConfluentName, StoredObject]], tombstones: set[tuple[str, str]]) -> bool:
    name = group[0][0]
    return (name.topic, name.folder) in tombstones and any(entry.role == KEY for entry, _ in group)


def _find_tombstone_folders(names: Iterable[ConfluentName], chosen: str | None) -> set[tuple[str, str]]:
    """Return topic and folder of those that hold tombstones."""
    with_values: dict[str, set[str]] = defaultdict(set)
    with_keys: dict[str, set[str]] = defaultdict(set)
    for name in names:
        if name.role == VALUE:
            with_values[name.topic].add(name.folder)
        elif name.role == KEY:
            with_keys[name.topic].add(name.folder)
    found: set[tuple[str, str]] = set()
    for topic, folders in with_keys.items():
        candidates = folders - with_values[topic]
        if chosen is not None:
            candidates &= {chosen}
        elif TOMBSTONE_FOLDER in candidates:
            candidates = {TOMBSTONE_FOLDER}
        elif len(candidates) != 1 or not _is_unlike_partitions(next(iter(candidates)), with_values[topic]):
            candidates = set()
        found |= {(topic, folder) for folder in candidates}
    return found


def _is_unlike_partitions(folder: str, of_values: set[str]) -> bool:
    """Check whether ``folder`` is named differently than all folders that hold values, of which there must be some."""
    shape = _find_shape(folder)
    return bool(of_values) and shape != "partition=" and all(_find_shape(each) != shape for each in of_values)


def _find_shape(folder: str) -> str:
    """Return what the folders of one partitioner have in common: the names of fields, the places of digits."""
    parts = (part.partition("=") for part in folder.split("/"))
    return "/".join(name + "=" if equals else re.sub(r"\d+", "0", name) for name, equals, _ in parts)


def _make_objects(group: Sequence[tuple[ConfluentName, StoredObject]]) -> list[ArchiveObject]:
    roles: dict[str, list[tuple[ConfluentName, StoredObject]]] = defaultdict(list)
    for name, each in group:
        roles[name.role].append((name, each))
    beside = [entry for role in (KEY, HEADERS) for entry in roles[role]]
    for role in (KEY, HEADERS):
        if len(roles[role]) > 1 or (roles[role] and len(roles[VALUE]) > 1):
            twice = max((roles[role], roles[VALUE]), key=len)
            wrong = f"{twice[1][1].uri} claims to belong to the same records"
            raise make_file_error(twice[0][1].uri, wrong, "leave one of the two out with --exclude")
    return [_make_object([*value, *beside]) for value in ([entry] for entry in roles[VALUE])] or [_make_object(beside)]


def _make_object(entries: Sequence[tuple[ConfluentName, StoredObject]]) -> ArchiveObject:
    name, main = entries[0]
    parts: Mapping[str, StoredObject] = {entry.role: stored for entry, stored in entries}
    return ArchiveObject(
        layout=LAYOUT,
        uri=main.uri,
        parts=parts,
        topic=name.topic,
        partition=name.partition,
        first_offset=name.first_offset,
        forms={entry.role: _find_form(entry) for entry, _ in entries},
    )


def _find_form(name: ConfluentName) -> FieldForm:
    """Return the form of an object's entries. Header values are always text, of bytes too, which is not marked."""
    if name.format is Format.JSON or name.role == HEADERS:
        return FieldForm.TEXT_OR_BASE64
    return FieldForm.BYTES if name.format is Format.BIN else FieldForm.JSON
