"""Ten processes work on one topic and are stopped at random: ``FOLDER SEED SECONDS``.

Leases last two seconds and graces are zero, so a process that was stopped finds its topic taken over and swept. Each
process appends to a partition of its own; all compact, settle and sweep the whole topic. Each keeps what it has
appended in ``appended-N.jsonl``; whatever it did not expect is a traceback in ``failed-N.txt``.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import time
import traceback
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb

from tests.support.world import TOPIC, World, json_line, record, write_jsonl
from winnow.clock import read_wall_clock_ms
from winnow.config.settings import load_settings
from winnow.errors import RunAgainError, ServiceError
from winnow.files.pyarrow_without_pandas import keep_pandas_out_of_pyarrow
from winnow.log.head import Change, Committed, Head
from winnow.log.topic_log import TopicLog
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.installation import open_installation

PROCESSES = 10
KEYS = 7
LEASE_MS = 2_000
EXPECTED = (RunAgainError, ServiceError, FileNotFoundError, duckdb.IOException)
"""What a process that was stopped may meet: others came first, and without a grace what it was reading was swept."""


@contextlib.contextmanager
def open_topic(folder: Path) -> Iterator[World]:
    """The topic's world on the wall clock, with short leases."""
    env = {"WINNOW_HOME": str(folder / "home"), "WINNOW_LEASE_MS": str(LEASE_MS)}
    with open_installation(load_settings(cwd=folder, env=env), now_ms=read_wall_clock_ms) as installation:
        yield World(installation, read_wall_clock_ms, folder)  # type: ignore[arg-type]


def wait_before_commits(chance: random.Random) -> None:
    """Let every third commit stand a while between reading the head and committing, where stopping it is worst."""
    genuine = TopicLog._try

    def slow(log: TopicLog, head: Head, change: Change) -> Committed | None:
        if chance.random() < 0.3:
            time.sleep(chance.random() * 0.4)
        return genuine(log, head, change)

    TopicLog._try = slow  # type: ignore[method-assign, assignment]


class Worker:
    """One process: appends to its partition, compacts and sweeps the topic, until the time is over."""

    def __init__(self, world: World, number: int, chance: random.Random) -> None:
        self._world = world
        self._read_number = number
        self._chance = chance
        self._next = 0
        self._appended = (world.folder / f"appended-{number}.jsonl").open("a")

    def work(self, until: float) -> None:
        """Do one thing after another; that others came first is no failure."""
        while time.monotonic() < until:
            work = self._chance.choices([self._append, self._compact, self._sweep], weights=[4, 4, 2])[0]
            with contextlib.suppress(*EXPECTED):
                work()

    def _append(self) -> None:
        count = self._chance.randint(1, 8)
        records = [
            record(
                offset,
                f"key-{self._chance.randrange(KEYS)}".encode(),
                f"{self._read_number}-{offset}".encode(),
                partition=self._read_number,
            )
            for offset in range(self._next, self._next + count)
        ]
        path = write_jsonl(self._world.folder / f"in-{self._read_number}-{self._next}.jsonl", records)
        # Until it is certain; the same offsets never land twice.
        for _ in range(20):
            with contextlib.suppress(*EXPECTED):
                ingest_files(self._world.installation, TOPIC, [path], as_of_ms=read_wall_clock_ms())
                break
        else:
            raise RuntimeError(f"{path} could not be appended")
        self._appended.write("".join(json_line(each) + "\n" for each in records))
        self._appended.flush()
        self._next += count

    def _compact(self) -> None:
        self._world.compact(read_wall_clock_ms(), attempt=f"a-{uuid.uuid4().hex[:12]}")

    def _sweep(self) -> None:
        sweep_topics(self._world.installation, [TOPIC])


def start(folder: Path, number: int, seed: int, until: float) -> int:
    """Fork a worker; its process id."""
    pid = os.fork()
    if pid:
        return pid
    exit_code = 1
    try:
        chance = random.Random(f"{seed}-{number}")
        wait_before_commits(chance)
        with open_topic(folder) as world:
            Worker(world, number, chance).work(until)
        exit_code = 0
    except BaseException:
        (folder / f"failed-{number}.txt").write_text(traceback.format_exc())
    finally:
        os._exit(exit_code)


def stop_at_random(workers: list[int], chance: random.Random, until: float) -> int:
    """Stop one process after another for up to three leases; how often."""
    stops = 0
    asleep: dict[int, float] = {}
    while time.monotonic() < until:
        time.sleep(0.05)
        now = time.monotonic()
        for pid in [pid for pid, wakes in asleep.items() if wakes <= now]:
            os.kill(pid, signal.SIGCONT)
            del asleep[pid]
        if len(asleep) < PROCESSES // 2 and chance.random() < 0.3:
            pid = chance.choice([each for each in workers if each not in asleep])
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                asleep[pid] = now + chance.uniform(0.1, 3 * LEASE_MS / 1000)
                stops += 1
    for pid in asleep:
        os.kill(pid, signal.SIGCONT)
    return stops


def main() -> None:
    """Let the crowd work; ends with the worst exit code of its processes."""
    folder, seed, seconds = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    keep_pandas_out_of_pyarrow()
    with open_topic(folder) as world:
        config: dict[str, Any] = {"min_cleanable_dirty_ratio": "0", "winnow_retired_grace_ms": "0"}
        world.create(PROCESSES, **config)
    until = time.monotonic() + seconds
    workers = [start(folder, number, seed, until) for number in range(PROCESSES)]
    stops = stop_at_random(workers, random.Random(seed), until)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in workers]
    print(f"{stops} stops")
    sys.exit(max(map(abs, codes)))


if __name__ == "__main__":
    main()
