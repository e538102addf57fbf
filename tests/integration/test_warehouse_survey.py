"""The survey of a table's folder: what lies there, what of it is this table's, and what of that the catalog has had."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException

from tests.support.world import TOPIC, World, build_versions, define_world
from winnow.files import storage
from winnow.log.file_checksums import make_checksum_name
from winnow.log.head_age import HeadGuard
from winnow.log.places import is_below
from winnow.log.sql_catalog import LogSqlCatalog
from winnow.log.topic_configuration import set_config
from winnow.log.warehouse_survey import FoundMetadata, WarehouseSurvey, survey_table

world = define_world(1, build_versions(0, 4), build_versions(4, 4))


def survey(world: World, *known: str) -> WarehouseSurvey:
    head = world.head()
    return survey_table(head.table.io, head.location, table_uuid=head.table_uuid, known=known)


class KilledError(BaseException):
    """Ends a commit as a kill would."""


def ingest_and_die_before_the_catalog_is_asked(world: World) -> None:
    """An ingest that ends when its metadata file is written."""

    def die(*_: object, **__: object) -> None:
        raise KilledError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogSqlCatalog, "swap_metadata", die)
        with pytest.raises(KilledError):
            world.ingest(build_versions(8, 4))


def write_beside(world: World, change: Callable[[dict[str, Any]], object]) -> str:
    """Writes the newest metadata once more, changed, as a file of the next number; returns its location."""
    location = world.head().table.metadata_location
    document = json.loads(storage.read_bytes(location))
    change(document)
    data = json.dumps(document).encode()
    name = f"00009-{uuid.uuid4()}.metadata.json"
    beside = make_checksum_name(f"{location.rpartition('/')[0]}/{name}", data)
    storage.write_bytes(beside, data)
    return beside


def find(found: WarehouseSurvey, location: str) -> FoundMetadata:
    return next(each for each in found.found if each.name == storage.get_name(location))


def test_the_newest_metadata_are_those_of_the_head(world: World) -> None:
    """Numbers, fence and place are the table's own, and every file but the last is proven by the one after it."""
    head = world.head()
    found = survey(world)
    assert found.newest is not None
    assert found.newest.name == storage.get_name(head.table.metadata_location)
    assert found.newest_metadata_location is not None
    assert storage.get_name(found.newest_metadata_location) == found.newest.name
    assert found.highest_sequence_number == len(head.table.metadata.snapshots) == 2
    assert found.highest_metadata_number == 2
    assert found.highest_fence == head.fence
    assert [each.number for each in found.landed] == [0, 1]
    assert found.unproven == (found.newest,)


def test_the_store_s_word_proves_the_last_one(world: World) -> None:
    """A file that something outside of the folder names as landed needs no successor."""
    found = survey(world, world.head().table.metadata_location)
    assert [each.number for each in found.landed] == [0, 1, 2]
    assert found.unproven == ()


def test_a_commit_that_died_is_lost_once_another_was_made_from_the_same_log(world: World) -> None:
    """As long as nothing came after it, two files could be the newest and none is chosen; then the other one is."""
    before = world.head().table.metadata_location
    ingest_and_die_before_the_catalog_is_asked(world)
    (died,) = survey(world, before).unproven
    assert died.previous == storage.get_name(before)
    set_config(world.installation.log.open(TOPIC), {"delete.retention.ms": "5"}, ())
    undecided = survey(world)
    assert undecided.newest is None
    newest = storage.get_name(world.head().table.metadata_location)
    assert {each.name for each in undecided.unproven} == {died.name, newest}
    world.ingest(build_versions(8, 4))
    found = survey(world)
    assert found.newest is not None
    assert found.newest.name == storage.get_name(world.head().table.metadata_location)
    assert [each.name for each in found.lost] == [died.name]


def test_a_commit_from_the_same_log_as_a_landed_one_is_lost_however_late_it_was_written(world: World) -> None:
    """Its process was slow: number and time of the file are higher, and its predecessor is that of the landed one."""
    newest = world.head().table.metadata_location
    late = write_beside(world, lambda it: it.update({"last-updated-ms": it["last-updated-ms"] + 1_000}))
    found = survey(world, newest)
    assert [each.name for each in found.lost] == [storage.get_name(late)]
    assert found.newest is not None
    assert found.newest.name == storage.get_name(newest)


