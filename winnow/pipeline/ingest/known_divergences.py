"""Remembers where a log diverges from its Kafka topic, so that each tick which is refused need not search it again.

What is remembered is where the search begins, and nothing is concluded from it: the records on both sides of that
offset are compared each time. So it may be wrong or old, and brokers that have our records again are noticed.
"""

from __future__ import annotations

from functools import partial

from winnow.kafka.cluster import BrokerTopic, Cluster
from winnow.log.head import Head
from winnow.log.topic_log import TopicLog
from winnow.pipeline.context import Context
from winnow.pipeline.ingest.kafka_divergence import Comparison, compare_with_brokers
from winnow.pipeline.ingest.kafka_reading import ReadingRules


def compare_as_known(
    ctx: Context, log: TopicLog, head: Head, found: BrokerTopic, cluster: Cluster, rules: ReadingRules
) -> Comparison:
    """Compare a log with its topic at the brokers, beginning where it was found to diverge before.

    A call for which ``rules`` say what becomes of a divergence searches it anew. Raises as
    :func:`winnow.pipeline.ingest.kafka_divergence.compare_with_brokers`.
    """
    segments = partial(log.segments, head)
    if rules.diverged is not None:
        return compare_with_brokers(head.state, found, segments, cluster.settings)
    known: dict[int, int] = {}

    def find_known() -> dict[int, int]:
        known.update(ctx.store.divergences.find(log.topic))
        return known

    compared = compare_with_brokers(head.state, found, segments, cluster.settings, find_known)
    offsets = {each.partition: each.offset for each in compared.divergences}
    # Without a divergence nothing was asked for; what is known is forgotten once the call has succeeded.
    if offsets != known:
        ctx.store.divergences.record(log.topic, offsets)
    return compared
