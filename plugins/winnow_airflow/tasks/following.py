"""Steps of the DAG ingest_topics that read Kafka: which topics a run reads, and one call for all of them."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from winnow.errors import BadInputError, TopicBusyError, UsageError, WinnowError
from winnow.values.counts import format_count
from winnow_airflow import outcomes
from winnow_airflow.outcomes import TopicOutcome
from winnow_airflow.task_defaults import combine_errors, describe_error
from winnow_airflow.tasks.ended_runs import release_topics_of_ended_runs
from winnow_airflow.topic_rights import keep_permitted, require_right
from winnow_airflow.xcom_values import MAXIMUM_FAILED_TASKS, IngestRow, build_ingest_rows, split_evenly

if TYPE_CHECKING:
    from winnow.config.settings import Settings
    from winnow.kafka.cluster import Cluster
    from winnow.pipeline.ingest.kafka.following import FollowReport
    from winnow.pipeline.installation import Installation
    from winnow.values.failures import TopicFailure

log = logging.getLogger("airflow.task")

LEASE = "kafka:following"
"""Lease of whoever follows topics; no topic can have this name. It only saves work: commits decide what lands."""


def choose_interval() -> timedelta | None:
    """Choose the schedule of ``ingest_topics`` from the settings; None if they name no topics to follow."""
    settings = _load_settings()
    if settings is None or not _follows(settings):
        return None
    return timedelta(milliseconds=settings.source.interval_ms)


def _load_settings() -> Settings | None:
    from winnow.config.settings import load_settings

    try:
        return load_settings()
    except WinnowError as problem:  # the tasks of a run say it too, and the DAG stays visible
        log.warning("No topic is followed: %s", problem)
        return None


def _follows(settings: Settings) -> bool:
    return bool(settings.source.bootstrap_servers) and settings.source.topics_regex is not None


def list_file_rows(params: Mapping[str, Any]) -> list[IngestRow]:
    """Return the file entries of a run; none if it reads Kafka.

    Raises:
        UsageError: the run names files and Kafka topics, or nothing at all and the settings do not either.
    """
    names_files = bool(params["topic"] or params["paths"] or params["files"] or params["source_topic"])
    names_kafka = bool(params["kafka_topics"] or params["kafka_topics_regex"])
    if names_files and names_kafka:
        raise UsageError(
            "Nothing was ingested: a run reads files or Kafka.",
            next="Trigger two runs.",
        )
    settings = None if names_files or names_kafka else _load_settings()
    if names_kafka or (settings is not None and _follows(settings)):
        return []
    return build_ingest_rows(params)


def ingest_from_kafka(installation: Installation, context: Mapping[str, Any], *, as_of_ms: int) -> list[list[str]]:
    """Append to all topics of the run what is new at the brokers.

    Topics of owners for whom whoever triggered the run may not act are left out, or refused if the run names them.

    Returns:
        The topics that failed, in shares of which each is tried again by a task of its own: one topic each, but for
        very many. None when all is well, so that no task is started.

    Raises:
        UsageError: the run names a topic on which whoever triggered it may not act; nothing is appended to any.
        ServiceError: brokers, catalog or metadata store cannot be reached, which is no topic's failure.
    """
    from winnow.pipeline.topics.leases import hold_lease

    source = installation.settings.source
    release_topics_of_ended_runs(installation, context, [LEASE])
    try:
        with hold_lease(installation, LEASE):
            cluster = _open_cluster(installation)
            chosen = _choose_topics(installation, cluster, context["params"], source.topics_regex)
            if chosen.follows:
                chosen = replace(chosen, names=keep_permitted(installation, context, chosen.names))
            else:
                require_right(installation, context, chosen.names)
            failures = _follow(installation, cluster, chosen, context, as_of_ms=as_of_ms)
    except TopicBusyError:
        text = "Another run reads from Kafka; what is new is left to it and to the next run."
        log.info("%s", text)
        outcomes.push_outcomes(context, [TopicOutcome(topic="", kind="left", text=text, plan_id=None)])
        return []
    return split_evenly([failure.topic for failure in failures], MAXIMUM_FAILED_TASKS)


def try_topics_again(
    installation: Installation, context: Mapping[str, Any], topics: Sequence[str], *, as_of_ms: int
) -> None:
    """Try topics again that failed when all topics were followed, so that the failure of each is its own task's.

    Raises:
        WinnowError: of the topics that fail again, by name.
    """
    params = context["params"]
    named = bool(params["kafka_topics"] or params["kafka_topics_regex"])
    chosen = ChosenTopics(topics, None, follows=not named)
    failures = _follow(installation, _open_cluster(installation), chosen, context, as_of_ms=as_of_ms)
    if failures:
        raise combine_errors([(failure.topic, failure.error) for failure in failures])


def _follow(
    installation: Installation, cluster: Cluster, chosen: ChosenTopics, context: Mapping[str, Any], *, as_of_ms: int
) -> Sequence[TopicFailure]:
    """Follow topics, tell what was done, and return the failures by topic."""
    from winnow.pipeline.ingest.kafka.following import follow_topics
    from winnow.pipeline.ingest.kafka.ingest import KafkaRequest
    from winnow.pipeline.topics.deletion import withdraw_topics
    from winnow.planning.kafka_configuration import TakingRules

    source, params = installation.settings.source, context["params"]
    wanted = KafkaRequest(
        creates=source.create if params["create"] is None else params["create"],
        configuration=TakingRules(takes=source.sync_config),
        follows=chosen.follows,
        begins_epochs=source.recreated == "new_epoch",
    )
    found = follow_topics(installation, cluster, chosen.names, wanted, as_of_ms=as_of_ms, missing=chosen.missing)
    for report in found.reports:
        for notice in report.notices:
            log.info("%s: %s", report.topic, notice)
    for failure in found.failures:
        known = isinstance(failure.error, WinnowError)
        text = describe_error(failure.error)
        log.error("Topic %s: %s", failure.topic, text, exc_info=None if known else failure.error)
    for topic in found.gone:
        log.warning("Topic %s is gone at Kafka; see: winnow topics describe %s", topic, topic)
    log.info("%s", found.sentence)
    outcomes.push_outcomes(context, list_outcomes(found, chosen.names))
    refused = {each.topic for each in found.failures}
    for sentence in withdraw_topics(
        installation, {name: each for name, each in wanted.created.items() if name in refused}
    ):
        log.info("%s", sentence)
    return sorted(found.failures, key=lambda failure: failure.topic)


def list_outcomes(found: FollowReport, names: Sequence[str]) -> list[TopicOutcome]:
    """List what came of each of the topics ``names``; a topic that failed is tried again by a task of its own."""
    told = {each.topic for each in found.reports} | {each.topic for each in found.failures} | {*found.gone}
    appended = [
        TopicOutcome(
            topic=each.topic,
            kind="done" if each.snapshot_id is not None else "idle",
            text=f"{format_count(each.records_appended, 'record')} appended from Kafka."
            if each.snapshot_id is not None
            else "Nothing was new at Kafka.",
            plan_id=None,
        )
        for each in found.reports
    ]
    unchanged = [name for name in names if name not in told]
    # Where others were left out, too, nothing says which.
    if len(unchanged) == found.unchanged:
        appended += [
            TopicOutcome(topic=name, kind="idle", text="Nothing was new at Kafka.", plan_id=None) for name in unchanged
        ]
    gone = [TopicOutcome(topic=name, kind="idle", text="It is gone at Kafka.", plan_id=None) for name in found.gone]
    return appended + gone


def _open_cluster(installation: Installation) -> Cluster:
    from winnow.kafka.client_settings import read_client_settings
    from winnow.kafka.cluster import Cluster

    source = installation.settings.source
    if not source.bootstrap_servers and source.properties_file is None:
        raise UsageError(
            "Nothing was ingested: the settings name no brokers.",
            next="Set source.bootstrap_servers where Airflow runs: a run reads only from the cluster of the settings.",
        )
    path = None if source.properties_file is None else str(source.properties_file)
    return Cluster(read_client_settings(source.bootstrap_servers, path))


@dataclass(frozen=True, slots=True)
class ChosenTopics:
    """The topics of a run.

    ``missing``: topics here that the settings name, and which the brokers did not list; None where the run is not about
    all that the settings name. ``follows``: whether the settings name them, and not whoever triggered the run.
    """

    names: Sequence[str]
    missing: Sequence[str] | None
    follows: bool


def _choose_topics(
    installation: Installation, cluster: Cluster, params: Mapping[str, Any], followed: str | None
) -> ChosenTopics:
    """Choose the topics of a run: those that its Params name, else those that the settings follow."""
    from winnow.pipeline.ingest.kafka.ingest import choose_topics
    from winnow.pipeline.topics.sources import list_missing_topics

    named: list[str] = list(dict.fromkeys(params["kafka_topics"]))
    follows = not named and not params["kafka_topics_regex"]
    pattern = followed if follows else params["kafka_topics_regex"]
    if pattern is None:
        return ChosenTopics(named, None, follows)
    try:
        re.compile(pattern)
    except re.error:
        raise UsageError(f"Nothing was ingested: {pattern} is not a regular expression.") from None
    try:
        matching = choose_topics(cluster, pattern)
    except BadInputError:
        # A cluster may have no such topic yet.
        matching = []
        log.info("No topic of the cluster matches %s.", pattern)
    missing = list_missing_topics(installation, pattern, matching) if follows else None
    return ChosenTopics([*named, *(name for name in matching if name not in named)], missing, follows)
