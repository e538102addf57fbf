"""Names processes so that another process of the same machine can tell a dead one from a live one.

A process id alone proves nothing: it is given to another process later, and in a container it means another process.
So the name carries the boot of the machine, the process id namespace and the time at which the process started. Even
then a dead holder only ends a lease, which costs work; it never voids a run and never lets a file be deleted.
"""

from __future__ import annotations

import os
import re
import socket
import uuid
from pathlib import Path

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
