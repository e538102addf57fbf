"""The latest state of a topic: its records, its view, its side table."""
