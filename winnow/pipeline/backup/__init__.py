"""Backups of a whole installation: its tables' files, what the catalog says of them, and the metadata store."""
