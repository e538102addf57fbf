"""Read-only commands: explain, read, why, compare."""
