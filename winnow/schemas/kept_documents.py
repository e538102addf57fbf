"""Schema documents as they are kept with a topic, each text once, and back again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from winnow.schemas.documents import SchemaDocument, SchemaId, SchemaReference
from winnow.values.kept_schemas import KeptReference, KeptSchemas, KeptText


def pack_documents(documents: Mapping[int, SchemaDocument]) -> tuple[dict[int, int], tuple[KeptText, ...]]:
    """Return the texts of ``documents`` and of what they refer to, each behind that, and by id where its text is."""
    texts: dict[KeptText, int] = {}
    packed: dict[int, int] = {}  # a document may be referred to by many, and is compared by all that it refers to

    def pack(document: SchemaDocument) -> int:
        if id(document) not in packed:
            references = tuple(KeptReference(each.name, pack(each.document)) for each in document.references)
            text = KeptText(document.kind, document.text, references)
            packed[id(document)] = texts.setdefault(text, len(texts))
        return packed[id(document)]

    schemas = {schema_id: pack(document) for schema_id, document in sorted(documents.items())}
    return schemas, tuple(texts)


def unpack_documents(kept: Iterable[KeptSchemas]) -> dict[SchemaId, SchemaDocument]:
    """Return the documents by id; of an id that was kept twice, the first."""
    found: dict[SchemaId, SchemaDocument] = {}
    for each in kept:
        documents: list[SchemaDocument] = []
        for text in each.texts:
            references = (SchemaReference(reference.name, documents[reference.index]) for reference in text.references)
            documents.append(SchemaDocument(text.kind, text.text, tuple(references)))
        for schema_id, index in each.schemas.items():
            found.setdefault(schema_id, documents[index])
    return found
