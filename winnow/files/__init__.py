"""What a segment file is and where it rests: schema, codec, object-store paths, the DuckDB connection."""
