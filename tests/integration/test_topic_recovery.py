"""Adopting and recovering topics: a lost catalog, an older one, and files that must not be taken."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException

from tests.support.cli_runner import winnow
from tests.support.rest_catalog import RestCatalogServer, serve_rest_catalog
from tests.support.world import (
    TOPIC,
    World,
    build_versions,
    compute_survivors,
    define_world,
    list_visible_rows,
    open_world,
    write_jsonl,
)
from winnow.config.settings import load_settings
from winnow.errors import BadInputError, CommitConflictError, DamagedMetadataError, PlanVoidError, UsageError
from winnow.files import storage
from winnow.log.file_checksums import make_checksum_name
from winnow.log.sql_catalog import LogSqlCatalog
from winnow.log.topic_configuration import set_config
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.installation import open_installation
from winnow.pipeline.topics.adoption import adopt_all, adopt_topic
from winnow.pipeline.topics.definition import alter_topic
from winnow.pipeline.topics.recovery import recover_topic
from winnow.pipeline.undo.undo import undo_change
from winnow.store.topic_heads import TopicHeads
from winnow.values.model import Record


class Home:
    """An installation in a folder, used by its command line."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.files = 0

    @property
    def catalog(self) -> Path:
        return self.home / "catalog.db"

    @property
    def store(self) -> Path:
        return next(iter(self.home.glob("store*.db")))

    def ingest(self, first: int, count: int, topic: str = TOPIC) -> None:
        self.files += 1
        winnow(
            "ingest", "files", topic, write_jsonl(self.folder / f"in-{self.files}.jsonl", build_versions(first, count))
        )

    def read(self, topic: str = TOPIC) -> list[dict[str, object]]:
        return [json.loads(line) for line in winnow("read", topic).stdout.splitlines()]

    def describe(self, topic: str = TOPIC) -> dict[str, object]:
        return dict(winnow("topics", "describe", topic, "--json").document)

    def location(self, topic: str = TOPIC) -> str:
        with open_installation(load_settings(cwd=self.folder)) as installation:
            return str(installation.log.open(topic).head(even_deleted=True).location)

    def metadata(self, topic: str = TOPIC) -> str:
        with open_installation(load_settings(cwd=self.folder)) as installation:
            return str(installation.log.open(topic).head(even_deleted=True).table.metadata_location)

    def fence(self, topic: str = TOPIC) -> int:
        with open_installation(load_settings(cwd=self.folder)) as installation:
            return installation.log.open(topic).head(even_deleted=True).fence


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WINNOW_HOME", str(tmp_path / "home"))
    found = Home(tmp_path)
    winnow("topics", "create", TOPIC, "--partitions", 1, "--config", "min.cleanable.dirty.ratio=0")
    found.ingest(0, 6)
    found.ingest(6, 6)
    return found


def test_a_lost_catalog_is_made_anew_from_the_warehouse(home: Home) -> None:
    """What is read, the log's ends and its configuration are what they were, and the log goes on."""
    before, location, described, fence = home.read(), home.location(), home.describe(), home.fence()
    home.catalog.unlink()
    home.store.rename(home.folder / "store.db")
    assert "--yes" in winnow("topics", "adopt", TOPIC, location).stdout
    assert not list(home.home.glob("store*.db"))
    (home.folder / "store.db").rename(home.home / "store.db")
    winnow("topics", "describe", TOPIC, code=2)
    winnow("topics", "adopt", TOPIC, location, "--yes")
    assert home.read() == before
    assert home.describe() == described
    assert home.fence() > fence
    home.ingest(12, 3)
    assert len(home.read()) == len(before) + 3


def test_an_older_catalog_is_brought_forward(home: Home) -> None:
    """What was committed since the backup is back; repeating it changes nothing."""
    backup = home.folder / "backup.db"
    shutil.copy(home.catalog, backup)
    home.ingest(12, 4)
    home.ingest(16, 4)
    before = home.read()
    shutil.copy(backup, home.catalog)
    assert len(home.read()) == len(before) - 8
    winnow("topics", "recover", TOPIC)
    assert len(home.read()) == len(before) - 8
    winnow("topics", "recover", TOPIC, "--yes")
    assert home.read() == before
    at = home.metadata()
    again = winnow("topics", "recover", TOPIC, "--yes", "--json").document
    assert not again["was_needed"]
    assert home.metadata() == at


