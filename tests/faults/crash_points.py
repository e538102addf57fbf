"""Works on a log and is killed or stopped at a named point.

    python crash_points.py MOMENT FOLDER NOW_MS [kill|stop]

MOMENT is one of :data:`MOMENTS`, or a number: that step of an ingest as Spark does it (distributed_ingest_steps.py), or
a word and a number: that step of a backup, a recovery or an adoption (backup_steps.py), or ``every`` and a command
(every_command.py), which is killed from outside (power_cut.py).

Whatever runs is Winnow's own; only the moment is arranged. A process that was stopped goes on after SIGCONT and ends
with the exit code of what it did.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyiceberg.table import Transaction

from tests.support import path_watch
from tests.support.world import TOPIC, FakeClock, World, open_world
from winnow.engine import staging
from winnow.errors import WinnowError
from winnow.files import storage
from winnow.log.latest_tables import LatestTable
from winnow.log.quarantine import Quarantine
from winnow.log.sql_catalog import LogSqlCatalog
from winnow.log.topic_log import TopicLog
from winnow.log.topics import TopicLogs
from winnow.pipeline.admin import leftovers
from winnow.pipeline.admin import sweep as sweeping
from winnow.pipeline.compaction import publish
from winnow.pipeline.ingest import commit
from winnow.pipeline.ingest.history import list_ingests
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.ingest.undo import undo_ingest
from winnow.pipeline.latest import table_change
from winnow.pipeline.latest.table import update_latest_table
from winnow.pipeline.topics.definition import create_topic
from winnow.pipeline.topics.deletion import delete_topic
from winnow.store import RunState
from winnow.store.projection import Projection
from winnow.store.retired_files import RetiredFiles
from winnow.store.runs import Runs, Verdicts

SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}
_left = ["kill"]
"""What happens at the moment, once."""


def kill_process() -> None:
    """End this process at once, or stop it. What it has written stays; a power cut is another thing (power_cut.py)."""
    if _left:
        os.kill(os.getpid(), SIGNALS[_left.pop()])


def kill_before(owner: Any, name: str, when: Callable[..., bool] = lambda *_, **__: True) -> None:
    """Die instead of calling ``owner.name``."""
    genuine = getattr(owner, name)

    def call(*arguments: Any, **named: Any) -> Any:
        if when(*arguments, **named):
            kill_process()
        return genuine(*arguments, **named)

    setattr(owner, name, call)


def kill_after(owner: Any, name: str, when: Callable[..., bool] = lambda *_, **__: True) -> None:
    """Die as soon as ``owner.name`` has returned."""
    genuine = getattr(owner, name)

    def call(*arguments: Any, **named: Any) -> Any:
        result = genuine(*arguments, **named)
        if when(*arguments, **named):
            kill_process()
        return result

    setattr(owner, name, call)


def is_state_change(state: RunState) -> Callable[..., bool]:
    """Whether a call of ``Runs.set_state`` is about ``state``."""
    return lambda _store, _plan, to, *_, **__: to is state


def ingest(world: World) -> None:
    path = str(world.folder / "late.jsonl")
    ingest_files(world.installation, TOPIC, [path], as_of_ms=world.clock())


def compact(world: World) -> None:
    world.compact()


def sweep(world: World) -> None:
    sweeping.sweep_topics(world.installation, [TOPIC])


def undo(world: World) -> None:
    (newest,) = list_ingests(world.installation, TOPIC, limit=1).calls
    undo_ingest(world.installation, TOPIC, newest.ingest_id)


def update_latest(world: World) -> None:
    update_latest_table(world.installation, TOPIC)


def delete(world: World) -> None:
    delete_topic(world.installation, TOPIC)


def create(world: World) -> None:
    create_topic(world.installation, "created", 1, {})


def note_installation(world: World) -> None:
    storage.delete(world.installation.guard.document)
    world.installation.guard.check()


def remove(world: World) -> None:
    delete_topic(world.installation, TOPIC, now=True)


MOMENTS: dict[str, tuple[Callable[[], None], Callable[[World], None]]] = {
    "ingest before its commit": (lambda: kill_before(Transaction, "commit_transaction"), ingest),
    "ingest after its commit": (lambda: kill_after(Transaction, "commit_transaction"), ingest),
    "compact before its files": (lambda: kill_before(Runs, "begin_attempt"), compact),
    "compact before its manifest": (lambda: kill_before(staging, "write_manifest"), compact),
    "between compact and validate": (
        lambda: kill_after(Runs, "set_state", is_state_change(RunState.STAGED)),
        compact,
    ),
    "validate after its verdict": (lambda: kill_after(Verdicts, "record"), compact),
    "publish between a document and its copy": (
        lambda: kill_before(storage, "write_bytes", lambda path, *_, **__: "/winnow_copies/" in path),
        compact,
    ),
    "publish before the commit": (lambda: kill_before(Transaction, "commit_transaction"), compact),
    "publish with the head at hand": (lambda: kill_before(publish, "find_fence_violation"), compact),
    "publish with the change at hand": (lambda: kill_after(publish, "build_change"), compact),
    "publish with its files checked": (lambda: kill_after(publish, "check_staged_files"), compact),
    "ingest with the change at hand": (lambda: kill_before(commit, "check_same_log"), ingest),
    "publish after the commit": (lambda: kill_after(Transaction, "commit_transaction"), compact),
    "publish before the checkpoint": (lambda: kill_before(Projection, "record_publication"), compact),
    "publish within the checkpoint": (lambda: kill_after(Projection, "record_publication"), compact),
    "latest table before its commit": (lambda: kill_before(LatestTable, "commit"), compact),
    "latest table with its files written": (lambda: kill_after(table_change, "write_part"), update_latest),
    "latest table after its commit": (lambda: kill_after(LatestTable, "commit"), compact),
    "sweep before expiry": (lambda: kill_before(sweeping, "expire_snapshots"), sweep),
    "sweep after expiry": (lambda: kill_after(sweeping, "expire_snapshots"), sweep),
    "sweep amid deletion": (lambda: kill_before(RetiredFiles, "mark_deleted"), sweep),
    "sweep before forgetting": (lambda: kill_before(TopicLog, "commit"), sweep),
    "sweep before listing": (lambda: kill_before(leftovers, "list_attempt_files"), sweep),
    "sweep before condemning": (lambda: kill_before(TopicLog, "commit"), sweep),
    "sweep before deletion": (lambda: kill_before(storage, "delete"), sweep),
    "publish after adopting keyless records": (lambda: kill_after(Quarantine, "adopt"), compact),
    "ingest after quarantining": (lambda: kill_after(Quarantine, "append"), ingest),
    "undo before its commit": (lambda: kill_before(Transaction, "commit_transaction"), undo),
    "undo after its commit": (lambda: kill_after(Transaction, "commit_transaction"), undo),
    "deletion before its commit": (lambda: kill_before(Transaction, "commit_transaction"), delete),
    "deletion after its commit": (lambda: kill_after(Transaction, "commit_transaction"), delete),
    "removal amid deletion": (lambda: kill_before(Projection, "forget_topic"), remove),
    "removal before the entry goes": (lambda: kill_before(TopicLogs, "drop"), remove),
    "creation before its entry": (lambda: kill_before(LogSqlCatalog, "register_table"), create),
    "creation before the installation's document": (
        lambda: kill_before(storage, "create_bytes"),
        note_installation,
    ),
    "removal after the entry went": (lambda: kill_after(TopicLogs, "drop"), remove),
}


def ingest_by_tasks(world: World, step: str) -> None:
    """Ingest an archive as Spark does, until a step given by its number."""
    from tests.faults.distributed_ingest_steps import ingest_until

    ingest_until(world, int(step), kill_process)


def work_until_step(world: World, moment: str) -> None:
    """Work until a step given by its number, or what ``every`` names."""
    if moment.startswith("every "):
        from tests.faults import every_command

        every_command.run(world, moment.removeprefix("every "))
        return
    kind, _, step = moment.rpartition(" ")
    if not kind:
        ingest_by_tasks(world, step)
        return
    from tests.faults.backup_steps import work_until

    work_until(world, kind, int(step), kill_process)


def main() -> None:
    """Arrange the moment and do the work."""
    path_watch.install()
    moment, folder, now_ms, *how = sys.argv[1:]
    _left[:] = how or _left
    arrange, work = MOMENTS.get(moment) or (lambda: None, lambda world: work_until_step(world, moment))
    with open_world(Path(folder), FakeClock(int(now_ms))) as world:
        arrange()
        try:
            work(world)
        except WinnowError as problem:
            sys.stderr.write(f"{problem}\n")
            sys.exit(problem.exit_code)


if __name__ == "__main__":
    main()
