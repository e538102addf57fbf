"""Links, forged rows and foreign files: what no record names is neither deleted nor written, whoever put it there.

Each test is one role that may write one place only; the commands are real ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table
from typer.testing import CliRunner

from tests.support.cli_runner import Answer, winnow
from tests.support.in_process_spark import submit
from tests.support.world import (
    TOPIC,
    FakeClock,
    World,
    build_versions,
    open_world,
    record,
    run_between_head_and_commit,
    write_jsonl,
)
from winnow.cli import app
from winnow.clock import read_wall_clock_ms
from winnow.errors import LinkedFolderError, PlanVoidError
from winnow.files import local_tree, storage
from winnow.log.snapshot_expiry import collect_references, find_state_path
from winnow.log.staged_transaction import StagedTransaction
from winnow.pipeline.compaction import driver
from winnow.pipeline.compaction.publish import publish_attempt
from winnow.pipeline.doctor.unnamed_files import check_unnamed_files
from winnow.store import tables
from winnow.values.topic_state import RetiredFile

GRACE_MS = 1_000
RECORDS = [*build_versions(0, 9), *build_versions(0, 4, partition=1)]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Two topics with records that were compacted once, and a plan that nobody carries out."""
    with open_world(tmp_path, FakeClock(read_wall_clock_ms() - 10 * GRACE_MS)) as opened:
        for topic in (TOPIC, "other"):
            opened.create(2, topic, min_cleanable_dirty_ratio="0", winnow_retired_grace_ms=str(GRACE_MS))
            opened.ingest(RECORDS, topic=topic)
            opened.compact(topic=topic)
        opened.ingest(build_versions(20, 6))
        assert opened.plan(opened.clock(), "a2") is not None
        monkeypatch.setenv("WINNOW_HOME", str(opened.installation.settings.home))
        monkeypatch.setattr(driver, "submit_plans", submit)
        yield opened


def get_path(uri: str) -> Path:
    return storage.parse_local_path(uri)


def get_plan_folder(world: World) -> Path:
    return get_path(world.installation.store.runs.list_runs(TOPIC)[0].plan_uri).parent


def list_tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def sweep(world: World, times: int = 3) -> list[Answer]:
    """``winnow sweep orders`` again and again, each a grace after the one before."""
    answers = []
    for _ in range(times):
        for run in world.installation.store.runs.list_runs(TOPIC):
            age(world, run.plan_id)
        answers.append(winnow("sweep", TOPIC))
    return answers


def age(world: World, plan_id: str) -> None:
    """Makes a run as old as if a grace had passed since the last sweep."""
    with world.installation.store.runs._database.writing() as session:
        row = session.get(tables.RunTable, plan_id)
        assert row is not None
        row.updated_at_ms -= 2 * GRACE_MS
        if row.found_empty_at_ms is not None:
            row.found_empty_at_ms -= 2 * GRACE_MS


@pytest.mark.parametrize("target", ["table", "home", "other"])
def test_link_in_a_plan_folder_deletes_nothing_that_it_leads_to(world: World, target: str) -> None:
    """Whoever may write only staging puts one link there; the sweeps after it delete the plan, and nothing else."""
    home = world.installation.settings.home
    led_to = {"table": get_path(world.head().location), "home": home, "other": get_path(world.head("other").location)}
    folder, marker = get_plan_folder(world), home / "precious.txt"
    marker.write_text("mine")
    rows = [world.read(topic=topic) for topic in (TOPIC, "other")]
    before = list_tree(led_to[target])
    (folder / "a2").symlink_to(led_to[target])
    answers = sweep(world)
    if target == "other":
        assert list_tree(led_to[target]) == before
    assert marker.read_text() == "mine"
    assert [world.read(topic=topic) for topic in (TOPIC, "other")] == rows
    assert list(folder.iterdir()) == [folder / "a2"]
    assert any("that no record of the topic names: left in" in answer.stdout for answer in answers)
    if target == "home":
        (found,) = [each for each in winnow("doctor", "--json", code=6).document if each["check"] == "unnamed-files"]
    else:  # the same without all the other checks, which take longer than the rest of this test
        (found,) = map(asdict, check_unnamed_files(world.installation.settings))
    assert found["status"] == "warning"
    assert found["detail"].startswith("1 path that nothing names, seen by the last sweep of orders (1).")


