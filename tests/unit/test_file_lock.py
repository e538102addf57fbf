"""Locks of files: another process that was stopped with one keeps nobody for ever."""

from __future__ import annotations

import fcntl
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.unit.staging_builder import build_orders_cases, stage
from winnow.config.settings import load_settings
from winnow.errors import ServiceError
from winnow.files import file_lock
from winnow.pipeline.installation import open_installation


@pytest.fixture(autouse=True)
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a minute takes a tenth of a second."""
    monkeypatch.setattr(file_lock, "LOCK_TIMEOUT_S", 0.1)


@contextmanager
def keep_locked(path: Path) -> Iterator[None]:
    """The lock of somebody who does not go on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def test_lock_that_is_free_again_is_taken(tmp_path: Path) -> None:
    with keep_locked(tmp_path / "lock"):
        pass
    with (tmp_path / "lock").open("a") as lock:
        file_lock.lock_file(lock)
        with (tmp_path / "lock").open("a") as other, pytest.raises(TimeoutError, match=r"lock locked, for more than"):
            file_lock.lock_file(other)


def test_judgement_goes_on_without_a_page_where_another_process_keeps_the_site(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    staged = stage(tmp_path, {0: build_orders_cases(0)})
    with keep_locked(tmp_path / "docs" / ".lock"), caplog.at_level(logging.WARNING):
        verdict = staged.verdict(tmp_path / "docs")
    assert verdict.passed
    assert verdict.data_docs is None
    assert "could not be written: Another process keeps" in caplog.text


def test_store_says_who_keeps_it_from_being_made(tmp_path: Path) -> None:
    settings = load_settings(cwd=tmp_path, env={"WINNOW_HOME": str(tmp_path / "home")})
    with (
        keep_locked(tmp_path / "home" / "store.db.lock"),
        pytest.raises(ServiceError, match="Another process keeps"),
        open_installation(settings) as installation,
    ):
        installation.store.runs.list_open("orders")
