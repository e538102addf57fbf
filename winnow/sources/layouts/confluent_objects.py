"""Puts the objects of Confluent's S3 sink together that belong to the same records, and finds its tombstones."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from winnow.sources.input_errors import make_file_error
from winnow.sources.layouts.confluent_names import (
    HEADERS,
    KEY,
    LAYOUT,
    TOMBSTONE_FOLDER,
    VALUE,
    ConfluentName,
    Format,
    parse_name,
)
from winnow.sources.layouts.objects import ArchiveObject, FieldForm, StoredObject


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
    for each in stored:
        name = parse_name(each.uri)
        if name is None:
            raise make_file_error(
                each.uri, "it is not named as Confluent's S3 sink names objects", "choose another --layout"
            )
        groups[name.group].append((name, each))
    tombstones = _find_tombstone_folders((name for group in groups.values() for name, _ in group), tombstone_folder)
    found: list[ArchiveObject] = []
    orphans: list[StoredObject] = []
    for group in groups.values():
        name = group[0][0]
        if any(each.role == VALUE for each, _ in group) or _is_tombstone_group(group, tombstones):
            found += _make_objects(group)
        else:
            orphans += [each for _, each in group]
    found.sort(key=lambda each: (each.topic or "", each.partition or 0, each.first_offset or 0, each.uri))
    return PairedObjects(tuple(found), tuple(sorted(orphans, key=lambda each: each.uri)))


def _is_tombstone_group(group: Sequence[tuple[ConfluentName, StoredObject]], tombstones: set[tuple[str, str]]) -> bool:
    name = group[0][0]
    return (name.topic, name.folder) in tombstones and any(each.role == KEY for each, _ in group)


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
    parts: Mapping[str, StoredObject] = {each.role: stored for each, stored in entries}
    return ArchiveObject(
        layout=LAYOUT,
        uri=main.uri,
        parts=parts,
        topic=name.topic,
        partition=name.partition,
        first_offset=name.first_offset,
        forms={each.role: _find_form(each) for each, _ in entries},
    )


def _find_form(name: ConfluentName) -> FieldForm:
    """Return the form of an object's entries. Header values are always text, of bytes too, which is not marked."""
    if name.format is Format.JSON or name.role == HEADERS:
        return FieldForm.TEXT_OR_BASE64
    return FieldForm.BYTES if name.format is Format.BIN else FieldForm.JSON
