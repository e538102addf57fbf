"""Erasing keys on MinIO, a store that keeps versions as S3 does: built once from the Go module proxy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.minio_program import build_minio
from tests.support.versioned_store import VersionedStore, start_minio
from tests.support.versioned_world import (
    BUCKET,
    KEY,
    erase,
    find_key_versions,
    ingest_twice,
    keep_old_versions,
    open_versioned_world,
)
from winnow.errors import KeptVersionsError
from winnow.pipeline.erase.certificate import make_certificate

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif("REAL_CLUSTERS" not in os.environ, reason="MinIO is built with Go first: make cluster-test"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[VersionedStore]:
    """One server for the tests of this file."""
    with start_minio(build_minio()) as running:
        yield running


@pytest.fixture
def store(server: VersionedStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[VersionedStore]:
    """The server, empty, which the environment names."""
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    yield server
    server.remove_versioned_bucket(BUCKET)


@pytest.mark.parametrize("status", ["Enabled", "Suspended"])
def test_no_version_with_the_key_stays_on_minio(store: VersionedStore, tmp_path: Path, status: str) -> None:
    store.create_versioned_bucket(BUCKET)
    with open_versioned_world(tmp_path) as world:
        keep_old_versions(world)
        there = store.keys(BUCKET)
        assert [key for key in find_key_versions(store) if key not in there]
        before = world.read()
        store.set_versioning(BUCKET, status)
        report = erase(world)
        assert report.deleted
        assert world.read() == [each for each in before if each.key != KEY]
        found = make_certificate(world.installation, report.erasure_id)
    assert find_key_versions(store) == []
    assert {each.answer for each in found.files} == {"no version listed"}


def test_bucket_without_versioning_loses_its_files_and_broken_off_uploads(
    store: VersionedStore, tmp_path: Path
) -> None:
    store.create_bucket(BUCKET)
    with open_versioned_world(tmp_path) as world:
        ingest_twice(world)
        folder = world.head().location.removeprefix(f"s3://{BUCKET}/")
        name = f"data/{'a' * 32}/a1/t0/00000-00000000000000000000-00000.parquet"
        for key in (f"{folder}/{name}", f"elsewhere/{name}"):
            store.boto.create_multipart_upload(Bucket=BUCKET, Key=key)
        assert erase(world).deleted
    assert find_key_versions(store) == []
    assert store.list_uploads(BUCKET) == [f"elsewhere/{name}"]


@pytest.mark.parametrize("rule", [None, {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}])
def test_lock_on_the_bucket_or_on_a_version_refuses(
    store: VersionedStore, tmp_path: Path, rule: dict[str, object] | None
) -> None:
    store.create_locked_bucket(BUCKET, rule)
    with open_versioned_world(tmp_path) as world:
        ingest_twice(world)
        if rule is None:
            key = world.segments()[0].path.removeprefix(f"s3://{BUCKET}/")
            store.boto.put_object_legal_hold(Bucket=BUCKET, Key=key, LegalHold={"Status": "ON"})
        before = store.list_versions(BUCKET)
        with pytest.raises(KeptVersionsError, match="legal hold" if rule is None else "object lock"):
            erase(world)
        assert store.list_versions(BUCKET) == before
