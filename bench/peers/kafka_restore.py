"""Restores a topic as ``winnow restore`` does, and prints when each of its parts began and the CPU time it took.

python -m bench.peers.kafka_restore SERVERS TOPIC TARGET FOLDER SHARES
"""

from __future__ import annotations

import os
import sys
import time
from itertools import pairwise
from pathlib import Path

from bench.peers.timing import print_times
from winnow.cli.options import open_for_command
from winnow.kafka.client_settings import ClientSettings


class PhaseTimes:
    """Takes in a restore's progress and remembers the clocks at the beginning of each phase."""

    def __init__(self) -> None:
        self.began: dict[str, tuple[float, float]] = {}

    def __call__(self, phase: str, done_bytes: int, total_bytes: int) -> None:
        """Take in how far it is."""
        self.began.setdefault(phase, read_clocks())


def read_clocks() -> tuple[float, float]:
    """Return the monotonic clock and the CPU time of this process and of those that it has waited for, in seconds."""
    return time.monotonic(), sum(os.times()[:4])


def main() -> None:
    """Restore as the arguments say."""
    from winnow.pipeline.restore.restore import restore_topic
    from winnow.pipeline.restore.restore_request import RestoreRequest

    servers, topic, target, folder, shares = sys.argv[1:6]
    phases = PhaseTimes()
    with print_times() as times, open_for_command() as installation:
        times.ready, began_cpu = read_clocks()
        request = RestoreRequest(topic, target, Path(folder) / f"{target}.parquet", shares=int(shares))
        report = restore_topic(installation, request, ClientSettings(servers), phases)
        times.done, ended_cpu = read_clocks()
        times.figures |= {"records": report.records, "cpu": ended_cpu - began_cpu}
        points = [*phases.began.items(), ("", (times.done, ended_cpu))]
        for (name, (at, cpu)), (_, (next_at, next_cpu)) in pairwise(points):
            times.figures |= {f"{name.lower()}": next_at - at, f"{name.lower()}_cpu": next_cpu - cpu}


if __name__ == "__main__":
    main()
