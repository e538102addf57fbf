"""Reads and writes the documents of kept schemas, which lie beside the table and are named by the carried state."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator

from winnow.errors import WinnowError
from winnow.files import storage
from winnow.log.document_copies import Document, read_document, write_document
from winnow.log.document_places import FOLDER, DocumentKind, DocumentPlaces
from winnow.values import documents
from winnow.values.kept_schemas import KeptSchemas
from winnow.values.topic_state import SchemasReference, TopicState


def write_kept_schemas(places: DocumentPlaces, kept: KeptSchemas) -> SchemasReference:
    """Write a document of kept schemas; nothing refers to it until the commit that carries the reference."""
    written = write_document(places, DocumentKind.SCHEMAS, f"{uuid.uuid4().hex}.json", documents.dump_json(kept))
    return SchemasReference(written.path, written.sha256, kept.count)


def read_kept_schemas(state: TopicState) -> Iterator[KeptSchemas]:
    """Read all kept schemas of a topic, those that were kept first before others.

    Raises:
        DamagedMetadataError: a document and its copy are missing or differ from the committed one.
    """
    for reference in state.schemas:
        document = Document(DocumentKind.SCHEMAS, reference.path, reference.sha256)
        yield documents.load_json(KeptSchemas, read_document(state.topic, document, state.copies))


def find_kept_schemas(topic: str, places: DocumentPlaces, table_uuid: str) -> tuple[SchemasReference, ...]:
    """Find the kept schemas of a topic whose state is lost: whole documents in one of their folders, by age.

    One that no commit had named counts, too: its schemas are the registry's all the same.
    """
    found: dict[str, tuple[int, SchemasReference]] = {}
    for folder in (storage.join(places.location, FOLDER), storage.join(places.copies, FOLDER)):
        for file in storage.list_files(storage.join(folder, DocumentKind.SCHEMAS.value)):
            data = storage.read_bytes(file.uri)
            try:
                kept = documents.load_json(KeptSchemas, data)
            except WinnowError:
                continue  # half written; if it was committed, its copy is whole
            if (kept.topic, kept.table_uuid) == (topic, table_uuid):
                path = places.locate(DocumentKind.SCHEMAS, storage.get_name(file.uri))
                found.setdefault(
                    path, (kept.at_ms, SchemasReference(path, hashlib.sha256(data).hexdigest(), kept.count))
                )
    return tuple(reference for _, reference in sorted(found.values(), key=lambda pair: (pair[0], pair[1].path)))
