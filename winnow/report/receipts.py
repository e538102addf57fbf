"""Formats receipts as paragraphs and eligibility reasons as clauses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from winnow.clock import MAXIMUM_CLOCK_SKEW_MS, format_duration, format_ms
from winnow.values.counts import format_count
from winnow.values.model import Reason, Status
from winnow.values.results import PartitionReceipt, Receipt

_EXPLANATIONS = {
    Reason.IN_PROGRESS: "another run holds the topic",
    Reason.UNCLEANABLE: "its last result did not pass validation; it is tried again later",
    Reason.PAUSED: "its compaction is paused",
    Reason.POLICY_DELETE_ONLY: "cleanup.policy does not include compact",
    Reason.EMPTY: "it holds no records",
    Reason.STRATEGY_CHANGED: "compaction.strategy changed, so the whole log is dirty",
    Reason.MAX_COMPACTION_LAG: "its oldest dirty record is older than max.compaction.lag.ms",
    Reason.DIRTY_RATIO: "its dirty ratio is above min.cleanable.dirty.ratio",
    Reason.TOMBSTONES_EXPIRED: "tombstones have passed their delete horizon, or were never given one",
    Reason.RETENTION: "segments are past retention",
    Reason.CLEAN: "nothing was appended since its last compaction",
    Reason.NO_CLOSED_SEGMENT: "dirty records are in the active segment, not closed yet by segment.bytes or segment.ms",
    Reason.INSIDE_MIN_LAG: "dirty records are younger than min.compaction.lag.ms",
    Reason.NOT_DIRTY_ENOUGH: "its dirty ratio is not above min.cleanable.dirty.ratio",
}


def explain_reason(reason: Reason) -> str:
    """Format ``reason`` as a clause."""
    return _EXPLANATIONS[reason]


_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

_STEP = 1024

MAXIMUM_PLACES = 5
"""Maximum positions of malformed records that a paragraph names; receipts have more."""


def format_human_bytes(size_bytes: float) -> str:
    """Format bytes for people: a few digits and a binary unit."""
    number = 0
    while abs(size_bytes) >= _STEP and number < len(_UNITS) - 1:
        size_bytes /= _STEP
        number += 1
    return f"{size_bytes:.0f} B" if number == 0 else f"{size_bytes:.1f} {_UNITS[number]}"


@dataclass(frozen=True, slots=True)
class PlanAgainstActual:
    """The plan's estimates and the actual results, over the partitions whose plan had an estimate.

    None if no partition's plan had one. Deviations are percentages of what was expected, positive when more came out.
    """

    expected_records_kept: int | None
    records_kept: int | None
    records_kept_deviation_percent: float | None
    expected_bytes_out: int | None
    bytes_out: int | None
    bytes_out_deviation_percent: float | None


def compare_with_plan(receipt: Receipt) -> PlanAgainstActual:
    """Compare ``receipt`` with the estimates in its plan."""
    records = [(p.expected_records_kept, p.records_kept) for p in receipt.partitions]
    sizes = [(p.expected_bytes_out, p.bytes_out) for p in receipt.partitions]
    return PlanAgainstActual(*_compare_figures(records), *_compare_figures(sizes))


def _compare_figures(pairs: Iterable[tuple[int | None, int]]) -> tuple[int | None, int | None, float | None]:
    known = [(expected, actual) for expected, actual in pairs if expected is not None]
    if not known:
        return None, None, None
    expected, actual = sum(pair[0] for pair in known), sum(pair[1] for pair in known)
    return expected, actual, round(100 * (actual - expected) / expected, 1) if expected else None


def format_receipt(receipt: Receipt) -> str:
    """Format a receipt as one paragraph: range, records and bytes in and out, removals by rule, evidence."""
    if receipt.status is not Status.PUBLISHED:
        return receipt.message
    sentences = [
        *_describe_cleaning(receipt),
        *_describe_retirement(receipt),
        *_list_notices(receipt),
        *_describe_estimate(receipt),
    ]
    sentences += describe_simulation(receipt.partitions, as_of_ms=receipt.as_of_ms, now_ms=receipt.finished_at_ms)
    sentences.append(f"Published as snapshot {receipt.snapshot_id} of plan {receipt.plan_id}.")
    if receipt.data_docs:
        sentences.append(f"Quality: {receipt.data_docs}")
    return " ".join(sentences)


def describe_simulation(partitions: Sequence[PartitionReceipt], *, as_of_ms: int, now_ms: int) -> list[str]:
    """Describe what a run with an as-of ahead of the present (``now_ms``) did too early by the wall clock.

    Empty for any other run.
    """
    tombstones = sum(part.tombstones_expired_early for part in partitions)
    offsets = sum(part.offsets_cleaned_early for part in partitions)
    is_simulated = as_of_ms > now_ms + MAXIMUM_CLOCK_SKEW_MS
    if not is_simulated and not tombstones and not offsets:
        return []
    text = f"Simulated: the as-of {format_ms(as_of_ms)} lies {format_duration(as_of_ms - now_ms)} ahead of the present."
    if not tombstones and not offsets:
        return [f"{text} By the wall clock, nothing was removed before its time."]
    found = [text]
    if tombstones:
        found.append(
            f"Up to {format_count(tombstones, 'tombstone')} expired before their delete horizon by the wall clock: "
            "readers who saw the deleted values may miss the deletes."
        )
    if offsets:
        found.append(
            f"{format_count(offsets, 'offset')} {'was' if offsets == 1 else 'were'} cleaned that "
            "min.compaction.lag.ms or the active segment would still exclude at present."
        )
    return found


def _describe_cleaning(receipt: Receipt) -> list[str]:
    parts = [p for p in receipt.partitions if not _is_retention_alone(p)]
    if not parts:
        return [f"{receipt.topic} as of {format_ms(receipt.as_of_ms)}: nothing was compacted."]
    records_in, kept = sum(p.records_in for p in parts), sum(p.records_kept for p in parts)
    superseded, expired = sum(p.records_superseded for p in parts), sum(p.tombstones_expired for p in parts)
    keyless = sum(p.records_keyless for p in parts)
    bytes_in, bytes_out = sum(p.bytes_in for p in parts), sum(p.bytes_out for p in parts)
    saved = 100 * (bytes_in - bytes_out) / bytes_in if bytes_in else 0.0
    newly_cleaned = sum(max(0, p.next_first_dirty_offset - p.first_dirty_offset) for p in parts)
    found = [
        (
            f"Compacted {receipt.topic} as of {format_ms(receipt.as_of_ms)}: {format_count(len(parts), 'partition')}, "
            f"{newly_cleaned:,} offsets newly cleaned."
        ),
        (
            f"Of {records_in:,} records {kept:,} were kept: {superseded:,} were superseded by the record of their key "
            f"that stays, {expired:,} tombstones had passed their delete horizon"
            f"{f', {keyless:,} had no key and moved to the quarantine' if keyless else ''}."
        ),
        (
            f"{format_human_bytes(bytes_in)} became {format_human_bytes(bytes_out)} ({saved:.1f} % less to read; the "
            "old files are removed after their grace period)."
        ),
    ]
    if any(p.reason is Reason.STRATEGY_CHANGED for p in parts):
        found.append(
            "The strategy had changed, so the whole log was compacted again; records that were removed under the old "
            "one cannot return."
        )
    return found


def _is_retention_alone(part: PartitionReceipt) -> bool:
    return part.reason is Reason.RETENTION and not part.records_in


def _describe_retirement(receipt: Receipt) -> list[str]:
    records = sum(p.records_retired for p in receipt.partitions)
    size_bytes = sum(p.bytes_retired for p in receipt.partitions)
    if not records and not size_bytes:
        return []
    return [f"Retention removed {format_count(records, 'record')} ({format_human_bytes(size_bytes)}) from the log."]


def _list_notices(receipt: Receipt) -> list[str]:
    """List positions that a person should check, never their contents."""
    parts = receipt.partitions
    missing, malformed = sum(p.headers_missing for p in parts), sum(p.headers_malformed for p in parts)
    elsewhere = sum(p.keys_elsewhere for p in parts)
    found = []
    if missing:
        found.append(
            f"{format_count(missing, 'record')} came without the version header, which loses against every version."
        )
    if malformed:
        places = [f"{receipt.topic}-{p.partition} at {offset:,}" for p in parts for offset in p.malformed_offsets]
        listed = ", ".join(places[:MAXIMUM_PLACES])
        more = malformed - len(places[:MAXIMUM_PLACES])
        found.append(
            f"{format_count(malformed, 'record')} came with a version header that is not an 8-byte long and counts as "
            f"missing{f': {listed}' if listed else ''}{f' and {more:,} more' if listed and more else ''}."
        )
    if elsewhere:
        found.append(
            f"{format_count(elsewhere, 'key')} would now go to another partition because partitions were added: an "
            "older record of such a key may stay in its partition, beside a newer one in the other."
        )
    return found


def _describe_estimate(receipt: Receipt) -> list[str]:
    found = compare_with_plan(receipt)
    if found.expected_records_kept is None or found.records_kept is None:
        return []
    text = f"The plan expected {found.expected_records_kept:,} records to be kept"
    text += _format_deviation(found.records_kept_deviation_percent)
    if found.expected_bytes_out is not None:
        deviation = _format_deviation(found.bytes_out_deviation_percent)
        text += f" and {format_human_bytes(found.expected_bytes_out)} to remain{deviation}"
    return [f"{text}."]


def _format_deviation(deviation_percent: float | None) -> str:
    return "" if deviation_percent is None else f" (it was {deviation_percent:+.1f} %)"


__all__ = ["format_human_bytes", "format_receipt"]
