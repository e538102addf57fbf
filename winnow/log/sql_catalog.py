"""PyIceberg's SQL catalog with checksums in the names of metadata files, and with commits that survive a power cut.

Only public methods of PyIceberg are overridden. Loading checks a metadata file before it is decoded. Committing names
the file by its content, and swaps the row only if it still names the file that the commit was made from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Self, cast

from pyiceberg.catalog import TABLE_METADATA_FILE_NAME_REGEX
from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.io import load_file_io
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    update_table_metadata,
)
from sqlalchemy import CursorResult, delete, event, select, update
from sqlalchemy.orm import Session

from winnow.clock import read_wall_clock_ms
from winnow.files import storage
from winnow.log.file_checksums import read_table_metadata, write_table_metadata
from winnow.log.table import LEAST_METADATA_NUMBER_PROPERTY

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Identifier
    from sqlalchemy import ColumnElement, Engine


MAXIMUM_COMMIT_AGE_MS: Final = 10 * 60_000
"""How long a commit may take from its preparation to the catalog's answer; by so much a grace can be too short."""


class LogSqlCatalog(SqlCatalog):
    """A SQL catalog that checks the metadata files it reads and names those it writes by their content."""

    @classmethod
    def over(cls, catalog: Catalog) -> Self:
        """Return PyIceberg's own SqlCatalog under this class; both share its database connections."""
        made = cls.__new__(cls)
        made.__dict__.update(catalog.__dict__)
        _sync_commits(made.engine)
        return made

    def load_table(self, identifier: str | Identifier) -> Table:
        """Load a table; as PyIceberg's method, with the metadata file checked.

        Raises:
            DamagedMetadataError: the metadata file is damaged.
            FileNotFoundError: the metadata file is missing.
            NoSuchTableError: there is no such table.
        """
        location = self.find_metadata_location(identifier)
        if location is None:
            return super().load_table(identifier)  # raises what PyIceberg raises
        metadata = read_table_metadata(load_file_io(self.properties, location), location)
        return Table(
            self.identifier_to_tuple(identifier), metadata, location, self._open_files(metadata, location), self
        )

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commits updates to a table; as PyIceberg's method, with a checksum in the metadata file's name.

        Raises:
            CommitFailedException: a requirement is not met, or another commit came first: the head, the sequence
                number, or a tag of a snapshot that is to be removed is new.
        """
        try:
            current = self.load_table(table.name())
        except NoSuchTableError:
            return super().commit_table(table, requirements, updates)
        for requirement in requirements:
            requirement.validate(current.metadata)
        _require_unpinned(current.metadata, updates)
        try:
            metadata = _apply_updates(current.metadata, updates, current.metadata_location)
        except ValueError as problem:
            # Such as a sequence number that another engine's commit, which it rolled back, was given meanwhile.
            raise CommitFailedException(f"The updates do not fit the newest metadata: {problem}") from problem
        location = current.metadata_location
        if metadata != current.metadata:
            location = self._write_version(metadata, current.metadata_location)
            self.swap_metadata(
                table.name(), current.metadata_location, location, prepared_at_ms=metadata.last_updated_ms
            )
        return CommitTableResponse.model_validate({"metadata": metadata, "metadata-location": location})

    def create_log_table(self, identifier: Identifier, metadata: TableMetadata) -> Table:
        """Create a table with these metadata, whose folder nothing else has.

        Raises:
            TableAlreadyExistsError: there is a table of that name; nothing of this one is left.
        """
        if self.find_metadata_location(identifier) is not None:
            raise TableAlreadyExistsError(f"Table {'.'.join(identifier)} already exists")
        provider = load_location_provider(metadata.location, metadata.properties)
        unnamed = provider.new_table_metadata_file_location(0)
        location = write_table_metadata(self._open_files(metadata, unnamed), unnamed, metadata)
        try:
            return self.register_table(identifier, location)
        except TableAlreadyExistsError:
            storage.delete_unreferenced([location], below=metadata.location)
            storage.remove_empty_folders(metadata.location, "metadata", lambda _: False)
            storage.remove_empty_root(metadata.location)
            raise

    def drop_table_at(self, identifier: Identifier, metadata_location: str) -> bool:
        """Drop a table's entry if it still names that metadata file; return whether it did."""
        row = IcebergTables
        statement = delete(row).where(*self._is_row_of(identifier), row.metadata_location == metadata_location)
        with Session(self.engine) as session:
            dropped = cast("CursorResult[Any]", session.execute(statement))
            session.commit()
            return dropped.rowcount > 0

    def list_metadata_locations(self, namespace: str) -> dict[str, str]:
        """Return the metadata file of every table of ``namespace``, by table name, with one query."""
        row = IcebergTables
        statement = select(row.table_name, row.metadata_location).where(
            row.catalog_name == self.name, row.table_namespace == namespace
        )
        with Session(self.engine) as session:
            return {name: location for name, location in session.execute(statement) if location is not None}

    def list_all_metadata_locations(self, namespaces: Sequence[str]) -> dict[tuple[str, str], str]:
        """Return the metadata file of every table of ``namespaces``, by namespace and name, as of one moment."""
        row = IcebergTables
        statement = select(row.table_namespace, row.table_name, row.metadata_location).where(
            row.catalog_name == self.name, row.table_namespace.in_(namespaces)
        )
        with Session(self.engine) as session:
            return {(space, name): place for space, name, place in session.execute(statement) if place is not None}

    def find_metadata_location(self, identifier: str | Identifier) -> str | None:
        """Find the metadata file that the row of a table names, whether it is there or not; None: there is no row.

        The name is exactly this one: a database may ignore case.
        """
        row = IcebergTables
        statement = select(row.table_name, row.metadata_location).where(*self._is_row_of(identifier))
        with Session(self.engine) as session:
            found = [(name, location) for name, location in session.execute(statement)]
        return dict(found).get(self.table_name_from(identifier))

    def _write_version(self, metadata: TableMetadata, before: str) -> str:
        """Write the metadata file that follows the one at ``before``; return its location."""
        named = TABLE_METADATA_FILE_NAME_REGEX.fullmatch(before.rpartition("/")[2])
        provider = load_location_provider(metadata.location, metadata.properties)
        least = metadata.properties.get(LEAST_METADATA_NUMBER_PROPERTY, "0")
        number = max(int(named[1]) + 1 if named else 0, int(least) if least.isdecimal() else 0)
        location = provider.new_table_metadata_file_location(number)
        return write_table_metadata(self._open_files(metadata, location), location, metadata)

    def swap_metadata(
        self, identifier: Identifier, before: str, after: str, *, prepared_at_ms: int | None = None
    ) -> None:
        """Set the metadata file in the table's row to ``after`` if it is still ``before``.

        ``prepared_at_ms``: the time that the commit bears, by this machine's clock. The grace of the snapshot that it
        replaces is counted from there, so whoever was paused for long since then prepares it again.

        Raises:
            CommitFailedException: it is another one, there is no such row, or the commit was prepared longer than
                :data:`MAXIMUM_COMMIT_AGE_MS` ago; nothing changed.
        """
        row = IcebergTables
        if prepared_at_ms is not None and read_wall_clock_ms() - prepared_at_ms > MAXIMUM_COMMIT_AGE_MS:
            raise CommitFailedException(f"The commit was prepared too long ago: {'.'.join(identifier)}")
        statement = update(row).where(*self._is_row_of(identifier), row.metadata_location == before)
        with Session(self.engine) as session:
            swapped = cast(
                "CursorResult[Any]",
                session.execute(statement.values(metadata_location=after, previous_metadata_location=before)),
            )
            if swapped.rowcount < 1:
                raise CommitFailedException(f"Table has been updated by another process: {'.'.join(identifier)}")
            session.commit()

    def _is_row_of(self, identifier: str | Identifier) -> tuple[ColumnElement[bool], ...]:
        return (
            IcebergTables.catalog_name == self.name,
            IcebergTables.table_namespace == self.namespace_to_string(self.namespace_from(identifier)),
            IcebergTables.table_name == self.table_name_from(identifier),
        )

    def _open_files(self, metadata: TableMetadata, location: str) -> FileIO:
        return load_file_io({**self.properties, **metadata.properties}, location)


