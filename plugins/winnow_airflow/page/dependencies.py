"""Dependencies of the page's requests: settings, metadata store, page window and clock."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Annotated, TypedDict

from fastapi import Depends, Query

from winnow.clock import read_wall_clock_ms
from winnow.config.settings import Settings, load_settings
from winnow.store import RunState, Store
from winnow.store.rows import TopicFilter, Window
from winnow.values.model import OverviewState

MAXIMUM_PAGE_SIZE = 200
MAXIMUM_PAGE_NUMBER = 1_000_000


@dataclass(frozen=True, slots=True)
class ShownInstallation:
    """The installation that the page shows."""

    settings: Settings
    store: Store


Search = Annotated[str, Query(max_length=249)]
"""Part of a topic's name; names have at most 249 characters."""

_opening = threading.Lock()
_opened: list[ShownInstallation] = []


def open_shown_installation() -> ShownInstallation:
    """Return the installation of the process's settings; the first request that needs its store opens it.

    The next request retries a store that could not be opened.

    Raises:
        WinnowError: the settings are not valid, or the store cannot be opened.
    """
    if not _opened:
        with _opening:
            if not _opened:
                settings = load_settings()
                _opened.append(ShownInstallation(settings, Store.open(settings.store_url)))
    return _opened[0]


def parse_window(
    page: Annotated[int, Query(ge=1, le=MAXIMUM_PAGE_NUMBER)] = 1,
    size: Annotated[int, Query(ge=1, le=MAXIMUM_PAGE_SIZE)] = 50,
) -> Window:
    """Return which part of a list a request asks for."""
    return Window(page, size)


def parse_topic_filter(
    search: Search = "",
    state: Annotated[OverviewState | None, Query()] = None,
    owner: Annotated[str, Query(max_length=100)] = "",
    tag: Annotated[str, Query(max_length=50)] = "",
) -> TopicFilter:
    """Return which topics a request asks for."""
    return TopicFilter(search, state, owner, tag)


class RunFilter(TypedDict):
    """Which runs a list has; None or an empty text: any."""

    topic: str | None
    search: str
    status: RunState | None
    dag_id: str | None
    dag_run_id: str | None


def parse_run_filter(
    topic: str | None = None,
    search: Search = "",
    status: Annotated[RunState | None, Query()] = None,
    dag_id: str | None = None,
    dag_run_id: str | None = None,
) -> RunFilter:
    """Return which runs a request asks for."""
    return RunFilter(topic=topic, search=search, status=status, dag_id=dag_id, dag_run_id=dag_run_id)


InstallationDep = Annotated[ShownInstallation, Depends(open_shown_installation)]
WindowDep = Annotated[Window, Depends(parse_window)]
NowDep = Annotated[int, Depends(read_wall_clock_ms)]
TopicFilterDep = Annotated[TopicFilter, Depends(parse_topic_filter)]
RunFilterDep = Annotated[RunFilter, Depends(parse_run_filter)]
