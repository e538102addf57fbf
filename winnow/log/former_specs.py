"""Takes partition specs out of a side table's metadata that name columns which it has no more.

Spark and PyIceberg make lists of a table's files (its metadata tables ``files`` and ``entries``) by all specs that
there ever were, and fail at one whose column is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException, RESTError
from pyiceberg.table.update import AssertDefaultSpecId, AssertRefSnapshotId, RemovePartitionSpecsUpdate

from winnow.log.catalog_access import translate_catalog_errors
from winnow.log.head_checks import MAIN
from winnow.log.manifests import list_live_manifests

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from winnow.log.latest_tables import LatestTable


def remove_former_specs(latest: LatestTable) -> bool:
    """Remove the specs of ``latest`` that name gone columns, once no kept snapshot has a manifest of them.

    Return whether there are none any more. Where another commit came first, or the catalog knows no such update, they
    stay: only those lists need it.

    Raises:
        DamagedMetadataError: a manifest list is damaged.
        ServiceError: the catalog or its object store cannot be reached.
    """
    table = latest.table()
    former = set() if table is None else _list_former_specs(table)
    if table is None or not former:
        return True
    with translate_catalog_errors(f"The partition specs of {latest.name} were not looked at"):
        going = former - _list_used_specs(table)
    if going:
        head = {"ref": MAIN, "snapshot-id": table.metadata.current_snapshot_id}
        needed = (
            AssertRefSnapshotId.model_validate(head),
            AssertDefaultSpecId.model_validate({"default-spec-id": table.metadata.default_spec_id}),
        )
        removed = RemovePartitionSpecsUpdate.model_validate({"spec-ids": sorted(going)})
        try:
            with (
                translate_catalog_errors(f"Partition specs of {latest.name} were not removed"),
                table.transaction() as transaction,
            ):
                transaction._apply((removed,), needed)
        except (CommitFailedException, RESTError, ValueError):  # ValueError: another sweep removed one meanwhile
            return False
    return going == former


def _list_former_specs(table: Table) -> set[int]:
    schema = table.schema()
    return {
        spec.spec_id
        for spec in table.metadata.partition_specs
        if spec.spec_id != table.metadata.default_spec_id
        and any(schema.find_column_name(field.source_id) is None for field in spec.fields)
    }


def _list_used_specs(table: Table) -> set[int]:
    return {
        manifest.partition_spec_id
        for snapshot in table.metadata.snapshots
        for manifest in list_live_manifests(table.io, snapshot)
    }
