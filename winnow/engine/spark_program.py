"""What programs started by spark-submit share: the path to PySpark, arguments and exit code.

spark-submit puts ``python/lib/pyspark.zip`` first on the path of driver and workers. Python compiles imports from a zip
again in every process, which takes half a second.
"""

from __future__ import annotations

import argparse
import re
import sys
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from winnow.engine.events import PlanOutcome, describe_error, emit_event, emit_outcomes
from winnow.errors import WinnowError, find_worst_exit_code

_ZIP_NAMES = re.compile(r"(pyspark|py4j-.*-src)\.zip")

_VERSION_FILE = "pyspark/version.py"


def prefer_installed_pyspark() -> None:
    """Remove Spark's zips from this process's path if the same version of PySpark is installed beside them.

    Call it before PySpark is imported; it does nothing afterwards.
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
    """Return the version file of the PySpark that would be imported from ``folders``."""
    for folder in folders:
        if (Path(folder) / "pyspark").is_dir():
            with suppress(OSError):
                return (Path(folder) / _VERSION_FILE).read_bytes()
            return None
    return None


def _has_py4j(folders: Sequence[str]) -> bool:
    return any((Path(folder) / "py4j").is_dir() for folder in folders)


def build_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the arguments that every program has: what its tasks may use."""
    # Executors import this module, too, and doctor tells what they lack.
    from winnow.engine.task_planning import DEFAULT_GIANT_BYTES

    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--memory", type=int, default=1 << 30, metavar="BYTES", help="memory limit of one task's engine")
    made.add_argument("--threads", type=int, default=1, help="threads of one task's engine")
    made.add_argument("--spill", metavar="FOLDER", help="folder for spilling; default: Spark's local folders")
    made.add_argument("--tasks", type=int, metavar="N", help="maximum tasks at a time; default: one per core")
    made.add_argument(
        "--giant-bytes",
        type=int,
        default=DEFAULT_GIANT_BYTES,
        metavar="BYTES",
        help="partitions from this size on may be cut, where the program cuts any",
    )
    made.add_argument(
        "--bytes-per-second",
        type=float,
        metavar="RATE",
        help="maximum bytes per second that all tasks read and write together; default: no limit",
    )
    return made


def run_and_report(run: Callable[[], Sequence[PlanOutcome]]) -> int:
    """Run, report each plan, and return the worst exit code of the plans."""
    try:
        outcomes = run()
    except WinnowError as problem:
        emit_event({"event": "failed", **describe_error(problem.explanation), "exit_code": problem.exit_code})
        return problem.exit_code
    emit_outcomes(outcomes)
    return find_worst_exit_code([outcome.exit_code for outcome in outcomes])
