"""The side table of a topic's latest state: a row for each key, beside the log, in a namespace of its own.

Its files are written as segments are: records of one partition by offset. The summary of every snapshot names the
snapshot of the log that it reflects. A commit counts only over the snapshot that it was computed from, so a process
that was paused meanwhile commits nothing, and an update is visible as a whole or not at all.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.manifest import ManifestContent

from winnow.errors import CommitUnknownError, DamagedMetadataError, ForeignTableError
from winnow.files.placed_files import FilePlace
from winnow.log.catalog_access import ensure_namespace, find_landed, translate_catalog_errors
from winnow.log.deleted_topics import drop_table
from winnow.log.head_checks import find_contradiction
from winnow.log.log_update import LogUpdate
from winnow.log.manifests import (
    list_live_manifests,
    list_live_segments,
    read_live_places,
    reduce_garbage_collection,
)
from winnow.log.staged_transaction import StagedTransaction
from winnow.log.table import LOG_SCHEMA, LOG_SORT_ORDER, LOG_SPEC, TOPIC_PROPERTY, make_table_properties
from winnow.log.table_placement import TablePlacement, make_partition_spec, make_sort_order
from winnow.log.typed_schema import list_required_columns, stage_schema
from winnow.values.latest_layout import TableLayout, parse_layout
from winnow.values.latest_order import parse_order
from winnow.values.model import Segment

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.typedef import Identifier

_SNAPSHOT: Final = "winnow.latest.snapshot-id"
_COMMITTED: Final = "winnow.latest.snapshot-timestamp-ms"
_UUID: Final = "winnow.latest.table-uuid"
_ORDER: Final = "winnow.latest.order"
_SHAPE: Final = "winnow.latest.shape"
_LAYOUT: Final = "winnow.latest.layout"
_SORT_ORDER: Final = "winnow.latest.sort-order"
_OPERATION: Final = "winnow.operation"

_BY_OFFSET = operator.attrgetter("first_offset")


@dataclass(frozen=True, slots=True)
class ReflectedLog:
    """The state of the log that a snapshot of the side table shows.

    ``snapshot_id`` and ``committed_ms``: the log's snapshot, and its time. ``table_uuid``: identity of the log's table.
    ``order``: the order by which winners were chosen. ``shape``: tells how columns are made of records
    (:meth:`winnow.values.row_shape.RowShape.compute_digest`). ``layout``: how rows are distributed to files beside the
    topic partition (:class:`winnow.values.latest_layout.TableLayout`).
    """

    snapshot_id: int
    committed_ms: int
    table_uuid: str
    order: str
    shape: str = ""
    layout: TableLayout = field(default_factory=TableLayout)

    def to_summary(self) -> dict[str, str]:
        """Return the properties of a snapshot that shows this."""
        return {
            _SNAPSHOT: str(self.snapshot_id),
            _COMMITTED: str(self.committed_ms),
            _UUID: self.table_uuid,
            _ORDER: self.order,
            **({_SHAPE: self.shape} if self.shape else {}),
            **({_LAYOUT: str(self.layout)} if self.layout.terms else {}),
            **({_SORT_ORDER: self.layout.order_text} if self.layout.order else {}),
        }

    @classmethod
    def from_summary(cls, summary: Mapping[str, str]) -> ReflectedLog | None:
        """Read it from a snapshot's properties; None if another program wrote them."""
        try:
            return cls(
                int(summary[_SNAPSHOT]),
                int(summary[_COMMITTED]),
                summary[_UUID],
                summary[_ORDER],
                summary.get(_SHAPE, ""),
                replace(parse_layout(summary.get(_LAYOUT, "")), order=parse_order(summary.get(_SORT_ORDER, ""))),
            )
        except (KeyError, ValueError):
            return None


@dataclass(frozen=True)
class LatestHead:
    """The newest snapshot of a side table; ``reflected`` None: it has none yet."""

    table: Table
    reflected: ReflectedLog | None

    @property
    def snapshot_id(self) -> int | None:
        """The newest snapshot's id; None: there is none."""
        return self.table.metadata.current_snapshot_id

    def shows_other_shapes(self) -> bool:
        """Check whether an older snapshot has columns that were made in another way than the newest one's."""
        summaries = [snapshot.summary for snapshot in self.table.metadata.snapshots if snapshot.summary is not None]
        shapes = {summary.additional_properties.get(_SHAPE, "") for summary in summaries}
        return self.reflected is not None and bool(shapes - {self.reflected.shape})


