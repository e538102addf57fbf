"""Settings and a first query for readers driven from Python: Spark, PyIceberg, Polars, Daft, pandas, DuckDB, dbt."""

from __future__ import annotations

import json
import re
import textwrap

from winnow.errors import UsageError
from winnow.pipeline.connect.table_access import (
    ICEBERG_VERSION,
    PASSWORD_VARIABLE,
    CatalogKind,
    StoreKind,
    TableAccess,
    select_columns,
)
from winnow.pipeline.latest.reader_names import SqlEngine
from winnow.values.typed_columns import SystemColumn

SQLITE_JAR = "org.xerial:sqlite-jdbc:3.54.1.0"
POSTGRES_JAR = "org.postgresql:postgresql:42.7.14"

RECORD_COLUMNS = ("partition", "offset", "timestamp", "key", "value")

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
                f"The catalog of topic {access.topic} is one that only PyIceberg knows.",
                next=f"Read it with: winnow connect {access.topic} --for pyiceberg",
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
{_describe_columns(access)}{_IMPORT_OS if "os.environ" in settings else ""}import pyspark
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
    "SELECT {select_columns(SqlEngine.SPARK, access)} "
    "FROM {table} {where}ORDER BY {", ".join(access.order)} LIMIT 20"
).show(truncate=False)
'''


def connect_pyiceberg(access: TableAccess) -> str:
    """Write a program for PyIceberg, which prints rows."""
    shown = ", ".join(
        f'"{name}": show(row["{name}"])' if name in access.text_columns else f'"{name}": row["{name}"]'
        for name in RECORD_COLUMNS
    )
    row = "row" if access.is_typed else f"{{{shown}}}"
    partition, offset = access.order
    return f"""\
{_write_head(access)}{_load_table(access)}
{_DEFINE_SHOW if access.text_columns else ""}rows = table.scan({_build_row_filter(access)}limit=20).to_arrow()
for row in rows.sort_by([("{partition}", "ascending"), ("{offset}", "ascending")]).to_pylist():
    print({row})
"""


_DEFINE_SHOW = """

def show(data):
    return None if data is None else data.decode(errors="replace")


"""


def connect_pandas(access: TableAccess) -> str:
    """Write a program for pandas, which reads through PyIceberg."""
    decoded = "".join(
        f'frame["{name}"] = frame["{name}"].str.decode("utf-8", errors="replace")\n'
        for name in sorted(access.text_columns)
    )
    selected = ("*",) if access.is_typed else RECORD_COLUMNS
    return f"""\
{_write_head(access, "pandas")}{_load_table(access)}
columns = {selected!r}
frame = table.scan({_build_row_filter(access)}selected_fields=columns, limit=20).to_pandas()
{decoded}print(frame.sort_values({list(access.order)!r}).to_string())
"""


def connect_polars(access: TableAccess) -> str:
    """Write a program for Polars, which reads lazily."""
    readable = "".join(
        f'.filter(~((pl.col("partition") == {number}) & (pl.col("offset") < {start})))'
        for number, start in access.log_starts.items()
    )
    decoded = ", ".join(f'"{name}"' for name in sorted(access.text_columns))
    decode = (
        f"rows = rows.with_columns(pl.col({decoded}).map_elements(show, return_dtype=pl.String))\n" if decoded else ""
    )
    reader = ', reader_override="pyiceberg"' if access.store in {StoreKind.AZURE, StoreKind.HDFS} else ""
    selected = "" if access.is_typed else f".select({', '.join(_quote_name(name) for name in RECORD_COLUMNS)})"
    return f"""\
{_write_head(access, "polars")}import polars as pl

{_load_table(access)}
{_DEFINE_SHOW if decoded else ""}frame = pl.scan_iceberg(table{reader}){readable}
rows = frame{selected}.sort("{access.order[0]}", "{access.order[1]}").head(20).collect()
{decode}with pl.Config(tbl_rows=20):
    print(rows)
"""


def connect_daft(access: TableAccess) -> str:
    """Write a program for Daft, which reads lazily."""
    readable = "".join(
        f'.where(~((daft.col("partition") == {number}) & (daft.col("offset") < {start})))'
        for number, start in access.log_starts.items()
    )
    columns = ", ".join(
        f'daft.col("{name}")' + ('.try_decode("utf-8")' if name in access.text_columns else "")
        for name in RECORD_COLUMNS
    )
    selection = "" if access.is_typed else f"frame = frame.select({columns})\n"
    return f"""\
{_write_head(access, "daft")}import daft

{_load_table(access)}
frame = daft.read_iceberg(table){readable}
{selection}frame.sort({list(access.order)!r}).limit(20).show(20)
"""


def connect_duckdb(access: TableAccess) -> str:
    """Write a program for DuckDB over the files that the table lists at that moment."""
    name = _quote_name(access.topic)
    return f"""\
{_write_head(access, "duckdb")}import duckdb
{_load_files(access)}
log = duckdb.connect()
log.register("winnow_files", files)
log.sql('''CREATE VIEW {name} AS FROM winnow_files{_build_where(access)}''')
log.sql('''
  SELECT {select_columns(SqlEngine.DUCKDB, access)}
  FROM {name} ORDER BY "{access.order[0]}", "{access.order[1]}" LIMIT 20
