"""Ingests Kafka topics: what is read of them and why not, compared, run, followed."""
