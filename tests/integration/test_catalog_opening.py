"""An empty catalog opened by several at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import psycopg
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog, SqlCatalogBaseTable
from sqlalchemy.exc import OperationalError

from tests.support import store_fixtures
from winnow.errors import WinnowError
from winnow.log.catalog_access import ensure_namespace
from winnow.log.topics import SQL_CATALOG_TABLES, TopicLogs

OPENERS = 8

postgresql_server = store_fixtures.postgresql_server


def test_several_that_open_an_empty_catalog_at_once_all_succeed(tmp_path: Path) -> None:
    """Tables and namespaces are created once; nobody fails for being second."""
    for number in range(5):
        together = Barrier(OPENERS)

        def open_catalog(folder: Path, together: Barrier = together) -> list[str]:
            logs = TopicLogs({"type": "sql", "uri": f"sqlite:///{folder}/catalog.db"}, f"file://{folder}/warehouse")
            together.wait()
            return logs.names()

        with ThreadPoolExecutor(OPENERS) as pool:
            assert list(pool.map(open_catalog, [tmp_path / f"home-{number}"] * OPENERS)) == [[]] * OPENERS


def test_a_namespace_that_another_made_a_moment_ago_is_taken_as_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyIceberg asks first and creates then; the answer may be out of date by then."""
    catalog = TopicLogs({"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"}, f"file://{tmp_path}/w").catalog
    catalog.create_namespace("made")
    ask = catalog.namespace_exists
    answers = [False]
    monkeypatch.setattr(catalog, "namespace_exists", lambda name: answers.pop() if answers else ask(name))
    ensure_namespace(catalog, "made")
    assert answers == []
    assert catalog.namespace_exists("made")


def test_an_empty_catalog_opens_beside_others_that_create_each_of_its_tables_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process is faster at the first table, and then at the second."""
    tables = list(SqlCatalogBaseTable.metadata.sorted_tables)
    overtaken = []

    def create_tables(catalog: SqlCatalog) -> None:
        if tables:
            overtaken.append(tables.pop())
            with catalog.engine.begin() as connection:
                overtaken[-1].create(connection)
            raise OperationalError("CREATE TABLE", (), Exception("table already exists"))
        SqlCatalogBaseTable.metadata.create_all(catalog.engine)

    monkeypatch.setattr(SqlCatalog, "create_tables", create_tables)
    logs = TopicLogs({"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"}, f"file://{tmp_path}/w")
    assert logs.names() == []
    assert len(overtaken) == SQL_CATALOG_TABLES


@pytest.mark.parametrize(
    ("properties", "times"),
    [
        ({"type": "rest", "uri": "http://127.0.0.1:1"}, 1),
        ({"uri": "http://127.0.0.1:1"}, 1),
        ({"type": "sql", "uri": "postgresql+psycopg://winnow@127.0.0.1:1/winnow?connect_timeout=1"}, 3),
    ],
)
def test_only_an_sql_catalog_that_cannot_be_opened_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, properties: dict[str, str], times: int
) -> None:
    """Each try waits for as long as the catalog does not answer; only SQL's may be overtaken by another process."""
    tried: list[TopicLogs] = []
    genuine = TopicLogs._load

    def load(logs: TopicLogs) -> Catalog:
        tried.append(logs)
        return genuine(logs)

    monkeypatch.setattr(TopicLogs, "_load", load)
    with pytest.raises(WinnowError):
        TopicLogs(properties, f"file://{tmp_path}/w").names()
    assert len(tried) == times


def test_a_catalog_on_postgresql_has_the_one_driver_that_is_installed(tmp_path: Path, postgresql_server: str) -> None:
    """Also without its name in the URL: what SQLAlchemy takes then depends on its version."""
    uri = f"{postgresql_server}&options=-csearch_path%3Dcatalog_of_one_driver"
    with psycopg.connect(postgresql_server, autocommit=True) as admin:
        admin.execute("CREATE SCHEMA catalog_of_one_driver")
    assert uri.startswith("postgresql://")
    logs = TopicLogs({"type": "sql", "uri": uri}, f"file://{tmp_path}/w")
    assert logs.names() == []
    assert isinstance(logs.catalog, SqlCatalog)
    assert logs.catalog.engine.url.drivername == "postgresql+psycopg"
    logs.catalog.engine.dispose()
