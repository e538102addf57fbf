"""How objects hold what is in them: compression, lines, JSON, Avro, Parquet, CSV."""
