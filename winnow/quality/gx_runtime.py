"""Imports and configures Great Expectations, locks its Data Docs site and removes old pages."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import threading
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from winnow.files.file_lock import lock_file
from winnow.quality.narrow_import import import_narrowly

if TYPE_CHECKING:
    from great_expectations.data_context.data_context.ephemeral_data_context import EphemeralDataContext
    from great_expectations.expectations.expectation import Expectation
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

GX_LOCK = threading.RLock()
"""GX keeps its current context in a module global, so only one thread at a time may use it."""

SITE = "quality"

_PLAIN = (str, int, bool, type(None))
"""Types that JSON has as they are."""


def import_great_expectations() -> ModuleType:
    """Import GX at first use (2 to 5 s), with its telemetry off and its loggers at WARNING, and return it."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    with import_narrowly():
        import great_expectations as gx

    return gx


def make_ephemeral_context(site_folder: Path | None = None) -> EphemeralDataContext:
    """Return a context in memory, or one whose results and Data Docs are below ``site_folder``.

    Results are stored beside the pages because the index is built from them: a page without a result is removed.
    """
    gx = import_great_expectations()
    from great_expectations.data_context.types.base import (
        DataContextConfig,
        InMemoryStoreBackendDefaults,
        ProgressBarsConfig,
    )

    config = DataContextConfig(
        store_backend_defaults=InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        analytics_enabled=False,
        progress_bars=ProgressBarsConfig(globally=False),
    )
    if site_folder is not None:
        config.stores["validation_results_store"] = {
            "class_name": "ValidationResultsStore",
            "store_backend": _make_file_store_config(locate_results_folder(site_folder)),
        }
        config.data_docs_sites = {SITE: {"class_name": "SiteBuilder", **make_site_config(site_folder)}}
    context: EphemeralDataContext = gx.get_context(mode="ephemeral", project_config=config)
    return context


def make_site_config(site_folder: Path) -> dict[str, Any]:
    """Return the configuration of GX's site builder: pages of validations, and an index of them."""
    return {
        "show_how_to_buttons": False,
        "store_backend": _make_file_store_config(locate_pages_folder(site_folder)),
        # By default a topic with "profiling" in its name would not be shown as a validation.
        "site_section_builders": {
            "profiling": "None",
            "validations": {
                "run_name_filter": {"not_includes": "\0"},
                "renderer": {"module_name": "winnow.quality.gx_pages", "class_name": "VerdictPageRenderer"},
            },
        },
        "site_index_builder": {"module_name": "winnow.quality.gx_pages", "class_name": "SiteIndexBuilder"},
    }


def locate_results_folder(site_folder: Path) -> Path:
    """Return the folder of a site's results (JSON)."""
    return site_folder / "results"


def locate_pages_folder(site_folder: Path) -> Path:
    """Return the folder of a site's pages."""
    return site_folder / "site"


def _make_file_store_config(folder: Path) -> dict[str, Any]:
    return {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(folder)}


def index_results_by_id(results: Iterable[Any]) -> dict[str, Any]:
    """Index GX's results by the ids of the reviewed suite, which are in the expectations' ``meta``."""
    return {result.expectation_config.meta["expectation"]: result for result in results}


def find_raised_exception(exception_info: dict[str, Any]) -> str | None:
    """Return the kind of exception behind a result; None if the check judged.

    GX does not raise when a check breaks: it reports a failure with this information, either flat or one entry per
    metric. Only the kind is returned: a message may quote a value.
    """
    entries = [exception_info] if "raised_exception" in exception_info else list(exception_info.values())
    for entry in entries:
        if isinstance(entry, dict) and entry.get("raised_exception"):
            last_line = str(entry.get("exception_traceback") or "").strip().splitlines()[-1:]
            kind = last_line[0].split(":")[0].rsplit(".", 1)[-1] if last_line else ""
            return kind if kind.isidentifier() else "an exception"
    return None


