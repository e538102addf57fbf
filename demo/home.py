"""Prepares the demo's folders below ``WINNOW_HOME`` and removes what an earlier demo made.

The demo starts only in a home without topics, and writes a mark file before it creates any. So a later run that finds
the mark may remove the topics, as long as no other topic exists beside the demo's two. Airflow's home is kept: its
database takes longest to create, and holds the earlier runs.
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
    """Return the folder of the demo's archive, logs and mark."""
    return settings.home / "demo"


def locate_archive_folder(settings: Settings) -> Path:
    """Return the folder of the topics' archive."""
    return locate_demo_folder(settings) / "archive"


def start_fresh(settings: Settings) -> bool:
    """Prepare the home: remove only what an earlier demo made. Return whether there was an earlier one.

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
            "changed. Run the demo in a home of its own: WINNOW_HOME=$PWD/.winnow-demo winnow demo"
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
    # Opening the catalog would create one.
    if not (settings.home / "catalog.db").is_file():
        return []
    return TopicLogs(settings.catalog, settings.warehouse, namespace=settings.namespace).names()


def _remove_own(settings: Settings) -> None:
    home = settings.home
    for database in _OWN_DATABASES:
        for ending in _DATABASE_FILES:
            (home / f"{database}{ending}").unlink(missing_ok=True)
    # Delete the mark last: after an interruption the next run can then continue.
    for folder in (home / name for name in (*_OWN_FOLDERS, "demo")):
        if folder.exists():
            shutil.rmtree(folder)
