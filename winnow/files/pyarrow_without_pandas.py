"""Keeps PyArrow from importing pandas in Winnow's own processes.

At its first conversion PyArrow imports pandas, only to be able to tell a frame from other arguments: a quarter of a
second and 60 MB of every command and task. Nothing of Winnow hands PyArrow a frame.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType

_PANDAS = "pandas"


class _PandasBlocker:
    """A finder that answers for pandas that it is not there."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """None for every other module: ask the next finder."""
        if name == _PANDAS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def keep_pandas_out_of_pyarrow() -> None:
    """Have PyArrow ask for pandas now and be told that it is not there; it never asks again in this process.

    ``to_pandas`` still imports it. What PyArrow does not know any more are pandas' missing values (``pd.NA``) on their
    way from a frame into Arrow, so this is for commands and tasks, never for a library. Does nothing where pandas is
    loaded already.
    """
    if _PANDAS in sys.modules:
        return
    import pyarrow as pa

    with block_pandas_import():
        pa.array([None])


@contextmanager
def block_pandas_import() -> Iterator[None]:
    """Whoever asks for pandas within the block is told that it is not there, unless it is loaded already."""
    refusal = _PandasBlocker()
    sys.meta_path.insert(0, refusal)
    try:
        yield
    finally:
        sys.meta_path.remove(refusal)
