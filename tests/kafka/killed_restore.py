"""Restores in a process of its own that kills itself at a chosen step.

    python -m tests.kafka.killed_restore FOLDER SERVERS TARGET STEP [SHARES]

Steps are the moments before and after everything that changes something outside of the process. With step 0 it is not
killed, and prints how many there were. Shares are those of :mod:`tests.kafka.small_share`.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.kafka.restored_topics import Target
from tests.support.world import FakeClock, open_world
from winnow.kafka.target_topic import TargetTopic
from winnow.kafka.transactional_writer import TransactionalWriter
from winnow.pipeline.restore import open_restore, share_processes, write_records
from winnow.pipeline.restore.offset_translation import TranslationFile

TRANSACTION_BYTES = 8_000
STEPS: tuple[tuple[Any, str], ...] = (
    (TransactionalWriter, "open"),
    (open_restore, "pin_snapshot"),
    (open_restore, "unpin_snapshots"),
    (TargetTopic, "create"),
    (TargetTopic, "alter_configuration"),
    (TransactionalWriter, "begin"),
    (TransactionalWriter, "write"),
    (TransactionalWriter, "_add_offsets"),
    (TransactionalWriter, "_commit"),
    (share_processes.ShareProcesses, "write"),
    (share_processes._ShareProcess, "tell"),
    (share_processes._ShareProcess, "wait_for_answer"),
    (TranslationFile, "__exit__"),
)


class Steps:
    """Counts steps, and kills the process at one of them."""

    def __init__(self, last: int) -> None:
        self.count = 0
        self._last = last

    def watch(self, owner: Any, name: str) -> None:
        """Count the moments before and after each call of ``owner.name``."""
        genuine: Callable[..., Any] = getattr(owner, name)

        def called(*arguments: Any, **named: Any) -> Any:
            self._step()
            result = genuine(*arguments, **named)
            self._step(waits=name == "write")
            return result

        setattr(owner, name, called)

    def _step(self, *, waits: bool = False) -> None:
        self.count += 1
        if self.count == self._last:
            if waits:
                time.sleep(0.2)  # the records reach the broker and stay uncommitted
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Restore as the arguments say."""
    folder, servers, target, last, *shares = sys.argv[1:]
    share_processes.MODULE = "tests.kafka.small_share"
    write_records.TRANSACTION_BYTES = TRANSACTION_BYTES
    steps = Steps(int(last))
    for owner, name in STEPS:
        steps.watch(owner, name)
    with open_world(Path(folder), FakeClock(int(time.time() * 1000))) as world:
        Target(servers, target).restore(world, shares=int(shares[0]) if shares else None)
    print(steps.count)


if __name__ == "__main__":
    main()
