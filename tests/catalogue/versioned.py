"""Records with versions, for the strategies that look at more than the offset."""

from __future__ import annotations

from winnow.model import Headers, Record

HEADER = "version"


def encode_version(number: int) -> bytes:
    """The documented encoding of a version: 8 bytes, big-endian, signed."""
    return number.to_bytes(8, "big", signed=True)


def build_version_header(number: int | None) -> Headers | None:
    """The headers of a record of version ``number``."""
    return None if number is None else ((HEADER, encode_version(number)),)


def build_versioned_record(
    offset: int, version: int | None, strategy: str, key: bytes = b"k", value: bytes | None = b"v"
) -> Record:
    """A record whose version lies where ``strategy`` looks for it; the other place holds a misleading one."""
    misleading = 1_000 - offset
    if strategy == "timestamp":
        return Record(offset, key, value, version, build_version_header(misleading))
    return Record(offset, key, value, misleading, build_version_header(version))


def build_strategy_config(strategy: str) -> dict[str, str]:
    """The topic configuration of ``strategy``."""
    return {"compaction_strategy": strategy} | ({"compaction_strategy_header": HEADER} if strategy == "header" else {})
