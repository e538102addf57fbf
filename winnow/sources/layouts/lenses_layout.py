"""The layout of Lenses' S3 sink with its envelope."""

from __future__ import annotations

from collections.abc import Sequence

from winnow.sources.layouts.layout import Arrangement, Description, Layout, find_largest, sort_objects
from winnow.sources.layouts.lenses import find_lenses_forms, read_lenses
from winnow.sources.layouts.lenses_names import parse_name
from winnow.sources.layouts.objects import ArchiveObject, StoredObject

NAME = "lenses"


def recognise_lenses(obj: StoredObject) -> bool:
    """Check whether the records of ``obj`` have the envelope of Lenses' sinks."""
    return find_lenses_forms(obj) is not None


def arrange_lenses(stored: Sequence[StoredObject]) -> Arrangement:
    """Make an archive object of each object; the offset in a name is that of the last record."""
    forms = find_lenses_forms(find_largest(stored)) or {}
    objects = []
    for each in stored:
        name = parse_name(each.uri)
        topic, partition = (name.topic, name.partition) if name else (None, None)
        objects.append(ArchiveObject(NAME, each.uri, {"value": each}, topic, partition, forms=forms))
    objects.sort(key=lambda each: (each.topic or "", each.partition or 0, each.uri))
    return Arrangement(sort_objects(objects))


LENSES = Layout(
    NAME,
    Description(
        title="Lenses' sinks for S3, GCS and Azure",
        recognised_by="records have an envelope with `metadata` (topic, partition, offset, timestamp): JSON, Avro or "
        "Parquet.",
        loses=(
            "headers that are repeated: the envelope has a map",
            "the form of JSON values: they are rendered anew",
        ),
        settings=("store.envelope=true", "STOREAS `JSON` or `AVRO` or `PARQUET`", "key and value converters: bytes"),
    ),
    recognise_lenses,
    arrange_lenses,
    read_lenses,
)
