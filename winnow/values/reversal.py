"""What taking a published run back needs: it lies with the run's receipt beside the table, and nobody else reads it.

It is stored for every run and read for few, so it is compressed: a tenth of the receipt of a topic of many partitions.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from winnow.errors import WinnowError
from winnow.values import documents
from winnow.values.model import Segment
from winnow.values.results import Receipt
from winnow.values.topic_state import Append, PartitionState


@dataclass(frozen=True, slots=True)
class PartitionReversal:
    """One topic partition before and after a change of its log.

    ``before``, ``after``: offsets, strategy and history; of the appends only those that the change dropped, in
    ``before``. ``removed``: segments that left the log; ``added``: paths of those that came. ``compacts``: it moved the
    checkpoint; False: it took whole segments, or raised the log start.
    """

    partition: int
    before: PartitionState
    after: PartitionState
    compacts: bool
    removed: tuple[Segment, ...] = ()
    added: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PublishedRun(Receipt):
    """A receipt as it lies beside the table. ``reversal``: as :func:`encode_reversals` has it; None: not recorded."""

    reversal: str | None = None


def encode_reversals(reversals: Sequence[PartitionReversal]) -> str:
    """Encode what taking a run back needs: canonical JSON, compressed by zlib, in base64."""
    return base64.b64encode(zlib.compress(documents.dump_json(tuple(reversals)))).decode()


def decode_reversals(text: str) -> tuple[PartitionReversal, ...]:
    """Decode what :func:`encode_reversals` encoded.

    Raises:
        WinnowError: it is not that.
    """
    try:
        data = zlib.decompress(base64.b64decode(text, validate=True))
    except (ValueError, zlib.error):
        raise WinnowError("What a receipt holds for taking its run back cannot be decoded.") from None
    return documents.load_json(tuple[PartitionReversal, ...], data)


def make_reversal(
    partition: int,
    before: PartitionState,
    after: PartitionState,
    *,
    compacts: bool,
    removed: tuple[Segment, ...] = (),
    added: tuple[str, ...] = (),
) -> PartitionReversal:
    """Make what taking back a change of one partition needs, from its states before and after."""
    dropped = tuple(entry for entry in before.appends if entry not in after.appends)
    return PartitionReversal(partition, _trim(before, dropped), _trim(after, ()), compacts, removed, added)


def _trim(state: PartitionState, appends: tuple[Append, ...]) -> PartitionState:
    return PartitionState(
        log_start_offset=state.log_start_offset,
        log_end_offset=state.log_end_offset,
        first_dirty_offset=state.first_dirty_offset,
        strategy=state.strategy,
        history=state.history,
        appends=appends,
    )
