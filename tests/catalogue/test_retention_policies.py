"""What goes by its age or by size, what goes because the log start moved, and what compaction has to do with it."""

from __future__ import annotations

import pytest

from tests.catalogue.log_builder import HOUR_MS
from tests.support.world import TOPIC, World, build_versions, compute_survivors, define_world, record
from winnow.files import storage
from winnow.pipeline.admin.delete_records import delete_records
from winnow.pipeline.compaction.assess import assess_topics
from winnow.pipeline.installation import open_installation
from winnow.pipeline.topics.definition import alter_topic
from winnow.pipeline.topics.leases import hold_lease
from winnow.pipeline.topics.marks import mark_uncleanable
from winnow.values.model import Reason, Record
from winnow.values.results import Receipt

world = define_world()


def create(world: World, policy: str, topic: str = TOPIC, **config: str) -> None:
    """A topic where every file is closed, and anything cleanable is reason enough."""
    always = {"min_cleanable_dirty_ratio": "0", "internal_segment_bytes": "1", "cleanup_policy": policy}
    world.create(1, topic=topic, **(always | config))


def blocks(world: World, *ages_hours: float, topic: str = TOPIC) -> list[list[Record]]:
    """A file of three records of three keys for each age."""
    made = []
    for number, hours in enumerate(ages_hours):
        at_ms = world.clock() - round(hours * HOUR_MS)
        made.append([record(number * 3 + n, b"k%d" % n, b"block-%d" % number, at_ms) for n in range(3)])
        world.ingest(made[-1], topic=topic)
    return made


def reason(world: World, topic: str = TOPIC) -> Reason:
    (found,) = assess_topics(world.installation, [topic], as_of_ms=world.clock(), record=False)
    return found.reason


def compacted(world: World, topic: str = TOPIC) -> Receipt:
    receipt = world.compact(topic=topic)
    assert receipt is not None
    return receipt


# ------------------------------------------------------------------------------------------------------- which policies


@pytest.mark.kafka("101")
def test_a_topic_that_only_deletes_is_never_compacted(world: World) -> None:
    """Not by its ratio, not by its lag; what is past its retention goes, duplicates that are not stay."""
    create(world, "delete", retention_ms=str(5 * HOUR_MS), max_compaction_lag_ms="1")
    made = blocks(world, 9, 3, 1)
    assert reason(world) is Reason.RETENTION
    receipt = compacted(world)
    assert (receipt.partitions[0].records_retired, receipt.partitions[0].records_superseded) == (3, 0)
    assert world.read() == [*made[1], *made[2]]
    assert reason(world) is Reason.POLICY_DELETE_ONLY
    assert world.compact() is None


@pytest.mark.kafka("102", "108")
def test_with_both_policies_old_segments_go_and_the_rest_is_compacted_in_one_run(world: World) -> None:
    """Exactly as old as the retention is not too old."""
    create(world, "compact,delete", retention_ms=str(5 * HOUR_MS))
    made = blocks(world, 9, 5, 1)
    receipt = compacted(world)
    (part,) = receipt.partitions
    assert (part.records_retired, part.records_in, part.records_kept) == (3, 6, 3)
    assert world.read() == made[2]
    assert (world.state().log_start_offset, world.state().first_dirty_offset) == (3, 9)
    assert world.state().log_end_offset == 9


@pytest.mark.kafka("103", "109")
@pytest.mark.parametrize("policy", ["compact", "delete", "compact,delete"])
def test_a_log_start_that_moved_past_a_segment_takes_exactly_that_segment_out(world: World, policy: str) -> None:
    """Whatever the policy is by then; the file leaves the log, what is readable is the same before and after."""
    create(world, "compact,delete", min_cleanable_dirty_ratio="1")
    for start in range(0, 9, 3):
        world.ingest([record(n, b"k%d" % n, b"v") for n in range(start, start + 3)])
    before = world.segments()
    delete_records(world.installation, TOPIC, {0: 3})
    alter_topic(world.installation, TOPIC, {"cleanup.policy": policy}, [])
    read = world.read()
    assert [r.offset for r in read] == [*range(3, 9)]
    assert reason(world) is Reason.RETENTION
    receipt = compacted(world)
    assert receipt.partitions[0].records_retired == 3
    assert world.segments() == before[1:]
    assert world.read() == read
    assert world.compact() is None


