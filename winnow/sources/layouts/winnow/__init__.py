"""Winnow's own files: JSON lines, and Parquet with the columns of Spark's Kafka source."""