def test_folder_of_plans_that_is_a_link_has_no_plan_written_elsewhere(world: World, tmp_path: Path) -> None:
    """A linked plans/TOPIC is refused in a sentence, with what to do; nothing appears behind it."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    plans = get_plan_folder(world).parent
    plans.rename(tmp_path / "aside")
    plans.symlink_to(elsewhere)
    winnow("ingest", "files", TOPIC, write_jsonl(world.path(), build_versions(40, 6)))
    answer = winnow("compact", TOPIC, "--now", code=2)
    assert f"{plans} is a link" in answer.stderr
    assert "nothing was written there" in answer.stderr
    assert list(elsewhere.iterdir()) == []
    sweep(world)
    assert plans.is_symlink()
    plans.unlink()
    (tmp_path / "aside").rename(plans)
    winnow("compact", TOPIC, "--now")


def test_plan_that_a_row_puts_elsewhere_is_reported_and_stays(world: World) -> None:
    """Settings that moved the staging area look the same as a row that somebody wrote: nothing is touched there."""
    run = world.installation.store.runs.list_runs(TOPIC)[0]
    victim = get_path(world.head("other").location)
    before = list_tree(victim)
    change_row(world, run.plan_id, plan_uri=f"{world.head('other').location}/plan.json")
    answers = sweep(world)
    assert list_tree(victim) == before
    assert get_plan_folder(world).exists() or victim.exists()
    assert any(str(victim.parent) in answer.stdout for answer in answers)


def change_row(world: World, which: str, **values: object) -> None:
    with world.installation.store.runs._database.writing() as session:
        row = session.get(tables.RunTable, which)
        assert row is not None
        for name, value in values.items():
            setattr(row, name, value)


def list_forged_paths(world: World) -> list[str]:
    """Paths that a forged row of the ledger may name: none of them is retired."""
    head, other = world.head(), world.head("other")
    assert head.snapshot is not None
    state = find_state_path(head.table, head.snapshot)
    return [
        head.table.metadata_location,
        str(state),
        *(file.path for files in world.installation.log.open(TOPIC).segments(head).values() for file in files),
        head.table.current_snapshot().manifest_list,  # type: ignore[union-attr]
        other.table.current_snapshot().manifest_list,  # type: ignore[union-attr]
        f"{head.location}/metadata/../../{storage.get_name(other.location)}/metadata/{storage.get_name(other.table.metadata_location)}",
        head.location.replace("/winnow/", "/%77innow/")
        + f"/metadata/{storage.get_name(head.table.current_snapshot().manifest_list)}",  # type: ignore[union-attr]
        str(world.path().with_name("mine.txt")),
    ]


def test_forged_rows_of_the_store_delete_nothing(world: World) -> None:
    """Whoever may write only the store names what he likes as retired; a sweep deletes files of that kind alone."""
    # What a sweep's own commit replaces has to stay until the next one, however slow the machine is.
    winnow("topics", "alter", TOPIC, "--config", "winnow.retired.grace.ms=3600000")
    rows = [world.read(topic=topic) for topic in (TOPIC, "other")]
    world.path().with_name("mine.txt").write_text("mine")
    forged = list_forged_paths(world)
    for kind in ("manifest", "manifest_list", "state", "metadata"):
        files = [RetiredFile(path, 1, 0, "forged") for path in forged]
        world.installation.store.retired_files.record(TOPIC, files, kind)
        assert all(get_path(path).exists() for path in forged)
        sweep(world, 2)
        for path in forged:
            assert get_path(path).exists(), (kind, path)
        with world.installation.store.retired_files._database.writing() as session:
            session.query(tables.RetiredFileTable).delete()
        forged = list_forged_paths(world)
    assert [world.read(topic=topic) for topic in (TOPIC, "other")] == rows


@pytest.mark.parametrize("plan_id", ["../../../other/data", "ingest-{ingest}", "..", "{published}"])
def test_forged_runs_of_the_store_delete_nothing(world: World, plan_id: str) -> None:
    """A row that gives a run the name of another folder leads a sweep to nothing."""
    run = world.installation.store.runs.list_runs(TOPIC)[0]
    head = world.head()
    published = head.state.receipts[-1].plan_id
    forged = plan_id.format(ingest=head.state.ingests[-1].ingest_id, published=published)
    before = list_tree(get_path(head.location) / "data"), list_tree(get_path(world.head("other").location))
    if forged == published:
        change_row(world, published, status="void", fence=-1)
    else:
        change_row(world, run.plan_id, plan_id=forged, status="void", fence=-1)
    rows = world.read()
    for _ in range(3):
        age(world, forged)
        winnow("sweep", TOPIC)
    after = list_tree(get_path(head.location) / "data"), list_tree(get_path(world.head("other").location))
    assert {name for name in before[0] if name not in after[0]} <= list_retired(world, before[0])
    assert after[1] == before[1]
    assert world.read() == rows


def test_forged_run_with_the_name_of_an_ingest_call_at_work_takes_nothing_of_it(world: World) -> None:
    """Its segments lie as those of an attempt do, and no commit names them yet."""
    ingest_id = "1" * 32
    world.installation.store.ingests.open(ingest_id, TOPIC, least_number=0, holder="another", now_ms=world.clock())
    segment = get_path(world.segments()[0].path)
    folder = get_path(world.head().location) / "data" / f"ingest-{ingest_id}" / "a1" / "t0"
    folder.mkdir(parents=True)
    written = folder / segment.name
    written.write_bytes(segment.read_bytes())
    run = world.installation.store.runs.list_runs(TOPIC)[0]
    change_row(world, run.plan_id, plan_id=f"ingest-{ingest_id}", status="void", fence=-1)
    with world.installation.store.runs._database.writing() as session:
        session.add(tables.Attempt(plan_id=f"ingest-{ingest_id}", attempt="a1", fence=-1, opened_at_ms=0))
    sweep(world)
    assert written.exists()


def test_forged_fence_of_an_attempt_at_work_has_it_refused_before_its_files_go(world: World) -> None:
    """While it commits, the store says that it was void long ago: the sweep ends it for good before it deletes."""
    plan = world.plan(world.clock() + 1, "a3")
    assert plan is not None
    world.stage(plan, "a3")
    world.accept(plan, "a3")
    rows = world.read()

    def forge_and_sweep() -> None:
        change_row(world, plan.plan_id, status="void", fence=-1)
        with world.installation.store.runs._database.writing() as session:
            session.query(tables.Attempt).update({"fence": -1})
        assert "0 files removed" not in sweep(world, 1)[0].stdout

    with run_between_head_and_commit(forge_and_sweep), pytest.raises(PlanVoidError):
        publish_attempt(world.installation, plan.plan_id, "a3")
    assert world.read() == rows
    assert all(get_path(segment.path).exists() for segment in world.segments())


def test_forged_row_about_metadata_of_a_commit_in_progress_takes_nothing_from_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Manifest, manifest list and state are written and not committed yet when a sweep reads of them as retired."""
    genuine = StagedTransaction.commit_transaction
    seen: list[str] = []

    def commit(transaction: StagedTransaction) -> Table:
        monkeypatch.setattr(StagedTransaction, "commit_transaction", genuine)
        folder = get_path(world.head().location)
        named = collect_references(world.head().table).list_names()
        for kind, pattern in (("manifest", "metadata/*.avro"), ("state", "_winnow/state/*")):
            new = [f"file://{path}" for path in folder.glob(pattern) if path.name not in named]
            seen.extend(new)
            world.installation.store.retired_files.record(
                TOPIC, [RetiredFile(path, 1, 0, "forged") for path in new], kind
            )
        winnow("sweep", TOPIC)
        return genuine(transaction)

    sweep(world, 2)  # nothing is left that would have the next sweep commit anyway
    monkeypatch.setattr(StagedTransaction, "commit_transaction", commit)
    world.ingest(build_versions(60, 6))
    assert len(seen) > 2
    assert [each.offset for each in world.read(0) if each.offset >= 60] == list(range(60, 66))
    assert winnow("scrub", TOPIC).exit_code == 0


