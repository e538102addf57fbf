"""An installation as one command or task opens it: settings, store, topic logs, clock, the process's name in leases."""

from __future__ import annotations

import os
import re
import socket
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from winnow.clock import MAXIMUM_CLOCK_SKEW_MS, Clock, read_wall_clock_ms
from winnow.config.settings import Settings, load_settings
from winnow.files import object_store, private_files, vended_places
from winnow.files.storage_health import find_nearest_folder
from winnow.log.topics import TopicLogs
from winnow.pipeline.installation_guard import InstallationGuard
from winnow.pipeline.recorded_heads import RecordedHeads
from winnow.store import Store
from winnow.values.model import AIRFLOW_HOLDER

if TYPE_CHECKING:
    from winnow.engine.task_resources import TaskBudget
    from winnow.report.alert_manager import AlertManager, Channel

_PROCESS_NAME = re.compile(r"^[^:]*:(?P<pid>\d+):[0-9a-f]+@(?P<boot>[0-9a-f]+)\.(?P<namespace>\d+)\.(?P<start>\d+)$")

_STARTTIME_FIELD = 22 - 3
"""Index in /proc/<pid>/stat, counted after the command's name: the second field, which may contain anything."""


def name_process() -> str:
    """Make a name for this process in leases: host, process id and a nonce, then boot, namespace and start time.

    Without /proc the part behind the ``@`` is left out, and the process never counts as dead.
    """
    name = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
    place = _read_boot_and_namespace()
    start = _read_start_time(os.getpid())
    return name if place is None or start is None else f"{name}@{place[0]}.{place[1]}.{start}"


def is_process_dead(name: str) -> bool:
    """Check whether ``name`` names a process of this boot and process id namespace that no longer lives.

    A process counts as alive if this cannot be determined.
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
        pass  # another user's process; it may also be hidden from /proc
    start = _read_start_time(pid)
    return start is not None and start != match["start"]


def _read_boot_and_namespace() -> tuple[str, str] | None:
    """Read this machine's boot id and this process's process id namespace; None where the system does not show them."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")[:12]
        return boot, str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return None


def _read_start_time(pid: int) -> str | None:
    """Read a process's start time in clock ticks since the boot; ``ended`` for a process that its parent must reap.

    None: there is no such process, or it is hidden.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return "ended" if fields[0] in {"Z", "X"} else fields[_STARTTIME_FIELD]


@dataclass(frozen=True)
class Installation:
    """An installation as one command or task has opened it. ``holder`` names the process in leases.

    ``channels``: the alert channels of this process. ``page_url``: Airflow's address, for links in alerts.
    ``actor`` and ``reason``: who does what this process does, and why, for the audit log; an empty actor is the
    operating system's user. ``began``: when the DAG run began, which tells it from an earlier one of the same name.
    ``is_recorded_by_caller``: steps leave no entries in the audit log, since their caller writes one for all of them.
    """

    settings: Settings
    store: Store
    log: TopicLogs
    now_ms: Clock
    holder: str
    channels: tuple[Channel, ...] = ()
    page_url: str | None = None
    actor: str = ""
    reason: str = ""
    began: str = ""
    is_recorded_by_caller: bool = False

    @cached_property
    def guard(self) -> InstallationGuard:
        """What refuses to write to another installation's warehouse."""
        return InstallationGuard(self.settings, self.store, self.log, self.now_ms)

    @property
    def alerts(self) -> AlertManager:
        """The alert manager of this process."""
        from winnow.report.alert_manager import AlertManager, list_queue_names

        return AlertManager(
            self.store.alerts, self.now_ms, self.channels, list_queue_names(self.settings), self.page_url
        )

    def cleaning_time_ms(self, as_of_ms: int) -> int:
        """Return the later of as-of and now: a backfill never shortens a tombstone's life for a present reader."""
        return max(as_of_ms, self.now_ms())

    def is_simulated(self, as_of_ms: int) -> bool:
        """Check whether ``as_of_ms`` lies more than a minute ahead of the present."""
        return as_of_ms > self.now_ms() + MAXIMUM_CLOCK_SKEW_MS

    @property
    def budget(self) -> TaskBudget:
        """The limits of one engine task."""
        from winnow.engine.task_resources import TaskBudget

        engine = self.settings.engine
        spill_folder: str | None = engine.spill_folder
        # Without write access to this home, read-only commands still need room to spill.
        if self.settings.spill_folder_is_default and not os.access(
            find_nearest_folder(Path(engine.spill_folder)), os.W_OK
        ):
            spill_folder = None
        return TaskBudget(engine.memory_bytes, engine.threads, spill_folder, engine.bytes_per_second)


@contextmanager
def open_installation(
    settings: Settings | None = None,
    *,
    now_ms: Clock = read_wall_clock_ms,
    holder: str | None = None,
    to_read: bool = False,
    channels: Sequence[Channel] = (),
    page_url: str | None = None,
    actor: str = "",
    reason: str = "",
    began: str = "",
    any_installation: bool = False,
) -> Iterator[Installation]:
    """Open store and catalog for the duration of a command or task.

    ``channels``: alert channels besides those of the settings. ``page_url``: overrides that of the settings. ``actor``,
    ``reason`` and ``began``: see :class:`Installation`.

    ``to_read``: read only, without write access; the store is opened at first use. ``any_installation``: another
    installation's warehouse is not refused, neither now nor when something is written.

    The catalog's object store properties are put into the environment for Spark. Files that killed
    processes left in private folders are removed.
    """
    settings = settings or load_settings()
    object_store.export_credentials(settings.catalog)
    vended_places.export_access(settings, os.environ)
    for place in (settings.engine.spill_folder, settings.private_folder):
        private_files.remove_abandoned(place)
    for database in settings.embedded_databases:
        private_files.restrict_database_access(database)
    with (Store.open_to_read if to_read else Store.open)(settings.store_url) as store:
        installation = Installation(
            settings=settings,
            store=store,
            log=TopicLogs(
                settings.catalog,
                settings.warehouse,
                settings.topic_defaults,
                namespace=settings.namespace,
                vends=settings.vended_credentials,
                records=RecordedHeads(store, now_ms),
            ),
            now_ms=now_ms,
            holder=holder or name_process(),
            channels=(*_make_channels(settings), *channels),
            page_url=page_url or settings.alert.page_url,
            actor=actor,
            reason=reason,
            began=began,
        )
        if not any_installation:
            installation.log.before_writing = installation.guard.require_own
            if to_read:
                installation.guard.warn()
            else:
                origin = installation.holder if installation.holder.startswith(AIRFLOW_HOLDER) else "shell"
                installation.guard.check_and_report(installation.actor or "winnow", origin)
        try:
            yield installation
        finally:
            installation.log.close()


def _make_channels(settings: Settings) -> tuple[Channel, ...]:
    if settings.alert.webhook is None:
        return ()  # and spare those who raise no alert the import
    from winnow.report.alert_manager import make_channels

    return make_channels(settings)
