"""Data Docs: one static site, one page a validation, the newest kept. Pages hold figures, never user bytes."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlparse

from winnow.quality.runtime import locate_pages_folder, locate_results_folder

DEFAULT_KEPT_VALIDATIONS = 200
"""A page is about 60 kB and its result about 20 kB; the site's own files are 4 MB."""


@contextmanager
def lock_site(folder: Path) -> Iterator[None]:
    """Hold the site below ``folder`` against other processes of this machine: GX rewrites its index in place.

    Raises:
        OSError: the folder cannot be made or written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def keep_newest(folder: Path, keep: int) -> int:
    """Remove all but the ``keep`` newest validations of the site, by run time. Returns how many went.

    Results go before pages: the next build drops what has no result from the index. Call it while :func:`exclusive`.
    """
    found = sorted(_list_runs(locate_results_folder(folder)), key=lambda run: (run.name, str(run)))
    gone = found[: max(0, len(found) - keep)]
    for result in gone:
        _remove(folder, result)
    return len(gone)


def remove_pages(folder: Path, urls: Collection[str]) -> int:
    """Remove the validations whose pages are at ``urls``. Returns how many went. Call it while :func:`exclusive`.

    URLs of pages that are elsewhere, or gone already, are passed over.
    """
    gone = 0
    for url in urls:
        page = Path(unquote(urlparse(url).path))
        try:
            suite, run_name, run_time, *_ = page.relative_to(locate_pages_folder(folder) / "validations").parts
        except ValueError:
            continue
        result = locate_results_folder(folder) / suite / run_name / run_time
        if ".." not in result.parts and (result.is_dir() or page.is_file()):
            _remove(folder, result)
            gone += 1
    return gone


def _remove(folder: Path, result: Path) -> None:
    page = locate_pages_folder(folder) / "validations" / result.relative_to(locate_results_folder(folder))
    for path in (result, page):
        shutil.rmtree(path, ignore_errors=True)
        _remove_if_empty(path.parent)


def _list_runs(results: Path) -> list[Path]:
    """Folders of single validations: ``<suite>/<run name>/<run time>``."""
    return [path for path in results.glob("*/*/*") if path.is_dir()]


def _remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
