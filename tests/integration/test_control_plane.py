"""What deciding and committing cost follows the number of files, not of commits: files opened, transactions, memory."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from pyiceberg.io.pyarrow import PyArrowFile
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table
from sqlalchemy import event

from tests.support.synthetic_topics import Shape, add_topic, publish_receipt
from tests.support.world import World, build_versions, run_between_head_and_commit
from winnow.errors import PlanVoidError, WinnowError
from winnow.files import storage
from winnow.log import log_update, reference_chains
from winnow.log.file_checksums import has_checksum
from winnow.log.head import Change
from winnow.log.manifests import list_live_manifests, list_live_paths, list_live_segments
from winnow.log.topic_configuration import set_config
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.compaction.assess import assess_topics, open_assessor
from winnow.pipeline.topics.stored_rows import rebuild_store
from winnow.values.model import Segment

TOPIC = "paper"


@contextmanager
def opened_files() -> Iterator[list[str]]:
    """The files that are opened through Iceberg or as objects, by path."""
    paths: list[str] = []
    through_iceberg, as_bytes = PyArrowFile.open, storage.read_bytes

    def open_file(file: PyArrowFile, seekable: bool = True) -> object:
        paths.append(file.location)
        return through_iceberg(file, seekable)

    def read_bytes(uri: str) -> bytes:
        paths.append(uri)
        return as_bytes(uri)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PyArrowFile, "open", open_file)
        patch.setattr(storage, "read_bytes", read_bytes)
        yield paths


@contextmanager
def transactions(world: World) -> Iterator[Counter[str]]:
    """How the transactions of the metadata store begin."""
    found: Counter[str] = Counter()

    def noted(connection: object, cursor: object, statement: str, *rest: object) -> None:
        if statement.startswith("BEGIN"):
            found[statement] += 1

    engine = world.installation.store._database.engine
    event.listen(engine, "before_cursor_execute", noted)
    try:
        yield found
    finally:
        event.remove(engine, "before_cursor_execute", noted)


def paper(number: int, partition: int = 0) -> Segment:
    """A segment of ten records without a file."""
    path = f"file:///nowhere/data/{partition}/{number}.parquet"
    return Segment(path, partition, number * 10, number * 10 + 9, 10, 1000, 1_000, 2_000, 0)


def commit(world: World, add: list[Segment], remove: list[Segment]) -> None:
    """One commit that leaves the state as it is."""
    world.installation.log.open(TOPIC).commit(
        lambda head: Change(
            head.state,
            add=add,
            remove=[each.path for each in remove],
            remove_from={each.partition for each in remove} or None,
        )
    )


def manifest_count(world: World) -> int:
    """Manifests of the newest snapshot."""
    table = world.head(TOPIC).table
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return len(snapshot.manifests(table.io))


def live(world: World) -> set[Segment]:
    """Every live segment, as Winnow reads it."""
    log = world.installation.log.open(TOPIC)
    return {segment for found in log.segments(log.head()).values() for segment in found}


def test_segments_are_those_that_pyiceberg_walks(world: World) -> None:
    """The short way reads what the long way reads: files that were added, carried over, put together and removed."""
    add_topic(world.installation, TOPIC, Shape(partitions=7, segments=6, clean=3, appends=6, timestamps=False))
    commit(world, [paper(9)], [])
    commit(world, [paper(10)], [paper(9)])
    table = world.head(TOPIC).table
    snapshot = table.current_snapshot()
    assert snapshot is not None
    walked = {
        (entry.data_file.file_path, entry.data_file.record_count, entry.data_file.partition[0])
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    }
    assert {(each.path, each.records, each.partition) for each in live(world)} == walked
    assert len(walked) == 7 * 6 + 1
    assert paper(10) in live(world)
    assert {each.min_timestamp_ms for each in live(world)} == {None, 1_000}


def the_manifest(world: World) -> tuple[Table, ManifestFile]:
    """The only manifest of a new topic with ten segments."""
    add_topic(world.installation, TOPIC, Shape(partitions=5, segments=2, clean=0))
    table = world.head(TOPIC).table
    snapshot = table.current_snapshot()
    assert snapshot is not None
    (manifest,) = list_live_manifests(table.io, snapshot)
    return table, manifest


def test_a_manifest_that_is_cut_off_is_refused_and_no_segment_is_missed(world: World) -> None:
    """PyIceberg takes a file that ends between two blocks or within one for a shorter one."""
    table, manifest = the_manifest(world)
    path = storage.parse_local_path(manifest.manifest_path)
    whole = path.read_bytes()
    for cut in (1, 17, 40):
        path.write_bytes(whole[:-cut])
        with pytest.raises(WinnowError, match="damaged or cut off"):
            list_live_segments(table.io, manifest, ValueError)
    path.write_bytes(whole)
    assert len(list_live_segments(table.io, manifest, ValueError)) == 10


@pytest.mark.parametrize("change", [-1, -9])
def test_a_block_that_says_it_has_fewer_entries_than_it_has_is_refused(world: World, change: int) -> None:
    """A manifest from before names held checksums: the count lies outside of what is compressed and checked."""
    table, manifest = the_manifest(world)
    sound = storage.parse_local_path(manifest.manifest_path)
    path = sound.with_name("without-a-checksum.avro")
    data = bytearray(sound.read_bytes())
    path.write_bytes(data)
    manifest._data[0] = str(path)
    assert not has_checksum(manifest.manifest_path)
    assert len(list_live_segments(table.io, manifest, ValueError)) == 10
    count_at = data.index(data[-16:]) + 16
    assert data[count_at] == 2 * 10
    data[count_at] += 2 * change
    path.write_bytes(data)
    manifest._data[7] += change  # files added, in the list: it misses nothing, so only the block itself can tell
    for read in (
        lambda: list_live_segments(table.io, manifest, ValueError),
        lambda: list_live_paths(table.io, manifest),
    ):
        with pytest.raises(WinnowError, match="damaged or cut off"):
            read()


def test_a_manifest_that_does_not_hold_as_many_files_as_the_list_says_is_refused(world: World) -> None:
    """One that was mixed up with another, or an entry that is no longer said to be live."""
    table, manifest = the_manifest(world)
    manifest._data[7] = 11  # as the list has it: how many files were added
    with pytest.raises(WinnowError, match="damaged or cut off"):
        list_live_segments(table.io, manifest, ValueError)


def test_a_manifest_that_ends_between_two_blocks_is_neither_read_nor_put_together_with_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a file is well formed, only the list of manifests knows better; the commit changes nothing."""
    monkeypatch.setattr(log_update, "MAXIMUM_SMALL_MANIFESTS", 1)
    monkeypatch.setattr(log_update, "_MAXIMUM_BLOCK_ENTRIES", 1)
    world.create(3, topic=TOPIC)
    commit(world, [paper(0, partition) for partition in range(3)], [])
    head = world.head(TOPIC)
    snapshot = head.table.current_snapshot()
    assert snapshot is not None
    (manifest,) = list_live_manifests(head.table.io, snapshot)
    path = storage.parse_local_path(manifest.manifest_path)
    whole = path.read_bytes()
    sync = whole[-16:]
    path.write_bytes(whole[: whole.rindex(sync, 0, -16) + 16])
    assert len(manifest.fetch_manifest_entry(head.table.io)) == 2
    with pytest.raises(WinnowError, match="damaged or cut off"):
        list_live_segments(head.table.io, manifest, ValueError)
    for going in ([], [paper(0, 0)]):
        with pytest.raises(WinnowError, match="damaged or cut off"):
            commit(world, [paper(1, 0)], going)
    assert world.head(TOPIC).snapshot_id == head.snapshot_id
    path.write_bytes(whole)
    commit(world, [paper(1, 0)], [])
    assert len(live(world)) == 4