def test_a_warehouse_whose_store_is_lost_too_is_taken_over(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lost installation comes back and may neither write nor sweep; what it would delete is still there."""
    before = home.read()
    home.home.rename(home.folder / "lost")
    warehouse = home.folder / "lost/warehouse"
    (home.home).mkdir()
    warehouse.rename(home.home / "warehouse")
    assert "--take-over" in winnow("topics", "adopt", "--all", "--yes", code=2).stderr
    winnow("topics", "adopt", "--all", "--take-over")
    winnow("topics", "adopt", "--all", "--take-over", "--yes")
    assert home.read() == before
    monkeypatch.setenv("WINNOW_HOME", str(home.folder / "lost"))
    monkeypatch.setenv("WINNOW_WAREHOUSE", (home.home / "warehouse").as_uri())
    for command in (("sweep",), ("compact", TOPIC), ("topics", "delete", TOPIC, "--now", "--yes")):
        assert "belongs to another installation" in winnow(*command, code=2).stderr
    monkeypatch.setenv("WINNOW_HOME", str(home.home))
    assert home.read() == before


# ------------------------------------------------------------------ in one process


world = define_world(1, build_versions(0, 6), build_versions(6, 6), min_cleanable_dirty_ratio="0")


def get_catalog(world: World) -> LogSqlCatalog:
    catalog = world.installation.log.catalog
    assert isinstance(catalog, LogSqlCatalog)
    return catalog


def locate_metadata(world: World) -> str:
    """The metadata file that the catalog names."""
    found = get_catalog(world).find_metadata_location(world.installation.log.identify(TOPIC))
    assert found is not None
    return found


def put_back(world: World, location: str) -> None:
    """The catalog names an earlier metadata file again, as after it was restored from a backup."""
    get_catalog(world).swap_metadata(world.installation.log.identify(TOPIC), locate_metadata(world), location)


def lose(world: World) -> str:
    """The catalog loses the topic; returns the folder of its table."""
    location = world.head().location
    get_catalog(world).drop_table_at(world.installation.log.identify(TOPIC), locate_metadata(world))
    return location


class KilledError(BaseException):
    """Ends a command as a kill would."""


def ingest_and_die_before_the_catalog_is_asked(world: World, first: int) -> str:
    """An ingest that ends when its metadata file is written; returns its name."""
    written: list[str] = []

    def die(self: LogSqlCatalog, identifier: tuple[str, ...], before: str, after: str, **_: object) -> None:
        written.append(storage.get_name(after))
        raise KilledError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogSqlCatalog, "swap_metadata", die)
        with pytest.raises(KilledError):
            world.ingest(build_versions(first, 4))
    return written[0]


def test_numbers_are_above_all_that_the_folder_knows(world: World) -> None:
    """Also above those of a commit that never landed, so that nothing prepared over another history fits."""
    earlier = locate_metadata(world)
    world.ingest(build_versions(12, 4))
    ingest_and_die_before_the_catalog_is_asked(world, 16)
    put_back(world, earlier)
    report = recover_topic(world.installation, TOPIC, metadata=storage.get_name(earlier), run=True)
    metadata = world.head().table.metadata
    assert metadata.model_dump(by_alias=True)["last-sequence-number"] == 5
    assert storage.get_name(locate_metadata(world)).startswith("00005-")
    assert report.fence == world.head().fence == 1
    assert [each.standing for each in report.snapshots if each.standing == "given up"]
    assert world.read() == build_versions(0, 12)


def test_a_commit_that_died_is_not_taken_where_the_catalog_knows_what_came_before(world: World) -> None:
    """Its caller was told nothing; it is shown, and taken only by name."""
    before = locate_metadata(world)
    died = ingest_and_die_before_the_catalog_is_asked(world, 12)
    report = recover_topic(world.installation, TOPIC, run=True)
    assert not report.was_needed
    assert locate_metadata(world) == before
    assert [each.standing for each in report.snapshots][-1] == "not proven"
    assert any(died in notice for notice in report.notices)
    recover_topic(world.installation, TOPIC, metadata=died, run=True)
    assert world.read() == build_versions(0, 16)


def test_a_commit_that_lost_its_race_is_not_taken(world: World) -> None:
    """Another commit was made from the same log, and landed."""
    genuine, refused = LogSqlCatalog.swap_metadata, list[str]()

    def refuse_once(
        self: LogSqlCatalog, identifier: tuple[str, ...], before: str, after: str, **more: int | None
    ) -> None:
        if not refused:
            refused.append(storage.get_name(after))
            raise CommitFailedException("Table has been updated by another process")
        genuine(self, identifier, before, after, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogSqlCatalog, "swap_metadata", refuse_once)
        world.ingest(build_versions(12, 4))
    world.ingest(build_versions(16, 4))
    location = lose(world)
    report = adopt_topic(world.installation, TOPIC, location, run=True)
    standings = {storage.get_name(each.metadata_location): each.standing for each in report.snapshots}
    assert standings[refused[0]] == "not landed"
    assert world.read() == build_versions(0, 20)


def test_two_commits_that_may_be_the_last_are_not_decided_between(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the metadata store is lost, too, nothing is changed until one of them is named."""
    monkeypatch.setattr(TopicHeads, "list_lives", lambda *_: [])
    died = ingest_and_die_before_the_catalog_is_asked(world, 12)
    set_config(world.installation.log.open(TOPIC), {"delete.retention.ms": "5"}, ())
    newest = storage.get_name(locate_metadata(world))
    location = lose(world)
    assert adopt_topic(world.installation, TOPIC, location).undecided is not None
    with pytest.raises(UsageError, match="Choose one with --metadata"):
        adopt_topic(world.installation, TOPIC, location, run=True)
    assert died != newest
    adopt_topic(world.installation, TOPIC, location, metadata=newest, run=True)
    assert world.installation.log.open(TOPIC).config().overrides["delete.retention.ms"] == "5"


def change_metadata(world: World, change: Callable[[dict[str, Any]], object]) -> str:
    """Writes the newest metadata once more, changed, as the file of the next number; returns its name."""
    location = locate_metadata(world)
    document = json.loads(storage.read_bytes(location))
    document["metadata-log"].append({"metadata-file": location, "timestamp-ms": document["last-updated-ms"]})
    change(document)
    data = json.dumps(document).encode()
    name = f"{len(document['snapshots']) + 1:05d}-{uuid.uuid4()}.metadata.json"
    beside = make_checksum_name(f"{location.rpartition('/')[0]}/{name}", data)
    storage.write_bytes(beside, data)
    return storage.get_name(beside)


def point_state_elsewhere(path: str, sha256: str) -> Callable[[dict[str, Any]], object]:
    def change(document: dict[str, Any]) -> None:
        text = json.dumps({"format": 1, "path": path, "sha256": sha256})
        for each in document["snapshots"]:
            each["summary"]["winnow.state"] = text

    return change


def test_forged_files_are_refused_and_named(world: World) -> None:
    """Another table's identity, a place outside, another topic's state, a changed byte: none is taken, even by name."""
    import hashlib

    world.create(1, "payments")
    world.ingest(build_versions(0, 2), topic="payments")
    other = world.head("payments")
    snapshot = other.snapshot
    assert snapshot is not None
    assert snapshot.summary is not None
    their_state = json.loads(snapshot.summary.additional_properties["winnow.state"])
    mine = f"{world.head().location}/_winnow/state/{uuid.uuid4().hex}.json"
    storage.write_bytes(mine, storage.read_bytes(their_state["path"]))
    cases = (
        (change_metadata(world, lambda it: it.update({"table-uuid": str(uuid.uuid4())})), "another table"),
        (change_metadata(world, lambda it: it["snapshots"][0].update({"manifest-list": "/etc/passwd"})), "outside"),
        (change_metadata(world, point_state_elsewhere(their_state["path"], their_state["sha256"])), "not below"),
        (change_metadata(world, point_state_elsewhere(mine, their_state["sha256"])), "identity"),
        (change_metadata(world, point_state_elsewhere(mine, hashlib.sha256(b"").hexdigest())), "not the one"),
    )
    before = world.listing(below="winnow")
    for name, words in cases:
        with pytest.raises((UsageError, DamagedMetadataError), match=words):
            recover_topic(world.installation, TOPIC, metadata=name, run=True)
    assert world.listing(below="winnow") == before
    report = recover_topic(world.installation, TOPIC)
    assert len(report.set_aside) == 2


def test_segments_of_another_topic_are_not_adopted(world: World) -> None:
    """Manifests that name a file outside of the table's folder lead a later compaction to delete it."""
    world.create(1, "payments")
    world.ingest(build_versions(0, 2), topic="payments")
    other = world.head("payments").snapshot
    assert other is not None
    forged = change_metadata(world, lambda it: it["snapshots"][-1].update({"manifest-list": locate_copy(world, other)}))
    with pytest.raises(DamagedMetadataError, match="outside of the table's folder"):
        recover_topic(world.installation, TOPIC, metadata=forged, run=True)


def locate_copy(world: World, snapshot: Any) -> str:
    """A copy of a snapshot's manifest list in the topic's folder."""
    path = f"{world.head().location}/metadata/snap-{uuid.uuid4()}.avro"
    storage.write_bytes(path, storage.read_bytes(snapshot.manifest_list))
    return path


@pytest.mark.parametrize("what", ["data", "receipts", "state", "metadata/snap", "ingests"])
def test_a_half_deleted_folder_is_not_adopted(world: World, what: str) -> None:
    """Whatever the newest metadata lead to and is not there is named; nothing changes."""
    world.compact()
    set_config(world.installation.log.open(TOPIC), {"delete.retention.ms": "5"}, ())
    location = lose(world)
    segments = sorted(path for path in world.listing() if f"/{what}" in path)
    for path in segments:
        (Path(world.installation.settings.warehouse.removeprefix("file://")) / path).unlink()
    assert adopt_topic(world.installation, TOPIC, location).problems
    with pytest.raises(DamagedMetadataError, match="not complete"):
        adopt_topic(world.installation, TOPIC, location, run=True)
    assert world.installation.log.names() == []


def test_a_segment_behind_a_link_is_not_taken(world: World, tmp_path: Path) -> None:
    """A later compaction would delete what the link leads to, or publish what somebody else writes there."""
    segment = storage.parse_local_path(world.segments()[0].path)
    location = lose(world)
    elsewhere = tmp_path / "elsewhere.parquet"
    segment.rename(elsewhere)
    segment.symlink_to(elsewhere)
    with pytest.raises(DamagedMetadataError, match="behind a link"):
        adopt_topic(world.installation, TOPIC, location, run=True)


def test_a_folder_behind_a_link_and_one_elsewhere_are_refused(world: World, tmp_path: Path) -> None:
    """Only what lies below the warehouse is a topic's."""
    location = storage.parse_local_path(lose(world))
    beside = location.with_name("linked")
    beside.symlink_to(location)
    with pytest.raises(UsageError, match="behind a link"):
        adopt_topic(world.installation, TOPIC, str(beside), run=True)
    with pytest.raises(UsageError, match="not below the warehouse"):
        adopt_topic(world.installation, TOPIC, str(tmp_path), run=True)
    with pytest.raises(UsageError, match="not below the warehouse"):
        adopt_topic(world.installation, TOPIC, f"{location}/../../../../etc", run=True)


def test_a_name_or_folder_that_the_catalog_has_is_refused(world: World) -> None:
    """Also under another name: two topics with one folder would delete each other's files."""
    world.create(1, "payments")
    there = world.head("payments").location
    with pytest.raises(UsageError, match="has a topic orders already"):
        adopt_topic(world.installation, TOPIC, there, run=True)
    with pytest.raises(UsageError, match="already, as topic payments"):
        adopt_topic(world.installation, "invoices", there, run=True)
    location = lose(world)
    with pytest.raises(UsageError, match="that of topic orders, not of invoices"):
        adopt_topic(world.installation, "invoices", location, run=True)


def test_quarantined_records_come_back_with_their_topic(world: World) -> None:
    """Their table is entered, too, or brought forward where the catalog's is older."""
    world.create(1, "keyed", winnow_keyless="quarantine")
    world.ingest([*build_versions(0, 2), Record(2, None, b"keyless")], topic="keyed")
    location = world.head("keyed").location
    rows = list_visible_rows(world.installation.log.quarantine("keyed"), world.head("keyed").state)
    assert rows.num_rows == 1
    catalog = get_catalog(world)
    for identifier in (world.installation.log.identify("keyed"), ("winnow_quarantine", "keyed")):
        named = catalog.find_metadata_location(identifier)
        assert named is not None
        catalog.drop_table_at(identifier, named)
    adopt_topic(world.installation, "keyed", location, run=True)
    assert list_visible_rows(world.installation.log.quarantine("keyed"), world.head("keyed").state).equals(rows)


def test_every_lost_topic_is_adopted_by_one_command(world: World) -> None:
    """A table that is not complete is told, and does not stop the others."""
    world.create(2, "payments")
    world.ingest(build_versions(0, 2), topic="payments")
    world.create(1, "broken")
    world.ingest(build_versions(0, 2), topic="broken")
    catalog = get_catalog(world)
    storage.delete(world.segments(topic="broken")[0].path)
    for name, location in world.installation.log.list_metadata_locations().items():
        catalog.drop_table_at(world.installation.log.identify(name), location)
    outcomes = {folder.topic: outcome for folder, outcome in adopt_all(world.installation, run=True)}
    assert world.installation.log.names() == ["orders", "payments"]
    assert isinstance(outcomes["broken"], DamagedMetadataError)
    assert world.read(topic="payments") == build_versions(0, 2)
    assert [folder.topic for folder, _ in adopt_all(world.installation)] == ["broken"]


def test_a_publisher_that_was_paused_over_a_recovery_meets_the_fence(world: World) -> None:
    """It planned and validated before; its files are not published over the recovered log."""
    earlier = locate_metadata(world)
    plan = world.plan(world.clock())
    assert plan is not None
    world.stage(plan)
    world.accept(plan)
    world.ingest(build_versions(12, 2))
    world.ingest(build_versions(14, 2))
    put_back(world, earlier)
    recover_topic(world.installation, TOPIC, metadata=None, run=True)
    from winnow.pipeline.compaction.publish import publish_attempt

    with pytest.raises(PlanVoidError):
        publish_attempt(world.installation, plan.plan_id, "a1")
    assert world.read() == build_versions(0, 16)
    world.compact()
    assert world.read() == compute_survivors(build_versions(0, 16))


def test_a_recovery_that_another_commit_overtakes_changes_nothing(world: World) -> None:
    """The catalog is set from exactly the entry that was seen."""
    earlier = locate_metadata(world)
    world.ingest(build_versions(12, 2))
    between = locate_metadata(world)
    world.ingest(build_versions(14, 2))
    put_back(world, earlier)
    genuine = LogSqlCatalog.swap_metadata

    def overtake(self: LogSqlCatalog, identifier: tuple[str, ...], before: str, after: str) -> None:
        genuine(self, identifier, before, between)
        genuine(self, identifier, before, after)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogSqlCatalog, "swap_metadata", overtake)
        with pytest.raises(CommitConflictError, match="changed meanwhile"):
            recover_topic(world.installation, TOPIC, run=True)
    assert locate_metadata(world) == between


