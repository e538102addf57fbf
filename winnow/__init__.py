"""Winnow: Kafka's log compaction for archives of Kafka topics on a data lake."""

from __future__ import annotations

from importlib import metadata

try:
    __version__ = metadata.version("winnow-log")
except metadata.PackageNotFoundError:  # a checkout on the path without an installation
    __version__ = "0.0.0+unknown"
