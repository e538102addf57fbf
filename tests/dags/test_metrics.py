"""Winnow's metrics and events through Airflow's own, received on real sockets and from a real log."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality

from tests.dags.conftest import RunDag
from tests.support.airflow_environment import ENVIRONMENT
from tests.support.dag_topics import build_old_lines, make_topic
from tests.support.receivers import Datagrams, Posted, open_statsd, open_webhook
from winnow.pipeline.installation import Installation, open_installation
from winnow.report.events import log as events_log
from winnow.report.events import log_event
from winnow.report.metrics import Measurement
from winnow_airflow import metrics
from winnow_airflow.event_logging import log_pipeline_events
from winnow_airflow.tasks import monitoring

UNREACHABLE_STORE = "postgresql+psycopg://winnow@127.0.0.1:1/winnow"

Point = Callable[..., None]
"""Points Airflow's stats at a StatsD server: (port, tagged=...)."""


@pytest.fixture
def statsd() -> Iterator[Datagrams]:
    """A StatsD server."""
    with open_statsd() as server:
        yield server


@pytest.fixture
def airflow_stats(monkeypatch: pytest.MonkeyPatch) -> Iterator[Point]:
    """Switches Airflow's StatsD on, with the client that Airflow takes; afterwards its stats go nowhere again."""

    def point(port: int, *, tagged: bool = True) -> None:
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_HOST", "127.0.0.1")
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_PORT", str(port))
        monkeypatch.setenv("AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED", str(tagged))
        stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=True)

    yield point
    stats.initialize(factory=NoStatsLogger, export_legacy_names=True)


class DagRun:
    """What a task knows of its DAG run."""

    dag_id, run_id = "compact_topics", "manual"


def context_of(*topics: str) -> dict[str, Any]:
    """What a task of a run with the Param ``topics`` is given."""
    return {"params": {"topics": list(topics)}, "dag_run": DagRun()}


def published(topic: str) -> None:
    """What the pipeline tells of a published plan."""
    log_event(
        "published", topic, plan_id="p", attempt="a", records_superseded=60, bytes_in=9, bytes_out=4, duration_ms=7
    )


def test_gauges_reach_a_statsd_server_with_their_topic_as_a_tag(
    installation: Installation, tmp_path: Path, statsd: Datagrams, airflow_stats: Point
) -> None:
    """Through Airflow's own logger: its prefix, its way of writing tags."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(10, 5)], max_compaction_lag_ms="3600000")
    make_topic(installation, tmp_path, "web.clicks", [build_old_lines(10, 5)])
    airflow_stats(statsd.port)
    sent = metrics.send_gauges(installation, ["orders", "web.clicks"])
    found = statsd.lines()
    assert len(found) == sent
    assert found["overdue-partitions-count,topic=orders"] == ["1|g"]
    assert found["overdue-partitions-count,topic=web.clicks"] == ["0|g"]
    assert found["total.overdue-partitions-count"] == ["1|g"]


def test_plain_statsd_gets_a_name_of_its_own_for_every_topic_and_label(
    installation: Installation, tmp_path: Path, statsd: Datagrams, airflow_stats: Point
) -> None:
    """It drops tags, and one topic's gauge would overwrite another's; counters and timers add up."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(10, 5)])
    make_topic(installation, tmp_path, "web.clicks", [build_old_lines(10, 5)])
    airflow_stats(statsd.port, tagged=False)
    sent = metrics.send_gauges(installation, ["orders", "web.clicks"])
    found = statsd.lines()
    assert len(found) == sent
    assert {"max-dirty-percent.orders", "max-dirty-percent.web__clicks"} < found.keys()
    with (
        log_pipeline_events(installation),
        log_pipeline_events(installation),
    ):  # a task within a task's context tells once
        published("orders")
        published("web.clicks")
    assert statsd.lines() == {
        "runs.published": ["1|c"] * 2,
        "records-removed.superseded": ["60|c"] * 2,
        "bytes-removed": ["5|c"] * 2,
        "phase.publish": ["7.000000|ms"] * 2,
    }