def test_a_catalog_whose_metadata_file_is_gone_is_set_to_the_newest_that_is_there(world: World) -> None:
    """The entry stays one and the same; nothing is dropped in between."""
    storage.delete(locate_metadata(world))
    report = recover_topic(world.installation, TOPIC, run=True)
    assert report.was_needed
    assert world.read() == build_versions(0, 6)


def test_a_deleted_topic_stays_deleted(world: World) -> None:
    """What is adopted is the topic as it was; it can be restored then."""
    from winnow.pipeline.topics.deletion import delete_topic, restore_topic

    location = world.head().location
    delete_topic(world.installation, TOPIC)
    get_catalog(world).drop_table_at(world.installation.log.identify(TOPIC), locate_metadata(world))
    adopt_topic(world.installation, TOPIC, location, run=True)
    assert world.installation.log.names() == []
    restore_topic(world.installation, TOPIC)
    assert world.read() == build_versions(0, 12)


def test_compaction_goes_on_as_if_nothing_had_happened(world: World) -> None:
    """Tombstones, checkpoints and receipts are those of before."""
    world.compact()
    receipts = world.installation.log.open(TOPIC).receipts()
    state = world.state()
    location = lose(world)
    adopt_topic(world.installation, TOPIC, location, run=True)
    assert world.installation.log.open(TOPIC).receipts() == receipts
    assert world.state() == state
    world.ingest(build_versions(12, 6))
    world.compact(attempt="a2")
    assert world.read() == compute_survivors(build_versions(0, 18))


