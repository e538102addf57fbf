"""Which PySpark a process of Spark imports: the installed one, which Python has compiled, before the zip of it.

spark-submit puts ``python/lib/pyspark.zip`` first on the path of the driver and of the workers. Python compiles what it
imports from a zip anew in every process, which is half a second before anything else happens.
"""

from __future__ import annotations

import re
import sys
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_ZIP_NAMES = re.compile(r"(pyspark|py4j-.*-src)\.zip")
_VERSION_FILE = "pyspark/version.py"


def prefer_installed_pyspark() -> None:
    """Take Spark's zips off this process's path where a PySpark of the very same version is installed beside them.

    Does nothing when PySpark is imported already.
    """
    if "pyspark" in sys.modules:
        return
    zips = [entry for entry in sys.path if _ZIP_NAMES.fullmatch(Path(entry).name)]
    others = [entry for entry in sys.path if entry not in zips]
    zipped = _read_zipped_version(zips)
    if zipped is not None and zipped == _read_installed_version(others) and _has_py4j(others):
        sys.path[:] = others


def _read_zipped_version(zips: Sequence[str]) -> bytes | None:
    for entry in zips:
        with suppress(OSError, KeyError, zipfile.BadZipFile), zipfile.ZipFile(entry) as archive:
            return archive.read(_VERSION_FILE)
    return None


def _read_installed_version(folders: Sequence[str]) -> bytes | None:
    """The version file of the PySpark that would be imported from ``folders``."""
    for folder in folders:
        if (Path(folder) / "pyspark").is_dir():
            with suppress(OSError):
                return (Path(folder) / _VERSION_FILE).read_bytes()
            return None
    return None


def _has_py4j(folders: Sequence[str]) -> bool:
    return any((Path(folder) / "py4j").is_dir() for folder in folders)