def test_more_topics_than_the_setting_send_totals_and_no_single_topic(
    installation: Installation, tmp_path: Path, statsd: Datagrams, airflow_stats: Point, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gauges, counters and timers alike: series of their own for thousands of topics are too many."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(10, 5)])
    make_topic(installation, tmp_path, "clicks", [build_old_lines(10, 5)])
    airflow_stats(statsd.port)
    monkeypatch.setenv("WINNOW_METRICS__MOST_TOPICS", "1")
    with open_installation() as narrow:
        assert metrics.send_gauges(narrow, ["orders", "clicks"]) > 0
        with log_pipeline_events(narrow):
            published("orders")
    found = statsd.lines()
    assert [name for name in found if "topic=" in name] == []
    assert found["total.partitions-count"] == ["2|g"]
    assert found["runs,outcome=published"] == ["1|c"]


def test_run_about_chosen_topics_sends_no_total(
    installation: Installation, tmp_path: Path, statsd: Datagrams, airflow_stats: Point
) -> None:
    """It has not seen the others, and would overwrite what the last run said of all of them."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(10, 10, at_ms=installation.now_ms())])
    make_topic(installation, tmp_path, "clicks", [build_old_lines(10, 10, at_ms=installation.now_ms())])
    airflow_stats(statsd.port)
    monitoring.send_run_metrics(context_of("orders"))
    found = statsd.lines()
    assert found["partitions-count,topic=orders"] == ["1|g"]
    assert [name for name in found if name.startswith("total.") or "clicks" in name] == []


def test_a_stats_server_that_is_away_breaks_nothing(
    installation: Installation, tmp_path: Path, statsd: Datagrams, airflow_stats: Point
) -> None:
    """Nobody listens at the port, and the sending goes through or ends early; it raises in no case."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(10, 5)])
    port = statsd.port
    statsd.server.close()
    airflow_stats(port)
    with log_pipeline_events(installation):
        published("orders")
    metrics.send_gauges(installation, ["orders"])


def test_a_topic_that_cannot_be_measured_leaves_the_others_measured(
    installation: Installation, tmp_path: Path, statsd: Datagrams, airflow_stats: Point
) -> None:
    """And where none can be, no total of zeros is sent."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(10, 5)])
    airflow_stats(statsd.port)
    metrics.send_gauges(installation, ["missing", "orders"])
    assert "paused-partitions-count,topic=orders" in statsd.lines()
    assert metrics.send_gauges(installation, ["missing"]) == 0


def test_unknown_metrics_are_not_sent() -> None:
    """A topic that was never compacted has no recopy percentage, and zero would be a lie."""
    names = [name for name, _, _ in metrics.build_gauges([Measurement("orders")], tagged=True)]
    assert "winnow.max-dirty-percent" in names
    assert "winnow.cleaner-recopy-percent" not in names
    assert list(metrics.build_gauges([], tagged=True)) == []


@pytest.mark.parametrize(
    ("switches", "on", "tagged"),
    [
        ({}, False, True),
        ({"STATSD_ON": "True"}, True, False),
        ({"STATSD_ON": "True", "STATSD_INFLUXDB_ENABLED": "True"}, True, True),
        ({"STATSD_ON": "True", "STATSD_DATADOG_ENABLED": "True"}, True, True),
        ({"OTEL_ON": "True"}, True, True),
    ],
)
def test_switches_of_airflow_decide_whether_and_how_metrics_are_sent(
    monkeypatch: pytest.MonkeyPatch, switches: dict[str, str], on: bool, tagged: bool
) -> None:
    """Winnow has no switch of its own for them."""
    for name, value in switches.items():
        monkeypatch.setenv(f"AIRFLOW__METRICS__{name}", value)
    assert (metrics.are_metrics_enabled(), metrics.supports_tags()) == (on, tagged)


SEND = """
import os, sys
from airflow.sdk.log import configure_logging
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils
from winnow.pipeline.installation import open_installation
from winnow.report.events import log_event
from winnow_airflow import metrics
from winnow_airflow.event_logging import log_pipeline_events
configure_logging(json_output=True, output=sys.stdout.buffer)
stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=True)  # as a task's process begins
with open_installation() as installation:
    sent = metrics.send_gauges(installation, ["orders"])
    with log_pipeline_events(installation):  # last, so that nobody else hands over what it counts
        log_event("published", "orders", plan_id="p", attempt="a", records_in=100, duration_ms=1500)
