"""What tests of the pipeline hear of its log."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def python_s_own_level_of_the_root_logger() -> Iterator[None]:
    """Airflow lowers it to INFO when it is imported, by whatever test of this process was collected first.

    Then events would stand among the warnings that a test asks for.
    """
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.WARNING)
    yield
    root.setLevel(before)
