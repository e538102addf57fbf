"""Facts that were recomputed elsewhere, on their way to validation: one JSON document beside the staging manifest."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from winnow import documents
from winnow.engine.staging import build_manifest_uri
from winnow.files import storage
from winnow.model import StagingManifest

FactValues = dict[str, int | str]


@dataclass(frozen=True, slots=True)
class FactsDocument:
    """The independent facts of one attempt, by partition. ``manifest_digest``: of the staging manifest they are about.

    An attempt whose manifest was written again has other files, and these facts say nothing of them.
    """

    plan_id: str
    topic: str
    attempt: str
    manifest_digest: str
    partitions: dict[int, FactValues]
    format_version: int = 1


def build_facts_uri(plan_document_uri: str, attempt: str) -> str:
    """Where the facts of an attempt rest: beside its staging manifest."""
    return storage.join(build_manifest_uri(plan_document_uri, attempt).rsplit("/", 1)[0], "facts.json")


def write_facts(
    plan_document_uri: str, manifest: StagingManifest, partitions: dict[int, FactValues]
) -> tuple[str, str]:
    """Write the facts of the attempt that left ``manifest``; their URI and the sha256 of the document's bytes."""
    uri = build_facts_uri(plan_document_uri, manifest.attempt)
    facts = FactsDocument(
        manifest.plan_id,
        manifest.topic,
        manifest.attempt,
        documents.compute_digest(manifest),
        dict(sorted(partitions.items())),
    )
    data = documents.dump_json(facts)
    storage.write_bytes(uri, data)
    return uri, hashlib.sha256(data).hexdigest()


def read_facts(plan_document_uri: str, manifest: StagingManifest, sha256: str) -> dict[int, FactValues] | None:
    """The facts of the attempt that left ``manifest``, by partition; None where there are none of exactly that one.

    ``sha256``: of the document, as the application told that wrote it. Anybody may have written another one since.

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
