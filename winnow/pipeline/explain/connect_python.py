"""Settings and a first query for readers that are driven from Python: Spark, PyIceberg, Polars, pandas, DuckDB."""

from __future__ import annotations

from winnow.errors import UsageError
from winnow.pipeline.explain.table_access import (
    ICEBERG_VERSION,
    PASSWORD_VARIABLE,
    CatalogKind,
    StoreKind,
    TableAccess,
)

SQLITE_JAR = "org.xerial:sqlite-jdbc:3.54.1.0"
POSTGRES_JAR = "org.postgresql:postgresql:42.7.14"

_IMPORT_OS = "import os\n\n"

_BUNDLES = {StoreKind.S3: "aws", StoreKind.GCS: "gcp", StoreKind.AZURE: "azure"}
_FILE_IOS = {
    StoreKind.S3: "org.apache.iceberg.aws.s3.S3FileIO",
    StoreKind.GCS: "org.apache.iceberg.gcp.gcs.GCSFileIO",
    StoreKind.AZURE: "org.apache.iceberg.azure.adlsv2.ADLSFileIO",
}


def list_jvm_properties(access: TableAccess) -> dict[str, str]:
    """List the properties of Iceberg's Java catalog, each as a Python expression.

    Raises:
        UsageError: the catalog is of a kind that Iceberg's Java library does not know.
    """
    found = {"warehouse": repr(access.warehouse)}
    uri = access.get_property("uri")
    match access.kind, access.jdbc:
        case CatalogKind.SQL, jdbc if jdbc is not None:
            found |= {"catalog-impl": repr("org.apache.iceberg.jdbc.JdbcCatalog"), "uri": repr(jdbc.url)}
            if jdbc.user is not None:
                found |= {"jdbc.user": repr(jdbc.user), "jdbc.password": f'os.environ["{PASSWORD_VARIABLE}"]'}
        case CatalogKind.REST | CatalogKind.HIVE, _ if uri is not None:
            found |= {"type": repr(access.kind.value), "uri": uri.python}
            named = ("credential", "token", "scope", "oauth2-server-uri", "warehouse")
            found |= {each.name: each.python for each in access.properties if each.name in named}
        case CatalogKind.GLUE, _:
            found |= {"type": repr("glue")}
        case _:
            raise UsageError(
                f"The catalog of topic {access.topic} is one that only PyIceberg knows. Read it with: winnow connect "
                f"{access.topic} --for pyiceberg"
            )
    if access.store in _FILE_IOS:
        found["io-impl"] = repr(_FILE_IOS[access.store])
    found |= {each.name: each.python for each in access.list_store_properties() if each.name in _JVM_STORE_NAMES}
    endpoint = access.get_property("s3.endpoint")
    if endpoint is not None:
        found["s3.path-style-access"] = repr("true")
    region = access.get_property("s3.region")
    if region is not None:
        found["client.region"] = region.python
    return found


_JVM_STORE_NAMES = frozenset({"s3.endpoint", "s3.access-key-id", "s3.secret-access-key", "s3.session-token"})


def connect_spark(access: TableAccess) -> str:
    """Write a PySpark program; it also serves in a notebook or in ``spark-submit``."""
    packages = [f"org.apache.iceberg:iceberg-spark-runtime-{{line}}_{{scala}}:{ICEBERG_VERSION}"]
    if access.jdbc is not None:
        packages.append(SQLITE_JAR if access.jdbc.is_sqlite else POSTGRES_JAR)
    if access.store in _BUNDLES:
        packages.append(f"org.apache.iceberg:iceberg-{_BUNDLES[access.store]}-bundle:{ICEBERG_VERSION}")
    settings = "\n".join(
        f'    .config("spark.sql.catalog.winnow.{name}", {value})'
        for name, value in list_jvm_properties(access).items()
    )
    condition = access.build_readable_condition("`")
    where = f"WHERE {condition} " if condition else ""
    table = ".".join(f"`{part}`" for part in access.table)
    return f'''\
# Python with pyspark 3.5, 4.0 or 4.1{_name_secrets(access)}
{_IMPORT_OS if "os.environ" in settings else ""}import pyspark
from pyspark.sql import SparkSession

line = ".".join(pyspark.__version__.split(".")[:2])
scala = "2.12" if line == "3.5" else "2.13"
packages = f"{",".join(packages)}"
spark = (
    SparkSession.builder.appName("winnow")
    .config("spark.jars.packages", packages)
    .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
    .config("spark.sql.catalog.winnow", "org.apache.iceberg.spark.SparkCatalog")
{settings}
    .getOrCreate()
)
spark.sql(
    "SELECT partition, offset, timestamp, CAST(key AS STRING) AS key, CAST(value AS STRING) AS value "
    "FROM {table} {where}ORDER BY partition, offset LIMIT 20"
).show(truncate=False)
'''


