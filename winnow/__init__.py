"""Winnow: Kafka's log compaction for archives of Kafka topics on a data lake."""

from __future__ import annotations

__version__: str


def __getattr__(name: str) -> str:
    """``__version__``, read off the installed package when it is first asked for: most commands never do."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import metadata

    try:
        found = metadata.version("winnow-log")
    except metadata.PackageNotFoundError:  # a checkout on the path without an installation
        found = "0.0.0+unknown"
    globals()[name] = found
    return found
