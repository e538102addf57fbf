"""Deleted topics: where they are noted for listings, the error about them, and the end of their catalog entry.

A topic is deleted when the state of its newest snapshot says so, and nothing else. A note, an empty file beside the
tables, spares listings a look into every table: only topics with a note are looked at. A note proves nothing, and a
missing one hides nothing from those who would write to the topic.
"""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pyiceberg.exceptions import NoSuchTableError

from winnow.clock import format_ms
from winnow.errors import DeletedTopicError
from winnow.files import storage
from winnow.log.catalog_access import translate_catalog_errors

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.typedef import Identifier

    from winnow.values.topic_state import TopicState

_SUFFIX = ".deleted"
_MARK = "~"
"""Stands in no topic's name, and in the name of a note that holds the topic's name instead of being named after it."""
_MAXIMUM_NAME_LENGTH = 150
"""Maximum characters of a topic's name after which its note is named: file systems take 255 with a draft's ending."""


@runtime_checkable
class _DropsConditionally(Protocol):
    def drop_table_at(self, identifier: Identifier, metadata_location: str) -> bool: ...


def make_deleted_error(state: TopicState) -> DeletedTopicError:
    """Make the error about a topic that is deleted: until when it can come back, or that it cannot."""
    topic = state.topic
    assert state.deleted_at_ms is not None
    if state.removed_at_ms is not None:
        return DeletedTopicError(
            f"Topic {topic} was deleted and its files are being removed.",
            next=f"Complete that with: winnow sweep {topic}",
        )
    return DeletedTopicError(
        f"Topic {topic} was deleted at {format_ms(state.deleted_at_ms)}; a sweep removes its files once "
        "winnow.retired.grace.ms has passed.",
        next=(
            f"To bring it back: winnow topics restore {topic}. To remove it for good: winnow topics delete {topic} "
            "--now"
        ),
    )


def note_deleted(notes: str, topic: str) -> None:
    """Note in the folder ``notes`` that ``topic`` may be deleted. Call it before the commit that deletes it."""
    name = _name_note(topic)
    storage.write_bytes(storage.join(notes, name), topic.encode() if _MARK in name else b"", below=_find_root(notes))


def forget_deleted(notes: str, topic: str) -> None:
    """Remove the note about ``topic`` from the folder ``notes``."""
    storage.delete(storage.join(notes, _name_note(topic)), below=_find_root(notes))


def _find_root(notes: str) -> str:
    """Return the warehouse, the root of the notes' folder."""
    return notes.rsplit("/", 1)[0]


def list_noted(notes: str) -> frozenset[str]:
    """List the topics that may be deleted, by the folder ``notes``."""
    return frozenset(_read_note(entry.uri) for entry in storage.list_files(notes) if entry.uri.endswith(_SUFFIX))


def _read_note(uri: str) -> str:
    name = storage.get_name(uri)
    with contextlib.suppress(FileNotFoundError):  # it was removed a moment ago
        return storage.read_bytes(uri).decode(errors="replace") if _MARK in name else name.removesuffix(_SUFFIX)
    return ""


def _name_note(topic: str) -> str:
    """Name the note about ``topic``; no two names are equal where a disk ignores case."""
    if topic == topic.lower() and len(topic) <= _MAXIMUM_NAME_LENGTH:
        return f"{topic}{_SUFFIX}"
    return f"{topic[:_MAXIMUM_NAME_LENGTH]}{_MARK}{hashlib.sha256(topic.encode()).hexdigest()[:16]}{_SUFFIX}"


def drop_table(catalog: Catalog, identifier: Identifier, metadata_location: str, where: str) -> None:
    """Drop the catalog's entry of a table if it still is at ``metadata_location``; nothing happens if it is not.

    SQL catalogs compare and drop in one statement. Of other catalogs the location is compared just before.

    Raises:
        ServiceError: the catalog cannot be reached.
    """
    with translate_catalog_errors(f"The entry of {where} was not dropped"), contextlib.suppress(NoSuchTableError):
        if isinstance(catalog, _DropsConditionally):
            catalog.drop_table_at(identifier, metadata_location)
        elif catalog.load_table(identifier).metadata_location == metadata_location:
            catalog.drop_table(identifier)
