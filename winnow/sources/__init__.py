"""Input files of records, JSON lines and Parquet, read in bounded batches of one schema."""
