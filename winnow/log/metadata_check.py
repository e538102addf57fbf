"""Whether a table's metadata can be those of a topic: what Winnow takes from them, checked before it is believed.

A metadata file has no checksum in most catalogs, and a changed byte can leave JSON that Iceberg accepts: a renamed key
makes a full table look empty. These checks cost nothing and need no other file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from winnow.errors import DamagedMetadataError, ForeignTableError
from winnow.log.recorded_configuration import PARTITIONS_PROPERTY
from winnow.log.state import STATE_PROPERTY
from winnow.log.table import LOG_SCHEMA, LOG_SPEC
from winnow.model import TopicState

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

MAIN = "main"


def require_consistent(topic: str, table: Table) -> None:
    """Check a table's metadata against themselves, and its columns against a topic's.

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
            f"The table {topic} in Winnow's namespace is no topic: Winnow did not create it, or its property "
            f"{PARTITIONS_PROPERTY} is gone from {table.metadata_location}. Nothing was changed."
        )
    wrong = _find_contradiction(metadata)
    if wrong is not None:
        raise _make_damage_error(topic, table.metadata_location, wrong)


def require_same_table(topic: str, table: Table, state: TopicState) -> None:
    """Check that ``state`` was committed to this very table, at this place.

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


def require_below(topic: str, table: Table, path: str) -> None:
    """Check that ``path``, the state's, lies below the table's folder, where Winnow has written it.

    Raises:
        DamagedMetadataError: it does not: one of the two was changed.
    """
    if not path.startswith(f"{table.location().rstrip('/')}/"):
        wrong = f"the state {path} is not below the table's folder (location) {table.location()}"
        raise _make_damage_error(topic, table.metadata_location, wrong)


def _find_contradiction(metadata: TableMetadata) -> str | None:
    main = metadata.refs.get(MAIN)
    current = metadata.current_snapshot()
    if current is None and (metadata.snapshots or metadata.current_snapshot_id is not None or main is not None):
        return "there are snapshots, and the current one is none of them"
    if current is not None and (main is None or main.snapshot_id != current.snapshot_id):
        return "the branch main is not at the current snapshot"
    if current is None and getattr(metadata, "last_sequence_number", 0) > 0:
        return "there were commits, and no snapshot is left"
    fields = {field.field_id: field for field in metadata.schema().fields}
    for field in LOG_SCHEMA.fields:
        found = fields.get(field.field_id)
        if found is None or (found.name, type(found.field_type)) != (field.name, type(field.field_type)):
            return f"the schema has no column {field.name} as a topic has it (field id {field.field_id})"
    spec = [(each.source_id, each.field_id, str(each.transform)) for each in metadata.spec().fields]
    if spec != [(each.source_id, each.field_id, str(each.transform)) for each in LOG_SPEC.fields]:
        return "the table is not partitioned by the topic partition"
    text = metadata.properties.get(PARTITIONS_PROPERTY, "0")
    if current is None and not (text.isdecimal() and int(text) > 0):
        return f"the property {PARTITIONS_PROPERTY} is no number of partitions"
    return None


def _make_damage_error(topic: str, location: str, wrong: str) -> DamagedMetadataError:
    return DamagedMetadataError(
        f"The metadata of topic {topic} are damaged, or another tool changed them: {wrong}. Nothing was changed. "
        f"Restore the metadata file {location} from a backup or the object store's versions, then run it again."
    )
