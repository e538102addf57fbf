"""What an erasure of keys leaves on record: keyed digests of the keys, and every file that held one.

A key stands here as HMAC-SHA-256 under a secret of the installation, over the life of the topic (length-prefixed) and
then the key, so that nobody without the secret can find out whose records they were. Nothing else of a key is kept.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from winnow.values.model import Segment

DIGEST_BYTES: Final = 32
"""Length of the digest of a key."""
KEY_ID_DIGITS: Final = 16
"""Hex digits of the name of a secret."""
_LENGTH_BYTES: Final = 4
_BLOCK_BYTES: Final = 64
"""Block of SHA-256."""
_INNER_PAD: Final = 0x36
_OUTER_PAD: Final = 0x5C


@dataclass(frozen=True, slots=True)
class ErasedFile:
    """A file that held an erased key. ``place``: where it was: ``live``, ``retired``, ``attempt`` or ``latest``.

    ``partition`` None: of several. ``records``: of erased keys in it. ``sha256``: of the whole file. ``since_ingest``:
    the ingest call that brought the newest of these records, as far as the ledgers tell; None: a run wrote the file, or
    the ledgers do not tell.
    """

    path: str
    place: str
    partition: int | None
    records: int
    size_bytes: int
    sha256: str
    since_ingest: str | None = None


@dataclass(frozen=True, slots=True)
class RemainingTombstone:
    """A tombstone that took the place of the newest erased record of a key: its key is still there."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class AbsenceScan:
    """What was read to prove that no erased key is left: files and their bytes, by place."""

    files: int
    size_bytes: int
    quarantine_files: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file that held a key when its erasure was asked for. ``place``: as of :class:`ErasedFile`."""

    path: str
    place: str
    records: int


@dataclass(frozen=True, slots=True)
class ErasurePlan:
    """What somebody asks another person to approve. Immutable: an approval holds for the digest of this document.

    ``keys_from``: the place of the file with the keys; None: they were typed, so the same call is made again.
    ``binding``: as :func:`compute_binding` makes it. ``keys_found``, ``records``, ``files_total``, ``size_bytes``: when
    it was asked for; what is appended until the erasure goes, too. ``files``: the first of them. ``outside``: places
    that are not reached.
    """

    request_id: str
    topic: str
    table_uuid: str
    requested_by: str
    requested_at_ms: int
    reason: str
    keys_from: str | None
    with_tombstone: bool
    break_pins: bool
    key_id: str
    binding: str
    keys: int
    keys_found: int
    records: int
    files_total: int
    size_bytes: int
    files: tuple[PlannedFile, ...] = ()
    outside: tuple[str, ...] = ()
    format_version: int = 1


@dataclass(frozen=True, slots=True)
class Approval:
    """Who asked for an erasure, and which other person approved it. ``plan_sha256``: of what was approved."""

    request_id: str
    plan_sha256: str
    requested_by: str
    requested_at_ms: int
    approved_by: str
    approved_at_ms: int


@dataclass(frozen=True, slots=True)
class ErasureDocument:
    """One erasure, or the lifting of some (``lifts``). Immutable.

    ``hashes``: the sorted digests of the keys, one after another, in base64. ``ends``: the log end of each partition at
    the erasure. ``files``: that held one. ``records``: that were erased. ``snapshots``: that named one of the files.
    ``scan``: what was read of the new log before the commit. ``outside``: places that were not touched, each with what
    to do there. ``previous``: sha256 of the erasure document before this one; None: it is the topic's first.
    ``approvals``: empty where one person is enough.
    """

    erasure_id: str
    topic: str
    table_uuid: str
    at_ms: int
    by: str
    reason: str
    key_id: str
    keys: int
    keys_found: int
    hashes: str
    ends: dict[int, int]
    records: int = 0
    files: tuple[ErasedFile, ...] = ()
    tombstones: tuple[RemainingTombstone, ...] = ()
    scan: AbsenceScan | None = None
    outside: tuple[str, ...] = ()
    previous: str | None = None
    lifts: bool = False
    approvals: tuple[Approval, ...] = ()
    format_version: int = 1


@dataclass(frozen=True, slots=True)
class ErasedPartition:
    """What the rewrite made of one topic partition, and says of it.

    ``pairs``: each segment that held a key, with those that are to take its place. ``records``: how many were of the
    erased keys, those that stay as tombstones too. ``tombstones``: their offsets.
    """

    partition: int
    pairs: tuple[tuple[Segment, tuple[Segment, ...]], ...]
    records: int
    tombstones: tuple[int, ...] = ()

    @property
    def replaced(self) -> list[Segment]:
        """The segments that held a key."""
        return [segment for segment, _ in self.pairs]

    @property
    def written(self) -> list[Segment]:
        """The segments that take their place."""
        return [each for _, after in self.pairs for each in after]


class KeyDigester:
    """Computes the digests of keys of one life of a topic: HMAC-SHA-256 (RFC 2104) of its id, with its length, and key.

    What the secret and the life contribute is computed once: a key takes less than half of the time of
    :func:`hmac.digest`, and an erasure of a large topic digests every key.

    Args:
        secret: that of the installation, 16 bytes or more.
        table_uuid: the life.
    """

    def __init__(self, secret: bytes, table_uuid: str) -> None:
        life = table_uuid.encode()
        block = (secret if len(secret) <= _BLOCK_BYTES else hashlib.sha256(secret).digest()).ljust(_BLOCK_BYTES, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ _INNER_PAD for byte in block))
        self._inner.update(len(life).to_bytes(_LENGTH_BYTES, "big") + life)
        self._outer = hashlib.sha256(bytes(byte ^ _OUTER_PAD for byte in block))

    def compute(self, key: bytes) -> bytes:
        """Compute the digest of ``key``."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(key)
        outer.update(inner.digest())
        return outer.digest()


def compute_key_id(secret: bytes) -> str:
    """Compute the name of a secret, by which another one is told from it; it tells nothing of the secret."""
    return hmac.digest(secret, b"winnow: name of the secret", "sha256").hex()[:KEY_ID_DIGITS]


def compute_binding(secret: bytes, digests: Iterable[bytes], *, with_tombstone: bool, break_pins: bool) -> str:
    """Compute the keyed digest by which an approval is bound to the keys, the topic's life and the options, in hex.

    Args:
        secret: that of the installation.
        digests: of the keys, which have the topic's life in them.
        with_tombstone: an option of the erasure.
        break_pins: another one.
    """
    options = bytes([with_tombstone, break_pins])
    message = b"winnow: what an approval is for" + options + b"".join(sorted(digests))
    return hmac.digest(secret, message, "sha256").hex()


def encode_digests(digests: Iterable[bytes]) -> str:
    """Encode digests as :attr:`ErasureDocument.hashes`."""
    return base64.b64encode(b"".join(sorted(digests))).decode()


def decode_digests(hashes: str) -> list[bytes]:
    """Decode what :func:`encode_digests` encoded."""
    data = base64.b64decode(hashes)
    return [data[at : at + DIGEST_BYTES] for at in range(0, len(data), DIGEST_BYTES)]
