"""Objects are opened by their bytes, whatever they are called; what is cut off is an error."""

from __future__ import annotations

import bz2
import gzip
import zlib
from pathlib import Path

import pyarrow as pa
import pytest

from winnow.errors import BadInputError
from winnow.sources.formats.compression import find_compression, open_decompressed, open_seekable, read_start
from winnow.sources.objects import StoredObject

DATA = b"".join(b"%d,a record of some length,%d\n" % (number, number * 7919) for number in range(20_000))
BLOCK = 1 << 15


def compress_java_snappy(data: bytes, block_bytes: int = BLOCK) -> bytes:
    """What Java's SnappyOutputStream writes."""
    out = [b"\x82SNAPPY\x00", (1).to_bytes(4, "big"), (1).to_bytes(4, "big")]
    for start in range(0, len(data), block_bytes):
        block = pa.compress(data[start : start + block_bytes], "snappy", asbytes=True)
        out += [len(block).to_bytes(4, "big"), block]
    return b"".join(out)


def compress_snappy_frames(data: bytes) -> bytes:
    """Snappy's standard framing, with a padding chunk and one that is not compressed."""
    out = [b"\xff\x06\x00\x00sNaPpY", b"\xfe\x03\x00\x00\x00\x00\x00", b"\x01\x09\x00\x00", bytes(4), data[:5]]
    for start in range(5, len(data), BLOCK):
        block = bytes(4) + pa.compress(data[start : start + BLOCK], "snappy", asbytes=True)
        out += [b"\x00" + len(block).to_bytes(3, "little"), block]
    return b"".join(out)


def compress_with_arrow(name: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, name) as stream:
        stream.write(DATA)
    return bytes(sink.getvalue())


COMPRESSED = {
    "gzip": gzip.compress(DATA),
    "zstd": compress_with_arrow("zstd"),
    "lz4": compress_with_arrow("lz4"),
    "bz2": bz2.compress(DATA),
    "snappy-java": compress_java_snappy(DATA),
    "snappy": compress_snappy_frames(DATA),
}


def store(folder: Path, data: bytes, name: str = "orders-0-0") -> StoredObject:
    path = folder / name
    path.write_bytes(data)
    return StoredObject(str(path), len(data))


def read_all(obj: StoredObject) -> bytes:
    with open_decompressed(obj) as stream:
        return stream.read()


@pytest.mark.parametrize("name", COMPRESSED)
def test_each_compression_is_found_by_its_bytes(tmp_path: Path, name: str) -> None:
    obj = store(tmp_path, COMPRESSED[name], "orders-0-0.json")
    assert find_compression(COMPRESSED[name]) == name
    assert read_all(obj) == DATA
    assert read_start(obj, 10) == DATA[:10]
    with open_seekable(obj) as stream:
        stream.seek(-5, 2)
        assert stream.read() == DATA[-5:]


@pytest.mark.parametrize("name", [name for name in COMPRESSED if name != "snappy"])
def test_streams_written_one_after_another_are_one(tmp_path: Path, name: str) -> None:
    assert read_all(store(tmp_path, COMPRESSED[name] * 2)) == DATA * 2


def test_data_without_compression_is_itself(tmp_path: Path) -> None:
    obj = store(tmp_path, DATA, "orders-0-0.gz")
    assert read_all(obj) == DATA
    with open_seekable(obj) as stream:
        stream.seek(7)
        assert stream.read(9) == DATA[7:16]
    assert read_all(store(tmp_path, b"", "empty")) == b""


@pytest.mark.parametrize("name", COMPRESSED)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_cut_off_object_is_named(tmp_path: Path, name: str, share: float) -> None:
    data = COMPRESSED[name]
    obj = store(tmp_path, data[: int(len(data) * share)])
    with pytest.raises(BadInputError, match=r"orders-0-0: .*cut off.*Nothing of this call landed"):
        read_all(obj)


@pytest.mark.parametrize("name", ["gzip", "zstd", "lz4", "bz2"])
def test_the_last_byte_counts(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInputError, match="cut off"):
        read_all(store(tmp_path, COMPRESSED[name][:-1]))


def test_an_empty_object_with_a_compressed_name_is_cut_off(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="empty, though its name says that it is compressed"):
        read_all(store(tmp_path, b"", "orders-0-0.gz"))


def test_damage_is_found(tmp_path: Path) -> None:
    data = bytearray(COMPRESSED["gzip"])
    data[-6] ^= 1
    with pytest.raises(BadInputError, match="damaged or cut off"):
        read_all(store(tmp_path, bytes(data)))


@pytest.mark.parametrize("size", [2**31 - 1, 2**32 - 1])
def test_a_block_that_claims_too_much_is_refused_before_memory_is_taken(tmp_path: Path, size: int) -> None:
    head = COMPRESSED["snappy-java"][:16]
    varint = b"\xff\xff\xff\xff\x0f"
    for data in (head + size.to_bytes(4, "big") + b"x", head + (6).to_bytes(4, "big") + varint + b"x"):
        with pytest.raises(BadInputError, match="damaged or cut off"):
            read_all(store(tmp_path, data))


def test_a_missing_object_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="there is no such file"):
        read_all(StoredObject(str(tmp_path / "none"), 0))


@pytest.mark.parametrize("data", [b"BZh4", b"BZh91AYB", b"", b"\x1f", b"PAR1", b"Obj\x01"])
def test_text_and_other_formats_are_no_compression(data: bytes) -> None:
    assert find_compression(data) is None


def test_an_empty_stream_is_found() -> None:
    assert find_compression(bz2.compress(b"")) == "bz2"


def test_deflate_alone_is_not_taken_for_gzip() -> None:
    assert find_compression(zlib.compress(DATA)) is None
