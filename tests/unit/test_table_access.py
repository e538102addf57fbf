"""What other programs are told about catalogs and stores that no test can start: Glue, Hive, PostgreSQL, S3."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest

from winnow.errors import UsageError
from winnow.pipeline.connect.connect import WRITERS
from winnow.pipeline.connect.engines import connect_clickhouse, connect_flink, connect_trino
from winnow.pipeline.connect.python_programs import connect_duckdb, connect_pyiceberg, connect_spark
from winnow.pipeline.connect.table_access import (
    PASSWORD_VARIABLE,
    CatalogKind,
    Property,
    StoreKind,
    TableAccess,
    _find_kind,
    _make_property,
    name_variable,
)
from winnow.pipeline.latest.reader_names import ReaderName

POSTGRES = "postgresql+psycopg://winnow:s/e@cret@db:5433/lake?sslmode=require"
ACCESS = TableAccess(
    topic="orders",
    namespace="winnow",
    kind=CatalogKind.SQL,
    properties=(
        Property("type", "sql"),
        _make_property("uri", POSTGRES),
        Property("s3.endpoint", "https://store:9000"),
        Property("s3.region", "eu-1"),
        _make_property("s3.secret-access-key", "hidden"),
    ),
    warehouse="s3://lake/winnow",
    location="s3://lake/winnow/winnow/orders",
    store=StoreKind.S3,
    log_starts={},
)
KEY_VARIABLE = "WINNOW_CATALOG__S3__SECRET_ACCESS_KEY"


@pytest.mark.parametrize(
    ("catalog", "kind"),
    [
        ({"uri": "sqlite:////x/catalog.db"}, CatalogKind.SQL),
        ({"uri": POSTGRES}, CatalogKind.SQL),
        ({"uri": "https://catalog/api"}, CatalogKind.REST),
        ({"uri": "thrift://metastore:9083"}, CatalogKind.HIVE),
        ({"type": "glue"}, CatalogKind.GLUE),
        ({"type": "rest", "uri": "https://x"}, CatalogKind.REST),
        ({"type": "dynamodb"}, CatalogKind.OTHER),
        ({"py-catalog-impl": "a.B", "uri": "https://x"}, CatalogKind.OTHER),
    ],
)
def test_kind_of_catalog_is_told_from_its_type_or_its_address(catalog: dict[str, str], kind: CatalogKind) -> None:
    """As PyIceberg chooses it."""
    assert _find_kind(catalog) is kind


def test_password_of_a_database_is_left_out_and_asked_for_by_name() -> None:
    """Java takes user and password apart; the password may hold slashes and signs."""
    program = connect_spark(ACCESS)
    assert "'jdbc:postgresql://db:5433/lake?sslmode=require'" in program
    assert f'.config("spark.sql.catalog.winnow.jdbc.password", os.environ["{PASSWORD_VARIABLE}"])' in program
    assert "iceberg-aws-bundle" in program
    assert "org.apache.iceberg.aws.s3.S3FileIO" in program
    trino = connect_trino(ACCESS)
    assert f"iceberg.jdbc-catalog.connection-password=${{ENV:{PASSWORD_VARIABLE}}}" in trino
    assert "iceberg.jdbc-catalog.catalog-name=winnow" in trino
    flink = connect_flink(ACCESS)
    assert f"'jdbc.password' = '${{{PASSWORD_VARIABLE}}}'" in flink
    for text in (program, trino, flink, connect_pyiceberg(ACCESS), connect_duckdb(ACCESS), connect_clickhouse(ACCESS)):
        assert "s/e" not in text
        assert "cret@" not in text
        assert "hidden" not in text


def test_variables_are_those_that_winnow_itself_reads() -> None:
    """Dots are double underscores."""
    assert name_variable("s3.secret-access-key") == "WINNOW_CATALOG__S3__SECRET_ACCESS_KEY"
    assert connect_pyiceberg(ACCESS).count("WINNOW_CATALOG__URI") == 2


@pytest.mark.parametrize("kind", [CatalogKind.GLUE, CatalogKind.HIVE])
def test_glue_and_hive_are_named_to_every_engine_that_knows_them(kind: CatalogKind) -> None:
    """Their addresses, where they have one."""
    given = replace(ACCESS, kind=kind, properties=(Property("uri", "thrift://metastore:9083"),))
    for write in (connect_spark, connect_trino, connect_flink):
        assert kind.value in write(given)


def test_catalog_that_only_pyiceberg_knows_is_read_by_it() -> None:
    """Each engine that cannot says so."""
    given = replace(ACCESS, kind=CatalogKind.OTHER, properties=(Property("uri", "x"),))
    for reader in (ReaderName.SPARK, ReaderName.TRINO, ReaderName.FLINK):
        with pytest.raises(UsageError, match="winnow connect orders --for pyiceberg"):
            WRITERS[reader](given)
    assert "load_catalog" in connect_pyiceberg(given)


@pytest.mark.parametrize("store", list(StoreKind))
def test_python_programs_compile_for_every_store(store: StoreKind) -> None:
    """With and without records below the log start."""
    for starts, text in (({}, frozenset[str]()), ({0: 5, 3: 17}, frozenset({"key", "value"}))):
        given = replace(ACCESS, store=store, log_starts=starts, text_columns=text)
        for reader in (*PYTHON_READERS, ReaderName.SPARK):
            compile(WRITERS[reader](given), reader.value, "exec")
        subprocess.run(["sh", "-n"], input=WRITERS[ReaderName.DBT](given), text=True, check=True)


PYTHON_READERS = (
    ReaderName.PYICEBERG, ReaderName.PANDAS, ReaderName.POLARS, ReaderName.DAFT, ReaderName.DUCKDB,
)  # fmt: skip


def test_programs_for_azure_and_hdfs_say_what_else_they_need() -> None:
    """A client for Python, or Hadoop's own library."""
    for reader in PYTHON_READERS:
        assert "pyiceberg[pyarrow,adlfs,sql-postgres]" in WRITERS[reader](replace(ACCESS, store=StoreKind.AZURE))
        assert "libhdfs" in WRITERS[reader](replace(ACCESS, store=StoreKind.HDFS))
        assert "libhdfs" not in WRITERS[reader](replace(ACCESS, store=StoreKind.GCS))


def test_trino_names_keys_only_where_the_catalog_has_them() -> None:
    """Elsewhere it takes the role of its machine."""
    assert "s3.aws-secret-key=${ENV:WINNOW_CATALOG__S3__SECRET_ACCESS_KEY}" in connect_trino(ACCESS)
    with_role = replace(ACCESS, properties=tuple(each for each in ACCESS.properties if each.variable != KEY_VARIABLE))
    assert "aws-" not in connect_trino(with_role)


@pytest.mark.parametrize(
    ("store", "location", "source"),
    [
        (StoreKind.S3, "s3://lake/w/orders", "icebergS3('https://store:9000/lake/w/orders/')"),
        (StoreKind.GCS, "gs://lake/w/orders", "icebergS3('https://storage.googleapis.com/lake/w/orders/')"),
        (StoreKind.AZURE, "abfss://lake@acc.dfs.core.windows.net/w/orders",
         "icebergAzure('https://acc.blob.core.windows.net', 'lake', 'w/orders/')"),
        (StoreKind.HDFS, "hdfs://name:8020/w/orders", "icebergHDFS('hdfs://name:8020/w/orders/')"),
    ],
)  # fmt: skip
def test_clickhouse_has_a_function_for_every_store(store: StoreKind, location: str, source: str) -> None:
    """With the address as that function takes it."""
    assert source in connect_clickhouse(replace(ACCESS, store=store, location=location))
