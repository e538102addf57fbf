"""Records as documents: masked, cut at a maximum, in base64, with the true size of everything that was cut."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import pyarrow as pa

from winnow.log_reader.documents import Document
from winnow.log_reader.masking import Masks
from winnow.pipeline.latest.decoded_records import DecodedReading, DecodedText
from winnow.values.epochs import Epoch, describe_offset

MAXIMUM_HEADERS: Final = 100
MAXIMUM_HEADER_BYTES: Final = 4 << 10
MAXIMUM_HEADER_NAME_CHARACTERS: Final = 300
MAXIMUM_FIELDS: Final = 50
MAXIMUM_FIELD_CHARACTERS: Final = 200
_COLUMNS: Final = ("partition", "offset", "timestampType", "key", "value", "headers")
_TIMESTAMP_TYPES: Final = {0: "CreateTime", 1: "LogAppendTime"}


@dataclass(slots=True)
class ShownRecords:
    """Collects records until ``maximum_bytes`` of keys, values and headers are collected.

    ``reading``: decodes them; if it hides any field, no bytes and headers are collected.
    """

    masks: Masks
    epochs: Sequence[Epoch]
    maximum_value_bytes: int
    maximum_bytes: int
    reading: DecodedReading | None = None
    documents: list[Document] = field(default_factory=list)
    next_offset: int | None = None
    """The offset after the last collected record."""
    is_full: bool = False
    _size_bytes: int = 0

    def add(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Collect the records of ``batches``, up to the maximum."""
        for batch in batches:
            for row in range(batch.num_rows):
                if self._size_bytes >= self.maximum_bytes:
                    self.is_full = True
                    return
                # One row at a time: a batch may hold many large values.
                record = batch.select(_COLUMNS).slice(row, 1)
                (found,) = record.to_pylist()
                (text,) = (None,) if self.reading is None else self.reading.write(record, self.masks.apply)
                self._add_row(found, _read_ms(batch, row), text)

    def _add_row(self, row: dict[str, Any], timestamp_ms: int | None, text: DecodedText | None) -> None:
        hides = self.reading is not None and self.reading.hides
        headers = None if row["headers"] is None else [each for each in row["headers"] if each is not None]
        self.next_offset = row["offset"] + 1
        document = {
            "partition": row["partition"],
            "offset": str(row["offset"]),
            "timestamp_ms": timestamp_ms,
            "timestamp_type": _TIMESTAMP_TYPES.get(row["timestampType"]),
            "key": None if hides else self._describe_bytes(row["key"], self.maximum_value_bytes),
            "value": None if hides else self._describe_bytes(row["value"], self.maximum_value_bytes),
            "headers": [self._describe_header(each) for each in ([] if hides else headers or [])[:MAXIMUM_HEADERS]],
            "headers_total": len(headers or []),
        }
        if text is not None:
            document["decoded"] = {
                "key": self.describe_text(text.key),
                "value": self.describe_text(text.value),
                "error": text.error,
                "has_key": row["key"] is not None,
                "has_value": row["value"] is not None,
            }
        if epoch := describe_offset(self.epochs, row["partition"], row["offset"]):
            document |= {"epoch": epoch["epoch"], "source_offset": str(epoch["source_offset"])}
        self.documents.append(document)

    def describe_text(self, text: bytes | None) -> Document | None:
        """Describe a JSON document; ``fields``: the first ones of an object, each cut, if it is one."""
        described = self._describe_bytes(text, self.maximum_value_bytes)
        if text is None or described is None:
            return None
        fields = list(_list_fields(self.masks.apply(text)))[:MAXIMUM_FIELDS]
        self._size_bytes += sum(map(len, map(str, fields)))
        return {**described, "fields": fields}

    def _describe_header(self, header: dict[str, Any]) -> Document:
        name = (header["key"] or "")[:MAXIMUM_HEADER_NAME_CHARACTERS]
        self._size_bytes += len(name)
        return {"key": name, "value": self._describe_bytes(header["value"], MAXIMUM_HEADER_BYTES)}

    def _describe_bytes(self, content: bytes | None, maximum_bytes: int) -> Document | None:
        if content is None:
            return None
        masked = self.masks.apply(content)  # before it is cut: half of a number is no match any more
        shown = masked[:maximum_bytes]
        self._size_bytes += len(shown)
        return {
            "base64": base64.b64encode(shown).decode(),
            "size_bytes": len(content),
            "is_cut": len(masked) > maximum_bytes,
            "is_masked": masked is not content,
        }


def _list_fields(text: bytes) -> Iterator[Document]:
    """List the fields of a JSON object in its own words: numbers keep all of their digits."""
    try:
        fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):  # no object, or one that a mask has opened
        return
    for name, raw in fields.items():
        content = bytes(raw)
        shown = msgspec.json.decode(content) if content.startswith(b'"') else content.decode()
        yield {"name": name[:MAXIMUM_FIELD_CHARACTERS], "text": shown[:MAXIMUM_FIELD_CHARACTERS]}


def _read_ms(batch: pa.RecordBatch, row: int) -> int | None:
    value = batch.column("timestamp")[row].cast(pa.int64()).as_py()
    return None if value is None else int(value) // 1000