@pytest.mark.kafka("7", "109")
def test_a_log_start_inside_a_segment_takes_nothing_out(world: World) -> None:
    """Its upper part is still read; the lower part is neither read nor counted, and nothing down there wins."""
    create(world, "compact,delete")
    world.ingest([record(n, b"k%d" % (n % 2), b"%d" % n) for n in range(6)])
    delete_records(world.installation, TOPIC, {0: 4})
    assert [r.offset for r in world.read()] == [4, 5]
    (found,) = assess_topics(world.installation, [TOPIC], as_of_ms=world.clock(), record=False)
    assert (found.log_start_offset, found.first_dirty_offset) == (4, 4)
    receipt = compacted(world)
    assert (receipt.partitions[0].records_in, receipt.partitions[0].records_kept) == (2, 2)
    assert [r.offset for r in world.read(from_offset=0)] == [4, 5]


@pytest.mark.kafka("8")
def test_a_log_start_inside_the_active_segment_leaves_nothing_to_select_in_a_real_log(world: World) -> None:
    """Looking again and again says the same."""
    world.create(1, cleanup_policy="compact,delete", min_cleanable_dirty_ratio="0")
    world.ingest([record(n, b"k", b"%d" % n, world.clock()) for n in range(6)])
    delete_records(world.installation, TOPIC, {0: 3})
    for _ in range(2):
        assert reason(world) is Reason.NO_CLOSED_SEGMENT
        assert world.compact() is None
    assert [r.offset for r in world.read()] == [3, 4, 5]


@pytest.mark.kafka("10")
def test_a_checkpoint_that_the_log_start_passed_decides_nothing(world: World) -> None:
    """Nothing is left to clean, and the checkpoint counts as the log start all the same."""
    create(world, "compact,delete")
    world.ingest(build_versions(0, 3))
    world.compact()
    world.ingest([record(n, b"k", b"v", world.clock()) for n in range(3, 6)])
    delete_records(world.installation, TOPIC, {0: 5})
    alter_topic(world.installation, TOPIC, {"min.compaction.lag.ms": str(HOUR_MS)}, [])
    world.compact()
    (found,) = assess_topics(world.installation, [TOPIC], as_of_ms=world.clock(), record=False)
    assert (found.reason, found.first_dirty_offset) == (Reason.INSIDE_MIN_LAG, 5)
    assert world.state().first_dirty_offset == 5


@pytest.mark.kafka("104")
def test_retention_of_an_uncleanable_partition_goes_on(world: World) -> None:
    """It is not compacted while it waits, and its mark stays; when the wait is over it is compacted."""
    create(world, "compact,delete", retention_ms=str(5 * HOUR_MS))
    made = blocks(world, 9, 3, 1)
    mark_uncleanable(world.installation, TOPIC, "plan", {0: "a segment cannot be read"})
    assert reason(world) is Reason.RETENTION
    receipt = compacted(world)
    (part,) = receipt.partitions
    assert (part.records_retired, part.records_in, part.records_superseded) == (3, 0, 0)
    assert world.read() == [*made[1], *made[2]]
    mark = world.state().uncleanable
    assert mark is not None
    assert world.state().first_dirty_offset is None
    assert reason(world) is Reason.UNCLEANABLE
    assert mark.next_attempt_ms is not None
    world.clock.now_ms = mark.next_attempt_ms
    world.compact()
    assert (world.read(), world.state().uncleanable) == (made[2], None)


