"""What names and counts tell, and cannot tell, about the order of records in Confluent's layout.

The sink closes all open objects of a Kafka partition at once (a *flush*), and opens at most one object in each folder
between two flushes: so the objects of a flush follow one another by first offset, and no folder comes twice. Within a
flush the objects' offsets interleave, and only the first offset of each is known: whether a value or a tombstone of the
same key came last is not in the archive.

Objects are certainly of one flush if their records cannot all have come before the next object began: an object has
offsets from the one in its name upwards, none of them twice. They are certainly of two flushes if a folder comes twice
between them. Everything else may be of one flush.

Where objects of one Kafka partition lie in several folders, tombstones among them, their records alternate in the
topic, and offsets counted on from the names would meet: then objects get others, or are refused.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from winnow.errors import BadInputError
from winnow.files.record_batch import Integers
from winnow.sources.choices import Choices
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.sources.layout import UnorderedKeys
from winnow.sources.layouts.confluent.names import KEY, VALUE, parse_name
from winnow.sources.layouts.confluent.reading import read_confluent
from winnow.sources.objects import ArchiveObject, ReadOptions

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Overlap:
    """Two objects of a partition, by index, that hold records twice or those of a sink that was set back.

    ``is_repeat``: both begin with the same offset. Otherwise ``later`` begins among the records of ``earlier``, in a
    folder where only one object can be open.
    """

    earlier: int
    later: int
    is_repeat: bool


def find_overlaps(
    first_offsets: Sequence[int], counts: Sequence[int] | None = None, folders: Sequence[object] | None = None
) -> list[Overlap]:
    """Return the objects of one partition that overlap an earlier one, of a sink that was started again.

    Without counts (names alone) only those that begin with the same offset are found. A sink that was set back and
    wrote objects of other sizes is found by the counts; one whose overlap fits into gaps is not found at all.

    Args:
        first_offsets: of each object of the partition, as its name tells.
        counts: the number of records in each.
        folders: the encoded partition of each, and that of tombstones: objects in different folders may interleave.
            None: all are in the same.
    """
    firsts: Integers = np.asarray(first_offsets, np.int64)
    counted: Integers = np.ones(len(firsts), np.int64) if counts is None else np.asarray(counts, np.int64)
    coded = np.zeros(len(firsts), np.int64) if folders is None else _number(folders)
    order = np.argsort(firsts, kind="stable")
    _, overlaps = _find_blocks(firsts[order], counted[order], coded[order])
    return [Overlap(int(order[earlier]), int(order[later]), is_repeat) for earlier, later, is_repeat in overlaps]


def find_unordered_keys(keys: Any, first_offsets: Integers, tombstones: Mask, folders: Integers | None = None) -> Any:
    """Return the distinct keys that have a value and a tombstone whose order is not in the archive.

    Empty where no decision is needed. Null keys have no order and are left out.

    Args:
        keys: of every record of one Kafka partition, a binary Arrow array; records in any order.
        first_offsets: per record, the first offset of its object.
        tombstones: per record, whether it is a tombstone.
        folders: per record, a number from 0 for the encoded partition of its object (any for a tombstone); None for the
            default partitioner, which has one.
    """
    if not len(keys):
        return keys
    encoded = keys.dictionary_encode()
    codes: Integers = encoded.indices.fill_null(-1).to_numpy().astype(np.int64)
    folder_codes = np.where(tombstones, -1, 0 if folders is None else folders)
    objects, counts, owner = _find_objects(np.asarray(first_offsets, np.int64), folder_codes)
    blocks, _ = _find_blocks(objects[0], counts, objects[1])
    reach = _find_reach(blocks, objects[1])
    named = codes >= 0
    unordered = _find_mixed(codes[named], blocks[owner][named], tombstones[named], reach)
    return encoded.dictionary.take(pa.array(unordered))


def find_split_keys(keys: Any, first_offsets: Integers, folders: Integers) -> Any:
    """Return the distinct keys with values in several folders of what may be one flush: their order is not known.

    Arguments as for :func:`find_unordered_keys`, of values alone. Null keys have no order and are left out.
    """
    if not len(keys):
        return keys
    encoded = keys.dictionary_encode()
    codes: Integers = encoded.indices.fill_null(-1).to_numpy().astype(np.int64)
    objects, counts, owner = _find_objects(np.asarray(first_offsets, np.int64), folders)
    blocks, _ = _find_blocks(objects[0], counts, objects[1])
    reach = _find_reach(blocks, objects[1])
    named = codes >= 0
    return encoded.dictionary.take(pa.array(_find_mixed(codes[named], blocks[owner][named], folders[named], reach)))


def place_objects(
    first_offsets: Sequence[int],
    counts: Sequence[int],
    tombstones: Sequence[bool],
    folders: Sequence[object] | None = None,
    *,
    tombstones_first: bool,
) -> Integers:
    """Return an offset for the first record of each object of one partition, so that no two records share one.

    Offsets counted on from the names' would collide: values and tombstones of a flush have each other's in between.
    What may be of one flush is numbered from its lowest offset on, tombstones before all its values or behind them.
    Everything else stays in order and keeps the offset of its name. No offset is above the partition's last one.
    Overlapping objects must be left out before.

    Args:
        first_offsets: of each object of the partition, as its name tells.
        counts: the number of records in each.
        tombstones: whether it holds tombstones.
        folders: as for :func:`find_overlaps`, of values.
        tombstones_first: tombstones come first, so that values win; otherwise they come last and win.
    """
    if not len(first_offsets):
        return np.zeros(0, np.int64)
    firsts: Integers = np.asarray(first_offsets, np.int64)
    gone = np.asarray(tombstones, np.bool_)
    coded = np.where(gone, -1, np.zeros(len(firsts), np.int64) if folders is None else _number(folders))
    order = np.argsort(firsts, kind="stable")
    blocks, _ = _find_blocks(firsts[order], np.asarray(counts, np.int64)[order], coded[order])
    reach = _find_reach(blocks, coded[order])
    block_of = np.empty(len(firsts), np.int64)
    block_of[order] = blocks
    target = np.where(gone, np.searchsorted(reach, block_of) if tombstones_first else reach[block_of], block_of)
    joined = np.zeros(len(reach) + 1, np.int64)
    np.add.at(joined, np.minimum(block_of, target), 1)
    np.add.at(joined, np.maximum(block_of, target), -1)
    # A block that nothing crosses into from the one before begins at its own first offset.
    is_start = np.concatenate(([True], np.cumsum(joined)[: len(reach) - 1] == 0))
    placed: Integers = np.zeros(len(firsts), np.int64)
    component, end = -1, 0
    components = np.cumsum(is_start)
    lowest = firsts[order][np.searchsorted(components[blocks], np.arange(components[-1] + 1))]
    for index in np.lexsort((firsts, gone != tombstones_first, target)).tolist():
        if components[target[index]] != component:
            component = components[target[index]]
            end = int(lowest[component])
        placed[index] = end
        end += counts[index]
    return placed


def _find_objects(firsts: Integers, folders: Integers) -> tuple[Integers, Integers, Integers]:
    """Return first offset and folder of each object, sorted, the number of its records, and each record's object."""
    changes = (firsts[1:] != firsts[:-1]) | (folders[1:] != folders[:-1])
    starts = np.concatenate(([0], np.flatnonzero(changes) + 1))
    lengths = np.diff(np.append(starts, len(firsts)))
    objects, owner = np.unique(np.stack([firsts[starts], folders[starts]]), axis=1, return_inverse=True)
    owner = owner.reshape(-1)
    counts = np.bincount(owner, lengths).astype(np.int64)
    return objects, counts, np.repeat(owner, lengths)