def test_a_commit_that_would_drop_a_file_nobody_named_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files before, added and removed must add up, whatever the producer's own rules say."""
    world.create(3, topic=TOPIC)
    commit(world, [paper(0, partition) for partition in range(3)], [])
    before = world.head(TOPIC).snapshot_id
    real = log_update.LogUpdate._carry
    monkeypatch.setattr(
        log_update.LogUpdate, "_carry", lambda self, *a, **k: replace(real(self, *a, **k), manifests=[], entries=[])
    )
    with pytest.raises(WinnowError, match="would leave 1 files in the log instead of 4"):
        commit(world, [paper(1, 0)], [])
    assert world.head(TOPIC).snapshot_id == before


def test_manifests_stay_few_over_appends_and_compactions_and_hold_every_file(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Appends leave one manifest each and overwrites one more, until they are put together."""
    monkeypatch.setattr(log_update, "MAXIMUM_SMALL_MANIFESTS", 4)
    world.create(3, topic=TOPIC)
    there: set[Segment] = set()
    most = 0
    for number in range(0, 60, 3):
        fresh = [paper(number + step, partition) for step in range(2) for partition in range(3)]
        commit(world, fresh, [])
        there |= set(fresh)
        going = [each for each in sorted(there, key=lambda s: s.path) if each.partition == number % 3][:2]
        merged = paper(number + 2, number % 3)
        commit(world, [merged], going)
        there = there - set(going) | {merged}
        most = max(most, manifest_count(world))
        assert live(world) == there
    # Those that count as small, one for what this commit added and one for what it removed.
    assert most <= 4 + 2


def test_a_commit_opens_only_manifests_that_may_hold_what_it_removes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Manifests are cut in the order of partitions, and their bounds say which partitions they hold."""
    monkeypatch.setattr(log_update, "MAXIMUM_SMALL_MANIFESTS", 1)
    monkeypatch.setattr(log_update, "MAXIMUM_MANIFEST_ENTRIES", 10)
    add_topic(world.installation, TOPIC, Shape(partitions=30, segments=4, clean=0, appends=4))
    assert manifest_count(world) == 12  # three of each append
    gone = world.segments(17, topic=TOPIC)[0]
    with opened_files() as paths:
        commit(world, [], [gone])
    assert len([path for path in paths if path.endswith(".avro") and "snap-" not in path]) == 4  # one of each
    assert gone not in live(world)
    assert len(live(world)) == 30 * 4 - 1


def test_a_file_that_is_gone_already_voids_the_commit_whatever_partition_is_named(world: World) -> None:
    """Also where the partition is wrong: a file that is not found is never taken for removed."""
    world.create(3, topic=TOPIC)
    commit(world, [paper(0), paper(1, 2)], [])
    log = world.installation.log.open(TOPIC)
    with pytest.raises(PlanVoidError):
        log.commit(lambda head: Change(head.state, remove=[paper(5).path], remove_from={0}))
    with pytest.raises(PlanVoidError):
        log.commit(lambda head: Change(head.state, remove=[paper(1, 2).path], remove_from={7}))
    assert live(world) == {paper(0), paper(1, 2)}


def test_a_state_stays_small_over_hundreds_of_publications_and_every_receipt_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is older rests in links, which the store's rebuilding reads and no sweep deletes."""
    monkeypatch.setattr(reference_chains, "MAXIMUM_LINK_REFERENCES", 4)
    world.create(1, topic=TOPIC)
    published = []
    for number in range(30):
        world.clock.now_ms += 86_400_000
        published.append(publish_receipt(world.installation, TOPIC, number, 1))
        assert len(world.head(TOPIC).state.receipts) < 8
    log = world.installation.log.open(TOPIC)
    assert log.receipts() == published
    assert log.find_receipt(published[0].plan_id or "") == published[0]
    world.clock.now_ms += 10 * 86_400_000
    sweep_topics(world.installation, [TOPIC])
    world.installation.store.projection.forget_topic(TOPIC)
    rebuild_store(world.installation, [TOPIC])
    assert world.installation.store.projection.list_receipts(TOPIC) == published[::-1]


def test_looking_for_a_receipt_of_late_reads_no_link_of_long_ago(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every publish asks whether its plan was published before; that must not cost more with every publication."""
    monkeypatch.setattr(reference_chains, "MAXIMUM_LINK_REFERENCES", 4)
    world.create(1, topic=TOPIC)
    for number in range(30):
        world.clock.now_ms += 86_400_000
        publish_receipt(world.installation, TOPIC, number, 1)
    log = world.installation.log.open(TOPIC)
    head = log.head()
    with opened_files() as paths:
        assert log.find_receipt("no-such-plan", head, since_ms=world.clock()) is None
        assert paths == []
        assert log.find_receipt("no-such-plan", head) is None
    assert len(paths) == 6


def test_a_slice_of_long_ago_is_recognised_when_its_ledger_is_in_a_link(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offsets that come again and were compacted away are known from the ledgers, however many came since."""
    monkeypatch.setattr(reference_chains, "MAXIMUM_LINK_REFERENCES", 2)
    world.create(1, topic=TOPIC, min_cleanable_dirty_ratio="0")
    for number in range(9):
        world.ingest(build_versions(number * 10, 10, keys=1), topic=TOPIC)
    world.compact(topic=TOPIC)
    state = world.head(TOPIC).state
    assert len(state.ingests) < 4
    assert len(reference_chains.list_ingest_references(state)) == 9
    again = world.ingest(build_versions(0, 10, keys=1), topic=TOPIC)
    assert (again.records_appended, again.snapshot_id) == (0, None)


def test_one_look_opens_few_files_and_no_data_file(world: World) -> None:
    """Per topic: its metadata, its state, its manifest list and its manifests. The paths of data files lead nowhere."""
    add_topic(world.installation, TOPIC, Shape(partitions=50, segments=40, clean=10, appends=40))
    with opened_files() as paths:
        found = assess_topics(world.installation, [TOPIC], as_of_ms=world.clock())
    assert len(found) == 50
    assert len(paths) <= 3 + log_update.MAXIMUM_SMALL_MANIFESTS + 1
    assert not any(path.endswith(".parquet") for path in paths)


def test_looks_at_many_topics_are_recorded_in_one_transaction(world: World) -> None:
    """Neither leases nor rows cost a transaction per topic."""
    names = [f"small-{number}" for number in range(6)]
    for name in names:
        add_topic(world.installation, name, Shape(partitions=2, segments=3, clean=0))
    with transactions(world) as counted:
        assess_topics(world.installation, names, as_of_ms=world.clock())
    assert counted == {"BEGIN": 1, "BEGIN IMMEDIATE": 1}  # all leases, then all rows
    assert len(world.installation.store.assessments.list_latest(names)) == 12
    assert all(world.installation.store.overview.find_recorded(name) is not None for name in names)


def test_one_topic_that_cannot_be_looked_at_leaves_the_others_recorded(world: World) -> None:
    """Its own problem is raised, and what was found of the others is written down."""
    names = ["first", "missing", "second"]
    for name in ("first", "second"):
        add_topic(world.installation, name, Shape(partitions=1, segments=2, clean=0))
    problems = []
    with open_assessor(world.installation, names, as_of_ms=world.clock()) as look:
        for name in names:
            try:
                look(name)
            except WinnowError as problem:
                problems.append(str(problem))
    assert len(problems) == 1
    assert {found.topic for found in world.installation.store.assessments.list_latest()} == {"first", "second"}


def test_a_picture_of_now_is_the_same_whether_it_is_taken_with_a_decision_or_alone(world: World) -> None:
    """Decisions made for the present are not made twice."""
    add_topic(world.installation, TOPIC, Shape(partitions=4, segments=6, clean=2, receipts=2))
    assess_topics(world.installation, [TOPIC], as_of_ms=world.clock() - 30_000)
    with_decision = world.installation.store.overview.find_recorded(TOPIC)
    assess_topics(world.installation, [TOPIC], as_of_ms=world.clock() - 86_400_000)
    alone = world.installation.store.overview.find_recorded(TOPIC)
    assert with_decision is not None
    assert alone is not None
    assert replace(with_decision, as_of_ms=0, recorded_at_ms=0) == replace(alone, as_of_ms=0, recorded_at_ms=0)


def test_assessing_twenty_thousand_segments_stays_within_its_memory(world: World) -> None:
    """Peak resident memory of a process that assesses them: 240 MiB, of which imports take the most."""
    add_topic(world.installation, TOPIC, Shape(partitions=2_000, segments=10, clean=8))
    program = (
        "import re, sys\n"
        "from winnow.config.settings import load_settings\n"
        "from winnow.pipeline.compaction.assess import assess_topics\n"
        "from winnow.pipeline.installation import open_installation\n"
        "with open_installation(load_settings(env={'WINNOW_HOME': sys.argv[1]})) as installation:\n"
        "    print(len(assess_topics(installation, ['paper'], as_of_ms=int(sys.argv[2]))))\n"
        "print(int(re.search('VmHWM:\\\\s+([0-9]+) kB', open('/proc/self/status').read())[1]) // 1024)\n"
    )
    home, now_ms = str(world.folder / "home"), str(world.clock())
    done = subprocess.run(
        [sys.executable, "-c", program, home, now_ms], capture_output=True, text=True, check=True, cwd=world.folder
    )
    assessed, peak_mib = map(int, done.stdout.split())
    assert assessed == 2_000
    assert peak_mib < 240


def test_a_conflict_discards_the_links_of_the_try_that_lost(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link is written before its commit, like the state: what loses leaves nothing behind."""
    monkeypatch.setattr(reference_chains, "MAXIMUM_LINK_REFERENCES", 2)
    world.create(1, topic=TOPIC)
    for number in range(3):
        publish_receipt(world.installation, TOPIC, number, 1)

    def meanwhile() -> None:
        set_config(world.installation.log.open(TOPIC), {"segment.bytes": "1048576"}, ())

    with run_between_head_and_commit(meanwhile):
        publish_receipt(world.installation, TOPIC, 3, 1)
    folder = storage.parse_local_path(storage.join(world.head(TOPIC).location, "_winnow", "chains"))
    assert len(list(folder.iterdir())) == 1
    assert len(world.installation.log.open(TOPIC).receipts()) == 4
