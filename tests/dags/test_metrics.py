"""Winnow's metrics through Airflow's own, received on real sockets."""

from __future__ import annotations

import http.server
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk._shared.observability.metrics.statsd_logger import get_statsd_logger
from airflow.sdk.observability import stats
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from tests.dags.conftest import ENVIRONMENT, RunDag
from tests.dags.topics import make_topic, old_lines
from winnow.pipeline.context import Context
from winnow.report.metrics import Measurement
from winnow_airflow import metrics

TIMEOUT_SECONDS = 20


class UdpStatsd:
    """StatsD over UDP: the part of its client that Airflow's logger calls while a task runs."""

    def __init__(self, host: str, port: int, prefix: str, ipv6: bool) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._address = (host, port)
        self._prefix = prefix

    def gauge(self, stat: str, value: float, rate: float = 1, delta: bool = False) -> None:
        self._send(f"{stat}:{value}|g")

    def incr(self, stat: str, count: int = 1, rate: float = 1) -> None:
        self._send(f"{stat}:{count}|c")

    def timing(self, stat: str, dt: timedelta | float) -> None:
        self._send(f"{stat}:{dt.total_seconds() * 1000 if isinstance(dt, timedelta) else dt}|ms")

    def _send(self, line: str) -> None:
        self._socket.sendto(f"{self._prefix}.{line}".encode(), self._address)


@pytest.fixture
def statsd() -> Iterator[socket.socket]:
    """A StatsD server's socket."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(TIMEOUT_SECONDS)
        yield server


@pytest.fixture
def airflow_stats() -> Iterator[Any]:
    """Points Airflow's stats at a StatsD server; afterwards they go nowhere again."""

    def point(port: int, *, tagged: bool) -> None:
        def logger() -> Any:
            return get_statsd_logger(
                stats_class=UdpStatsd,
                host="127.0.0.1",
                port=port,
                prefix="airflow",
                influxdb_tags_enabled=tagged,
                statsd_influxdb_enabled=tagged,
            )

        stats.initialize(factory=logger, export_legacy_names=True)

    yield point
    from airflow.sdk._shared.observability.metrics.base_stats_logger import NoStatsLogger

    stats.initialize(factory=NoStatsLogger, export_legacy_names=True)


def received(server: socket.socket, count: int) -> dict[str, float]:
    """``count`` gauges of Winnow by name and tags; what Airflow tells of its tasks is passed over."""
    found: dict[str, float] = {}
    left = count
    while left:
        name, _, value = server.recv(4096).decode().rpartition(":")
        if name.startswith("airflow.winnow."):
            assert value.endswith("|g")
            found[name] = float(value.removesuffix("|g"))
            left -= 1
    return found


