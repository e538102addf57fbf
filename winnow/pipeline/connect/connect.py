"""Writes what another program needs to read a topic's table: its settings, and a first query."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from winnow.log.typed_schema import is_typed
from winnow.pipeline.connect.engines import connect_clickhouse, connect_flink, connect_trino
from winnow.pipeline.connect.python_programs import (
    connect_daft,
    connect_dbt,
    connect_duckdb,
    connect_pandas,
    connect_polars,
    connect_pyiceberg,
    connect_spark,
)
from winnow.pipeline.connect.table_access import TableAccess, describe_access, describe_typed_access
from winnow.pipeline.installation import Installation
from winnow.pipeline.latest.reader_names import ReaderName
from winnow.pipeline.topics.topic_view import load_topic_view

WRITERS: Mapping[ReaderName, Callable[[TableAccess], str]] = {
    ReaderName.SPARK: connect_spark,
    ReaderName.TRINO: connect_trino,
    ReaderName.FLINK: connect_flink,
    ReaderName.DUCKDB: connect_duckdb,
    ReaderName.PYICEBERG: connect_pyiceberg,
    ReaderName.POLARS: connect_polars,
    ReaderName.PANDAS: connect_pandas,
    ReaderName.DAFT: connect_daft,
    ReaderName.DBT: connect_dbt,
    ReaderName.CLICKHOUSE: connect_clickhouse,
}


def write_connection(installation: Installation, topic: str, reader: ReaderName, *, log: bool = False) -> str:
    """Write the settings and a first query for ``reader``, to be pasted; secrets as names of environment variables.

    The table is that of the topic's latest state if it has typed columns; ``log``: it is the log all the same.

    Raises:
        UsageError: the reader does not know the catalog or the store.
        UnknownTopicError: there is no such topic.
    """
    view = load_topic_view(installation, topic)
    present = None if log or not view.config.row_shape.is_typed else installation.log.latest_table(topic).load()
    if present is None or not is_typed(present.table.schema()):
        return WRITERS[reader](describe_access(installation.settings, view))
    namespace, location = str(present.table.name()[0]), present.table.location()
    return WRITERS[reader](describe_typed_access(installation.settings, view, namespace, location))