def test_archive_has_nothing_written_or_deleted_elsewhere(world: World, tmp_path: Path) -> None:
    """Whoever may write only the archive puts links there, and keys that look like paths: they are records, no more."""
    archive, home = tmp_path / "archive", world.installation.settings.home
    archive.mkdir()
    write_jsonl(archive / "0.jsonl", [record(80, b"../../../other", b"file:///etc/passwd"), record(81, b"k", None)])
    (archive / "linked.jsonl").symlink_to(get_path(world.head("other").table.metadata_location))
    (archive / "folder").symlink_to(home)
    others = list_tree(get_path(world.head("other").location))
    before, rows = list_tree(archive), world.read()
    for _ in range(2):
        CliRunner().invoke(app, ["ingest", "files", TOPIC, str(archive)])
        winnow("ingest", "files", TOPIC, archive / "0.jsonl")
        sweep(world, 1)
    assert list_tree(archive) == before
    assert list_tree(get_path(world.head("other").location)) == others
    assert [each for each in world.read() if each.offset < 80] == [each for each in rows if each.offset < 80]
    assert (archive / "folder").is_symlink()


def list_retired(world: World, names: dict[str, bytes]) -> set[str]:
    """Those of ``names``, below the folder of data, that the log does not hold any more."""
    live = {Path(s.path).name + Path(s.path).parent.name for n in (0, 1) for s in world.segments(n)}
    return {name for name in names if Path(name).name + Path(name).parent.name not in live}


