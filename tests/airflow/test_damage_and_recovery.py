"""An engineer's evening: a bit flips on the disk, an alert arrives, the file is restored, and the recovery is reported.

Everything is real: the segment file, the scheduler, Spark, the webhook, the browser.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from playwright.sync_api import Browser, expect

from tests.airflow.conftest import BROWSER_MS, log_in
from tests.support.embedded_airflow import EmbeddedAirflow
from tests.support.receivers import Posted
from tests.support.world import build_versions, compute_survivors, write_jsonl
from winnow.embedded.airflow_users import LOGIN
from winnow.files import storage
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.installation import Installation
from winnow.pipeline.read.records import read_batches
from winnow.pipeline.topics.definition import create_topic
from winnow.store import RunState
from winnow.values.model import Segment, TopicPartition

TOPIC = "payments"
RECORDS = 200


def flip_a_bit(segment: Segment) -> bytes:
    """Flip one bit of an offset in the file, where nothing but the offset tells; returns the file as it was."""
    path = storage.parse_local_path(segment.path)
    whole = path.read_bytes()
    column = pq.ParquetFile(path).metadata.row_group(0).column(1)
    assert column.path_in_schema == "offset"
    begins = column.data_page_offset
    for place in range(begins, begins + column.total_compressed_size):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        if _has_another_offset(bytes(damaged), segment):
            path.write_bytes(damaged)
            return whole
    raise AssertionError("Every flipped bit makes the file unreadable.")


def _has_another_offset(file: bytes, segment: Segment) -> bool:
    try:
        offsets = pq.read_table(pa.BufferReader(file)).column("offset").to_pylist()
    except (OSError, pa.ArrowException):
        return False
    return len(offsets) == segment.records and max(offsets) > segment.last_offset


def alerts(webhook: Posted) -> list[dict[str, Any]]:
    """What arrived about the topic."""
    return [alert for alert in map(json.loads, webhook.bodies) if alert["topic"] == TOPIC]


def test_a_flipped_bit_is_alerted_repaired_released_and_reported_as_recovered(
    real_airflow: EmbeddedAirflow, lake: Installation, webhook: Posted, browser: Browser, tmp_path: Path
) -> None:
    """Red run, alert, its link through Airflow's login to the run, release by a click, green run, recovery."""
    create_topic(lake, TOPIC, 2, {"min.cleanable.dirty.ratio": "0"})
    records = [each for partition in (0, 1) for each in build_versions(0, RECORDS, partition=partition)]
    ingest_files(lake, TOPIC, [write_jsonl(tmp_path / "in.jsonl", records)], as_of_ms=1_000)
    log = lake.log.open(TOPIC)
    segment = log.segments(log.head())[0][0]
    whole = flip_a_bit(segment)

    real_airflow.unpause("compact_now", "compact_topics", "change_partitions")
    real_airflow.trigger("compact_topics", topics=[TOPIC])
    (alert,) = real_airflow.until(lambda: alerts(webhook), "the webhook was told")
    # The engine checks what it copies page by page, and names the segment.
    assert (alert["kind"], alert["partitions"]) == ("uncleanable_partition", [0])
    assert list(lake.store.projection.list_uncleanable([TOPIC])) == [TopicPartition(TOPIC, 0)]
    # The schedule may have been first, and the other run may take the partition that is well already.
    (run,) = [each for each in lake.store.runs.list_runs(TOPIC) if each.status is RunState.SPARK_FAILED]
    assert alert["link"] == f"{real_airflow.url}/winnow/page#/runs/{run.plan_id}"

    page = browser.new_page()
    page.set_default_timeout(BROWSER_MS)
    expect.set_options(timeout=BROWSER_MS)
    page.goto(alert["link"])
    log_in(page, real_airflow)
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"Compaction of {TOPIC}")
    expect(page.locator("#main")).to_contain_text("Nothing was published")
    assert page.url == alert["link"]
    page.screenshot(path=tmp_path / "run.png", full_page=True)
    red = str(run.holder).removeprefix("airflow:compact_topics:")
    assert real_airflow.wait("compact_topics", red) == "failed"

    storage.parse_local_path(segment.path).write_bytes(whole)
    page.get_by_role("button", name=f"Release {TOPIC}-0").click()
    page.get_by_role("dialog").get_by_role("textbox").fill("restored from the backup")
    page.get_by_role("dialog").get_by_role("button", name="Release", exact=True).click()
    real_airflow.until(lambda: not lake.store.projection.list_uncleanable([TOPIC]), "the partition is released")

    page.goto(f"{real_airflow.url}/winnow/page#/topics/{TOPIC}")
    page.get_by_role("button", name="Compact now").click()
    page.get_by_role("dialog").get_by_role("button", name="Compact now").click()
    recovery = real_airflow.until(lambda: alerts(webhook)[1:], "the webhook was told that it is well")
    assert [(each["kind"], each["partitions"]) for each in recovery] == [("recovered", [0])]
    assert "restored from the backup" in recovery[0]["text"]
    page.screenshot(path=tmp_path / "topic.png", full_page=True)
    read = [row["offset"] for batch in read_batches(lake, TOPIC) for row in batch.to_pylist()]
    assert read == [each.offset for each in compute_survivors(records)]
    (changed,) = real_airflow.runs("change_partitions")
    assert (changed["state"], changed["conf"]["action"], changed["triggering_user_name"]) == (
        "success", "release", LOGIN,
    )  # fmt: skip
    page.close()
