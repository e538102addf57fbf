"""Every test, in groups of folders: each group is one pytest process, and four of them run side by side.

    python -m tests.groups [FOLDER ...]

Both cores are busy that way, although some tests wait for servers. A folder runs in one process, because its tests
share servers and because Airflow reads its settings once a process; the largest are dealt out to several. Folders with
servers run apart, so that no server outlives its tests. The output of a group is shown when it has ended.

A few tests that failed beside others are run again by themselves, once: on a busy machine a wait can end too early,
while a fault fails again. The last lines name the tests that passed only then. The exit code is 0 when every test has
passed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tests.support.spark_classes import make_spark_archive

TESTS: Final = Path(__file__).parent
SIDE_BY_SIDE: Final = 4
"""Groups at a time: twice as many as the cores that they need, since many tests wait."""
GROUPS: Final = (
    ("airflow",),
    ("kafka",),
    ("cluster",),
    ("faults",),
    ("browser",),
    ("dags",),
    ("integration",),
    ("bench",),
    ("spark",),
    ("page",),
    ("simulation",),
    ("docs",),
    ("unit",),
    ("contract", "catalogue"),
)
"""The folders of each group: those that wait before those that work, and of either the longest first. A folder that is
in no group runs in one of its own, before all others."""
WAITING: Final = frozenset({"airflow", "kafka", "cluster", "faults", "browser"})
"""Folders whose tests wait for servers and for processes that were killed, so that others have the processor."""
PROCESSES: Final = MappingProxyType({"kafka": 2, "dags": 2, "integration": 4, "unit": 3})
"""Folders that are groups of their own and too long for one: file by file their tests go to several processes in
turn."""
WITHOUT_SPARK: Final = ("unit", "contract", "catalogue", "page")
"""Folders that start no Spark, and wait for no archive of its classes."""
MAXIMUM_REPEATED_TESTS: Final = 3
"""Maximum failed tests of a group that are run again."""
TESTS_FAILED: Final = 1
"""Pytest's exit code when tests failed, and nothing else was wrong."""


def list_folders() -> list[str]:
    """List the folders that have tests."""
    return sorted(folder.name for folder in TESTS.iterdir() if any(folder.glob("test_*.py")))


def plan_groups(folders: Sequence[str]) -> list[list[str]]:
    """Distribute ``folders`` over the groups, some of them as files, in the order in which they begin.

    Groups without a folder are left out. One that waits and one that works begin in turn, while there are both.
    """
    groups = [[folder] for folder in folders if not any(folder in group for group in GROUPS)]
    groups += [[folder for folder in group if folder in folders] for group in GROUPS]
    parts = [part for group in groups if group for part in _divide(group)]
    waiting = [part for part in parts if part[0].partition("/")[0] in WAITING]
    working = [part for part in parts if part not in waiting]
    return [part for pair in zip_longest(waiting, working) for part in pair if part is not None]


def _divide(group: list[str]) -> list[list[str]]:
    parts = PROCESSES.get(group[0], 1)
    if parts == 1:
        return [group]
    files = sorted(path.relative_to(TESTS).as_posix() for path in (TESTS / group[0]).glob("test_*.py"))
    return [files[number::parts] for number in range(parts)]


def run_groups(groups: Sequence[Sequence[str]]) -> int:
    """Run every group, four at a time, then failed tests again; return the worst exit code."""
    with tempfile.TemporaryDirectory(prefix="winnow-groups-") as folder:
        caches = [Path(folder, str(number)) for number in range(len(groups))]
        codes = {}
        with ThreadPoolExecutor(SIDE_BY_SIDE) as workers:
            try:
                runs = {
                    workers.submit(_run_group, group, cache): cache for group, cache in zip(groups, caches, strict=True)
                }
                for ended in as_completed(runs):
                    codes[runs[ended]], output = ended.result()
                    sys.stdout.buffer.write(output)
                    sys.stdout.flush()
            except BaseException:
                workers.shutdown(wait=False, cancel_futures=True)
                raise
        repeated = {cache: failed for cache in codes if codes[cache] == TESTS_FAILED if (failed := list_failed(cache))}
        for cache, failed in repeated.items():
            if len(failed) <= MAXIMUM_REPEATED_TESTS:
                print(f"\nAgain, by themselves: {', '.join(failed)}\n", flush=True)
                codes[cache] = subprocess.call(_build_command(failed, cache))
        for cache, failed in repeated.items():
            if codes[cache] == 0:
                print(f"Passed only when they were run again: {', '.join(failed)}", flush=True)
    return max(abs(code) for code in codes.values())  # negative when a signal ended it


def list_failed(cache: Path) -> list[str]:
    """List the tests that failed in the run whose pytest cache is the folder ``cache``."""
    written = cache / "v" / "cache" / "lastfailed"
    return sorted(json.loads(written.read_text())) if written.exists() else []


def _run_group(group: Sequence[str], cache: Path) -> tuple[int, bytes]:
    command = _build_command([str(TESTS / name) for name in group], cache)
    started = time.monotonic()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    folders = ", ".join(dict.fromkeys(name.partition("/")[0] for name in group))
    head = f"\n{folders}, {time.monotonic() - started:.0f} s:\n\n"
    return done.returncode, head.encode() + done.stdout


def _build_command(tests: Sequence[str], cache: Path) -> list[str]:
    return [sys.executable, "-m", "pytest", "-q", "--durations=15", "-o", f"cache_dir={cache}", *tests]


def main() -> int:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser(description="Every test, in groups side by side.")
    parser.add_argument("folders", nargs="*", help="folders of tests; all when left out")
    options = parser.parse_args()
    folders = options.folders or list_folders()
    if not set(folders) <= set(WITHOUT_SPARK):
        try:
            make_spark_archive()
        except (OSError, subprocess.SubprocessError) as problem:
            print(f"Spark's classes have no archive, so that its JVMs start slowly: {problem}", flush=True)
    return run_groups(plan_groups(folders))


if __name__ == "__main__":
    sys.exit(main())
