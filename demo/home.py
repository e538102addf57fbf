"""Prepares the demo's folders below ``WINNOW_HOME`` and removes what an earlier demo made.

The demo begins only where there are no topics, and leaves a mark before it makes any. So what a later run finds under
the mark is the demo's own, as long as no other topic has come beside its two. Airflow's home stays as it is: its
database takes longest to make, and holds the runs of before.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from demo.records import TOPICS
from winnow.config.settings import Settings
from winnow.errors import ConfigurationError, UsageError
from winnow.log.topics import TopicLogs

_OWN_FOLDERS = ("warehouse", "staging", "data_docs")
_OWN_DATABASES = ("catalog.db", "store.db")
_DATABASE_FILES = ("", "-wal", "-shm", "-journal", ".lock")


def locate_demo_folder(settings: Settings) -> Path:
    """Where the demo keeps its archive, its logs and its mark."""
    return settings.home / "demo"


def locate_archive_folder(settings: Settings) -> Path:
    """Where the archive of the topics lies."""
    return locate_demo_folder(settings) / "archive"


def start_fresh(settings: Settings) -> bool:
    """Make the home ready: what an earlier demo made is removed, nothing else. Whether there was an earlier one.

    Raises:
        ConfigurationError: catalog, warehouse, staging area or metadata store lie outside the home.
        UsageError: the home holds topics that the demo did not make. Nothing was changed.
    """
    _check_embedded(settings)
    mark = locate_demo_folder(settings) / "began.json"
    found = _list_topics(settings)
    had_mark = mark.is_file()
    strangers = [topic for topic in found if not had_mark or topic not in TOPICS]
    if strangers:
        raise UsageError(
            f"The home {settings.home} holds topics that the demo did not make: {', '.join(strangers)}. Nothing was "
            "changed. Run the demo in a home of its own: WINNOW_HOME=$PWD/.winnow-demo make demo"
        )
    if had_mark:
        _remove_own(settings)
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.write_text(json.dumps({"topics": TOPICS}) + "\n", encoding="utf-8")
    return had_mark


def _check_embedded(settings: Settings) -> None:
    home = settings.home
    wanted = {
        "catalog.uri": (settings.catalog.get("uri"), f"sqlite:///{home / 'catalog.db'}"),
        "warehouse": (settings.warehouse, f"file://{home / 'warehouse'}"),
        "staging": (settings.staging, f"file://{home / 'staging'}"),
        "store_url": (settings.store_url, f"sqlite:///{home / 'store.db'}"),
    }
    elsewhere = [name for name, (found, embedded) in wanted.items() if found != embedded]
    if elsewhere:
        raise ConfigurationError(
            "The demo makes and removes its own topics, so it runs only on what is embedded in a home; here "
            f"{', '.join(elsewhere)} would be elsewhere. Nothing was changed. Unset those settings; winnow settings "
            "says where they come from."
        )


def _list_topics(settings: Settings) -> list[str]:
    # Opening the catalog would make one.
    if not (settings.home / "catalog.db").is_file():
        return []
    return TopicLogs(settings.catalog, settings.warehouse).names()


def _remove_own(settings: Settings) -> None:
    home = settings.home
    for database in _OWN_DATABASES:
        for ending in _DATABASE_FILES:
            (home / f"{database}{ending}").unlink(missing_ok=True)
    # The mark goes last: whatever ends this half-way, the next run may go on with it.
    for folder in (home / name for name in (*_OWN_FOLDERS, "demo")):
        if folder.exists():
            shutil.rmtree(folder)
