"""What every step needs: settings, metadata store, topic logs, and the clock."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from winnow.clock import Clock, wall_clock_ms
from winnow.config.settings import Settings, load_settings
from winnow.files import object_store
from winnow.log.topics import TopicLogs
from winnow.report.channels import Channel, channels_of, queues_of
from winnow.report.desk import AlertDesk
from winnow.store import Store

if TYPE_CHECKING:
    from winnow.engine.rewrite import Budget

CLOCK_SKEW_MS = 60_000
"""An as-of further ahead of the present than this is simulated, and said so."""


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
    def alerts(self) -> AlertDesk:
        """Where to say what is wrong and what is well again."""
        return AlertDesk(self.store, self.now_ms, self.channels, queues_of(self.settings), self.page_url)

    def cleaning_time_ms(self, as_of_ms: int) -> int:
        """The later of as-of and now: a backfill never shortens a tombstone's life for a reader of today."""
        return max(as_of_ms, self.now_ms())

    def is_simulated(self, as_of_ms: int) -> bool:
        """Whether ``as_of_ms`` lies more than a minute ahead of the present."""
        return as_of_ms > self.now_ms() + CLOCK_SKEW_MS

    @property
    def budget(self) -> Budget:
        """What one engine task may use."""
        from winnow.engine.rewrite import Budget

        engine = self.settings.engine
        return Budget(engine.memory_bytes, engine.threads, engine.spill_folder, engine.bytes_per_second)


def process_holder() -> str:
    """A lease holder for this process: host, process id and a nonce, so that a dead one can be told from a live one."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"


@contextmanager
def open_context(
    settings: Settings | None = None,
    *,
    now_ms: Clock = wall_clock_ms,
    holder: str | None = None,
    channels: Sequence[Channel] = (),
    page_url: str | None = None,
) -> Iterator[Context]:
    """Open store and catalog for the duration of a command or task.

    ``channels``: ways to tell people besides those of the settings. ``page_url``: instead of that of the settings.

    What the catalog's properties say of the object store is put into the environment, for Spark to find.
    """
    settings = settings or load_settings()
    object_store.export(settings.catalog)
    with Store.open(settings.store_url) as store:
        yield Context(
            settings=settings,
            store=store,
            log=TopicLogs(settings.catalog, settings.warehouse, settings.topic_defaults),
            now_ms=now_ms,
            holder=holder or process_holder(),
            channels=(*channels_of(settings), *channels),
            page_url=page_url or settings.alert.page_url,
        )
