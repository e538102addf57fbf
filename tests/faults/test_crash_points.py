"""The named points of a crash are where they are said to be."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from tests.faults import crash_points


def test_every_point_names_a_function_that_there_is() -> None:
    """A function that was renamed fails here at once, and not in the processes that were to die in it."""
    source = Path(crash_points.__file__).read_text(encoding="utf-8")
    points = re.findall(r"kill_(?:before|after)\((\w+), \"(\w+)\"", source)
    assert len(points) == len(crash_points.MOMENTS)
    module = import_module(crash_points.__name__)
    assert [(owner, name) for owner, name in points if not hasattr(getattr(module, owner), name)] == []