def test_forged_ingest_call_does_not_take_the_ledger_of_a_committed_one(world: World) -> None:
    """A row with the id of a committed call and an old number is void by its number, and its ledger stays."""
    reference = world.head().state.ingests[0]
    winnow("ingest", "files", TOPIC, write_jsonl(world.path(), build_versions(60, 6)))
    with world.installation.store.ingests._database.writing() as session:
        session.add(
            tables.Ingest(
                ingest_id=reference.ingest_id, topic=TOPIC, number=-1, holder="x", opened_at_ms=0, renewed_at_ms=0,
                voided_at_ms=1, found_empty_at_ms=None,
            )
        )  # fmt: skip
    sweep(world)
    assert get_path(reference.path).exists()
    winnow("ingest", "list", TOPIC)


def test_links_in_the_folder_of_another_topic_have_nothing_written_or_deleted(world: World) -> None:
    """Whoever may write only the folder of one topic links its parts to another's; that one keeps every byte."""
    other = get_path(world.head("other").location)
    mine = get_path(world.head().location)
    before = list_tree(other)
    for name in ("data", "metadata"):
        (mine / name).rename(mine / f"{name}-aside")
        (mine / name).symlink_to(other / name)
    winnow("ingest", "files", TOPIC, write_jsonl(world.path(), build_versions(60, 6)), code=6)
    winnow("sweep", TOPIC, code=6)
    assert list_tree(other) == before


def test_linked_data_folder_has_no_segment_written_behind_it(world: World) -> None:
    """An ingest into a table whose folder for data is a link is refused, and says so."""
    other = get_path(world.head("other").location)
    mine = get_path(world.head().location)
    before = list_tree(other)
    (mine / "data").rename(mine / "aside")
    (mine / "data").symlink_to(other / "data")
    answer = winnow("ingest", "files", TOPIC, write_jsonl(world.path(), build_versions(60, 6)), code=2)
    assert f"{mine / 'data'} is a link" in answer.stderr
    sweep(world)
    assert list_tree(other) == before


def test_removed_topic_takes_nothing_that_links_lead_to(world: World) -> None:
    """The folder of a topic that is deleted for good holds links and others' files: they stay and are counted."""
    mine, other = get_path(world.head().location), get_path(world.head("other").location)
    before, home = list_tree(other), world.installation.settings.home
    (mine / "data" / "linked").symlink_to(other)
    (mine / "metadata" / "linked").symlink_to(home)
    plan = get_plan_folder(world)
    (plan / "a2").symlink_to(other)
    (mine / "data" / "report.parquet").write_text("somebody's")
    winnow("sweep", "other")
    before = list_tree(other)
    winnow("topics", "delete", TOPIC, "--now", "--yes", "--reason", "test")
    assert list_tree(other) == before
    assert (home / "warehouse").is_dir()
    assert {path.name for path in mine.rglob("*") if not path.is_dir() or path.is_symlink()} >= {"report.parquet"}
    assert world.read(topic="other")


def test_folder_that_is_swapped_between_listing_and_deletion_redirects_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the moment of the deletion the plan's folder is a link to one with files of the same names."""
    folder = get_plan_folder(world)
    victim = world.folder / "victim"
    victim.mkdir()
    (victim / "plan.json").write_text("mine")
    genuine = storage.delete

    def swap(uri: str, *, below: str | None = None) -> bool:
        if get_path(uri).parent == folder and not folder.is_symlink():
            folder.rename(world.folder / "swapped")
            folder.symlink_to(victim)
        return genuine(uri, below=below)

    monkeypatch.setattr(storage, "delete", swap)
    sweep(world)
    assert folder.is_symlink()
    assert (victim / "plan.json").read_text() == "mine"


def test_folder_that_is_swapped_while_it_is_open_is_the_one_that_was_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between looking at a file and deleting it, its folder becomes another: the first one's file goes."""
    root, victim = tmp_path / "root", tmp_path / "victim"
    for folder in (root / "plans", victim):
        folder.mkdir(parents=True)
        (folder / "plan.json").write_text("x")
    genuine = os.stat

    def swap(path: Any, **named: Any) -> os.stat_result:
        found = genuine(path, **named)
        if path == "plan.json":
            (root / "plans").rename(root / "aside")
            (root / "plans").symlink_to(victim)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", swap)
        assert local_tree.delete_file(root, ["plans", "plan.json"])
    assert (victim / "plan.json").exists()
    assert not (root / "aside" / "plan.json").exists()


