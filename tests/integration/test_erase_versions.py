"""Erasing keys from buckets that keep versions: no version of a file with the key stays, or nothing is begun."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.cli_runner import winnow
from tests.support.versioned_store import VersionedStore, start_versioned_store
from tests.support.versioned_world import (
    BUCKET,
    KEY,
    LAKE,
    declare_final_deletes,
    erase,
    find_key_versions,
    ingest_twice,
    keep_old_versions,
    name_in_bucket,
    open_versioned_world,
)
from tests.support.world import TOPIC, World
from winnow.errors import ConfigurationError, KeptVersionsError, RunAgainError
from winnow.files import object_versions
from winnow.files.object_versions import VersionedFolder
from winnow.pipeline.admin.erased_versions import open_versions
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.backup.create import create_backup
from winnow.pipeline.backup.erased_backups import erase_backups
from winnow.pipeline.erase.certificate import make_certificate
from winnow.pipeline.erase.erase import EraseRequest, commit_erasure


@pytest.fixture(scope="module")
def server() -> Iterator[VersionedStore]:
    """One server for the tests of this file."""
    with start_versioned_store() as store:
        yield store


@pytest.fixture
def store(server: VersionedStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[VersionedStore]:
    """The server, empty, which the environment names."""
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    yield server
    server.reset()


@pytest.fixture
def world(store: VersionedStore, tmp_path: Path) -> Iterator[World]:
    """A topic in a bucket with versioning; each of its two files holds the key."""
    store.create_versioned_bucket(BUCKET)
    with open_versioned_world(tmp_path) as opened:
        ingest_twice(opened)
        yield opened


def commit(world: World) -> None:
    """Erase the key for readers alone."""
    commit_erasure(world.installation, EraseRequest(TOPIC, [KEY], "request 4711"))


def list_live_keys(world: World) -> set[str]:
    return {name_in_bucket(segment.path) for segment in world.segments()}


@pytest.mark.parametrize("status", ["Enabled", "Suspended"])
def test_no_version_of_a_file_with_the_key_stays(store: VersionedStore, tmp_path: Path, status: str) -> None:
    """Also of files that a sweep deleted before the erasure, and of the table of the latest state."""
    store.create_versioned_bucket(BUCKET)
    with open_versioned_world(tmp_path) as world:
        keep_old_versions(world)
        there = store.keys(BUCKET)
        assert [key for key in find_key_versions(store) if key not in there]
        before = world.read()
        store.set_versioning(BUCKET, status)
        report = erase(world)
        found = make_certificate(world.installation, report.erasure_id)
        assert world.read() == [each for each in before if each.key != KEY]
    assert report.deleted
    assert find_key_versions(store) == []
    assert {(each.is_gone, each.answer) for each in found.files} == {(True, "no version listed")}
    there = store.keys(BUCKET)
    assert [key for key, _, _ in store.list_versions(BUCKET) if key.endswith(".parquet") and key not in there] == []


def test_certificate_tells_of_a_version_that_is_there_again(world: World, store: VersionedStore) -> None:
    report = erase(world)
    key = name_in_bucket(make_certificate(world.installation, report.erasure_id).files[0].file.path)
    store.boto.put_object(Bucket=BUCKET, Key=key, Body=b"back")
    store.boto.delete_object(Bucket=BUCKET, Key=key)
    found = make_certificate(world.installation, report.erasure_id)
    assert (found.files[0].is_gone, found.files[0].answer) == (False, "2 versions listed")
    assert found.open_because == "1 file is there again, or the store has versions of them"


def test_no_version_of_a_file_with_the_key_stays_in_a_bucket_of_backups(store: VersionedStore, world: World) -> None:
    backups = f"s3://{BUCKET}/backups"
    create_backup(world.installation, backups)
    assert erase(world).deleted
    create_backup(world.installation, backups)
    assert find_key_versions(store), "the warehouse has none any more, and the backup has"
    assert len(erase_backups(world.installation, backups).deleted) == 1
    assert find_key_versions(store) == []


def test_bucket_without_versions_is_asked_and_nothing_else_is_done(store: VersionedStore, tmp_path: Path) -> None:
    store.create_bucket(BUCKET)
    with open_versioned_world(tmp_path) as world:
        ingest_twice(world)
        report = erase(world)
        found = make_certificate(world.installation, report.erasure_id)
    assert report.deleted
    assert {each.answer for each in found.files} == {"no such object, in a bucket that keeps no versions"}
    assert {"versions", "versionId", "object-lock"} & store.list_parameters() == set()


def test_refusals_come_before_anything_is_done(
    world: World, store: VersionedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing right, a store that cannot be asked, and a missing library."""
    before = store.list_versions(BUCKET)
    rights = {
        "versioning": "s3:GetBucketVersioning",
        "object-lock": "s3:GetBucketObjectLockConfiguration",
        "versions": "s3:ListBucketVersions",
        "versionId": "s3:DeleteObjectVersion",
        "uploads": "s3:ListBucketMultipartUploads",
    }
    for parameter, right in rights.items():
        store.refuse(parameter)
        with pytest.raises(KeptVersionsError, match=right) as refused:
            erase(world)
        assert (refused.value.exit_code, refused.value.left) == (6, "Nothing was changed.")
    store.refuse("versioning", status=501)
    with pytest.raises(KeptVersionsError, match="WINNOW_ERASE__TRUST_BUCKET_DELETES=true"):
        erase(world)
    monkeypatch.setitem(sys.modules, "boto3", None)
    object_versions._make_client.cache_clear()
    with pytest.raises(ConfigurationError, match=r"pip install 'winnow-log\[s3\]'"):
        erase(world)
    store.refuse()
    assert store.list_versions(BUCKET) == before


