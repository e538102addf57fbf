"""The vectorised partitioner against Kafka's own vectors and a murmur2 written out once more."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from winnow.files.partitioner import assign_partitions, hash_keys_murmur2


def written_out(data: bytes) -> int:
    """Kafka's ``Utils.murmur2``, word by word, unsigned."""
    mixed = 0x9747B28C ^ len(data)
    end = len(data) // 4 * 4
    for at in range(0, end, 4):
        word = int.from_bytes(data[at : at + 4], "little") * 0x5BD1E995 % 2**32
        word = (word ^ word >> 24) * 0x5BD1E995 % 2**32
        mixed = mixed * 0x5BD1E995 % 2**32 ^ word
    if data[end:]:
        mixed = (mixed ^ int.from_bytes(data[end:], "little")) * 0x5BD1E995 % 2**32
    mixed = (mixed ^ mixed >> 13) * 0x5BD1E995 % 2**32
    return mixed ^ mixed >> 15


KAFKAS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize("repeated", [1, 20])
def test_column_of_keys_has_kafkas_own_hashes(repeated: int) -> None:
    """Few keys are hashed one by one and many together; both give what Kafka's UtilsTest expects."""
    hashes = hash_keys_murmur2(pa.array(list(KAFKAS) * repeated, pa.binary()))
    assert hashes.view("i4").tolist() == list(KAFKAS.values()) * repeated


@given(keys=st.lists(st.binary(max_size=70), max_size=60), copies=st.integers(1, 3), skipped=st.integers(0, 5))
def test_column_of_keys_hashes_as_each_key_by_itself(keys: list[bytes], copies: int, skipped: int) -> None:
    """Any mix of lengths, the empty key among them, and any slice of a longer column."""
    column = pa.array(keys * copies, pa.binary()).slice(skipped)
    assert hash_keys_murmur2(column).tolist() == [written_out(key) for key in column.to_pylist()]


def test_few_very_long_keys_among_short_ones_hash_alike() -> None:
    """Keys far longer than the rest go their own way to the same hash."""
    keys = [b"k%d" % number for number in range(50)] + [b"long" * 5000, b"longer" * 5001]
    assert hash_keys_murmur2(pa.array(keys, pa.binary())).tolist() == [written_out(key) for key in keys]


@given(
    records=st.lists(st.tuples(st.none() | st.binary(max_size=9), st.none() | st.integers(0, 6)), max_size=50),
)
def test_only_records_with_a_key_and_without_a_partition_are_given_one(
    records: list[tuple[bytes | None, int | None]],
) -> None:
    """A named partition stays, a keyless record without one stays without, a key gets (hash without sign) mod 7."""
    keys = pa.array([key for key, _ in records], pa.binary())
    named = pa.array([partition for _, partition in records], pa.int32())
    expected = [
        partition if partition is not None or key is None else (written_out(key) & 0x7FFFFFFF) % 7
        for key, partition in records
    ]
    assert assign_partitions(keys, named, 7).to_pylist() == expected
