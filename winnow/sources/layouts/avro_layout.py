"""The layout of plain Avro files whose records have a Kafka record's fields."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc

from winnow.sources.layouts.aiven_names import parse_name
from winnow.sources.layouts.avro import read_avro, read_avro_fields
from winnow.sources.layouts.avro_file import MAGIC
from winnow.sources.layouts.compression import read_start
from winnow.sources.layouts.layout import (
    Arrangement,
    Description,
    Finding,
    FindingKind,
    Layout,
    find_largest,
    sort_objects,
)
from winnow.sources.layouts.objects import ArchiveObject, Offsets, ReadOptions, StoredObject

NAME = "avro"


def recognise_avro(obj: StoredObject) -> bool:
    """Check whether ``obj`` is an Avro container file whose records tell their offset, and their partition too.

    A name may tell the partition if it has the first record's offset beside it; else it is another program's.
    """
    if read_start(obj, len(MAGIC)) != MAGIC:
        return False
    fields = read_avro_fields(obj).names
    name = parse_name(obj.uri)
    if "offset" not in fields or "partition" in fields or name is None:
        return "offset" in fields
    archive = ArchiveObject(NAME, obj.uri, {"value": obj})
    chunk = next(iter(read_avro(archive, ReadOptions(batch_bytes=1 << 16, floors_timestamps=True))), None)
    return chunk is not None and pc.min(chunk.records.column("offset")).as_py() == name.first_offset


def arrange_avro(stored: Sequence[StoredObject]) -> Arrangement:
    """Make an archive object of each file; a name like ``topic-partition-offset`` tells these."""
    fields = read_avro_fields(find_largest(stored))
    objects = []
    for each in stored:
        name = parse_name(each.uri)
        topic, partition, first = (name.topic, name.partition, name.first_offset) if name else (None, None, None)
        derived = Offsets.NONE if first is None else Offsets.DERIVED
        offsets = Offsets.EXACT if "offset" in fields.names else derived
        objects.append(
            ArchiveObject(NAME, each.uri, {"value": each}, topic, partition, first, fields.forms, offsets=offsets)
        )
    findings = [] if "key" in fields.names else [Finding(FindingKind.NO_KEYS, "Records have no field for the key.")]
    return Arrangement(sort_objects(objects), findings=tuple(findings))


AVRO = Layout(
    NAME,
    Description(
        title="Avro files with a record's fields",
        recognised_by="Avro container files whose records have a field `value`, and `key`, `offset`, `partition`, "
        "`timestamp`, `headers` under these or like names (`kafka_offset`, `_kafka_metadata_offset`). Without an "
        "offset, `--layout avro` says that names tell it, or that records get the next one.",
        loses=("whatever field is missing",),
        settings=(),
    ),
    recognise_avro,
    arrange_avro,
    read_avro,
)
