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
    OTHERS,
    declare_final_deletes,
    erase,
    find_key_versions,
    keep_old_versions,
    name_in_bucket,
    open_versioned_world,
)
from tests.support.world import TOPIC, World, record
from winnow.errors import ConfigurationError, KeptVersionsError, RunAgainError
from winnow.files import object_versions
from winnow.files.object_versions import VersionedFolder
from winnow.pipeline.admin.erased_versions import open_versions
from winnow.pipeline.admin.sweep import sweep_topics
from winnow.pipeline.erase.certificate import make_certificate
from winnow.pipeline.erase.erase import EraseRequest, commit_erasure


@pytest.fixture(scope="module")
def server() -> Iterator[VersionedStore]:
    """One server for the tests of this file."""
    with start_versioned_store() as store:
        yield store


@pytest.fixture
def store(server: VersionedStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[VersionedStore]:
    """The server, which serves every request, and which the environment names."""
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    yield server
    server.reset()


@pytest.fixture
def world(store: VersionedStore, tmp_path: Path) -> Iterator[World]:
    """A topic in a bucket with versioning, in which a compaction and a sweep have left versions."""
    store.create_versioned_bucket(BUCKET)
    with open_versioned_world(tmp_path) as opened:
        keep_old_versions(opened)
        yield opened


def test_no_version_of_a_file_with_the_key_stays(world: World, store: VersionedStore) -> None:
    """Also of those that a sweep deleted before the erasure, and of the table of the latest state."""
    deleted_before = {key for key in find_key_versions(store) if key not in store.keys(BUCKET)}
    assert deleted_before
    before = world.read()
    report = erase(world)
    assert report.deleted
    assert find_key_versions(store) == []
    assert world.read() == [each for each in before if each.key != KEY]


def test_versions_that_were_kept_before_versioning_was_suspended_go_as_well(
    world: World, store: VersionedStore
) -> None:
    store.set_versioning(BUCKET, "Suspended")
    assert erase(world).deleted
    assert find_key_versions(store) == []


def test_no_delete_marker_of_a_deleted_data_file_stays(world: World, store: VersionedStore) -> None:
    erase(world)
    there = store.keys(BUCKET)
    assert [key for key, _, _ in store.list_versions(BUCKET) if key.endswith(".parquet") and key not in there] == []


def test_certificate_says_by_which_answer_of_the_store_a_file_is_gone(world: World, store: VersionedStore) -> None:
    report = erase(world)
    found = make_certificate(world.installation, report.erasure_id)
    assert {(each.is_gone, each.answer) for each in found.files} == {(True, "no version listed")}
    path = found.files[0].file.path
    store.boto.put_object(Bucket=BUCKET, Key=name_in_bucket(path), Body=b"back")
    store.boto.delete_object(Bucket=BUCKET, Key=name_in_bucket(path))
    (again, *_) = make_certificate(world.installation, report.erasure_id).files
    assert (again.is_gone, again.answer) == (False, "2 version(s) listed")


def test_bucket_without_versions_is_asked_and_nothing_else_is_done(store: VersionedStore, tmp_path: Path) -> None:
    store.create_bucket(BUCKET)
    with open_versioned_world(tmp_path) as world:
        keep_old_versions(world)
        report = erase(world)
        found = make_certificate(world.installation, report.erasure_id)
    assert report.deleted
    assert {each.answer for each in found.files} == {"no such object, in a bucket that keeps no versions"}
    assert {"versions", "versionId", "object-lock"} & store.list_parameters() == set()


@pytest.mark.parametrize(
    ("request_name", "right"),
    [
        ("versioning", "s3:GetBucketVersioning"),
        ("object-lock", "s3:GetBucketObjectLockConfiguration"),
        ("versions", "s3:ListBucketVersions"),
        ("versionId", "s3:DeleteObjectVersion"),
        ("uploads", "s3:ListBucketMultipartUploads"),
    ],
)
def test_missing_right_is_said_before_anything_is_done(
    world: World, store: VersionedStore, request_name: str, right: str
) -> None:
    before = store.list_versions(BUCKET)
    store.refuse(request_name)
    with pytest.raises(KeptVersionsError, match=right) as refused:
        erase(world)
    store.refuse()
    assert refused.value.exit_code == 6
    assert refused.value.left == "Nothing was changed."
    assert store.list_versions(BUCKET) == before


def test_bucket_that_locks_every_object_refuses_with_exit_code_6(
    store: VersionedStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINNOW_HOME", str(tmp_path / "home"))
    for name, value in LAKE.items():
        monkeypatch.setenv(name, value)
    store.boto.create_bucket(Bucket=BUCKET, ObjectLockEnabledForBucket=True)
    rule = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}
    with open_versioned_world(tmp_path) as world:
        world.create(1)
        world.ingest([record(0, KEY, b"value")])
    store.boto.put_object_lock_configuration(
        Bucket=BUCKET, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule}
    )
    before = store.list_versions(BUCKET)
    said = winnow("erase", TOPIC, "--key", KEY.decode(), "--reason", "request 1", code=6).stderr
    assert "object lock, GOVERNANCE" in said
    assert "Nothing was changed." in said
    assert store.list_versions(BUCKET) == before


