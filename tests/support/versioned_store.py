"""S3 servers that keep versions: moto's, with what it gets wrong of suspended versioning put right, and MinIO's.

Of moto's, single requests can be refused as by a missing right, or as unknown to the store.
``python -m tests.support.versioned_store PORT``.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import boto3  # type: ignore[import-untyped]
import pyarrow as pa
import pyarrow.parquet as pq
from botocore.config import Config  # type: ignore[import-untyped]
from botocore.exceptions import ClientError  # type: ignore[import-untyped]

from tests.support.object_store import REGION, ObjectStore, find_free_port, wait_for_store

_REFUSE = "/refuse"
_RESET = "/moto-api/reset"
_CODES = {"403": "AccessDenied", "501": "NotImplemented"}
_NO_ANSWER = "204 No Content"

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@dataclass(frozen=True)
class VersionedStore(ObjectStore):
    """A server that keeps versions."""

    @property
    def boto(self) -> Any:
        """A client that knows versions, made with no code of Winnow's."""
        return open_client(self)

    def create_versioned_bucket(self, name: str) -> None:
        """Make an empty bucket that keeps versions."""
        self.create_bucket(name)
        self.set_versioning(name, "Enabled")

    def create_locked_bucket(self, name: str, rule: Mapping[str, Any] | None = None) -> None:
        """Make an empty bucket with object lock, and a default retention if there is a ``rule``."""
        self.boto.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
        if rule is not None:
            lock = {"ObjectLockEnabled": "Enabled", "Rule": rule}
            self.boto.put_object_lock_configuration(Bucket=name, ObjectLockConfiguration=lock)

    def remove_versioned_bucket(self, name: str) -> None:
        """Remove the bucket with every version in it, held ones too."""
        for key, version, _ in self.list_versions(name):
            with contextlib.suppress(ClientError):  # no hold is on markers, nor where the bucket has no lock
                self.boto.put_object_legal_hold(Bucket=name, Key=key, VersionId=version, LegalHold={"Status": "OFF"})
            self.boto.delete_object(Bucket=name, Key=key, VersionId=version, BypassGovernanceRetention=True)
        self.boto.delete_bucket(Bucket=name)

    def set_versioning(self, name: str, status: str) -> None:
        """Have the bucket's versioning ``Enabled`` or ``Suspended``."""
        self.boto.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": status})

    def list_versions(self, bucket: str) -> list[tuple[str, str, bool]]:
        """Every version and delete marker of the bucket: key, id, whether it is the latest."""
        return sorted(
            (each["Key"], each["VersionId"], each["IsLatest"])
            for page in self.boto.get_paginator("list_object_versions").paginate(Bucket=bucket)
            for kind in ("Versions", "DeleteMarkers")
            for each in page.get(kind, ())
        )

    def find_versions_with(self, bucket: str, *texts: bytes) -> list[str]:
        """Every version of an object of the bucket in which one of these byte strings can be found, by its key."""
        boto = self.boto
        return [
            each["Key"]
            for page in boto.get_paginator("list_object_versions").paginate(Bucket=bucket)
            for each in page.get("Versions", ())
            for data in [boto.get_object(Bucket=bucket, Key=each["Key"], VersionId=each["VersionId"])["Body"].read()]
            if any(text in content for content in iterate_contents(each["Key"], data) for text in texts)
        ]

    def list_uploads(self, bucket: str) -> list[str]:
        """The keys of the bucket's uploads that are neither completed nor aborted."""
        return sorted(each["Key"] for each in self.boto.list_multipart_uploads(Bucket=bucket).get("Uploads", ()))

    def list_parameters(self) -> set[str]:
        """The names of the parameters of all requests since the last :meth:`reset`."""
        log = self.log.read_text().rpartition(f"POST {_RESET} ")[2]
        return {pair.partition("=")[0] for query in re.findall(r"\?([^ ]*) HTTP", log) for pair in query.split("&")}

    def reset(self) -> None:
        """Forget every bucket and every refusal; of moto's."""
        self.refuse()
        urllib.request.urlopen(urllib.request.Request(f"{self.endpoint}{_RESET}", method="POST"), timeout=30).close()

    def refuse(self, *parameters: str, status: int = 403) -> None:
        """From now on refuse requests with one of these parameters in their address; none: serve all."""
        query = f"parameters={','.join(parameters)}&status={status}"
        urllib.request.urlopen(f"{self.endpoint}{_REFUSE}?{query}", timeout=30).close()


