"""The values that layouts share: stored objects, the archive objects made of them, and the records read from those.

A *stored object* is a file or an object of a store, as a listing shows it. An *archive object* is what is read as one
sequence of records: usually one stored object, sometimes several that belong together (values, keys and headers beside
each other). Its name may tell topic, partition and first offset of its records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa

from winnow.files.record_batch import DEFAULT_BATCH_BYTES


@dataclass(frozen=True, slots=True)
class StoredObject:
    """A file, or an object of a store. ``modified_ns``: since the epoch; None where the store does not say."""

    uri: str
    size_bytes: int
    modified_ns: int | None = None

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.uri.rstrip("/").rsplit("/", 1)[-1]


class FieldForm(StrEnum):
    """How a layout holds key, value or header values."""

    BYTES = "bytes"
    """As they were in the topic."""
    BASE64 = "base64"
    """Base64 text for certain; readers decode it."""
    TEXT = "text"
    """Text that was text: its UTF-8 bytes."""
    TEXT_OR_BASE64 = "text or base64"
    """Text whose meaning only the whole call can tell; readers leave it as it is."""
    JSON = "json"
    """A structure, rendered as JSON text by :mod:`winnow.sources.formats.json_text`."""


CONTENT = ("key", "value", "headers")
BYTES: Mapping[str, FieldForm] = dict.fromkeys(CONTENT, FieldForm.BYTES)
MAYBE_BASE64: Mapping[str, FieldForm] = dict.fromkeys(CONTENT, FieldForm.TEXT_OR_BASE64)


class Offsets(StrEnum):
    """Where the offsets of a layout's records come from."""

    EXACT = "exact"
    """Each record has its own."""
    DERIVED = "derived"
    """The name has that of an object's first record; each further record has the next."""
    NONE = "none"
    """Neither records nor names tell them."""


@dataclass(frozen=True, slots=True)
class ArchiveObject:
    """One sequence of records.

    ``parts``: the stored objects by role; ``value`` is the one with the values (or with everything). ``topic``,
    ``partition``, ``first_offset``: what names tell, None if nothing; no record is below ``first_offset``. ``forms``:
    per field (key, value, headers). ``reference``: the object whose content tells how this one is to be read, where
    it alone may tell too little. ``null_is_empty``: null and empty values are the same in it.
    """

    layout: str
    uri: str
    parts: Mapping[str, StoredObject]
    topic: str | None = None
    partition: int | None = None
    first_offset: int | None = None
    forms: Mapping[str, FieldForm] = field(default_factory=dict)
    reference: StoredObject | None = None
    null_is_empty: bool = False
    offsets: Offsets = Offsets.EXACT

    @property
    def size_bytes(self) -> int:
        """The stored size of all its parts."""
        return sum(part.size_bytes for part in self.parts.values())


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What the user decided about what a layout cannot tell, and the size of batches.

    ``encodings``: ``base64``, ``text`` or ``json`` per field (key, value, headers). ``floors_timestamps``: timestamps
    finer than a millisecond are rounded down instead of refused. ``refuses_null_text``: where the format writes null as
    this text, it was not said which of the two it is.
    """

    batch_bytes: int = DEFAULT_BATCH_BYTES
    encodings: Mapping[str, str] = field(default_factory=dict)
    floors_timestamps: bool = False
    refuses_null_text: bool = False


@dataclass(frozen=True, slots=True)
class RecordChunk:
    """Records of one archive object, in its order.

    ``records``: of :data:`winnow.files.record_batch.RECORD_SCHEMA`; ``row`` counts from 1 within the object;
    partition and offset are null where neither record nor name tells them. ``topics``: per record, None if records
    name no topic. ``structured``: the fields (key, value, headers) of which a record here has what was no string, a
    number or an object for instance, so that the field cannot be base64 text.
    """

    records: pa.RecordBatch
    topics: pa.Array | None = None
    structured: frozenset[str] = frozenset()
