"""What tests of the pipeline hear of its log, and of how it reads its input."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.support.store_fixtures import new_store_url, postgresql_server, store_url
from tests.support.world import define_world
from winnow.arrivals.spool import Spool
from winnow.pipeline.ingest import run_local

__all__ = ["new_store_url", "postgresql_server", "store_url"]

world = define_world()
"""Without a topic; many a module has one of its own."""


@pytest.fixture(autouse=True)
def python_s_own_level_of_the_root_logger() -> Iterator[None]:
    """Airflow lowers it to INFO when it is imported, by whatever test of this process was collected first.

    Then events would stand among the warnings that a test asks for.
    """
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.WARNING)
    yield
    root.setLevel(before)


@pytest.fixture
def spooled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The topics of the calls that read their input into a spool."""
    topics: list[str] = []

    class Noted(Spool):
        def read(self, *arguments: object) -> None:
            topics.append(self.topic)
            super().read(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(run_local, "Spool", Noted)
    return topics
