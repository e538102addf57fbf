"""How a topic's table is reached: the catalog's kind and properties, the store of its files, and what is secret.

Secrets are never given as values, only as the names of the environment variables that hold them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from urllib.parse import urlsplit

import pyarrow as pa

from winnow.config.masking import mask
from winnow.config.settings import Settings
from winnow.errors import DamagedSegmentError, RunAgainError
from winnow.files import object_store, storage
from winnow.log.namespaces import CATALOG_NAME
from winnow.pipeline.latest.reader_names import SqlEngine
from winnow.pipeline.latest.sql import select_records
from winnow.pipeline.read.browse import open_partition
from winnow.pipeline.topics.topic_view import TopicView
from winnow.values.typed_columns import SystemColumn

PASSWORD_VARIABLE = "WINNOW_CATALOG_PASSWORD"
"""Where a program that takes no SQLAlchemy URL finds the password of the catalog's database."""

ICEBERG_VERSION = "1.11.0"
"""Iceberg's release with runtimes for Spark 3.5, 4.0 and 4.1."""

_SAMPLED_PARTITIONS = 3
_SAMPLED_RECORDS = 100
"""Newest records of each sampled partition that are looked at."""

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")


class CatalogKind(StrEnum):
    """The kinds of catalogs that other engines know too; ``OTHER``: only PyIceberg knows it."""

    SQL = "sql"
    REST = "rest"
    GLUE = "glue"
    HIVE = "hive"
    OTHER = "other"


class StoreKind(StrEnum):
    """Where the files are."""

    LOCAL = "local"
    S3 = "s3"
    GCS = "gcs"
    AZURE = "azure"
    HDFS = "hdfs"


@dataclass(frozen=True, slots=True)
class Property:
    """A property of the catalog. ``variable``: of the environment, where the value is a secret and not given."""

    name: str
    value: str
    variable: str | None = None

    @property
    def python(self) -> str:
        """The value as a Python expression."""
        return repr(self.value) if self.variable is None else f'os.environ["{self.variable}"]'


@dataclass(frozen=True, slots=True)
class JdbcAddress:
    """The catalog's database for Java programs; it has the password of :data:`PASSWORD_VARIABLE`, if it has a user."""

    url: str
    user: str | None

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file."""
        return self.url.startswith("jdbc:sqlite:")


@dataclass(frozen=True, slots=True)
class TableAccess:
    """How the table of ``topic`` is reached. ``location``: its folder. ``log_starts``: by partition, where needed.

    ``text_columns``: those of key and value that hold text, so that a program can show them as such. ``is_typed``:
    it is the table of the latest state with typed columns. Their names are users', so no program has them, and older
    files may have fewer, or others by name.
    """

    topic: str
    namespace: str
    kind: CatalogKind
    properties: tuple[Property, ...]
    warehouse: str
    location: str
    store: StoreKind
    log_starts: Mapping[int, int]
    text_columns: frozenset[str] = frozenset()
    is_typed: bool = False

    @property
    def order(self) -> tuple[str, str]:
        """The columns of a row's place: partition and offset."""
        if self.is_typed:
            return (SystemColumn.PARTITION.value, SystemColumn.OFFSET.value)
        return ("partition", "offset")

    @property
    def jdbc(self) -> JdbcAddress | None:
        """The catalog's database, if it is one."""
        found = self.get_property("uri")
        return _translate_address(found.value) if self.kind is CatalogKind.SQL and found is not None else None

    @property
    def table(self) -> tuple[str, str, str]:
        """Catalog, namespace and name. A SQL catalog lists its tables under the catalog's own name."""
        return (CATALOG_NAME, self.namespace, self.topic)

    def build_readable_condition(self, quote: str = "") -> str:
        """Build the condition that leaves out records below the log start; empty where no file holds any."""
        partition, offset = f"{quote}partition{quote}", f"{quote}offset{quote}"
        starts = sorted(self.log_starts.items())
        return " AND ".join(f"NOT ({partition} = {number} AND {offset} < {start})" for number, start in starts)

    def get_property(self, name: str) -> Property | None:
        """Return the property ``name``."""
        return next((each for each in self.properties if each.name == name), None)

    def list_store_properties(self) -> list[Property]:
        """Return the properties that are about the store of the files."""
        return [each for each in self.properties if each.name.partition(".")[0] in {"s3", "gcs", "adls", "hdfs"}]