@pytest.mark.parametrize("kind", ["hold", "retention"])
def test_single_version_that_is_held_refuses(store: VersionedStore, tmp_path: Path, kind: str) -> None:
    store.boto.create_bucket(Bucket=BUCKET, ObjectLockEnabledForBucket=True)
    with open_versioned_world(tmp_path) as world:
        world.create(1)
        world.ingest([record(0, KEY, b"value")])
        key = name_in_bucket(world.segments()[0].path)
        if kind == "hold":
            store.boto.put_object_legal_hold(Bucket=BUCKET, Key=key, LegalHold={"Status": "ON"})
        else:
            until = {"Mode": "GOVERNANCE", "RetainUntilDate": datetime(2100, 1, 1, tzinfo=UTC)}
            store.boto.put_object_retention(Bucket=BUCKET, Key=key, Retention=until)
        before = store.list_versions(BUCKET)
        with pytest.raises(KeptVersionsError, match=f"(legal hold|retention) keeps a version of .*{key}"):
            erase(world)
    assert store.list_versions(BUCKET) == before


def test_store_that_cannot_be_asked_refuses_until_a_person_declares_it(world: World, store: VersionedStore) -> None:
    store.refuse("versioning", status=501)
    with pytest.raises(KeptVersionsError, match="WINNOW_ERASE__TRUST_BUCKET_DELETES=true"):
        erase(world)
    world = declare_final_deletes(world)
    report = erase(world)
    found = make_certificate(world.installation, report.erasure_id)
    assert report.deleted
    assert any("erase.trust_bucket_deletes" in place for place in found.document.outside)
    assert all("is declared (erase.trust_bucket_deletes)" in each.answer for each in found.files)


@pytest.mark.parametrize("place", ["gs://lake/warehouse", "abfss://lake@account.dfs.core.windows.net/warehouse"])
def test_google_and_azure_are_refused_until_a_person_declares_it(world: World, place: str) -> None:
    with pytest.raises(KeptVersionsError, match="soft delete"):
        open_versions(world.installation, place)
    assert open_versions(declare_final_deletes(world).installation, place) is None


def test_disk_and_hdfs_are_asked_nothing(world: World) -> None:
    assert open_versions(world.installation, f"file://{world.folder}") is None
    assert open_versions(world.installation, "hdfs://nameservice1/lake") is None


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

    there = set(store.keys(BUCKET))
    with monkeypatch.context() as patch:
        patch.setattr(VersionedFolder, "_delete", die)
        with pytest.raises(Killed):
            erase(world)
    came_back = {key for key in store.keys(BUCKET) if key.endswith(".parquet")} - there
    assert [key for key in came_back if key not in list_live_keys(world)] == []
    assert len(world.head().state.unfinished_erasures) == 1
    sweep_topics(world.installation, [TOPIC])
    assert find_key_versions(store) == []
    assert world.head().state.unfinished_erasures == ()


