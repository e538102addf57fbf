"""HDFS and YARN of one node, by Hadoop's own mini cluster: one JVM with all of their daemons, spoken to through py4j.

The jars come from Maven Central once per user, as the Kafka broker's do (:mod:`broker.jars`).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from broker.jars import list_spark_jars, locate_cache, resolve_jars
from winnow.embedded.java import find_java

HADOOP_VERSION = "3.4.2"
"""That of the client inside Spark."""

# The mini cluster's own list leaves these out: a certificate authority of YARN, and XML binding, once part of Java.
_JARS = (
    f"org.apache.hadoop:hadoop-client-minicluster:{HADOOP_VERSION}",
    "org.bouncycastle:bcpkix-jdk18on:1.78.1",
    "org.glassfish.jaxb:jaxb-runtime:2.3.9",
)
_JVM_OPTIONS = (
    *("-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"),
    *("--add-opens=java.base/java.lang=ALL-UNNAMED", "-Djava.net.preferIPv4Stack=true"),
)
_YARN: Mapping[str, str] = {
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
    "yarn.scheduler.minimum-allocation-mb": "256",
    "yarn.nodemanager.resource.memory-mb": "8192",
    "yarn.nodemanager.resource.cpu-vcores": "8",
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.pmem-check-enabled": "false",
    "yarn.nodemanager.disk-health-checker.enable": "false",
    # A finished container's folder stays: its output is what a failing test shows.
    "yarn.nodemanager.delete.debug-delay-sec": "600",
}


@dataclass(frozen=True)
class HadoopCluster:
    """A running cluster. ``conf_folder`` is for HADOOP_CONF_DIR; ``address`` is ``hdfs://host:port``."""

    address: str
    conf_folder: Path
    folder: Path
    _dfs: Any
    _yarn: Any

    def list_applications(self) -> list[tuple[str, str]]:
        """Name and final state of each application that YARN ran."""
        apps = self._yarn.getResourceManager().getRMContext().getRMApps().values()
        return sorted((app.getName(), app.getFinalApplicationStatus().toString()) for app in apps)

    def stop_data_nodes(self) -> None:
        """Stop everything that stores blocks; the name node goes on."""
        self._dfs.shutdownDataNodes()


@contextmanager
def run_hadoop(folder: Path, *, with_yarn: bool = True) -> Iterator[HadoopCluster]:
    """Run HDFS, and YARN too, with their data below ``folder`` until the block ends."""
    jars = resolve_jars(_JARS, f"hadoop-{HADOOP_VERSION}")
    logging = list_spark_jars("log4j-*.jar")
    conf_folder = folder / "conf"
    conf_folder.mkdir(parents=True)
    (conf_folder / "log4j2.properties").write_text("rootLogger.level = warn\n")
    with (folder / "hadoop.log").open("w") as log:
        port = launch_gateway(
            classpath=os.pathsep.join([str(conf_folder), f"{jars}/*", *map(str, logging)]),
            javaopts=[*_JVM_OPTIONS, f"-Dtest.build.data={folder}/data", f"-Dhadoop.log.dir={folder}/logs"],
            java_path=str(find_java(os.environ, locate_cache().parent) / "bin" / "java"),
            die_on_exit=True,
            redirect_stdout=log,
            redirect_stderr=log,
            cwd=str(folder),
        )
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
        try:
            yield from _run_daemons(gateway.jvm, folder, conf_folder, with_yarn=with_yarn)
        finally:
            gateway.shutdown()


def _run_daemons(jvm: Any, folder: Path, conf_folder: Path, *, with_yarn: bool) -> Iterator[HadoopCluster]:
    conf = jvm.org.apache.hadoop.hdfs.HdfsConfiguration()
    conf.set("hdfs.minidfs.basedir", f"{folder}/dfs")
    dfs = jvm.org.apache.hadoop.hdfs.MiniDFSCluster.Builder(conf).numDataNodes(1).build()
    yarn = None
    try:
        dfs.waitActive()
        address = f"hdfs://127.0.0.1:{dfs.getNameNodePort()}"
        _write_site(conf_folder / "core-site.xml", {"fs.defaultFS": address})
        _write_site(conf_folder / "hdfs-site.xml", {"dfs.replication": "1"})
        if with_yarn:
            settings = jvm.org.apache.hadoop.yarn.conf.YarnConfiguration(conf)
            for name, value in {**_YARN, "fs.defaultFS": address}.items():
                settings.set(name, value)
            yarn = jvm.org.apache.hadoop.yarn.server.MiniYARNCluster("winnow", 1, 1, 1)
            yarn.init(settings)
            yarn.start()
            addresses = ("address", "scheduler.address", "resource-tracker.address", "webapp.address")
            known = {
                f"yarn.resourcemanager.{each}": yarn.getConfig().get(f"yarn.resourcemanager.{each}")
                for each in addresses
            }
            _write_site(conf_folder / "yarn-site.xml", {"yarn.application.classpath": "none", **known})
        yield HadoopCluster(address, conf_folder, folder, dfs, yarn)
    finally:
        with suppress(Exception):  # the JVM ends with this process in any case
            if yarn is not None:
                yarn.stop()
            dfs.shutdown()


def _write_site(path: Path, properties: Mapping[str, str]) -> None:
    lines = [f"<property><name>{name}</name><value>{value}</value></property>" for name, value in properties.items()]
    path.write_text("\n".join(["<configuration>", *lines, "</configuration>"]))


def put_package_on_executors() -> dict[str, str]:
    """Spark's properties by which the containers of YARN find this Python, this Winnow and Spark's own jars."""
    jars = list_spark_jars("spark-core*.jar")[0].parent
    path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {
        "spark.yarn.jars": f"local:{jars}/*",
        "spark.pyspark.python": sys.executable,
        "spark.executorEnv.PYTHONPATH": path,
        "spark.executor.instances": "1",
        "spark.executor.memory": "512m",
        "spark.yarn.am.memory": "512m",
        "spark.executor.cores": "2",
    }
