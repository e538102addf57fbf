"""Writes each of Winnow's documents twice, and reads the copy where the document itself is gone or damaged.

Both are durable before the commit that names the document, and a reader takes either only with the committed digest. So
a program that removes what Iceberg does not know below a table's folder takes nothing that the log cannot do without.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from winnow.errors import DamagedMetadataError, ServiceError
from winnow.files import storage
from winnow.log.document_places import DocumentKind, DocumentPlaces, locate_copy
from winnow.log.file_checksums import make_missing_path_error

log = logging.getLogger("winnow")

MAXIMUM_WARNINGS: Final = 3
"""Maximum documents per topic that a process names because it read their copies."""

_read_from_copies: dict[str, set[str]] = {}


@dataclass(frozen=True, slots=True)
class Document:
    """A document as its reference names it."""

    kind: DocumentKind
    path: str
    sha256: str


def write_document(places: DocumentPlaces, kind: DocumentKind, name: str, data: bytes) -> Document:
    """Write a document and its copy; both are durable, and nothing refers to them yet.

    Raises:
        OSError, ServiceError: one of the two could not be written, and neither is left.
    """
    path = places.locate(kind, name)
    copy = locate_copy(places.copies, path)
    try:
        _write_both(places, path, copy, data)
    except (OSError, ServiceError):
        delete_documents(places, (copy, path))
        raise
    return Document(kind, path, hashlib.sha256(data).hexdigest())


def _write_both(places: DocumentPlaces, path: str, copy: str, data: bytes) -> None:
    if storage.is_local(path) and storage.is_local(copy):
        storage.write_bytes(path, data, below=places.location)
        storage.write_bytes(copy, data, below=places.copies)
        return
    # A request to an object store takes tens of milliseconds, in which nothing is computed.
    with ThreadPoolExecutor(1, thread_name_prefix="copies") as pool:
        copied = pool.submit(storage.write_bytes, copy, data, below=places.copies)
        storage.write_bytes(path, data, below=places.location)
        copied.result()


def delete_documents(places: DocumentPlaces, paths: Iterable[str]) -> None:
    """Delete documents and copies that nothing refers to, in order; what cannot be deleted stays, for a sweep."""
    for path in paths:
        is_copy = storage.find_path_below(places.copies, path) is not None
        storage.delete_unreferenced([path], below=places.copies if is_copy else places.location)


def read_document(topic: str, document: Document, copies: str | None) -> bytes:
    """Read a document, or its copy below ``copies`` where the document is gone or not the committed one.

    Raises:
        DamagedMetadataError: neither is there as it was committed.
        ServiceError: the object store does not answer.
    """
    try:
        return _read_at(topic, document, document.path)
    except (DamagedMetadataError, OSError):
        copy = None if copies is None else locate_copy(copies, document.path)
        data = None if copy is None else find_good(document, copy)
        if copy is None or data is None:
            raise
        _note_read_from_copy(topic, document, copy)
        return data


def restore_document(topic: str, document: Document, copies: str) -> tuple[str, ...]:
    """Write a document again from its copy, or its copy from it, where one is gone or damaged; return what was written.

    Raises:
        DamagedMetadataError: neither is there as it was committed.
        OSError, ServiceError: it could not be written.
    """
    places = (document.path, locate_copy(copies, document.path))
    found = {place: find_good(document, place) for place in places}
    good = next((data for data in found.values() if data is not None), None)
    if good is None:
        _read_at(topic, document, document.path)  # raises, with what is wrong with it
    missing = tuple(place for place, data in found.items() if data is None)
    for place in missing:
        assert good is not None
        root = copies if place != document.path else place.rsplit("/", 3)[0]
        storage.write_bytes(place, good, below=root)
    return missing


def find_good(document: Document, place: str) -> bytes | None:
    """Read ``place`` if it has the document as it was committed; None otherwise.

    Raises:
        ServiceError: the object store does not answer.
    """
    try:
        with make_missing_path_error(place):
            data = storage.read_bytes(place)
    except (DamagedMetadataError, OSError):
        return None
    return data if hashlib.sha256(data).hexdigest() == document.sha256 else None


def list_read_from_copies(topic: str) -> set[str]:
    """List the documents of ``topic`` whose copies this process had to read."""
    return set(_read_from_copies.get(topic, ()))


def forget_read_from_copies(topic: str) -> None:
    """Forget which documents of ``topic`` were read from their copies: they are in their places again."""
    _read_from_copies.pop(topic, None)


def _read_at(topic: str, document: Document, place: str) -> bytes:
    what = document.kind.label
    try:
        with make_missing_path_error(place):
            data = storage.read_bytes(place)
    except FileNotFoundError as problem:
        raise DamagedMetadataError(
            f"The {what} file of topic {topic} is gone: {place}. The table still refers to it.",
            left="Nothing was changed.",
            next=_format_ways(topic),
        ) from problem
    if hashlib.sha256(data).hexdigest() != document.sha256:
        raise DamagedMetadataError(
            f"The {what} file of topic {topic} is not the one that was committed: {place}.",
            left="Nothing was changed.",
            next=_format_ways(topic),
        )
    return data


def _format_ways(topic: str) -> str:
    return (
        "Restore that file, or its copy, from a backup or the object store's versions. Without one, see what can be "
        f"rebuilt from the files that are left: winnow topics recover {topic}"
    )


def _note_read_from_copy(topic: str, document: Document, copy: str) -> None:
    known = _read_from_copies.setdefault(topic, set())
    if document.path in known:
        return
    known.add(document.path)
    if len(known) == MAXIMUM_WARNINGS + 1:
        log.warning("More documents of topic %s are gone or damaged, and are read from their copies.", topic)
    if len(known) > MAXIMUM_WARNINGS:
        return
    log.warning(
        "The %s file of topic %s is gone or damaged: %s. Its copy %s is read instead. To have it put back: winnow "
        "sweep %s",
        document.kind.label,
        topic,
        document.path,
        copy,
        topic,
    )
