"""Documents survive another engine's orphan removal: they lie where it does not look, and a copy lies elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException

from tests.support.cli_runner import make_topic, winnow
from tests.support.earlier_documents import write_without_copies
from tests.support.world import TOPIC, World, build_versions, compute_survivors, open_world
from winnow.clock import read_wall_clock_ms
from winnow.errors import CommitConflictError, DamagedMetadataError
from winnow.files import storage
from winnow.log import document_copies, reference_chains, topic_log
from winnow.log.staged_transaction import StagedTransaction
from winnow.log.topic_configuration import set_config
from winnow.pipeline.admin import document_mending
from winnow.pipeline.admin.scrub import open_scrub
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.admin.sweep_report import SweepReport
from winnow.pipeline.topics.deletion import delete_topic

RECORDS = build_versions(0, 12)


KINDS = {"state", "receipts", "chains", "ingests"}


class Lake:
    """A topic with every kind of document, and a copy of it to begin again from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with open_world(folder) as world:
            world.create(1, min_cleanable_dirty_ratio="0", winnow_retired_grace_ms="0")
            for start in range(0, 12, 4):
                world.ingest(RECORDS[start : start + 4])
                world.compact()
                world.clock.now_ms += 1_000
        shutil.copytree(folder / "home", folder / "sound")

    @contextmanager
    def open(self) -> Iterator[World]:
        """The topic as it was, as a new process finds it."""
        document_copies.forget_read_from_copies(TOPIC)
        shutil.rmtree(self.folder / "home")
        shutil.copytree(self.folder / "sound", self.folder / "home")
        with open_world(self.folder) as world:
            yield world


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference_chains, "MAXIMUM_LINK_REFERENCES", 1)
        return Lake(tmp_path_factory.mktemp("lake"))


@pytest.fixture(scope="module")
def old_lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """As before documents had copies."""
    with pytest.MonkeyPatch.context() as patch, write_without_copies():
        patch.setattr(reference_chains, "MAXIMUM_LINK_REFERENCES", 1)
        return Lake(tmp_path_factory.mktemp("old-lake"))


@pytest.fixture
def world(lake: Lake) -> Iterator[World]:
    with lake.open() as opened:
        yield opened


@pytest.fixture
def old_world(old_lake: Lake) -> Iterator[World]:
    with old_lake.open() as opened:
        assert copies_of(opened) == {}
        assert {each.split("/")[1] for each in documents_of(opened)} == KINDS
        yield opened


def files_below(folder: str, *, named: str = "") -> dict[str, bytes]:
    top = storage.parse_local_path(folder)
    return {
        str(path.relative_to(top)): path.read_bytes() for path in sorted((top / named).rglob("*")) if path.is_file()
    }


def documents_of(world: World) -> dict[str, bytes]:
    return files_below(world.head().location, named="_winnow")


def copies_of(world: World) -> dict[str, bytes]:
    return files_below(world.head().copies)


def remove_orphans(world: World) -> None:
    """Take the documents, as another engine's procedure may."""
    shutil.rmtree(storage.parse_local_path(storage.join(world.head().location, "_winnow")))


def sweep(world: World) -> SweepReport:
    world.clock.now_ms = max(world.clock.now_ms, read_wall_clock_ms()) + 1_000
    (report,) = sweep_topics(world.installation, [TOPIC])
    return report


def assert_whole(world: World) -> None:
    """Everything that documents hold is there."""
    log = world.installation.log.open(TOPIC)
    state = log.head().state
    assert len(log.receipts()) == 3
    assert len(list(reference_chains.read_ledgers(state))) == 3
    assert world.read() == compute_survivors(RECORDS)


def test_every_document_has_a_copy_outside_of_the_tables_folder(world: World) -> None:
    """Of every kind, byte by byte, in a folder that bears the topic's name and the table's id."""
    documents = documents_of(world)
    assert documents == copies_of(world)
    assert {each.split("/")[1] for each in documents} == KINDS
    head = world.head()
    assert not head.copies.startswith(head.location)
    assert storage.get_name(head.copies) == f"{TOPIC}-{head.table_uuid}"


