"""Segment files and where they lie: schema, codec, checksums, object-store paths, DuckDB connections."""
