"""The table of properties has every one that Java's own clients have."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from broker.jars import locate_cache
from broker.kafka_broker import resolve_broker_jars
from winnow.embedded.java import find_java
from winnow.kafka.java_properties import JAVA_PROPERTIES

CLIENTS = ("admin.AdminClientConfig", "consumer.ConsumerConfig", "producer.ProducerConfig")


@pytest.mark.parametrize("client", CLIENTS)
def test_no_property_of_java_s_clients_is_missing_in_the_table(client: str) -> None:
    """Each of these classes is a program that writes its part of Kafka's documentation."""
    java = find_java(os.environ, locate_cache().parent) / "bin" / "java"
    path = f"{resolve_broker_jars()}/*"
    command = [str(java), "-XX:TieredStopAtLevel=1", "-cp", path, f"org.apache.kafka.clients.{client}"]
    page = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    listed = set(re.findall(r'<a id="[a-z]+_([\w.]+)"', page))
    assert len(listed) > 70
    assert listed - {each.name for each in JAVA_PROPERTIES} == set()