def describe_access(settings: Settings, view: TopicView) -> TableAccess:
    """Describe how the table of the topic of ``view`` is reached with the settings in force."""
    given = object_store.add_store_properties(settings.catalog)
    properties = tuple(
        _make_property(name, value) for name, value in sorted(given.items()) if not name.startswith("py-")
    )
    starts = {
        log.partition: log.state.log_start_offset
        for log in view.partitions
        if log.segments and log.segments[0].first_offset < log.state.log_start_offset
    }
    return TableAccess(
        topic=view.log.topic,
        namespace=str(view.head.table.name()[0]),
        kind=_find_kind(settings.catalog),
        properties=properties,
        warehouse=settings.warehouse,
        location=view.head.location,
        store=_find_store(view.head.location),
        log_starts=starts,
        text_columns=find_text_columns(view),
    )


def describe_typed_access(settings: Settings, view: TopicView, namespace: str, location: str) -> TableAccess:
    """Describe how the table of the topic's latest state in typed columns is reached, whose folder is ``location``."""
    return replace(
        describe_access(settings, view),
        namespace=namespace,
        location=location,
        log_starts={},
        text_columns=frozenset(),
        is_typed=True,
    )


def select_columns(engine: SqlEngine, access: TableAccess) -> str:
    """Build the list of columns of a first query."""
    return "*" if access.is_typed else select_records(engine, access.text_columns)


def find_text_columns(view: TopicView) -> frozenset[str]:
    """Find out which of key and value are text, from the newest records of a few partitions.

    Text is UTF-8 without control characters but tabs and line ends: Avro's bytes often are valid UTF-8. Where the
    records cannot be read, nothing is taken for text; as bytes they are shown right, too.
    """
    filled = [each for each in view.partitions if each.segments][:_SAMPLED_PARTITIONS]
    found = {"key", "value"}
    for log in filled:
        browsed = open_partition(view, log.partition)
        try:
            start = browsed.find_page_start(browsed.log_end_offset, _SAMPLED_RECORDS)
            batches = list(browsed.read_from(start, _SAMPLED_RECORDS))
        except (DamagedSegmentError, RunAgainError):
            return frozenset()
        found = {name for name in found if all(map(_is_text, _list_bytes(batches, name)))}
    return frozenset(found)


def _list_bytes(batches: Sequence[pa.RecordBatch], column: str) -> list[bytes]:
    return [data for batch in batches for data in batch.column(column).to_pylist() if data is not None]


def _is_text(data: bytes) -> bool:
    try:
        return not _CONTROL.search(data.decode())
    except UnicodeDecodeError:
        return False


def name_variable(name: str) -> str:
    """Return the environment variable by which Winnow takes the catalog property ``name``."""
    return "WINNOW_CATALOG__" + re.sub(r"[-]", "_", name.replace(".", "__")).upper()


def _make_property(name: str, value: str) -> Property:
    if mask(name, value) == value:
        return Property(name, value)
    shown = _strip_password(value) if name == "uri" else ""
    return Property(name, shown, name_variable(name))


def _strip_password(url: str) -> str:
    return re.sub(r"(://[^:/@\s]*):\S*@", r"\1@", url)


def _find_kind(catalog: Mapping[str, str]) -> CatalogKind:
    if "py-catalog-impl" in catalog:
        return CatalogKind.OTHER
    scheme = urlsplit(catalog.get("uri", "")).scheme.partition("+")[0]
    by_scheme = {"http": "rest", "https": "rest", "thrift": "hive", "sqlite": "sql", "postgresql": "sql"}
    name = catalog.get("type") or by_scheme.get(scheme, "other")
    return CatalogKind(name) if name in set(CatalogKind) else CatalogKind.OTHER


def _find_store(location: str) -> StoreKind:
    if storage.is_local(location):
        return StoreKind.LOCAL
    scheme = urlsplit(location).scheme
    if scheme in object_store.S3_SCHEMES:
        return StoreKind.S3
    if scheme in object_store.GCS_SCHEMES:
        return StoreKind.GCS
    return StoreKind.HDFS if scheme in {"hdfs", "viewfs"} else StoreKind.AZURE


def _translate_address(uri: str) -> JdbcAddress | None:
    if uri.startswith("sqlite:///"):
        return JdbcAddress(f"jdbc:sqlite:{uri.removeprefix('sqlite:///')}", None)
    found = urlsplit(uri)
    if found.scheme.partition("+")[0] != "postgresql":
        return None
    place = found.netloc.rpartition("@")[2]
    query = f"?{found.query}" if found.query else ""
    return JdbcAddress(f"jdbc:postgresql://{place}{found.path}{query}", found.username)
