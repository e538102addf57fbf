"""Which offsets of a rewrite's outputs were not among its inputs. One input segment's offsets are held at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from winnow.errors import BadInputError
from winnow.files.segment_figures import Offsets, read_offsets
from winnow.model import Segment
from winnow.quality import reading


class InputOffsets:
    """The offsets of the inputs of one rewrite group, read segment by segment as outputs ask for them.

    Outputs come in offset order, so each input is read once; disorder costs another read, never a wrong answer.
    """

    def __init__(self, inputs: Sequence[Segment], *, threads: int) -> None:
        self._inputs = inputs
        self._threads = threads
        self._loaded: tuple[str, Offsets] | None = None
        self._unreadable: set[str] = set()

    @property
    def unreadable(self) -> frozenset[str]:
        """Inputs that could not be read. Their offsets count as unknown: none is called foreign because of them."""
        return frozenset(self._unreadable)

    def foreign(self, offsets: Offsets) -> int:
        """How many of ``offsets`` are not offsets of the inputs.

        Raises:
            ServiceError: the object store cannot be reached.
        """
        if len(offsets) == 0:
            return 0
        known: npt.NDArray[np.bool_] = np.zeros(len(offsets), dtype=np.bool_)
        lowest, highest = int(offsets.min()), int(offsets.max())
        for segment in self._inputs:
            if segment.last_offset < lowest or segment.first_offset > highest:
                continue
            known |= self._known(segment, offsets)
        return int((~known).sum())

    def _known(self, segment: Segment, offsets: Offsets) -> npt.NDArray[np.bool_]:
        held = self._offsets(segment)
        if segment.path in self._unreadable:
            inside: npt.NDArray[np.bool_] = (offsets >= segment.first_offset) & (offsets <= segment.last_offset)
            return inside
        if len(held) == 0:
            return np.zeros(len(offsets), dtype=np.bool_)
        places = np.minimum(np.searchsorted(held, offsets), len(held) - 1)
        found: npt.NDArray[np.bool_] = held[places] == offsets
        return found

    def _offsets(self, segment: Segment) -> Offsets:
        if self._loaded is not None and self._loaded[0] == segment.path:
            return self._loaded[1]
        self._loaded = None
        parts: list[Offsets] = [np.empty(0, dtype=np.int64)]
        try:
            parts.extend(read_offsets(b) for b in reading.read_batches(segment.path, ["offset"], threads=self._threads))
        except BadInputError:
            self._unreadable.add(segment.path)
        held = np.concatenate(parts)
        if (held[1:] < held[:-1]).any():
            held.sort()
        self._loaded = (segment.path, held)
        return held
