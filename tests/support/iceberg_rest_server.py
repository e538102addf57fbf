"""Iceberg's own REST catalog, the adapter and servlet that Iceberg tests its clients with, in a JVM beside the tests.

Behind it is Iceberg's JDBC catalog on SQLite, which keeps the tables' metadata files below a warehouse folder. The jars
come from Maven Central once per user; the JVM is spoken to through py4j and ends with this process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from broker.jars import list_spark_jars, locate_cache, resolve_jars
from winnow.embedded.java import find_java

ICEBERG_VERSION = "1.10.1"
_JARS = (
    f"org.apache.iceberg:iceberg-core:{ICEBERG_VERSION}:tests",
    "org.eclipse.jetty:jetty-servlet:11.0.26",
    "org.xerial:sqlite-jdbc:3.50.3.0",
)
_S3_JARS = tuple(f"org.apache.iceberg:{name}:{ICEBERG_VERSION}" for name in ("iceberg-aws", "iceberg-aws-bundle"))
_JVM_OPTIONS = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


@dataclass(frozen=True)
class IcebergRestServer:
    """A running catalog at ``uri``. ``folder`` has its warehouse and its log."""

    uri: str
    folder: Path


@contextmanager
def serve_iceberg_rest(
    folder: Path, warehouse: str = "", s3: Mapping[str, str] | None = None
) -> Iterator[IcebergRestServer]:
    """Serve a catalog with an empty warehouse until the block ends.

    ``folder``: for its database and log. ``warehouse``: its URI; default: below ``folder``. ``s3``: the properties of
    the store that it is on.
    """
    jars = resolve_jars((*_JARS, *_S3_JARS) if s3 else _JARS, f"iceberg-rest-{ICEBERG_VERSION}")
    hadoop = list_spark_jars("hadoop-client-*.jar", "log4j-*.jar", "commons-logging-*.jar", "slf4j-api-*.jar")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "server.log").open("w") as log:
        port = launch_gateway(
            classpath=os.pathsep.join([f"{jars}/*", *map(str, hadoop)]),
            javaopts=list(_JVM_OPTIONS),
            java_path=str(find_java(os.environ, locate_cache().parent) / "bin" / "java"),
            die_on_exit=True,
            redirect_stdout=log,
            redirect_stderr=log,
            cwd=str(folder),
        )
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
        try:
            yield _start(gateway.jvm, folder, warehouse or f"file://{folder}/warehouse", s3 or {})
        finally:
            gateway.shutdown()


def _start(jvm: Any, folder: Path, warehouse: str, s3: Mapping[str, str]) -> IcebergRestServer:
    properties = jvm.java.util.HashMap()
    for name, value in {
        "uri": f"jdbc:sqlite:{folder}/catalog.db",
        "warehouse": warehouse,
        "jdbc.schema-version": "V1",
        "io-impl": f"org.apache.iceberg.{'aws.s3.S3FileIO' if s3 else 'hadoop.HadoopFileIO'}",
        **s3,
        # SQLite has one writer.
        "clients": "1",
    }.items():
        properties.put(name, value)
    catalog = jvm.org.apache.iceberg.CatalogUtil.loadCatalog(
        "org.apache.iceberg.jdbc.JdbcCatalog", "backend", properties, jvm.org.apache.hadoop.conf.Configuration()
    )
    servlet = jvm.org.apache.iceberg.rest.RESTCatalogServlet(jvm.org.apache.iceberg.rest.RESTCatalogAdapter(catalog))
    server = jvm.org.eclipse.jetty.server.Server(jvm.java.net.InetSocketAddress("127.0.0.1", 0))
    context = jvm.org.eclipse.jetty.servlet.ServletContextHandler()
    context.addServlet(jvm.org.eclipse.jetty.servlet.ServletHolder(servlet), "/*")
    server.setHandler(context)
    server.start()
    port = server.getURI().getPort()
    return IcebergRestServer(f"http://127.0.0.1:{port}", folder)
