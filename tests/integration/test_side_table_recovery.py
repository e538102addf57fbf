"""Side tables whose entry in the catalog is older than they are: the latest state, and quarantined records."""

from __future__ import annotations

import logging

import pytest
from sqlalchemy.exc import OperationalError

from tests.support.world import TOPIC, World, build_versions, list_visible_rows
from winnow.clock import read_wall_clock_ms
from winnow.errors import DamagedMetadataError, MissingFileError, ServiceError
from winnow.files import storage
from winnow.log.sql_catalog import LogSqlCatalog
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.topics.recovery import recover_topic
from winnow.values.model import Record

LOG = ("winnow", TOPIC)
LATEST = ("winnow_latest", TOPIC)
QUARANTINE = ("winnow_quarantine", TOPIC)
DAY_MS = 86_400_000


def find_entry(world: World, identifier: tuple[str, str]) -> str:
    """Find the metadata file that the catalog names."""
    catalog = world.installation.log.catalog
    assert isinstance(catalog, LogSqlCatalog)
    location = catalog.find_metadata_location(identifier)
    assert location is not None
    return location


def put_back(world: World, identifier: tuple[str, str], location: str) -> None:
    """Make the catalog name what it named before."""
    catalog = world.installation.log.catalog
    assert isinstance(catalog, LogSqlCatalog)
    catalog.swap_metadata(identifier, find_entry(world, identifier), location)


def sweep_after_grace(world: World) -> None:
    """Sweep when every grace has passed."""
    world.clock.now_ms += 2 * DAY_MS
    sweep_topics(world.installation, [TOPIC])


def list_unreadable(world: World, identifier: tuple[str, str]) -> list[int]:
    """List the snapshots of a table whose manifest list is gone."""
    snapshots = world.installation.log.catalog.load_table(identifier).metadata.snapshots
    return [each.snapshot_id for each in snapshots if not storage.exists(each.manifest_list)]


def read_side_tables(world: World) -> tuple[list[str], int]:
    """Read which data files the table of the latest state has, and count the quarantined records."""
    latest = world.installation.log.catalog.load_table(LATEST)
    rows = list_visible_rows(world.installation.log.quarantine(TOPIC), world.head().state)
    return sorted(task.file.file_path for task in latest.scan().plan_files()), rows.num_rows


def create_with_old_snapshots(world: World) -> None:
    """Create a topic whose side tables have a snapshot that the next sweep expires."""
    world.clock.now_ms = read_wall_clock_ms()  # by which snapshots of side tables are dated
    world.create(1, winnow_latest_table="true", winnow_keyless="quarantine", winnow_retired_grace_ms=str(DAY_MS))
    for first in (0, 5):
        world.ingest([*build_versions(first, 4), Record(first + 4, None, b"keyless")])
        world.compact()


@pytest.mark.parametrize("identifier", [LATEST, QUARANTINE], ids=["latest", "quarantine"])
def test_a_sweep_takes_out_snapshots_whose_files_are_gone_where_an_older_entry_names_them_again(
    world: World, caplog: pytest.LogCaptureFixture, identifier: tuple[str, str]
) -> None:
    """No other sweep is to blame, and what the newest snapshot names stays."""
    create_with_old_snapshots(world)
    older = find_entry(world, identifier)
    sweep_after_grace(world)
    rows = world.read(), read_side_tables(world)
    put_back(world, identifier, older)
    assert list_unreadable(world, identifier)
    with caplog.at_level(logging.WARNING):
        sweep_after_grace(world)
    assert caplog.messages == []
    assert list_unreadable(world, identifier) == []
    sweep_after_grace(world)
    assert (world.read(), read_side_tables(world)) == rows


def create_with_old_heads(world: World) -> None:
    """Create a topic of which the next sweep expires a snapshot, and does nothing else."""
    world.clock.now_ms = read_wall_clock_ms()
    world.create(1, winnow_retired_grace_ms=str(DAY_MS))
    for first in (0, 5):
        world.ingest(build_versions(first, 5))


def test_a_sweep_expires_again_what_a_sweep_had_expired_where_the_log_s_entry_was_put_back(world: World) -> None:
    """The head is the newest, so that nothing else is to be recovered."""
    create_with_old_heads(world)
    older = find_entry(world, LOG)
    sweep_after_grace(world)
    put_back(world, LOG, older)
    assert list_unreadable(world, LOG)
    sweep_after_grace(world)
    assert list_unreadable(world, LOG) == []
    assert world.read() == build_versions(0, 10)


