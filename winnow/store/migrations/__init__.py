"""The Alembic scripts of the metadata store. They travel inside the package."""

from pathlib import Path

_REVISIONS = sorted(script.name[1:5] for script in Path(__file__).parent.glob("versions/r*.py"))

HEAD_REVISION = _REVISIONS[-1]
"""The newest schema; known without importing Alembic."""

FIRST_REVISION = _REVISIONS[0]
"""The oldest schema that is upgraded: that of the first release."""

VERSION_TABLE = "winnow_alembic_version"
"""Winnow's own, since the database may be shared with Airflow and the Iceberg catalog."""
