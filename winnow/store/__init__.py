"""The metadata store: a projection of table and state, and the history of assessments, runs and verdicts.

Only this package imports SQLAlchemy and Alembic.
"""

from winnow.store.rows import CheckpointRow, Lease, OpenIngest, RetiredRow, Run, RunState
from winnow.store.store import Store

__all__ = ["CheckpointRow", "Lease", "OpenIngest", "RetiredRow", "Run", "RunState", "Store"]
