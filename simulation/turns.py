"""Runs several processes as threads, one at a time: at every call to the outside the turn can go to another one.

A process is a thread that waits for its turn and hands it back wherever it calls an adapter (:func:`calling`), so the
code under test runs unchanged and without a race of its own. A killed process gets :class:`ProcessKilled` at its next
call and at every later one: whatever it still tries to clean up has no effect.
"""

from __future__ import annotations

import faulthandler
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Final

from simulation.script import Place

_local = threading.local()

TURN_TIMEOUT_S: Final = 60
"""How long a process may keep its turn; longer means that it waits for another one, which never comes."""


class ProcessKilled(BaseException):
    """The process was killed. Not an Exception, so that nothing takes it for an error of its own."""


class Adapter(StrEnum):
    """What is called."""

    STORAGE = "storage"
    DISK = "disk"
    CATALOG = "catalog"
    STORE = "store"
    CLOCK = "clock"


@dataclass(frozen=True, slots=True)
class Call:
    """One call to the outside. ``is_done``: it has had its effect. ``writes``: it can have one."""

    adapter: Adapter
    name: str
    is_done: bool
    writes: bool

    def __str__(self) -> str:
        return f"{'after' if self.is_done else 'before'} {self.name}"


@dataclass
class Process:
    """One simulated process.

    ``step``: what it does. ``skew_ms``: how far its clock is ahead of the true time. ``asleep_until_ms``: true time.
    ``chance``: where it gets its randomness from. ``calls``: how many calls it has made. ``listing_age_ms``: how old
    the listing is that it gets next.
    """

    name: str
    step: str
    chance: Random
    skew_ms: int = 0
    asleep_until_ms: int = 0
    calls: int = 0
    is_killed: bool = False
    was_refused: bool = False
    is_unobserved: bool = False
    listing_age_ms: int = 0
    error: BaseException | None = None
    thread: threading.Thread | None = None
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    module_state: dict[object, object] = field(default_factory=dict)

    @property
    def is_running(self) -> bool:
        """Whether its code has not ended."""
        return self.thread is not None and self.thread.is_alive()

    @property
    def place(self) -> Place:
        """Where it is."""
        return Place(self.name, self.calls if self.is_running else -1)


class Turns:
    """Gives processes their turns.

    Args:
        meet: called in a process at each of its calls; it may kill it, let it sleep, or raise.
        switch: called when the turn goes from one process to another.
    """

    def __init__(
        self, meet: Callable[[Process, Call], None], switch: Callable[[Process | None, Process], None]
    ) -> None:
        self._meet = meet
        self._switch = switch
        self._handed_back = threading.Semaphore(0)
        self._last: Process | None = None
        self.calls = 0

    def start(self, process: Process, run: Callable[[], None]) -> None:
        """Start a process that waits for its first turn."""

        def body() -> None:
            _local.process, _local.turns = process, self
            process.turn.acquire()
            try:
                if not process.is_killed:
                    run()
            except ProcessKilled:
                process.is_killed = True
            except BaseException as problem:
                process.error = problem
            finally:
                _local.process = None
                self._handed_back.release()

        process.thread = threading.Thread(target=body, name=process.name, daemon=True)
        process.thread.start()

    def give(self, process: Process) -> None:
        """Give ``process`` its turn until its next call; it may end instead.

        Raises:
            RuntimeError: it keeps its turn.
        """
        if self._last is not process:
            self._switch(self._last, process)
            self._last = process
        calls = process.calls
        process.turn.release()
        if not self._handed_back.acquire(timeout=TURN_TIMEOUT_S):
            faulthandler.dump_traceback()
            raise RuntimeError(f"{process.name} does not hand the turn back")
        if process.calls == calls and process.thread is not None:
            process.thread.join()

    def hand_back(self, process: Process) -> None:
        """Hand the turn back from within ``process``; returns when it is its turn again.

        Raises:
            ProcessKilled: it was killed meanwhile.
        """
        if process.is_killed:
            raise ProcessKilled
        process.calls += 1
        self.calls += 1
        self._handed_back.release()
        process.turn.acquire()
        if process.is_killed:
            raise ProcessKilled

    def reach(self, process: Process, call: Call) -> None:
        """Come to a call: hand the turn back, then meet what is to happen there.

        Raises:
            ProcessKilled: the process was killed.
        """
        self.hand_back(process)
        self._meet(process, call)


def get_process() -> Process | None:
    """Return the simulated process of this thread; None: the thread is not one."""
    return getattr(_local, "process", None)


@contextmanager
def calling(adapter: Adapter, name: str, *, writes: bool) -> Iterator[None]:
    """Make the block a call to the outside: before it and after it another process may go on, or this one may fail."""
    process = get_process()
    if process is None or process.is_unobserved:
        yield
        return
    turns: Turns = _local.turns
    turns.reach(process, Call(adapter, name, is_done=False, writes=writes))
    yield
    turns.reach(process, Call(adapter, name, is_done=True, writes=writes))


@contextmanager
def unobserved(process: Process) -> Iterator[None]:
    """Make no call of the block, in the thread of ``process``, one of this process."""
    process.is_unobserved = True
    try:
        yield
    finally:
        process.is_unobserved = False


def sleep_until(now_ms: Callable[[], int], seconds: float) -> None:
    """Let the process of this thread sleep; the time is the world's."""
    process = get_process()
    assert process is not None
    turns: Turns = _local.turns
    process.asleep_until_ms = now_ms() + max(1, round(seconds * 1000))
    turns.reach(process, Call(Adapter.CLOCK, "sleep", is_done=False, writes=False))
