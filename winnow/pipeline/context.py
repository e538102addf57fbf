"""What every step needs: settings, metadata store, topic logs, and the clock."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from winnow.clock import MAXIMUM_CLOCK_SKEW_MS, Clock, read_wall_clock_ms
from winnow.config.settings import Settings, load_settings
from winnow.files import object_store, scratch
from winnow.files.probe import find_nearest_folder
from winnow.log.topics import TopicLogs
from winnow.pipeline.process_identity import name_process
from winnow.report.channels import Channel, list_queue_names, make_channels
from winnow.report.desk import AlertManager
from winnow.store import Store

if TYPE_CHECKING:
    from winnow.engine.rewrite import TaskBudget


@dataclass(frozen=True)
class Context:
    """The world of one command or task. ``holder`` names it in leases.

    ``channels``: those that alerts reach from here. ``page_url``: Airflow's address, for their links.
    """

    settings: Settings
    store: Store
    log: TopicLogs
    now_ms: Clock
    holder: str
    channels: tuple[Channel, ...] = ()
    page_url: str | None = None

    @property
    def alerts(self) -> AlertManager:
        """Where to say what is wrong and what is well again."""
        return AlertManager(
            self.store.alerts, self.now_ms, self.channels, list_queue_names(self.settings), self.page_url
        )

    def cleaning_time_ms(self, as_of_ms: int) -> int:
        """The later of as-of and now: a backfill never shortens a tombstone's life for a reader of today."""
        return max(as_of_ms, self.now_ms())

    def is_simulated(self, as_of_ms: int) -> bool:
        """Whether ``as_of_ms`` lies more than a minute ahead of the present."""
        return as_of_ms > self.now_ms() + MAXIMUM_CLOCK_SKEW_MS

    @property
    def budget(self) -> TaskBudget:
        """What one engine task may use."""
        from winnow.engine.rewrite import TaskBudget

        engine = self.settings.engine
        spill_folder: str | None = engine.spill_folder
        # Who may only read this home may still ask questions that take room.
        if self.settings.spill_folder_is_default and not os.access(
            find_nearest_folder(Path(engine.spill_folder)), os.W_OK
        ):
            spill_folder = None
        return TaskBudget(engine.memory_bytes, engine.threads, spill_folder, engine.bytes_per_second)


@contextmanager
def open_context(
    settings: Settings | None = None,
    *,
    now_ms: Clock = read_wall_clock_ms,
    holder: str | None = None,
    to_read: bool = False,
    channels: Sequence[Channel] = (),
    page_url: str | None = None,
) -> Iterator[Context]:
    """Open store and catalog for the duration of a command or task.

    ``channels``: ways to tell people besides those of the settings. ``page_url``: instead of that of the settings.

    ``to_read``: nothing will be changed, so no right to write is needed; the store is opened when it is first asked.

    What the catalog's properties say of the object store is put into the environment, for Spark to find. What killed
    processes left in private folders is removed.
    """
    settings = settings or load_settings()
    object_store.export_credentials(settings.catalog)
    for place in (settings.engine.spill_folder, settings.private_folder):
        scratch.remove_abandoned(place)
    for database in settings.embedded_databases:
        scratch.restrict_database_access(database)
    with (Store.open_to_read if to_read else Store.open)(settings.store_url) as store:
        yield Context(
            settings=settings,
            store=store,
            log=TopicLogs(settings.catalog, settings.warehouse, settings.topic_defaults),
            now_ms=now_ms,
            holder=holder or name_process(),
            channels=(*make_channels(settings), *channels),
            page_url=page_url or settings.alert.page_url,
        )
