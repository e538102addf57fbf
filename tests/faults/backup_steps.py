"""Works until a step given by its number: each write, rename, new folder, sync and transaction.

What works is a backup, its restore, and the recovery or adoption of a topic.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import Engine, event

from tests.support.world import TOPIC, World
from winnow.files import disk_sync, file_copies
from winnow.pipeline.backup.create import create_backup
from winnow.pipeline.backup.restore import restore_backup
from winnow.pipeline.topics.adoption import adopt_topic
from winnow.pipeline.topics.recovery import recover_topic

FOLDER = "backup"
"""The folder of the backups, below the world's."""

_CHANGES = frozenset({"os.rename", "os.mkdir", "os.remove", "os.link", "os.truncate"})


class StepCounter:
    """Counts steps, and acts at one of them."""

    def __init__(self, step: int, act: Callable[[], None]) -> None:
        self._left = step
        self._act = act
        self._one_at_a_time = threading.Lock()
        self.count = 0

    def pass_step(self, *_: Any) -> None:
        """Count one step; act if it is the one."""
        with self._one_at_a_time:
            self.count += 1
            self._left -= 1
            due = self._left == 0
        if due:
            self._act()


def watch_steps(counter: StepCounter) -> None:
    """Have every change of a file or a database counted, in this process for ever."""

    def audit(name: str, arguments: tuple[Any, ...]) -> None:
        opens_to_write = name == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
        if name in _CHANGES or opens_to_write:
            counter.pass_step()

    def read_blocks(stream: Any) -> Iterator[bytes]:
        # The file that is being written has half of each block when the process dies.
        for block in genuine_blocks(stream):
            yield block[: len(block) // 2]
            counter.pass_step()
            yield block[len(block) // 2 :]

    def sync_file(path: Any) -> None:
        counter.pass_step()
        genuine_sync(path)

    genuine_blocks, genuine_sync = file_copies._read_blocks, disk_sync._sync_file
    file_copies._read_blocks = read_blocks
    disk_sync._sync_file = sync_file
    event.listen(Engine, "commit", counter.pass_step)
    sys.addaudithook(audit)


def adopt(world: World) -> None:
    """Adopt the topic from where its table lies."""
    (folder,) = world.folder.glob(f"home/warehouse/winnow/{TOPIC}-*")
    adopt_topic(world.installation, TOPIC, str(folder), run=True)


WORKS: dict[str, Callable[[World], object]] = {
    "create": lambda world: create_backup(world.installation, str(world.folder / FOLDER)),
    "restore": lambda world: restore_backup(world.installation, str(world.folder / FOLDER)),
    "adopt": adopt,
    "recover": lambda world: recover_topic(world.installation, TOPIC, run=True),
    "rebuild": lambda world: recover_topic(world.installation, TOPIC, rebuild=True, run=True),
}


def work_until(world: World, work: str, step: int, act: Callable[[], None]) -> None:
    """One of :data:`WORKS` until ``step``; how many steps there were goes to standard error."""
    counter = StepCounter(step, act)
    watch_steps(counter)
    WORKS[work](world)
    sys.stderr.write(f"{counter.count}\n")
