"""The Alembic scripts of the metadata store. They travel inside the package."""

HEAD_REVISION = "0022"
"""The newest schema; known without importing Alembic."""

FIRST_REVISION = "0022"
"""The oldest schema that is upgraded: that of the first release."""

VERSION_TABLE = "winnow_alembic_version"
"""Winnow's own, since the database may be shared with Airflow and the Iceberg catalog."""