def list_live_keys(world: World) -> set[str]:
    return {name_in_bucket(segment.path) for number in (0, 1) for segment in world.segments(number)}


def test_erasure_is_not_through_while_versions_cannot_be_removed(world: World, store: VersionedStore) -> None:
    commit_erasure(world.installation, EraseRequest(TOPIC, [KEY], "request 4711"))
    store.refuse("delete")
    (report,) = sweep_topics(world.installation, [TOPIC])
    assert "s3:DeleteObjectVersion" in report.message
    assert len(world.head().state.unfinished_erasures) == 1
    with pytest.raises(RunAgainError, match="s3:DeleteObjectVersion"):
        erase(world)
    store.refuse()
    assert erase(world).deleted
    assert find_key_versions(store) == []


def test_live_file_that_somebody_deleted_keeps_its_versions(world: World, store: VersionedStore) -> None:
    """The owner of the bucket can bring it back: only what Winnow deleted loses its versions."""
    commit_erasure(world.installation, EraseRequest(TOPIC, [KEY], "request 4711"))
    key = min(list_live_keys(world))
    store.boto.delete_object(Bucket=BUCKET, Key=key)
    sweep_topics(world.installation, [TOPIC])
    assert len([each for each in store.list_versions(BUCKET) if each[0] == key]) == 2


def test_versions_of_other_files_in_the_bucket_stay(world: World, store: VersionedStore) -> None:
    folder = name_in_bucket(world.head().location)
    others = [
        f"{folder}/notes.txt",
        f"{folder}/data/notes.txt",
        "elsewhere/data/x.parquet",
        f"{folder}2/data/x.parquet",
    ]
    for key in others:
        store.boto.put_object(Bucket=BUCKET, Key=key, Body=b"mine")
        store.boto.delete_object(Bucket=BUCKET, Key=key)
    erase(world)
    assert {key for key, _, _ in store.list_versions(BUCKET)} >= set(others)


def test_broken_off_uploads_of_earlier_calls_are_aborted_and_those_of_calls_at_work_go_on(
    world: World, store: VersionedStore
) -> None:
    folder = f"{name_in_bucket(world.head().location)}/data"
    begun = {
        "run": f"{folder}/{'a' * 32}/a1/t0/00000-00000000000000000000-00000.parquet",
        "call": f"{folder}/ingest-{'b' * 32}/t0/00000-00000000000000000000-00000.parquet",
        "other": f"{folder}/notes.txt",
    }
    for key in begun.values():
        store.boto.create_multipart_upload(Bucket=BUCKET, Key=key)
    commit_erasure(world.installation, EraseRequest(TOPIC, [KEY], "request 4711"))
    least = world.head().state.first_valid_ingest
    at_work = begun["call"].replace("b" * 32, "c" * 32)
    world.installation.store.ingests.open("c" * 32, TOPIC, least_number=least, holder="x", now_ms=world.clock())
    store.boto.create_multipart_upload(Bucket=BUCKET, Key=at_work)
    sweep_topics(world.installation, [TOPIC])
    assert store.list_uploads(BUCKET) == sorted([begun["other"], at_work])


def test_missing_library_is_named_before_anything_is_done(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    object_versions._make_client.cache_clear()
    before = world.snapshot_ids()
    with pytest.raises(ConfigurationError, match=r"pip install 'winnow-log\[s3\]'"):
        erase(world)
    assert world.snapshot_ids() == before


def test_others_are_read_as_before(world: World) -> None:
    erase(world)
    assert [each for each in world.read() if each.key == KEY] == []
    assert {each.key for each in world.read()} == OTHERS
