"""An ingest from a broker that kills its own process at its n-th step: a call of one of the functions below.

    python -m tests.kafka.killed_ingest FOLDER BROKER TOPIC local|processes|spark STEP

Spark's tasks run in this process: what is left behind is what killed tasks, drivers and submitters leave. With
``processes`` three others read and end with this one, whose steps alone count. STEP 0: it runs to its end and prints
how many steps there were.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyiceberg.table import Transaction

from tests.support.in_process_ingest import carry_out_plans_in_process
from tests.support.world import FakeClock, open_world
from winnow.clock import read_wall_clock_ms
from winnow.files import storage
from winnow.files.segments import SegmentWriter
from winnow.kafka.client_settings import read_client_settings
from winnow.kafka.cluster import Cluster
from winnow.kafka.range_reader import RangeReader
from winnow.log.topic_log import TopicLog
from winnow.pipeline.ingest.kafka import ingest as kafka_ingest
from winnow.pipeline.ingest.kafka import run as kafka_run
from winnow.pipeline.ingest.kafka.ingest import KafkaRequest, ingest_kafka_topics
from winnow.store.ingests import Ingests

STEPS: tuple[tuple[Any, str], ...] = (
    (storage, "write_bytes"),
    (storage, "list_files"),
    (storage, "delete"),
    (storage, "sync"),
    (SegmentWriter, "write"),
    (SegmentWriter, "finish"),
    (RangeReader, "_take"),
    (RangeReader, "read"),
    (Ingests, "open"),
    (Ingests, "close"),
    (TopicLog, "commit"),
    (kafka_ingest, "add_partitions"),
    (Transaction, "commit_transaction"),
    (Cluster, "describe_topics"),
    (kafka_ingest, "plan_reading"),
    (kafka_ingest, "advance_epochs"),
    (kafka_run, "check_result"),
    (kafka_run._RangeProcess, "assign"),
    (kafka_run._RangeProcess, "receive"),
    (kafka_run._RangeProcess, "__exit__"),
)


def let_three_processes_read(set_attribute: Callable[[Any, str, Any], None]) -> None:
    """Let each twenty offsets be enough for a process, on a machine of three cores."""
    set_attribute(kafka_run, "MINIMUM_PROCESS_OFFSETS", 20)
    set_attribute(kafka_run, "count_cores", lambda: 3)


def ingest_until(folder: str, servers: str, topic: str, on: str, last: int) -> int:
    """Ingest until the ``last``-th step; return the number of steps."""
    vars(kafka_run)["submit_ingest_plans"] = carry_out_plans_in_process
    kafka_run.MINIMUM_RANGE_OFFSETS = 60
    if on == "processes":
        let_three_processes_read(setattr)
    passed = 0

    def count(genuine: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal passed
            passed += 1
            if passed == last:
                os.kill(os.getpid(), signal.SIGKILL)
            return genuine(*arguments, **named)

        return call

    with open_world(Path(folder), FakeClock(read_wall_clock_ms())) as world:
        cluster = Cluster(read_client_settings(servers))
        for owner, name in STEPS:
            setattr(owner, name, count(getattr(owner, name)))
        done = ingest_kafka_topics(
            world.installation,
            cluster,
            {topic: topic},
            KafkaRequest(creates=True),
            as_of_ms=world.clock(),
            on="spark" if on == "spark" else "local",
        )
    for failure in done.failures:
        raise failure.error
    return passed


def main() -> None:
    """Ingest as the arguments say."""
    folder, servers, topic, on, last = sys.argv[1:]
    print(ingest_until(folder, servers, topic, on, int(last)))


if __name__ == "__main__":
    main()
