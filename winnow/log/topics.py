"""All topics of a catalog: create, list, open.

PyIceberg is imported when the catalog is first used, so commands that only use the store do not wait for it.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import urlparse

from winnow.config.broker import TopicDefault
from winnow.config.kafka_settings import KafkaRecord
from winnow.config.names import validate_topic_name
from winnow.config.topic import TopicConfig
from winnow.errors import ConfigurationError, ServiceError, UnknownTopicError, WinnowError
from winnow.files import object_store, private_files
from winnow.files.disk_sync import sync_folder
from winnow.log.document_places import MAXIMUM_TOPIC_LENGTH
from winnow.log.namespaces import CATALOG_NAME, DEFAULT_NAMESPACE, Namespaces

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO

    from winnow.log.document_places import DocumentPlaces
    from winnow.log.head import Head
    from winnow.log.head_age import HeadGuard, HeadRecords
    from winnow.log.latest_tables import LatestTable
    from winnow.log.quarantine import Quarantine
    from winnow.log.table_recovery import CatalogEntry
    from winnow.log.topic_log import TopicLog

MAXIMUM_PARTITIONS = 100_000
SQL_CATALOG_TABLES = 2
"""Tables that PyIceberg creates in an empty SQL catalog."""
MAXIMUM_QUESTIONS = 8
"""Maximum questions to a catalog at a time."""
SYNCED_FILE_IO = "winnow.log.file_io.SyncedFileIO"
"""Name by which PyIceberg loads the FileIO that syncs its files on a local file system."""


class TopicLogs:
    """The topics below one catalog and warehouse.

    Args:
        catalog: PyIceberg's catalog properties.
        warehouse: URI of the folder the tables live in.
        defaults: what the installation sets for every topic that does not set it itself.
        namespace: the namespace of the topics' tables in the catalog; the names of all others begin with it.
        vends: whether the catalog vends the credentials for the tables' files, and nothing else opens them.
        records: where the newest heads are recorded besides the catalog; None: nowhere, and no head is compared.

    ``before_writing`` is called before a topic is created and before each commit to one; it may refuse.
    """

    before_writing: Callable[[], None] | None = None

    def __init__(
        self,
        catalog: Mapping[str, str],
        warehouse: str,
        defaults: Mapping[str, TopicDefault] | None = None,
        *,
        namespace: str = DEFAULT_NAMESPACE,
        vends: bool = False,
        records: HeadRecords | None = None,
    ) -> None:
        self._records = records
        self._guard: HeadGuard | None = None
        self._properties = dict(catalog)
        self._warehouse = warehouse
        self._defaults = dict(defaults or {})
        self.namespaces = Namespaces(namespace, gathered=vends)
        self._vends = vends
        self._opening = threading.Lock()
        self._opened: Catalog | None = None

    @property
    def catalog(self) -> Catalog:
        """The PyIceberg catalog, opened at first use by whichever thread asks first."""
        with self._opening:
            if self._opened is not None:
                return self._opened
            from winnow.log.catalog_access import confirm_commits, ensure_namespace, translate_catalog_errors

            database = _find_database_file(self._properties)
            is_new = database is not None and not database.exists()
            if database is not None:
                with private_files.translate_disk_errors(database.parent, "WINNOW_CATALOG__URI"):
                    database.parent.mkdir(parents=True, exist_ok=True)
                    private_files.create_private(database)
            with translate_catalog_errors("The catalog could not be opened"):
                catalog = self._load_first()
                confirm_commits(catalog)
                ensure_namespace(catalog, self.namespaces.topics)
                if self._vends:
                    self._ensure_shared_table(catalog)
            if database is not None and is_new:
                sync_folder(database.parent)
            self._opened = catalog
            return catalog

    def close(self) -> None:
        """Close the catalog's connections. Whoever uses it afterwards opens others."""
        with self._opening:
            if self._opened is not None:
                self._opened.close()

    def _ensure_shared_table(self, catalog: Catalog) -> None:
        """Create the table in whose folder lies what is in no topic's; it never has a row."""
        from pyiceberg.exceptions import TableAlreadyExistsError
        from pyiceberg.schema import Schema
        from pyiceberg.types import NestedField, StringType

        from winnow.files import storage
        from winnow.log.catalog_access import ensure_namespace

        if catalog.table_exists(self.namespaces.shared):
            return
        ensure_namespace(catalog, self.namespaces.shared[0])
        schema = Schema(NestedField(1, "name", StringType(), required=False))
        with contextlib.suppress(TableAlreadyExistsError):
            catalog.create_table(
                self.namespaces.shared, schema, location=storage.join(self._warehouse, *self.namespaces.shared)
            )

    def _load_first(self) -> Catalog:
        # Processes that open an empty SQL catalog at once create its tables side by side. A try fails when a table that
        # it found missing was created by another meanwhile; no table goes, so that happens once a table at most. Any
        # other catalog that cannot be reached is waited for once.
        for _ in range(SQL_CATALOG_TABLES if _may_be_sql(self._properties) else 0):
            with contextlib.suppress(Exception):
                return self._load()
        return self._load()  # any other problem is raised here

    def _load(self) -> Catalog:
        from pyiceberg.catalog import CatalogType, load_catalog

        kind, known = self._properties.get("type"), [each.value for each in CatalogType]
        if kind is not None and str(kind).lower() not in known:
            raise ConfigurationError(
                f"catalog.type is {ascii(str(kind))[:40]}, which PyIceberg does not know: it is one of "
                f"{', '.join(known)}.",
                left="Nothing was changed.",
                next="Set it in winnow.toml or as WINNOW_CATALOG__TYPE.",
            )
        properties = {"warehouse": self._warehouse, **object_store.add_store_properties(self._properties)}
        if not (kind or "").lower().startswith("rest"):
            properties["warehouse"] = self._warehouse  # that of a REST catalog is the name that it has for it
        uri = properties.get("uri", "")
        if uri.startswith("postgresql://"):
            # Without a driver's name SQLAlchemy 2.0 looks for psycopg2, which is not installed.
            properties["uri"] = f"postgresql+psycopg{uri.removeprefix('postgresql')}"
        loaded = load_catalog(CATALOG_NAME, **properties)
        _choose_file_io(loaded, self._warehouse, vends=self._vends)
        sql = sys.modules.get("pyiceberg.catalog.sql")
        if sql is None or type(loaded) is not sql.SqlCatalog:
            return loaded  # so that SQL's modules are not loaded for it
        from winnow.log.sql_catalog import LogSqlCatalog

        return LogSqlCatalog.over(loaded)

    def create(
        self, topic: str, partitions: int, overrides: Mapping[str, str], *, kafka: KafkaRecord | None = None
    ) -> TopicLog:
        """Create a topic, in a folder of its own; ``kafka``: what is known of its configuration at Kafka.

        Raises:
            ConfigurationError: the name, the number of partitions or the configuration is not valid, it exists, or the
                folder that the catalog chose for it is in use.
            RunAgainError: a restore of a backup has begun and not ended, and another topic would be in its way.
        """
        validate_topic_name(topic)
        if not 1 <= partitions <= MAXIMUM_PARTITIONS:
            raise ConfigurationError(
                f"Topic {topic} was not created: the number of partitions must be between 1 and {MAXIMUM_PARTITIONS}, "
                f"not {partitions}."
            )
        if self._vends and len(topic) >= MAXIMUM_TOPIC_LENGTH:
            raise ConfigurationError(
                f"Topic {topic[:20]}... was not created: with vended credentials a topic's name has less than "
                f"{MAXIMUM_TOPIC_LENGTH} characters, since a table is found by the whole name of its folder."
            )
        config = TopicConfig.parse(overrides, self._defaults)
        from pyiceberg.exceptions import TableAlreadyExistsError

        from winnow.files import storage
        from winnow.log.catalog_access import translate_catalog_errors
        from winnow.log.restore_notes import require_no_restore
        from winnow.log.table import make_log_properties
        from winnow.log.table_folders import NewTable, create_log_table

        self.confirm_writing()
        require_no_restore(self.restore_note)
        new = NewTable(
            self.identify(topic),
            storage.join(self._warehouse, self.namespaces.topics),
            make_log_properties(partitions, dict(config.overrides), kafka=kafka),
            self._vends,
        )
        with translate_catalog_errors(f"Topic {topic} was not created"):
            try:
                create_log_table(self.catalog, new)
            except TableAlreadyExistsError as problem:
                self._require_free_name(topic)
                raise ConfigurationError(
                    f"Topic {topic} exists already.",
                    left="It was left as it is.",
                    next=f"See it with: winnow topics describe {topic}",
                ) from problem
        log = self.open(topic)
        if self._records is not None:
            log.record(log.head())
        return log

    def _require_free_name(self, topic: str) -> None:
        if self._is_deleted(topic):
            raise ConfigurationError(
                f"Topic {topic} was not created: a deleted topic has this name until its files are removed.",
                next=(
                    f"To bring that one back: winnow topics restore {topic}. To remove it for good: winnow topics "
                    f"delete {topic} --now"
                ),
            )

    def names(self) -> list[str]:
        """List all topics that are not deleted, sorted."""
        deleted = set(self.list_deleted())
        return [name for name in self._list_tables() if name not in deleted]

    def list_deleted(self) -> list[str]:
        """List the deleted topics whose files are not removed yet, sorted."""
        from winnow.log.deleted_topics import list_noted

        noted = list_noted(self.deleted_notes)
        return [name for name in self._list_tables() if name in noted and self._is_deleted(name)] if noted else []

    @property
    def deleted_notes(self) -> str:
        """The folder of the notes of deleted topics (:mod:`winnow.log.deleted_topics`)."""
        from winnow.files import storage

        return storage.join(self._warehouse, self.namespaces.deleted)

    @property
    def restore_note(self) -> str:
        """The note of a restore that has not ended (:mod:`winnow.log.restore_notes`)."""
        from winnow.files import storage

        return storage.join(self._warehouse, self.namespaces.restore)

    @property
    def installation_document(self) -> str:
        """The document that says whose the namespace is (:mod:`winnow.log.installation`)."""
        from winnow.files import storage

        return storage.join(self._warehouse, self.namespaces.installation)

    @property
    def probed(self) -> str:
        """The folder of the warehouse in which a file of no table can be written, to see whether that works."""
        from winnow.files import storage

        return storage.join(self._warehouse, self.namespaces.probed) if self.namespaces.gathered else self._warehouse

    def has_tables_in_warehouse(self) -> bool:
        """Check whether the catalog has a topic, deleted or not, whose table lies in this warehouse.

        Raises:
            ServiceError: the catalog cannot be reached.
        """
        from winnow.log.places import is_below

        return any(is_below(location, self._warehouse) for location in self._iterate_metadata_locations())

    def _iterate_metadata_locations(self) -> Iterator[str]:
        topics = self._list_tables()
        if hasattr(self.catalog, "list_metadata_locations"):
            yield from self.find_metadata_locations(topics).values()
            return
        yield from (found for found in map(self._find_metadata_location, topics) if found is not None)

    def confirm_writing(self) -> None:
        """Have whoever must allow it allow that something is written; raises what it raises."""
        if self.before_writing is not None:
            self.before_writing()

    def identify(self, topic: str) -> tuple[str, str]:
        """Return the name of the log's table of ``topic`` in the catalog."""
        return (self.namespaces.topics, topic)

    def _list_tables(self) -> list[str]:
        from winnow.log.catalog_access import translate_catalog_errors

        with translate_catalog_errors("The topics could not be listed"):
            return sorted(str(identifier[-1]) for identifier in self.catalog.list_tables(self.namespaces.topics))

    def find_metadata_locations(self, topics: Sequence[str]) -> dict[str, str]:
        """Return the metadata file that the head of each topic is in: equal names are equal heads.

        A SQL catalog answers for all of them at once; any other is asked topic by topic, some at a time. A topic that
        the catalog cannot tell of is left out: whoever opens it learns why.

        Raises:
            ServiceError: a SQL catalog cannot be reached.
        """
        from winnow.log.catalog_access import translate_catalog_errors

        list_locations = getattr(self.catalog, "list_metadata_locations", None)
        if list_locations is not None:
            with translate_catalog_errors("The topics could not be listed"):
                found: dict[str, str] = list_locations(self.namespaces.topics)
            return {topic: found[topic] for topic in topics if topic in found}
        with ThreadPoolExecutor(MAXIMUM_QUESTIONS, thread_name_prefix="heads") as pool:
            located = zip(topics, pool.map(self._find_metadata_location, topics), strict=True)
            return {topic: location for topic, location in located if location is not None}

    def list_metadata_locations(self) -> dict[str, str]:
        """Return the metadata file of every topic's table that the catalog can tell of, deleted topics included.

        Raises:
            ServiceError: the catalog cannot be reached.
        """
        return self.find_metadata_locations(self._list_tables())

    def _find_metadata_location(self, topic: str) -> str | None:
        try:
            return str(self.catalog.load_table(self.identify(topic)).metadata_location)
        except Exception:  # the full look at the topic says what is wrong with it
            return None

    def _is_deleted(self, topic: str) -> bool:
        try:
            return self.open(topic).head(even_deleted=True).state.deleted_at_ms is not None
        except ServiceError:
            raise
        except WinnowError:
            return False  # whoever opens the topic is told what is wrong with it

    def drop(self, topic: str, metadata_location: str) -> None:
        """Drop the catalog's entry of ``topic`` if it still is at ``metadata_location``."""
        from winnow.log.deleted_topics import drop_table

        drop_table(self.catalog, self.identify(topic), metadata_location, f"topic {topic}")

    def open(self, topic: str) -> TopicLog:
        """Open the log of ``topic``; a missing topic raises when its head is first loaded."""
        try:
            validate_topic_name(topic)
        except ConfigurationError as problem:
            raise UnknownTopicError(str(problem)) from problem
        from winnow.log.head_age import HeadGuard
        from winnow.log.topic_log import TopicLog

        if self._guard is None and self._records is not None:
            self._guard = HeadGuard(self._records)
        identifier = self.identify(topic)
        return TopicLog(self.catalog, identifier, topic, self.copies, self._defaults, self._guard, self.confirm_writing)

    def open_over(self, catalog: object, topic: str) -> TopicLog:
        """Open the log of ``topic`` over what stands for the catalog."""
        from winnow.log.topic_log import TopicLog

        return TopicLog(cast("Catalog", catalog), self.identify(topic), topic, self.copies, self._defaults)

    def find_entry(self, topic: str) -> CatalogEntry:
        """Find the catalog's entry of the log's table of ``topic``, whatever it is.

        Raises:
            ServiceError: the catalog cannot be reached, or it cannot read the metadata file that it names itself.
        """
        from winnow.log.table_recovery import find_entry

        return find_entry(self.catalog, self.identify(topic))

    def open_files(self, location: str) -> FileIO:
        """Open access to the files at ``location`` as the catalog has it for tables."""
        from pyiceberg.io import load_file_io

        return load_file_io(self.catalog.properties, location)

    def locate_documents(self, topic: str, location: str, table_uuid: str) -> DocumentPlaces:
        """Return the places of the documents of the table of ``topic`` at ``location``."""
        from winnow.log.document_places import DocumentPlaces, locate_copies

        return DocumentPlaces(location, locate_copies(self.copies, topic, table_uuid))

    def list_side_places(self, topic: str, head: Head) -> list[tuple[tuple[str, str], str]]:
        """List the names and folders of the side tables of ``topic``; they may not exist. ``head``: of its log."""
        sides = (
            (self.namespaces.quarantine, self.quarantine(topic, head)),
            (self.namespaces.latest, self.latest_table(topic, head)),
        )
        return [((namespace, topic), side.location) for namespace, side in sides]

    @property
    def copies(self) -> str:
        """The folder in which the copies of all topics' documents lie."""
        from winnow.files import storage

        return storage.join(self._warehouse, self.namespaces.copies)

    def quarantine(self, topic: str, head: Head | None = None) -> Quarantine:
        """Open the side table of quarantined records of ``topic``.

        ``head``: of its log, where it is at hand; else the log's table is loaded if the side table's folder is needed.
        """
        from winnow.log.quarantine import Quarantine

        space = self.namespaces.quarantine
        return Quarantine(self.catalog, (space, topic), partial(self._locate_beside, space, topic, head))

    def _locate_beside(self, namespace: str, topic: str, head: Head | None) -> str:
        """Return the folder of a side table of ``topic``."""
        from winnow.files import storage
        from winnow.log.table_folders import name_side_folder

        table = self.open(topic).load_table() if head is None else head.table
        return storage.join(self._warehouse, namespace, name_side_folder(topic, table))

    def list_latest_tables(self) -> list[str]:
        """List the topics that have a side table of their latest state, sorted.

        Raises:
            ServiceError: the catalog cannot be reached.
        """
        from pyiceberg.exceptions import NoSuchNamespaceError

        from winnow.log.catalog_access import translate_catalog_errors

        with translate_catalog_errors("The tables of latest states could not be listed"):
            try:
                return sorted(str(identifier[-1]) for identifier in self.catalog.list_tables(self.namespaces.latest))
            except NoSuchNamespaceError:
                return []

    def latest_table(self, topic: str, head: Head | None = None) -> LatestTable:
        """Open the side table of the latest state of ``topic``, which may not exist; ``head`` as :meth:`quarantine`."""
        try:
            validate_topic_name(topic)
        except ConfigurationError as problem:
            raise UnknownTopicError(str(problem)) from problem
        from winnow.log.latest_tables import LatestTable

        space = self.namespaces.latest
        return LatestTable(self.catalog, (space, topic), partial(self._locate_beside, space, topic, head))


