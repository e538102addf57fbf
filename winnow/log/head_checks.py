"""Checks a table's metadata and live segments against the committed state.

A metadata file has no checksum in most catalogs, and a changed byte can leave JSON that Iceberg accepts: a renamed key
makes a full table look empty. These checks cost nothing and need no other file.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from winnow.errors import DamagedMetadataError, ForeignTableError, UnknownTopicError
from winnow.files import storage
from winnow.log.document_places import make_copies_name
from winnow.log.recorded_configuration import PARTITIONS_PROPERTY
from winnow.log.state import STATE_PROPERTY
from winnow.log.table import LOG_SCHEMA, TOPIC_PROPERTY, matches_layout
from winnow.values.counts import format_count
from winnow.values.latest_layout import TableLayout
from winnow.values.model import Segment
from winnow.values.topic_state import SegmentDigest, TopicState

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

NO_SEGMENTS: Final = SegmentDigest(0, 0, 0, f"{0:032x}")

_DIGEST_BYTES: Final = 16

_MODULUS: Final = 1 << 8 * _DIGEST_BYTES


def compute_segment_digest(segments: Iterable[Segment]) -> SegmentDigest:
    """Compute the digest of ``segments``; their order does not matter."""
    count, records, size_bytes, value = _sum_digests(segments)
    return SegmentDigest(count, records, size_bytes, f"{value:032x}")


def update_segment_digest(
    before: SegmentDigest, *, added: Iterable[Segment], removed: Iterable[Segment]
) -> SegmentDigest:
    """Update the digest ``before`` for segments that were added and removed."""
    plus, minus = _sum_digests(added), _sum_digests(removed)
    return SegmentDigest(
        before.segments + plus[0] - minus[0],
        before.records + plus[1] - minus[1],
        before.size_bytes + plus[2] - minus[2],
        f"{(int(before.value, 16) + plus[3] - minus[3]) % _MODULUS:032x}",
    )


def require_same_topic(topic: str, table_uuid: str, *, seen: str | None) -> None:
    """Check that the table to commit to is the one that the call looked at; ``seen``: the UUID of that one.

    Raises:
        UnknownTopicError: it is another topic's of the same name. To repeat the call by itself would change that one.
    """
    if table_uuid != seen:
        raise UnknownTopicError(
            f"Topic {topic} was deleted for good while this call was at work, and created again.",
            left="Nothing of this call landed in the new one.",
            next="Run it again if it is meant for that one.",
        )


def require_segments(topic: str, recorded: SegmentDigest, found: SegmentDigest, manifest_list: str) -> None:
    """Check the digest of the segments that a head's manifests name against the one in the head's state.

    Raises:
        DamagedMetadataError: they differ; the message has the difference and the manifest list.
    """
    if found == recorded:
        return
    if (found.segments, found.records, found.size_bytes) == (recorded.segments, recorded.records, recorded.size_bytes):
        how = f"{_format_figures(found)}, as committed, but with another path, partition, offset, timestamp or count"
    else:
        how = f"{_format_figures(found)} where {_format_figures(recorded)} were committed"
    raise DamagedMetadataError(
        f"The manifests of topic {topic} do not name the segments that were committed: they name {how}. The manifest "
        f"list {manifest_list}, or a manifest that it names, was changed or damaged.",
        left="Nothing was changed.",
        next="Restore these files from a backup or the object store's versions, then run it again.",
    )


def _format_figures(digest: SegmentDigest) -> str:
    return f"{format_count(digest.segments, 'segment')} with {digest.records:,} records in {digest.size_bytes:,} bytes"


def _sum_digests(segments: Iterable[Segment]) -> tuple[int, int, int, int]:
    count = records = size_bytes = value = 0
    for each in segments:
        count += 1
        records += each.records
        size_bytes += each.size_bytes
        fields = (
            f"{each.partition} {each.first_offset} {each.last_offset} {each.records} {each.size_bytes} "
            f"{each.min_timestamp_ms} {each.max_timestamp_ms} {each.tombstones} {each.keyless} {each.path}"
        )
        value += int.from_bytes(blake2b(fields.encode(errors="surrogateescape"), digest_size=_DIGEST_BYTES).digest())
    return count, records, size_bytes, value % _MODULUS


MAIN = "main"


def require_consistent(topic: str, table: Table) -> None:
    """Check that a table's metadata is consistent and that its columns are a topic's.

    Raises:
        ForeignTableError: the table is no topic.
        DamagedMetadataError: the metadata contradict themselves.
    """
    metadata = table.metadata
    current = metadata.current_snapshot()
    summary = current.summary if current is not None else None
    is_winnows = summary is not None and STATE_PROPERTY in summary.additional_properties
    if PARTITIONS_PROPERTY not in metadata.properties and not is_winnows:
        raise ForeignTableError(
            f"The table {topic} in Winnow's namespace is not a topic: Winnow did not create it, or its property "
            f"{PARTITIONS_PROPERTY} is gone from {table.metadata_location}.",
            left="Nothing was changed.",
        )
    wrong = find_contradiction(metadata)
    text = metadata.properties.get(PARTITIONS_PROPERTY, "0")
    if wrong is None and current is None and not (text.isdecimal() and int(text) > 0):
        wrong = f"the property {PARTITIONS_PROPERTY} is no number of partitions"
    if wrong is not None:
        raise _make_damage_error(topic, table.metadata_location, wrong)


def require_same_name(topic: str, table: Table) -> None:
    """Check that a catalog that ignores case in names has not answered with the table of another topic.

    Raises:
        UnknownTopicError: it has.
    """
    found = table.properties.get(TOPIC_PROPERTY, topic)
    if found != topic and found.casefold() == topic.casefold():
        raise UnknownTopicError(
            f"There is no topic {topic}. This catalog ignores case in names and answered with topic {found}, which "
            "was left as it is.",
            next="Give the topic another name.",
        )


def require_same_table(topic: str, table: Table, state: TopicState, copies: str | None) -> None:
    """Check that ``state`` was committed to this table at this location, with the ``copies`` that its summary names.

    Raises:
        DamagedMetadataError: it was not.
    """
    for what, recorded, present in (
        ("the table's identity (table-uuid)", state.table_uuid, str(table.metadata.table_uuid)),
        ("the table's folder (location)", state.location, str(table.location())),
    ):
        if recorded is not None and recorded != present:
            raise _make_damage_error(
                topic, table.metadata_location, f"{what} is {present}, and {recorded} was committed"
            )
    own = make_copies_name(topic, str(table.metadata.table_uuid))
    if state.copies != copies or (copies is not None and storage.get_name(copies) != own):
        wrong = f"the folder of the copies of documents is {copies}, and {state.copies} was committed"
        raise _make_damage_error(topic, table.metadata_location, wrong)


def require_below(topic: str, table: Table, path: str) -> None:
    """Check that the state's ``path`` lies below the table's folder, where Winnow has written it.

    Raises:
        DamagedMetadataError: it does not: one of the two was changed.
    """
    if not path.startswith(f"{table.location().rstrip('/')}/"):
        wrong = f"the state {path} is not below the table's folder (location) {table.location()}"
        raise _make_damage_error(topic, table.metadata_location, wrong)


def find_contradiction(
    metadata: TableMetadata, columns: Schema = LOG_SCHEMA, layout: TableLayout | None = None
) -> str | None:
    """Find what in the metadata of a table that has at least ``columns`` contradicts itself; None: nothing.

    ``layout``: of its files beside the topic partition.
    """
    main = metadata.refs.get(MAIN)
    current = metadata.current_snapshot()
    if current is None and (metadata.snapshots or metadata.current_snapshot_id is not None or main is not None):
        return "there are snapshots, and the current one is none of them"
    if current is not None and (main is None or main.snapshot_id != current.snapshot_id):
        return "the branch main is not at the current snapshot"
    if current is None and getattr(metadata, "last_sequence_number", 0) > 0:
        return "there were commits, and no snapshot is left"
    fields = {field.field_id: field for field in metadata.schema().fields}
    for field in columns.fields:
        found = fields.get(field.field_id)
        if found is None or (found.name, type(found.field_type)) != (field.name, type(field.field_type)):
            return f"the schema has no column {field.name} as a topic has it (field id {field.field_id})"
    layout = layout or TableLayout()
    if not matches_layout(metadata.spec(), layout):
        return f"the table is not partitioned by the topic partition{f' and {layout}' if layout.terms else ''}"
    return None


def _make_damage_error(topic: str, location: str, wrong: str) -> DamagedMetadataError:
    return DamagedMetadataError(
        f"The metadata of topic {topic} are damaged, or another tool changed them: {wrong}.",
        left="Nothing was changed.",
        next=f"Restore the metadata file {location} from a backup or the object store's versions, then run it again.",
    )
