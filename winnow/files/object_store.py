"""Configures access to object stores: endpoint, region and credentials.

Every process of Winnow that touches data (command, Airflow task, Spark driver and executor) finds its access in its own
environment, or in the machine's instance role; so nothing of it is in an argument, a plan, a manifest or a log::

    AWS_ENDPOINT_URL_S3, else AWS_ENDPOINT_URL   the URL of a store that is not AWS's
    AWS_REGION, else AWS_DEFAULT_REGION          us-east-1 where an endpoint is named and no region
    AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, or a file that AWS_SHARED_CREDENTIALS_FILE names

Arrow's client reads the credentials by itself, the endpoint only when it is made from a URI, and PyIceberg makes it
otherwise; so endpoint and region are looked up here, for both. An installation may instead say them once as properties
of its catalog (``s3.endpoint`` …): :func:`export` makes variables of them, which started processes inherit.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlparse

if TYPE_CHECKING:
    from pyarrow import fs

S3_SCHEMES = frozenset({"s3", "s3a"})
"""``s3a`` is Hadoop's name for the same."""

GCS_SCHEMES = frozenset({"gs", "gcs"})

GCS_RETRY_SECONDS = 20
"""So long Google's client tries one operation again. Its default, 15 minutes, looks like a command that hangs."""

DEFAULT_REGION = "us-east-1"
"""Signatures name a region, also where the store has none."""

_VARIABLES: dict[str, tuple[str, ...]] = {
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "access-key-id": ("AWS_ACCESS_KEY_ID",),
    "secret-access-key": ("AWS_SECRET_ACCESS_KEY",),
    "session-token": ("AWS_SESSION_TOKEN",),
}
"""PyIceberg's names behind ``s3.``, and the variables that say the same; the first that is set counts."""

_STORES = ("AWS Error", "Azure error", "google::cloud")
"""How Arrow's clients begin what an object store answered; the operating system's errors have a number instead."""


def export_credentials(catalog: Mapping[str, str], env: MutableMapping[str, str] | None = None) -> None:
    """Put what the catalog's properties say of S3 into ``env`` (the process's own when left out).

    The properties win, as they do in PyIceberg, so that tables and the files beside them are looked for in one store.
    """
    target = os.environ if env is None else env
    for name, variables in _VARIABLES.items():
        value = catalog.get(f"s3.{name}") or catalog.get(f"client.{name}")
        if value:
            target[variables[0]] = value


def add_store_properties(catalog: Mapping[str, str], env: Mapping[str, str] | None = None) -> dict[str, str]:
    """``catalog`` with endpoint and region of the environment, where it says none itself; no credentials.

    Without a region PyIceberg would ask AWS for that of the bucket, whoever's the store is.
    """
    variables = os.environ if env is None else env
    endpoint = _read_variable("endpoint", variables)
    region = _read_variable("region", variables) or (DEFAULT_REGION if endpoint or catalog.get("s3.endpoint") else None)
    found = {"s3.endpoint": endpoint, "s3.region": None if "client.region" in catalog else region}
    return {**{name: value for name, value in found.items() if value}, **catalog}


def open_remote_filesystem(uri: str, env: Mapping[str, str] | None = None) -> fs.FileSystem:
    """Arrow's client for the store of ``uri``; the same one for the same store and environment.

    Raises:
        OSError, pyarrow.ArrowException: it cannot be made.
    """
    variables = os.environ if env is None else env
    parsed = urlparse(uri)
    return _make_client(
        parsed.scheme, parsed.netloc, _read_variable("endpoint", variables), _read_variable("region", variables)
    )


def is_store_error(problem: OSError) -> bool:
    """Whether an object store, or the way to it, gave ``problem``: not the local disk, and not a file's content."""
    return problem.errno is None and any(store in str(problem) for store in _STORES)


@lru_cache(maxsize=32)
def _make_client(scheme: str, authority: str, endpoint: str | None, region: str | None) -> fs.FileSystem:
    from pyarrow import fs

    if scheme in S3_SCHEMES and (endpoint or region):
        return fs.S3FileSystem(endpoint_override=endpoint, region=region or DEFAULT_REGION)
    # Of AWS itself and without a region, Arrow asks for that of the bucket.
    name = "s3" if scheme in S3_SCHEMES else scheme
    limit = f"?retry_limit_seconds={GCS_RETRY_SECONDS}" if scheme in GCS_SCHEMES else ""
    filesystem, _ = fs.FileSystem.from_uri(f"{name}://{authority}/{limit}")
    return filesystem


def _read_variable(name: str, env: Mapping[str, str]) -> str | None:
    return next((env[variable] for variable in _VARIABLES[name] if env.get(variable)), None)
