"""Reads and writes the documents of erasures, which lie beside the table and are named by the carried state."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from winnow.log.document_copies import Document, read_document, write_document
from winnow.log.document_places import DocumentKind, DocumentPlaces
from winnow.values import documents
from winnow.values.erasures import ErasureDocument
from winnow.values.topic_state import ErasureReference, TopicState


def write_erasure(places: DocumentPlaces, erasure: ErasureDocument) -> ErasureReference:
    """Write the document of an erasure; nothing refers to it until the commit that carries the reference."""
    name = f"{erasure.erasure_id}-{uuid.uuid4().hex[:8]}.json"
    written = write_document(places, DocumentKind.ERASURE, name, documents.dump_json(erasure))
    return ErasureReference(
        erasure_id=erasure.erasure_id,
        path=written.path,
        sha256=written.sha256,
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
    document = Document(DocumentKind.ERASURE, reference.path, reference.sha256)
    return documents.load_json(ErasureDocument, read_document(state.topic, document, state.copies))


def read_erasures(state: TopicState) -> Iterator[ErasureDocument]:
    """Read the documents of all erasures of a topic, oldest first; raises as :func:`read_erasure`."""
    for reference in state.erasures:
        yield read_erasure(state, reference)


def find_erased_files(state: TopicState) -> dict[str, str]:
    """Return by path of each file that held an erased key the id of its erasure; raises as :func:`read_erasure`."""
    return {file.path: each.erasure_id for each in read_erasures(state) for file in each.files}
