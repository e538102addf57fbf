"""Kafka's default partitioner for records with a key: murmur2 of the key bytes, made positive, modulo the partitions.

Source: ``org.apache.kafka.common.utils.Utils.murmur2`` and ``toPositive``,
``org.apache.kafka.clients.producer.internals.BuiltInPartitioner.partitionForKey``.
"""

from __future__ import annotations

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_SHIFT = 24
_WORD = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF


def murmur2(data: bytes) -> int:
    """The 32-bit murmur2 hash of ``data`` with Kafka's seed, as a signed number: -2^31 to 2^31 - 1."""
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
    """The partition, 0 to ``partitions`` - 1, to which a Java producer sends ``key``. ``partitions`` is at least 1.

    The sign bit is masked off as Kafka does (``toPositive``), which is not the absolute value. An empty key is a key.
    """
    return (murmur2(key) & _POSITIVE) % partitions
