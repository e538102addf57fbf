"""Counts the bytes of a log that a restore has read, phase by phase."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from winnow.pipeline.restore.source_log import SourceLog
from winnow.values.model import OffsetRange

Watcher = Callable[[str, int, int], None]
"""Is told what is being done (``Measuring``, ``Writing``, ``Verifying``), and how many bytes are done and in all."""


def count_bytes(
    watch: Watcher, phase: str, source: SourceLog, ranges: Mapping[int, OffsetRange]
) -> Callable[[int], None]:
    """Begin ``phase``, which reads ``ranges``; the function returned takes in bytes as they are read."""
    total_bytes = sum(
        source.compute_size_bytes(number, offsets) for number, offsets in ranges.items() if offsets.start < offsets.end
    )
    done_bytes = 0

    def add(size_bytes: int) -> None:
        nonlocal done_bytes
        done_bytes += size_bytes
        watch(phase, min(done_bytes, total_bytes), total_bytes)

    watch(phase, 0, total_bytes)
    return add