@contextmanager
def spare_repeated_work() -> Iterator[None]:
    """Spare GX what it does again and again in one run: more than half of its CPU. Hold :data:`GX_LOCK`.

    It builds ``Expectation.configuration`` anew whenever it reads one argument, about 90 times per expectation and run.
    It makes an expectation of such a configuration for each metric that it looks up, to read its arguments. GX copies
    what it changes, and makes new expectations for every run, so nothing is kept beyond the run. And each of
    thousands of metrics gets an id from its arguments, which are looked at as if each could be a frame or a number of
    NumPy.
    """
    from great_expectations.core.id_dict import IDDict
    from great_expectations.expectations.expectation import Expectation
    from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

    build, make_id, make_expectation = Expectation.configuration, IDDict.to_id, ExpectationConfiguration.to_domain_obj
    # With the expectation, so that its id is not given to another one.
    built: dict[int, tuple[Expectation, ExpectationConfiguration]] = {}

    def find_or_build(expectation: Expectation) -> ExpectationConfiguration:
        found = built.get(id(expectation))
        if found is None:
            found = built[id(expectation)] = (expectation, build.__get__(expectation))
        return found[1]

    made: dict[int, tuple[ExpectationConfiguration, dict[str, Any], Expectation]] = {}

    def find_or_make(configuration: ExpectationConfiguration) -> Expectation:
        found = made.get(id(configuration))
        if found is None or found[1] != configuration.kwargs:
            expectation = make_expectation(configuration)
            found = made[id(configuration)] = (configuration, dict(configuration.kwargs), expectation)
        return found[2]

    def make_id_quickly(arguments: IDDict, id_keys: Any = None, id_ignore_keys: Any = None) -> Any:
        is_plain = len(arguments) > 1 and id_keys is None and id_ignore_keys is None and not arguments._id_ignore_keys
        if is_plain and all(type(name) is str and type(value) in _PLAIN for name, value in arguments.items()):
            return hashlib.md5(json.dumps(arguments, sort_keys=True).encode(), usedforsecurity=False).hexdigest()
        return make_id(arguments, id_keys, id_ignore_keys)

    Expectation.configuration = property(find_or_build)  # type: ignore[assignment,method-assign]
    IDDict.to_id = make_id_quickly  # type: ignore[assignment,method-assign]
    ExpectationConfiguration.to_domain_obj = find_or_make  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        Expectation.configuration = build  # type: ignore[method-assign]
        ExpectationConfiguration.to_domain_obj = make_expectation  # type: ignore[method-assign]
        IDDict.to_id = make_id  # type: ignore[method-assign]


DEFAULT_KEPT_VALIDATIONS = 200
"""A page is about 60 kB and its result about 20 kB; the site's own files are 4 MB."""


@contextmanager
def lock_site(folder: Path) -> Iterator[None]:
    """Lock the site below ``folder`` against other processes of this machine: GX rewrites its index in place.

    Raises:
        OSError: the folder cannot be made or written, or another process keeps the lock.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        lock_file(lock)
        yield


def keep_newest(folder: Path, keep: int) -> int:
    """Remove all but the ``keep`` newest validations of the site, by run time; return how many were removed.

    Results go before pages: the next build drops entries without a result. Call it inside :func:`lock_site`.
    """
    found = sorted(_list_runs(locate_results_folder(folder)), key=lambda run: (run.name, str(run)))
    gone = found[: max(0, len(found) - keep)]
    for result in gone:
        _remove(folder, result)
    return len(gone)


def remove_pages(folder: Path, urls: Collection[str]) -> int:
    """Remove the validations whose pages are at ``urls``; return how many. Call it inside :func:`lock_site`.

    URLs of pages of other sites, or already removed ones, are skipped.
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
    """List the folders of single validations: ``<suite>/<run name>/<run time>``."""
    return [path for path in results.glob("*/*/*") if path.is_dir()]


def _remove_if_empty(folder: Path) -> None:
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
