"""What a bucket on S3 keeps of deleted objects, and its removal: earlier versions, delete markers, broken-off uploads.

Arrow's client knows nothing of versions, so this is done with ``boto3`` (the extra ``s3``), by the same endpoint and
credentials (:mod:`winnow.files.object_store`, :mod:`winnow.files.vended_credentials`). Only erasures need it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import groupby, islice
from operator import attrgetter
from typing import Any, Final

from winnow.errors import ConfigurationError, KeptVersionsError, ServiceError
from winnow.files import object_store

_MAXIMUM_DELETED: Final = 1_000
"""Maximum objects that a store deletes in one request."""
_FORBIDDEN: Final = 403
_ABSENT: Final = (404, 405, 501)
"""There is no such thing, or the store does not know such requests."""
_CANNOT_TELL: Final[Mapping[str, Any]] = {}
_RIGHTS: Final = {
    "GetBucketVersioning": "s3:GetBucketVersioning",
    "GetObjectLockConfiguration": "s3:GetBucketObjectLockConfiguration",
    "ListObjectVersions": "s3:ListBucketVersions",
    "HeadObject": "s3:GetObjectVersion",
    "DeleteObject": "s3:DeleteObjectVersion",
    "DeleteObjects": "s3:DeleteObjectVersion",
    "ListMultipartUploads": "s3:ListBucketMultipartUploads",
    "AbortMultipartUpload": "s3:AbortMultipartUpload",
}
_PROPERTIES: Final = {
    "s3.endpoint": "endpoint_url",
    "s3.region": "region_name",
    "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
}
"""PyIceberg's names, and those of boto3's arguments."""


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """One version of an object, or a delete marker. ``path``: of the object, below its folder.

    ``is_latest``: it is what a reader gets, or, a marker, why a reader gets nothing.
    """

    path: str
    version_id: str
    is_latest: bool
    is_marker: bool


@dataclass(frozen=True, slots=True)
class OpenUpload:
    """An upload in parts that was begun and neither completed nor aborted; ``path``: below its folder."""

    path: str
    upload_id: str


class VersionedFolder:
    """The versions and open uploads of the objects below one folder of a bucket.

    Every method raises KeptVersionsError where a right is missing, and ServiceError where the store does not answer.

    Args:
        uri: the folder.

    Raises:
        ConfigurationError: boto3 is not installed.
        FileNotFoundError: its credentials are vended, and there is no such table.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/")
        self.bucket, _, key = object_store.find_path_in_store(self.uri).partition("/")
        self._prefix = f"{key}/"
        self._client = _open_client(self.uri)

    @cached_property
    def keeps_versions(self) -> bool | None:
        """Whether the bucket keeps versions or has kept some, which stay; None: this store cannot be asked."""
        answer = self._ask("get_bucket_versioning", absent=_CANNOT_TELL)
        if answer is _CANNOT_TELL:
            return None
        if answer.get("MFADelete") == "Enabled":
            raise KeptVersionsError(
                f"The bucket {self.bucket} deletes versions only with a device of its owner (MFA delete).",
                next="Turn MFA delete off for this bucket.",
            )
        return bool(answer.get("Status"))

    def require_removable(self, probe: str, now_ms: int) -> None:
        """Check that the bucket lets every version below the folder go. Changes nothing.

        Args:
            probe: a path below the folder at which nothing was ever written; deleting a version there tests the right.
            now_ms: the present.

        Raises:
            KeptVersionsError: object lock keeps a version, or a right is missing.
        """
        self._require_no_lock(now_ms)
        self._ask("list_object_versions", Prefix=self._prefix, MaxKeys=1)
        self._ask("delete_object", Key=f"{self._prefix}{probe}", VersionId="null", absent={})

    def _require_no_lock(self, now_ms: int) -> None:
        lock = self._ask("get_object_lock_configuration", absent={}).get("ObjectLockConfiguration", {})
        if retention := lock.get("Rule", {}).get("DefaultRetention"):
            raise KeptVersionsError(
                f"The bucket {self.bucket} keeps every object for a time (object lock, {retention.get('Mode')}).",
                next="Take the default retention off the bucket, and wait until what it holds has ended.",
            )
        if lock.get("ObjectLockEnabled") != "Enabled":
            return
        for each in self.list_versions():
            found = {} if each.is_marker else self._head(each)
            until = found.get("ObjectLockRetainUntilDate")
            is_retained = until is not None and round(until.timestamp() * 1000) > now_ms
            if is_retained or found.get("ObjectLockLegalHoldStatus") == "ON":
                raise KeptVersionsError(
                    f"{'A retention' if is_retained else 'A legal hold'} keeps a version of {self.uri}/{each.path}.",
                    next="Take it off, or wait for its end.",
                )

    def _head(self, version: ObjectVersion) -> Mapping[str, Any]:
        return self._ask("head_object", Key=f"{self._prefix}{version.path}", VersionId=version.version_id, absent={})

    def list_versions(self, path: str = "") -> Iterator[ObjectVersion]:
        """List versions and delete markers below the folder, object by object; ``path``: of the one with this path."""
        prefix = f"{self._prefix}{path}"
        for page in self._paginate("list_object_versions", prefix):
            # Each kind has a list of its own; objects come in the order of their names, on one page after another.
            found = [
                ObjectVersion(each["Key"][len(self._prefix) :], each["VersionId"], each["IsLatest"], is_marker)
                for kind, is_marker in (("Versions", False), ("DeleteMarkers", True))
                for each in page.get(kind, ())
                if not path or each["Key"] == prefix
            ]
            yield from sorted(found, key=lambda each: each.path.encode())

    def remove_old_versions(self, is_removable: Callable[[str], bool]) -> int:
        """Remove the versions and delete markers of objects with a path that ``is_removable``; return how many stay.

        What a reader gets of an object stays.

        Raises:
            KeptVersionsError: the store does not let one go.
        """
        groups = self._group_old(is_removable)
        while some := list(islice(groups, _MAXIMUM_DELETED)):
            # Versions first: a marker that goes before them would bring its object back.
            for is_marker in (False, True):
                self._delete([each for group in some for each in group if each.is_marker is is_marker])
        return sum(map(len, self._group_old(is_removable)))

    def _group_old(self, is_removable: Callable[[str], bool]) -> Iterator[list[ObjectVersion]]:
        for path, group in groupby(self.list_versions(), attrgetter("path")):
            if is_removable(path) and (old := [each for each in group if each.is_marker or not each.is_latest]):
                yield old

    def _delete(self, versions: Sequence[ObjectVersion]) -> None:
        for start in range(0, len(versions), _MAXIMUM_DELETED):
            some = versions[start : start + _MAXIMUM_DELETED]
            named = [{"Key": f"{self._prefix}{each.path}", "VersionId": each.version_id} for each in some]
            for problem in self._ask("delete_objects", Delete={"Objects": named, "Quiet": True}).get("Errors", ()):
                path = str(problem.get("Key", ""))[len(self._prefix) :]
                raise KeptVersionsError(
                    f"The store does not delete a version of {self.uri}/{path} ({problem.get('Code')}).",
                    next="Look for object lock and a missing right (s3:DeleteObjectVersion), then run it again.",
                )

    def list_uploads(self) -> list[OpenUpload]:
        """List the uploads below the folder that are neither completed nor aborted."""
        # Those of the whole bucket are asked for, which are few: MinIO lists none by a folder.
        return [
            OpenUpload(each["Key"][len(self._prefix) :], each["UploadId"])
            for page in self._paginate("list_multipart_uploads", "", absent={})
            for each in page.get("Uploads", ())
            if each["Key"].startswith(self._prefix)
        ]

    def abort_uploads(self, uploads: Iterable[OpenUpload]) -> None:
        """Abort uploads, so that their parts go; one that has ended meanwhile is left."""
        for each in uploads:
            self._ask("abort_multipart_upload", Key=f"{self._prefix}{each.path}", UploadId=each.upload_id, absent={})

    def _paginate(
        self, request: str, prefix: str, absent: Mapping[str, Any] | None = None
    ) -> Iterator[Mapping[str, Any]]:
        with self._translate(absent):
            yield from self._client.get_paginator(request).paginate(Bucket=self.bucket, Prefix=prefix)

    def _ask(self, request: str, absent: Mapping[str, Any] | None = None, **arguments: Any) -> Mapping[str, Any]:
        """Send a request about the bucket. ``absent``: the answer where the store has no such thing, or request."""
        answer: Mapping[str, Any] | None = absent
        with self._translate(absent):
            answer = getattr(self._client, request)(Bucket=self.bucket, **arguments)
        assert answer is not None
        return answer

    @contextmanager
    def _translate(self, absent: Mapping[str, Any] | None) -> Iterator[None]:
        from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]

        try:
            yield
        except ClientError as problem:
            status = problem.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            code = problem.response.get("Error", {}).get("Code")
            if absent is not None and status in _ABSENT and code != "NoSuchBucket":
                return
            if status == _FORBIDDEN:
                right = _RIGHTS[problem.operation_name]
                raise KeptVersionsError(
                    f"The store does not permit {problem.operation_name} in the bucket {self.bucket} ({code}).",
                    next=f"Give this process the right {right}; docs/deploy/s3.md lists all that an erasure needs.",
                ) from problem
            raise self._make_error(f"{problem.operation_name}: {code}") from problem
        except BotoCoreError as problem:
            raise self._make_error(type(problem).__name__) from problem

    def _make_error(self, reason: str) -> ServiceError:
        return ServiceError(
            f"The object store does not say which versions of {self.uri} it has ({reason}).",
            next="Check the bucket, the endpoint (AWS_ENDPOINT_URL_S3) and the credentials, then run it again.",
        )


