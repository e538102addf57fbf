"""The context of a command or task: settings, store, topic logs, clock, and the process's name in leases."""

from __future__ import annotations

import os
import re
import socket
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from winnow.clock import MAXIMUM_CLOCK_SKEW_MS, Clock, read_wall_clock_ms
from winnow.config.settings import Settings, load_settings
from winnow.files import object_store, private_files
from winnow.files.storage_health import find_nearest_folder
from winnow.log.topics import TopicLogs
from winnow.report.alert_manager import AlertManager, Channel, list_queue_names, make_channels
from winnow.store import Store

if TYPE_CHECKING:
    from winnow.engine.task_resources import TaskBudget

_PROCESS_NAME = re.compile(r"^[^:]*:(?P<pid>\d+):[0-9a-f]+@(?P<boot>[0-9a-f]+)\.(?P<namespace>\d+)\.(?P<start>\d+)$")

_STARTTIME_FIELD = 22 - 3
"""Of /proc/<pid>/stat, counted behind the command's name, which is the second field and may hold anything."""


def name_process() -> str:
    """A name for this process, as leases store it: host, process id and a nonce, then boot, namespace and start time.

    Where the system has no /proc the part behind the ``@`` is left out, and nobody takes the process for dead.
    """
    name = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
    place = _read_boot_and_namespace()
    start = _read_start_time(os.getpid())
    return name if place is None or start is None else f"{name}@{place[0]}.{place[1]}.{start}"


def is_process_dead(name: str) -> bool:
    """Whether ``name`` names a process of this boot and process id namespace that no longer lives.

    Whatever cannot be told counts as alive.
    """
    match = _PROCESS_NAME.match(name)
    if match is None or (match["boot"], match["namespace"]) != _read_boot_and_namespace():
        return False
    pid = int(match["pid"])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # another user's; it may be hidden below /proc, too
    start = _read_start_time(pid)
    return start is not None and start != match["start"]


def _read_boot_and_namespace() -> tuple[str, str] | None:
    """The boot of this machine and this process's process id namespace; None where the system does not tell."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")[:12]
        return boot, str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return None


def _read_start_time(pid: int) -> str | None:
    """When the process started, in clock ticks since the boot; ``ended`` for one that waits for its parent to notice.

    None: there is none, or it may not be seen.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return "ended" if fields[0] in {"Z", "X"} else fields[_STARTTIME_FIELD]


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
        from winnow.engine.task_resources import TaskBudget

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
        private_files.remove_abandoned(place)
    for database in settings.embedded_databases:
        private_files.restrict_database_access(database)
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
