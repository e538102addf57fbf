"""A log with several epochs: what is of an older one is compared with that one only, and readers see which is which."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from broker.kafka_broker import KafkaBroker
from tests.kafka.live_topics import BASE_MS, LiveTopic, create_live_topic, make_rows
from tests.kafka.test_ingest_kafka import ingest
from tests.support.cli_runner import winnow
from tests.support.waiting import wait_until
from tests.support.world import World, open_world, write_jsonl
from winnow.cli.checkpoints import list_checkpoints
from winnow.errors import BadInputError, UsageError
from winnow.kafka.client_settings import read_client_settings
from winnow.kafka.cluster import Cluster
from winnow.pipeline.explain.why import explain_key, explain_offset
from winnow.pipeline.ingest.ingest import ingest_files
from winnow.pipeline.ingest.request import IngestReport
from winnow.sources.kafka_log.files import parse_topic_id
from winnow.values.model import Record


@dataclass
class TwoLives:
    """A topic that was deleted and created again, both lives ingested, and the records of each as the brokers had them.

    ``directory``: a copy of the first life's log directory.
    """

    world: World
    name: str
    first: list[Record]
    second: list[Record]
    base: int
    directory: Path

    def ingest_files(self, records: list[Record], epoch: str | None = None) -> IngestReport:
        path = write_jsonl(self.world.path(), records)
        return ingest_files(self.world.installation, self.name, [path], as_of_ms=self.world.clock(), epoch=epoch)

    def read(self) -> list[Record]:
        return self.world.read(topic=self.name)


@pytest.fixture(scope="module")
def lives_once(broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TwoLives, Path]]:
    folder = tmp_path_factory.mktemp("lives")
    with open_world(folder / "world") as world:
        first = create_live_topic(broker, partitions=1)
        first.write(make_rows(random.Random(1), 30, partitions=1))
        ingest(world, first)
        directory = folder / f"{first.name}-0"
        shutil.copytree(broker.data_folder / f"{first.name}-0", directory)
        first.delete()
        second = create_live_topic(broker, 1, first.name)
        second.write(make_rows(random.Random(2), 20, partitions=1, start_ms=BASE_MS + 60_000))
        ingest(world, second, begins_epoch=True)
        yield TwoLives(world, first.name, first.records, second.records, 30, directory), folder


@pytest.fixture
def lives(lives_once: tuple[TwoLives, Path]) -> TwoLives:
    return lives_once[0]


def test_files_must_say_of_which_epoch_they_are(lives: TwoLives) -> None:
    with pytest.raises(BadInputError, match=r"has 2 epochs .* --epoch N"):
        lives.ingest_files(lives.first)
    with pytest.raises(UsageError, match="epochs 1 to 2"):
        lives.ingest_files(lives.first, "3")


@pytest.mark.parametrize("epoch", ["1", "2"])
def test_files_of_an_epoch_are_compared_with_that_epoch(lives: TwoLives, epoch: str) -> None:
    mine = lives.first if epoch == "1" else lives.second
    before = lives.read()
    report = lives.ingest_files(mine, epoch)
    assert (report.records_appended, report.records_skipped) == (0, len(mine))
    other = replace(mine[3], value=b"another")
    with pytest.raises(BadInputError):
        lives.ingest_files([other], epoch)
    assert lives.read() == before


def test_what_an_older_epoch_did_not_have_never_comes_back_as_newest(lives: TwoLives) -> None:
    beyond = [replace(lives.first[-1], offset=offset) for offset in (30, 31, 60)]
    for record in beyond:
        with pytest.raises(BadInputError, match=r"epoch 1 .* ended at offset 30 .* come back as newest"):
            lives.ingest_files([record], "1")
    assert len(lives.read()) == 50


def test_records_without_offsets_have_no_place_in_a_log_that_brokers_feed(lives: TwoLives) -> None:
    path = write_jsonl(lives.world.path(), lives.first[:2], with_offset=False)
    for epoch in ("2", "log"):
        with pytest.raises(BadInputError, match="Ingest them into another topic"):
            ingest_files(lives.world.installation, lives.name, [path], as_of_ms=lives.world.clock(), epoch=epoch)


def test_a_log_directory_finds_its_epoch_by_its_topic_id(lives: TwoLives) -> None:
    report = ingest_files(lives.world.installation, lives.name, [str(lives.directory)], as_of_ms=lives.world.clock())
    assert report.records_appended == 0
    assert len(lives.read()) == 50


def test_readers_see_epoch_and_offset_at_the_brokers(lives: TwoLives, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINNOW_HOME", str(lives.world.installation.settings.home))
    lines = [json.loads(line) for line in winnow("read", lives.name).stdout.splitlines()]
    assert [(line["epoch"], line["sourceOffset"]) for line in lines] == [
        *((1, record.offset) for record in lives.first),
        *((2, record.offset) for record in lives.second),
    ]


def test_what_readers_wrote_can_be_ingested_again(
    lives: TwoLives, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WINNOW_HOME", str(lives.world.installation.settings.home))
    winnow("read", lives.name, "--output", str(tmp_path / "all.jsonl"))
    paths = [str(tmp_path / "all.jsonl")]
    report = ingest_files(lives.world.installation, lives.name, paths, as_of_ms=lives.world.clock(), epoch="log")
    assert (report.records_appended, report.records_skipped) == (0, 50)


def test_why_names_epoch_and_offset_at_the_brokers(lives: TwoLives) -> None:
    now_ms = lives.world.clock()
    found = explain_offset(lives.world.installation, lives.name, 0, 33, as_of_ms=now_ms)
    assert (found.epoch, found.source_offset) == (2, 3)
    assert "epoch 2, offset 3 at the brokers" in found.sentence
    key = next(record.key for record in lives.second if record.key is not None)
    by_key = explain_key(lives.world.installation, lives.name, key, partition=None, as_of_ms=now_ms)
    assert by_key.epoch == 2


def test_checkpoints_name_epoch_and_offset_at_the_brokers(lives: TwoLives, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINNOW_HOME", str(lives.world.installation.settings.home))
    lives.world.installation.store.projection.record_states(
        lives.name, {0: replace(lives.world.state(0, lives.name), first_dirty_offset=45)}, lives.world.clock()
    )
    (row,) = list_checkpoints(lives.world.installation, lives.name)
    assert (row["epoch"], row["source_offset"]) == (2, 15)


def test_a_mirror_is_an_epoch_of_its_own(broker: KafkaBroker, tmp_path: Path) -> None:
    """Its offsets lie behind those of its source, so a mirror that were read as the topic would repeat records."""
    with open_world(tmp_path) as world:
        source, mirror = create_live_topic(broker, 1), create_live_topic(broker, 1)
        source.write(make_rows(random.Random(3), 10, partitions=1))
        mirror.write(make_rows(random.Random(4), 5, partitions=1, start_ms=BASE_MS + 60_000))
        ingest(world, source)
        moved = LiveTopic(broker, mirror.name, 1)
        with pytest.raises(BadInputError, match="--new-epoch"):
            ingest(world, moved, here=source.name)
        ingest(world, moved, here=source.name, begins_epoch=True)
        assert [each.offset for each in world.read(topic=source.name)] == [*range(10), *range(10, 15)]
        with pytest.raises(BadInputError, match="topic id"):
            ingest(world, source)


def test_ids_of_topics_are_those_of_the_brokers_own_files(broker: KafkaBroker) -> None:
    """Half of all ids hold a character that librdkafka writes as another one than Kafka does."""
    names = [create_live_topic(broker, partitions=1).name for _ in range(8)]
    files = {name: broker.data_folder / f"{name}-0" / "partition.metadata" for name in names}
    wait_until(lambda: all(path.exists() for path in files.values()), within_s=30)
    described = Cluster(read_client_settings(broker.bootstrap_servers)).describe_topics(names)
    assert {name: found.topic_id for name, found in described.items()} == {
        name: parse_topic_id(path.read_bytes()) for name, path in files.items()
    }
