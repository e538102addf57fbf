"""What names tell about records that do not say it themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from winnow.sources.layouts.objects import ArchiveObject


def repeat_partition(archive: ArchiveObject, count: int) -> Any:
    """Return the partition that the name tells, for each of ``count`` records; None if it tells none."""
    if archive.partition is None:
        return None
    return pa.array(np.full(count, archive.partition, np.int64))


def derive_offsets(archive: ArchiveObject, first: int, count: int) -> Any:
    """Return the offsets of ``count`` records after ``first`` others: the name tells that of the object's first one.

    None if the name tells none.
    """
    if archive.first_offset is None:
        return None
    start = archive.first_offset + first
    return pa.array(np.arange(start, start + count, dtype=np.int64))