def _choose_file_io(catalog: Catalog, warehouse: str, *, vends: bool) -> None:
    """Make ``catalog`` sync its files if ``warehouse`` is a local folder, or is in HDFS or on Azure.

    With vended credentials its files are opened as all others are, so that a table that was loaded long ago works too.

    A ``py-io-impl`` from the user, from PyIceberg's configuration file or from a REST server stays. For a local
    warehouse it has to be derived from Winnow's, or a success may not survive a power cut.
    """
    from winnow.files import storage

    own = object_store.HADOOP_SCHEMES | object_store.AZURE_SCHEMES
    if vends or storage.is_local(warehouse) or urlparse(warehouse).scheme in own:
        catalog.properties.setdefault("py-io-impl", SYNCED_FILE_IO)


def _may_be_sql(properties: Mapping[str, str]) -> bool:
    """Check whether the catalog is an SQL one, or PyIceberg's own configuration may make it one."""
    if "py-catalog-impl" in properties:
        return False
    kind = properties.get("type")
    return kind.lower() == "sql" if kind else not properties.get("uri", "").startswith(("http", "thrift"))


def _find_database_file(catalog: Mapping[str, str]) -> Path | None:
    """Return the file of a catalog on SQLite; None for any other catalog."""
    uri = catalog.get("uri", "")
    return Path(uri.removeprefix("sqlite:///")) if uri.startswith("sqlite:///") else None