def test_store_that_cannot_be_asked_serves_where_a_person_declares_it(world: World, store: VersionedStore) -> None:
    store.refuse("versioning", status=501)
    declared = declare_final_deletes(world)
    report = erase(declared)
    found = make_certificate(declared.installation, report.erasure_id)
    assert report.deleted
    assert any("erase.trust_bucket_deletes" in place for place in found.document.outside)
    assert all("is declared (erase.trust_bucket_deletes)" in each.answer for each in found.files)


def test_google_and_azure_are_refused_until_a_person_declares_it_and_disks_are_asked_nothing(world: World) -> None:
    for place in ("gs://lake/warehouse", "abfss://lake@account.dfs.core.windows.net/warehouse"):
        with pytest.raises(KeptVersionsError, match="soft delete"):
            open_versions(world.installation, place)
        assert open_versions(declare_final_deletes(world).installation, place) is None
    for place in (f"file://{world.folder}", "hdfs://nameservice1/lake"):
        assert open_versions(world.installation, place) is None


def test_bucket_that_locks_every_object_refuses_with_exit_code_6(
    store: VersionedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINNOW_HOME", str(tmp_path / "home"))
    for name, value in LAKE.items():
        monkeypatch.setenv(name, value)
    store.create_locked_bucket(BUCKET, {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}})
    with open_versioned_world(tmp_path) as world:
        ingest_twice(world)
    before = store.list_versions(BUCKET)
    said = winnow("erase", TOPIC, "--key", KEY.decode(), "--reason", "request 1", code=6).stderr
    assert "object lock, GOVERNANCE" in said
    assert "Nothing was changed." in said
    assert store.list_versions(BUCKET) == before


def test_single_version_that_is_held_refuses(store: VersionedStore, tmp_path: Path) -> None:
    store.create_locked_bucket(BUCKET)
    with open_versioned_world(tmp_path) as world:
        ingest_twice(world)
        before = store.list_versions(BUCKET)
        key = min(list_live_keys(world))
        store.boto.put_object_legal_hold(Bucket=BUCKET, Key=key, LegalHold={"Status": "ON"})
        with pytest.raises(KeptVersionsError, match=f"A legal hold keeps a version of .*{key}"):
            erase(world)
        store.boto.put_object_legal_hold(Bucket=BUCKET, Key=key, LegalHold={"Status": "OFF"})
        until = {"Mode": "GOVERNANCE", "RetainUntilDate": datetime(2100, 1, 1, tzinfo=UTC)}
        store.boto.put_object_retention(Bucket=BUCKET, Key=key, Retention=until)
        with pytest.raises(KeptVersionsError, match=f"A retention keeps a version of .*{key}"):
            erase(world)
        assert store.list_versions(BUCKET) == before


