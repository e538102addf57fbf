"""One process for all tests of this folder from which the processes are forked that die or stop.

Here and in these processes, whatever Winnow writes or deletes is watched (tests/support/path_watch.py).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.forked_processes import ForkServer, start_fork_server
from tests.support.path_watch import watch_paths


@pytest.fixture(autouse=True)
def watched_paths() -> Iterator[None]:
    """Winnow's code touches no path that no record can name."""
    with watch_paths():
        yield


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """Starts crash_points.py."""
    with start_fork_server() as server:
        yield server
