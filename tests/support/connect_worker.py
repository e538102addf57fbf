"""A Kafka Connect worker in standalone mode, with Debezium for PostgreSQL or MirrorMaker 2, from Maven Central."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from broker.jars import list_spark_jars, resolve_jars
from tests.support.source_database import DATABASE, ROLE
from tests.support.waiting import wait_until
from winnow.embedded.java import find_java

WORKER_JARS: Final = ("org.apache.kafka:connect-runtime:4.3.1", "org.apache.kafka:connect-json:4.3.1")
MIRROR_JARS: Final = ("org.apache.kafka:connect-mirror:4.3.1", *WORKER_JARS)
DEBEZIUM_JARS: Final = ("io.debezium:debezium-connector-postgres:3.7.0.Final",)
LOGGING_JARS: Final = ("log4j-core-*.jar", "log4j-api-*.jar", "log4j-slf4j2-impl-*.jar", "slf4j-api-*.jar")
LOGGING: Final = """\
<Configuration status="WARN">
  <Appenders><Console name="out"><PatternLayout pattern="%d %p %c{1} %m%n"/></Console></Appenders>
  <Loggers><Root level="WARN"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""


class ConnectWorker:
    """One worker, with its settings, its positions and its output in ``folder``.

    ``mirrors``: its connectors are MirrorMaker's, which want bytes as they are, and not Debezium's.
    """

    def __init__(self, folder: Path, port: int, *, bootstrap_servers: str, mirrors: bool = False) -> None:
        self.folder = folder
        self.port = port
        self.log = folder / "connect.log"
        self._bootstrap_servers = bootstrap_servers
        self._mirrors = mirrors
        self._connectors: dict[str, Path] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def add_connector(self, name: str, settings: Mapping[str, object]) -> None:
        """Give the worker a connector for its next start."""
        path = self.folder / f"{name}.properties"
        path.write_text(_format_properties({"name": name} | dict(settings)))
        self._connectors[name] = path

    def start(self) -> None:
        """Start the worker, after a kill too, and wait until all its connectors run."""
        plugins = self.folder / "plugins"
        if not plugins.exists():
            plugins.mkdir(parents=True)
            # A folder of folders: each is one plug-in. MirrorMaker's are on the class path.
            if not self._mirrors:
                (plugins / "debezium").symlink_to(resolve_jars(DEBEZIUM_JARS, "debezium"))
        (self.folder / "log4j2.xml").write_text(LOGGING)
        worker = self.folder / "worker.properties"
        worker.write_text(_format_properties(self._list_worker_settings(plugins)))
        jars = [str(jar) for jar in list_spark_jars(*LOGGING_JARS)]
        java = find_java(os.environ, self.folder) / "bin" / "java"
        command = [str(java), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"]
        command += [f"-Dlog4j2.configurationFile={self.folder / 'log4j2.xml'}"]
        connect = resolve_jars(MIRROR_JARS, "mirror") if self._mirrors else resolve_jars(WORKER_JARS, "connect")
        command += ["-cp", os.pathsep.join([*jars, f"{connect}/*"])]
        command += ["org.apache.kafka.connect.cli.ConnectStandalone", str(worker), *map(str, self._connectors.values())]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        wait_until(self._runs, within_s=120)

    def kill(self) -> None:
        """Kill the worker; what it wrote since it last kept its positions, it will write again."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def read_state(self, name: str) -> list[str]:
        """The states of a connector and its task, or nothing while the worker does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/connectors/{name}/status", timeout=5) as answer:
                status = json.load(answer)
        except OSError:
            return []
        parts = [status["connector"], *status["tasks"]]
        for part in parts:
            assert part["state"] != "FAILED", part.get("trace")
        return [cast("str", part["state"]) for part in parts]

    def _runs(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()[-4000:]
        return all(self.read_state(name) == ["RUNNING", "RUNNING"] for name in self._connectors)

    def _list_worker_settings(self, plugins: Path) -> dict[str, object]:
        converter = "org.apache.kafka.connect.json.JsonConverter"
        more: dict[str, object] = {"key.converter.schemas.enable": "false", "value.converter.schemas.enable": "false"}
        if self._mirrors:
            converter = "org.apache.kafka.connect.converters.ByteArrayConverter"
            more = {"header.converter": converter}
        return {
            "bootstrap.servers": self._bootstrap_servers,
            "key.converter": converter,
            "value.converter": converter,
            **more,
            "offset.storage.file.filename": self.folder / "positions",
            "offset.flush.interval.ms": 500,
            "listeners": f"http://127.0.0.1:{self.port}",
            "plugin.path": plugins,
            "plugin.discovery": "service_load",
        }


def describe_debezium(port: int, *, prefix: str, tables: list[str], partitions: int) -> dict[str, object]:
    """Settings of the connector: tables of the database at ``port`` to topics ``<prefix>.public.<table>``."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": 1,
        "plugin.name": "pgoutput",
        "database.hostname": "127.0.0.1",
        "database.port": port,
        "database.user": ROLE,
        "database.password": ROLE,
        "database.dbname": DATABASE,
        "topic.prefix": prefix,
        "table.include.list": ",".join(f"public.{table}" for table in tables),
        "publication.autocreate.mode": "filtered",
        "slot.name": prefix,
        "decimal.handling.mode": "string",
        "time.precision.mode": "isostring",
        "topic.creation.default.replication.factor": 1,
        "topic.creation.default.partitions": partitions,
        "topic.creation.default.cleanup.policy": "compact",
        # The database and the broker are killed under it.
        "retriable.restart.connector.wait.ms": 500,
        "poll.interval.ms": 50,
    }


def describe_mirror(bootstrap_servers: str, topic: str) -> dict[str, object]:
    """Settings of MirrorMaker: ``topic`` of a cluster A to ``A.<topic>`` of a cluster B, which is the same one."""
    return {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "tasks.max": 1,
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": bootstrap_servers,
        "target.cluster.bootstrap.servers": bootstrap_servers,
        "topics": topic,
        "replication.factor": 1,
        "offset-syncs.topic.replication.factor": 1,
        "sync.topic.acls.enabled": "false",
        "refresh.topics.interval.seconds": 1,
    }


def _format_properties(settings: Mapping[str, object]) -> str:
    return "".join(f"{name}={value}\n" for name, value in settings.items())