@functools.cache
def open_client(store: VersionedStore) -> Any:
    """Boto's client, which takes a tenth of a second to make."""
    return boto3.session.Session().client(
        "s3",
        endpoint_url=store.endpoint,
        region_name=REGION,
        aws_access_key_id=store.variables["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=store.variables["AWS_SECRET_ACCESS_KEY"],
        config=Config(s3={"addressing_style": "path"}),
    )


def iterate_contents(key: str, data: bytes) -> Iterator[bytes]:
    """The bytes of an object, and those of its keys and values if it is Parquet, which is compressed."""
    yield data
    if key.endswith(".parquet") and data:
        table = pq.read_table(pa.BufferReader(data))
        for name in {"key", "value"} & set(table.column_names):
            yield b"\n".join(each for each in table.column(name).to_pylist() if each is not None)


@contextlib.contextmanager
def start_versioned_store() -> Iterator[VersionedStore]:
    """Moto's server, empty, until the block ends."""
    port = find_free_port()
    command = [sys.executable, "-m", "tests.support.versioned_store", str(port)]
    with run_server(command, port, "moto-api/data.json", {}) as store:
        yield store


@contextlib.contextmanager
def start_minio(program: Path) -> Iterator[VersionedStore]:
    """MinIO, empty, until the block ends."""
    port = find_free_port()
    with tempfile.TemporaryDirectory(prefix="winnow-minio-") as folder:
        address = f"127.0.0.1:{port}"
        command = [str(program), "server", "--quiet", "--address", address, folder]
        keys = ObjectStore("", Path()).variables
        login = {"MINIO_ROOT_USER": keys["AWS_ACCESS_KEY_ID"], "MINIO_ROOT_PASSWORD": keys["AWS_SECRET_ACCESS_KEY"]}
        with run_server(command, port, "minio/health/ready", login) as store:
            yield store


@contextlib.contextmanager
def run_server(command: list[str], port: int, ready: str, variables: Mapping[str, str]) -> Iterator[VersionedStore]:
    """The server that ``command`` starts, once it answers at the address ``ready``, until the block ends."""
    with tempfile.NamedTemporaryFile(prefix="winnow-s3-", suffix=".log") as log:
        store = VersionedStore(f"http://127.0.0.1:{port}", Path(log.name))
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, **variables},
        )
        try:
            wait_for_store(f"{store.endpoint}/{ready}", process)
            yield store
        finally:
            process.kill()
            process.wait()


def guard(serve: Application) -> Application:
    """``serve`` behind the refusals."""
    refused: dict[str, str] = {}

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
        if environ["PATH_INFO"] == _REFUSE:
            refused.clear()
            refused.update(dict.fromkeys(filter(None, query["parameters"][0].split(",")), query["status"][0]))
            start_response(_NO_ANSWER, [])
            return []
        status = next((refused[name] for name in query if name in refused), None)
        if status is None:
            return serve(environ, start_response)
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        body = f"<?xml version='1.0'?><Error><Code>{_CODES[status]}</Code><Message>by the test</Message></Error>"
        headers = [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))]
        start_response(f"{status} Refused", headers)
        return [body.encode()]

    return application


def main() -> None:
    """Serve on the port that is the only argument, until killed."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from moto.s3.models import FakeBucket
    from werkzeug.serving import run_simple

    # Moto takes a bucket with suspended versioning for one that never had any, and loses its versions.
    FakeBucket.is_versioned = property(lambda bucket: bool(bucket.versioning_status))  # type: ignore[assignment]
    application = guard(DomainDispatcherApplication(create_backend_app))
    run_simple("127.0.0.1", int(sys.argv[1]), application, threaded=True)


if __name__ == "__main__":
    main()