# ------------------------------------------------------------------ other catalogs and object stores


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[tuple[World, RestCatalogServer]]:
    """A topic in a REST catalog."""
    with serve_rest_catalog() as (server, address):
        lake = {"WINNOW_CATALOG__TYPE": "rest", "WINNOW_CATALOG__URI": address}
        with open_world(tmp_path, None, lake) as opened:
            opened.create(1, min_cleanable_dirty_ratio="0")
            opened.ingest(build_versions(0, 6))
            yield opened, server


def test_a_rest_catalog_gets_there_in_one_commit(rest: tuple[World, RestCatalogServer]) -> None:
    """It writes its metadata files itself: the snapshots that it lacks and the raised head come in one request."""
    world, server = rest
    older = server.tables["winnow", TOPIC]
    world.ingest(build_versions(6, 6))
    world.compact()
    world.ingest(build_versions(12, 6))
    before, fence, snapshots = world.read(), world.head().fence, world.snapshot_ids()
    server.tables["winnow", TOPIC] = older
    server.commits.clear()
    report = recover_topic(world.installation, TOPIC, run=True)
    assert len(server.commits) == 1
    assert world.read() == before
    assert world.snapshot_ids()[:-1] == snapshots
    assert world.head().fence == report.fence
    assert report.fence is not None
    assert report.fence > fence
    assert not recover_topic(world.installation, TOPIC, run=True).was_needed
    assert len(server.commits) == 1
    world.ingest(build_versions(18, 2))


