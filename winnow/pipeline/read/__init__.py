"""Reads published records: in order, page by page, by key."""
