"""Imports Great Expectations without what it loads at once and Winnow's checks do not use: a third of its import."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType
from typing import Final

_UNUSED: Final = frozenset({"boto3", "botocore", "pyspark"})
"""Libraries of stores and engines that it does without: checks run on pandas, Data Docs are on a local disk."""
_LATER: Final = frozenset({"altair", "scipy.stats"})
"""Loaded when something of them is used: for charts, and for expectations about distributions."""


class _NarrowFinder:
    """An import finder for one thread; other threads find all."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raise for libraries that are unused; return lazy modules for those that are used later, None for others."""
        if threading.get_ident() != self._thread:
            return None
        if name in _UNUSED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if name not in _LATER:
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


@contextmanager
def import_narrowly() -> Iterator[None]:
    """Import less in the block. What is loaded already stays; afterwards everything can be imported as ever."""
    finder = _NarrowFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
