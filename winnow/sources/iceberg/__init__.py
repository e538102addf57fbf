"""Reads Kafka records from Iceberg tables that other programs write."""
