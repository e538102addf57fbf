"""Reads the bytes of keys and values by their format and schema, as rows of named, typed columns."""
