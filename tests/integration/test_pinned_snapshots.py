"""A pinned snapshot and its files stay through compactions and sweeps, and go once it is released."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.world import TOPIC, FakeClock, build_versions, open_world
from winnow.clock import read_wall_clock_ms
from winnow.errors import UsageError
from winnow.log.pinned_snapshots import pin_snapshot, unpin_snapshots
from winnow.pipeline.admin.sweep import sweep_topics

DAY_MS = 86_400_000


def test_a_pinned_snapshot_stays_until_it_is_released_and_then_goes_although_its_successor_went_before(
    tmp_path: Path,
) -> None:
    with open_world(tmp_path, FakeClock(read_wall_clock_ms())) as world:
        world.create(segment_bytes="200", min_cleanable_dirty_ratio="0")
        world.ingest(build_versions(0, 30))
        log, head = world.installation.log.open(TOPIC), world.head()
        pinned = head.snapshot_id
        assert pinned is not None
        pin_snapshot(log, "a-tag", head)
        pin_snapshot(log, "a-tag", head)
        segments = world.segments()
        files = [Path(each.path.removeprefix("file://")) for each in segments]
        assert world.compact() is not None
        world.ingest(build_versions(30, 5))
        world.clock.now_ms += 10 * DAY_MS
        sweep_topics(world.installation)
        assert len(world.snapshot_ids()) == 2  # the one between went
        assert log.segments(log.snapshot(pinned))[0] == segments
        assert all(file.exists() for file in files)
        assert unpin_snapshots(log, lambda tag: tag == "a-tag") == ["a-tag"]
        sweep_topics(world.installation)
        assert pinned not in world.snapshot_ids()
        assert not any(file.exists() for file in files)
        with pytest.raises(UsageError, match="has no snapshot"):
            pin_snapshot(log, "too-late", head)
