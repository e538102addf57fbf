"""Restores a topic's published log into a Kafka topic, exactly once, and verifies it by reading it back."""
