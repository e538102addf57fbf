"""How much CPU the page's requests take with a thousand topics of ten partitions, on both databases.

CPU of this process, not time: a busy machine makes every request slow and none expensive.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.page.conftest import ReadFrom, Visitor
from tests.support import generated_store
from winnow.clock import read_wall_clock_ms
from winnow.store import Store

LIMIT_MS = 300
TIMES = 7
MOST = 4
"""Of so many times more than half."""


def test_every_endpoint_answers_within_its_cpu_with_a_thousand_topics(
    viewer_login: Visitor, read_from: ReadFrom, new_store_url: Callable[[], str]
) -> None:
    """Most of seven requests, by each order, filter and search, and for the largest pages."""
    url = new_store_url()
    names = generated_store.fill(url, now_ms=read_wall_clock_ms())
    assert len(names) == 1_000
    with Store.open(url) as store:
        read_from(store)
        newest = viewer_login.json("api/runs", size=1)
        assert newest["total"] > 4_000
        plan_id, topic = newest["runs"][0]["plan_id"], names[500]
        asked: list[tuple[str, dict[str, str | int]]] = [
            ("page", {}),
            ("api/me", {}),
            *(
                ("api/topics", {"sort": sort, "order": "desc", "size": 200})
                for sort in ("topic", "state", "dirty_ratio", "deadline", "reclaimable", "size", "last_run")
            ),
            ("api/topics", {"search": "order", "state": "due"}),
            ("api/topics", {"page": 20}),
            (f"api/topics/{topic}", {}),
            (f"api/topics/{topic}/partitions", {"size": 200}),
            (f"api/topics/{topic}/runs", {"size": 200}),
            (f"api/topics/{topic}/verdicts", {"size": 200}),
            ("api/runs", {"size": 200}),
            ("api/runs", {"dag_id": "compact_topics", "status": "published", "page": 50}),
            (f"api/runs/{plan_id}", {}),
            ("api/overview", {}),
            ("api/trends", {"days": 30}),
            ("api/trends", {"days": 366}),
            (f"api/topics/{names[20]}/trends", {"days": 30}),
            (f"api/topics/{topic}/health", {}),
            ("api/quality", {"days": 30}),
            ("api/quality/uncleanable", {"size": 200}),
            ("api/quality/alerts", {"size": 200}),
            ("api/alerts", {"size": 200}),
            ("api/alerts/count", {}),
            ("api/alerts/history", {"size": 200}),
            ("api/alerts/runbook/sweep_stuck", {}),
            ("api/audit", {"size": 200}),
        ]
        taken_ms = {f"{path} {query or ''}": _measure_most_ms(viewer_login, path, query) for path, query in asked}
    for name, most_ms in sorted(taken_ms.items(), key=lambda each: -max(each[1])):
        print(f"{max(most_ms):7.1f} ms  {name}")
    assert [name for name, most_ms in taken_ms.items() if max(most_ms) >= LIMIT_MS] == []


def _measure_most_ms(visitor: Visitor, path: str, query: dict[str, str | int]) -> list[float]:
    """The lower four of seven requests, or the first four that are below the limit: the rest changes no median."""
    below: list[float] = []
    above: list[float] = []
    while len(below) < MOST and len(below) + len(above) < TIMES:
        taken_ms = _measure_cpu_ms(visitor, path, query)
        (below if taken_ms < LIMIT_MS else above).append(taken_ms)
    return [*below, *sorted(above)][:MOST]


def _measure_cpu_ms(visitor: Visitor, path: str, query: dict[str, str | int]) -> float:
    began = time.process_time()
    answer = visitor.ask(path, query)
    taken_ms = 1_000 * (time.process_time() - began)
    assert answer.status_code == 200, answer.text
    return taken_ms
