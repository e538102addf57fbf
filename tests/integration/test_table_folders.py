"""Each life of a topic has a folder of its own: what is deleted of one is never another's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli_runner import find_location, make_topic, record, winnow, write_lines
from tests.support.rest_catalog import RestCatalogServer, serve_rest_catalog
from winnow.config.settings import load_settings
from winnow.files import storage
from winnow.log.table import LOG_SCHEMA, LOG_SORT_ORDER, LOG_SPEC, make_log_properties
from winnow.log.topics import TopicLogs

UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def list_contents(*folders: str) -> dict[str, bytes]:
    """Every file below ``folders``, with its bytes."""
    return {entry.uri: storage.read_bytes(entry.uri) for folder in folders for entry in storage.list_files(folder)}


def open_logs() -> TopicLogs:
    """The topics of the installation at hand, past the command line."""
    settings = load_settings()
    return TopicLogs(settings.catalog, settings.warehouse, settings.topic_defaults)


def fill(tmp_path: Path, topic: str) -> None:
    """Create a topic with records in its log, its quarantine and its table of latest states."""
    make_topic(topic, tmp_path / f"{topic}-1.jsonl", config=["winnow.keyless=quarantine", "winnow.latest.table=true"])
    write_lines(tmp_path / f"{topic}-2.jsonl", [record(None, "keyless", partition=0, offset=100)])
    winnow("ingest", "files", topic, tmp_path / f"{topic}-2.jsonl")
    winnow("latest", topic, "--update-table")


def find_folders(topic: str) -> tuple[str, str, str]:
    """The folders of a topic's log, quarantine and table of latest states."""
    logs = open_logs()
    return find_location(topic), logs.quarantine(topic).location, logs.latest_table(topic).location


@pytest.fixture
def rest(monkeypatch: pytest.MonkeyPatch) -> Iterator[RestCatalogServer]:
    """An empty REST catalog, and the settings for it."""
    with serve_rest_catalog() as (server, address):
        monkeypatch.setenv("WINNOW_CATALOG__TYPE", "rest")
        monkeypatch.setenv("WINNOW_CATALOG__URI", address)
        yield server


def test_every_folder_of_a_topic_ends_in_the_uuid_of_its_table(tmp_path: Path, winnow_home: Path) -> None:
    fill(tmp_path, "orders")
    warehouse = load_settings().warehouse
    log, *side = find_folders("orders")
    assert re.fullmatch(rf"{warehouse}/winnow/orders-{UUID}", log)
    name = storage.get_name(log)
    assert name == f"orders-{open_logs().open('orders').head().table_uuid}"
    assert side == [f"{warehouse}/winnow_quarantine/{name}", f"{warehouse}/winnow_latest/{name}"]
    assert all(list_contents(folder) for folder in (log, *side))


def test_a_topic_of_a_new_catalog_deletes_nothing_of_the_one_before(tmp_path: Path, winnow_home: Path) -> None:
    """The catalog is lost and created anew; the same name is created again, filled and deleted for good."""
    fill(tmp_path, "orders")
    before = list_contents(*find_folders("orders"))
    (winnow_home / "catalog.db").unlink()
    fill(tmp_path, "orders")
    winnow("topics", "delete", "orders", "--now", "--yes")
    assert list_contents(*{uri.rpartition("/")[0] for uri in before}) == before


def test_a_topic_with_the_longest_name_is_created_and_deleted(tmp_path: Path, winnow_home: Path) -> None:
    """The uuid does not make the folder's name longer than disks take."""
    topic = "o" * 249
    winnow("topics", "create", topic, "--partitions", "1")
    winnow("ingest", "files", topic, write_lines(tmp_path / "one.jsonl", [record("a", "1", partition=0, offset=0)]))
    winnow("topics", "delete", topic, "--yes")
    assert open_logs().list_deleted() == [topic]
    winnow("topics", "delete", topic, "--now", "--yes")


def test_names_that_differ_in_case_share_nothing(tmp_path: Path, winnow_home: Path) -> None:
    """Not even where a disk ignores case: no two of their paths are equal then."""
    fill(tmp_path, "orders")
    fill(tmp_path, "Orders")
    lower, upper = find_folders("orders"), find_folders("Orders")
    assert not {folder.lower() for folder in lower} & {folder.lower() for folder in upper}
    before = list_contents(*lower)
    winnow("topics", "delete", "orders", "--yes")
    winnow("topics", "delete", "Orders", "--yes")
    notes = [path.name.lower() for path in (winnow_home / "warehouse" / "winnow_deleted").iterdir()]
    assert len(set(notes)) == 2
    winnow("topics", "restore", "orders")
    winnow("topics", "delete", "Orders", "--now", "--yes")
    assert open_logs().names() == ["orders"]
    after = list_contents(*lower)
    assert {uri: data for uri, data in after.items() if uri in before} == before


