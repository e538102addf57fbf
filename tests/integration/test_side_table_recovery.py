"""Side tables whose entry in the catalog is older than they are: the latest state, and quarantined records."""

from __future__ import annotations

import logging

import pytest

from tests.support.world import TOPIC, World, build_versions
from winnow.clock import read_wall_clock_ms
from winnow.errors import DamagedMetadataError
from winnow.log.sql_catalog import LogSqlCatalog
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.topics.recovery import recover_topic
from winnow.values.model import Record

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


def create_with_old_snapshots(world: World) -> None:
    """Create a topic whose side tables have a snapshot that the next sweep expires."""
    world.clock.now_ms = read_wall_clock_ms()  # by which snapshots of side tables are dated
    world.create(1, winnow_latest_table="true", winnow_keyless="quarantine", winnow_retired_grace_ms=str(DAY_MS))
    for first in (0, 5):
        world.ingest([*build_versions(first, 4), Record(first + 4, None, b"keyless")])
        world.compact()


@pytest.mark.parametrize("identifier", [LATEST, QUARANTINE], ids=["latest", "quarantine"])
def test_a_side_table_is_brought_forward_over_metadata_whose_old_snapshots_are_gone(
    world: World, caplog: pytest.LogCaptureFixture, identifier: tuple[str, str]
) -> None:
    """The newest metadata of an expiry add no snapshot; that the older ones' files are gone tells them apart."""
    create_with_old_snapshots(world)
    older = find_entry(world, identifier)
    sweep_after_grace(world)
    newer, rows = find_entry(world, identifier), world.read()
    assert newer != older
    put_back(world, identifier, older)
    report = recover_topic(world.installation, TOPIC, run=True)
    assert [side.metadata_location for side in report.side_tables if side.metadata_location is not None] == [newer]
    assert find_entry(world, identifier) == newer
    with caplog.at_level(logging.WARNING):
        sweep_after_grace(world)
    assert caplog.messages == []
    assert world.read() == rows


def test_a_sweep_goes_on_beside_an_older_entry_of_the_latest_state_and_says_what_helps(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The log's files are swept; the warning names the command that brings the entry forward."""
    create_with_old_snapshots(world)
    older = find_entry(world, LATEST)
    sweep_after_grace(world)
    put_back(world, LATEST, older)
    with caplog.at_level(logging.WARNING):
        sweep_after_grace(world)
    assert [f"winnow topics recover {TOPIC}" in message for message in caplog.messages] == [True]


def test_a_sweep_beside_an_older_entry_of_the_quarantine_deletes_nothing_and_says_what_helps(world: World) -> None:
    """It is no other sweep's doing, and does not end by itself."""
    create_with_old_snapshots(world)
    older = find_entry(world, QUARANTINE)
    sweep_after_grace(world)
    put_back(world, QUARANTINE, older)
    before = world.listing()
    with pytest.raises(DamagedMetadataError, match="may be older than their table") as raised:
        sweep_after_grace(world)
    assert f"winnow topics recover {TOPIC}" in raised.value.next
    assert set(before) <= set(world.listing())
