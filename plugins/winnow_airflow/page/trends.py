"""Routes of trends: samples and days of runs, of all topics and of one; and the health of a topic's table."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import APIRouter, HTTPException, Query

from winnow.store.receipt_figures import DayFigures
from winnow.store.samples import ALL_TOPICS, Sample
from winnow_airflow.page.access import may_view
from winnow_airflow.page.dependencies import InstallationDep, NowDep, ShownInstallation
from winnow_airflow.page.responses import Document, describe

router = APIRouter(prefix="/api", dependencies=[may_view])

DAY_MS: Final = 86_400_000

MAXIMUM_DAYS: Final = 366

MAXIMUM_SAMPLES: Final = 400
"""Maximum samples of an answer; of more, those that are evenly spaced in time stay."""

Days = Annotated[int, Query(ge=1, le=MAXIMUM_DAYS)]


@router.get("/trends")
def get_trends(installation: InstallationDep, now_ms: NowDep, days: Days = 30) -> Document:
    """Return the trends of all topics together over the last days, in UTC; today is the last."""
    return _describe_trends(installation, now_ms, days, ALL_TOPICS)


@router.get("/topics/{topic}/trends")
def get_topic_trends(installation: InstallationDep, now_ms: NowDep, topic: str, days: Days = 30) -> Document:
    """Return the trends of one topic over the last days, in UTC; today is the last."""
    if installation.store.overview.find_recorded(topic) is None:
        raise _build_not_found(topic)
    return _describe_trends(installation, now_ms, days, topic)


@router.get("/topics/{topic}/health")
def get_table_health(installation: InstallationDep, now_ms: NowDep, topic: str) -> Document:
    """Return the health of a topic's table. ``health`` None: not yet known. ``sweep``, ``scrub`` None: never done."""
    if installation.store.overview.find_recorded(topic) is None:
        raise _build_not_found(topic)
    health = installation.store.table_health.find(topic)
    sweep = installation.store.table_health.find_sweep(topic)
    checks = installation.store.segment_checks.summarize(topic)
    return {
        "now_ms": now_ms,
        "health": None if health is None else describe(health, without=("topic",)),
        "sweep": None if sweep is None else describe(sweep, without=("topic",)),
        "scrub": None if checks is None else describe(checks),
    }


def _build_not_found(topic: str) -> HTTPException:
    return HTTPException(
        404, f"Topic {topic} does not exist, or was never assessed. Assess it with: winnow assess {topic}"
    )


def _describe_trends(installation: ShownInstallation, now_ms: int, days: int, topic: str) -> Document:
    since_ms = (now_ms // DAY_MS - days + 1) * DAY_MS
    samples = installation.store.samples.list_samples(topic, since_ms)
    appended = _sum_appended_by_day(samples, since_ms)
    figures = installation.store.receipt_figures.sum_by_day(since_ms, topic or None)
    found = {day.day_ms: day for day in figures}
    empty = (0, 0, 0, 0, 0, 0.0, 0.0)
    return {
        "now_ms": now_ms,
        "since_ms": since_ms,
        "samples": _describe_samples(_thin(samples, (now_ms - since_ms) // MAXIMUM_SAMPLES), since_ms),
        "days": [
            {**describe(found.get(at, DayFigures(at, *empty))), "records_appended": appended.get(at)}
            for at in range(since_ms, now_ms + 1, DAY_MS)
        ],
    }


def _thin(samples: Sequence[Sample], distance_ms: int) -> list[Sample]:
    """Keep the last sample of each ``distance_ms``."""
    groups = itertools.groupby(samples, lambda each: each.at_ms // max(1, distance_ms))
    return [list(group)[-1] for _, group in groups]


def _sum_appended_by_day(samples: Sequence[Sample], since_ms: int) -> dict[int, int]:
    """Sum up the offsets that were appended between one sample and the next, by the day (UTC) of the next.

    Of all samples, before any is left out for a chart. A day without a sample, or before the first one, is left out.
    """
    appended: dict[int, int] = {}
    for earlier, later in itertools.pairwise(samples):
        day_ms = max(since_ms, later.recorded_at_ms // DAY_MS * DAY_MS)
        appended[day_ms] = appended.get(day_ms, 0) + max(0, later.end_offsets - earlier.end_offsets)
    return appended


def _describe_samples(samples: Sequence[Sample], since_ms: int) -> list[Document]:
    """Describe samples. The one before ``since_ms`` is the state in which that time begins."""
    return [
        {
            **describe(each, without=("topic", "at_ms", "end_offsets")),
            "at_ms": max(since_ms, each.recorded_at_ms),
        }
        for each in samples
    ]
