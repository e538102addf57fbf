"""A long run, for `make test-long` alone: a cluster is written to, fails now here and now there, and is never at rest.

Meanwhile its topics are followed, compacted and restored into topics of the same cluster. At the end the archive has
the newest record of every key, where the brokers acknowledged it, and a restore has what the archive has.

    LIVE_SECONDS=600 python -m pytest tests/kafka/live_cluster.py
"""

from __future__ import annotations

import itertools
import os
import time
import uuid
from contextlib import ExitStack, suppress
from pathlib import Path

from confluent_kafka import KafkaException

from tests.kafka.accounted_topic import AccountedTopic
from tests.kafka.cluster_activities import Activity, follow_once, repeat_until_done
from tests.kafka.cluster_schedule import Schedule
from tests.kafka.restored_topics import Target, list_rows, open_present_world
from tests.support.kafka_cluster import KafkaCluster
from tests.support.kafka_java_admin import JavaAdmin
from tests.support.world import World
from winnow.pipeline.restore.restore import restore_topic
from winnow.pipeline.restore.restore_request import RestoreRequest

SECONDS = float(os.environ.get("LIVE_SECONDS") or 3600)
SEED = int(os.environ.get("CROWD_SEED") or 0)
TOPICS = 3
CONFIGURATION = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.1",
    "segment.ms": "5000",
    "min.insync.replicas": "2",
}


class Compaction:
    """Compacts the topics of an archive in turn."""

    def __init__(self, world: World, topics: list[str]) -> None:
        self._world = world
        self._topics = itertools.cycle(topics)
        self._numbers = itertools.count()
        self.runs = 0

    def __call__(self) -> None:
        """Compact the next topic, if it is eligible."""
        topic = next(self._topics)
        if topic in self._world.installation.log.names():
            done = self._world.compact(topic=topic, attempt=f"a{next(self._numbers)}")
            self.runs += done is not None


class Restores:
    """Restores a topic of an archive into a topic of its own, from the beginning to the end, again and again."""

    def __init__(self, world: World, servers: str, topic: str) -> None:
        self._world, self._servers, self._topic = world, servers, topic
        self._target = Target(servers)
        self.complete = 0

    def __call__(self) -> None:
        """Begin a restore, or go on with the one that failed; once it is complete, the next has another target."""
        if self._topic not in self._world.installation.log.names():
            return
        self.restore_once()
        with suppress(KafkaException):  # the node that was asked died: the topic stays, and disturbs nobody
            self._target.delete()
        self._target = Target(self._servers)
        self.complete += 1

    def restore_once(self) -> Target:
        """Restore into the present target, which reads it back and compares it; return the target."""
        file = self._world.folder / f"{self._target.name}.parquet"
        request = RestoreRequest(self._topic, self._target.name, file, replication_factor=2)
        restore_topic(self._world.installation, request, self._target.settings, lambda *_: None)
        return self._target

    def begin_anew(self) -> None:
        """Take another target for the next restore."""
        self._target = Target(self._servers)


def test_an_archive_that_follows_a_failing_cluster_has_the_newest_record_of_every_key_at_the_end(
    cluster: KafkaCluster, admin: JavaAdmin, tmp_path: Path
) -> None:
    """Following, compaction and restore go on all the time; none of them ends with an error but "run it again"."""
    servers, prefix = cluster.bootstrap_servers, uuid.uuid4().hex[:8]
    topics = [AccountedTopic(cluster, f"{prefix}-{number}", seed=SEED + number) for number in range(TOPICS)]
    names = [topic.name for topic in topics]
    for name in names:
        cluster.create_topic(name, partitions=3, config=CONFIGURATION)
    with open_present_world(tmp_path / "archive") as world, ExitStack() as ended:
        compaction, restores = Compaction(world, names), Restores(world, servers, names[0])
        activities = {
            "follow": Activity(lambda: follow_once(world, servers, names, takes_configuration=True)),
            "compact": Activity(compaction),
            "restore": Activity(restores),
        }
        schedule = Schedule(cluster, admin, topics, SEED)
        until = time.monotonic() + SECONDS
        with ExitStack() as running:
            for topic in topics:
                topic.begin()
                ended.callback(topic.end)
            for activity in activities.values():
                running.enter_context(activity)
            while time.monotonic() < until and not any(activity.faults for activity in activities.values()):
                schedule.run_round()
            cluster.recover()
        ended.close()
        print(f"{len(schedule.told)} things happened: {'; '.join(schedule.told)}")
        for name, activity in activities.items():
            print(f"{name}: {activity.successes} calls succeeded, {len(activity.retries)} were to be run again")
            print(*activity.faults)
            assert not activity.faults, (name, schedule.told, *activity.faults)
        repeat_until_done(lambda: follow_once(world, servers, names, takes_configuration=True))
        for _ in names:
            compaction()
        acknowledged = sum(topic.acknowledged for topic in topics)
        print(f"{acknowledged} records acknowledged, {compaction.runs} compactions, {restores.complete} restores")
        for topic in topics:
            assert topic.find_faults_of_compacted(world.read(topic=topic.name)) == [], schedule.told
        assert compaction.runs
        restores.begin_anew()
        target = restores.restore_once()
        published = world.read(topic=names[0])
        assert [(number, row) for number, _, row in target.read()] == list_rows(published), schedule.told
