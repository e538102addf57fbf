"""Runs a Kafka broker of one node (KRaft) as a process, for tests, for measurements and for trying things.

    python -m broker.kafka_broker [FOLDER] [--version VERSION] [--port PORT]

The broker listens on the loopback interface only, knows transactions and consumer groups, and is ready within seconds.
It ends with the process that started it, also when that one is killed. Not for data that anybody wants to keep.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.sax.saxutils import quoteattr

from broker.addresses import LOOPBACK, check_port, find_free_ports, list_living_brokers
from broker.class_archives import format_options_to_use, format_options_to_write, keep_archive, locate_archive
from broker.jars import list_spark_jars, locate_cache, resolve_jars
from winnow.embedded.java import find_java
from winnow.embedded.processes import Guardian, start_guardian
from winnow.errors import ServiceError, WinnowError

DEFAULT_VERSION: Final = "4.3.1"
DEFAULT_PORT: Final = 9092
"""Of the program, as the commands in the documents have it; :func:`run_broker` takes a free one."""
QUICK_START: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
"""Options of the JVM that save time at its start; measurements of speed take others."""
START_TIMEOUT_S: Final = 120
STOP_TIMEOUT_S: Final = 60

_POLL_S: Final = 0.05
_START_ATTEMPTS: Final = 3
_NOT_NEEDED: Final = ("org.apache.kafka:kafka-tools-api",)
"""The broker runs without it, and for some versions Maven Central does not have it."""
_LOGGING_JARS: Final = ("log4j-core-*.jar", "log4j-api-*.jar", "log4j-slf4j2-impl-*.jar", "slf4j-api-*.jar")
_CLEANER_LOGGERS: Final = (
    ("kafka.log.LogCleaner", "DEBUG"),
    ("kafka.log.LogCleanerManager$", "DEBUG"),
    ("org.apache.kafka.storage.internals.log.LogCleaner", "DEBUG"),
    ("org.apache.kafka.storage.internals.log.LogCleanerManager", "DEBUG"),
    ("org.apache.kafka.storage.internals.log.LogCleaner$CleanerThread", "INFO"),
    ("org.apache.kafka.storage.internals.log.Cleaner", "INFO"),
)
_PROPERTIES: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # A killed broker may not come back before its session has ended.
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "log.cleaner.backoff.ms": "250",
    "log.cleaner.dedupe.buffer.size": str(16 << 20),
}


@dataclass
class KafkaBroker:
    """A broker, its folder and its process. Get it from :func:`run_broker`."""

    folder: Path
    version: str
    jvm_options: Sequence[str]
    properties: Mapping[str, str]
    _java: Path
    _jars: Path
    _guardian: Guardian
    node_id: int
    cluster_id: str
    voters: str
    """Kafka's ``controller.quorum.voters``; this node alone when empty."""
    _ports: tuple[int, int]
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _draft: Path | None = field(default=None, repr=False)
    """The class archive that the process writes as it ends."""
    _started_at_byte: int = field(default=0, repr=False)

    @property
    def bootstrap_servers(self) -> str:
        """Host and port for clients; the same after a restart."""
        return f"{LOOPBACK}:{self._ports[0]}"

    @property
    def data_folder(self) -> Path:
        """The broker's ``log.dirs``: a folder per topic partition, and ``cleaner-offset-checkpoint``."""
        return self.folder / "data"

    @property
    def log_file(self) -> Path:
        """What the broker logs and prints."""
        return self.folder / "server.log"

    @property
    def cleaner_log_file(self) -> Path:
        """What the log cleaner logs, at DEBUG: each partition it looked at, with its range and ratio."""
        return self.folder / "cleaner.log"

    @property
    def _properties_file(self) -> Path:
        return self.folder / "server.properties"

    @property
    def pid(self) -> int | None:
        """The process id while the broker runs."""
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start the broker unless it runs; return when it answers.

        Raises:
            ServiceError: it ended, or does not answer within two minutes.
        """
        if self._process is not None:
            return
        first = self._ports == (0, 0)
        for attempt in range(_START_ATTEMPTS if first else 1):
            if first:
                self._ports = find_free_ports()
            try:
                self.launch()
                self.wait_until_ready()
                return
            except ServiceError:
                # Another process may have taken a port since; the address of a later start is fixed.
                if attempt == _START_ATTEMPTS - 1 or not first or not self._failed_to_bind():
                    raise

    def stop(self) -> None:
        """Stop the broker in an orderly way (SIGTERM); kill it after a minute."""
        self.resume()
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the broker (SIGKILL), as a crash would.

        Without a second broker, Kafka can lose the end of a transaction whose commit was answered just before: its
        markers are dropped while the restarted broker has no leader, and readers of committed records wait for ever.
        Read the transaction before the kill where that matters.
        """
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop the broker if it runs, and start it at the same address."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Let the process stand still (SIGSTOP): it holds its connections and answers nothing."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on (SIGCONT)."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def launch(self) -> None:
        """Start the process without waiting for it, as a node that needs others of its quorum must be.

        Raises:
            ServiceError: its storage could not be formatted.
        """
        self.format_storage()
        self._started_at_byte = self.log_file.stat().st_size if self.log_file.exists() else 0
        archive = self._locate_archive()
        self._draft = None if archive is None or archive.exists() else self.folder / archive.name
        more = [] if self._draft is None else format_options_to_write(self._draft)
        # A JVM that is to write an archive does not start with another one, which these options may name.
        env = {name: value for name, value in os.environ.items() if not more or name != "JDK_JAVA_OPTIONS"}
        with self.log_file.open("ab") as stream:
            # In its own session, so that Ctrl-C in the terminal reaches only this process.
            process = subprocess.Popen(
                [*self._build_command([*self.jvm_options, *more]), "kafka.Kafka", str(self._properties_file)],
                cwd=self.folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._process = process
        self._guardian.tell_begun(process.pid)

    def wait_until_ready(self) -> None:
        """Return when the launched process answers clients; kill it when it does not.

        Raises:
            ServiceError: it ended, or does not answer within two minutes.
        """
        process = self._process
        assert process is not None, "not launched"
        try:
            until = time.monotonic() + START_TIMEOUT_S
            while self.node_id not in list_living_brokers(self._ports[0]):
                if process.poll() is not None or time.monotonic() > until:
                    raise ServiceError(
                        f"Kafka {self.version} did not start in {self.folder}. {self._read_cause()}",
                        left=f"It was stopped; see {self.log_file}.",
                    )
                time.sleep(_POLL_S)
        except BaseException:
            self.kill()
            raise

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._guardian.tell_ended(process.pid)
        self._keep_archive()

    def _write_configuration(self) -> None:
        client, controller = self._ports
        more = "".join(f",{each}" for each in self.properties.get("listeners", "").split(",") if each)
        mine = {
            "node.id": str(self.node_id),
            "controller.quorum.voters": self.voters or f"{self.node_id}@{LOOPBACK}:{controller}",
            "listeners": f"PLAINTEXT://{LOOPBACK}:{client},CONTROLLER://{LOOPBACK}:{controller}{more}",
            "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{client}{more}",
            "log.dirs": str(self.data_folder),
        }
        lines = [f"{name}={value}\n" for name, value in {**_PROPERTIES, **self.properties, **mine}.items()]
        self._properties_file.write_text("".join(lines))
        (self.folder / "log4j2.xml").write_text(_describe_logging(self.cleaner_log_file))

    def format_storage(self) -> None:
        """Write the configuration, and make the empty storage that a first start needs.

        Raises:
            ServiceError: it could not be made.
        """
        self._write_configuration()
        if (self.data_folder / "meta.properties").exists():
            return
        done = subprocess.run(
            [
                *self._build_command(QUICK_START),
                *("kafka.tools.StorageTool", "format", "--cluster-id", self.cluster_id),
                *("--config", str(self._properties_file)),
            ],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=START_TIMEOUT_S,
        )
        if done.returncode != 0:
            told = [line for line in done.stderr.splitlines() + done.stdout.splitlines() if "Exception" in line]
            raise ServiceError(
                f"Kafka {self.version} did not start in {self.folder}: {' '.join(told[:1]) or 'it gave no cause'}.",
                left="Its storage was not formatted.",
            )

    def _build_command(self, options: Sequence[str]) -> list[str]:
        # PySpark's logging comes first: it hides the older one that some versions of Kafka bring.
        path = [*map(str, list_spark_jars(*_LOGGING_JARS)), str(self._jars / "*")]
        logging = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.xml'}"
        archive = self._locate_archive()
        shared = [] if archive is None else format_options_to_use(archive)
        return [str(self._java), *options, *shared, logging, "-cp", os.pathsep.join(path)]

    def _locate_archive(self) -> Path | None:
        """Locate the archive of this version's classes, None for a JVM that is to be measured.

        The first broker that is stopped in an orderly way writes it.
        """
        if not set(QUICK_START[1:]) <= set(self.jvm_options):
            return None
        jars = [*list_spark_jars(*_LOGGING_JARS), *sorted(self._jars.glob("*.jar"))]
        return locate_archive(f"kafka-{self.version}", self._java, jars)

    def _keep_archive(self) -> None:
        draft, self._draft = self._draft, None
        archive = self._locate_archive()
        if draft is not None and archive is not None and draft.exists():
            keep_archive(draft, archive)

    def _failed_to_bind(self) -> bool:
        return self.log_file.exists() and "Address already in use" in self.log_file.read_text(errors="replace")

    def _read_cause(self) -> str:
        with self.log_file.open("rb") as stream:
            stream.seek(self._started_at_byte)
            lines = stream.read().decode(errors="replace").splitlines()
        told = [line for line in lines if "ERROR" in line or "Exception" in line or line.startswith("Error")]
        return " ".join(told[:1]) or f"It said nothing of a cause within {START_TIMEOUT_S} s."


@contextlib.contextmanager
def run_broker(
    folder: Path,
    *,
    version: str = DEFAULT_VERSION,
    jvm_options: Sequence[str] = QUICK_START,
    properties: Mapping[str, str] | None = None,
    port: int | None = None,
) -> Iterator[KafkaBroker]:
    """Run a broker with its data in ``folder`` until the block ends; data of an earlier run is taken up again.

    ``properties`` are added to the broker's, or replace them; ``listeners`` are further ones. ``port``: for clients,
    from 1 to 65535; a free one when left out.

    Raises:
        ConfigurationError: PySpark or Java is missing, or another process listens at ``port``.
        ServiceError: the jars cannot be fetched, or the broker does not start.
    """
    ports = (0, 0) if port is None else (check_port(port), find_free_ports()[1])
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with start_guardian(None, folder / "guardian.log") as guardian:
        broker = prepare_broker(
            folder, guardian, version=version, jvm_options=jvm_options, properties=properties, ports=ports
        )
        try:
            broker.start()
            yield broker
        finally:
            broker.stop()


def prepare_broker(
    folder: Path,
    guardian: Guardian,
    *,
    version: str = DEFAULT_VERSION,
    jvm_options: Sequence[str] = QUICK_START,
    properties: Mapping[str, str] | None = None,
    node_id: int = 1,
    cluster_id: str | None = None,
    ports: tuple[int, int] = (0, 0),
    voters: str = "",
) -> KafkaBroker:
    """Return a broker that has not been started; its ``folder`` is made.

    ``ports``: for clients and for controllers; free ones are chosen at the first start when left out. A node of a
    quorum needs its ``node_id``, ``cluster_id``, ``ports`` and ``voters``.

    Raises:
        ConfigurationError: PySpark or Java is missing.
        ServiceError: the jars cannot be fetched.
    """
    jars = resolve_broker_jars(version)
    java = find_java(os.environ, locate_cache().parent) / "bin" / "java"
    folder.mkdir(parents=True, exist_ok=True)
    identity = (node_id, cluster_id or make_cluster_id(), voters, ports)
    return KafkaBroker(folder, version, jvm_options, properties or {}, java, jars, guardian, *identity)


def resolve_broker_jars(version: str = DEFAULT_VERSION) -> Path:
    """Return the folder with the broker's jars; fetched at the first call, see :mod:`broker.jars`."""
    return resolve_jars([f"org.apache.kafka:kafka_2.13:{version}"], f"kafka-{version}", exclude=_NOT_NEEDED)


def make_cluster_id() -> str:
    """Return a new id of a cluster."""
    # One that begins with "-" would be taken for an option.
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "a")