class LatestTable:
    """The side table of one topic, which may not exist yet. Cheap to make: ``locate`` finds its folder at first use."""

    def __init__(self, catalog: Catalog, identifier: Identifier, locate: Callable[[], str]) -> None:
        self._catalog = catalog
        self._identifier = identifier
        self._locate = locate
        self.topic = str(identifier[-1])

    @cached_property
    def location(self) -> str:
        """The folder of its files, named after the log's life.

        Raises:
            UnknownTopicError: there is no such topic.
            ServiceError: the catalog cannot be reached.
        """
        return self._locate()

    @property
    def name(self) -> str:
        """The table's name in the catalog."""
        return ".".join(self._identifier)

    def table(self) -> Table | None:
        """Load the table, whoever created it; None if there is none.

        Raises:
            ServiceError: the catalog cannot be reached.
        """
        with translate_catalog_errors(f"The table {self.name} could not be opened"):
            try:
                return self._catalog.load_table(self._identifier)
            except NoSuchTableError:
                return None

    def owns(self, table: Table) -> bool:
        """Check whether Winnow created ``table`` for this topic."""
        return table.properties.get(TOPIC_PROPERTY) == self.topic

    def load(self) -> LatestHead | None:
        """Load the newest snapshot; None if there is no table.

        Raises:
            ForeignTableError: another program created the table, or committed its newest snapshot.
            DamagedMetadataError: the table's metadata contradict themselves.
            ServiceError: the catalog cannot be reached.
        """
        table = self.table()
        return None if table is None else self._make_head(table)

    def is_newest(self, head: LatestHead) -> bool:
        """Check whether no snapshot came after ``head``.

        Raises:
            ServiceError: the catalog cannot be reached.
        """
        table = self.table()
        return table is not None and table.metadata.current_snapshot_id == head.snapshot_id

    def segments(self, head: LatestHead) -> dict[int, tuple[Segment, ...]]:
        """List the files of ``head`` per partition, by their first offset; the offsets of two files may overlap.

        Raises:
            ForeignTableError: it has files that Winnow did not write, or row-level deletes.
            DamagedMetadataError: a manifest is damaged.
            ServiceError: the catalog or its object store cannot be reached.
        """
        found: dict[int, list[Segment]] = {}
        with reduce_garbage_collection(), translate_catalog_errors(f"The files of {self.name} could not be listed"):
            for manifest in self._list_manifests(head.table):
                for segment in list_live_segments(head.table.io, manifest, self._make_foreign_file_error):
                    found.setdefault(segment.partition, []).append(segment)
        return {number: tuple(sorted(found[number], key=_BY_OFFSET)) for number in sorted(found)}

    def open_placement(self, head: LatestHead | None, layout: TableLayout) -> TablePlacement | None:
        """Open what distributes rows by ``layout``; None: it has no terms. ``head`` None: all files are written anew.

        Raises:
            DamagedMetadataError: a manifest is damaged.
            ServiceError: the catalog or its object store cannot be reached.
        """
        if layout.is_plain:
            return None
        if head is None:
            return TablePlacement(self.topic, layout, [None] * (len(layout.terms) + len(layout.order)))
        places: dict[str, FilePlace] = {}
        with reduce_garbage_collection(), translate_catalog_errors(f"The files of {self.name} could not be listed"):
            for manifest in self._list_manifests(head.table):
                found = read_live_places(head.table.io, manifest)
                places.update((path, FilePlace(values)) for path, values in found.items())
        field_ids: list[int | None] = [known.source_id for known in head.table.spec().fields[1:]]
        field_ids += [known.source_id for known in head.table.sort_order().fields[: len(layout.order)]]
        return TablePlacement(self.topic, layout, field_ids, places)

    def commit(
        self,
        head: LatestHead | None,
        reflected: ReflectedLog,
        *,
        add: Sequence[Segment],
        remove: Collection[Segment],
        operation: str,
        schema: Schema | None = None,
        placement: TablePlacement | None = None,
    ) -> int | None:
        """Replace files by others in one snapshot over exactly ``head``; return its id, None if another came first.

        ``head`` None: there was no table, and it is created. ``schema``: what the table's becomes in the same commit,
        the one of the files in ``add``; None: it stays, and so do partition fields. ``placement``: by which these files
        were written.

        Raises:
            CommitUnknownError: the catalog did not confirm the commit; nothing was cleaned up.
            ForeignTableError, ServiceError: as :meth:`load`.
        """
        with translate_catalog_errors(f"The commit to {self.name} was not started"):
            head = head or self.create()
            if head is None:
                return None
            table = head.table
            transaction = StagedTransaction(table)
            if schema is not None:
                orders = [reflected.layout.order, () if head.reflected is None else head.reflected.layout.order]
                stage_schema(
                    transaction,
                    schema,
                    make_partition_spec(table.metadata, placement),
                    make_sort_order(table.metadata, placement) if any(orders) else None,
                )
            producer = LogUpdate(
                transaction,
                table,
                self._list_manifests(table),
                add=add,
                remove=[segment.path for segment in remove],
                remove_from={segment.partition for segment in remove},
                places=None if placement is None else placement.places,
            )
            producer.snapshot_properties = {_OPERATION: operation, **reflected.to_summary()}
            producer.commit()
        try:
            transaction.commit_transaction()
        except (CommitFailedException, NoSuchTableError):
            return None
        except Exception as problem:
            if find_landed(self._catalog, self._identifier, producer.snapshot_id) is None:
                raise CommitUnknownError(
                    f"The catalog did not say whether the commit to {self.name} landed ({type(problem).__name__}).",
                    left=f"Nothing was cleaned up; the log of {self.topic} is not concerned.",
                    next=f"Run it again: winnow latest-table update {self.topic}",
                ) from problem
        return producer.snapshot_id

    def drop(self, metadata_location: str) -> None:
        """Drop the table's entry in the catalog if it still is at ``metadata_location``; its files stay."""
        drop_table(self._catalog, self._identifier, metadata_location, self.name)

    def create(self) -> LatestHead | None:
        """Create the table; None if another process created it and committed to it meanwhile.

        Raises:
            ForeignTableError: another program created one of its name.
            ServiceError: the catalog cannot be reached.
        """
        try:
            with translate_catalog_errors(f"The table {self.name} was not created"):
                ensure_namespace(self._catalog, str(self._identifier[0]))
                table = self._catalog.create_table(
                    self._identifier,
                    schema=LOG_SCHEMA,
                    partition_spec=LOG_SPEC,
                    sort_order=LOG_SORT_ORDER,
                    location=self.location,
                    properties={TOPIC_PROPERTY: self.topic, **make_table_properties()},
                )
        except TableAlreadyExistsError:
            found = self.load()
            return None if found is None or found.reflected is not None else found
        return LatestHead(table, None)

    def _make_head(self, table: Table) -> LatestHead:
        if not self.owns(table):
            raise self.make_foreign_table_error()
        snapshot = table.current_snapshot()
        summary = {} if snapshot is None or snapshot.summary is None else snapshot.summary.additional_properties
        reflected = ReflectedLog.from_summary(summary)
        layout = None if reflected is None else reflected.layout
        wrong = find_contradiction(table.metadata, list_required_columns(table.schema()), layout)
        if wrong is not None:
            raise DamagedMetadataError(
                f"The metadata of {self.name} are damaged, or another tool changed them: {wrong}.",
                left="Nothing was changed.",
                next=self._format_way_out(),
            )
        if snapshot is None:
            return LatestHead(table, None)
        if reflected is None:
            raise ForeignTableError(
                f"Another program committed the newest snapshot of {self.name}.",
                left="Nothing was changed.",
                next=self._format_way_out(),
            )
        return LatestHead(table, reflected)

    def _list_manifests(self, table: Table) -> list[ManifestFile]:
        snapshot = table.current_snapshot()
        manifests = [] if snapshot is None else list_live_manifests(table.io, snapshot)
        if any(manifest.content != ManifestContent.DATA for manifest in manifests):
            raise ForeignTableError(
                f"The table {self.name} holds row-level deletes that Winnow does not write.",
                left="Nothing was changed.",
                next=self._format_way_out(),
            )
        return manifests

    def _make_foreign_file_error(self, path: str) -> ForeignTableError:
        return ForeignTableError(
            f"The table {self.name} holds a data file that Winnow did not write: {path}.",
            left="Nothing was changed.",
            next=self._format_way_out(),
        )

    def make_foreign_table_error(self) -> ForeignTableError:
        """Make the error about a table of this name that Winnow did not create."""
        return ForeignTableError(
            f"The table {self.name} was not created by Winnow.",
            left="It was left as it is.",
            next="Rename it by the program that did.",
        )

    def _format_way_out(self) -> str:
        return (
            f"Drop it and have it written anew: winnow latest-table drop {self.topic}, then winnow "
            f"latest-table update {self.topic}"
        )
