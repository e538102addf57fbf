"""Writes records in transactions with a plain loop of the client library, as anybody would who has them in memory.

    python -m bench.peers.kafka_producer SERVERS TOPIC RECORDS PARTITIONS TRANSACTION_RECORDS

The records are those of ``bench.kafka_ingest``; they are made before the time begins. Each transaction also commits an
offset, as a restore's does. Prints seconds and CPU seconds of the loop alone.
"""

from __future__ import annotations

import os
import sys
import time

from bench.kafka_ingest import make_record
from bench.peers.timing import print_times

MAXIMUM_PREPARED = 1_000_000
"""Records that are held in memory; of a longer topic they are written again and again."""


def main() -> None:
    """Write as the arguments say."""
    servers, topic = sys.argv[1:3]
    records, partitions, transaction_records = map(int, sys.argv[3:])
    write_records(servers, topic, records, partitions, transaction_records)


def write_records(servers: str, topic: str, records: int, partitions: int, transaction_records: int) -> None:
    """Write to an existing topic, partition by partition within each transaction."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    prepared = [make_record(number, records) for number in range(min(records, MAXIMUM_PREPARED))]
    properties = {"bootstrap.servers": servers}
    producer = Producer(
        properties
        | {"transactional.id": f"plain-{topic}", "linger.ms": 50, "batch.size": 900_000, "compression.type": "lz4"}
        | {"queue.buffering.max.messages": 200_000, "queue.buffering.max.kbytes": 64 << 10}
        | {"delivery.report.only.error": True}
    )
    consumer = Consumer(properties | {"group.id": f"plain-{topic}", "enable.auto.commit": False})
    with print_times() as times:
        producer.init_transactions(60)
        times.ready, began_cpu = time.monotonic(), sum(os.times()[:2])
        for start in range(0, records, transaction_records):
            producer.begin_transaction()
            end = min(records, start + transaction_records)
            for number in range(start, end):
                key, value, headers, time_ms = prepared[number % len(prepared)]
                partition = (number - start) * partitions // transaction_records
                while True:
                    try:
                        producer.produce(topic, value, key, partition, timestamp=time_ms, headers=headers)
                        break
                    except BufferError:
                        producer.poll(0.05)
            producer.poll(0)
            place = TopicPartition(topic, 0, end)
            producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), 60)
            producer.commit_transaction(60)
        times.done = time.monotonic()
        times.figures["cpu"] = sum(os.times()[:2]) - began_cpu
    consumer.close()


if __name__ == "__main__":
    main()
