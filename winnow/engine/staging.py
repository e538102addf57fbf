"""Plans, staging manifests and facts as JSON documents in the staging area."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from winnow.engine.events import PlanOutcome, describe_plan_failure
from winnow.errors import PlanVoidError, ServiceError, WinnowError
from winnow.files import storage
from winnow.files.file_names import is_plan_id, is_staged_file
from winnow.values import documents
from winnow.values.documents import compute_document_id
from winnow.values.model import Plan
from winnow.values.results import StagingManifest

MAXIMUM_CONCURRENT_DOCUMENTS = 16

_DIGEST_MARK = "#sha256="

Item = TypeVar("Item")

Result = TypeVar("Result")


def build_plan_uri(staging: str, topic: str, plan_id: str) -> str:
    """Return the URI of a plan."""
    return storage.join(staging, "plans", topic, plan_id, "plan.json")


def find_staging(plan_document_uri: str) -> str:
    """Return the staging area that a plan lies in: the root under which nothing is written through a link."""
    return plan_document_uri.rsplit("/", 4)[0]


def build_manifest_uri(plan_document_uri: str, attempt: str) -> str:
    """Return the URI of an attempt's staging manifest, beside its plan."""
    return storage.join(plan_document_uri.rsplit("/", 1)[0], attempt, "manifest.json")


def write_plan(staging: str, plan: Plan, *, known_sha256: str | None = None) -> tuple[str, str]:
    """Write ``plan``; return its URI and the sha256 of the bytes there.

    An existing document is kept only if its digest is ``known_sha256``, that of the run's row; any other is replaced.
    The same plan may be written again with another log end offset or other estimates, so a job that was given the first
    digest must still find the first bytes.
    """
    uri = build_plan_uri(staging, plan.topic, plan.plan_id)
    data = documents.dump_json(plan)
    sha256 = hashlib.sha256(data).hexdigest()
    present = _read_present_sha256(uri)
    if known_sha256 is not None and present == known_sha256:
        return uri, known_sha256
    if present != sha256:
        storage.write_bytes(uri, data, below=staging)
    return uri, sha256


def _read_present_sha256(uri: str) -> str | None:
    try:
        return hashlib.sha256(storage.read_bytes(uri)).hexdigest()
    except FileNotFoundError:
        return None


def format_plan_argument(uri: str, sha256: str | None) -> str:
    """Format a plan's argument for a job: its URI, and the sha256 of its bytes if known."""
    return uri if sha256 is None else f"{uri}{_DIGEST_MARK}{sha256}"


def parse_plan_argument(argument: str) -> tuple[str, str | None]:
    """Return URI and sha256 of a document named in a job's arguments; None: no digest was given."""
    uri, mark, sha256 = argument.rpartition(_DIGEST_MARK)
    return (uri, sha256) if mark else (argument, None)


def parse_plan_uri(uri: str) -> tuple[str, str]:
    """Return topic and plan id of the plan at ``uri``, from the URI alone."""
    *_, topic, plan_id, _ = ["", "", *uri.split("/")]
    return topic, plan_id


def read_plan(uri: str, sha256: str | None = None) -> Plan:
    """Read the plan at ``uri`` and check that it is the one that was written.

    ``sha256``: the expected digest of its bytes, None if unknown. The plan's id must match its content in any case.

    Raises:
        PlanVoidError: the document was replaced or changed.
        WinnowError: it is missing or damaged.
        FormatVersionError: a newer Winnow wrote it.
    """
    return read_plan_and_digest(uri, sha256)[0]


def read_plan_and_digest(uri: str, sha256: str | None = None) -> tuple[Plan, str]:
    """Read the plan at ``uri``; return it and the sha256 of its bytes.

    Raises:
        PlanVoidError, WinnowError, FormatVersionError: as :func:`read_plan`.
    """
    try:
        data = storage.read_bytes(uri)
    except FileNotFoundError as problem:
        raise WinnowError(
            f"There is no plan at {uri}.",
            left="Nothing was changed.",
            next="Plan the topic again.",
        ) from problem
    found = hashlib.sha256(data).hexdigest()
    if sha256 is not None and found != sha256:
        raise _build_changed_plan_error(uri, f"its bytes have the digest {found[:12]}… and not {sha256[:12]}…")
    plan = documents.load_json(Plan, data)
    if plan.plan_id != compute_document_id(data):
        raise _build_changed_plan_error(uri, "its id is not that of its content")
    return plan, found


def _build_changed_plan_error(uri: str, how: str) -> PlanVoidError:
    topic, plan_id = parse_plan_uri(uri)
    return PlanVoidError(
        f"Plan {plan_id} of topic {topic} is not the plan that was written: {how} ({uri}).",
        left="It is void and was not used. Nothing was published.",
        next="Find out what else writes to the staging area, then run it again: the next run plans the topic anew.",
    )


def read_plans(arguments: Sequence[str]) -> dict[str, Plan | WinnowError]:
    """Read the plans that a job's ``arguments`` name, by URI; a plan that cannot be used becomes its error.

    Many are read at a time: an object store takes time for each, and a batch may have thousands.

    Raises:
        ServiceError: the object store cannot be reached.
    """
    named = [parse_plan_argument(argument) for argument in arguments]
    found = run_concurrently(lambda each: _read_plan_or_error(*each), named)
    return {uri: plan for (uri, _), plan in zip(named, found, strict=True)}


