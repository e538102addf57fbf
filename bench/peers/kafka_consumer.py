"""Reads a topic's committed records with a plain loop of the client library, and looks at each.

    python -m bench.peers.kafka_consumer SERVERS TOPIC RECORDS PARTITIONS

Prints seconds and CPU seconds of the loop alone. It is the least that reading back can cost.
"""

from __future__ import annotations

import os
import sys
import time

from bench.peers.timing import print_times


def main() -> None:
    """Read as the arguments say."""
    servers, topic = sys.argv[1:3]
    records, partitions = map(int, sys.argv[3:])
    read_records(servers, topic, records, partitions)


def read_records(servers: str, topic: str, records: int, partitions: int) -> None:
    """Read ``records`` records from the beginning of all partitions."""
    from confluent_kafka import Consumer, TopicPartition

    properties: dict[str, str | int | bool] = {"bootstrap.servers": servers, "group.id": "plain"}
    properties |= {"isolation.level": "read_committed", "enable.auto.commit": False, "fetch.wait.max.ms": 10}
    with print_times() as times:
        consumer = Consumer({**properties, "queued.min.messages": 1_000_000, "fetch.queue.backoff.ms": 5})
        times.ready, began_cpu = time.monotonic(), sum(os.times()[:2])
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        left, size_bytes = records, 0
        while left > 0:
            for message in consumer.consume(8_192, 1.0):
                if message.error() is not None:
                    continue
                left -= 1
                size_bytes += len(message.key() or b"") + len(message.value() or b"") + len(message.headers() or ())
        times.done = time.monotonic()
        times.figures |= {"cpu": sum(os.times()[:2]) - began_cpu, "bytes": size_bytes}
    consumer.close()


if __name__ == "__main__":
    main()
