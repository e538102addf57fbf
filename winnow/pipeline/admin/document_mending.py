"""Puts documents back from their copies, and copies documents that have none; each sweep does a bounded part of it.

A topic whose state is of a format without copies has none yet, and other programs may have taken a document or its
copy. Two listings find which may be in one place only; what is written is named by a reference of the head, and has
the committed digest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from winnow.errors import DamagedMetadataError
from winnow.files import storage
from winnow.log import document_copies
from winnow.log.document_copies import Document, restore_document
from winnow.log.document_places import DocumentKind
from winnow.log.head import Change, Head
from winnow.log.reference_chains import list_documents
from winnow.log.snapshot_expiry import collect_state_places, list_state_documents
from winnow.log.topic_log import TopicLog
from winnow.pipeline.admin.scrub import DOCUMENT
from winnow.pipeline.installation import Installation

MAXIMUM_FILES_PER_SWEEP: Final = 1_000


@dataclass(frozen=True, slots=True)
class MendedDocuments:
    """What one sweep wrote: documents put back, and copies.

    ``left``: for the next sweeps. ``lost``: documents that are good in neither place.
    """

    restored: int = 0
    copied: int = 0
    left: int = 0
    lost: int = 0


def mend_documents(installation: Installation, log: TopicLog) -> MendedDocuments:
    """Write what is missing of the documents of a topic and of their copies, the newest first.

    Raises:
        CommitConflictError, CommitUnknownError: the commit from which on a topic has copies did not land.
        OSError, ServiceError: a document could not be written.
    """
    head = log.head()
    if head.snapshot_id is None:
        return MendedDocuments()
    if head.state.copies is None:
        head = log.commit(_begin_copies).head
    suspected = _list_suspected(installation, head)
    if not suspected:
        return MendedDocuments()
    mended, written = _mend(head, suspected)
    _delete_expired(log, written)
    document_copies.forget_read_from_copies(log.topic)
    installation.store.segment_checks.forget(log.topic, written)
    return mended


def _begin_copies(head: Head) -> Change:
    return Change(state=head.state, summary={"winnow.operation": "copy-documents"})


def _list_suspected(installation: Installation, head: Head) -> set[str]:
    """List names of files that are in one place only, or that a scrub or a reader found damaged."""
    topic = head.state.topic
    originals = {storage.get_name(file.uri) for file in storage.list_files(head.documents.folder)}
    copies = {storage.get_name(file.uri) for file in storage.list_files(head.copies)}
    checks = installation.store.segment_checks.list_checks(topic).values()
    damaged = [each.path for each in checks if each.kind == DOCUMENT and each.finding is not None]
    read = document_copies.list_read_from_copies(topic)
    return (originals ^ copies) | {storage.get_name(path) for path in (*damaged, *read)}


def _mend(head: Head, suspected: Collection[str]) -> tuple[MendedDocuments, list[str]]:
    """Write what is missing of ``suspected`` files that the head refers to; return the paths, too."""
    written = list[str]()
    restored = left = lost = 0
    for document in _list_documents(head):
        if storage.get_name(document.path) not in suspected:
            continue
        if len(written) >= MAXIMUM_FILES_PER_SWEEP:
            left += 1
            continue
        try:
            places = restore_document(head.state.topic, document, head.copies)
        except DamagedMetadataError:
            lost += 1  # readers and scrubs say so
            continue
        restored += document.path in places
        written += places
    return MendedDocuments(restored, len(written) - restored, left, lost), written


def _list_documents(head: Head) -> Iterator[Document]:
    yield from list_state_documents(head.table)
    yield from list_documents(head.state)


def _delete_expired(log: TopicLog, written: Collection[str]) -> None:
    """Delete states that were written again after another sweep had expired and deleted them."""
    states = [path for path in written if path.split("/")[-2] == DocumentKind.STATE]
    if states:
        head = log.head()
        kept = collect_state_places(head.table)
        document_copies.delete_documents(head.documents, [path for path in states if path not in kept])
