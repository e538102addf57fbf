"""Writes the query for a topic's latest state into the catalog, as a view."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from winnow.log.latest_views import replace_latest_view
from winnow.pipeline.installation import Installation
from winnow.pipeline.latest.reader_names import SqlEngine
from winnow.pipeline.latest.records import build_query, make_state_schema
from winnow.pipeline.latest.sql import build_latest_sql
from winnow.pipeline.latest.value_columns import JsonValues, ValueColumn
from winnow.pipeline.topics.topic_view import TopicView

DIALECTS = (SqlEngine.SPARK, SqlEngine.TRINO)
"""The engines that read Iceberg's views."""


def replace_view(installation: Installation, view: TopicView, columns: Sequence[ValueColumn], *, as_text: bool) -> str:
    """Create or replace the view of a topic's latest state; return its name.

    Raises:
        ConfigurationError, ForeignTableError, ServiceError: see :func:`winnow.log.latest_views.replace_latest_view`.
    """
    # Unqualified, so it is looked for in the default namespace: in winnow.orders Spark sees the name of a catalog.
    query = build_query(view, (view.log.topic,), columns)
    queries = {engine.value: build_latest_sql(engine, query, as_text=as_text) for engine in DIALECTS}
    schema = make_state_schema(JsonValues(columns) if columns else None)
    if as_text:
        schema = pa.schema(
            [pa.field(each.name, pa.string()) if each.name in {"key", "value"} else each for each in schema]
        )
    return replace_latest_view(
        installation.log.catalog,
        view.log.topic,
        queries,
        schema,
        names=installation.log.namespaces,
        now_ms=installation.now_ms(),
    )
