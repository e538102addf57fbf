"""The Avro files of Azure Event Hubs Capture, whose path tells the hub and the partition.

A record's offset is its ``SequenceNumber``: it counts the events of a partition one by one, and Kafka clients of Event
Hubs see it as the offset. The field ``Offset`` counts bytes. A record's key is that of a Kafka producer
(``x-opt-kafka-key`` of ``SystemProperties``), else the partition key of an AMQP one (``x-opt-partition-key``).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from winnow.config.names import is_topic_name
from winnow.sources.envelope import make_chunk, repeat_partition
from winnow.sources.formats.avro import MAGIC, open_avro, read_avro_schema
from winnow.sources.formats.column_values import list_header_rows, make_header_rows, make_numbers, render_column
from winnow.sources.formats.compression import read_start
from winnow.sources.formats.timestamps import read_timestamp_texts
from winnow.sources.input_errors import DAMAGED_ADVICE, Place, make_file_error
from winnow.sources.layout import Arrangement, Description, Layout, sort_objects
from winnow.sources.objects import BYTES, ArchiveObject, ReadOptions, RecordChunk, StoredObject

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
    before = -1
    with open_avro(archive.parts["value"]) as file:
        for place, events in file.read_groups(options.batch_bytes):
            if not all(isinstance(event, dict) and event.keys() >= _FIELDS for event in events):
                raise place.make_error(0, "from here on records are no events of Event Hubs", "choose another --layout")
            before = _check_order(place, events, before)
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
    headers, is_structured = make_header_rows(place, list_header_rows(place, [event["Properties"] for event in events]))
    return make_chunk(
        place,
        key=render_column(place, _list_keys(place, events)),
        value=_list_bodies(place, events),
        headers=headers,
        partition=repeat_partition(archive, len(events)),
        offset=make_numbers(place, [event["SequenceNumber"] for event in events]),
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
    bodies = [event["Body"] for event in events]
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


NAME: Final = "event-hubs"
_MAXIMUM_NAMED: Final = 5
_PATH: Final = re.compile(
    r"(?P<place>.*/)?(?P<hub>[^/]+)/(?P<partition>0|[1-9]\d{0,3})"
    r"/20\d\d/(?:0[1-9]|1[0-2])/(?:0[1-9]|[12]\d|3[01])/(?:[01]\d|2[0-3])/[0-5]\d/[0-5]\d\.avro"
)
"""Capture's default: ``{Namespace}/{EventHub}/{PartitionId}/{Year}/{Month}/{Day}/{Hour}/{Minute}/{Second}``; the folder
of the namespace may be where the listing begins."""


def recognise_event_hubs(obj: StoredObject) -> bool:
    """Check whether ``obj`` is Avro with the schema of Capture's events; the path need not be the usual one."""
    if read_start(obj, len(MAGIC)) != MAGIC:
        return False
    return is_event_data(read_avro_schema(obj))


def arrange_event_hubs(stored: Sequence[StoredObject]) -> Arrangement:
    """Make an archive object of each file; paths that are not Capture's usual ones tell no hub and no partition.

    Raises:
        BadInputError: hubs of several namespaces have the same name: each counts its events from 0.
    """
    objects = []
    places: dict[str, set[str]] = defaultdict(set)
    for obj in stored:
        found = _PATH.fullmatch(obj.uri)
        if found is None or not is_topic_name(found["hub"]):
            objects.append(ArchiveObject(NAME, obj.uri, {"value": obj}, forms=BYTES))
            continue
        hub = found["hub"]
        places[hub].add(found["place"] or "")
        objects.append(ArchiveObject(NAME, obj.uri, {"value": obj}, hub, int(found["partition"]), forms=BYTES))
    for hub, above in places.items():
        if len(above) > 1:
            shown = ", ".join(sorted(above)[:_MAXIMUM_NAMED])
            wrong = f"hub {hub} is there in several namespaces or containers: {shown}; each counts its events by itself"
            raise make_file_error(stored[0].uri, wrong, "name the folder of one of them")
    return Arrangement(sort_objects(objects))


EVENT_HUBS = Layout(
    NAME,
    Description(
        title="Azure Event Hubs Capture",
        recognised_by="Avro files of records `EventData` with `SequenceNumber`, `Offset`, `EnqueuedTimeUtc`, "
        "`SystemProperties`, `Properties` and `Body`. The offset is `SequenceNumber`: what Kafka clients of Event "
        "Hubs see as offset, its maintainers say. Hub and partition come from the path where it is Capture's default, "
        "`NAMESPACE/HUB/PARTITION/YYYY/MM/DD/HH/MM/SS.avro`; else say the partition with `--partition N`, for the "
        "files of one partition at a time. The key is `x-opt-kafka-key` of `SystemProperties`, else "
        "`x-opt-partition-key`, else null. `Properties` become headers: text in UTF-8, bytes as they are, numbers as "
        "their digits.",
        loses=(
            "the key of an event without a partition key; other `SystemProperties`",
            "the order of headers, and repeated names: `Properties` is a map",
            "the producer's timestamp: `EnqueuedTimeUtc` counts, the time of the hub's append, often in whole seconds",
        ),
        settings=(),
        settings_note="Written by the format that Microsoft documents; no file of a real hub was read here.",
    ),
    recognise_event_hubs,
    arrange_event_hubs,
    read_event_hubs,
    takes_partition=True,
)
