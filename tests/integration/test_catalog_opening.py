"""An empty catalog opened by several at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from winnow.log.catalog_access import ensure_namespace
from winnow.log.topics import TopicLogs

OPENERS = 8


def test_several_that_open_an_empty_catalog_at_once_all_succeed(tmp_path: Path) -> None:
    """Tables and namespaces are created once; nobody fails for being second."""
    for number in range(5):
        together = Barrier(OPENERS)

        def open_catalog(folder: Path, together: Barrier = together) -> list[str]:
            logs = TopicLogs({"type": "sql", "uri": f"sqlite:///{folder}/catalog.db"}, f"file://{folder}/warehouse")
            together.wait()
            return logs.names()

        with ThreadPoolExecutor(OPENERS) as pool:
            assert list(pool.map(open_catalog, [tmp_path / f"home-{number}"] * OPENERS)) == [[]] * OPENERS


def test_a_namespace_that_another_made_a_moment_ago_is_taken_as_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyIceberg asks first and creates then; the answer may be out of date by then."""
    catalog = TopicLogs({"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"}, f"file://{tmp_path}/w").catalog
    catalog.create_namespace("made")
    ask = catalog.namespace_exists
    answers = [False]
    monkeypatch.setattr(catalog, "namespace_exists", lambda name: answers.pop() if answers else ask(name))
    ensure_namespace(catalog, "made")
    assert answers == []
    assert catalog.namespace_exists("made")