@pytest.mark.kafka("105")
def test_retention_and_compaction_of_a_topic_never_run_at_the_same_time(world: World) -> None:
    """One lease for both, also while the policy changes from one to the other and back."""
    create(world, "delete", retention_ms=str(5 * HOUR_MS))
    made = blocks(world, 9, 1)
    with open_installation(world.installation.settings, now_ms=world.clock) as other, hold_lease(other, TOPIC):
        assert reason(world) is Reason.IN_PROGRESS
        alter_topic(world.installation, TOPIC, {"cleanup.policy": "compact"}, [])
        assert reason(world) is Reason.IN_PROGRESS
    assert reason(world) is Reason.DIRTY_RATIO
    with open_installation(world.installation.settings, now_ms=world.clock) as other, hold_lease(other, TOPIC):
        alter_topic(world.installation, TOPIC, {"cleanup.policy": "delete"}, [])
        assert reason(world) is Reason.IN_PROGRESS
    compacted(world)
    assert world.read() == made[1]


# ------------------------------------------------------------------------------------------------------------- how much


@pytest.mark.kafka("106")
def test_compacted_and_then_past_its_retention_everything_goes_and_the_log_goes_on(world: World) -> None:
    """The log start meets the log end; a second run finds nothing, and new records come after the old end."""
    create(world, "compact,delete", retention_ms=str(5 * HOUR_MS))
    made = blocks(world, 2, 1)
    compacted(world)
    assert world.read() == made[1]
    world.clock.now_ms += 5 * HOUR_MS
    receipt = compacted(world)
    assert receipt.partitions[0].records_retired == 3
    assert (world.read(), world.segments()) == ([], ())
    state = world.state()
    assert (state.log_start_offset, state.log_end_offset, state.first_dirty_offset) == (6, 6, 6)
    assert world.compact() is None
    assert reason(world) is Reason.EMPTY
    world.ingest([record(6, b"k0", b"new", world.clock()), record(7, b"k0", b"newer", world.clock())])
    compacted(world)
    assert [r.offset for r in world.read()] == [7]


@pytest.mark.kafka("107")
def test_without_delete_in_the_policy_nothing_goes_by_age_or_size(world: World) -> None:
    """Every key keeps its last record, however old and however large the log."""
    create(world, "compact", retention_ms="1", retention_bytes="1")
    made = blocks(world, 900, 800)
    receipt = compacted(world)
    assert receipt.partitions[0].records_retired == 0
    assert world.read() == made[1]
    world.clock.now_ms += 900 * HOUR_MS
    assert world.compact() is None


@pytest.mark.kafka("110")
def test_retention_that_runs_again_removes_nothing_more(world: World) -> None:
    """First by the log start, then by age; each once."""
    create(world, "delete", retention_ms=str(5 * HOUR_MS))
    made = blocks(world, 4, 3, 2)
    delete_records(world.installation, TOPIC, {0: 3})
    assert compacted(world).partitions[0].records_retired == 3
    assert world.compact() is None
    world.clock.now_ms += 2 * HOUR_MS + 1
    assert compacted(world).partitions[0].records_retired == 3
    assert world.compact() is None
    assert world.read() == made[2]


@pytest.mark.kafka("111")
@pytest.mark.parametrize(
    ("whole", "more_bytes", "left"),
    [(0, -500, 3), (0, 0, 3), (1, -1, 3), (1, 0, 2), (1, 100, 2), (2, -1, 2), (2, 0, 1)],
)
def test_by_size_segments_go_while_what_is_too_much_is_a_whole_one(
    world: World, whole: int, more_bytes: int, left: int
) -> None:
    """Three segments; the log is larger than allowed by the first ``whole`` of them and some bytes."""
    create(world, "delete")
    blocks(world, 3, 2, 1)
    before = world.segments()
    too_much = sum(segment.size_bytes for segment in before[:whole]) + more_bytes
    limit = sum(segment.size_bytes for segment in before) - too_much
    alter_topic(world.installation, TOPIC, {"retention.bytes": str(limit)}, [])
    receipt = world.compact()
    assert (receipt is None) == (left == 3)
    assert world.segments() == before[3 - left :]