def test_a_rest_catalog_that_was_lost_is_given_the_table(rest: tuple[World, RestCatalogServer]) -> None:
    """Under the name that it had, with one request."""
    world, server = rest
    before, location = world.read(), world.head().location
    del server.tables["winnow", TOPIC]
    adopt_topic(world.installation, TOPIC, location, run=True)
    assert world.read() == before
    world.ingest(build_versions(6, 2))


# ------------------------------------------------------------------ states that are gone


def remove_documents(world: World) -> None:
    """As an orphan removal that knows nothing of Winnow's documents, and took the copies, too."""
    root = Path(world.installation.settings.warehouse.removeprefix("file://"))
    for path in world.listing():
        if "/_winnow/" in path:
            (root / path).unlink()


def test_a_state_that_is_gone_is_rebuilt_from_manifests_and_store(world: World) -> None:
    """Reading equals what the manifests have, offsets stay where they were, and compaction equals the oracle's."""
    records = [*build_versions(12, 3), Record(15, b"key-1", None, 1_000), Record(16, b"key-2", b"last", 1_000)]
    world.ingest(records)
    world.compact()
    world.ingest(build_versions(17, 3))
    before, state, fence = world.read(), world.state(), world.head().fence
    receipts = world.installation.log.open(TOPIC).receipts()
    remove_documents(world)
    with pytest.raises(DamagedMetadataError, match="winnow topics recover orders"):
        world.read()
    dry = recover_topic(world.installation, TOPIC, rebuild=True)
    assert any("never compacted" in notice for notice in dry.notices)
    with pytest.raises(DamagedMetadataError):
        world.head()
    recover_topic(world.installation, TOPIC, rebuild=True, run=True)
    rebuilt = world.state()
    assert world.read() == before
    assert (rebuilt.log_start_offset, rebuilt.log_end_offset) == (state.log_start_offset, state.log_end_offset)
    assert world.head().fence > fence
    assert [each.plan_id for each in world.installation.log.open(TOPIC).receipts()] == [
        each.plan_id for each in receipts
    ]
    world.compact(attempt="a2")
    assert world.read() == compute_survivors([*build_versions(0, 12), *records, *build_versions(17, 3)])


