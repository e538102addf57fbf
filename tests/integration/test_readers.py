"""What readers see while and after a compaction happens."""

from __future__ import annotations

import pytest

from tests.support.world import TOPIC, World, build_versions, compute_survivors
from winnow.pipeline.read.records import read_batches


@pytest.mark.kafka("G20")
def test_a_reader_at_work_reads_its_log_to_the_end_while_another_is_published(world: World) -> None:
    """Two partitions change in one commit: one reader sees both as before, the next sees both as after."""
    world.create(2, segment_bytes="14", min_cleanable_dirty_ratio="0")
    written = [each for partition in (0, 1) for each in build_versions(0, 9, partition=partition)]
    world.ingest(written)
    reader = read_batches(world.installation, TOPIC)
    offsets = [(0, offset) for offset in next(reader).column("offset").to_pylist()]
    assert world.compact() is not None
    for batch in reader:
        offsets += zip(batch.column("partition").to_pylist(), batch.column("offset").to_pylist(), strict=True)
    assert offsets == [(each.partition, each.offset) for each in written]
    assert world.read() == compute_survivors(written)


@pytest.mark.kafka("G22")
def test_compacting_again_without_new_records_changes_nothing(world: World) -> None:
    """No snapshot, no file, no moved checkpoint; also at a later as-of, once no tombstone is left to go."""
    world.create(segment_bytes="14", min_cleanable_dirty_ratio="0", delete_retention_ms="0")
    world.ingest([*build_versions(0, 9), *build_versions(9, 1, keys=100)])
    assert world.compact() is not None
    snapshots, files = world.snapshot_ids(), world.listing(below=f"{world.log_folder()}/data")
    for days in (0, 1, 400):
        assert world.compact(world.clock() + days * 86_400_000) is None
    assert world.snapshot_ids() == snapshots
    assert world.listing(below=f"{world.log_folder()}/data") == files
