"""Creates the table of a topic in a folder of its own, and names the folders of its side tables.

The last part of the folder's name is the table's uuid, so no two topics, and no two lives of a topic, share a folder:
what the deletion of one removes is never another's. Tables of older releases stay in the folder ``<topic>``.
"""

from __future__ import annotations

import json
import re
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    NoSuchTableError,
    RESTError,
    TableAlreadyExistsError,
)
from pyiceberg.io import load_file_io
from pyiceberg.table import CreateTableTransaction, StagedTable
from pyiceberg.table.metadata import new_table_metadata

from winnow.errors import ConfigurationError, ServiceError
from winnow.files import storage
from winnow.log.deleted_topics import drop_table
from winnow.log.document_places import make_copies_name
from winnow.log.places import is_same_place
from winnow.log.table import LOG_SCHEMA, LOG_SORT_ORDER, LOG_SPEC, TOPIC_PROPERTY
from winnow.values.counts import format_count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.typedef import Identifier

_REFUSALS = (RESTError, BadRequestError)
"""What a REST catalog's answer becomes where it does not know a request; subclasses say that it could not answer."""
_VERSION = re.compile(r"^(\d+)-.*\.metadata\.json$")


@runtime_checkable
class _RegistersNewTable(Protocol):
    def create_log_table(self, identifier: Identifier, metadata: TableMetadata) -> Table: ...


@dataclass(frozen=True, slots=True)
class NewTable:
    """A topic's table before it is created. ``folder``: the folder in which its own folder is made.

    ``must_be_there``: the catalog may choose no other place, since credentials are found by it.
    """

    identifier: Identifier
    folder: str
    properties: Mapping[str, str]
    must_be_there: bool = False
    uuid: uuid.UUID = field(default_factory=uuid.uuid4)

    @property
    def topic(self) -> str:
        """The topic's name."""
        return str(self.identifier[-1])

    @property
    def location(self) -> str:
        """The table's folder."""
        return storage.join(self.folder, name_folder(self.topic, str(self.uuid)))


def name_folder(topic: str, table_uuid: str) -> str:
    """Name the folder of what belongs to the life of ``topic`` whose log has that table uuid."""
    return make_copies_name(topic, table_uuid)


def name_side_folder(topic: str, table: Table) -> str:
    """Name the folder of a side table of ``topic``, whose log is ``table``, within the side tables' own folder.

    It is named after the log's life, so it is known before the side table exists. A log that an older release created
    has no property with its topic and lies in the folder ``<topic>``; so do its side tables.
    """
    if TOPIC_PROPERTY not in table.properties and storage.get_name(table.location().rstrip("/")) == topic:
        return topic
    return name_folder(topic, str(table.metadata.table_uuid))


def create_log_table(catalog: Catalog, new: NewTable) -> None:
    """Create a topic's table in a folder that nothing else has.

    A catalog may choose another folder. If that holds anything, the new entry is dropped again and nothing is written
    there any more.

    Raises:
        TableAlreadyExistsError: there is a table of that name.
        ConfigurationError: the folder that the catalog chose is in use.
    """
    metadata = new_table_metadata(
        LOG_SCHEMA, LOG_SPEC, LOG_SORT_ORDER, new.location, {TOPIC_PROPERTY: new.topic, **new.properties}, new.uuid
    )
    if isinstance(catalog, _RegistersNewTable):
        catalog.create_log_table(new.identifier, metadata)
        return
    _create_by_catalog(catalog, new.identifier, metadata)
    created = catalog.load_table(new.identifier)
    if not is_same_place(created.location(), new.location):
        if new.must_be_there:
            drop_table(catalog, new.identifier, created.metadata_location, f"topic {new.topic}")
            raise ConfigurationError(
                f"Topic {new.topic} was not created: the catalog placed its table in {created.location()} instead of "
                f"{new.location}, where vended credentials would be asked for.",
                left="Its entry was dropped again.",
                next="Set WINNOW_WAREHOUSE to a folder in which the catalog lets its clients choose places.",
            )
        _require_unused(catalog, new.identifier, created)


def _create_by_catalog(catalog: Catalog, identifier: Identifier, metadata: TableMetadata) -> None:
    """Have the catalog create the table with our uuid if it accepts one; else with its own."""
    staged = StagedTable(
        identifier=identifier,
        metadata=metadata,
        metadata_location=storage.join(metadata.location, "metadata", "00000-staged.metadata.json"),
        io=load_file_io(catalog.properties, metadata.location),
        catalog=catalog,
    )
    try:
        CreateTableTransaction(staged).commit_transaction()
    except CommitFailedException as problem:
        if catalog.table_exists(identifier):
            raise TableAlreadyExistsError(".".join(identifier)) from problem
        raise
    except (RESTError, NoSuchTableError, NotImplementedError) as problem:
        if isinstance(problem, RESTError) and type(problem) not in _REFUSALS:
            raise
        # A catalog that creates tables only by its other request; the folder's name is as unique with our uuid.
        catalog.create_table(
            identifier,
            schema=LOG_SCHEMA,
            partition_spec=LOG_SPEC,
            sort_order=LOG_SORT_ORDER,
            location=metadata.location,
            properties=dict(metadata.properties),
        )


def _require_unused(catalog: Catalog, identifier: Identifier, created: Table) -> None:
    """Check that the folder that the catalog chose holds nothing but the new table's first metadata file.

    Raises:
        ConfigurationError: it holds something else; the new entry is dropped if nobody committed to it.
    """
    location, topic = created.location().rstrip("/"), str(identifier[-1])
    own = storage.get_name(created.metadata_location)
    listing = storage.list_named_files(location, "", lambda _: True)
    others = [*(each for each in listing.files if storage.get_name(each.uri) != own), *listing.others]
    if not others:
        return
    drop_table(catalog, identifier, created.metadata_location, f"topic {topic}")
    raise ConfigurationError(
        f"Topic {topic} was not created: the catalog placed its table in {location}, and "
        f"{format_count(len(others), 'file')} of another table are there already; {_describe_owner(location, own)}.",
        left="Its entry was dropped again; of those files none was changed.",
        next=(
            f"If they are this topic's: winnow topics adopt {topic} {location}. Else have the catalog place it "
            "elsewhere, or move those files."
        ),
    )


def _describe_owner(location: str, own: str) -> str:
    """Describe whose table lies at ``location``, by its newest metadata file besides the one named ``own``."""
    found = [entry.uri for entry in storage.list_files(storage.join(location, "metadata"))]
    versions = [(int(match[1]), uri) for uri in found if (match := _VERSION.match(storage.get_name(uri)))]
    others = [each for each in versions if storage.get_name(each[1]) != own]
    if not others:
        return "no metadata there say whose they are"
    newest = max(others)[1]
    try:
        properties = json.loads(storage.read_bytes(newest)).get("properties", {})
        topic = properties.get(TOPIC_PROPERTY)
    except (OSError, ServiceError, ValueError, AttributeError):
        topic = None
    return f"its newest metadata ({storage.get_name(newest)}) " + (
        f"are of topic {topic}" if isinstance(topic, str) else "do not say of which topic they are"
    )
