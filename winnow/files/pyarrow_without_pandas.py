"""Keeps PyArrow from importing pandas in Winnow's own processes.

At its first conversion PyArrow imports pandas, only to recognize data frames: 0.25 s and 60 MB of every command and
task. Winnow never gives PyArrow a data frame.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType

_PANDAS = "pandas"


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
    """Make PyArrow look for pandas now and not find it; it never looks again in this process.

    ``to_pandas`` still imports it. PyArrow then does not recognize pandas' missing values (``pd.NA``) on their way from
    a frame into Arrow, so this is for commands and tasks, not for a library. Does nothing if pandas is already loaded.
    """
    if _PANDAS in sys.modules:
        return
    import pyarrow as pa

    with block_pandas_import():
        pa.array([None])


@contextmanager
def block_pandas_import() -> Iterator[None]:
    """Make pandas appear missing to imports within the block, unless it is already loaded."""
    blocker = _PandasBlocker()
    sys.meta_path.insert(0, blocker)
    try:
        yield
    finally:
        sys.meta_path.remove(blocker)