''').show()
"""


def connect_dbt(access: TableAccess) -> str:
    """Write a dbt project on DuckDB, as a shell script: a model of the records, and its first rows.

    A table with typed columns is a source with its freshness, if its name has no dot: dbt's plugin divides names there.
    """
    model = re.sub(r"[^A-Za-z0-9_]", "_", access.topic)
    if access.is_typed and "." not in f"{access.namespace}{access.topic}":
        return _write_dbt_source(access, model)
    loading = textwrap.indent(_load_files(access), "    ")
    order = ", ".join(access.order) if access.is_typed else "1, 2"
    # Later than 1.11 it downloads a part of itself from GitHub while it is installed.
    return f"""\
# A POSIX shell with Python and {_list_requirements(access)}, dbt-duckdb, "dbt-core<1.12"{_name_secrets(access)}
{_describe_columns(access)}\
# With dbt-trino the table is a source. Its settings: winnow connect {access.topic} --for trino
mkdir -p winnow_dbt/models
cat > winnow_dbt/dbt_project.yml << 'END'
name: winnow
profile: winnow
flags: {{send_anonymous_usage_stats: false}}
END
cat > winnow_dbt/profiles.yml << 'END'
winnow:
  target: dev
  outputs: {{dev: {{type: duckdb, path: winnow.duckdb}}}}
END
cat > winnow_dbt/models/{model}.py << 'END'
def model(dbt, session):
{loading}
    session.register("winnow_files", files)
    return session.sql('''
      SELECT {select_columns(SqlEngine.DUCKDB, access)}
      FROM winnow_files{_build_where(access)}
    ''')
END
cd winnow_dbt
dbt run --quiet --profiles-dir . --select {model}
python -c 'import duckdb; duckdb.connect("winnow.duckdb").sql("FROM \\"{model}\\" ORDER BY {order} LIMIT 20").show()'
"""


def _write_dbt_source(access: TableAccess, model: str) -> str:
    given = {each.name: each for each in access.properties}
    properties = {"catalog": access.table[0], "warehouse": access.warehouse} | {
        name: each.value if each.variable is None else f"{{{{ env_var('{each.variable}') }}}}"
        for name, each in given.items()
    }
    listed = "\n".join(f"            {json.dumps(name)}: {json.dumps(text)}" for name, text in properties.items())
    time, order = SystemColumn.TIMESTAMP.value, ", ".join(access.order)
    table = f"{access.namespace}.{access.topic}"
    return f"""\
# A POSIX shell with Python and {_list_requirements(access)}, dbt-duckdb, "dbt-core<1.12"{_name_secrets(access)}
# With dbt-trino the table is a source of its own kind. Its settings: winnow connect {access.topic} --for trino
mkdir -p winnow_dbt/models
cat > winnow_dbt/dbt_project.yml << 'END'
name: winnow
profile: winnow
flags: {{send_anonymous_usage_stats: false}}
END
cat > winnow_dbt/profiles.yml << 'END'
winnow:
  target: dev
  outputs:
    dev:
      type: duckdb
      path: winnow.duckdb
      plugins:
        - module: iceberg
          config:
{listed}
END
cat > winnow_dbt/models/sources.yml << 'END'
sources:
  - name: {access.namespace}
    tables:
      - name: {model}
        config:
          meta: {{plugin: iceberg, iceberg_table: {json.dumps(table)}}}
          # From the newest record's own time. With error_after a command fails where it is too old.
          loaded_at_field: {time}
          freshness: {{warn_after: {{count: 1, period: day}}}}
END
cat > winnow_dbt/models/{model}_decoded.sql << 'END'
SELECT * FROM {{{{ source('{access.namespace}', '{model}') }}}} WHERE {SystemColumn.ERROR.value} IS NULL
END
cd winnow_dbt
dbt source freshness --profiles-dir .
dbt run --quiet --profiles-dir . --select {model}_decoded
python -c 'import duckdb; duckdb.connect("winnow.duckdb").sql("FROM {model}_decoded ORDER BY {order} LIMIT 20").show()'
"""


def _load_files(access: TableAccess) -> str:
    """Write what makes ``files`` a dataset of Arrow's over the table's files, of which there may be none.

    A dataset finds columns by their names; so of a typed table PyIceberg, which knows their ids, reads the rows.
    """
    if access.is_typed:
        return f"{_load_table(access)}\nfiles = table.scan().to_arrow()"
    if access.store is StoreKind.AZURE:
        imported = "import fsspec\nimport pyarrow.dataset as ds\n"
        store = (
            "store, _ = fsspec.core.url_to_fs(table.location(), anon=False)\n"
            "locate = lambda path: fsspec.core.url_to_fs(path, anon=False)[1]"
        )
    else:
        imported = "import pyarrow.dataset as ds\nfrom pyiceberg.io.pyarrow import PyArrowFileIO\n"
        store = (
            "scheme, host, _ = PyArrowFileIO.parse_location(table.location())\n"
            "store = PyArrowFileIO(table.io.properties).fs_by_scheme(scheme, host)\n"
            "locate = lambda path: PyArrowFileIO.parse_location(path)[2]"
        )
    return f"""\
{imported}{_load_table(access)}
{store}
files = ds.dataset(
    [locate(task.file.file_path) for task in table.scan().plan_files()],
    schema=table.schema().as_arrow(),
    format="parquet",
    filesystem=store,
)"""


def _write_head(access: TableAccess, *more: str) -> str:
    requirements = ", ".join([_list_requirements(access), *more])
    hadoop = "# HDFS: libhdfs, in ARROW_LIBHDFS_DIR, and CLASSPATH=$(hadoop classpath --glob)\n"
    needs = hadoop if access.store is StoreKind.HDFS else ""
    return f"# Python with {requirements}{_name_secrets(access)}\n{needs}{_describe_columns(access)}"


def _describe_columns(access: TableAccess) -> str:
    raw = [name for name in ("key", "value") if name not in access.text_columns and not access.is_typed]
    return f"# {' and '.join(raw)} as bytes: the newest records are not text\n" if raw else ""


def _build_where(access: TableAccess) -> str:
    condition = access.build_readable_condition('"')
    return f" WHERE {condition}" if condition else ""


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


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
    extras = ["pyarrow", "adlfs"] if access.store is StoreKind.AZURE else ["pyarrow"]
    if access.kind is CatalogKind.SQL:
        extras.append("sql-sqlite" if access.jdbc is not None and access.jdbc.is_sqlite else "sql-postgres")
    elif access.kind in {CatalogKind.GLUE, CatalogKind.HIVE}:
        extras.append(access.kind.value)
    return f"pyiceberg[{','.join(extras)}]"


def _name_secrets(access: TableAccess) -> str:
    """Name the environment variables that the program reads."""
    named = sorted({each.variable for each in access.properties if each.variable is not None})
    return f"; set {', '.join(named)} in its environment" if named else ""
