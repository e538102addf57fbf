"""Schema documents as they are kept with a topic, each text once, and back again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from winnow.schemas.documents import SchemaDocument, SchemaId, SchemaReference, order_schema_ids
from winnow.values.kept_schemas import KeptReference, KeptSchemas, KeptText


def pack_documents(
    documents: Mapping[SchemaId, SchemaDocument],
) -> tuple[dict[int, int], dict[str, int], tuple[KeptText, ...]]:
    """Return where the texts of ``documents`` are, by id and by GUID, and all texts, each behind what it refers to."""
    texts: dict[KeptText, int] = {}
    packed: dict[int, int] = {}  # a document may be referred to by many, and is compared by all that it refers to

    def pack(document: SchemaDocument) -> int:
        if id(document) not in packed:
            references = tuple(KeptReference(each.name, pack(each.document)) for each in document.references)
            text = KeptText(document.kind, document.text, references)
            packed[id(document)] = texts.setdefault(text, len(texts))
        return packed[id(document)]

    places = {schema_id: pack(documents[schema_id]) for schema_id in sorted(documents, key=order_schema_ids)}
    schemas = {schema_id: index for schema_id, index in places.items() if isinstance(schema_id, int)}
    guids = {str(schema_id): index for schema_id, index in places.items() if isinstance(schema_id, UUID)}
    return schemas, guids, tuple(texts)


def unpack_documents(kept: Iterable[KeptSchemas]) -> dict[SchemaId, SchemaDocument]:
    """Return the documents by id and by GUID; of one that was kept twice, the first."""
    found: dict[SchemaId, SchemaDocument] = {}
    for each in kept:
        documents: list[SchemaDocument] = []
        for text in each.texts:
            references = (SchemaReference(reference.name, documents[reference.index]) for reference in text.references)
            documents.append(SchemaDocument(text.kind, text.text, tuple(references)))
        for schema_id, index in each.schemas.items():
            found.setdefault(schema_id, documents[index])
        for guid, index in each.guids.items():
            found.setdefault(UUID(guid), documents[index])
    return found
