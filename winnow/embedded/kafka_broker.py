"""Runs a Kafka broker of one node (KRaft) as a process, for tests, for measurements and for trying things.

    python -m winnow.embedded.kafka_broker [FOLDER] [--version VERSION]

The broker listens on the loopback interface only, knows transactions and consumer groups, and is ready within seconds.
It ends with the process that started it, also when that one is killed. Not for data that anybody wants to keep.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import os
import signal
import socket
import struct
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

from winnow.embedded.java import find_java
from winnow.embedded.kafka_jars import list_spark_jars, locate_cache, resolve_jars
from winnow.embedded.processes import Guardian, start_guardian
from winnow.errors import ServiceError

DEFAULT_VERSION: Final = "4.3.1"
QUICK_START: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
"""Options of the JVM that save time at its start; measurements of speed take others."""
START_TIMEOUT_S: Final = 120
STOP_TIMEOUT_S: Final = 60

_LOOPBACK: Final = "127.0.0.1"
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
    "node.id": "1",
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
    _ports: tuple[int, int] = (0, 0)
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def bootstrap_servers(self) -> str:
        """Host and port for clients; the same after a restart."""
        return f"{_LOOPBACK}:{self._ports[0]}"

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
                self._ports = _find_free_ports()
            try:
                self._launch()
                return
            except ServiceError:
                # Another process may have taken a port since; the address of a later start is fixed.
                if attempt == _START_ATTEMPTS - 1 or not first or not self._failed_to_bind():
                    raise

    def stop(self) -> None:
        """Stop the broker in an orderly way (SIGTERM); kill it after a minute."""
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

    def _launch(self) -> None:
        properties = self._write_configuration()
        if not (self.data_folder / "meta.properties").exists():
            self._format_storage(properties)
        started_at_byte = self.log_file.stat().st_size if self.log_file.exists() else 0
        with self.log_file.open("ab") as stream:
            # In its own session, so that Ctrl-C in the terminal reaches only this process.
            process = subprocess.Popen(
                [*self._build_command(self.jvm_options), "kafka.Kafka", str(properties)],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._process = process
        self._guardian.tell_begun(process.pid)
        try:
            until = time.monotonic() + START_TIMEOUT_S
            while not _answers(self._ports[0]):
                if process.poll() is not None or time.monotonic() > until:
                    raise ServiceError(
                        f"Kafka {self.version} did not start in {self.folder}. {self._read_cause(started_at_byte)} "
                        f"It was stopped; see {self.log_file}."
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

    def _write_configuration(self) -> Path:
        client, controller = self._ports
        more = "".join(f",{each}" for each in self.properties.get("listeners", "").split(",") if each)
        mine = {
            "controller.quorum.voters": f"1@{_LOOPBACK}:{controller}",
            "listeners": f"PLAINTEXT://{_LOOPBACK}:{client},CONTROLLER://{_LOOPBACK}:{controller}{more}",
            "advertised.listeners": f"PLAINTEXT://{_LOOPBACK}:{client}{more}",
            "log.dirs": str(self.data_folder),
        }
        path = self.folder / "server.properties"
        lines = [f"{name}={value}\n" for name, value in {**_PROPERTIES, **self.properties, **mine}.items()]
        path.write_text("".join(lines))
        (self.folder / "log4j2.xml").write_text(_describe_logging(self.cleaner_log_file))
        return path

    def _format_storage(self, properties: Path) -> None:
        done = subprocess.run(
            [
                *self._build_command(QUICK_START),
                *("kafka.tools.StorageTool", "format", "--cluster-id", _make_cluster_id()),
                *("--config", str(properties)),
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
                f"Kafka {self.version} did not start in {self.folder}: {' '.join(told[:1]) or 'it gave no cause'}. Its "
                "storage was not formatted."
            )

    def _build_command(self, options: Sequence[str]) -> list[str]:
        # PySpark's logging comes first: it hides the older one that some versions of Kafka bring.
        path = [*map(str, list_spark_jars(*_LOGGING_JARS)), str(self._jars / "*")]
        logging = f"-Dlog4j2.configurationFile={self.folder / 'log4j2.xml'}"
        return [str(self._java), *options, logging, "-cp", os.pathsep.join(path)]

    def _failed_to_bind(self) -> bool:
        return self.log_file.exists() and "Address already in use" in self.log_file.read_text(errors="replace")

    def _read_cause(self, start: int) -> str:
        with self.log_file.open("rb") as stream:
            stream.seek(start)
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
) -> Iterator[KafkaBroker]:
    """Run a broker with its data in ``folder`` until the block ends; data of an earlier run is taken up again.

    ``properties`` are added to the broker's, or replace them; ``listeners`` are further ones.

    Raises:
        ConfigurationError: PySpark or Java is missing.
        ServiceError: the jars cannot be fetched, or the broker does not start.
    """
    jars = resolve_broker_jars(version)
    java = find_java(os.environ, locate_cache().parent) / "bin" / "java"
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with start_guardian(None, folder / "guardian.log") as guardian:
        broker = KafkaBroker(folder, version, jvm_options, properties or {}, java, jars, guardian)
        try:
            broker.start()
            yield broker
        finally:
            broker.stop()


def resolve_broker_jars(version: str = DEFAULT_VERSION) -> Path:
    """Return the folder with the broker's jars; fetched at the first call, see :mod:`winnow.embedded.kafka_jars`."""
    return resolve_jars([f"org.apache.kafka:kafka_2.13:{version}"], f"kafka-{version}", exclude=_NOT_NEEDED)


def _find_free_ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        for each in (first, second):
            each.bind((_LOOPBACK, 0))
        return first.getsockname()[1], second.getsockname()[1]


def _make_cluster_id() -> str:
    # One that begins with "-" would be taken for an option.
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "a")


def _answers(port: int) -> bool:
    """Check whether the broker answers a request for its metadata and counts itself among the brokers that live."""
    # Metadata, version 4: correlation id, no client id, no topics, no automatic creation.
    request = struct.pack(">hhihib", 3, 4, 1, -1, 0, 0)
    try:
        with socket.create_connection((_LOOPBACK, port), timeout=5) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            with connection.makefile("rb") as stream:
                # Length, correlation id, throttle time, number of brokers.
                answer = struct.Struct(">iiii")
                return bool(answer.unpack(stream.read(answer.size))[3])
    except (OSError, struct.error):
        return False


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
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with contextlib.ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="winnow-kafka-")))
        try:
            broker = stack.enter_context(run_broker(folder, version=options.version))
        except ServiceError as problem:
            sys.stderr.write(f"{problem}\n")
            return problem.exit_code
        sys.stdout.write(f"Kafka {broker.version}: bootstrap.servers={broker.bootstrap_servers}\n")
        sys.stdout.write(f"Data: {broker.folder}   Ctrl-C ends it.\n")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
