"""Plans and staging manifests in the staging area. The manifest is written last; until then files do not count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from winnow import documents
from winnow.errors import WinnowError
from winnow.files import storage
from winnow.model import Plan, StagingManifest

DOCUMENTS_AT_ONCE = 16

Item = TypeVar("Item")
Result = TypeVar("Result")


def plan_uri(staging: str, topic: str, plan_id: str) -> str:
    """Where a plan rests."""
    return storage.join(staging, "plans", topic, plan_id, "plan.json")


def manifest_uri(plan_document_uri: str, attempt: str) -> str:
    """Where the staging manifest of one attempt rests: beside its plan."""
    return storage.join(plan_document_uri.rsplit("/", 1)[0], attempt, "manifest.json")


def write_plan(staging: str, plan: Plan) -> str:
    """Write ``plan``; writing it again changes nothing. Returns its URI."""
    uri = plan_uri(staging, plan.topic, plan.plan_id)
    if not storage.exists(uri):
        storage.write_bytes(uri, documents.dump_json(plan))
    return uri


def read_plan(uri: str) -> Plan:
    """The plan at ``uri``.

    Raises:
        WinnowError: there is none, or it is damaged.
        FormatVersionError: a newer Winnow wrote it.
    """
    try:
        return documents.load_json(Plan, storage.read_bytes(uri))
    except FileNotFoundError as problem:
        raise WinnowError(f"There is no plan at {uri}. Nothing was changed; plan the topic again.") from problem


def read_plans(uris: Sequence[str]) -> dict[str, Plan]:
    """The plans at ``uris``, many at a time: an object store takes its time over each, and a batch may have thousands.

    Raises:
        WinnowError, FormatVersionError: as :func:`read_plan`.
    """
    return dict(zip(uris, at_once(read_plan, uris), strict=True))


def at_once(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """``work`` on each of ``items``, documents of the staging area, several at a time; the results in their order."""
    with ThreadPoolExecutor(DOCUMENTS_AT_ONCE) as pool:
        return list(pool.map(work, items))


def write_manifest(plan_document_uri: str, manifest: StagingManifest) -> str:
    """Write the staging manifest of an attempt. Returns its URI."""
    uri = manifest_uri(plan_document_uri, manifest.attempt)
    storage.write_bytes(uri, documents.dump_json(manifest))
    return uri


def read_manifest(plan_document_uri: str, attempt: str) -> StagingManifest | None:
    """The staging manifest of ``attempt``, None when that attempt did not get so far."""
    uri = manifest_uri(plan_document_uri, attempt)
    try:
        return documents.load_json(StagingManifest, storage.read_bytes(uri))
    except FileNotFoundError:
        return None
