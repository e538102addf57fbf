"""What ``winnow compare`` answers: two sides, counts, coordinates and a sentence; fields are named as in ``--json``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from winnow.engine.shadow_request import DiffRequest, DiffResult, DiffSide, RecordCoordinates, RecordOrder
from winnow.model import Strategy
from winnow.pipeline.assess import TopicView


@dataclass(frozen=True, slots=True)
class ComparisonSide:
    """What one order would leave of everything compared. ``order`` says it in words."""

    strategy: Strategy
    header: str | None
    order: str
    records_kept: int
    tombstones_expired: int
    estimated_bytes: int
    differing_tombstones: int


@dataclass(frozen=True, slots=True)
class DifferingKey:
    """One key with two winners: coordinates, never bytes."""

    partition: int
    present: RecordCoordinates
    other: RecordCoordinates


@dataclass(frozen=True, slots=True)
class PartitionComparison:
    """One partition of the comparison: the records in [``log_start_offset``, ``first_uncleanable_offset``)."""

    partition: int
    log_start_offset: int
    first_uncleanable_offset: int
    records: int
    records_keyless: int
    keys: int
    keys_differing: int
    headers_missing: int
    headers_malformed: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both choices over one topic. Partitions in which nothing is cleanable are left out.

    ``headers_*``: records without the header, and with a value that is no 8-byte long; None where no order looks at
    one.
    """

    topic: str
    as_of_ms: int
    sentence: str
    records: int
    records_keyless: int
    keys: int
    keys_differing: int
    present: ComparisonSide
    other: ComparisonSide
    headers_missing: int | None
    headers_malformed: int | None
    partitions_cleaned_before: int
    notices: tuple[str, ...]
    sample: tuple[DifferingKey, ...]
    partitions: tuple[PartitionComparison, ...]


def build_comparison(view: TopicView, request: DiffRequest, result: DiffResult) -> Comparison:
    """The answer to ``request`` over the topic that ``view`` shows."""
    parts = result.partitions
    ranges = {partition.partition: partition for partition in request.partitions}
    sample = sorted(
        (DifferingKey(part.partition, key.present, key.other) for part in parts for key in part.sample),
        key=lambda key: (key.present.offset, key.partition),
    )
    keys, differing = sum(part.keys for part in parts), sum(part.keys_differing for part in parts)
    looks_at_header = request.header is not None
    cleaned = sum(log.state.strategy is not None or bool(log.state.history) for log in view.partitions)
    return Comparison(
        topic=request.topic,
        as_of_ms=request.as_of_ms,
        sentence=_format_sentence(request, keys, differing),
        records=sum(part.records for part in parts),
        records_keyless=sum(part.records_keyless for part in parts),
        keys=keys,
        keys_differing=differing,
        present=_build_side(request.present, [part.present for part in parts]),
        other=_build_side(request.other, [part.other for part in parts]),
        headers_missing=sum(part.headers_missing for part in parts) if looks_at_header else None,
        headers_malformed=sum(part.headers_malformed for part in parts) if looks_at_header else None,
        partitions_cleaned_before=cleaned,
        notices=tuple(_build_notices(view, cleaned)),
        sample=tuple(sample[: request.sample]),
        partitions=tuple(
            PartitionComparison(
                partition=part.partition,
                log_start_offset=ranges[part.partition].start_offset,
                first_uncleanable_offset=ranges[part.partition].end_offset,
                records=part.records,
                records_keyless=part.records_keyless,
                keys=part.keys,
                keys_differing=part.keys_differing,
                headers_missing=part.headers_missing,
                headers_malformed=part.headers_malformed,
            )
            for part in parts
        ),
    )


def _build_side(order: RecordOrder, sides: Sequence[DiffSide]) -> ComparisonSide:
    def total(name: str) -> int:
        return sum(int(getattr(side, name)) for side in sides)

    return ComparisonSide(
        strategy=order.strategy,
        header=order.header,
        order=order.words,
        records_kept=total("records_kept"),
        tombstones_expired=total("tombstones_expired"),
        estimated_bytes=total("estimated_bytes"),
        differing_tombstones=total("differing_tombstones"),
    )


def _format_sentence(request: DiffRequest, keys: int, differing: int) -> str:
    if not request.partitions:
        return f"Nothing of {request.topic} is cleanable at this as-of, so there is nothing to compare."
    if request.other == request.present:
        return f"{request.topic} has this strategy already: none of its {keys:,} keys would have another winner."
    return (
        f"Under {_format_order(request.other)} instead of {_format_order(request.present)}, {differing:,} of {keys:,} keys of "
        f"{request.topic} would have another winner."
    )


def _format_order(order: RecordOrder) -> str:
    return f"strategy {order.strategy.value}" + (f" ({order.header})" if order.header is not None else "")


def _build_notices(view: TopicView, cleaned: int) -> list[str]:
    found: list[str] = []
    if cleaned:
        found.append(
            f"{cleaned:,} of {len(view.partitions):,} partition(s) of {view.log.topic} were cleaned before: records "
            "that earlier compactions removed cannot take part, and no strategy brings them back."
        )
    if not view.config.compacts:
        found.append(f"The policy of {view.log.topic} has no compact, so no run would choose between records now.")
    return found
