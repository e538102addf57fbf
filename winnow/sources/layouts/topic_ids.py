"""Reads the ids of topics in a broker's log directory: one that is deleted and created again has another id."""

from __future__ import annotations

from collections.abc import Sequence

from winnow.sources.input_errors import open_to_read
from winnow.sources.layouts.log_files import parse_topic_id
from winnow.sources.layouts.objects import ArchiveObject, StoredObject
from winnow.sources.layouts.tiered_files import parse_tiered_name, parse_tiered_place

PARTITION_METADATA = "partition.metadata"


def read_topic_ids(stored: Sequence[StoredObject], objects: Sequence[ArchiveObject]) -> dict[int, str]:
    """Return the topic's id by partition, from files beside the segments of ``objects`` or folders of tiered storage.

    A partition of which there is no id is left out.

    Raises:
        BadInputError, ServiceError: a file cannot be read.
    """
    places = {each.uri: each.partition for each in objects if each.partition is not None}
    found = {}
    for obj in objects:
        tiered = [part.uri for name, part in obj.parts.items() if parse_tiered_name(name) is not None]
        place = parse_tiered_place(tiered[0]) if tiered else None
        if place is not None and obj.partition is not None:
            found[obj.partition] = place.topic_id
    for each in stored:
        folder, _, name = each.uri.rpartition("/")
        if name == PARTITION_METADATA and folder in places:
            with open_to_read(each.uri) as stream:
                topic_id = parse_topic_id(stream.read())
            if topic_id is not None:
                found[places[folder]] = topic_id
    return found
