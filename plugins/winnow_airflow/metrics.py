"""Sends Winnow's metrics through Airflow's StatsD, DogStatsD or OpenTelemetry client.

Gauges are called ``winnow.<metric>`` and tagged with their topic; totals over all topics ``winnow.total.<metric>``.
Counters and timers from events are called ``winnow.<counter>`` and ``winnow.phase``. Plain StatsD has no tags: there
the topic, or a counter's label, is the end of the name, with ``__`` for its dots, as in Airflow's own metrics.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from winnow_airflow.older_airflow import get_airflow_conf, get_metrics_client
from winnow_airflow.task_defaults import describe_error

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation
    from winnow.report.counters import Sample
    from winnow.report.events import LoggedEvent
    from winnow.report.metrics import Measurement

log = logging.getLogger("airflow.task")

PREFIX, TOTAL_PREFIX = "winnow", "winnow.total"

MAXIMUM_FLUSH_MS = 10_000

Gauge = tuple[str, float, dict[str, str]]
"""Name, value, tags."""


def are_metrics_enabled() -> bool:
    """Check whether the installation sends metrics; without a receiver nothing is measured."""
    conf = get_airflow_conf()

    switches = ("statsd_on", "statsd_datadog_enabled", "otel_on")
    return any(conf.getboolean("metrics", switch, fallback=False) for switch in switches)


def supports_tags() -> bool:
    """Check whether the client sends tags: all but plain StatsD, which has ``statsd_influxdb_enabled`` off."""
    conf = get_airflow_conf()

    if conf.getboolean("metrics", "statsd_datadog_enabled", fallback=False):
        return True
    plain = conf.getboolean("metrics", "statsd_on", fallback=False)
    return not plain or conf.getboolean("metrics", "statsd_influxdb_enabled", fallback=False)


def build_gauges(
    measured: Sequence[Measurement], *, tagged: bool, each_topic: bool = True, together: bool = True
) -> Iterable[Gauge]:
    """Yield every known metric, of every topic with ``each_topic``, then of all ``together``."""
    from winnow.report.metrics import list_metric_values, sum_measurements

    for each in measured if each_topic else ():
        topic = each.topic or ""
        for name, value in list_metric_values(each).items():
            if value is not None:
                ending = "" if tagged else f".{topic.replace('.', '__')}"
                yield f"{PREFIX}.{name}{ending}", value, {"topic": topic}
    # No measurement is not a measurement of zero, so send no zeros.
    for name, value in list_metric_values(sum_measurements(measured)).items() if measured and together else ():
        if value is not None:
            yield f"{TOTAL_PREFIX}.{name}", value, {}


def send_gauges(installation: Installation, topics: Sequence[str], *, together: bool = True) -> int:
    """Measure ``topics`` as of now and send their gauges. Returns how many were sent.

    As of now also in a backfill, because receivers take a gauge for the present. ``together``: these are all existing
    topics, so their total is the total of all. A topic that cannot be measured or sent is logged, and the others are
    sent.
    """
    stats = get_metrics_client()

    most = installation.settings.metrics.most_topics
    few = len(topics) <= most
    if not few:
        log.info("%d topics, more than metrics.most_topics (%d): totals only are sent.", len(topics), most)
    sent = 0
    for name, value, tags in build_gauges(
        _measure_topics(installation, topics), tagged=supports_tags(), each_topic=few, together=together
    ):
        if not _log_failure_of(f"Metric {name} could not be sent", stats.gauge, name, value, tags=tags):
            break
        sent += 1
    flush_metrics()
    return sent


def count_pipeline_event(event: LoggedEvent, *, with_topic: bool) -> bool:
    """Count and time the event ``event``. Returns whether anything was sent; never raises."""
    stats = get_metrics_client()

    from winnow.report.counters import count_event, time_event

    topic = event.fields.get("topic")
    tags = {"topic": str(topic)} if with_topic and isinstance(topic, str) else {}
    done = False
    for sample in count_event(event):
        name, more = _build_name_and_tags(sample)
        done |= _log_failure_of(
            f"Metric {name} could not be sent", stats.incr, name, sample.value, tags={**tags, **more}
        )
    took = time_event(event)
    if took is not None:
        name, more = _build_name_and_tags(took)
        done |= _log_failure_of(
            f"Metric {name} could not be sent", stats.timing, name, took.value, tags={**tags, **more}
        )
    return done


def flush_metrics() -> None:
    """Send what is still buffered: a task's process ends without exit hooks, and OpenTelemetry buffers for a minute.

    Waits at most ten seconds; never raises.
    """
    _log_failure_of("Metrics could not be flushed", _force_flush)


def _build_name_and_tags(sample: Sample) -> tuple[str, dict[str, str]]:
    name = f"{PREFIX}.{sample.name}"
    if sample.label is None:
        return name, {}
    key, value = sample.label
    return (name, {key: value}) if supports_tags() else (f"{name}.{value}", {})


def _measure_topics(installation: Installation, topics: Iterable[str]) -> list[Measurement]:
    from winnow.pipeline.monitor.metrics import measure_topic

    found: list[Measurement] = []

    def measure(topic: str) -> None:
        found.append(measure_topic(installation, topic, as_of_ms=installation.now_ms()))

    for topic in topics:
        _log_failure_of(f"Topic {topic} could not be measured", measure, topic)
    return found


def _log_failure_of(what: str, action: Callable[..., object], *arguments: object, **options: object) -> bool:
    try:
        action(*arguments, **options)
    except Exception as problem:  # metrics must not decide the result of a run
        log.warning("%s: %s", what, describe_metrics_error(problem))
        return False
    return True


def describe_metrics_error(problem: BaseException) -> str:
    """Describe why metrics were not sent."""
    return describe_error(problem) if isinstance(problem, Exception) else "it exceeded the task's time limit"


def _force_flush() -> None:
    from opentelemetry import metrics

    force = getattr(metrics.get_meter_provider(), "force_flush", None)
    if force is not None:
        force(MAXIMUM_FLUSH_MS)