def test_without_its_documents_a_topic_is_read_compacted_and_mended_from_the_copies(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Few of them are named, each with its copy; the next sweep puts all back, and nothing is said any more."""
    documents = documents_of(world)
    remove_orphans(world)
    assert_whole(world)
    said = [each for each in caplog.messages if "is read instead" in each]
    assert len(said) == document_copies.MAXIMUM_WARNINGS
    assert all("_winnow/" in each and world.head().copies in each and f"winnow sweep {TOPIC}" in each for each in said)
    report = sweep(world)
    assert report.documents_restored >= len(documents) - 5  # states of expired snapshots are not put back
    assert "put back from copies" in report.message
    caplog.clear()
    assert_whole(world)
    assert documents_of(world) == copies_of(world)
    assert caplog.messages == []
    assert sweep(world).documents_restored == 0


def test_a_lost_copy_is_written_again_by_the_next_sweep(world: World) -> None:
    shutil.rmtree(storage.parse_local_path(world.head().copies))
    report = sweep(world)
    assert (report.documents_restored, report.documents_lost) == (0, 0)
    assert report.documents_copied > 0
    assert copies_of(world) == documents_of(world)
    assert_whole(world)


def test_a_sweep_writes_a_bounded_number_of_files_and_the_next_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep(world)
    shutil.rmtree(storage.parse_local_path(world.head().copies))
    monkeypatch.setattr(document_mending, "MAXIMUM_FILES_PER_SWEEP", 2)
    counts = [sweep(world).documents_copied]
    while counts[-1]:
        counts.append(sweep(world).documents_copied)
    assert (set(counts[:-2]), len(counts) > 4) == ({2}, True)
    assert copies_of(world) == documents_of(world)


def test_what_was_written_without_copies_is_copied_by_the_first_sweep_and_survives(old_world: World) -> None:
    """All that its head refers to, and one commit, from which on the topic has copies."""
    before = len(old_world.snapshot_ids())
    report = sweep(old_world)
    assert report.documents_copied > 0
    assert len(old_world.snapshot_ids()) <= before + 2
    remove_orphans(old_world)
    assert_whole(old_world)
    assert sweep(old_world).documents_restored > 0
    assert_whole(old_world)
    old_world.ingest(build_versions(12, 3))
    old_world.compact()
    assert old_world.read() == compute_survivors(build_versions(0, 15))


def test_a_quiet_topic_without_copies_has_them_after_one_commit_of_a_sweep(tmp_path: Path) -> None:
    """Nothing else was to be committed; the next sweep commits nothing."""
    with open_world(tmp_path) as quiet:
        with write_without_copies():
            quiet.create(1)
            quiet.ingest(RECORDS)
        before = len(quiet.snapshot_ids())
        sweep(quiet)
        assert (len(quiet.snapshot_ids()), quiet.head().state.copies) == (before + 1, quiet.head().copies)
        assert copies_of(quiet) == documents_of(quiet)
        sweep(quiet)
        assert len(quiet.snapshot_ids()) == before + 1


def test_the_first_commit_with_copies_leaves_documents_without_them_to_be_read(old_world: World) -> None:
    before = documents_of(old_world)
    old_world.ingest(build_versions(12, 3))
    assert documents_of(old_world).keys() - before.keys() == copies_of(old_world).keys() != set()
    log = old_world.installation.log.open(TOPIC)
    assert len(log.receipts()) == 3
    assert len(list(reference_chains.read_ledgers(log.head().state))) == 4


def test_without_documents_and_copies_the_command_to_type_is_said(tmp_path: Path, winnow_home: Path) -> None:
    make_topic(TOPIC, tmp_path / "orders.jsonl")
    for folder in (winnow_home / "warehouse").glob("**/_winnow"):
        shutil.rmtree(folder)
    said = winnow("read", TOPIC, code=4).stderr
    assert "is gone" in said
    assert f"winnow topics recover {TOPIC}" in said


def test_a_sweep_deletes_a_state_together_with_its_copy(world: World) -> None:
    expiring = {each for each in documents_of(world) if "/state/" in each}
    sweep(world)
    sweep(world)
    documents = documents_of(world)
    assert len(expiring - documents.keys()) > 2
    assert documents.keys() == copies_of(world).keys()


def test_a_sweep_that_dies_between_a_copy_and_its_document_is_completed_by_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy goes first, so nobody takes the state that is left for one that another program took the copy of."""
    genuine = storage.delete
    gone: list[str] = []

    def delete(path: str, **named: Any) -> Any:
        if "/state/" in path and gone:
            raise KeyboardInterrupt
        if "/state/" in path:
            gone.append(path)
        return genuine(path, **named)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "delete", delete)
        with pytest.raises(KeyboardInterrupt):
            sweep(world)
    assert [path.startswith(world.head().copies) for path in gone] == [True]
    world.clock.now_ms += world.installation.settings.lease_ms
    sweep(world)
    sweep(world)
    assert documents_of(world).keys() == copies_of(world).keys()
    assert storage.get_name(gone[0]) not in {storage.get_name(each) for each in documents_of(world)}


