"""Winnow: Kafka's log compaction for archives of Kafka topics on a data lake."""

from __future__ import annotations

__version__: str


def __getattr__(name: str) -> str:
    """``__version__``, found when it is first asked for: most commands never do."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from winnow.version import find_version

    globals()[name] = found = find_version()
    return found
