"""What programs started by spark-submit share: the path to PySpark, arguments and exit code.

spark-submit puts ``python/lib/pyspark.zip`` first on the path of the driver and of the workers. Python compiles what it
imports from a zip anew in every process, which is half a second before anything else happens.
"""

from __future__ import annotations

import argparse
import re
import sys
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from winnow.engine.events import PlanOutcome, emit_event, emit_outcomes
from winnow.errors import WinnowError, find_worst_exit_code

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


def prepare_imports() -> None:
    """To be called before anything imports PySpark."""
    prefer_installed_pyspark()


def build_parser(description: str | None) -> argparse.ArgumentParser:
    """A parser that knows what every program is told: what its tasks may use."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--memory", type=int, default=1 << 30, metavar="BYTES", help="cap of one task's engine")
    made.add_argument("--threads", type=int, default=1, help="threads of one task's engine")
    made.add_argument("--spill", metavar="FOLDER", help="where the engine spills; else in Spark's local folders")
    made.add_argument("--tasks", type=int, metavar="N", help="at most so many partitions at once; else all cores")
    made.add_argument(
        "--bytes-per-second", type=float, metavar="RATE", help="what all tasks read and write together; else no limit"
    )
    return made


def run_and_report(run: Callable[[], Sequence[PlanOutcome]]) -> int:
    """Run, report each plan; the worst exit code of its plans is the program's."""
    try:
        outcomes = run()
    except WinnowError as problem:
        emit_event({"event": "failed", "error": str(problem), "exit_code": problem.exit_code})
        return problem.exit_code
    emit_outcomes(outcomes)
    return find_worst_exit_code([outcome.exit_code for outcome in outcomes])
