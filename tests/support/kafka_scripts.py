"""Runs commands of Kafka's own scripts as they are printed and documented."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

from broker.jars import list_spark_jars, resolve_jars
from winnow.embedded.java import find_java

KAFKA_TOOLS = "org.apache.kafka:kafka-tools:4.3.1"
CLASSES = {
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
}
"""What the scripts run."""


def run_kafka_script(command: str, bootstrap_servers: str, folder: Path) -> None:
    """Run a command, with the brokers for ``HOST:PORT`` in it."""
    script, *arguments = shlex.split(command.replace("HOST:PORT", bootstrap_servers))
    # For some versions Maven Central lacks the interfaces of plug-ins, which these tools do without.
    tools = resolve_jars([KAFKA_TOOLS], "kafka-tools", exclude=("org.apache.kafka:kafka-tools-api",))
    path = os.pathsep.join([*map(str, list_spark_jars("slf4j-api-*.jar")), str(tools / "*")])
    java = [str(find_java(os.environ, folder) / "bin" / "java"), "-Xmx256m", "-XX:+UseSerialGC", "-cp", path]
    done = subprocess.run([*java, CLASSES[script], *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