def test_a_refused_commit_leaves_neither_document_nor_copy(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    before = documents_of(world), copies_of(world)

    def refuse(*_: Any, **__: Any) -> Any:
        raise CommitFailedException("another commit came first")

    monkeypatch.setattr(StagedTransaction, "commit_transaction", refuse)
    monkeypatch.setattr(topic_log, "wait_before_retry", lambda _: None)
    with pytest.raises(CommitConflictError):
        set_config(world.installation.log.open(TOPIC), {"segment.ms": "5000"}, ())
    assert (documents_of(world), copies_of(world)) == before


def test_a_document_whose_copy_cannot_be_written_is_not_committed(world: World) -> None:
    before = documents_of(world), world.snapshot_ids()
    copies = storage.parse_local_path(world.head().copies)
    copies.rename(copies.with_name("kept"))
    copies.write_text("no folder")
    with pytest.raises(OSError, match="orders"):
        set_config(world.installation.log.open(TOPIC), {"segment.ms": "5000"}, ())
    assert (documents_of(world), world.snapshot_ids()) == before


def test_a_removed_topics_copies_go_with_it(world: World) -> None:
    """And what is not named like a document of its stays."""
    copies = storage.parse_local_path(world.head().copies)
    other = copies.with_name("another-table")
    shutil.copytree(copies, other)
    (copies / "notes.txt").write_text("somebody's")
    delete_topic(world.installation, TOPIC, now=True)
    assert [path.name for path in copies.rglob("*") if path.is_file()] == ["notes.txt"]
    assert len(files_below(str(other))) > 4


def test_copies_that_are_not_of_this_table_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder from which a sweep deletes bears the table's id, whatever a state says."""
    log = world.installation.log.open(TOPIC)
    head = log.head()
    elsewhere = storage.join(head.location, "elsewhere")
    with monkeypatch.context() as patch:
        patch.setattr(type(log), "_load_head", lambda *_: replace(head, copies=elsewhere))
        set_config(log, {"segment.ms": "5000"}, ())
    with pytest.raises(DamagedMetadataError, match="the folder of the copies"):
        world.head()


def test_a_scrub_checks_documents_and_copies_and_the_sweep_after_it_mends_both(world: World) -> None:
    """A document of the same length that was changed, and a damaged copy of another one."""
    sweep(world)
    location, copies = (storage.parse_local_path(each) for each in (world.head().location, world.head().copies))
    receipt = next((location / "_winnow" / "receipts").iterdir())
    ledger = next((copies / "_winnow" / "ingests").iterdir())
    for path in (receipt, ledger):
        path.write_bytes(path.read_bytes().swapcase())
    world.clock.now_ms += 1_000
    (report,) = open_scrub(world.installation, [TOPIC])
    assert {(storage.get_name(each.path), each.kind) for each in report.findings} == {
        (receipt.name, "damaged"),
        (ledger.name, "damaged"),
    }
    assert all("the next sweep puts it back" in each.text for each in report.findings)
    swept = sweep(world)
    assert (swept.documents_restored, swept.documents_copied, swept.documents_lost) == (1, 1, 0)
    assert documents_of(world) == copies_of(world)
    (report,) = open_scrub(world.installation, [TOPIC])
    assert report.findings == ()


def test_a_document_that_is_good_in_neither_place_is_counted_as_lost(world: World) -> None:
    sweep(world)
    for place in world.head().documents.list_places(world.head().state.receipts[-1].path):
        storage.parse_local_path(place).write_bytes(b"{}")
    open_scrub(world.installation, [TOPIC])
    report = sweep(world)
    assert (report.documents_lost, report.documents_restored) == (1, 0)
    assert "so are their copies" in report.message
