"""The view of a topic's latest state in a catalog that has views: one view, with the same query in several dialects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import NoSuchViewError, ViewAlreadyExistsError
from pyiceberg.view.metadata import ViewVersion

from winnow.errors import ConfigurationError, ForeignTableError
from winnow.log.catalog_access import ensure_namespace, translate_catalog_errors
from winnow.log.namespaces import Namespaces
from winnow.log.table import TOPIC_PROPERTY

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.schema import Schema


def replace_latest_view(
    catalog: Catalog,
    topic: str,
    queries: Mapping[str, str],
    schema: pa.Schema | Schema,
    *,
    names: Namespaces,
    tables: str,
    now_ms: int,
) -> str:
    """Create the view of ``topic``, or replace the one that Winnow created; return its name in the catalog.

    Args:
        catalog: the catalog.
        topic: the topic.
        queries: by dialect, with tables named relative to the namespace ``tables``.
        schema: the columns of the queries.
        names: the installation's namespaces.
        tables: the namespace of the queries' tables.
        now_ms: the view's time.

    Raises:
        ConfigurationError: the catalog has no views.
        ForeignTableError: there is a view of that name which Winnow did not create; it was left as it is.
        ServiceError: the catalog cannot be reached.
    """
    identifier = (names.latest_views, topic)
    version = ViewVersion.model_validate(
        {
            "version-id": 1,
            "schema-id": 0,
            "timestamp-ms": now_ms,
            "summary": {},
            "representations": [{"type": "sql", "sql": sql, "dialect": dialect} for dialect, sql in queries.items()],
            "default-namespace": [tables],
        }
    )
    create: Any = catalog.create_view
    with translate_catalog_errors(f"The view of topic {topic} was not created"):
        try:
            ensure_namespace(catalog, names.latest_views)
            try:
                create(identifier, schema, version, properties={TOPIC_PROPERTY: topic})
            except ViewAlreadyExistsError:
                _drop_own(catalog, identifier)
                create(identifier, schema, version, properties={TOPIC_PROPERTY: topic})
        except NotImplementedError:
            raise ConfigurationError(
                f"The view of topic {topic} was not created: this catalog ({type(catalog).__name__}) has no views.",
                next=f"Paste the query instead (winnow latest {topic} --sql ENGINE).",
            ) from None
    return ".".join(identifier)


def _drop_own(catalog: Catalog, identifier: tuple[str, str]) -> None:
    try:
        present = catalog.load_view(identifier)
    except NoSuchViewError:
        return
    if present.metadata.properties.get(TOPIC_PROPERTY) != identifier[-1]:
        raise ForeignTableError(
            f"The view {'.'.join(identifier)} was not created by Winnow.",
            left="It was left as it is.",
            next="Rename or drop it.",
        )
    catalog.drop_view(identifier)
