"""One broker for the whole folder; a test makes topics with names of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from winnow.embedded.kafka_broker import KafkaBroker, run_broker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker that all tests of the folder share; a test that stops it starts it again."""
    folder: Path = tmp_path_factory.mktemp("kafka")
    with run_broker(folder) as running:
        yield running
