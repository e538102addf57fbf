"""Keeps PyArrow from importing pandas in Winnow's own processes.

At its first conversion PyArrow imports pandas, only to recognize data frames: 0.25 s and 60 MB of every command and
task. Winnow never gives PyArrow a data frame.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

_PANDAS = "pandas"
_PYARROW = "pyarrow"


class _PandasBlocker:
    """An import finder that reports pandas as missing."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raise for pandas; return None for other modules: the next finder decides."""
        if name == _PANDAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def keep_pandas_out_of_pyarrow() -> None:
    """Make PyArrow look for pandas as soon as it is imported, and not find it; it never looks again in this process.

    PyArrow itself is a sixth of a second with what it imports, so it is not imported for this.

    ``to_pandas`` still imports it. PyArrow then does not recognize pandas' missing values (``pd.NA``) on their way from
    a frame into Arrow, so this is for commands and tasks, not for a library. Does nothing if pandas is already loaded.
    """
    if _PANDAS in sys.modules:
        return
    if _PYARROW in sys.modules:
        _look_in_vain(sys.modules[_PYARROW])
    elif not any(isinstance(finder, _PyArrowFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _PyArrowFinder())


def _look_in_vain(pyarrow: ModuleType) -> None:
    with block_pandas_import():
        pyarrow.array([None])


class _PyArrowFinder:
    """An import finder that has PyArrow look for pandas at the end of its import, once."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return PyArrow's own spec with a loader around its loader; None for other modules."""
        if name != _PYARROW:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _PyArrowLoader(spec.loader)
        return spec


class _PyArrowLoader(Loader):
    """Loads as the loader within does, then has PyArrow look for pandas."""

    def __init__(self, within: Loader) -> None:
        self._within = within

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Create what the loader within creates."""
        return self._within.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Execute PyArrow; what asks it for its files later asks its own loader."""
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._within
        self._within.exec_module(module)
        if _PANDAS not in sys.modules:
            _look_in_vain(module)


@contextmanager
def block_pandas_import() -> Iterator[None]:
    """Make pandas appear missing to imports within the block, unless it is already loaded."""
    blocker = _PandasBlocker()
    sys.meta_path.insert(0, blocker)
    try:
        yield
    finally:
        sys.meta_path.remove(blocker)
