"""An additive digest over a topic's live segments, carried from commit to commit in the state.

Every segment has a 128-bit digest of all its fields, and the topic's is their sum modulo 2**128: a commit adds what it
adds and subtracts what it removes, so its cost follows the change and not the table. Whoever lists all segments of a
head compares the sum of what was found. It finds damage and mistakes; it is no signature.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from winnow.errors import DamagedMetadataError
from winnow.model import Segment, SegmentDigest

NO_SEGMENTS: Final = SegmentDigest(0, 0, 0, f"{0:032x}")
_DIGEST_BYTES: Final = 16
_MODULUS: Final = 1 << 8 * _DIGEST_BYTES


def compute_segment_digest(segments: Iterable[Segment]) -> SegmentDigest:
    """The digest of ``segments``, in whatever order."""
    count, records, size_bytes, value = _sum_digests(segments)
    return SegmentDigest(count, records, size_bytes, f"{value:032x}")


def update_segment_digest(
    before: SegmentDigest, *, added: Iterable[Segment], removed: Iterable[Segment]
) -> SegmentDigest:
    """``before`` after segments came in and went out."""
    plus, minus = _sum_digests(added), _sum_digests(removed)
    return SegmentDigest(
        before.segments + plus[0] - minus[0],
        before.records + plus[1] - minus[1],
        before.size_bytes + plus[2] - minus[2],
        f"{(int(before.value, 16) + plus[3] - minus[3]) % _MODULUS:032x}",
    )


def require_segments(topic: str, recorded: SegmentDigest, found: SegmentDigest, manifest_list: str) -> None:
    """Check the digest of the segments that a head's manifests name against the one in the head's state.

    Raises:
        DamagedMetadataError: they differ; says how, and which manifest list was read.
    """
    if found == recorded:
        return
    if (found.segments, found.records, found.size_bytes) == (recorded.segments, recorded.records, recorded.size_bytes):
        how = f"{_format_figures(found)}, as committed, but with another path, partition, offset, timestamp or count"
    else:
        how = f"{_format_figures(found)} where {_format_figures(recorded)} were committed"
    raise DamagedMetadataError(
        f"The manifests of topic {topic} do not name the segments that were committed: they name {how}. The manifest "
        f"list {manifest_list}, or a manifest that it names, was changed or damaged. Nothing was changed. Restore "
        "these files from a backup or the object store's versions, then run it again."
    )


def _format_figures(digest: SegmentDigest) -> str:
    return f"{digest.segments:,} segment(s) with {digest.records:,} records in {digest.size_bytes:,} bytes"


def _sum_digests(segments: Iterable[Segment]) -> tuple[int, int, int, int]:
    count = records = size_bytes = value = 0
    for each in segments:
        count += 1
        records += each.records
        size_bytes += each.size_bytes
        fields = (
            f"{each.partition} {each.first_offset} {each.last_offset} {each.records} {each.size_bytes} "
            f"{each.min_timestamp_ms} {each.max_timestamp_ms} {each.tombstones} {each.keyless} {each.path}"
        )
        value += int.from_bytes(blake2b(fields.encode(errors="surrogateescape"), digest_size=_DIGEST_BYTES).digest())
    return count, records, size_bytes, value % _MODULUS