@pytest.mark.parametrize("name", ["..", "a\nb", "-rf", "\udcff", "PLAN.JSON", "plan.json.bak", ".plan.json.xyz"])
def test_odd_names_in_a_plan_folder_stay(world: World, name: str) -> None:
    """Only the names that the writers of a plan and its attempts give are deleted."""
    folder = get_plan_folder(world)
    inside = folder / "a2"
    inside.mkdir(exist_ok=True)
    odd = inside / (name if name != ".." else "..x")
    odd.write_text("mine")
    (inside / "manifest.json").write_text("{}")
    (folder / "unknown").mkdir()
    (folder / "unknown" / "manifest.json").write_text("of no recorded attempt")
    sweep(world)
    assert odd.read_text() == "mine"
    assert (folder / "unknown" / "manifest.json").exists()
    assert not (folder / "plan.json").exists()


def test_write_below_a_root_follows_an_administrators_link_to_the_root_only(tmp_path: Path) -> None:
    """The root may be a link; a folder below it may not."""
    disk = tmp_path / "disk"
    disk.mkdir()
    (tmp_path / "staging").symlink_to(disk)
    storage.write_bytes(f"{tmp_path}/staging/plans/t/p/plan.json", b"{}", below=f"{tmp_path}/staging")
    assert (disk / "plans" / "t" / "p" / "plan.json").read_bytes() == b"{}"
    (disk / "linked").symlink_to(disk / "plans")
    with pytest.raises(LinkedFolderError, match="is a link"):
        storage.write_bytes(f"{tmp_path}/staging/linked/x.json", b"{}", below=f"{tmp_path}/staging")


def test_link_under_the_name_of_a_file_is_not_deleted(tmp_path: Path) -> None:
    """A link is no file of Winnow's, wherever it leads and whatever its name is."""
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "plan.json").symlink_to(tmp_path / "victim")
    assert not storage.delete(f"{tmp_path}/plan.json", below=str(tmp_path))
    assert (tmp_path / "plan.json").is_symlink()
    assert storage.delete(f"{tmp_path}/missing.json", below=str(tmp_path))


def test_file_that_is_written_again_is_not_written_through_another_name_of_it(tmp_path: Path) -> None:
    """A planted link, hard or symbolic, under the name of a file to be written leaves what it leads to as it is."""
    plants: list[Callable[[Path, Path], None]] = [os.link, os.symlink]
    for number, plant in enumerate(plants):
        victim = tmp_path / f"victim-{number}"
        victim.write_text("mine")
        plant(victim, tmp_path / f"new-{number}.parquet")
        with storage.create_file(f"{tmp_path}/new-{number}.parquet", below=str(tmp_path)) as stream:
            stream.write(b"data")
        assert victim.read_text() == "mine"
        assert (tmp_path / f"new-{number}.parquet").read_bytes() == b"data"


PLACES: list[tuple[str, Callable[[str], str], str | None]] = [
    ("file:///lake/t", lambda root: "file:/lake/t/metadata/x.avro", "metadata/x.avro"),
    ("file:///lake/t", lambda root: "/lake//t/metadata/x.avro", "metadata/x.avro"),
    ("file:///lake/t", lambda root: "file:///lake/%74/metadata/x.avro", "metadata/x.avro"),
    ("file:///lake/t", lambda root: "file:///lake/t/../u/x.avro", None),
    ("file:///lake/t", lambda root: "file:///lake/t/%2e%2e/u/x.avro", None),
    ("file:///lake/t", lambda root: "file:///lake/tt/x.avro", None),
    ("file:///lake/t", lambda root: root, None),
    ("s3://lake/t", lambda root: "s3a://lake/t/x.avro", "x.avro"),
    ("s3://lake/t", lambda root: "s3://lake/t-other/x.avro", None),
    ("s3://lake/t", lambda root: "s3://other/t/x.avro", None),
    ("s3://lake/t", lambda root: "s3://lake/t//x.avro", None),
]


@pytest.mark.parametrize(("root", "make", "below"), PLACES)
def test_place_below_a_root_is_found_however_it_is_written(
    root: str, make: Callable[[str], str], below: str | None
) -> None:
    assert storage.find_path_below(root, make(root)) == below
