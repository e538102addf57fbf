"""Writes the query for a topic's latest state into the catalog, as a view: over the log, or over its typed table."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from winnow.log.latest_views import replace_latest_view
from winnow.log.typed_schema import is_typed, select_decoded_columns
from winnow.pipeline.installation import Installation
from winnow.pipeline.latest.reader_names import SqlEngine
from winnow.pipeline.latest.records import build_query, make_state_schema
from winnow.pipeline.latest.sql import build_decoded_sql, build_latest_sql
from winnow.pipeline.latest.value_columns import JsonValues, ValueColumn
from winnow.pipeline.topics.topic_view import TopicView

DIALECTS = (SqlEngine.SPARK, SqlEngine.TRINO)
"""The engines that read Iceberg's views."""


def replace_view(installation: Installation, view: TopicView, columns: Sequence[ValueColumn], *, as_text: bool) -> str:
    """Create or replace the view of a topic's latest state; return its name.

    Without ``columns`` and ``as_text`` that is a view of the table of the latest state, if that has typed columns: of
    its rows that could be decoded, with the columns that the table has now.

    Raises:
        ConfigurationError, ForeignTableError, ServiceError: see :func:`winnow.log.latest_views.replace_latest_view`.
    """
    topic, names = view.log.topic, installation.log.namespaces
    replace = partial(replace_latest_view, installation.log.catalog, topic, names=names, now_ms=installation.now_ms())
    # Unqualified, so it is looked for in the default namespace: in winnow.orders Spark sees the name of a catalog.
    table = (topic,)
    is_plain = not columns and not as_text and view.config.row_shape.is_typed
    present = installation.log.latest_table(topic).load() if is_plain else None
    if present is not None and is_typed(present.table.schema()):
        decoded = select_decoded_columns(present.table.schema())
        shown = [field.name for field in decoded.fields]
        queries = {engine.value: build_decoded_sql(engine, table, shown) for engine in DIALECTS}
        return replace(queries, decoded, tables=names.latest)
    query = build_query(view, table, columns)
    queries = {engine.value: build_latest_sql(engine, query, as_text=as_text) for engine in DIALECTS}
    schema = make_state_schema(JsonValues(columns) if columns else None)
    if as_text:
        schema = pa.schema(
            [pa.field(each.name, pa.string()) if each.name in {"key", "value"} else each for each in schema]
        )
    return replace(queries, schema, tables=names.topics)
