"""Steps of the DAG ingest_topics that read Kafka: which topics a run reads, and one call for all of them."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from winnow.errors import BadInputError, TopicBusyError, UsageError, WinnowError
from winnow_airflow.ended_runs import release_topics_of_ended_runs
from winnow_airflow.task_defaults import combine_errors, describe_error
from winnow_airflow.xcom_values import IngestRow, build_ingest_rows

if TYPE_CHECKING:
    from winnow.config.settings import Settings
    from winnow.kafka.cluster import Cluster
    from winnow.pipeline.context import Context as Pipeline

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
        raise UsageError("Nothing was ingested: a run reads files or Kafka. Trigger two runs.")
    settings = None if names_files or names_kafka else _load_settings()
    if names_kafka or (settings is not None and _follows(settings)):
        return []
    return build_ingest_rows(params)


def ingest_from_kafka(ctx: Pipeline, context: Mapping[str, Any], *, as_of_ms: int) -> str:
    """Append to all topics of the run what is new at the brokers; return a sentence about what was done.

    Raises:
        WinnowError: of the topics that failed, by name; everything else is appended.
    """
    from winnow.pipeline.admin.topic_deletion import withdraw_topics
    from winnow.pipeline.ingest.kafka import KafkaRequest
    from winnow.pipeline.ingest.kafka_following import follow_topics
    from winnow.pipeline.leases import hold_lease
    from winnow.planning.kafka_configuration import TakingRules

    params, source = context["params"], ctx.settings.source
    release_topics_of_ended_runs(ctx, context, [LEASE])
    try:
        with hold_lease(ctx, LEASE):
            cluster = _open_cluster(ctx)
            names = _choose_topics(cluster, params, source.topics_regex)
            creates = source.create if params["create"] is None else params["create"]
            wanted = KafkaRequest(creates=creates, configuration=TakingRules(takes=source.sync_config))
            found = follow_topics(ctx, cluster, names, wanted, as_of_ms=as_of_ms)
    except TopicBusyError:
        text = "Another run reads from Kafka; what is new is left to it and to the next run."
        log.info("%s", text)
        return text
    for report in found.reports:
        for notice in report.notices:
            log.info("%s: %s", report.topic, notice)
    for failure in found.failures:
        known = isinstance(failure.error, WinnowError)
        text = describe_error(failure.error)
        log.error("Topic %s: %s", failure.topic, text, exc_info=None if known else failure.error)
    log.info("%s", found.sentence)
    refused = {each.topic for each in found.failures}
    for sentence in withdraw_topics(ctx, {name: each for name, each in wanted.created.items() if name in refused}):
        log.info("%s", sentence)
    if found.failures:
        raise combine_errors([(failure.topic, failure.error) for failure in found.failures])
    return found.sentence


def _open_cluster(ctx: Pipeline) -> Cluster:
    from winnow.kafka.client_settings import read_client_settings
    from winnow.kafka.cluster import Cluster

    source = ctx.settings.source
    if not source.bootstrap_servers and source.properties_file is None:
        raise UsageError(
            "Nothing was ingested: the settings name no brokers. Set source.bootstrap_servers where Airflow runs: a "
            "run reads only from the cluster of the settings."
        )
    path = None if source.properties_file is None else str(source.properties_file)
    return Cluster(read_client_settings(source.bootstrap_servers, path))


def _choose_topics(cluster: Cluster, params: Mapping[str, Any], followed: str | None) -> Sequence[str]:
    """Choose the topics of a run: those that its Params name, else those that the settings follow."""
    from winnow.pipeline.ingest.kafka import choose_topics

    named: list[str] = list(dict.fromkeys(params["kafka_topics"]))
    pattern = params["kafka_topics_regex"] or (None if named else followed)
    if pattern is None:
        return named
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
    return [*named, *(name for name in matching if name not in named)]
