"""``--include-active-segment`` closes the active segment for one run; minimum lag and dirty ratio still decide."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import in_process_spark
from tests.support.world import NOW_MS, TOPIC, World, compute_survivors, open_world, record
from winnow.pipeline.compaction import driver
from winnow.pipeline.compaction.assess import open_assessor
from winnow.pipeline.compaction.driver import compact_topics
from winnow.pipeline.explain.explain import explain_compaction
from winnow.values.model import Reason, Record, Status

MINUTE_MS = 60_000
WEEK_MS = 7 * 86_400_000


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(driver, "submit_plans", in_process_spark.submit)
    with open_world(tmp_path) as opened:
        yield opened


def build_young(first: int, count: int) -> list[Record]:
    """Records of the last minutes, on three keys."""
    return [
        record(n, b"key-%d" % (n % 3), b"value-%d" % n, NOW_MS - 10 * MINUTE_MS + n)
        for n in range(first, first + count)
    ]


def test_an_active_segment_is_left_alone_unless_it_is_counted_as_closed(world: World) -> None:
    """The result is what the oracle keeps of everything; the next records begin an active segment of their own."""
    world.create()
    records = build_young(0, 12)
    world.ingest(records)
    idle = compact_topics(world.installation, [TOPIC], as_of_ms=world.clock())
    assert [receipt.status for receipt in idle.receipts] == [Status.NOTHING_TO_DO]

    (done,) = compact_topics(world.installation, [TOPIC], as_of_ms=world.clock(), closes_active=True).receipts
    assert done.status is Status.PUBLISHED
    assert "The active segments counted as closed (--include-active-segment)." in done.message
    assert world.read() == compute_survivors(records)
    assert world.state().first_dirty_offset == 12

    world.ingest(build_young(12, 6))
    (again,) = compact_topics(world.installation, [TOPIC], as_of_ms=world.clock()).receipts
    assert again.status is Status.NOTHING_TO_DO
    (last,) = compact_topics(world.installation, [TOPIC], as_of_ms=world.clock(), closes_active=True).receipts
    assert last.status is Status.PUBLISHED
    assert world.read() == compute_survivors([*records, *build_young(12, 6)])


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"min_compaction_lag_ms": str(WEEK_MS)}, Reason.INSIDE_MIN_LAG),
        ({"min_cleanable_dirty_ratio": "1"}, Reason.NOT_DIRTY_ENOUGH),
    ],
)
def test_minimum_lag_and_dirty_ratio_still_decide(world: World, config: dict[str, str], reason: Reason) -> None:
    """Nothing is compacted, and the log stays as it is."""
    world.create(1, **config)
    world.ingest(build_young(0, 12))
    with open_assessor(world.installation, [TOPIC], as_of_ms=world.clock(), closes_active=True) as look:
        assert [assessment.reason for assessment in look(TOPIC)] == [reason]
    (receipt,) = compact_topics(world.installation, [TOPIC], as_of_ms=world.clock(), closes_active=True).receipts
    assert receipt.status is Status.NOTHING_TO_DO
    assert len(world.read()) == 12


def test_an_assessment_says_when_the_active_segment_closes_by_itself(world: World) -> None:
    """At that instant it is closed, and a millisecond earlier it is not."""
    world.create()
    world.ingest(build_young(0, 12))
    with open_assessor(world.installation, [TOPIC], as_of_ms=world.clock()) as look:
        (found,) = look(TOPIC)
    assert found.reason is Reason.NO_CLOSED_SEGMENT
    assert found.active_closes_ms == NOW_MS - 10 * MINUTE_MS + WEEK_MS + 1
    for as_of_ms, reason in ((found.active_closes_ms - 1, found.reason), (found.active_closes_ms, Reason.DIRTY_RATIO)):
        with open_assessor(world.installation, [TOPIC], as_of_ms=as_of_ms, record=False) as look:
            assert [each.reason for each in look(TOPIC)] == [reason]


def test_what_is_assessed_or_explained_as_closed_is_recorded_nowhere(world: World) -> None:
    """The page and the alerts show the log as the schedule sees it."""
    world.create()
    world.ingest(build_young(0, 12))
    with open_assessor(world.installation, [TOPIC], as_of_ms=world.clock(), closes_active=True) as look:
        assert [assessment.eligible for assessment in look(TOPIC)] == [True]
    assert (
        explain_compaction(world.installation, TOPIC, as_of_ms=world.clock(), closes_active=True).partitions[0].records
        == 12
    )
    assert explain_compaction(world.installation, TOPIC, as_of_ms=world.clock()).plan_id is None
    assert world.installation.store.assessments.list_latest([TOPIC]) == []
