"""Kafka's default partitioner, against the vectors of Kafka's own UtilsTest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winnow.files.partitioner import choose_partition, murmur2


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_kafkas_own_test_vectors(key: bytes, expected: int) -> None:
    """The hash is the one that Java producers compute, whatever remainder the length leaves modulo four."""
    assert murmur2(key) == expected


def test_bytes_above_127_are_read_as_unsigned() -> None:
    """A tail byte with its top bit set is masked, not sign-extended, as Java would do without the mask."""
    assert murmur2(b"\xff") == _one_byte(0xFF)
    assert murmur2(b"\x80") == _one_byte(0x80)


def _one_byte(byte: int) -> int:
    """The hash of one byte, written out: seed, length and byte mixed once, then the two closing shifts."""
    mixed = ((0x9747B28C ^ 1 ^ byte) * 0x5BD1E995) % 2**32
    mixed = ((mixed ^ (mixed >> 13)) * 0x5BD1E995) % 2**32
    mixed ^= mixed >> 15
    return mixed - 2**32 if mixed >= 2**31 else mixed


def test_negative_hash_loses_its_sign_bit_before_the_modulo() -> None:
    """Kafka masks the sign bit instead of taking the absolute value, so -973932308 becomes 1173551340."""
    assert choose_partition(b"21", 2**31) == 1173551340
    assert choose_partition(b"21", 7) == 1173551340 % 7
    assert choose_partition(b"21", 7) != 973932308 % 7


def test_positive_hash_is_taken_modulo_the_partitions() -> None:
    """A hash without sign bit goes into the modulo as it is."""
    assert choose_partition(b"abc", 10) == 7


def test_empty_key_has_a_partition() -> None:
    """An empty key is a key, unlike no key; its hash is that of zero bytes."""
    assert choose_partition(b"", 2**31) == murmur2(b"") & 0x7FFFFFFF


@given(key=st.binary(max_size=40), partitions=st.integers(min_value=1, max_value=1000))
def test_every_key_has_one_partition_of_those_there_are(key: bytes, partitions: int) -> None:
    """The result is in range, the hash fits 32 bits, and a single partition takes everything."""
    assert -(2**31) <= murmur2(key) < 2**31
    assert 0 <= choose_partition(key, partitions) < partitions
    assert choose_partition(key, 1) == 0
