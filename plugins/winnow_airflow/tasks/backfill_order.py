"""Order of backfill runs on one topic: a run waits until runs with an earlier as-of have finished.

A run with a later as-of does everything that a run with an earlier one would. So of two runs on one topic, the run with
the later as-of goes last; once it has run, the earlier one has nothing left to do. Scheduled runs need not wait,
because the schedule comes round again; a backfill does not.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from winnow.errors import TopicBusyError
from winnow_airflow.older_airflow import AirflowRescheduleException
from winnow_airflow.xcom_values import TopicCheck

if TYPE_CHECKING:
    from winnow.pipeline.installation import Installation
    from winnow.store import Run

log = logging.getLogger("airflow.task")

MINIMUM_WAIT_MS = 15_000
MAXIMUM_WAIT_MS = 600_000
"""Maximum wait (ms) until a waiting run, which frees its worker, checks again: half of the other run's time so far."""


def lock_topics_in_as_of_order(
    installation: Installation, checks: Iterable[TopicCheck], *, as_of_ms: int
) -> list[TopicCheck]:
    """Lock every topic that is due or in progress; wait for topics that a run with an earlier as-of holds.

    Returns the checks to plan. While it waits it holds no topic at all, so two waiting runs never wait for each other.

    Raises:
        AirflowRescheduleException: a topic is held by a run with an earlier as-of, or by one whose as-of is not known.
    """
    mine: list[TopicCheck] = []
    try:
        wait_ms = _lock_free_topics(installation, checks, mine, as_of_ms=as_of_ms)
    except Exception:
        _release_topics(installation, mine)
        raise
    if wait_ms is None:
        return mine
    _release_topics(installation, mine)
    raise AirflowRescheduleException(  # type: ignore[no-untyped-call]
        datetime.fromtimestamp((installation.now_ms() + wait_ms) / 1000, UTC)
    )


def _lock_free_topics(
    installation: Installation, checks: Iterable[TopicCheck], mine: list[TopicCheck], *, as_of_ms: int
) -> int | None:
    """Lock the free topics and add them to ``mine``; return how long to wait for the rest, None for no wait."""
    from winnow.pipeline.topics.leases import acquire_lease

    waits_ms: list[int] = []
    for found in checks:
        if not found["eligible"] and "in_progress" not in found["reasons"]:
            continue
        try:
            acquire_lease(installation, found["topic"])
        except TopicBusyError as problem:
            other = _find_holding_run(installation, found["topic"])
            if other is not None and other.as_of_ms >= as_of_ms:
                log.info("%s That run does the work of this one.", problem)
            else:
                log.info("%s This run waits for it.", problem)
                waits_ms.append(MINIMUM_WAIT_MS if other is None else (installation.now_ms() - other.opened_at_ms) // 2)
        else:
            wanted = found.copy()
            wanted["eligible"] = True
            mine.append(wanted)
    return max(MINIMUM_WAIT_MS, min(max(waits_ms), MAXIMUM_WAIT_MS)) if waits_ms else None


def _release_topics(installation: Installation, mine: Iterable[TopicCheck]) -> None:
    from winnow.pipeline.topics.leases import release_lease

    for found in mine:
        release_lease(installation, found["topic"])


def _find_holding_run(installation: Installation, topic: str) -> Run | None:
    """Return the open run of the holder of ``topic``; None while the holder has planned nothing yet."""
    lease = installation.store.leases.find(topic)
    holder = None if lease is None else lease.holder
    return next((run for run in installation.store.runs.list_open(topic) if run.holder == holder), None)
