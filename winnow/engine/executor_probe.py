"""What doctor looks at on Spark's executors; its functions travel by value, so executors need not have Winnow.

Standard library only, and nothing of it at the top that a task does not use: a task gets this module's functions with
their code, by cloudpickle, and imports the rest where it runs.
"""

from __future__ import annotations

import importlib
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from typing import Any


def probe_executor(packages: Sequence[str], places: Sequence[tuple[str, str, str]]) -> Iterator[dict[str, Any]]:
    """Yield what one task found.

    Args:
        packages: modules whose versions are asked for.
        places: folder, the name of a file that the driver wrote there, and the name of one to be written and removed.

    Yields:
        ``host``, ``python`` (major.minor), ``executable``, ``versions`` by module (None: cannot be imported), and
        ``unreachable``: the reason by folder.
    """
    versions = {name: find_version(name) for name in packages}
    yield {
        "host": platform.node(),
        "python": ".".join(map(str, sys.version_info[:2])),
        "executable": sys.executable,
        "versions": versions,
        "unreachable": {} if versions.get("winnow") is None else dict(try_places(places)),
    }


def find_version(module: str) -> str | None:
    """Return the version of a module, None if it cannot be imported."""
    try:
        loaded = importlib.import_module(module)
    except ImportError:
        return None
    found = getattr(loaded, "__version__", None)
    if found is None:
        from importlib import metadata

        try:
            found = metadata.version(module.replace("_", "-"))
        except metadata.PackageNotFoundError:
            found = "unknown"
    return str(found)


def try_places(places: Sequence[tuple[str, str, str]]) -> Iterator[tuple[str, str]]:
    """Read the driver's file in each folder, write one and remove it; yield the folders where that fails, and why."""
    from winnow.errors import WinnowError
    from winnow.files import storage

    for folder, theirs, mine in places:
        name = storage.join(folder, f"{mine}-{platform.node()}-{os.getpid()}")
        try:
            storage.read_bytes(storage.join(folder, theirs))
            storage.write_bytes(name, b"written by winnow doctor on an executor")
            storage.delete(name)
        except FileNotFoundError:
            yield folder, "the file that the driver wrote there is not there: it is another folder on this machine"
        except WinnowError as problem:
            yield folder, str(problem)
        except OSError as problem:
            yield folder, problem.strerror or type(problem).__name__
        except Exception as problem:  # whatever an executor's libraries raise is a finding
            yield folder, type(problem).__name__