def test_files_that_are_not_this_table_s_are_named_with_the_reason(world: World, tmp_path: Path) -> None:
    """Another table's uuid or folder, a changed byte, a place outside, a number without end, and a link."""
    head = world.head()
    outside = write_beside(world, lambda it: it["snapshots"][0].update({"manifest-list": "file:///etc/passwd"}))
    upwards = write_beside(
        world, lambda it: it["metadata-log"].append({"metadata-file": f"{head.location}/../x.json", "timestamp-ms": 1})
    )
    other = write_beside(world, lambda it: it.update({"table-uuid": "11111111-1111-4111-8111-111111111111"}))
    moved = write_beside(world, lambda it: it.update({"location": "file:///elsewhere"}))
    endless = write_beside(world, lambda it: it["properties"].update({"winnow.fence": "9" * 5000}))
    high = write_beside(world, lambda it: it.update({"last-sequence-number": 2**63 - 1}))
    cut = write_beside(world, lambda it: it.update({"last-updated-ms": 1}))
    storage.write_bytes(cut, storage.read_bytes(cut)[:-20])
    link = storage.parse_local_path(head.location) / "metadata" / "00011-link.metadata.json"
    link.symlink_to(storage.parse_local_path(head.table.metadata_location))
    found = survey(world)
    for location, words in (
        (outside, "outside of the table's folder"),
        (upwards, "outside of the table's folder"),
        (other, "of another table"),
        (moved, "in another folder"),
        (endless, "none that commits reach"),
        (high, "none that commits reach"),
        (cut, "damaged"),
        (str(link), "link"),
    ):
        fault = find(found, location).fault
        assert fault is not None
        assert words in fault
    assert found.highest_metadata_number == 2
    assert found.newest is not None
    assert found.newest.number == 2


def test_a_folder_behind_a_link_holds_nothing(world: World) -> None:
    """Neither the table's folder nor its metadata folder is entered through a link."""
    head = world.head()
    folder = storage.parse_local_path(head.location)
    metadata = folder / "metadata"
    metadata.rename(folder / "moved")
    metadata.symlink_to(folder / "moved")
    assert survey_table(head.table.io, head.location).found == ()
    metadata.unlink()
    (folder / "moved").rename(metadata)
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to(folder.with_name("elsewhere"))
    assert survey_table(head.table.io, head.location).found == ()


def test_the_numbers_of_a_commit_that_never_landed_count(world: World) -> None:
    """Whoever raises its numbers above the survey's is above every attempt, landed or not."""
    before = survey(world)
    ingest_and_die_before_the_catalog_is_asked(world)
    found = survey(world)
    assert found.highest_sequence_number == before.highest_sequence_number + 1
    assert found.highest_metadata_number == before.highest_metadata_number + 1


def test_the_last_file_of_a_half_deleted_folder_is_the_newest(world: World) -> None:
    """Predecessors that are gone speak against nothing."""
    for each in survey(world).landed:
        storage.delete(each.location)
    found = survey(world)
    assert found.newest is not None
    assert found.newest.name == storage.get_name(world.head().table.metadata_location)


def test_two_histories_are_not_decided_by_the_folder(world: World) -> None:
    """A catalog that was put back and committed to by a program that raised nothing leaves two newest files."""
    head = world.head()
    catalog = world.installation.log.catalog
    assert isinstance(catalog, LogSqlCatalog)
    for first in (8, 12, 16):
        world.ingest(build_versions(first, 4))
    newer = world.head().table.metadata_location
    catalog.swap_metadata(head.table.name(), newer, head.table.metadata_location)
    with pytest.MonkeyPatch.context() as patch:  # as a Winnow that compared nothing
        patch.setattr(HeadGuard, "load_newest", lambda _guard, _topic, load_table, load: load(load_table()))
        world.ingest(build_versions(8, 2))
    found = survey(world, world.head().table.metadata_location)
    assert found.newest is None
    assert found.rivals


def test_a_commit_that_lost_its_race_leaves_a_file_that_is_not_taken(world: World) -> None:
    """The catalog refused it, and its caller committed again."""
    genuine = LogSqlCatalog.swap_metadata
    refused: list[str] = []

    def refuse_once(
        self: LogSqlCatalog, identifier: tuple[str, ...], before: str, after: str, **more: int | None
    ) -> None:
        if not refused:
            refused.append(after)
            raise CommitFailedException("Table has been updated by another process")
        genuine(self, identifier, before, after, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogSqlCatalog, "swap_metadata", refuse_once)
        world.ingest(build_versions(8, 4))
    world.ingest(build_versions(12, 4))
    found = survey(world)
    assert [each.name for each in found.lost] == [storage.get_name(refused[0])]
    assert found.newest is not None
    assert found.newest.name == storage.get_name(world.head().table.metadata_location)


@pytest.mark.parametrize(
    ("place", "is_inside"),
    [
        ("file:///w/t/metadata/a", True),
        ("/w/t/metadata/a", True),
        ("file:/w/t/metadata/a", True),
        ("file:///w/t/../u/a", False),
        ("file:///w/tt/a", False),
        ("file:///w/t", False),
        ("s3://w/t/a", False),
        ("http://w/t/a", False),
    ],
)
def test_a_place_is_below_a_folder_by_its_name(place: str, is_inside: bool) -> None:
    """Every spelling of a local path counts; steps upwards and names that only begin alike do not."""
    assert is_below(place, "file:///w/t") is is_inside


def test_s3_has_one_name() -> None:
    """Catalogs write s3a for s3."""
    assert is_below("s3a://bucket/w/t/a", "s3://bucket/w/t/")
    assert not is_below("s3://bucket2/w/t/a", "s3://bucket/w/t")
