"""Kafka's default partitioner: murmur2 of a record's key, for one key and for whole columns.

A column's keys are sorted by length, longest first, so the keys that have a word at some position are always the first
ones: one pass over the words mixes all keys at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_SEED = 0x9747B28C

_MULTIPLIER = 0x5BD1E995

_SHIFT = 24

_WORD = 0xFFFFFFFF

_POSITIVE = 0x7FFFFFFF


def murmur2(data: bytes) -> int:
    """Return the 32-bit murmur2 hash of ``data`` with Kafka's seed, as a signed number: -2^31 to 2^31 - 1."""
    mixed = _SEED ^ len(data)
    whole = len(data) - len(data) % 4
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little")
        word = word * _MULTIPLIER & _WORD
        word ^= word >> _SHIFT
        word = word * _MULTIPLIER & _WORD
        mixed = (mixed * _MULTIPLIER & _WORD) ^ word
    if whole < len(data):
        mixed ^= int.from_bytes(data[whole:], "little")
        mixed = mixed * _MULTIPLIER & _WORD
    mixed ^= mixed >> 13
    mixed = mixed * _MULTIPLIER & _WORD
    mixed ^= mixed >> 15
    return mixed - (1 << 32) if mixed > _POSITIVE else mixed


def choose_partition(key: bytes, partitions: int) -> int:
    """Return the partition, from 0, to which a Java producer sends ``key``. ``partitions`` is at least 1.

    The sign bit is masked off as in Kafka's ``toPositive``, which is not the absolute value. An empty key is a key.
    """
    return (murmur2(key) & _POSITIVE) % partitions


_SEED_WORD = np.uint32(0x9747B28C)

_MULTIPLIER_WORD = np.uint32(0x5BD1E995)

_POSITIVE_WORD = np.uint32(0x7FFFFFFF)

_TAIL_MASKS = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)

_MINIMUM_KEYS_FOR_COLUMN_PASS = 16
"""With fewer keys, a pass over columns costs more than hashing each key by itself."""

Words = npt.NDArray[np.uint32]


def assign_partitions(keys: Any, named: Any, partitions: int) -> Any:
    """Return ``named`` (int32) with nulls beside a key replaced by the partition that Kafka's producer would choose.

    ``keys`` is a binary array. Records with neither key nor partition stay null. ``partitions`` is at least 1.
    """
    if not named.null_count:
        return named
    wanted = named.is_null().to_numpy(zero_copy_only=False) & keys.is_valid().to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(wanted)
    if not len(rows):
        return named
    result = named.fill_null(0).to_numpy(zero_copy_only=False).copy()
    result[rows] = choose_partitions(keys.take(pa.array(rows)), partitions)
    known = named.is_valid().to_numpy(zero_copy_only=False) | wanted
    return pa.array(result, pa.int32(), mask=~known)


def choose_partitions(keys: Any, partitions: int) -> npt.NDArray[np.int32]:
    """Return Kafka's partition, from 0, of every key of a binary array without nulls."""
    return ((hash_keys_murmur2(keys) & _POSITIVE_WORD) % np.uint32(partitions)).astype(np.int32)


def hash_keys_murmur2(keys: Any) -> Words:
    """Return the murmur2 hash of every key of a binary array without nulls, as unsigned 32-bit numbers."""
    starts, lengths, data = _locate_words(keys)
    order = np.argsort(-lengths, kind="stable")
    few = int(np.count_nonzero(lengths // 4 > _count_common_words(lengths)))
    hashes = np.empty(len(lengths), np.uint32)
    for at in order[:few].tolist():
        hashes[at] = murmur2(keys[at].as_py()) & 0xFFFFFFFF
    rest = order[few:]
    hashes[rest] = _mix_hashes(starts[rest], lengths[rest], data)
    return hashes


def _locate_words(keys: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Words]:
    """Return start and length of every key, and the little-endian word at every byte of the data."""
    ends = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    starts, size = ends[:-1] - ends[0], int(ends[-1] - ends[0])
    # Three spare bytes after the data, so that the tail of the last key can be read as a word.
    data = np.zeros(size + 4, np.uint8)
    if size:
        data[:size] = np.frombuffer(keys.buffers()[2], np.uint8)[ends[0] : ends[-1]]
    words: Words = np.ndarray((size + 1,), "<u4", buffer=data, strides=(1,))
    return starts, np.diff(ends), words


def _count_common_words(lengths: npt.NDArray[np.int64]) -> int:
    """Return the number of words up to which enough keys are left to make a pass over columns worth it."""
    if len(lengths) <= _MINIMUM_KEYS_FOR_COLUMN_PASS:
        return -1
    return (
        int(
            np.partition(lengths, len(lengths) - _MINIMUM_KEYS_FOR_COLUMN_PASS)[
                len(lengths) - _MINIMUM_KEYS_FOR_COLUMN_PASS
            ]
        )
        // 4
    )


def _mix_hashes(starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], data: Words) -> Words:
    """Return the hashes of keys sorted by descending length."""
    hashes: Words = _SEED_WORD ^ lengths.astype(np.uint32)
    words = lengths // 4
    # The number of keys that have a word at each position; searchsorted needs ascending numbers.
    having = len(words) - np.searchsorted(words[::-1], np.arange(1, (words[0] if len(words) else 0) + 1), side="left")
    for position, count in enumerate(having.tolist()):
        word = data[starts[:count] + 4 * position] * _MULTIPLIER_WORD
        word ^= word >> np.uint32(24)
        word *= _MULTIPLIER_WORD
        hashes[:count] *= _MULTIPLIER_WORD
        hashes[:count] ^= word
    remainder = lengths % 4
    tail = data[starts + 4 * words] & _TAIL_MASKS[remainder]
    hashes = np.where(remainder > 0, (hashes ^ tail) * _MULTIPLIER_WORD, hashes)
    hashes ^= hashes >> np.uint32(13)
    hashes *= _MULTIPLIER_WORD
    return hashes ^ (hashes >> np.uint32(15))