def _find_blocks(firsts: Integers, counts: Integers, folders: Integers) -> tuple[Integers, list[tuple[int, int, bool]]]:
    """Number the blocks of objects that certainly are of one flush, and list those that contradict it.

    The objects are sorted by first offset. A folder that comes twice in a block was written by a sink that was set
    back: what follows is a block of its own, since its records would be counted twice.
    """
    blocks: Integers = np.zeros(len(firsts), np.int64)
    overlaps: list[tuple[int, int, bool]] = []
    block, start, end, records = -1, 0, -1, 0
    inside: set[int] = set()
    furthest: dict[int, tuple[int, int]] = {}
    columns = (firsts.tolist(), counts.tolist(), folders.tolist())
    for place, (first, count, folder) in enumerate(zip(*columns, strict=True)):
        is_repeat = place > 0 and first == columns[0][place - 1]
        if is_repeat or (first < end and folder in inside):
            overlaps.append((place - 1 if is_repeat else furthest[folder][1], place, is_repeat))
            block, start, records, inside = block + 1, first, 0, set()
        elif first >= end:
            block, start, records, inside = block + 1, first, 0, set()
        records += count
        end = max(end, first + count, start + records)
        blocks[place] = block
        inside.add(folder)
        furthest[folder] = max(furthest.get(folder, (-1, -1)), (first + count, place))
    return blocks, overlaps


def _find_reach(blocks: Integers, folders: Integers) -> Integers:
    """Return for each block the last one that may be of the same flush: no folder comes twice up to there."""
    members: list[set[int]] = [set() for _ in range(int(blocks[-1]) + 1)]
    for block, folder in zip(blocks.tolist(), folders.tolist(), strict=True):
        members[block].add(folder)
    reach: Integers = np.arange(len(members))
    inside: set[int] = set()
    last = -1
    for block, in_block in enumerate(members):
        if last < block:
            inside, last = set(in_block), block
        while last + 1 < len(members) and inside.isdisjoint(members[last + 1]):
            last += 1
            inside |= members[last]
        reach[block] = last
        inside -= in_block
    return reach


