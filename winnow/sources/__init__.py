"""Where records come from: files of JSON lines and Parquet, read in bounded batches of one schema."""
