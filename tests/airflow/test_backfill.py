"""A past month compacted by backfills with the real scheduler: in any order, beside the schedule, again; one state.

The month is the same for every topic but for its date, since a run exists once per DAG and date. Two of its days have
something to compact; the others, before the third and after it, have not and end quickly. BACKFILL_DAYS: how many days
each backfill has besides the first, which has one more, on which nothing is left to do.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from oracle.log_model import LogModel
from oracle.model_values import ModelConfig
from tests.support.embedded_airflow import EmbeddedAirflow
from tests.support.world import record, write_jsonl
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.installation import Installation
from winnow.pipeline.read.records import read_batches
from winnow.pipeline.topics.definition import create_topic, describe_topic
from winnow.store import RunState
from winnow.values.model import Record
from winnow.values.strategies import Strategy

BACKFILL = "backfill_topics"
SCHEDULED = "compact_topics"
DAYS = int(os.environ.get("BACKFILL_DAYS", "3"))
ALL_DAYS = DAYS + 1
DAY_MS = 86_400_000
HOUR_MS = 3_600_000
CONFIG = {"min.cleanable.dirty.ratio": "0", "segment.ms": str(HOUR_MS), "compaction.strategy": "timestamp"}
MODEL = ModelConfig(min_cleanable_dirty_ratio=0, segment_ms=HOUR_MS, strategy=Strategy.TIMESTAMP)
PARTITIONS = 2

# From where on a topic's month begins: the end of its first day, which is the as-of of its first run.
FORWARDS = datetime(2024, 1, 2, tzinfo=UTC)
BACKWARDS = datetime(2024, 2, 2, tzinfo=UTC)


def month(first: datetime) -> list[list[Record]]:
    """Two files of two partitions: of the first day, and of the third.

    Values over values, deletes of old keys and new values over deletes; every fifth record is late by an hour, so it
    loses against an earlier offset.
    """
    begins_ms = round(first.timestamp() * 1000) - DAY_MS
    files: list[list[Record]] = []
    for number, day in enumerate((0, 2)):
        records = []
        for partition in range(PARTITIONS):
            for place in range(60):
                offset = number * 60 + place
                late_ms = HOUR_MS if place % 5 == 0 else 0
                records.append(
                    record(
                        offset,
                        f"key-{(place * 7 + number) % (13 + 4 * number)}".encode(),
                        None if place % 11 == 3 else f"{partition}-{offset}".encode(),
                        begins_ms + day * DAY_MS + 6 * HOUR_MS + place * 60_000 - late_ms,
                        partition=partition,
                    )
                )
        files.append(records)
    return files


def make_topic(lake: Installation, folder: Path, topic: str, first: datetime) -> None:
    """The archive of one month as a topic."""
    create_topic(lake, topic, PARTITIONS, CONFIG)
    for number, records in enumerate(month(first)):
        path = write_jsonl(folder / f"{topic}-{number}.jsonl", records)
        ingest_files(lake, topic, [path], as_of_ms=lake.now_ms())


def contents(lake: Installation, topic: str, first: datetime) -> list[Record]:
    """Every record that a reader of ``topic`` sees, its timestamp counted from the beginning of its month."""
    begins_ms = round(first.timestamp() * 1000)
    return [
        record(
            row["offset"],
            row["key"],
            row["value"],
            round(row["timestamp"].timestamp() * 1000) - begins_ms,
            partition=row["partition"],
        )
        for batch in read_batches(lake, topic)
        for row in batch.to_pylist()
    ]


def expected(now_ms: int, first: datetime = FORWARDS) -> list[Record]:
    """What the oracle leaves of the month when it is compacted day by day."""
    begins_ms = round(first.timestamp() * 1000)
    kept: list[Record] = []
    for partition in range(PARTITIONS):
        log = LogModel()
        for records in month(first):
            log.append([each for each in records if each.partition == partition], now_ms)
        for day in range(ALL_DAYS):
            log.compact(MODEL, begins_ms + day * DAY_MS, now_ms)
        assert log.first_dirty_offset == 120
        kept += [replace(each, timestamp_ms=(each.timestamp_ms or 0) - begins_ms, headers=None) for each in log.read()]
    return kept


def first_dirty_offsets(lake: Installation, topic: str) -> dict[int, int | None]:
    """The cleaner checkpoint of each partition."""
    return {number: state.first_dirty_offset for number, state in describe_topic(lake, topic).states.items()}


def check_all_green(airflow: EmbeddedAirflow, since: str, *dag_ids: str) -> None:
    """No run failed, and no task had to be tried again."""
    for dag_id in dag_ids:
        for run in airflow.runs(dag_id, start_date_gte=since):
            run_id = run["dag_run_id"]
            assert airflow.failures(dag_id, run_id) == ""
            assert run["state"] != "failed"


def published_by(lake: Installation, topic: str) -> list[str]:
    """The DAGs that published the plans of ``topic``, of which none came to another end."""
    assert lake.store.leases.find(topic) is None
    runs = lake.store.runs.list_runs(topic)
    assert {run.status for run in runs} == {RunState.PUBLISHED}
    return [str(run.holder).split(":")[1] for run in runs]


def test_backfills_in_any_order_beside_the_schedule_and_again_give_one_state(
    real_airflow: EmbeddedAirflow, lake: Installation, tmp_path: Path
) -> None:
    """Forwards by the CLI, backwards by the form, again by the API, beside the schedule: what the oracle says.

    The CLI's and the UI's default is ten runs at a time, so the runs of one backfill meet one another first of all. The
    first day is at work already when the others look: they wait for it, and the last of them takes what is left.
    """
    started = datetime.now(UTC)
    wanted = expected(lake.now_ms())
    whole, last = timedelta(days=ALL_DAYS - 1), timedelta(days=DAYS - 1)
    real_airflow.unpause(BACKFILL)

    make_topic(lake, tmp_path, "forwards", FORWARDS)
    real_airflow.trigger(BACKFILL, topics=["forwards"], as_of=FORWARDS.isoformat())
    real_airflow.until(lambda: lake.store.runs.list_open("forwards"), "the first day is planned")
    real_airflow.cli(
        "backfill", "create", "--dag-id", BACKFILL,
        "--from-date", FORWARDS.isoformat(), "--to-date", (FORWARDS + whole).isoformat(),
        "--dag-run-conf", json.dumps({"topics": ["forwards"]}),
    )  # fmt: skip
    real_airflow.wait_backfill(BACKFILL)
    assert contents(lake, "forwards", FORWARDS) == wanted
    assert set(published_by(lake, "forwards")) == {BACKFILL}

    make_topic(lake, tmp_path, "beside", BACKWARDS)
    real_airflow.unpause(SCHEDULED)
    real_airflow.trigger(SCHEDULED, topics=["beside"])
    real_airflow.until(lambda: lake.store.runs.list_open("beside"), "the schedule has planned topic beside")
    make_topic(lake, tmp_path, "backwards", BACKWARDS)
    real_airflow.submit_form(
        BACKFILL, BACKWARDS + timedelta(days=1), BACKWARDS + last, {"topics": ["backwards", "beside"]},
        run_backwards=True,
    )  # fmt: skip
    real_airflow.trigger(SCHEDULED, topics=["backwards"])
    real_airflow.wait_backfill(BACKFILL)
    real_airflow.wait_all(SCHEDULED)
    for topic in ("backwards", "beside"):
        assert contents(lake, topic, BACKWARDS) == wanted
        assert set(published_by(lake, topic)) <= {BACKFILL, SCHEDULED}

    before = {topic: lake.log.open(topic).head().snapshot_id for topic in ("forwards", "backwards", "beside")}
    again = {"topics": ["forwards", "backwards"]}
    real_airflow.backfill(
        BACKFILL, FORWARDS, FORWARDS + last, reprocess_behavior="completed", dag_run_conf=again
    )  # fmt: skip
    real_airflow.wait_all(BACKFILL)
    real_airflow.wait_all(SCHEDULED)
    assert {topic: lake.log.open(topic).head().snapshot_id for topic in before} == before
    assert [first_dirty_offsets(lake, topic) for topic in before] == [{0: 120, 1: 120}] * 3
    check_all_green(real_airflow, started.isoformat(), BACKFILL, SCHEDULED)
