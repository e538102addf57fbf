"""Checks the environment of Spark's tasks: Python version, libraries, access to the lake."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from winnow.engine.spark_application import open_spark_context
from winnow.files import storage

REQUIRED_MODULES = ("duckdb", "pyarrow", "winnow")
MAXIMUM_TASKS = 8


def diagnose_spark_tasks(uris: Sequence[str]) -> dict[str, Any]:
    """Run a Spark application whose tasks check their environment and the access to the folders ``uris``.

    Returns ``spark`` (its version), ``tasks``, ``pythons``, ``missing`` (modules) and ``unreachable`` (of ``uris``).
    """
    with open_spark_context("winnow doctor") as context:
        context.setLogLevel("ERROR")
        tasks = min(context.defaultParallelism, MAXIMUM_TASKS)
        seen = context.parallelize(range(tasks), tasks).mapPartitions(lambda _: _diagnose_task(uris)).collect()
        return {
            "spark": context.version,
            "tasks": len(seen),
            "pythons": sorted({each["python"] for each in seen}),
            "missing": sorted({name for each in seen for name in each["missing"]}),
            "unreachable": sorted({uri for each in seen for uri in each["unreachable"]}),
        }


def _diagnose_task(uris: Sequence[str]) -> Iterator[dict[str, Any]]:
    yield {
        "python": ".".join(map(str, sys.version_info[:2])),
        "missing": [name for name in REQUIRED_MODULES if not _is_installed(name)],
        "unreachable": [uri for uri in uris if not _is_reachable(uri)],
    }


def _is_installed(module: str) -> bool:
    try:
        import_module(module)
    except ImportError:
        return False
    return True


def _is_reachable(uri: str) -> bool:
    try:
        storage.exists(storage.join(uri, "winnow-doctor"))
    except Exception:  # the driver's machine reports the reason
        return False
    return True
