"""Translates catalog errors, creates namespaces, and confirms commits that a catalog reports as conflicts.

The answer to the second request is that the newest snapshot is another one, which is the first request's own. PyIceberg
then deletes the manifests that it wrote, and the table names files that are gone. So a conflict is believed only when
the table has no snapshot of that commit.
"""

from __future__ import annotations

import contextlib
import random
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import CommitTableResponse
from pyiceberg.table.update import AddSnapshotUpdate

from winnow.errors import (
    CommitUnknownError,
    MissingFileError,
    ServiceError,
    WinnowError,
)
from winnow.files import object_store

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.typedef import Identifier


def wait_before_retry(attempt: int) -> None:
    """Wait a little longer after each lost try, with jitter so that two committers do not collide again."""
    time.sleep(min(0.05 * 2**attempt, 2.0) * (0.5 + random.random()))


def find_landed(catalog: Catalog, identifier: Identifier, snapshot_id: int) -> Table | None:
    """Load the table if it has the snapshot; None: it has not, or the catalog does not answer."""
    try:
        table = catalog.load_table(identifier)
    except Exception:
        return None
    return None if table.metadata.snapshot_by_id(snapshot_id) is None else table


def ensure_namespace(catalog: Catalog, namespace: str) -> None:
    """Create ``namespace`` if it is missing, also when another process creates it at the same moment.

    PyIceberg checks first and creates then; the slower of two gets the database's own error from a SQL catalog.
    """
    try:
        catalog.create_namespace_if_not_exists(namespace)
    except Exception:
        if not catalog.namespace_exists(namespace):
            raise


@contextlib.contextmanager
def translate_catalog_errors(what_happened: str, *, left: str = "Nothing was changed.") -> Iterator[None]:
    """Turn connection problems of the catalog or the object store into ServiceError; let everything else through.

    ``left``: what was left behind; empty: the caller says it.
    """
    try:
        yield
    except WinnowError:
        raise
    except CommitFailedException:
        raise
    except FileNotFoundError as problem:
        raise MissingFileError(
            f"{what_happened}: a file that the catalog names is not there ({_find_place(problem)}).",
            left,
            "Check that the bucket or folder of the warehouse is there and is the one the tables were made in, then "
            "run it again; restore files that are gone from a backup or the object store's versions.",
        ) from problem
    except Exception as problem:
        if isinstance(problem, OSError) and object_store.is_store_error(problem):
            raise ServiceError(
                f"{what_happened}: the object store does not serve the warehouse ({problem}).",
                left,
                "Check that the bucket is there, the endpoint (AWS_ENDPOINT_URL_S3) and the credentials, then run it "
                "again.",
            ) from problem
        if _is_connection_problem(problem):
            raise ServiceError(
                f"{what_happened}: the catalog or its object store cannot be reached ({type(problem).__name__}).",
                left,
                "Check WINNOW_CATALOG__* and WINNOW_WAREHOUSE, then run it again.",
            ) from problem
        raise


def _find_place(problem: FileNotFoundError) -> str:
    # Arrow quotes the path in its message; OSError keeps it apart.
    quoted = re.search(r"'([^']+)'", str(problem))
    return str(problem.filename or (quoted[1] if quoted else "no path was given"))


def _is_connection_problem(problem: Exception) -> bool:
    module = type(problem).__module__.split(".")[0]
    names = {kind.__name__ for kind in type(problem).__mro__}
    return (
        isinstance(problem, ConnectionError | TimeoutError)
        or (module == "sqlalchemy" and bool(names & {"OperationalError", "InterfaceError", "TimeoutError"}))
        or (module in {"requests", "urllib3"})
        or bool(names & {"ServiceUnavailableError", "ServerError", "AuthorizationExpiredError"})
    )


def confirm_commits(catalog: Catalog) -> None:
    """Make ``catalog`` check the table before it reports a conflict, for this process."""
    commit_table = catalog.commit_table

    def commit(
        table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        try:
            return commit_table(table, requirements, updates)
        except CommitFailedException:
            added = [update.snapshot.snapshot_id for update in updates if isinstance(update, AddSnapshotUpdate)]
            if not added:
                raise
            try:
                newest = catalog.load_table(table.name())
            except Exception as problem:
                # Not a conflict for PyIceberg, so that it keeps the files.
                raise CommitUnknownError(
                    f"The catalog reported a conflict for a commit to {'.'.join(table.name())} and could not be asked "
                    f"whether it landed ({type(problem).__name__}).",
                    left="Nothing was cleaned up.",
                    next="Run it again.",
                ) from problem
            if any(newest.metadata.snapshot_by_id(snapshot_id) is None for snapshot_id in added):
                raise
            return CommitTableResponse.model_validate(
                {"metadata": newest.metadata, "metadata-location": newest.metadata_location}
            )

    catalog.commit_table = commit  # type: ignore[method-assign]
