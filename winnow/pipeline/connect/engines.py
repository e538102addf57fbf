"""Settings and a first query for engines with a configuration of their own: Trino, Flink, ClickHouse."""

from __future__ import annotations

from winnow.errors import UsageError
from winnow.files import storage
from winnow.pipeline.connect.table_access import (
    PASSWORD_VARIABLE,
    CatalogKind,
    Property,
    StoreKind,
    TableAccess,
    select_columns,
)
from winnow.pipeline.latest.reader_names import SqlEngine


def connect_trino(access: TableAccess) -> str:
    """Write Trino's catalog file and a query.

    Raises:
        UsageError: Trino cannot read this catalog.
    """
    lines = ["connector.name=iceberg", *_list_trino_catalog(access), *_list_trino_store(access)]
    settings = "\n".join(lines)
    condition = access.build_readable_condition('"')
    where = f"WHERE {condition}\n" if condition else ""
    table = ".".join(f'"{part}"' for part in access.table)
    return f"""\
-- etc/catalog/winnow.properties on the coordinator and on every worker; then restart Trino.
-- Without keys in it Trino takes the role of its machine, or the variables of the store's own client.
/*
{settings}
*/
SELECT {select_columns(SqlEngine.TRINO, access)}
FROM {table}
{where}ORDER BY "{access.order[0]}", "{access.order[1]}" LIMIT 20;
"""


def _list_trino_catalog(access: TableAccess) -> list[str]:
    uri = access.get_property("uri")
    match access.kind, access.jdbc:
        case CatalogKind.REST, _ if uri is not None:
            lines = ["iceberg.catalog.type=rest", f"iceberg.rest-catalog.uri={_get_trino_value(uri)}"]
            warehouse = access.get_property("warehouse")
            lines += [f"iceberg.rest-catalog.warehouse={warehouse.value}"] if warehouse is not None else []
            for name in ("credential", "token"):
                found = access.get_property(name)
                if found is not None:
                    lines += ["iceberg.rest-catalog.security=OAUTH2"]
                    lines += [f"iceberg.rest-catalog.oauth2.{name}={_get_trino_value(found)}"]
            return lines
        case CatalogKind.SQL, jdbc if jdbc is not None and not jdbc.is_sqlite:
            lines = [
                "iceberg.catalog.type=jdbc",
                f"iceberg.jdbc-catalog.catalog-name={access.table[0]}",
                "iceberg.jdbc-catalog.driver-class=org.postgresql.Driver",
                f"iceberg.jdbc-catalog.connection-url={jdbc.url}",
                f"iceberg.jdbc-catalog.default-warehouse-dir={access.warehouse}",
            ]
            if jdbc.user is not None:
                lines += [f"iceberg.jdbc-catalog.connection-user={jdbc.user}"]
                lines += [f"iceberg.jdbc-catalog.connection-password=${{ENV:{PASSWORD_VARIABLE}}}"]
            return lines
        case CatalogKind.GLUE, _:
            return ["iceberg.catalog.type=glue"]
        case CatalogKind.HIVE, _ if uri is not None:
            return ["iceberg.catalog.type=hive_metastore", f"hive.metastore.uri={uri.value}"]
    raise UsageError(_describe_refusal("Trino", access))


def _list_trino_store(access: TableAccess) -> list[str]:
    if access.store is StoreKind.S3:
        lines = ["fs.native-s3.enabled=true"]
        endpoint, region = access.get_property("s3.endpoint"), access.get_property("s3.region")
        lines += [f"s3.endpoint={endpoint.value}", "s3.path-style-access=true"] if endpoint is not None else []
        lines += [f"s3.region={region.value}"] if region is not None else []
        for option, name in (("aws-access-key", "s3.access-key-id"), ("aws-secret-key", "s3.secret-access-key")):
            found = access.get_property(name)
            lines += [f"s3.{option}={_get_trino_value(found)}"] if found is not None else []
        return lines
    kinds = {
        StoreKind.LOCAL: "fs.native-local.enabled=true",
        StoreKind.GCS: "fs.native-gcs.enabled=true",
        StoreKind.AZURE: "fs.native-azure.enabled=true",
        StoreKind.HDFS: (
            "fs.hadoop.enabled=true\nhive.config.resources=/etc/hadoop/conf/core-site.xml,/etc/hadoop/conf/hdfs-site.xml"
        ),
    }
    return [kinds[access.store]]


def _get_trino_value(found: Property) -> str:
    return found.value if found.variable is None else f"${{ENV:{found.variable}}}"


