"""The metadata store: a projection of table and state, and the history of assessments, runs and verdicts.

Only this package imports SQLAlchemy and Alembic.
"""

from winnow.store.store import Store
from winnow.store.values import CheckpointRow, Lease, OpenIngest, RetiredRow, Run, RunState

__all__ = ["CheckpointRow", "Lease", "OpenIngest", "RetiredRow", "Run", "RunState", "Store"]
