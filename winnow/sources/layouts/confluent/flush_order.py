"""What names and counts tell, and cannot tell, about the order of records in Confluent's layout.

The sink closes all open objects of a Kafka partition at once (a *flush*), and opens at most one object in each folder
between two flushes: so the objects of a flush follow one another by first offset, and no folder comes twice. Within a
flush the objects' offsets interleave, and only the first offset of each is known: whether a value or a tombstone of the
same key came last is not in the archive.

Objects are certainly of one flush if their records cannot all have come before the next object began: an object has
offsets from the one in its name upwards, none of them twice. They are certainly of two flushes if a folder comes twice
between them. Everything else may be of one flush.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from winnow.files.record_batch import Integers

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
    own = np.empty(len(firsts), np.int64)
    own[order] = blocks
    target = np.where(gone, np.searchsorted(reach, own) if tombstones_first else reach[own], own)
    joined = np.zeros(len(reach) + 1, np.int64)
    np.add.at(joined, np.minimum(own, target), 1)
    np.add.at(joined, np.maximum(own, target), -1)
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
    for block, mine in enumerate(members):
        if last < block:
            inside, last = set(mine), block
        while last + 1 < len(members) and inside.isdisjoint(members[last + 1]):
            last += 1
            inside |= members[last]
        reach[block] = last
        inside -= mine
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
