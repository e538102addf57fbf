"""The programs that read a topic's table, by the names that commands take."""

from __future__ import annotations

from enum import StrEnum


class SqlEngine(StrEnum):
    """The engines in whose SQL the latest state can be written."""

    SPARK = "spark"
    TRINO = "trino"
    FLINK = "flink"
    DUCKDB = "duckdb"
    CLICKHOUSE = "clickhouse"


class ReaderName(StrEnum):
    """The programs for which settings and a first query can be printed."""

    SPARK = "spark"
    TRINO = "trino"
    FLINK = "flink"
    DUCKDB = "duckdb"
    PYICEBERG = "pyiceberg"
    POLARS = "polars"
    PANDAS = "pandas"
    DAFT = "daft"
    DBT = "dbt"
    CLICKHOUSE = "clickhouse"