def connect_flink(access: TableAccess) -> str:
    """Write statements for Flink's SQL client, whose class path has Iceberg's runtime.

    Raises:
        UsageError: Iceberg's Java library does not know this catalog.
    """
    uri = access.get_property("uri")
    options = {"type": "iceberg", "warehouse": access.warehouse}
    match access.kind, access.jdbc:
        case CatalogKind.SQL, jdbc if jdbc is not None:
            options |= {"catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog", "uri": jdbc.url}
            if jdbc.user is not None:
                options |= {"jdbc.user": jdbc.user, "jdbc.password": f"${{{PASSWORD_VARIABLE}}}"}
        case CatalogKind.REST | CatalogKind.HIVE, _ if uri is not None:
            options |= {"catalog-type": access.kind.value, "uri": _get_flink_value(uri)}
            for each in access.properties:
                if each.name in {"credential", "token", "scope", "warehouse"}:
                    options[each.name] = _get_flink_value(each)
        case CatalogKind.GLUE, _:
            options |= {"catalog-type": "glue"}
        case _:
            raise UsageError(_describe_refusal("Flink", access))
    if access.store is StoreKind.S3:
        options["io-impl"] = "org.apache.iceberg.aws.s3.S3FileIO"
        endpoint = access.get_property("s3.endpoint")
        if endpoint is not None:
            options |= {"s3.endpoint": endpoint.value, "s3.path-style-access": "true"}
    given = ",\n".join("  '{}' = '{}'".format(name, text.replace("'", "''")) for name, text in options.items())
    quoted = ".".join(f"`{part}`" for part in access.table)
    condition = access.build_readable_condition("`")
    where = f"WHERE {condition}\n" if condition else ""
    return f"""\
-- Flink's SQL client, with iceberg-flink-runtime in its lib folder. Write the values of variables (${{...}}) yourself.
SET 'execution.runtime-mode' = 'batch';
CREATE CATALOG {access.table[0]} WITH (
{given}
);
SELECT {select_columns(SqlEngine.FLINK, access)}
FROM {quoted}
{where}ORDER BY `{access.order[0]}`, `{access.order[1]}` LIMIT 20;
"""


def _get_flink_value(found: Property) -> str:
    return found.value if found.variable is None else f"${{{found.variable}}}"


def connect_clickhouse(access: TableAccess) -> str:
    """Write a query for ClickHouse over the table's folder: it reads the newest metadata file there."""
    condition = access.build_readable_condition()
    where = f" WHERE {condition}" if condition else ""
    database = access.namespace
    name = "`" + access.topic.replace("`", "``") + "`"
    shown = "*" if access.is_typed else "partition, offset, timestamp, key, value"
    return f"""\
-- ClickHouse 25 or later, with the credentials of the server (use_environment_credentials; on GCS an HMAC key).
-- A local folder has to lie below user_files_path, or be read by clickhouse-local or chdb.
-- Without the setting, ClickHouse takes each file's order for that of the whole table, and rows come out of order.
CREATE DATABASE IF NOT EXISTS {database};
CREATE OR REPLACE VIEW {database}.{name} AS SELECT * FROM {_choose_clickhouse_source(access)}{where};
SELECT {shown} FROM {database}.{name} ORDER BY {", ".join(access.order)} LIMIT 20
SETTINGS optimize_read_in_order = 0;
"""


def _choose_clickhouse_source(access: TableAccess) -> str:
    host, _, folder = access.location.partition("://")[2].partition("/")
    endpoint = access.get_property("s3.endpoint")
    match access.store:
        case StoreKind.LOCAL:
            return f"icebergLocal('{storage.parse_local_path(access.location)}')"
        case StoreKind.S3:
            bucket = f"{endpoint.value.rstrip('/')}/{host}" if endpoint else f"https://{host}.s3.amazonaws.com"
            return f"icebergS3('{bucket}/{folder}/')"
        case StoreKind.GCS:
            return f"icebergS3('https://storage.googleapis.com/{host}/{folder}/')"
        case StoreKind.AZURE:
            container, _, account = host.partition("@")
            account = account.replace(".dfs.", ".blob.")
            return f"icebergAzure('https://{account}', '{container}', '{folder}/')"
        case StoreKind.HDFS:
            return f"icebergHDFS('{access.location}/')"


def _describe_refusal(engine: str, access: TableAccess) -> str:
    what = "SQLite file" if access.kind is CatalogKind.SQL else f"catalog of kind {access.kind.value}"
    return (
        f"{engine} cannot read the {what} or the store of topic {access.topic}. Use a catalog that it knows (a REST "
        f"catalog, or one on PostgreSQL), or read with: winnow connect {access.topic} --for pyiceberg"
    )
