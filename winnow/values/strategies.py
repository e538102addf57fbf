"""The strategies by which the surviving record of a key is chosen, and the orders that they name.

Apart from the values that the steps exchange, because a command line that offers them need not load those.
"""

from __future__ import annotations

from enum import StrEnum


class Strategy(StrEnum):
    """How the surviving record of a key is chosen (KIP-280)."""

    OFFSET = "offset"
    TIMESTAMP = "timestamp"
    HEADER = "header"


def name_total_order(strategy: Strategy, header: str | None) -> str:
    """Return the name of the order that decides which record of a key wins; another order makes the whole log dirty."""
    return f"{strategy.value}:{header or ''}" if strategy is Strategy.HEADER else strategy.value
