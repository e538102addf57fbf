"""One process for all tests of this folder from which the processes are forked that die or stop."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.forked_processes import ForkServer, start_fork_server


@pytest.fixture(scope="session")
def fork_server() -> Iterator[ForkServer]:
    """Starts crash_points.py."""
    with start_fork_server() as server:
        yield server
