"""Read-only commands: explain, read, latest, changes, connect, why, compare."""
