"""What the columns of a typed table are called, and what is noted of each: shared by decoding and by the table."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

ALIASES: Final = b"aliases"
"""Key of a field's metadata: its former names, separated by commas."""
SIDE: Final = b"side"
"""Key of a column's metadata: which datum of the record it comes from, a :class:`Side`; without it the value."""


class Side(StrEnum):
    """The two datums of a record."""

    VALUE = "value"
    KEY = "key"


class SystemColumn(StrEnum):
    """The columns that every typed table has beside those of the topic, in their order."""

    RAW = "__raw"
    RAW_KEY = "__raw_key"
    ERROR = "__error"
    PARTITION = "__partition"
    OFFSET = "__offset"
    TIMESTAMP = "__timestamp"
    HEADERS = "__headers"