def read_usable_plans(arguments: Sequence[str]) -> tuple[dict[str, Plan], list[PlanOutcome]]:
    """Run :func:`read_plans`; return usable plans by URI, and the outcomes of the others.

    Raises:
        ServiceError: the object store cannot be reached.
    """
    found = read_plans(arguments)
    refused = [
        PlanOutcome(*parse_plan_uri(uri), None, describe_plan_failure(each))
        for uri, each in found.items()
        if isinstance(each, WinnowError)
    ]
    return {uri: plan for uri, plan in found.items() if isinstance(plan, Plan)}, refused


def _read_plan_or_error(uri: str, sha256: str | None) -> Plan | WinnowError:
    try:
        return read_plan(uri, sha256)
    except ServiceError:
        raise
    except WinnowError as problem:
        return problem


def run_concurrently(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Run ``work`` on each of ``items``, documents of the staging area, several at a time; return results in order."""
    with ThreadPoolExecutor(MAXIMUM_CONCURRENT_DOCUMENTS) as pool:
        return list(pool.map(work, items))


def delete_plan(staging: str, topic: str, plan_id: str, uri: str, attempts: Collection[str]) -> tuple[str, ...]:
    """Delete a plan, and the manifests and facts of its ``attempts``; return what else lies there and stays.

    ``uri``: where the run's row says that the plan is. It is deleted in the staging area of the settings alone: at any
    other place, which is that of earlier settings or an invented one, nothing is touched.
    """
    expected = storage.find_path_below(staging, build_plan_uri(staging, topic, plan_id))
    if expected is None or not is_plan_id(plan_id) or storage.find_path_below(staging, uri) != expected:
        return (storage.format_path(uri.rsplit("/", 1)[0]),)
    folder = f"plans/{topic}/{plan_id}"
    found = storage.list_named_files(staging, folder, lambda path: is_staged_file(path, attempts))
    left = [entry.uri for entry in found.files if not storage.delete(entry.uri, below=staging)]
    storage.remove_empty_folders(staging, folder, lambda path: path in attempts)
    storage.sync_deletions(entry.uri for entry in found.files)
    return (*found.others, *left)


def write_manifest(plan_document_uri: str, manifest: StagingManifest) -> str:
    """Write the staging manifest of an attempt; return its URI."""
    uri = build_manifest_uri(plan_document_uri, manifest.attempt)
    storage.write_bytes(uri, documents.dump_json(manifest), below=find_staging(plan_document_uri))
    return uri


def read_manifest(plan_document_uri: str, attempt: str) -> StagingManifest | None:
    """Read the staging manifest of ``attempt``, None if that attempt did not get so far."""
    uri = build_manifest_uri(plan_document_uri, attempt)
    try:
        return documents.load_json(StagingManifest, storage.read_bytes(uri))
    except FileNotFoundError:
        return None


def has_manifest(plan_document_uri: str, attempt: str) -> bool:
    """Check whether ``attempt`` left a staging manifest."""
    return storage.exists(build_manifest_uri(plan_document_uri, attempt))


FactValues = dict[str, int | str]


@dataclass(frozen=True, slots=True)
class FactsDocument:
    """The independent facts of one attempt, by partition. ``manifest_digest``: of the staging manifest they are about.

    If an attempt's manifest was written again, it has other files and these facts do not apply.
    """

    plan_id: str
    topic: str
    attempt: str
    manifest_digest: str
    partitions: dict[int, FactValues]
    format_version: int = 1


def build_facts_uri(plan_document_uri: str, attempt: str) -> str:
    """Return the URI of an attempt's facts, beside its staging manifest."""
    return storage.join(build_manifest_uri(plan_document_uri, attempt).rsplit("/", 1)[0], "facts.json")


def write_facts(
    plan_document_uri: str, manifest: StagingManifest, partitions: dict[int, FactValues]
) -> tuple[str, str]:
    """Write the facts of the attempt of ``manifest``; return their URI and the sha256 of the document."""
    uri = build_facts_uri(plan_document_uri, manifest.attempt)
    facts = FactsDocument(
        manifest.plan_id,
        manifest.topic,
        manifest.attempt,
        documents.compute_digest(manifest),
        dict(sorted(partitions.items())),
    )
    data = documents.dump_json(facts)
    storage.write_bytes(uri, data, below=find_staging(plan_document_uri))
    return uri, hashlib.sha256(data).hexdigest()


def read_facts(plan_document_uri: str, manifest: StagingManifest, sha256: str) -> dict[int, FactValues] | None:
    """Read the facts of the attempt of ``manifest``, by partition; None if there are none of exactly that one.

    ``sha256``: of the document, as reported by the application that wrote it: another may have been written since.

    Raises:
        FormatVersionError: a newer Winnow wrote them.
        WinnowError: they are damaged.
    """
    try:
        data = storage.read_bytes(build_facts_uri(plan_document_uri, manifest.attempt))
    except FileNotFoundError:
        return None
    if hashlib.sha256(data).hexdigest() != sha256:
        return None
    facts = documents.load_json(FactsDocument, data)
    return facts.partitions if facts.manifest_digest == documents.compute_digest(manifest) else None
