"""Commands that change topics, partitions and stored files."""
