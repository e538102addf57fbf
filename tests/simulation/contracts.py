"""What Winnow relies on of a storage, a catalog and a metadata store, whichever it is, real or simulated."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.update import AssertRefSnapshotId, SetPropertiesUpdate

from tests.support.world import TOPIC, World, build_versions
from winnow.errors import TopicBusyError
from winnow.files import storage
from winnow.log.sql_catalog import LogSqlCatalog

DELETION: Final = "DELETE FROM winnow_topic_head"


def check_storage(place: str) -> None:
    """What is written is read, listed and deleted, and a file that is there is not created again. ``place``: empty."""
    uri = f"{place}/folder/file"
    assert storage.read_size_bytes(uri) is None
    with pytest.raises(FileNotFoundError):
        storage.read_bytes(uri)
    storage.write_bytes(uri, b"first")
    storage.write_bytes(uri, b"second")
    assert not storage.create_bytes(uri, b"third")
    assert storage.create_bytes(f"{uri}-new", b"new")
    with storage.create_file(f"{uri}-streamed") as stream:
        stream.write(b"streamed")
    storage.sync([f"{uri}-streamed"])
    assert [storage.read_bytes(f"{uri}{end}") for end in ("", "-new", "-streamed")] == [b"second", b"new", b"streamed"]
    listed = storage.list_named_files(place, "folder", lambda name: name != "file")
    assert [storage.get_name(entry.uri) for entry in listed.files] == ["file-new", "file-streamed"]
    assert storage.list_folders(place) == [f"{place}/folder"]
    assert storage.delete(uri)
    assert storage.delete(uri)
    assert storage.read_size_bytes(uri) is None


def check_commits(world: World) -> None:
    """A commit that asks for a head which is not the newest any more changes nothing; one that asks for it does."""
    catalog, identifier = world.installation.log.catalog, world.installation.log.identify(TOPIC)
    stale = catalog.load_table(identifier)
    world.ingest(build_versions(world.state().log_end_offset, 1))
    newest = catalog.load_table(identifier)
    with pytest.raises(CommitFailedException):
        catalog.commit_table(stale, (_require_head(stale),), (SetPropertiesUpdate(updates={"comment": "late"}),))
    assert catalog.load_table(identifier).metadata_location == newest.metadata_location
    catalog.commit_table(newest, (_require_head(newest),), (SetPropertiesUpdate(updates={"comment": "in time"}),))
    assert catalog.load_table(identifier).properties["comment"] == "in time"


def _require_head(table: Table) -> AssertRefSnapshotId:
    return AssertRefSnapshotId.model_validate({"ref": "main", "snapshot-id": table.metadata.current_snapshot_id})


def check_entries(world: World) -> None:
    """An entry is swapped only from what it names, and dropped only at what it names."""
    catalog, identifier = world.installation.log.catalog, world.installation.log.identify(TOPIC)
    assert isinstance(catalog, LogSqlCatalog)
    before = catalog.find_metadata_location(identifier)
    assert before is not None
    with pytest.raises(CommitFailedException):
        catalog.swap_metadata(identifier, f"{before}-other", "new")
    assert catalog.find_metadata_location(identifier) == before
    catalog.swap_metadata(identifier, before, "new")
    assert not catalog.drop_table_at(identifier, before)
    assert catalog.drop_table_at(identifier, "new")
    assert catalog.find_metadata_location(identifier) is None
    assert catalog.find_metadata_location((identifier[0], "unknown")) is None


def check_store(world: World) -> None:
    """A lease excludes another holder until it has expired; a transaction that raises leaves nothing."""
    leases, now_ms = world.installation.store.leases, world.clock()
    leases.acquire(TOPIC, "first", now_ms, 1_000)
    with pytest.raises(TopicBusyError):
        leases.acquire(TOPIC, "second", now_ms, 1_000)
    leases.acquire(TOPIC, "second", now_ms + 1_001, 1_000)
    database = world.installation.store.runs._database
    before = count_rows(world)
    with suppress(ZeroDivisionError), database.writing() as session:
        session.connection().exec_driver_sql(DELETION)
        raise ZeroDivisionError
    assert count_rows(world) == before > 0


def count_rows(world: World) -> int:
    """Rows of a table that has some."""
    with world.installation.store.runs._database.reading() as session:
        return int(session.connection().exec_driver_sql("SELECT count(*) FROM winnow_topic_head").scalar_one())
