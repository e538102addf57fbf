"""MirrorMaker 2 itself mirrors a topic, and an archive goes on with the mirror; a part of ``make test-long``.

python -m pytest tests/kafka/real_mirror.py
"""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import KafkaException

from broker.addresses import find_free_ports
from broker.kafka_broker import KafkaBroker
from tests.kafka.live_topics import LiveTopic, create_live_topic
from tests.kafka.test_ingest_kafka import ingest
from tests.kafka.test_mirrors import make_events
from tests.support.connect_worker import ConnectWorker, describe_mirror
from tests.support.waiting import wait_until
from tests.support.world import open_world
from winnow.kafka.client_settings import read_client_settings
from winnow.kafka.cluster import Cluster
from winnow.kafka.offset_syncs import MirrorOrigin, find_offset_syncs


def test_archive_goes_on_with_what_mirrormaker_mirrored(broker: KafkaBroker, tmp_path: Path) -> None:
    """Aborted records of the source are committed at the mirror, as MirrorMaker reads uncommitted ones by default."""
    source, rows = create_live_topic(broker, partitions=1), make_events(0, 400)
    source.write([(*row[:4], (("v", b"1"), ("n", None))) for row in rows[:250]])
    source.write_transaction(make_events(1000, 3), commits=False)
    source.write_transaction(rows[250:253])
    source.write(rows[253:300])
    worker = ConnectWorker(tmp_path, find_free_ports()[0], bootstrap_servers=broker.bootstrap_servers, mirrors=True)
    worker.add_connector("mirror", describe_mirror(broker.bootstrap_servers, source.name))
    mirror = LiveTopic(broker, f"A.{source.name}", 1)

    def has_mirrored(offsets: int) -> bool:
        try:
            return mirror.find_end(0) >= offsets
        except KafkaException:
            return False

    with open_world(tmp_path / "world") as world:
        ingest(world, source)
        ours = world.read(topic=source.name)
        assert len(ours) == 300
        try:
            worker.start()
            wait_until(lambda: has_mirrored(303), within_s=120)
            source.write(rows[300:])
            wait_until(lambda: has_mirrored(403), within_s=120)
        finally:
            worker.kill()
        origin = MirrorOrigin(source.name)
        cluster = Cluster(read_client_settings(broker.bootstrap_servers))
        syncs = find_offset_syncs(cluster, origin, {0: 10_000})
        assert syncs.topics == ("mm2-offset-syncs.B.internal",)
        (sync,) = syncs.by_partition[0]
        # Of two markers neither is mirrored.
        assert 0 < sync.downstream == sync.upstream - 2
        report = ingest(world, mirror, here=source.name, begins_epoch=True, mirror_of=origin)
        assert report.records_appended == 100
        values = [record.value for record in world.read(topic=source.name)]
        assert values == [value for _, _, value, _, _ in rows]
