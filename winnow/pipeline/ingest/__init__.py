"""Appending records from source files to a topic's log."""