def _require_unpinned(metadata: TableMetadata, updates: Sequence[TableUpdate]) -> None:
    """Check that no tag or branch names a snapshot that ``updates`` remove: PyIceberg would remove that, too."""
    removed = {each for change in updates if isinstance(change, RemoveSnapshotsUpdate) for each in change.snapshot_ids}
    released = {change.ref_name for change in updates if isinstance(change, RemoveSnapshotRefUpdate)}
    pins = [name for name, each in metadata.refs.items() if each.snapshot_id in removed and name not in released]
    if pins:
        raise CommitFailedException(f"A snapshot that is to be removed was pinned meanwhile by {pins[0]}.")


def _apply_updates(before: TableMetadata, updates: Sequence[TableUpdate], location: str) -> TableMetadata:
    """Apply ``updates`` to the metadata at ``location``, as PyIceberg does.

    PyIceberg ends with a copy of all metadata, snapshot by snapshot, which takes the longest part of a commit where
    many are kept. Snapshots that no update concerns are left out of that and put back as they are.
    """
    newest = before.current_snapshot()
    if newest is None or not all(_concerns_newest(change, before, newest) for change in updates):
        return update_table_metadata(before, tuple(updates), metadata_location=location)
    short = before.model_copy(update={"snapshots": [newest], "snapshot_log": []})
    after = update_table_metadata(short, tuple(updates), metadata_location=location)
    return after.model_copy(
        update={
            "snapshots": [*before.snapshots, *after.snapshots[1:]],
            "snapshot_log": [*before.snapshot_log, *after.snapshot_log],
        }
    )


def _concerns_newest(change: TableUpdate, metadata: TableMetadata, newest: Snapshot) -> bool:
    """Check that ``change`` looks at no snapshot of ``metadata`` but ``newest``."""
    if isinstance(change, AddSnapshotUpdate):
        return metadata.snapshot_by_id(change.snapshot.snapshot_id) is None
    if isinstance(change, SetSnapshotRefUpdate):
        return change.snapshot_id == newest.snapshot_id or metadata.snapshot_by_id(change.snapshot_id) is None
    return isinstance(change, SetPropertiesUpdate | RemovePropertiesUpdate)


def _sync_commits(engine: Engine) -> None:
    """Make a commit to a SQLite file survive a power cut.

    SQLite ends a transaction by removing its journal. By default the kernel syncs that removal later, and a journal
    that is there again after a power cut rolls the commit back.
    """
    if engine.dialect.name != "sqlite" or engine.url.database in (None, "", ":memory:"):
        return

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, record: object) -> None:
        connection.execute("PRAGMA synchronous = EXTRA")

    engine.dispose()  # connections that are open already have the default
