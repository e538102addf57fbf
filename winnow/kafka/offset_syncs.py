"""Reads MirrorMaker's offset syncs: which offset of a mirror a record of its source was written at.

MirrorMaker 2 keeps them in a compacted topic ``mm2-offset-syncs.TARGET.internal`` on its source cluster, or
``mm2-offset-syncs.SOURCE.internal`` on the target. They are sparse, stay when a mirror or its source is created again,
and are what MirrorMaker believes: they say where to look, and prove nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from winnow.errors import BadInputError
from winnow.kafka.client_settings import ClientSettings
from winnow.kafka.cluster import BrokerTopic, Cluster
from winnow.kafka.range_reader import BrokerRange, RangeReader

MAXIMUM_SYNC_OFFSETS = 200_000
"""Newest offsets of each partition of a topic of offset syncs that are read; MirrorMaker gives it one partition."""
MAXIMUM_SYNC_TOPICS = 5
_SYNC_TOPIC = re.compile(r"mm2-offset-syncs\W.+\Winternal")
_KEY_BYTES_BESIDE_TOPIC = 6
_VALUE_BYTES = 16


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """A record at offset ``upstream`` of partition ``partition`` of ``topic`` at its source is at ``downstream``.

    Offsets are not below 0. ``topic``: its name at the source.
    """

    topic: str
    partition: int
    upstream: int
    downstream: int


@dataclass(frozen=True, slots=True)
class MirrorOrigin:
    """What a topic is a mirror of. ``topic``: the name at its source.

    ``syncs_topic``: the topic of offset syncs; None: every topic of the cluster that is named like one. ``syncs_at``:
    the cluster that has it; None: that of the mirror.
    """

    topic: str
    syncs_topic: str | None = None
    syncs_at: ClientSettings | None = None


@dataclass(frozen=True, slots=True)
class FoundSyncs:
    """``topics``: the topics that were read. ``by_partition``: of each, the syncs that may serve, one at most each."""

    topics: tuple[str, ...] = ()
    by_partition: Mapping[int, tuple[OffsetSync, ...]] = field(default_factory=dict)


def decode_offset_sync(key: bytes | None, value: bytes | None) -> OffsetSync | None:
    """Decode a record of a topic of offset syncs; None if it is none.

    The key is the topic's name (length of 16 bits, UTF-8) and the partition (32 bits), the value upstream and
    downstream offset (64 bits each); all big-endian, and nothing else.
    """
    if key is None or value is None or len(value) != _VALUE_BYTES or len(key) < _KEY_BYTES_BESIDE_TOPIC:
        return None
    length = int.from_bytes(key[:2], signed=True)
    if length != len(key) - _KEY_BYTES_BESIDE_TOPIC:
        return None
    try:
        topic = key[2 : 2 + length].decode()
    except UnicodeDecodeError:
        return None
    partition = int.from_bytes(key[-4:], signed=True)
    upstream, downstream = int.from_bytes(value[:8], signed=True), int.from_bytes(value[8:], signed=True)
    if partition < 0 or upstream < 0 or downstream < 0:
        return None
    return OffsetSync(topic, partition, upstream, downstream)


def find_offset_syncs(cluster: Cluster, origin: MirrorOrigin, last_offsets: Mapping[int, int]) -> FoundSyncs:
    """Find per partition the offset sync nearest to what is known last, in each topic of offset syncs.

    Of the syncs that are not beyond it, the one that was written last: those before it may be of an earlier life of the
    source or the mirror.

    Args:
        cluster: that of the mirror.
        origin: what it mirrors, and where its syncs are.
        last_offsets: per partition the last offset at the source that is known.

    Raises:
        BadInputError: the topic that was named is not there.
        ServiceError: the cluster of the syncs cannot be reached.
        ConfigurationError: the client may not ask it.
    """
    asked = cluster if origin.syncs_at is None else Cluster(origin.syncs_at)
    names = _list_sync_topics(asked) if origin.syncs_topic is None else [origin.syncs_topic]
    described = asked.describe_topics(names)
    if origin.syncs_topic is not None and described.get(origin.syncs_topic) is None:
        raise BadInputError(
            f"Kafka at {asked.settings.bootstrap_servers} has no topic {origin.syncs_topic}.",
            left="Nothing was ingested.",
            next=(
                "MirrorMaker keeps its offset syncs on the source cluster unless offset-syncs.topic.location=target: "
                "name its brokers with --offset-syncs-at, or leave the topic's name out."
            ),
        )
    by_partition: dict[int, list[OffsetSync]] = {}
    with RangeReader(asked.settings) as reader:
        for topic in described.values():
            for number, sync in _read_nearest(reader, topic, origin.topic, last_offsets).items():
                by_partition.setdefault(number, []).append(sync)
    return FoundSyncs(tuple(described), {number: tuple(syncs) for number, syncs in by_partition.items()})


def _list_sync_topics(cluster: Cluster) -> Sequence[str]:
    return [name for name in cluster.list_topics() if _SYNC_TOPIC.fullmatch(name)][:MAXIMUM_SYNC_TOPICS]


def _read_nearest(
    reader: RangeReader, topic: BrokerTopic, source: str, last_offsets: Mapping[int, int]
) -> dict[int, OffsetSync]:
    nearest: dict[int, OffsetSync] = {}
    for number, offsets in sorted(topic.partitions.items()):
        start = max(offsets.start_offset, offsets.stable_offset - MAXIMUM_SYNC_OFFSETS)
        for batch in reader.read(BrokerRange(topic.name, number, start, offsets.stable_offset)):
            pairs = zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True)
            for key, value in pairs:
                sync = decode_offset_sync(key, value)
                if sync is not None and sync.topic == source and sync.upstream <= last_offsets.get(sync.partition, -1):
                    nearest[sync.partition] = sync
    return nearest
