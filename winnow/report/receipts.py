"""A receipt as one paragraph, as Kafka's cleaner logs one after each cleaning."""

from __future__ import annotations

from winnow.clock import format_ms
from winnow.model import Receipt, Status

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP = 1024


def human_bytes(size_bytes: float) -> str:
    """Bytes for people: a few digits and a binary unit."""
    number = 0
    while abs(size_bytes) >= _STEP and number < len(_UNITS) - 1:
        size_bytes /= _STEP
        number += 1
    return f"{size_bytes:.0f} B" if number == 0 else f"{size_bytes:.1f} {_UNITS[number]}"


def paragraph(receipt: Receipt) -> str:
    """One paragraph: range, records and bytes in and out, what was removed and by which rule, where the evidence is."""
    if receipt.status is not Status.PUBLISHED:
        return receipt.message
    parts = receipt.partitions
    records_in, kept = sum(p.records_in for p in parts), sum(p.records_kept for p in parts)
    superseded = sum(p.records_superseded for p in parts)
    expired, keyless = sum(p.tombstones_expired for p in parts), sum(p.records_keyless for p in parts)
    bytes_in, bytes_out = sum(p.bytes_in for p in parts), sum(p.bytes_out for p in parts)
    saved = 100 * (bytes_in - bytes_out) / bytes_in if bytes_in else 0.0
    newly_cleaned = sum(max(0, p.next_first_dirty_offset - p.first_dirty_offset) for p in parts)
    partitions = f"{len(parts)} partition{'s' if len(parts) != 1 else ''}"
    text = (
        f"Compacted {receipt.topic} as of {format_ms(receipt.as_of_ms)}: {partitions}, "
        f"{newly_cleaned:,} offsets newly cleaned. Of {records_in:,} records {kept:,} were kept: "
        f"{superseded:,} were superseded by a later record of their key, {expired:,} tombstones had passed their "
        "delete horizon"
    )
    text += f", {keyless:,} had no key. " if keyless else ". "
    text += (
        f"{human_bytes(bytes_in)} became {human_bytes(bytes_out)} ({saved:.1f} % less to read; the old files go after "
        f"their grace). Published as snapshot {receipt.snapshot_id} of plan {receipt.plan_id}."
    )
    return text + (f" Quality: {receipt.data_docs}" if receipt.data_docs else "")
