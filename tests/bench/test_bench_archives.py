"""The archives of the benchmark are what the sinks write: they are recognised, and hold the records they should."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.archives import ARCHIVES, PARTITIONS, TOPIC
from tests.support.world import open_world
from winnow.pipeline.ingest.ingest import ingest_files


@pytest.mark.parametrize(("name", "layout"), [("aiven-json", "aiven"), ("confluent-avro", "confluent")])
def test_an_archive_of_the_benchmark_goes_in_whole(tmp_path: Path, name: str, layout: str) -> None:
    archive = tmp_path / "archive"
    archive.mkdir()
    ARCHIVES[name](archive, 200)
    with open_world(tmp_path) as world:
        world.create(PARTITIONS, TOPIC, cleanup_policy="delete")
        report = ingest_files(world.installation, TOPIC, [str(archive)], as_of_ms=world.clock())
        assert (report.layout, report.records_appended) == (layout, 200)
        keys = {each.key for each in world.read(topic=TOPIC)}
        assert all(key.startswith(b"customer-") for key in keys if key is not None)