def test_without_the_store_a_rebuilt_log_ends_where_any_snapshot_had_a_record(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that come again below that end are refused where they are not there, and never appended a second time."""
    monkeypatch.setattr(TopicHeads, "list_lives", lambda *_: [])
    world.compact()
    remove_documents(world)
    recover_topic(world.installation, TOPIC, rebuild=True, run=True)
    before = world.read()
    assert world.state().log_end_offset == 12
    assert world.state().log_start_offset == before[0].offset
    with pytest.raises(BadInputError, match="has gone on to offset 12 without this record"):
        world.ingest(build_versions(0, 14))
    world.ingest(build_versions(9, 5))
    assert world.read() == [*before, *build_versions(12, 2)]


def test_a_state_is_not_rebuilt_where_a_segment_is_gone(world: World) -> None:
    """Only what is intact but for Winnow's documents can be rebuilt."""
    remove_documents(world)
    location = locate_metadata(world)
    for path in world.listing():
        if path.endswith(".parquet"):
            (Path(world.installation.settings.warehouse.removeprefix("file://")) / path).unlink()
    with pytest.raises(DamagedMetadataError, match="segment"):
        recover_topic(world.installation, TOPIC, rebuild=True, run=True)
    assert locate_metadata(world) == location


@pytest.mark.parametrize("undone", [False, True])
def test_keyless_records_that_a_compaction_moved_are_in_one_place_after_a_rebuild(world: World, undone: bool) -> None:
    """In the quarantine, or in the log again where the run was undone."""
    alter_topic(world.installation, TOPIC, {"cleanup.policy": "delete", "winnow.keyless": "quarantine"}, [])
    world.ingest([Record(12, None, b"keyless", 1_000), *build_versions(13, 2)])
    alter_topic(world.installation, TOPIC, {"cleanup.policy": "compact"}, [])
    receipt = world.compact()
    assert receipt is not None
    if undone:
        undo_change(world.installation, TOPIC, str(receipt.plan_id))
    read = world.read()
    remove_documents(world)
    recover_topic(world.installation, TOPIC, rebuild=True, run=True)
    rows = list_visible_rows(world.installation.log.quarantine(TOPIC), world.head().state)
    assert rows.column("value").to_pylist() == ([] if undone else [b"keyless"])
    assert world.read() == read
    assert (b"keyless" in [each.value for each in read]) == undone


def test_a_sweep_goes_on_after_a_rebuild(world: World) -> None:
    """Snapshots whose states are gone leave the table with the recovery; their manifests would end a sweep."""
    world.compact()
    remove_documents(world)
    recover_topic(world.installation, TOPIC, rebuild=True, run=True)
    world.clock.now_ms += 10 * 86_400_000
    before = world.read()
    sweep_topics(world.installation, [TOPIC])
    assert world.read() == before
