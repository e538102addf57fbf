"""How much an expensive test does: little in `make test`, everything in `make test-long`."""

from __future__ import annotations

import os
from typing import Final

from hypothesis import settings

IS_LONG: Final = os.environ.get("HYPOTHESIS_PROFILE") == "long"
"""Whether this is `make test-long`."""

QUICK_EXAMPLES = 50
"""What the profile of `make test` gives any other property (tests/conftest.py)."""


def choose_examples(quick: int) -> int:
    """Return ``quick`` in `make test`, and as many as any other property gets in `make test-long`."""
    most = settings().max_examples
    return most if most > QUICK_EXAMPLES else quick