def _describe_logging(cleaner_log: Path) -> str:
    pattern = '<PatternLayout pattern="%d{ISO8601_OFFSET_DATE_TIME_HHCMM} %p %m (%c)%n"/>'
    loggers = "".join(
        f'<Logger name="{name}" level="{level}" additivity="false"><AppenderRef ref="cleaner"/></Logger>'
        for name, level in _CLEANER_LOGGERS
    )
    return (
        f'<Configuration><Appenders><Console name="server">{pattern}</Console>'
        f'<File name="cleaner" fileName={quoteattr(str(cleaner_log))}>{pattern}</File></Appenders>'
        f'<Loggers><Root level="INFO"><AppenderRef ref="server"/></Root>{loggers}</Loggers></Configuration>\n'
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a broker until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Run a Kafka broker of one node on this machine, until Ctrl-C.")
    parser.add_argument("folder", nargs="?", type=Path, help="its data; a temporary folder when left out")
    parser.add_argument("--version", default=DEFAULT_VERSION, help="Kafka's version (default: %(default)s)")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="for clients (default: %(default)s)")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with contextlib.ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="winnow-kafka-")))
        try:
            broker = stack.enter_context(run_broker(folder, version=options.version, port=options.port))
        except WinnowError as problem:
            sys.stderr.write(f"{problem}\n")
            return problem.exit_code
        sys.stdout.write(f"Kafka {broker.version}: bootstrap.servers=localhost:{options.port}\n")
        sys.stdout.write(f"Data: {broker.folder}   Ctrl-C ends it.\n")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
