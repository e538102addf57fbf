"""The metadata store: all its parts over one database."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from winnow.store.database import Database
from winnow.store.migration import migrate, prepare_to_read

if TYPE_CHECKING:
    from winnow.store.alert_events import AlertHistory
    from winnow.store.alert_handling import AlertHandling
    from winnow.store.alerts import SentAlerts
    from winnow.store.assessments import Assessments
    from winnow.store.audit import AuditLog
    from winnow.store.deadlines import Deadlines
    from winnow.store.erase_requests import EraseRequests
    from winnow.store.idle_topics import IdleTopics
    from winnow.store.ingest_lag import IngestLags
    from winnow.store.ingests import Ingests
    from winnow.store.installation import Installations
    from winnow.store.lake_summary import LakeSummaries
    from winnow.store.latest_progress import LatestTables
    from winnow.store.leases import Leases
    from winnow.store.overview import Overview
    from winnow.store.portable_rows import PortableRows
    from winnow.store.projection import Projection
    from winnow.store.pruning import History
    from winnow.store.receipt_figures import ReceiptFigures
    from winnow.store.retired_files import RetiredFiles
    from winnow.store.run_progress import SparkJobs
    from winnow.store.run_queries import Quality, RunHistory
    from winnow.store.runs import Runs, Verdicts
    from winnow.store.samples import Samples
    from winnow.store.segment_checks import SegmentChecks
    from winnow.store.source_states import Divergences, SourceStates
    from winnow.store.table_health import TablesHealth
    from winnow.store.topic_heads import TopicHeads

PARTS: Final = {
    "installation": ("installation", "Installations"),
    "leases": ("leases", "Leases"),
    "assessments": ("assessments", "Assessments"),
    "overview": ("overview", "Overview"),
    "idle_topics": ("idle_topics", "IdleTopics"),
    "runs": ("runs", "Runs"),
    "run_history": ("run_queries", "RunHistory"),
    "job_progress": ("run_progress", "SparkJobs"),
    "ingests": ("ingests", "Ingests"),
    "erase_requests": ("erase_requests", "EraseRequests"),
    "ingest_lags": ("ingest_lag", "IngestLags"),
    "latest_tables": ("latest_progress", "LatestTables"),
    "verdicts": ("runs", "Verdicts"),
    "quality": ("run_queries", "Quality"),
    "projection": ("projection", "Projection"),
    "retired_files": ("retired_files", "RetiredFiles"),
    "segment_checks": ("segment_checks", "SegmentChecks"),
    "alerts": ("alerts", "SentAlerts"),
    "alert_handling": ("alert_handling", "AlertHandling"),
    "alert_history": ("alert_events", "AlertHistory"),
    "history": ("pruning", "History"),
    "audit": ("audit", "AuditLog"),
    "lake_summary": ("lake_summary", "LakeSummaries"),
    "samples": ("samples", "Samples"),
    "deadlines": ("deadlines", "Deadlines"),
    "receipt_figures": ("receipt_figures", "ReceiptFigures"),
    "table_health": ("table_health", "TablesHealth"),
    "portable_rows": ("portable_rows", "PortableRows"),
    "topic_heads": ("topic_heads", "TopicHeads"),
    "source_states": ("source_states", "SourceStates"),
    "divergences": ("source_states", "Divergences"),
}
"""Attribute of the store to module and class. A part is imported when it is first asked for: their tables take
SQLAlchemy longer to lay out than most commands take to be answered."""


class Store:
    """Checkpoints, receipts, marks and retired files (a projection), assessments, runs, verdicts (history), leases.

    Every method is one short transaction, so threads may share a store, and processes may open the same database. Any
    method may raise ServiceError if the database cannot be reached; repeating the call is safe.
    """

    installation: Installations
    leases: Leases
    assessments: Assessments
    overview: Overview
    idle_topics: IdleTopics
    runs: Runs
    run_history: RunHistory
    job_progress: SparkJobs
    ingests: Ingests
    erase_requests: EraseRequests
    ingest_lags: IngestLags
    latest_tables: LatestTables
    verdicts: Verdicts
    quality: Quality
    projection: Projection
    retired_files: RetiredFiles
    segment_checks: SegmentChecks
    alerts: SentAlerts
    alert_handling: AlertHandling
    alert_history: AlertHistory
    history: History
    audit: AuditLog
    lake_summary: LakeSummaries
    samples: Samples
    deadlines: Deadlines
    receipt_figures: ReceiptFigures
    table_health: TablesHealth
    portable_rows: PortableRows
    topic_heads: TopicHeads
    source_states: SourceStates
    divergences: Divergences

    def __init__(self, database: Database) -> None:
        self._database = database

    def __getattr__(self, name: str) -> Any:
        """Make a part. Threads may make one twice; parts hold nothing but the database."""
        if name not in PARTS:
            raise AttributeError(f"The store has no part {name!r}.", name=name, obj=self)
        module, part = PARTS[name]
        made = getattr(import_module(f"winnow.store.{module}"), part)(self._database)
        setattr(self, name, made)
        return made

    @classmethod
    def open(cls, url: str) -> Self:
        """Open the store at ``url`` and bring its tables to the newest schema; several processes may do so at once.

        Args:
            url: ``sqlite:////folder/store.db`` (the folder is made) or ``postgresql+psycopg://user:password@host/db``.

        Raises:
            ConfigurationError: the URL is another one.
            FormatVersionError: a newer Winnow has migrated the database.
            ServiceError: the database cannot be reached. No message shows the password.
        """
        database = Database(url)
        try:
            migrate(database)
        except BaseException:
            database.close()
            raise
        return cls(database)

    @classmethod
    def open_to_read(cls, url: str) -> Self:
        """Open the store at ``url`` to read: nothing is opened before the first query, and no write access is needed.

        Missing tables, or those of an older Winnow, are migrated to the newest schema if this user has the right to.

        Raises:
            ConfigurationError: as :meth:`open`. The first query may raise the other errors of :meth:`open`.
        """
        return cls(Database(url, prepare=prepare_to_read))

    @property
    def exists(self) -> bool:
        """Whether there is a database to ask, as far as that can be told without asking it."""
        return not self._database.is_sqlite or Path(str(self._database.url.database)).exists()

    def keep_open(self) -> AbstractContextManager[None]:
        """Keep the database open during a block of many short transactions, in which the process does not fork."""
        return self._database.keep_open()

    def close(self) -> None:
        """Close idle connections. The store must not be used after."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
