"""Gives the objects of Confluent's layout offsets that do not collide, and refuses what names cannot order.

Only needed where objects of one Kafka partition lie in several folders, tombstones among them: their records alternate
in the topic, so offsets counted on from the names would meet.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from winnow.errors import BadInputError
from winnow.sources.choices import Choices
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.sources.layout import UnorderedKeys
from winnow.sources.layouts.confluent.flush_order import (
    Overlap,
    find_overlaps,
    find_split_keys,
    find_unordered_keys,
    place_objects,
)
from winnow.sources.layouts.confluent.names import KEY, VALUE, parse_name
from winnow.sources.layouts.confluent.reading import read_confluent
from winnow.sources.objects import ArchiveObject, ReadOptions

FIRST = "first"
_DATE = re.compile(r"(?:year|month|day|hour|minute|date|dt|y|m|d|h)=[\d-]+|\d{2,4}(?:-\d\d){0,3}", re.ASCII)
"""A folder of the time-based partitioners."""


def place_by_flush(objects: Sequence[ArchiveObject], choices: Choices) -> Sequence[ArchiveObject]:
    """Return ``objects`` with the offset of each one's first record, ordered by it.

    Raises:
        BadInputError: keys have values and tombstones whose order is not known, and ``--tombstones`` does not decide;
            or objects overlap, so that repeats cannot be told from records that are new.
    """
    placed: list[ArchiveObject] = []
    unordered: list[UnorderedKeys] = []
    for (topic, partition), mine in _group(objects).items():
        if not _may_alternate(mine):
            placed += mine
            continue
        counted = [_count_records(each) for each in mine]
        _require_no_overlaps(topic, partition, mine, [count for count, _ in counted])
        count = count_unordered_keys(mine, counted)
        if count and choices.tombstones is None:
            unordered.append(UnorderedKeys(topic, partition, count))
        _require_whole_keys(topic, partition, mine, counted)
        offsets = place_objects(
            [each.first_offset or 0 for each in mine],
            [count for count, _ in counted],
            [_has_tombstones(each) for each in mine],
            [_find_folder(each) for each in mine],
            tombstones_first=choices.tombstones == FIRST,
        )
        moved = [replace(each, first_offset=int(first)) for each, first in zip(mine, offsets, strict=True)]
        placed += sorted(moved, key=lambda each: each.first_offset or 0)
    if unordered:
        shown = ", ".join(f"{each.topic}-{each.partition}: {each.count:,}" for each in unordered)
        raise BadInputError(
            "Whether the value or the tombstone of a key came last is not in this archive, since both were written in "
            f"one flush; keys by topic partition: {shown}.",
            left=NOTHING_INGESTED,
            next="Decide: --tombstones last deletes these keys, --tombstones first keeps their values.",
        )
    return placed


def find_unordered(objects: Sequence[ArchiveObject]) -> list[UnorderedKeys]:
    """Return per topic partition how many keys have values and tombstones whose order is not known. Reads all keys."""
    found = []
    for (topic, partition), mine in _group(objects).items():
        if _may_alternate(mine):
            count = count_unordered_keys(mine, [_count_records(each) for each in mine])
            found += [UnorderedKeys(topic, partition, count)] if count else []
    return found


def count_overlaps(objects: Sequence[ArchiveObject]) -> dict[tuple[str, int], int]:
    """Return per topic partition how many objects overlap an earlier one; none where none does. Reads all keys."""
    found = {}
    for place, mine in _group(objects).items():
        overlaps = _find_overlaps(mine, [_count_records(each)[0] for each in mine])
        if overlaps:
            found[place] = len(overlaps)
    return found


def count_unordered_keys(objects: Sequence[ArchiveObject], counted: Sequence[tuple[int, Any]]) -> int:
    """Count the keys of one partition with values and tombstones of unknown order; ``counted``: records and keys."""
    if not any(_has_tombstones(each) for each in objects) or any(keys is None for _, keys in counted):
        return 0
    counts = np.array([count for count, _ in counted])
    folders: dict[str, int] = {}
    numbers = [folders.setdefault(_find_folder(each), len(folders)) for each in objects]
    keys = find_unordered_keys(
        pa.concat_arrays([keys for _, keys in counted]),
        np.repeat(np.array([each.first_offset or 0 for each in objects], np.int64), counts),
        np.repeat(np.array([_has_tombstones(each) for each in objects], np.bool_), counts),
        np.repeat(np.array(numbers, np.int64), counts),
    )
    return len(keys)


def _group(objects: Sequence[ArchiveObject]) -> dict[tuple[str, int], list[ArchiveObject]]:
    groups: dict[tuple[str, int], list[ArchiveObject]] = defaultdict(list)
    for each in objects:
        groups[each.topic or "", each.partition or 0].append(each)
    for mine in groups.values():
        mine.sort(key=lambda each: (each.first_offset or 0, each.uri))
    return groups


def _may_alternate(objects: Sequence[ArchiveObject]) -> bool:
    return len({_find_folder(each) for each in objects}) > 1


def _has_tombstones(obj: ArchiveObject) -> bool:
    return VALUE not in obj.parts


def _find_folder(obj: ArchiveObject) -> str:
    name = parse_name(obj.uri)
    return "" if name is None else name.folder


def _count_records(obj: ArchiveObject) -> tuple[int, Any]:
    """Return the number of records of ``obj``, and their keys if it has keys."""
    part = KEY if KEY in obj.parts else VALUE
    alone = replace(obj, parts={part: obj.parts[part]})
    columns = [chunk.records.column(KEY if part == KEY else VALUE) for chunk in read_confluent(alone, ReadOptions())]
    count = sum(map(len, columns))
    if part != KEY:
        return count, None
    return count, pa.concat_arrays(columns) if columns else pa.nulls(0, pa.binary())


def _require_whole_keys(
    topic: str, partition: int, objects: Sequence[ArchiveObject], counted: Sequence[tuple[int, Any]]
) -> None:
    """Raise if a key has values in several folders of one flush: which is the newest is not in the archive.

    Folders of dates are not looked at: their order is that of time, and an archive by hours would be refused for every
    key that was written before and after the hour.
    """
    values = [
        (each, keys)
        for each, (_, keys) in zip(objects, counted, strict=True)
        if not _has_tombstones(each) and keys is not None and not _is_date(_find_folder(each))
    ]
    folders: dict[str, int] = {}
    numbers = [folders.setdefault(_find_folder(each), len(folders)) for each, _ in values]
    if len(folders) <= 1:
        return
    counts = [len(keys) for _, keys in values]
    split = find_split_keys(
        pa.concat_arrays([keys for _, keys in values]),
        np.repeat(np.array([each.first_offset or 0 for each, _ in values], np.int64), counts),
        np.repeat(np.array(numbers, np.int64), counts),
    )
    if len(split):
        raise BadInputError(
            f"{topic}-{partition}: {len(split):,} keys have values in several folders that were written in one flush, "
            "and which value came last is not in the archive.",
            left=NOTHING_INGESTED,
            next="Write the archive with the default partitioner, or with the offset in the value.",
        )


def _is_date(folder: str) -> bool:
    return all(_DATE.fullmatch(part) for part in folder.split("/"))


def _find_overlaps(objects: Sequence[ArchiveObject], counts: Sequence[int]) -> list[Overlap]:
    firsts = [each.first_offset or 0 for each in objects]
    folders = ["tombstones" if _has_tombstones(each) else _find_folder(each) for each in objects]
    return find_overlaps(firsts, counts, folders)


def _require_no_overlaps(topic: str, partition: int, objects: Sequence[ArchiveObject], counts: Sequence[int]) -> None:
    overlaps = _find_overlaps(objects, counts)
    if overlaps:
        earlier, later = objects[overlaps[0].earlier], objects[overlaps[0].later]
        raise BadInputError(
            f"{earlier.uri} and {later.uri} ({topic}-{partition}) hold records twice, or the sink was set back: "
            f"objects overlap {len(overlaps):,} times. Offsets are not in the records, so repeats cannot be told from "
            "records that are new.",
            left=NOTHING_INGESTED,
            next="Leave one of each two out with --exclude GLOB.",
        )