def _find_mixed(codes: Integers, blocks: Integers, kinds: Any, reach: Integers) -> Integers:
    """Return the codes of keys with records of different kinds in blocks that may be of one flush.

    Sorted by block, it is enough to look at neighbours of different kind: no pair lies closer than they do.
    """
    several = int(kinds.max(initial=0)) + 1
    packed = np.unique((codes * len(reach) + blocks) * several + kinds)
    found, places = packed % several, packed // several
    names, where = places // len(reach), places % len(reach)
    same = (names[1:] == names[:-1]) & (found[1:] != found[:-1]) & (where[1:] <= reach[where[:-1]])
    return np.unique(names[1:][same])


def _number(folders: Sequence[object]) -> Integers:
    numbers: dict[object, int] = {}
    return np.fromiter((numbers.setdefault(folder, len(numbers)) for folder in folders), np.int64, len(folders))


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
    for (topic, partition), group in _group(objects).items():
        if not _may_alternate(group):
            placed += group
            continue
        counted = [_count_records(obj) for obj in group]
        _require_no_overlaps(topic, partition, group, [count for count, _ in counted])
        count = count_unordered_keys(group, counted)
        if count and choices.tombstones is None:
            unordered.append(UnorderedKeys(topic, partition, count))
        _require_whole_keys(topic, partition, group, counted)
        offsets = place_objects(
            [obj.first_offset or 0 for obj in group],
            [count for count, _ in counted],
            [_has_tombstones(obj) for obj in group],
            [_find_folder(obj) for obj in group],
            tombstones_first=choices.tombstones == FIRST,
        )
        moved = [replace(obj, first_offset=int(first)) for obj, first in zip(group, offsets, strict=True)]
        placed += sorted(moved, key=lambda each: each.first_offset or 0)
    if unordered:
        shown = ", ".join(f"{keys.topic}-{keys.partition}: {keys.count:,}" for keys in unordered)
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
    for (topic, partition), group in _group(objects).items():
        if _may_alternate(group):
            count = count_unordered_keys(group, [_count_records(obj) for obj in group])
            found += [UnorderedKeys(topic, partition, count)] if count else []
    return found


def count_overlaps(objects: Sequence[ArchiveObject]) -> dict[tuple[str, int], int]:
    """Return per topic partition how many objects overlap an earlier one; none where none does. Reads all keys."""
    found = {}
    for place, group in _group(objects).items():
        overlaps = _find_overlaps(group, [_count_records(obj)[0] for obj in group])
        if overlaps:
            found[place] = len(overlaps)
    return found


def count_unordered_keys(objects: Sequence[ArchiveObject], counted: Sequence[tuple[int, Any]]) -> int:
    """Count the keys of one partition with values and tombstones of unknown order; ``counted``: records and keys."""
    if not any(_has_tombstones(obj) for obj in objects) or any(keys is None for _, keys in counted):
        return 0
    counts = np.array([count for count, _ in counted])
    folders: dict[str, int] = {}
    numbers = [folders.setdefault(_find_folder(obj), len(folders)) for obj in objects]
    keys = find_unordered_keys(
        pa.concat_arrays([keys for _, keys in counted]),
        np.repeat(np.array([obj.first_offset or 0 for obj in objects], np.int64), counts),
        np.repeat(np.array([_has_tombstones(obj) for obj in objects], np.bool_), counts),
        np.repeat(np.array(numbers, np.int64), counts),
    )
    return len(keys)


def _group(objects: Sequence[ArchiveObject]) -> dict[tuple[str, int], list[ArchiveObject]]:
    groups: dict[tuple[str, int], list[ArchiveObject]] = defaultdict(list)
    for obj in objects:
        groups[obj.topic or "", obj.partition or 0].append(obj)
    for group in groups.values():
        group.sort(key=lambda each: (each.first_offset or 0, each.uri))
    return groups


def _may_alternate(objects: Sequence[ArchiveObject]) -> bool:
    return len({_find_folder(obj) for obj in objects}) > 1


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
        (obj, keys)
        for obj, (_, keys) in zip(objects, counted, strict=True)
        if not _has_tombstones(obj) and keys is not None and not _is_date(_find_folder(obj))
    ]
    folders: dict[str, int] = {}
    numbers = [folders.setdefault(_find_folder(obj), len(folders)) for obj, _ in values]
    if len(folders) <= 1:
        return
    counts = [len(keys) for _, keys in values]
    split = find_split_keys(
        pa.concat_arrays([keys for _, keys in values]),
        np.repeat(np.array([obj.first_offset or 0 for obj, _ in values], np.int64), counts),
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
    firsts = [obj.first_offset or 0 for obj in objects]
    folders = ["tombstones" if _has_tombstones(obj) else _find_folder(obj) for obj in objects]
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