def connect_pyiceberg(access: TableAccess) -> str:
    """Write a program for PyIceberg, which prints an Arrow table."""
    return f"""\
# Python with {_list_requirements(access)}{_name_secrets(access)}
{_load_table(access)}
print(table.scan({_build_row_filter(access)}limit=20).to_arrow())
"""


def connect_pandas(access: TableAccess) -> str:
    """Write a program for pandas, which reads through PyIceberg."""
    return f"""\
# Python with {_list_requirements(access)}, pandas{_name_secrets(access)}
{_load_table(access)}
columns = ("partition", "offset", "timestamp", "key", "value")
print(table.scan({_build_row_filter(access)}selected_fields=columns, limit=20).to_pandas())
"""


def connect_polars(access: TableAccess) -> str:
    """Write a program for Polars, which reads lazily."""
    readable = "".join(
        f'.filter(~((pl.col("partition") == {number}) & (pl.col("offset") < {start})))'
        for number, start in access.log_starts.items()
    )
    return f"""\
# Python with {_list_requirements(access)}, polars{_name_secrets(access)}
import polars as pl

{_load_table(access)}
frame = pl.scan_iceberg(table){readable}
print(frame.select("partition", "offset", "timestamp", "key", "value").sort("partition", "offset").head(20).collect())
"""


def connect_duckdb(access: TableAccess) -> str:
    """Write a program for DuckDB over the files that the table lists at that moment."""
    condition = access.build_readable_condition('"')
    where = f" WHERE {condition}" if condition else ""
    name = '"' + access.topic.replace('"', '""') + '"'
    return f"""\
# Python with {_list_requirements(access)}, duckdb{_name_secrets(access)}
import duckdb

{_load_table(access)}
files = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
log = duckdb.connect()
{_open_remote_files(access)}log.read_parquet(files).create_view("winnow_files")
log.sql('CREATE VIEW {name} AS FROM winnow_files{where}')
log.sql('''
  SELECT "partition", "offset", "timestamp", TRY(decode(key)) AS key, TRY(decode(value)) AS value
  FROM {name} ORDER BY "partition", "offset" LIMIT 20
''').show()
"""


def _open_remote_files(access: TableAccess) -> str:
    if access.store is StoreKind.LOCAL:
        return ""
    if access.store is StoreKind.S3:
        endpoint = access.get_property("s3.endpoint")
        region = access.get_property("s3.region")
        options = ["TYPE s3", "PROVIDER credential_chain"]
        if region is not None and region.variable is None:
            options.append(f"REGION '{region.value}'")
        if endpoint is not None:
            scheme, _, host = endpoint.value.partition("://")
            options += [f"ENDPOINT '{host}'", "URL_STYLE 'path'", f"USE_SSL {'true' if scheme == 'https' else 'false'}"]
        secret = ", ".join(options)
        return f'log.sql("INSTALL httpfs; LOAD httpfs; INSTALL aws; LOAD aws")\nlog.sql("CREATE SECRET ({secret})")\n'
    return 'log.register_filesystem(fsspec.filesystem(files[0].partition(":")[0]))  # import fsspec\n'


def _load_table(access: TableAccess) -> str:
    properties = [f'    "{each.name}": {each.python},' for each in access.properties]
    if access.get_property("warehouse") is None:
        properties.append(f'    "warehouse": {access.warehouse!r},')
    given = "\n".join(properties)
    namespace, name = access.table[1:]
    variables = any(each.variable is not None for each in access.properties)
    return f"""\
{_IMPORT_OS if variables else ""}from pyiceberg.catalog import load_catalog

properties = {{
{given}
}}
table = load_catalog("{access.table[0]}", **properties).load_table(({namespace!r}, {name!r}))"""


def _build_row_filter(access: TableAccess) -> str:
    condition = access.build_readable_condition()
    return f'row_filter="{condition}", ' if condition else ""


def _list_requirements(access: TableAccess) -> str:
    extras = ["pyarrow"]
    if access.kind is CatalogKind.SQL:
        extras.append("sql-sqlite" if access.jdbc is not None and access.jdbc.is_sqlite else "sql-postgres")
    elif access.kind in {CatalogKind.GLUE, CatalogKind.HIVE}:
        extras.append(access.kind.value)
    return f"pyiceberg[{','.join(extras)}]"


def _name_secrets(access: TableAccess) -> str:
    """Name the environment variables that the program reads."""
    named = sorted({each.variable for each in access.properties if each.variable is not None})
    return f"; set {', '.join(named)} in its environment" if named else ""
