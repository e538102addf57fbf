"""Reads the Avro files of Azure Event Hubs Capture.

A record's offset is its ``SequenceNumber``: it counts the events of a partition one by one, and Kafka clients of Event
Hubs see it as the offset. The field ``Offset`` counts bytes. A record's key is that of a Kafka producer
(``x-opt-kafka-key`` of ``SystemProperties``), else the partition key of an AMQP one (``x-opt-partition-key``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from winnow.sources.layouts.aiven_columnar import group_values
from winnow.sources.layouts.avro_file import open_avro
from winnow.sources.layouts.chunks import DAMAGED_ADVICE, Place, make_chunk
from winnow.sources.layouts.column_values import list_header_rows, make_header_rows, make_numbers, render_column
from winnow.sources.layouts.derived import repeat_partition
from winnow.sources.layouts.objects import ArchiveObject, FieldForm, ReadOptions, RecordChunk
from winnow.sources.layouts.timestamps import read_timestamp_texts

FORMS: Final = {"key": FieldForm.BYTES, "value": FieldForm.BYTES, "headers": FieldForm.BYTES}
_NAME: Final = "EventData"
_FIELDS: Final = frozenset(
    {"SequenceNumber", "Offset", "EnqueuedTimeUtc", "SystemProperties", "Properties", "Body"},
)
_KAFKA_KEY: Final = "x-opt-kafka-key"
_PARTITION_KEY: Final = "x-opt-partition-key"
_LOG_APPEND_TIME: Final = 1
_NOON: Final = 12
_AMERICAN: Final = re.compile(
    r"(?P<month>\d{1,2})/(?P<day>\d{1,2})/(?P<year>\d{4}) (?P<hour>\d{1,2}):(?P<rest>\d{2}:\d{2})(?: (?P<half>AM|PM))?"
)


def is_event_data(schema: Any) -> bool:
    """Check whether an Avro schema is that of Capture's files."""
    if not isinstance(schema, dict) or schema.get("type") != "record":
        return False
    names = {str(field["name"]) for field in schema.get("fields", ())}
    return str(schema.get("name", "")).rsplit(".", 1)[-1] == _NAME and names == _FIELDS


def read_event_hubs(archive: ArchiveObject, options: ReadOptions) -> Iterator[RecordChunk]:
    """Yield the records of ``archive``.

    Raises:
        BadInputError: the object is damaged or cut off, or its sequence numbers do not increase.
        ServiceError: an object store cannot be reached.
    """
    done, before = 0, -1
    with open_avro(archive.parts["value"]) as file:
        for events in group_values(file.read_records(), options.batch_bytes):
            place = Place(archive.uri, "record", np.arange(done + 1, done + 1 + len(events)))
            if not all(isinstance(event, dict) and event.keys() >= _FIELDS for event in events):
                raise place.make_error(0, "from here on records are no events of Event Hubs", "choose another --layout")
            before = _check_order(place, events, before)
            done += len(events)
            yield _convert(archive, place, events, options)


def _check_order(place: Place, events: Sequence[dict[str, Any]], before: int) -> int:
    """Check that the sequence numbers increase, as those of one partition do; return the last one."""
    for index, event in enumerate(events):
        number = event["SequenceNumber"]
        if type(number) is not int or number <= before:
            wrong = f"its SequenceNumber is not above that of the record before it ({before})"
            raise place.make_error(index, wrong, "a file of Capture holds events of one partition, in order")
        before = number
    return before


def _convert(
    archive: ArchiveObject, place: Place, events: Sequence[dict[str, Any]], options: ReadOptions
) -> RecordChunk:
    headers, is_structured = make_header_rows(place, list_header_rows(place, [each["Properties"] for each in events]))
    return make_chunk(
        place,
        key=render_column(place, _list_keys(place, events)),
        value=_list_bodies(place, events),
        headers=headers,
        partition=repeat_partition(archive, len(events)),
        offset=make_numbers(place, [each["SequenceNumber"] for each in events]),
        timestamp=read_timestamp_texts(place, _list_times(place, events), options.floors_timestamps),
        timestamp_type=pa.array(np.full(len(events), _LOG_APPEND_TIME, np.int64)),
        structured={"headers"} if is_structured else (),
    )


def _list_keys(place: Place, events: Sequence[dict[str, Any]]) -> list[Any]:
    keys = []
    for index, event in enumerate(events):
        properties = event["SystemProperties"] or {}
        key = properties.get(_KAFKA_KEY, properties.get(_PARTITION_KEY))
        if not isinstance(key, str | bytes | None):
            raise place.make_error(index, "its key in SystemProperties is neither text nor bytes", DAMAGED_ADVICE)
        keys.append(key)
    return keys


def _list_bodies(place: Place, events: Sequence[dict[str, Any]]) -> Any:
    bodies = [each["Body"] for each in events]
    for index, body in enumerate(bodies):
        if not isinstance(body, bytes | None):
            raise place.make_error(index, "its Body is no bytes", "choose another --layout")
    return pa.array(bodies, pa.binary())


def _list_times(place: Place, events: Sequence[dict[str, Any]]) -> list[str | None]:
    """Return the times as ISO 8601 text; Capture writes them as ``11/24/2026 1:05:09 PM``, in UTC."""
    texts: list[str | None] = []
    for index, event in enumerate(events):
        text = event["EnqueuedTimeUtc"]
        if not isinstance(text, str):
            raise place.make_error(index, "its EnqueuedTimeUtc is no text", "choose another --layout")
        found = _AMERICAN.fullmatch(text)
        if found is None:
            texts.append(text)
            continue
        hour = int(found["hour"])
        if found["half"] is not None:
            if not 1 <= hour <= _NOON:
                raise place.make_error(index, "its EnqueuedTimeUtc is no time", DAMAGED_ADVICE)
            hour = hour % _NOON + (_NOON if found["half"] == "PM" else 0)
        date = f"{found['year']}-{int(found['month']):02}-{int(found['day']):02}"
        texts.append(f"{date}T{hour:02}:{found['rest']}Z")
    return texts
