"""Plans of jobs that are used once, and their results: JSON documents in the staging area, beside each other.

What their tasks list for other tasks lies there, too.
"""

from __future__ import annotations

import hashlib
import uuid
from typing import TypeVar

from winnow.errors import PlanVoidError, WinnowError
from winnow.files import storage
from winnow.values import documents

Document = TypeVar("Document")
MISSING, DAMAGED = "missing", "damaged"
"""What a task finds of a file that is not there, or not what was written."""


def locate_job_plan(staging: str, job: str, plan_id: str) -> str:
    """Return the URI of a plan of the program ``job``."""
    return storage.join(staging, job, f"{plan_id}.json")


def locate_job_result(plan_document_uri: str) -> str:
    """Return the URI of the result, beside its plan."""
    return f"{plan_document_uri.removesuffix('.json')}.result.json"


def locate_job_survivors(plan_document_uri: str, partition: int) -> str:
    """Return a URI, beside the plan, for offsets of a partition that one attempt of a task lists for others."""
    return f"{plan_document_uri.removesuffix('.json')}.survivors-{partition:06}.{uuid.uuid4().hex}"


def write_job_document(uri: str, document: object) -> str:
    """Write a plan or a result; return the sha256 of its bytes."""
    data = documents.dump_json(document)
    storage.write_bytes(uri, data, below=uri.rsplit("/", 2)[0])
    return hashlib.sha256(data).hexdigest()


def read_job_document(kind: type[Document], uri: str, sha256: str | None) -> Document:
    """Read a plan or a result; ``sha256``: of its bytes, None: not known.

    Raises:
        PlanVoidError: it was replaced or changed.
        WinnowError: it is missing or damaged.
    """
    try:
        data = storage.read_bytes(uri)
    except FileNotFoundError:
        raise WinnowError(
            f"There is no document at {uri}.", left="Nothing was changed.", next="Run it again."
        ) from None
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise PlanVoidError(
            f"The document at {uri} is not the one that was written.",
            left="Nothing was changed.",
            next="Run it again.",
        )
    return documents.load_json(kind, data)


def remove_job_documents(plan_document_uri: str) -> None:
    """Remove a plan and its result."""
    for uri in (plan_document_uri, locate_job_result(plan_document_uri)):
        storage.delete(uri, below=plan_document_uri.rsplit("/", 2)[0])