def test_a_sweep_asks_where_a_manifest_list_is_gone_that_no_sweep_took(world: World) -> None:
    """Somebody else removed it, and may have it still."""
    create_with_old_heads(world)
    (earlier, *_) = world.installation.log.catalog.load_table(LOG).metadata.snapshots
    storage.parse_local_path(earlier.manifest_list).unlink()
    with pytest.raises(DamagedMetadataError, match="is gone"):
        sweep_after_grace(world)
    assert earlier.snapshot_id in list_unreadable(world, LOG)


def test_quarantined_records_that_an_older_catalog_does_not_know_come_back(world: World) -> None:
    """The catalog names what came before the last of them, which is no proof that nothing came after."""
    create_with_old_snapshots(world)
    older = find_entry(world, QUARANTINE), find_entry(world, world.installation.log.identify(TOPIC))
    world.ingest([*build_versions(10, 1), Record(11, None, b"later")])
    rows = list_visible_rows(world.installation.log.quarantine(TOPIC), world.head().state)
    assert rows.num_rows == 3
    put_back(world, QUARANTINE, older[0])
    put_back(world, world.installation.log.identify(TOPIC), older[1])
    recover_topic(world.installation, TOPIC, run=True)
    assert list_visible_rows(world.installation.log.quarantine(TOPIC), world.head().state).equals(rows)


def test_a_name_of_a_file_that_nobody_needs_does_not_lead_a_recovery_back(world: World) -> None:
    """A process that was paused puts a file into the quarantine after a sweep has deleted it; its call never counts."""
    create_with_old_snapshots(world)
    quarantine = world.installation.log.quarantine(TOPIC)
    rows = list_visible_rows(quarantine, world.head().state)
    quarantine.append(rows, "0" * 32)
    (stray,) = (file.path for file in quarantine.files() if "0" * 32 in file.path)
    storage.parse_local_path(stray).unlink()
    newest = find_entry(world, QUARANTINE)
    recover_topic(world.installation, TOPIC, run=True)
    assert find_entry(world, QUARANTINE) == newest


def test_a_recovery_does_not_hide_that_quarantined_records_are_lost(world: World) -> None:
    """The older metadata of a catalog that was put back lead to no missing file, and to no word about it."""
    create_with_old_snapshots(world)
    quarantine, log = world.installation.log.quarantine(TOPIC), world.installation.log.identify(TOPIC)
    older, before = [find_entry(world, QUARANTINE), find_entry(world, log)], {file.path for file in quarantine.files()}
    world.ingest([*build_versions(10, 1), Record(11, None, b"later")])
    newest = find_entry(world, QUARANTINE)
    (later,) = {file.path for file in quarantine.files()} - before
    storage.parse_local_path(later).unlink()
    put_back(world, QUARANTINE, older[0])
    put_back(world, log, older[1])
    recover_topic(world.installation, TOPIC, run=True)
    assert find_entry(world, QUARANTINE) == newest
    with pytest.raises(MissingFileError):
        list_visible_rows(quarantine, world.head().state)


@pytest.mark.parametrize("call", ["find_metadata_location", "swap_metadata"])
def test_a_catalog_that_goes_away_amid_a_recovery_of_side_tables_is_named(
    world: World, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Before and after it has changed the first entry; the same command ends the work."""
    create_with_old_snapshots(world)
    older = find_entry(world, QUARANTINE)
    world.ingest([Record(10, None, b"later")])
    newer = find_entry(world, QUARANTINE)
    put_back(world, QUARANTINE, older)
    genuine = getattr(LogSqlCatalog, call)

    def fail(catalog: LogSqlCatalog, identifier: tuple[str, str], *args: object, **kwargs: object) -> object:
        if identifier == QUARANTINE:
            raise OperationalError("statement", {}, ConnectionError("server closed the connection"))
        return genuine(catalog, identifier, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(LogSqlCatalog, call, fail)
        with pytest.raises(ServiceError, match=r"winnow_quarantine\.orders"):
            recover_topic(world.installation, TOPIC, run=True)
    recover_topic(world.installation, TOPIC, run=True)
    assert find_entry(world, QUARANTINE) == newer
