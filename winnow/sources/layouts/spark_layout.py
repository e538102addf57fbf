"""The layout of what Spark writes of its Kafka source, as Parquet and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from winnow.sources.layouts.layout import (
    Arrangement,
    Description,
    Finding,
    FindingKind,
    Layout,
    find_largest,
    sort_objects,
)
from winnow.sources.layouts.objects import ArchiveObject, StoredObject
from winnow.sources.layouts.spark import find_spark_forms, has_spark_column, read_spark
from winnow.sources.layouts.spark_names import is_spark_file, parse_path

NAME = "spark"


def recognise_spark(obj: StoredObject) -> bool:
    """Check whether ``obj`` is named as Spark names files, or lies in a folder of a topic, and has its columns."""
    path = parse_path(obj.uri)
    if not (is_spark_file(obj.name) or path.topic is not None) or find_spark_forms(obj) is None:
        return False
    # Flink, too, calls its files part-…; what has no partition is not Spark's Kafka source.
    return path.partition is not None or has_spark_column(obj, "partition")


def arrange_spark(stored: Sequence[StoredObject]) -> Arrangement:
    """Make an archive object of each file; folders may tell topic and partition."""
    forms = find_spark_forms(find_largest(stored)) or {}
    objects = []
    for each in stored:
        name = parse_path(each.uri)
        objects.append(ArchiveObject(NAME, each.uri, {"value": each}, name.topic, name.partition, forms=forms))
    findings = []
    if "key" not in forms:
        findings.append(Finding(FindingKind.NO_KEYS, "Keys were not written. Select the source's column key too."))
    if "headers" not in forms:
        text = 'Headers were not written. Read with .option("includeHeaders", "true") and select headers.'
        findings.append(Finding(FindingKind.HEADERS_LOST, text))
    return Arrangement(sort_objects(objects), findings=tuple(findings))


SPARK = Layout(
    NAME,
    Description(
        title="Spark's Kafka source, written as Parquet or JSON",
        recognised_by="files `part-…` of Parquet or JSON with the columns of Spark's Kafka source; folders "
        "`topic=…` and `partition=…` count.",
        loses=(
            "headers, unless the source has `includeHeaders`",
            "bytes that are not UTF-8, if key or value were cast to text",
        ),
        settings=(
            '.option("includeHeaders", "true")',
            '.option("kafka.isolation.level", "read_committed")',
            ".select(key, value, partition, offset, timestamp, timestampType, headers, topic) without casts",
        ),
    ),
    recognise_spark,
    arrange_spark,
    read_spark,
)