class Killed(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("deletions_before", [0, 1])
def test_sweep_goes_on_where_the_removal_of_versions_was_killed(
    world: World, store: VersionedStore, monkeypatch: pytest.MonkeyPatch, deletions_before: int
) -> None:
    """Between the deletion of files and that of versions, or between versions and markers: no object comes back."""
    genuine, calls = VersionedFolder._delete, 0

    def die(folder: VersionedFolder, versions: list[object]) -> None:
        nonlocal calls
        calls += 1
        if calls > deletions_before:
            raise Killed
        genuine(folder, versions)  # type: ignore[arg-type]

    holding = list_live_keys(world)
    with monkeypatch.context() as patch:
        patch.setattr(VersionedFolder, "_delete", die)
        with pytest.raises(Killed):
            erase(world)
    assert holding & store.keys(BUCKET).keys() == set()
    assert len(world.head().state.unfinished_erasures) == 1
    sweep_topics(world.installation, [TOPIC])
    assert find_key_versions(store) == []
    assert holding & {key for key, _, _ in store.list_versions(BUCKET)} == set()
    assert world.head().state.unfinished_erasures == ()


def test_erasure_is_not_through_while_versions_cannot_be_removed(world: World, store: VersionedStore) -> None:
    commit(world)
    store.refuse("delete")
    (report,) = sweep_topics(world.installation, [TOPIC])
    assert "s3:DeleteObjectVersion" in report.message
    assert len(world.head().state.unfinished_erasures) == 1
    with pytest.raises(RunAgainError, match="s3:DeleteObjectVersion"):
        erase(world)
    store.refuse()
    assert erase(world).deleted
    assert find_key_versions(store) == []


def test_only_what_winnow_deleted_loses_its_versions(world: World, store: VersionedStore) -> None:
    """A live file that somebody else deleted can be brought back, and a file that no commit names yet is there."""
    commit(world)
    folder = name_in_bucket(world.head().location)
    name = f"{'a' * 32}/a1/t0/00000-00000000000000000000-00000.parquet"
    others = [f"{folder}/data/x.parquet", f"{folder}/{name}", f"other/data/{name}", f"{folder}2/data/{name}"]
    for key in others:
        store.boto.put_object(Bucket=BUCKET, Key=key, Body=b"mine")
    attempt = f"{folder}/data/{name}"
    store.boto.put_object(Bucket=BUCKET, Key=attempt, Body=b"not named yet")
    live = min(list_live_keys(world))
    for key in (live, *others):
        store.boto.delete_object(Bucket=BUCKET, Key=key)
    sweep_topics(world.installation, [TOPIC])
    left = [key for key, _, _ in store.list_versions(BUCKET)]
    assert [left.count(key) for key in (live, *others)] == [2] * 5
    assert attempt in store.keys(BUCKET)


def test_broken_off_uploads_of_earlier_calls_are_aborted_and_those_of_calls_at_work_go_on(
    world: World, store: VersionedStore
) -> None:
    folder = f"{name_in_bucket(world.head().location)}/data"
    name = "00000-00000000000000000000-00000.parquet"
    run, call = f"{folder}/{'a' * 32}/a1/t0/{name}", f"{folder}/ingest-{'b' * 32}/app/t0/{name}"
    at_work, other = f"{folder}/ingest-{'c' * 32}/app/t0/{name}", f"{folder}/x.parquet"
    commit(world)
    least = world.head().state.first_valid_ingest
    world.installation.store.ingests.open("c" * 32, TOPIC, least_number=least, holder="x", now_ms=world.clock())
    for key in (run, call, at_work, other):
        store.boto.create_multipart_upload(Bucket=BUCKET, Key=key)
    sweep_topics(world.installation, [TOPIC])
    assert store.list_uploads(BUCKET) == sorted([at_work, other])