sys.stdout.flush()
sys.stderr.write(f"SENT {sent}\\n")
os._exit(0)  # as a task's process ends: without exit hooks
"""


@pytest.fixture
def collector() -> Iterator[Posted]:
    """An OpenTelemetry collector."""
    with open_webhook() as server:
        yield server


def in_a_task_process(home: Path, url: str) -> subprocess.CompletedProcess[str]:
    """What happens in the task, in a process that begins, logs and ends like one."""
    environment = {
        **os.environ,
        **ENVIRONMENT,
        "WINNOW_HOME": str(home),
        "PYTHONPATH": ENVIRONMENT["AIRFLOW__CORE__PLUGINS_FOLDER"],
        "AIRFLOW__METRICS__OTEL_ON": "True",
        "OTEL_EXPORTER_OTLP_ENDPOINT": url,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "delta",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "2",
    }
    return subprocess.run([sys.executable, "-c", SEND], env=environment, capture_output=True, text=True, timeout=120)


def test_opentelemetry_collector_gets_gauges_counters_and_timers_before_the_task_ends(
    installation: Installation, tmp_path: Path, collector: Posted
) -> None:
    """As Airflow itself is set up for it, with labels as attributes; nothing waits for an exit hook.

    Counters say what was added, not what this process has counted: every task begins at 0. The same event is one
    line of the task's JSON log, with its fields.
    """
    make_topic(installation, tmp_path, "orders", [build_old_lines(10, 5)], max_compaction_lag_ms="3600000")
    done = in_a_task_process(tmp_path / "lake", collector.url)
    assert done.returncode == 0, done.stderr
    arrived = [
        metric
        for body in collector.bodies
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if metric.name.startswith("airflow.winnow.")
    ]

    def points(kind: str) -> dict[tuple[str, ...], Any]:
        return {
            (
                metric.name.removeprefix("airflow.winnow."),
                *sorted(each.value.string_value for each in point.attributes),
            ): (point)
            for metric in arrived
            for point in getattr(metric, kind).data_points
        }

    gauges = {key: point.as_double or point.as_int for key, point in points("gauge").items()}
    assert gauges["overdue-partitions-count", "orders"] == 1
    assert gauges["total.overdue-partitions-count",] == 1
    assert f"SENT {len(gauges)}" in done.stderr
    assert points("sum")["runs", "orders", "published"].as_int == 1
    temporalities = {metric.sum.aggregation_temporality for metric in arrived if metric.HasField("sum")}
    assert temporalities == {AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA}
    took = points("exponential_histogram")["phase", "orders", "publish"]
    assert (took.count, took.sum) == (1, 1500)

    logged = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    (line,) = [each for each in logged if each.get("logger") == events_log.name]
    assert (line["level"], line["event"]) == ("info", "published")
    fields = {"topic": "orders", "plan_id": "p", "attempt": "a", "records_in": 100, "duration_ms": 1500}
    assert {name: line[name] for name in fields} == fields


def test_an_opentelemetry_collector_that_is_away_breaks_nothing(installation: Installation, tmp_path: Path) -> None:
    """The task ends as if all had arrived."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(10, 5)])
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    assert in_a_task_process(tmp_path / "lake", f"http://127.0.0.1:{port}").returncode == 0


def test_events_are_counted_where_the_log_shows_warnings_only_and_tell_as_before_afterwards(
    installation: Installation, tmp_path: Path, statsd: Datagrams, airflow_stats: Point
) -> None:
    """What is counted does not depend on what is shown."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(10, 5)])
    airflow_stats(statsd.port)
    root = logging.getLogger()
    before = root.level
    root.setLevel(logging.WARNING)
    try:
        with log_pipeline_events(installation):
            published("orders")
    finally:
        root.setLevel(before)
    assert statsd.lines()["runs,topic=orders,outcome=published"] == ["1|c"]
    assert (events_log.handlers, events_log.propagate, events_log.level) == ([], True, logging.NOTSET)
    published("orders")
    assert statsd.lines() == {}


def test_a_run_sends_the_metrics_of_all_its_topics_also_of_idle_ones(
    installation: Installation,
    run_dag: RunDag,
    tmp_path: Path,
    statsd: Datagrams,
    airflow_stats: Point,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An idle run is green and has sent; with metrics switched off the task is skipped and the run as green."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(10, 10, at_ms=installation.now_ms())])
    airflow_stats(statsd.port)
    states = run_dag("compact_topics")
    assert (states["send_metrics", -1], states["outcome", -1], states["run", -1]) == ("success", "skipped", "success")
    found = statsd.lines()
    assert {
        "total.retired-bytes-waiting",
        "max-dirty-percent,topic=orders",
        "phase,topic=orders,phase=assess",
    } < found.keys()
    monkeypatch.delenv("AIRFLOW__METRICS__STATSD_ON")
    states = run_dag("compact_topics")
    assert (states["send_metrics", -1], states["run", -1]) == ("skipped", "success")


def test_metadata_store_that_is_away_sends_no_metrics_and_fails_nothing(
    installation: Installation,
    statsd: Datagrams,
    airflow_stats: Point,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A run whose work is done does not turn red because nobody could be told; the log says why."""
    airflow_stats(statsd.port)
    monkeypatch.setenv("WINNOW_STORE_URL", UNREACHABLE_STORE)

    assert monitoring.send_run_metrics(context_of()) == 0
    assert "No metrics were sent: " in caplog.text
    assert statsd.lines() == {}
