"""How often the tasks of ``compact_topics`` decode a topic's manifests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.dags.test_concurrent_runs import stage
from tests.support.dag_topics import build_old_lines, make_topic
from winnow.errors import UnknownTopicError
from winnow.log.head import Head
from winnow.log.topic_log import TopicLog
from winnow.pipeline.compaction.open_runs import lock_for_plan
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.topic_view import load_topic_view
from winnow.planning.plans import PlanReference
from winnow.store.overview import Overview
from winnow_airflow.tasks import compaction_steps, eligibility_steps


def test_every_task_decodes_a_topics_manifests_at_most_once(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check, plan, compact, publish and report: publishing refreshes the page's overview from what it committed."""
    make_topic(installation, tmp_path, "orders", [build_old_lines(100, 10)])
    decoded: Counter[str] = Counter()
    genuine, now_ms = TopicLog.segments, installation.now_ms()

    def count(step: str, run: Callable[[], Any]) -> Any:
        def segments(log: TopicLog, head: Head) -> Any:
            decoded[step] += 1
            return genuine(log, head)

        with monkeypatch.context() as patch:
            patch.setattr(TopicLog, "segments", segments)
            return run()

    found = count("check", lambda: eligibility_steps.check_topic(installation, "orders", as_of_ms=now_ms))
    (batch,) = count("plan", lambda: compaction_steps.plan_topics(installation, [found], as_of_ms=now_ms))
    count("compact", lambda: lock_for_plan(installation, PlanReference(**batch["plans"][0])))
    stage(installation, batch, tmp_path)
    count("publish", lambda: compaction_steps.publish_batch(installation, batch))
    overview = installation.store.overview.find_recorded("orders")
    count("report", lambda: compaction_steps.report_batch(installation, batch))
    assert decoded == {"check": 1, "plan": 1, "compact": 1, "publish": 1, "report": 1}

    view = load_topic_view(installation, "orders")
    assert overview is not None
    assert overview.size_bytes == sum(segment.size_bytes for log in view.partitions for segment in log.segments)


def test_the_topics_of_one_check_are_recorded_in_one_transaction(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three topics share a task: one write for what was found of them, and a topic that is missing stops no other."""
    topics = ["clicks", "orders", "views"]
    for topic in topics:
        make_topic(installation, tmp_path, topic, [build_old_lines(20, 10)])
    written: list[list[str]] = []
    genuine = Overview.record_many

    def record_many(store: Overview, as_of_ms: int, recorded_at_ms: int, looks: Any) -> None:
        written.append([look.picture.topic for look in looks])
        genuine(store, as_of_ms, recorded_at_ms, looks)

    monkeypatch.setattr(Overview, "record_many", record_many)
    with eligibility_steps.open_checks(
        installation, [*topics[:2], "missing", topics[2]], as_of_ms=installation.now_ms()
    ) as check:
        with pytest.raises(UnknownTopicError):
            check("missing")
        assert [check(topic)["eligible"] for topic in topics] == [True] * 3
    assert written == [topics]
