"""Configures access to object stores: endpoint, region and credentials.

Each process that reads or writes data (command, Airflow task, Spark driver and executor) takes its access from its own
environment or the machine's instance role; arguments, plans, manifests and logs carry none of it::

  AWS_ENDPOINT_URL_S3, else AWS_ENDPOINT_URL   the URL of a store that is not AWS's
  AWS_REGION, else AWS_DEFAULT_REGION          us-east-1 where an endpoint is named and no region
  AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, or a file that AWS_SHARED_CREDENTIALS_FILE names

Arrow's client reads the credentials itself, but the endpoint only when it is made from a URI, and PyIceberg makes it
another way; so endpoint and region are looked up here for both. Properties of the catalog (``s3.endpoint`` …) can set
the same: :func:`export_credentials` turns them into variables, which child processes inherit.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

if TYPE_CHECKING:
    from pyarrow import fs

S3_SCHEMES = frozenset({"s3", "s3a"})
"""``s3a`` is Hadoop's name for S3."""

GCS_SCHEMES = frozenset({"gs", "gcs"})

AZURE_SCHEMES = frozenset({"abfs", "abfss"})
"""Addresses are ``abfss://container@account.dfs.core.windows.net/path``."""

HADOOP_SCHEMES = frozenset({"hdfs", "viewfs"})

GCS_RETRY_SECONDS = 20
"""Maximum time Google's client retries an operation. Its default, 15 minutes, looks like a command that hangs."""

DEFAULT_REGION = "us-east-1"
"""Signatures contain a region, even where the store has none."""

_VARIABLES: dict[str, tuple[str, ...]] = {
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "access-key-id": ("AWS_ACCESS_KEY_ID",),
    "secret-access-key": ("AWS_SECRET_ACCESS_KEY",),
    "session-token": ("AWS_SESSION_TOKEN",),
}
"""PyIceberg's names after ``s3.``, and the equivalent variables; the first one set counts."""

VENDING_SWITCH = "WINNOW_VENDED_CREDENTIALS"
"""Set where files below the warehouse are opened with credentials that the catalog vends."""
_VENDING_VARIABLES = ("WINNOW_VENDED_", "WINNOW_CATALOG__", "WINNOW_WAREHOUSE", "WINNOW_NAMESPACE", "AWS_")

_STORES = ("AWS Error", "Azure error", "google::cloud", "HDFS error")
"""Prefixes of object-store errors in Arrow's clients; errors of the operating system have a number instead."""


def export_credentials(catalog: Mapping[str, str], env: MutableMapping[str, str] | None = None) -> None:
    """Copy the S3 settings of the catalog's properties into ``env`` (by default the process's own).

    The properties win, as in PyIceberg, so that tables and the files beside them are looked for in one store.
    """
    target = os.environ if env is None else env
    for name, variables in _VARIABLES.items():
        value = catalog.get(f"s3.{name}") or catalog.get(f"client.{name}")
        if value:
            target[variables[0]] = value


def add_store_properties(catalog: Mapping[str, str], env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return ``catalog`` with endpoint and region of the environment where it sets none itself; no credentials.

    Without a region PyIceberg would ask AWS for the bucket's, even if the store is not AWS's.
    """
    variables = os.environ if env is None else env
    endpoint = _read_variable("endpoint", variables)
    region = _read_variable("region", variables) or (DEFAULT_REGION if endpoint or catalog.get("s3.endpoint") else None)
    found = {"s3.endpoint": endpoint, "s3.region": None if "client.region" in catalog else region}
    return {**{name: value for name, value in found.items() if value}, **catalog}


def open_remote_filesystem(uri: str, env: Mapping[str, str] | None = None) -> fs.FileSystem:
    """Return Arrow's client for the store of ``uri``; cached per store and environment.

    On S3, what is below the warehouse is opened with vended credentials where the environment says so
    (:mod:`winnow.files.vended_credentials`).

    Raises:
        OSError, pyarrow.ArrowException: it cannot be made.
        ConfigurationError: the environment does not say which catalog vends credentials.
    """
    variables = os.environ if env is None else env
    parsed = urlparse(uri)
    endpoint, region = _read_variable("endpoint", variables), _read_variable("region", variables)
    if parsed.scheme in S3_SCHEMES and is_vending(variables):
        return _make_vending_client(
            tuple(sorted((name, value) for name, value in variables.items() if name.startswith(_VENDING_VARIABLES)))
        )
    return _make_client(parsed.scheme, parsed.netloc, endpoint, region)


def find_path_in_store(uri: str) -> str:
    """Return the path by which :func:`open_remote_filesystem`'s client knows ``uri``: bucket or container first."""
    parsed = urlparse(uri)
    bucket = parsed.netloc.partition("@")[0] if parsed.scheme in AZURE_SCHEMES else parsed.netloc
    return f"{bucket}{unquote(parsed.path)}".rstrip("/")


def is_store_error(problem: OSError) -> bool:
    """Check whether an object store, or the network to it, raised ``problem``."""
    return problem.errno is None and any(store in str(problem) for store in _STORES)


@lru_cache(maxsize=32)
def _make_client(scheme: str, authority: str, endpoint: str | None, region: str | None) -> fs.FileSystem:
    from pyarrow import fs

    if scheme in HADOOP_SCHEMES:
        from winnow.files.hadoop_store import open_hadoop_filesystem

        return open_hadoop_filesystem(scheme, authority)
    if scheme in S3_SCHEMES and (endpoint or region):
        return fs.S3FileSystem(endpoint_override=endpoint, region=region or DEFAULT_REGION)
    # For AWS itself without a region, Arrow asks for the bucket's.
    name = "s3" if scheme in S3_SCHEMES else scheme
    limit = f"?retry_limit_seconds={GCS_RETRY_SECONDS}" if scheme in GCS_SCHEMES else ""
    filesystem, _ = fs.FileSystem.from_uri(f"{name}://{authority}/{limit}")
    return filesystem


def is_vending(env: Mapping[str, str]) -> bool:
    """Check whether ``env`` says that files below the warehouse are opened with vended credentials."""
    return env.get(VENDING_SWITCH, "").strip().lower() not in {"", "0", "false", "no", "off", "f", "n"}


@lru_cache(maxsize=4)
def _make_vending_client(variables: tuple[tuple[str, str], ...]) -> fs.FileSystem:
    from winnow.files.vended_credentials import open_vended_filesystem

    env = dict(variables)
    endpoint, region = _read_variable("endpoint", env), _read_variable("region", env)
    return open_vended_filesystem(env, lambda bucket: _make_client("s3", bucket, endpoint, region))


def list_store_properties(env: Mapping[str, str]) -> dict[str, str]:
    """Return endpoint and region of ``env``, as PyIceberg names them; those that are set."""
    found = {f"s3.{name}": _read_variable(name, env) for name in ("endpoint", "region")}
    return {name: value for name, value in found.items() if value}


def _read_variable(name: str, env: Mapping[str, str]) -> str | None:
    return next((env[variable] for variable in _VARIABLES[name] if env.get(variable)), None)