# -------------------------------------------------------------------------------------------------------------- keyless


@pytest.mark.kafka("40", "141", "G19")
def test_after_a_switch_to_compact_keyless_records_are_quarantined_and_counted(world: World) -> None:
    """The receipt says how many left, and each can be read from the quarantine with its coordinates."""
    create(world, "delete")
    keyless = [record(n, None, b"keyless-%d" % n) for n in range(5)]
    keyed = [record(5 + n, b"k%d" % (n % 2), b"keyed-%d" % n) for n in range(4)]
    world.ingest([*keyless, *keyed])
    assert world.read() == [*keyless, *keyed]
    told = alter_topic(world.installation, TOPIC, {"cleanup.policy": "compact"}, [])
    assert [notice for notice in told.notices if notice.startswith("5 records of this topic have no key.")] != []
    receipt = compacted(world)
    (part,) = receipt.partitions
    assert (part.records_in, part.records_keyless, part.records_superseded, part.records_kept) == (9, 5, 2, 2)
    assert world.read() == compute_survivors(keyed)
    visible = world.head().state.quarantine_ingests
    rows = [row for batch in world.installation.log.quarantine(TOPIC).read(visible) for row in batch.to_pylist()]
    assert sorted((row["partition"], row["offset"], row["value"]) for row in rows) == [
        (0, r.offset, r.value) for r in keyless
    ]


# -------------------------------------------------------------------------------------------------- times of the future


@pytest.mark.kafka("140")
def test_a_timestamp_of_the_future_holds_the_minimum_lag_and_triggers_nothing(world: World) -> None:
    """Neither maximum lag nor retention takes it, nor what lies behind it, before its time has come."""
    create(
        world,
        "compact,delete",
        min_compaction_lag_ms="1",
        max_compaction_lag_ms=str(2 * HOUR_MS),
        retention_ms=str(3 * HOUR_MS),
    )
    start = world.clock()
    ahead = [record(n, b"k", b"%d" % n, start + 1_000 * HOUR_MS) for n in range(3)]
    behind = [record(n, b"k", b"%d" % n, start) for n in range(3, 6)]
    world.ingest(ahead)
    world.ingest(behind)
    for hours in (0, 2, 100, 999):
        world.clock.now_ms = start + hours * HOUR_MS
        assert reason(world) is Reason.INSIDE_MIN_LAG
        assert world.compact() is None
    assert world.read() == [*ahead, *behind]
    world.clock.now_ms = start + 1_001 * HOUR_MS
    compacted(world)
    assert [r.offset for r in world.read()] == [5]


# ------------------------------------------------------------------------------------------------------- the only value


@pytest.mark.kafka("143")
@pytest.mark.parametrize("protected", ["false", "true"])
def test_the_only_value_of_a_key_expires_unless_the_topic_protects_the_latest(world: World, protected: str) -> None:
    """One key has newer records, the other has none; protected, the old one goes through the cleaner and stays."""
    create(world, "compact,delete", retention_ms=str(5 * HOUR_MS), winnow_retention_protect_latest=protected)
    old = world.clock() - 9 * HOUR_MS
    world.ingest([record(0, b"only", b"once", old), record(1, b"often", b"first", old)])
    world.ingest([record(2, b"often", b"second", world.clock())])
    compacted(world)
    kept = {r.key: r.value for r in world.read()}
    assert kept == {b"often": b"second"} | ({b"only": b"once"} if protected == "true" else {})
    assert world.state().log_start_offset == (0 if protected == "true" else 2)
    assert all(storage.exists(segment.path) for segment in world.segments())
