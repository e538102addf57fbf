"""Deleted topics: where they are noted for listings, the error about them, and the end of their catalog entry.

A topic is deleted when the state of its newest snapshot says so, and nothing else. A note, an empty file beside the
tables, spares listings a look into every table: only topics with a note are looked at. A note proves nothing, and a
missing one hides nothing from those who would write to the topic.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pyiceberg.exceptions import NoSuchTableError

from winnow.clock import format_ms
from winnow.errors import DeletedTopicError
from winnow.files import storage
from winnow.log.catalog_access import translate_catalog_errors

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.typedef import Identifier

    from winnow.model import TopicState

_FOLDER = "winnow_deleted"
_SUFFIX = ".deleted"


@runtime_checkable
class _DropsConditionally(Protocol):
    def drop_table_at(self, identifier: Identifier, metadata_location: str) -> bool: ...


def make_deleted_error(state: TopicState) -> DeletedTopicError:
    """Make the error about a topic that is deleted: until when it can come back, or that it cannot."""
    topic = state.topic
    assert state.deleted_at_ms is not None
    if state.removed_at_ms is not None:
        return DeletedTopicError(
            f"Topic {topic} was deleted and its files are being removed. Complete that with: winnow sweep {topic}"
        )
    return DeletedTopicError(
        f"Topic {topic} was deleted at {format_ms(state.deleted_at_ms)}; a sweep removes its files once "
        f"winnow.retired.grace.ms has passed. To bring it back: winnow topics restore {topic}. To remove it for good: "
        f"winnow topics delete {topic} --now"
    )


def note_deleted(warehouse: str, topic: str) -> None:
    """Note that ``topic`` may be deleted. Call it before the commit that deletes it."""
    storage.write_bytes(_locate_note(warehouse, topic), b"", below=warehouse)


def forget_deleted(warehouse: str, topic: str) -> None:
    """Remove the note about ``topic``."""
    storage.delete(_locate_note(warehouse, topic), below=warehouse)


def list_noted(warehouse: str) -> frozenset[str]:
    """List the topics that may be deleted."""
    folder = storage.join(warehouse, _FOLDER)
    names = (entry.uri.removeprefix(f"{folder}/") for entry in storage.list_files(folder))
    return frozenset(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))


def _locate_note(warehouse: str, topic: str) -> str:
    return storage.join(warehouse, _FOLDER, f"{topic}{_SUFFIX}")


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
