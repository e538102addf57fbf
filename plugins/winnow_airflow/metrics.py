"""Winnow's metrics through Airflow's own: StatsD, DogStatsD or OpenTelemetry, whatever the installation switched on.

Gauges are called ``winnow.<metric>`` and tagged with their topic; all topics together ``winnow.total.<metric>``. Plain
StatsD has no tags: there the topic ends the name, with ``__`` for its dots, as Airflow itself does it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from winnow_airflow.policy import sentence

if TYPE_CHECKING:
    from winnow.pipeline.context import Context as Pipeline
    from winnow.report.metrics import Measurement

log = logging.getLogger("airflow.task")

PREFIX, TOTAL_PREFIX = "winnow", "winnow.total"
FLUSH_TIMEOUT_MS = 10_000

Gauge = tuple[str, float, dict[str, str]]
"""Name, value, tags."""


def is_on() -> bool:
    """Whether the installation sends metrics anywhere; nothing is measured for nobody."""
    from airflow.sdk.configuration import conf

    switches = ("statsd_on", "statsd_datadog_enabled", "otel_on")
    return any(conf.getboolean("metrics", switch, fallback=False) for switch in switches)


def has_tags() -> bool:
    """Whether tags arrive: everywhere but in plain StatsD, that is without ``statsd_influxdb_enabled``."""
    from airflow.sdk.configuration import conf

    if conf.getboolean("metrics", "statsd_datadog_enabled", fallback=False):
        return True
    plain = conf.getboolean("metrics", "statsd_on", fallback=False)
    return not plain or conf.getboolean("metrics", "statsd_influxdb_enabled", fallback=False)


def gauges(measured: Sequence[Measurement], *, tagged: bool) -> Iterable[Gauge]:
    """Every known metric of every topic, then of all together."""
    from winnow.report.metrics import total, values

    for each in measured:
        topic = each.topic or ""
        ending = "" if tagged else f".{topic.replace('.', '__')}"
        for name, value in values(each).items():
            if value is not None:
                yield f"{PREFIX}.{name}{ending}", value, {"topic": topic}
    # Nothing measured is not nothing to worry about: no zeros then.
    for name, value in values(total(measured)).items() if measured else ():
        if value is not None:
            yield f"{TOTAL_PREFIX}.{name}", value, {}


def send(ctx: Pipeline, topics: Iterable[str]) -> int:
    """Measure ``topics`` as of now and send their gauges. Gives how many were handed over.

    Never raises: what cannot be measured or sent is logged, and the run goes on. As of now, also in a backfill, since
    whoever receives a gauge takes it for the present.
    """
    from airflow.sdk.observability import stats

    sent = 0
    for name, value, tags in gauges(_measured(ctx, topics), tagged=has_tags()):
        if not _attempted(f"Metric {name} could not be sent", stats.gauge, name, value, tags=tags):
            break
        sent += 1
    _attempted("Metrics could not be flushed", _flush)
    return sent


def _measured(ctx: Pipeline, topics: Iterable[str]) -> list[Measurement]:
    from winnow.pipeline.metrics import measure_topic

    found: list[Measurement] = []

    def measure(topic: str) -> None:
        found.append(measure_topic(ctx, topic, as_of_ms=ctx.now_ms()))

    for topic in topics:
        _attempted(f"Topic {topic} could not be measured", measure, topic)
    return found


def _attempted(what: str, action: Callable[..., object], *arguments: object, **options: object) -> bool:
    try:
        action(*arguments, **options)
    except Exception as problem:  # metrics tell of runs; they must not decide them
        log.warning("%s: %s", what, sentence(problem))
        return False
    return True


def _flush() -> None:
    # A task's process ends without running exit hooks, and OpenTelemetry collects for a minute before it exports.
    from opentelemetry import metrics

    flush = getattr(metrics.get_meter_provider(), "force_flush", None)
    if flush is not None:
        flush(FLUSH_TIMEOUT_MS)