def test_a_catalog_that_ignores_case_does_not_pass_one_topic_off_as_another(
    tmp_path: Path, winnow_home: Path, rest: RestCatalogServer
) -> None:
    """Its answer to another name is the table of the first; that name has no topic, and gets none."""
    rest.ignores_case = True
    make_topic("orders", tmp_path / "orders.jsonl")
    before = winnow("read", "orders").stdout
    refused = winnow("ingest", "files", "Orders", tmp_path / "orders.jsonl", code=3)
    assert "ignores case in names and answered with topic orders" in refused.stderr
    winnow("topics", "create", "Orders", "--partitions", "1", code=2)
    winnow("topics", "delete", "Orders", "--now", "--yes", code=2)
    assert winnow("read", "orders").stdout == before


def test_a_table_of_an_older_release_goes_on_where_it_is(tmp_path: Path, winnow_home: Path) -> None:
    """Its folder is its name, and so are those of its side tables."""
    logs = open_logs()
    warehouse = load_settings().warehouse
    logs.catalog.create_table(
        ("winnow", "orders"),
        schema=LOG_SCHEMA,
        partition_spec=LOG_SPEC,
        sort_order=LOG_SORT_ORDER,
        location=f"{warehouse}/winnow/orders",
        properties=make_log_properties(1, {"winnow.keyless": "quarantine", "winnow.latest.table": "true"}),
    )
    lines = [record("a", "1", partition=0, offset=0), record(None, "keyless", partition=0, offset=1)]
    winnow("ingest", "files", "orders", write_lines(tmp_path / "orders.jsonl", lines))
    winnow("latest", "orders", "--update-table")
    folders = find_folders("orders")
    assert folders == tuple(f"{warehouse}/{part}/orders" for part in ("winnow", "winnow_quarantine", "winnow_latest"))
    assert all(list_contents(folder) for folder in folders)
    assert len(winnow("read", "orders", "--quarantined").stdout.splitlines()) == 1
    winnow("topics", "delete", "orders", "--now", "--yes")
    assert not any(list_contents(folder) for folder in folders)


def test_a_rest_catalog_takes_the_uuid_and_the_folder(
    tmp_path: Path, winnow_home: Path, rest: RestCatalogServer
) -> None:
    fill(tmp_path, "orders")
    log, *_ = find_folders("orders")
    assert storage.get_name(log) == f"orders-{open_logs().open('orders').head().table_uuid}"
    assert "exists already" in winnow("topics", "create", "orders", "--partitions", "1", code=2).stderr


def test_a_folder_that_the_catalog_chose_is_taken_if_it_is_empty(
    tmp_path: Path, winnow_home: Path, rest: RestCatalogServer
) -> None:
    """Its side tables are still named after the table's uuid."""
    rest.chooses = f"file://{tmp_path}/chosen"
    fill(tmp_path, "orders")
    log, quarantine, latest = find_folders("orders")
    table_uuid = open_logs().open("orders").head().table_uuid
    assert log == f"{rest.chooses}/winnow/orders"
    assert len(winnow("read", "orders", "--quarantined").stdout.splitlines()) == 1
    assert {storage.get_name(each) for each in (quarantine, latest)} == {f"orders-{table_uuid}"}


@pytest.mark.parametrize("again", ["orders", "Orders"])
def test_a_folder_that_the_catalog_chose_is_refused_if_it_holds_anything(
    tmp_path: Path, winnow_home: Path, rest: RestCatalogServer, again: str
) -> None:
    """A new catalog places the topic, or on a disk that ignores case its sibling, where the lost one did."""
    rest.chooses = f"file://{tmp_path}/chosen"
    make_topic("orders", tmp_path / "orders.jsonl")
    location = find_location("orders")
    before = list_contents(location)
    rest.forget_tables()
    if again != "orders":
        (tmp_path / "chosen/winnow" / again).symlink_to(tmp_path / "chosen/winnow/orders")
    refused = winnow("topics", "create", again, "--partitions", "1", code=2)
    assert "of another table are there already; its newest metadata" in refused.stderr
    assert "are of topic orders" in refused.stderr
    assert f"winnow topics adopt {again} {rest.chooses}/winnow/{again}" in refused.stderr
    assert winnow("topics", "list", "--json").document == []
    after = list_contents(location)
    assert {uri: data for uri, data in after.items() if uri in before} == before
