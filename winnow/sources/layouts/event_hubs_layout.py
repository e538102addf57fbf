"""The layout of Azure Event Hubs Capture: Avro files, whose path tells the hub and the partition."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from winnow.config.names import is_topic_name
from winnow.sources.input_errors import make_file_error
from winnow.sources.layouts.avro_file import MAGIC, open_avro
from winnow.sources.layouts.compression import read_start
from winnow.sources.layouts.event_hubs import FORMS, is_event_data, read_event_hubs
from winnow.sources.layouts.layout import Arrangement, Description, Layout, sort_objects
from winnow.sources.layouts.objects import ArchiveObject, StoredObject

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
    with open_avro(obj) as file:
        return is_event_data(file.schema)


def arrange_event_hubs(stored: Sequence[StoredObject]) -> Arrangement:
    """Make an archive object of each file; paths that are not Capture's usual ones tell no hub and no partition.

    Raises:
        BadInputError: hubs of several namespaces have the same name: each counts its events from 0.
    """
    objects = []
    places: dict[str, set[str]] = defaultdict(set)
    for each in stored:
        found = _PATH.fullmatch(each.uri)
        if found is None or not is_topic_name(found["hub"]):
            objects.append(ArchiveObject(NAME, each.uri, {"value": each}, forms=FORMS))
            continue
        hub = found["hub"]
        places[hub].add(found["place"] or "")
        objects.append(ArchiveObject(NAME, each.uri, {"value": each}, hub, int(found["partition"]), forms=FORMS))
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