@pytest.fixture
def switched_on(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An installation that sends its metrics to StatsD."""
    monkeypatch.setenv("AIRFLOW__METRICS__STATSD_ON", "True")
    return monkeypatch


def test_gauges_reach_a_statsd_server_with_their_topic_as_a_tag(
    ctx: Context, tmp_path: Path, statsd: socket.socket, airflow_stats: Any, switched_on: pytest.MonkeyPatch
) -> None:
    """Through Airflow's own logger: its prefix, its way of writing tags."""
    make_topic(ctx, tmp_path, "orders", [old_lines(10, 5)], max_compaction_lag_ms="3600000")
    make_topic(ctx, tmp_path, "web.clicks", [old_lines(10, 5)])
    switched_on.setenv("AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED", "True")
    airflow_stats(statsd.getsockname()[1], tagged=True)
    sent = metrics.send(ctx, ["orders", "web.clicks"])
    found = received(statsd, sent)
    assert len(found) == sent
    assert found["airflow.winnow.overdue-partitions-count,topic=orders"] == 1
    assert found["airflow.winnow.overdue-partitions-count,topic=web.clicks"] == 0
    assert found["airflow.winnow.total.overdue-partitions-count"] == 1
    assert found["airflow.winnow.max-compaction-delay-secs,topic=orders"] > 3600


def test_plain_statsd_gets_a_name_of_its_own_for_every_topic(
    ctx: Context, tmp_path: Path, statsd: socket.socket, airflow_stats: Any, switched_on: pytest.MonkeyPatch
) -> None:
    """It drops tags, and one topic's gauge would overwrite another's."""
    make_topic(ctx, tmp_path, "orders", [old_lines(10, 5)])
    make_topic(ctx, tmp_path, "web.clicks", [old_lines(10, 5)])
    airflow_stats(statsd.getsockname()[1], tagged=False)
    sent = metrics.send(ctx, ["orders", "web.clicks"])
    found = received(statsd, sent)
    assert len(found) == sent
    assert {"airflow.winnow.max-dirty-percent.orders", "airflow.winnow.max-dirty-percent.web__clicks"} < found.keys()


def test_a_stats_server_that_is_away_breaks_nothing(
    ctx: Context, tmp_path: Path, statsd: socket.socket, airflow_stats: Any, switched_on: pytest.MonkeyPatch
) -> None:
    """Nobody listens at the port, and the sending goes through or ends early; it raises in no case."""
    make_topic(ctx, tmp_path, "orders", [old_lines(10, 5)])
    port = statsd.getsockname()[1]
    statsd.close()
    airflow_stats(port, tagged=False)
    metrics.send(ctx, ["orders"])
    airflow_stats(0, tagged=False)  # no datagram can be sent to port 0 at all
    assert metrics.send(ctx, ["orders"]) == 0


def test_a_topic_that_cannot_be_measured_leaves_the_others_measured(
    ctx: Context, tmp_path: Path, statsd: socket.socket, airflow_stats: Any, switched_on: pytest.MonkeyPatch
) -> None:
    """And where none can be, no total of zeros is sent."""
    make_topic(ctx, tmp_path, "orders", [old_lines(10, 5)])
    airflow_stats(statsd.getsockname()[1], tagged=False)
    assert "airflow.winnow.paused-partitions-count.orders" in received(statsd, metrics.send(ctx, ["missing", "orders"]))
    assert metrics.send(ctx, ["missing"]) == 0


def test_unknown_metrics_are_not_sent() -> None:
    """A topic that was never compacted has no recopy percentage, and zero would be a lie."""
    names = [name for name, _, _ in metrics.gauges([Measurement("orders")], tagged=True)]
    assert "winnow.max-dirty-percent" in names
    assert "winnow.cleaner-recopy-percent" not in names
    assert list(metrics.gauges([], tagged=True)) == []


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
    assert (metrics.is_on(), metrics.has_tags()) == (on, tagged)


SEND = """
import sys
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils
from winnow.pipeline.context import open_context
from winnow_airflow import metrics
import os
stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=True)  # as a task's process begins
with open_context() as ctx:
    print(metrics.send(ctx, ["orders"]))
sys.stdout.flush()
os._exit(0)  # as a task's process ends: without exit hooks
"""


@pytest.fixture
def collector() -> Iterator[tuple[int, list[ExportMetricsServiceRequest]]]:
    """An OpenTelemetry collector's port, and what arrived there."""
    arrived: list[ExportMetricsServiceRequest] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            arrived.append(ExportMetricsServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name is Python's
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_port, arrived
        server.shutdown()
        thread.join()


def send_from_a_task_process(home: Path, port: int) -> subprocess.CompletedProcess[str]:
    """What happens in the task, in a process that begins and ends like one."""
    environment = {
        **os.environ,
        **ENVIRONMENT,
        "WINNOW_HOME": str(home),
        "PYTHONPATH": ENVIRONMENT["AIRFLOW__CORE__PLUGINS_FOLDER"],
        "AIRFLOW__METRICS__OTEL_ON": "True",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "2",
    }
    return subprocess.run([sys.executable, "-c", SEND], env=environment, capture_output=True, text=True, timeout=120)


def test_gauges_reach_an_opentelemetry_collector_before_the_task_ends(
    ctx: Context, tmp_path: Path, collector: tuple[int, list[ExportMetricsServiceRequest]]
) -> None:
    """As Airflow itself is set up for it, with the topic as an attribute; nothing waits for an exit hook."""
    make_topic(ctx, tmp_path, "orders", [old_lines(10, 5)], max_compaction_lag_ms="3600000")
    port, arrived = collector
    done = send_from_a_task_process(tmp_path / "lake", port)
    assert done.returncode == 0, done.stderr
    found = {
        (metric.name, tuple((each.key, each.value.string_value) for each in point.attributes)): (
            point.as_double or point.as_int
        )
        for request in arrived
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.gauge.data_points
    }
    assert found["airflow.winnow.overdue-partitions-count", (("topic", "orders"),)] == 1
    assert found["airflow.winnow.total.overdue-partitions-count", ()] == 1
    assert json.loads(done.stdout.splitlines()[-1]) == len(found)


def test_an_opentelemetry_collector_that_is_away_breaks_nothing(ctx: Context, tmp_path: Path) -> None:
    """The task ends as if all had arrived."""
    make_topic(ctx, tmp_path, "orders", [old_lines(10, 5)])
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    assert send_from_a_task_process(tmp_path / "lake", port).returncode == 0


def test_a_run_sends_the_metrics_of_all_its_topics_also_of_idle_ones(
    ctx: Context,
    run_dag: RunDag,
    tmp_path: Path,
    statsd: socket.socket,
    airflow_stats: Any,
    switched_on: pytest.MonkeyPatch,
) -> None:
    """An idle run is green and has sent; with metrics switched off the task is skipped and the run as green."""
    make_topic(ctx, tmp_path, "orders", [old_lines(10, 10, at_ms=ctx.now_ms())])
    airflow_stats(statsd.getsockname()[1], tagged=False)
    states = run_dag("compact_topics")
    assert (states["send_metrics", -1], states["outcome", -1], states["run", -1]) == ("success", "skipped", "success")
    names: set[str] = set()
    while "airflow.winnow.total.retired-bytes-waiting" not in names:
        names |= received(statsd, 1).keys()
    assert "airflow.winnow.max-dirty-percent.orders" in names
    switched_on.delenv("AIRFLOW__METRICS__STATSD_ON")
    states = run_dag("compact_topics")
    assert (states["send_metrics", -1], states["run", -1]) == ("skipped", "success")
