"""Decides which topic partitions are eligible for compaction, and records each decision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice

from winnow.clock import MAXIMUM_CLOCK_SKEW_MS
from winnow.files import storage
from winnow.pipeline.compaction.idle_topics import compute_rules_digest, make_idle_topic
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.leases import find_topics_held_by_others, is_held_by_another
from winnow.pipeline.topics.overview import build_overview, record_assessed_topics, suppress_overview_errors
from winnow.pipeline.topics.topic_view import TopicView, load_topic_view
from winnow.planning import eligibility
from winnow.planning.eligibility import Decision
from winnow.report.events import log_event
from winnow.store.assessments import AssessedTopic
from winnow.store.idle_topics import IdleTopic
from winnow.values.model import Assessment

MAXIMUM_TOPICS_PER_WRITE = 200
"""Maximum topics whose assessments are recorded in one transaction."""

MAXIMUM_LOADING_THREADS = 8
"""Maximum topics loaded at a time where manifests are in an object store."""


def assess_view(installation: Installation, view: TopicView, *, as_of_ms: int) -> list[Assessment]:
    """Assess every partition of ``view``."""
    busy = is_held_by_another(installation, view.log.topic)
    return [decision.assessment for decision in decide_partitions(view, as_of_ms=as_of_ms, busy=busy)]


def decide_partitions(view: TopicView, *, as_of_ms: int, busy: bool) -> list[Decision]:
    """Decide about every partition of ``view``, in their order. ``busy``: another run holds the topic."""
    return [
        eligibility.decide_eligibility(
            partition,
            view.rules,
            as_of_ms=as_of_ms,
            cleaning_time_ms=max(as_of_ms, view.now_ms),
            now_ms=view.now_ms,
            in_progress=busy,
        )
        for partition in view.partitions
    ]


def assess_topics(
    installation: Installation, topics: Sequence[str], *, as_of_ms: int, record: bool = True
) -> list[Assessment]:
    """Assess ``topics`` (none = all), and record each decision and overview in the metadata store.

    Raises:
        UnknownTopicError, ForeignTableError, ServiceError: of the first topic that cannot be assessed; the results
            of those before it are recorded.
    """
    names = list(topics) or installation.log.names()
    with open_assessor(installation, names, as_of_ms=as_of_ms, record=record) as look:
        return [assessment for topic in names for assessment in look(topic)]


@contextmanager
def open_assessor(
    installation: Installation,
    topics: Sequence[str],
    *,
    as_of_ms: int,
    record: bool = True,
    closes_active: bool = False,
) -> Iterator[Callable[[str], list[Assessment]]]:
    """Assess many topics one by one, and record the results some hundred at a time.

    Yields a function from a topic to its assessments, which raises that topic's errors. Results are
    recorded when the block ends, also by an error; after a crash the next assessment computes them again.

    Args:
        installation: the installation.
        topics: the topics to be assessed, in that order. On object stores the next ones are loaded meanwhile.
        as_of_ms: the instant to decide for.
        record: whether to record the results.
        closes_active: the active segments count as closed; such results are not recorded.

    Raises:
        ServiceError: metadata store or catalog cannot be reached.
    """
    with _preload_views(installation, topics) as view_of:
        shown = (lambda topic: view_of(topic).close_active()) if closes_active else view_of
        assessor = _Assessor(installation, topics, as_of_ms, shown, record=record and not closes_active)
        try:
            yield assessor.assess
        finally:
            assessor.record()


class _Assessor:
    """Assesses the topics of one call, some hundred at a time."""

    def __init__(
        self,
        installation: Installation,
        topics: Sequence[str],
        as_of_ms: int,
        view_of: Callable[[str], TopicView],
        *,
        record: bool,
    ) -> None:
        self._installation = installation
        self._as_of_ms = as_of_ms
        self._view_of = view_of
        self._records = record
        self._share_of = {topic: number // MAXIMUM_TOPICS_PER_WRITE for number, topic in enumerate(topics)}
        self._topics = topics
        self._share: int | None = None
        self._rules_digest = compute_rules_digest(installation)
        self._busy: frozenset[str] = frozenset()
        self._waiting: list[AssessedTopic] = []

    def assess(self, topic: str) -> list[Assessment]:
        """Assess ``topic``."""
        started_ms = self._installation.now_ms()
        self._begin_chunk(topic)
        view = self._view_of(topic)
        if 0 <= view.now_ms - self._as_of_ms <= MAXIMUM_CLOCK_SKEW_MS:
            # For the present, the overview has the same as-of as the decision and can reuse it.
            view = replace(view, now_ms=self._as_of_ms)
        busy = topic in self._busy
        decisions = decide_partitions(view, as_of_ms=self._as_of_ms, busy=busy)
        found = [decision.assessment for decision in decisions]
        if self._records:
            look = AssessedTopic(found, table_uuid=view.head.table_uuid)
            with suppress_overview_errors(topic):
                same = view.now_ms == self._as_of_ms and not busy
                look = replace(
                    build_overview(self._installation, view, decisions=decisions if same else None),
                    assessments=found,
                    idle=None if busy else self._make_idle_topic(view, decisions),
                )
            self._waiting.append(look)
            log_event(
                "assessed",
                topic,
                partitions=len(found),
                eligible=sum(each.eligible for each in found),
                reasons=Counter(each.reason.value for each in found),
                as_of_ms=self._as_of_ms,
                duration_ms=self._installation.now_ms() - started_ms,
            )
        return found

    def _make_idle_topic(self, view: TopicView, decisions: Sequence[Decision]) -> IdleTopic | None:
        return make_idle_topic(view, decisions, as_of_ms=self._as_of_ms, rules_digest=self._rules_digest)

    def record(self) -> None:
        """Record the results since the last call."""
        waiting, self._waiting = self._waiting, []
        if waiting:
            record_assessed_topics(self._installation, waiting, as_of_ms=self._as_of_ms)

    def _begin_chunk(self, topic: str) -> None:
        share = self._share_of.get(topic, 0)
        if share == self._share:
            return
        self.record()
        self._share = share
        some = self._topics[share * MAXIMUM_TOPICS_PER_WRITE : (share + 1) * MAXIMUM_TOPICS_PER_WRITE]
        self._busy = find_topics_held_by_others(self._installation, some)


@contextmanager
def _preload_views(installation: Installation, topics: Sequence[str]) -> Iterator[Callable[[str], TopicView]]:
    """Load the views of ``topics`` a few ahead if loading waits for an object store, else on demand.

    Reading from a local disk is all decoding, which threads of one process do not share.
    """
    threads = 1 if storage.is_local(installation.settings.warehouse) else min(MAXIMUM_LOADING_THREADS, len(topics))
    if threads <= 1:
        yield lambda topic: load_topic_view(installation, topic)
        return
    coming = iter(topics)
    loading: dict[str, Future[TopicView]] = {}
    with ThreadPoolExecutor(threads, thread_name_prefix="looking") as pool:

        def begin(count: int) -> None:
            for topic in islice(coming, count):
                if topic not in loading:
                    loading[topic] = pool.submit(load_topic_view, installation, topic)

        def view_of(topic: str) -> TopicView:
            begin(1)
            future = loading.pop(topic, None)
            return load_topic_view(installation, topic) if future is None else future.result()

        begin(threads)
        try:
            yield view_of
        finally:
            pool.shutdown(cancel_futures=True)
