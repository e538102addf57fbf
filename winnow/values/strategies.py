"""The strategies by which the surviving record of a key is chosen, and the orders that they name.

Apart from the values that the steps exchange, because a command line that offers them need not load those.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Strategy(StrEnum):
    """How the surviving record of a key is chosen (KIP-280). ``criterion``: what of it is the highest."""

    criterion: str

    def __new__(cls, value: str, criterion: str = "") -> Self:
        """Make the strategy ``value``."""
        strategy = str.__new__(cls, value)
        strategy._value_ = value
        strategy.criterion = criterion
        return strategy

    OFFSET = "offset", "offset"
    TIMESTAMP = "timestamp", "timestamp"
    HEADER = "header", "version in a header"

    def describe_order(self, header: str | None) -> str:
        """Describe the order for people; ``header``: that of the version, for that strategy only."""
        if self is Strategy.HEADER:
            return f"highest version in header {header!r}, a missing one below all, then highest offset"
        return f"highest {self.criterion}" + ("" if self is Strategy.OFFSET else ", then highest offset")


def name_total_order(strategy: Strategy, header: str | None) -> str:
    """Return the name of the order that decides which record of a key wins; another order makes the whole log dirty."""
    return f"{strategy.value}:{header or ''}" if strategy is Strategy.HEADER else strategy.value
