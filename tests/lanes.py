"""Every test, in lanes side by side, so that both cores are busy until the end.

    python -m tests.lanes [FOLDER ...]

A lane is one pytest process. All lanes collect all tests and take them group by group from one queue, the longest
first; a group is one file, or a whole folder where the tests share a server that takes long to start. The first lane
begins with the folders that wait for services most of the time; the others begin with what computes. The output of the
first lane is shown as it comes, that of the others after it. The exit code is 0 when every lane is green and every
group was run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.costs import SERVICES, group_of, seconds_of

TESTS: Final = Path(__file__).parent
ROOT: Final = TESTS.parent
DEFAULT_LANES: Final = (os.cpu_count() or 2) + 1
"""One more than cores, since one of them waits most of the time."""


class Queue:
    """The groups that the lanes of one run have taken, as files in a folder; each group is taken once."""

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder

    def take(self, group: str) -> bool:
        """Whether this lane got the group."""
        try:
            (self.folder / group.replace("/", "+")).touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def taken(self) -> set[str]:
        """Every group that some lane got."""
        return {path.name.replace("+", "/") for path in self.folder.iterdir()}


class Lane:
    """A pytest plugin that runs the groups it can get instead of all that was collected."""

    def __init__(self, queue: Queue, *, services_first: bool) -> None:
        self.queue: Final = queue
        self.services_first: Final = services_first

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run group after group; the next one is known before the last test of this one ends, for shared fixtures."""
        if session.testsfailed:
            raise session.Interrupted(f"{session.testsfailed} errors during collection")
        items = self._items(session)
        item = next(items, None)
        while item is not None:
            upcoming = next(items, None)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=upcoming)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
            item = upcoming
        return True

    def _items(self, session: pytest.Session) -> Iterator[pytest.Item]:
        groups: dict[str, list[pytest.Item]] = {}
        for item in session.items:
            groups.setdefault(group_of(item.path), []).append(item)
        for group in sorted(groups, key=lambda group: self._rank(group, len(groups[group]))):
            if self.queue.take(group):
                yield from groups[group]

    def _rank(self, group: str, tests: int) -> tuple[bool, float, str]:
        """Services before the rest or after it, the longest first."""
        is_last = (group in SERVICES) != self.services_first
        return is_last, -seconds_of(group, tests), group


def every_group(folders: Sequence[str]) -> set[str]:
    """The groups that have a test file."""
    return {group_of(path) for folder in folders or ["*"] for path in TESTS.glob(f"{folder}/**/test_*.py")}


def run_lane(folders: Sequence[str], queue: Path, number: int) -> int:
    """One lane, in this process."""
    lane = Lane(Queue(queue), services_first=number == 0)
    paths = [str(TESTS / folder) for folder in folders] or [str(TESTS)]
    code = pytest.main(["-q", "--durations=15", *paths], plugins=[lane])
    # A lane that came too late to get anything is green.
    return 0 if code == pytest.ExitCode.NO_TESTS_COLLECTED else int(code)


def run_lanes(folders: Sequence[str], lanes: int) -> int:
    """All lanes; the worst exit code."""
    with tempfile.TemporaryDirectory(prefix="winnow-lanes-") as folder:
        queue = Path(folder, "queue")
        queue.mkdir()
        outputs = [Path(folder, f"{number}.log") for number in range(1, lanes)]
        processes: list[subprocess.Popen[bytes]] = []
        try:
            for number, output in enumerate(outputs, start=1):
                with output.open("wb") as stream:
                    processes.append(_start(folders, queue, number, stream.fileno()))
            codes = [_start(folders, queue, 0, None).wait()]
            for number, (process, output) in enumerate(zip(processes, outputs, strict=True), start=1):
                codes.append(process.wait())
                print(f"\nLane {number}:\n", flush=True)
                sys.stdout.buffer.write(output.read_bytes())
                sys.stdout.flush()
        finally:
            for process in processes:
                process.terminate()
                process.wait()
        missed = sorted(every_group(folders) - Queue(queue).taken())
    if missed:
        print(f"Not run: {', '.join(missed)}")
    return max([abs(code) for code in codes] + [len(missed) and 1])  # negative when a signal ended it


def _start(folders: Sequence[str], queue: Path, number: int, output: int | None) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.lanes", *folders, "--queue", str(queue), "--lane", str(number)]
    return subprocess.Popen(command, stdout=output, stderr=None if output is None else subprocess.STDOUT, cwd=ROOT)


def main() -> int:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser(description="Every test, in lanes side by side.")
    parser.add_argument("folders", nargs="*", help="folders of tests; all when left out")
    parser.add_argument("--lanes", type=int, default=DEFAULT_LANES, help="pytest processes side by side")
    parser.add_argument("--queue", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--lane", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.queue is not None:
        return run_lane(options.folders, options.queue, options.lane)
    return run_lanes(options.folders, options.lanes)


if __name__ == "__main__":
    sys.exit(main())
