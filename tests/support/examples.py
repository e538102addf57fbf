"""How many examples an expensive property gets."""

from __future__ import annotations

from hypothesis import settings

QUICK_EXAMPLES = 50
"""What the profile of `make test` gives any other property (tests/conftest.py)."""


def choose_examples(quick: int) -> int:
    """Return ``quick`` in `make test`, and as many as any other property gets in `make test-long`."""
    most = settings().max_examples
    return most if most > QUICK_EXAMPLES else quick
