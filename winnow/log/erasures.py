"""Reads and writes the documents of erasures, which lie beside the table and are named by the carried state."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator

from winnow.errors import WinnowError
from winnow.files import storage
from winnow.log.document_copies import Document, read_document, write_document
from winnow.log.document_places import FOLDER, DocumentKind, DocumentPlaces
from winnow.values import documents
from winnow.values.erasures import ErasureDocument
from winnow.values.topic_state import ErasureReference, TopicState


def write_erasure(places: DocumentPlaces, erasure: ErasureDocument) -> ErasureReference:
    """Write the document of an erasure; nothing refers to it until the commit that carries the reference."""
    name = f"{erasure.erasure_id}-{uuid.uuid4().hex[:8]}.json"
    written = write_document(places, DocumentKind.ERASURE, name, documents.dump_json(erasure))
    return _make_reference(erasure, written.path, written.sha256)


def _make_reference(erasure: ErasureDocument, path: str, sha256: str) -> ErasureReference:
    return ErasureReference(
        erasure_id=erasure.erasure_id,
        path=path,
        sha256=sha256,
        at_ms=erasure.at_ms,
        keys=erasure.keys,
        key_id=erasure.key_id,
        lifts=erasure.lifts,
    )


def read_erasure(state: TopicState, reference: ErasureReference) -> ErasureDocument:
    """Read the document behind a ``reference`` of ``state``.

    Raises:
        DamagedMetadataError: the file and its copy are missing or differ from the committed one.
    """
    return documents.load_json(ErasureDocument, read_erasure_bytes(state, reference))


def read_erasure_bytes(state: TopicState, reference: ErasureReference) -> bytes:
    """Read the bytes of the document behind a ``reference``, as they were committed; raises as :func:`read_erasure`."""
    document = Document(DocumentKind.ERASURE, reference.path, reference.sha256)
    return read_document(state.topic, document, state.copies)


def read_erasures(state: TopicState) -> Iterator[ErasureDocument]:
    """Read the documents of all erasures of a topic, oldest first; raises as :func:`read_erasure`."""
    for reference in state.erasures:
        yield read_erasure(state, reference)


def find_erased_files(state: TopicState) -> dict[str, str]:
    """Return by path of each file that held an erased key the id of its erasure; raises as :func:`read_erasure`."""
    return {file.path: each.erasure_id for each in read_erasures(state) for file in each.files}


def find_erasures(topic: str, places: DocumentPlaces, table_uuid: str) -> tuple[ErasureReference, ...]:
    """Find the erasures of a topic whose state is lost: documents in one of their folders, in the order of the chain.

    One that no commit had named counts, too: its keys were to be erased. It keeps old copies out; whether files are
    left is looked for anew. Where two name the same one before, the one with a successor is in the chain, or the later.
    """
    found: dict[str, tuple[str, ErasureDocument]] = {}
    for folder in (storage.join(places.location, FOLDER), storage.join(places.copies, FOLDER)):
        for file in storage.list_files(storage.join(folder, DocumentKind.ERASURE.value)):
            data = storage.read_bytes(file.uri)
            try:
                document = documents.load_json(ErasureDocument, data)
            except WinnowError:
                continue  # half written; if it was committed, its copy is whole
            if (document.topic, document.table_uuid) == (topic, table_uuid):
                found.setdefault(hashlib.sha256(data).hexdigest(), (storage.get_name(file.uri), document))
    followed = {document.previous for _, document in found.values()}
    chain: list[ErasureReference] = []
    previous: str | None = None
    while True:
        following = [sha256 for sha256, (_, document) in found.items() if document.previous == previous]
        if not following:
            return tuple(chain)
        previous = max(following, key=lambda sha256: (sha256 in followed, found[sha256][1].at_ms))
        name, document = found.pop(previous)
        path = places.locate(DocumentKind.ERASURE, name)
        chain.append(_make_reference(document, path, previous))
