"""The layout of Confluent's S3, GCS, Azure and HDFS sinks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from winnow.sources.layout import Arrangement, Description, Finding, FindingKind, Layout, RecordOrder, sort_objects
from winnow.sources.layouts.confluent.flush_order import count_overlaps, find_unordered, place_by_flush
from winnow.sources.layouts.confluent.names import HEADERS, KEY, LAYOUT, VALUE, Format, pair_objects, parse_name
from winnow.sources.layouts.confluent.reading import read_confluent
from winnow.sources.objects import ArchiveObject, Offsets, StoredObject

_KNOWN_FORMATS = {Format.JSON, Format.AVRO, Format.PARQUET}


def recognise_confluent(obj: StoredObject) -> bool:
    """Check whether ``obj`` is named as this sink names objects, in a folder of its topic."""
    name = parse_name(obj.uri)
    if name is None or not name.in_topic_folder:
        return False
    return name.delimiter == "+" or (name.format in _KNOWN_FORMATS and "." in obj.name) or name.role != VALUE


def arrange_confluent(stored: Sequence[StoredObject]) -> Arrangement:
    """Put values, keys and headers together.

    Raises:
        BadInputError: as :func:`winnow.sources.layouts.confluent.names.pair_objects`.
    """
    paired = pair_objects(stored)
    objects = [replace(obj, offsets=Offsets.DERIVED) for obj in paired.objects]
    return Arrangement(sort_objects(objects), paired.orphans, tuple(_list_findings(objects, paired.orphans)))


def _list_findings(objects: Sequence[ArchiveObject], orphans: Sequence[StoredObject]) -> Iterator[Finding]:
    yield Finding(
        FindingKind.OFFSETS_DERIVED,
        "Offsets are not in the records: the first of an object has the one in its name, each further one the next. "
        "Behind gaps they are lower than in the topic.",
    )
    yield Finding(FindingKind.NO_TIMESTAMPS, "This sink writes no timestamps.")
    values = [obj for obj in objects if VALUE in obj.parts]
    if any(KEY not in obj.parts for obj in values):
        yield Finding(FindingKind.NO_KEYS, "Keys were not written. Set store.kafka.keys=true.")
    if any(HEADERS not in obj.parts for obj in values):
        yield Finding(FindingKind.HEADERS_LOST, "Headers were not written. Set store.kafka.headers=true.")
    if all(VALUE in obj.parts for obj in objects):
        yield Finding(
            FindingKind.NO_TOMBSTONES,
            "There are no tombstones: by default this sink ends at one or drops it, so deleted keys live on here. "
            "Set behavior.on.null.values=write with store.kafka.keys=true.",
        )
    if orphans:
        yield Finding(
            FindingKind.CUT_OFF,
            f"{orphans[0].uri}: its values are missing. Copy them too, or leave it out with --exclude.",
            len(orphans),
        )


CONFLUENT = Layout(
    LAYOUT,
    Description(
        title="Confluent's S3 sink, and those for GCS, Azure and HDFS",
        recognised_by="`<topics.dir>/<topic>/<partition folder>/<topic>+<partition>+<first offset>.<format>`, with "
        "other delimiters too; keys and headers beside (`.keys`, `.headers`), tombstones in a folder of their own. The "
        "HDFS sink has the last offset behind the first one, and no keys; its folder `+tmp` is left out.",
        loses=(
            "offsets and timestamps: no format has them",
            "keys, headers and tombstones, unless told otherwise",
            "the place of a tombstone among the values of its flush",
            "a record with a null header value shifts keys against values (`errors.tolerance=all`)",
            "the last records, until a file of `flush.size` is full",
            "the sink writes records of aborted transactions, unless told otherwise",
        ),
        settings=(),
        settings_note="No setting keeps everything. The most: `store.kafka.keys=true`, `store.kafka.headers=true`, "
        "`behavior.on.null.values=write`, `rotate.schedule.interval.ms`, "
        "`consumer.override.isolation.level=read_committed`; and offset and timestamp put into the value by "
        "`org.apache.kafka.connect.transforms.InsertField$Value`.",
    ),
    recognise_confluent,
    arrange_confluent,
    read_confluent,
    order=RecordOrder(place_by_flush, find_unordered, count_overlaps),
)
