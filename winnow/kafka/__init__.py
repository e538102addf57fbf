"""Clients of Kafka brokers: what topics are, and their records; the only package that imports confluent_kafka."""
