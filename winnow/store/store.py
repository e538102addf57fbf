"""The metadata store: all its parts over one database."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from winnow.store.alerts import SentAlerts
from winnow.store.assessments import Assessments
from winnow.store.database import Database
from winnow.store.history import History
from winnow.store.idle_topics import IdleTopics
from winnow.store.ingest_lag import IngestLags
from winnow.store.ingests import Ingests
from winnow.store.leases import Leases
from winnow.store.migration import migrate, prepare_to_read
from winnow.store.overview import Overview
from winnow.store.overview_history import Quality, RunHistory
from winnow.store.projection import Projection
from winnow.store.retired_files import RetiredFiles
from winnow.store.runs import Runs, Verdicts
from winnow.store.segment_checks import SegmentChecks


class Store:
    """Checkpoints, receipts, marks and retired files (a projection), assessments, runs, verdicts (history), leases.

    Every method is one short transaction, so threads may share a store, and processes may open the same database. Any
    method may raise ServiceError if the database cannot be reached; repeating the call is safe.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.leases = Leases(database)
        self.assessments = Assessments(database)
        self.overview = Overview(database)
        self.idle_topics = IdleTopics(database)
        self.runs = Runs(database)
        self.run_history = RunHistory(database)
        self.ingests = Ingests(database)
        self.ingest_lags = IngestLags(database)
        self.verdicts = Verdicts(database)
        self.quality = Quality(database)
        self.projection = Projection(database)
        self.retired_files = RetiredFiles(database)
        self.segment_checks = SegmentChecks(database)
        self.alerts = SentAlerts(database)
        self.history = History(database)

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
