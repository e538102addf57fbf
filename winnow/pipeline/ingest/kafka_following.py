"""Keeps many logs close to their Kafka topics: one call asks the brokers about all, and reads what is new.

A topic that has nothing new costs its share of a few questions to the brokers, the catalog and the metadata store: its
log had everything when it was looked at last, and neither the log's head nor the topic's offsets have changed since.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from winnow import documents
from winnow.failures import TopicFailure
from winnow.kafka.cluster import BrokerTopic, Cluster
from winnow.kafka.open_transactions import date_open_transactions
from winnow.pipeline.context import Context
from winnow.pipeline.ingest.commit import IngestReport
from winnow.pipeline.ingest.kafka import KafkaRequest, ingest_kafka_topics
from winnow.pipeline.ingest.kafka_lag import confirm_complete_lags
from winnow.store.ingest_lag import CompleteTopic


@dataclass(frozen=True, slots=True)
class FollowReport:
    """What following topics did. ``unchanged``: topics with nothing new, told without opening their logs.

    ``held``: topics of which open transactions hold back records at the brokers.
    """

    unchanged: int
    reports: tuple[IngestReport, ...]
    failures: tuple[TopicFailure, ...]
    held: int = 0

    @property
    def sentence(self) -> str:
        """The report as text for logs."""
        appended = [each for each in self.reports if each.snapshot_id is not None]
        records = sum(each.records_appended for each in appended)
        topics = self.unchanged + len(self.reports) + len(self.failures)
        failed = f" {len(self.failures)} failed." if self.failures else ""
        held = f" Open transactions hold back records of {self.held:,}." if self.held else ""
        return f"Followed {topics:,} topics: {records:,} records appended to {len(appended):,} of them.{held}{failed}"


def follow_topics(
    ctx: Context, cluster: Cluster, names: Sequence[str], wanted: KafkaRequest, *, as_of_ms: int
) -> FollowReport:
    """Append to the topics in ``names`` what their namesakes at the brokers have and they do not have yet.

    One topic's failure stops no other. Records how far each is behind.

    Raises:
        ServiceError: brokers, catalog or metadata store cannot be reached; what was appended before stays.
    """
    heads = ctx.log.find_metadata_locations(names)
    found = cluster.describe_topics(names, configuration=wanted.configuration.takes)
    described = dict(found.items())
    unchanged = _find_unchanged(ctx, heads, described)
    # An open transaction goes on writing while the last stable offset stays, so it is looked at here as well.
    confirmed = date_open_transactions(cluster.settings, {name: described[name] for name in unchanged})
    confirm_complete_lags(ctx, confirmed)
    held = sum(topic.is_held for topic in confirmed.values())
    changed = {name: name for name in names if name not in unchanged}
    if not changed:
        return FollowReport(len(unchanged), (), (), held)
    outcome = ingest_kafka_topics(ctx, cluster, changed, wanted, as_of_ms=as_of_ms)
    # Nothing was to be committed to these. If another head was looked at than the one named here, or newer offsets than
    # those, they are never current again.
    complete = [each.topic for each in outcome.reports if each.snapshot_id is None and each.topic in heads]
    ctx.store.ingest_lags.record_complete(
        [CompleteTopic(name, heads[name], digest_topic(described[name])) for name in complete if name in described]
    )
    held += sum(bool(report.uncommitted) for report in outcome.reports)
    return FollowReport(len(unchanged), outcome.reports, outcome.failures, held)


def _find_unchanged(ctx: Context, heads: dict[str, str], found: dict[str, BrokerTopic]) -> set[str]:
    """Find the topics whose log had everything at the head that it has now, and to which nothing came since."""
    known = ctx.store.ingest_lags.find_complete(list(found))
    return {
        name
        for name, each in known.items()
        if each.metadata_location == heads.get(name) and each.brokers_digest == digest_topic(found[name])
    }


def digest_topic(found: BrokerTopic) -> str:
    """Compute a digest of a topic's id, partitions, offsets of committed records, and configuration if known."""
    offsets = sorted((number, each.start_offset, each.stable_offset) for number, each in found.partitions.items())
    configuration = sorted((name, each.value, each.origin.value) for name, each in found.settings.items())
    return documents.compute_digest((found.topic_id, offsets, configuration))