def _open_client(uri: str) -> Any:
    """Open a client with the endpoint, region and credentials by which Arrow's client opens ``uri``."""
    filesystem = object_store.open_remote_filesystem(uri)
    found = object_store.list_store_properties(os.environ)
    if object_store.is_vending(os.environ):
        found = {**filesystem.handler.find_properties(object_store.find_path_in_store(uri)), **found}
    found.setdefault("s3.region", found.get("client.region", object_store.DEFAULT_REGION))
    return _make_client(tuple(sorted((_PROPERTIES[name], found[name]) for name in _PROPERTIES if name in found)))


@lru_cache(maxsize=8)
def _make_client(arguments: tuple[tuple[str, str], ...]) -> Any:
    try:
        import boto3  # type: ignore[import-untyped]
        from botocore.config import Config  # type: ignore[import-untyped]
    except ImportError as problem:
        raise ConfigurationError(
            "Which versions a bucket keeps cannot be asked: the package boto3 is not installed here.",
            next="Install it for commands and Airflow's workers: pip install 'winnow-log[s3]'",
        ) from problem
    # As Arrow's client: paths where an endpoint is named, since such a store may have no names for its buckets.
    style = "path" if any(name == "endpoint_url" for name, _ in arguments) else "auto"
    config = Config(
        s3={"addressing_style": style},
        retries={"max_attempts": 3, "mode": "standard"},
        connect_timeout=20,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    # A session of its own: boto3's default one is not made for several threads.
    return boto3.session.Session().client("s3", config=config, **dict(arguments))
