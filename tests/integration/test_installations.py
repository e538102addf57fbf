"""A warehouse's namespace belongs to one installation; another one's commands write nothing there."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.support.cli_runner import find_location, make_topic, record, winnow, write_lines
from tests.support.rest_catalog import serve_rest_catalog
from tests.support.store_fixtures import postgresql_server
from winnow.config.settings import load_settings
from winnow.errors import OtherInstallationError
from winnow.files import storage
from winnow.log.installation import create_installation, read_installation, replace_installation
from winnow.pipeline.doctor.check_runner import CheckStatus
from winnow.pipeline.doctor.installation import check_installation
from winnow.pipeline.installation import open_installation
from winnow.pipeline.installation_guard import MAXIMUM_AGE_MS
from winnow.pipeline.installation_takeover import begin_installation_anew, take_warehouse_from_others
from winnow.store.audit import AuditAction
from winnow.store.rows import Window
from winnow.values.model import InstallationIdentity

__all__ = ["postgresql_server"]

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Be the installation of that name from now on: a home of its own, and the warehouse that all share."""

    def choose(name: str, **variables: str) -> None:
        for each in [each for each in os.environ if each.startswith("WINNOW_")]:
            monkeypatch.delenv(each)
        monkeypatch.setenv("WINNOW_HOME", str(tmp_path / name))
        monkeypatch.setenv("WINNOW_WAREHOUSE", str(tmp_path / "warehouse"))
        for each, value in variables.items():
            monkeypatch.setenv(f"WINNOW_{each}", value)

    choose("first")
    return choose


def list_warehouse(tmp_path: Path) -> dict[str, bytes]:
    """Every file of the shared warehouse."""
    folder = tmp_path / "warehouse"
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def find_id(tmp_path: Path, namespace: str = "winnow") -> str:
    """The id at the warehouse's root."""
    document = json.loads((tmp_path / "warehouse" / f"{namespace}_installation.json").read_text())
    assert document["format_version"] == 1
    return str(document["installation_id"])


def find_store_id() -> str | None:
    """The id in the metadata store."""
    with open_installation(any_installation=True) as installation:
        found = installation.store.installation.find()
    return None if found is None else found.installation_id


def test_the_first_command_that_writes_notes_the_installation(tmp_path: Path, install: Install) -> None:
    """In store and warehouse; commands that write nothing there note nothing."""
    winnow("assess")
    assert list_warehouse(tmp_path) == {}
    make_topic("orders", tmp_path / "orders.jsonl")
    noted = find_id(tmp_path)
    assert noted == find_store_id()
    winnow("sweep")
    assert find_id(tmp_path) == noted


@pytest.mark.parametrize(
    "command",
    [
        ("topics", "create", "orders", "--partitions", "1"),
        ("ingest", "files", "orders", "in.jsonl", "--create"),
        ("sweep",),
        ("compact",),
        ("topics", "delete", "orders", "--now", "--yes"),
        ("topics", "alter", "orders", "--config", "segment.ms=1"),
    ],
)
def test_a_second_installation_with_the_same_warehouse_is_refused(
    tmp_path: Path, install: Install, command: tuple[str, ...]
) -> None:
    """It has an own catalog and an own store; the first one's files are as they were."""
    make_topic("orders", tmp_path / "orders.jsonl")
    before, noted = list_warehouse(tmp_path), find_id(tmp_path)
    install("second")
    refused = winnow(*command, code=2)
    for said in (noted, "winnow_installation.json", "--take-over", "WINNOW_NAMESPACE", "WINNOW_WAREHOUSE_SHARED=true"):
        assert said in refused.stderr
    assert list_warehouse(tmp_path) == before


def test_each_of_two_installations_works_in_its_namespace(tmp_path: Path, install: Install) -> None:
    """In one warehouse and one catalog, with topics of the same name; what one deletes is not the other's."""
    catalog = {"CATALOG__TYPE": "sql", "CATALOG__URI": f"sqlite:///{tmp_path}/catalog.db"}
    config = ["winnow.latest.table=true", "winnow.keyless=quarantine"]
    for name in ("first", "second"):
        install(name, NAMESPACE=name, **catalog)
        make_topic("orders", tmp_path / f"{name}.jsonl", config=config)
        write_lines(tmp_path / "keyless.jsonl", [record(None, name, partition=0, offset=100)])
        winnow("ingest", "files", "orders", tmp_path / "keyless.jsonl")
        assert f"{name}_latest.orders" in winnow("latest", "orders", "--update-table").stdout
        assert f"load_table(('{name}', 'orders'))" in winnow("connect", "orders", "--for", "pyiceberg").stdout
        assert f"`{name}`.`orders`" in winnow("latest", "orders", "--sql", "spark").stdout
        assert find_location("orders").startswith(f"file://{tmp_path}/warehouse/{name}/orders-")
    assert find_id(tmp_path, "first") != find_id(tmp_path, "second")
    assert {path.name.partition("_")[0] for path in (tmp_path / "warehouse").iterdir()} == {"first", "second"}
    before = {path: data for path, data in list_warehouse(tmp_path).items() if path.startswith("first")}
    winnow("topics", "delete", "orders", "--now", "--yes")
    assert {path: data for path, data in list_warehouse(tmp_path).items() if path.startswith("first")} == before
    install("first", NAMESPACE="first", **catalog)
    assert len(winnow("read", "orders", "--quarantined").stdout.splitlines()) == 1
    assert "first_latest.orders" in winnow("latest", "orders", "--update-table").stdout


def test_both_may_write_where_the_warehouse_is_shared_knowingly(tmp_path: Path, install: Install) -> None:
    make_topic("orders", tmp_path / "orders.jsonl")
    before = list_warehouse(tmp_path)
    install("second", WAREHOUSE_SHARED="true")
    make_topic("orders", tmp_path / "again.jsonl")
    winnow("topics", "delete", "orders", "--now", "--yes")
    after = list_warehouse(tmp_path)
    assert {path: data for path, data in after.items() if path in before} == before


def test_a_store_that_was_lost_takes_the_id_over_from_the_warehouse(tmp_path: Path, install: Install) -> None:
    """Its catalog has topics there, so it is the same installation; it is said once, and audited."""
    make_topic("orders", tmp_path / "orders.jsonl")
    (tmp_path / "first" / "store.db").unlink()
    noted = find_id(tmp_path)
    said = winnow("store", "rebuild").stderr
    assert "took over the id" in said
    assert find_store_id() == noted
    assert "took over" not in winnow("assess").stderr
    with open_installation() as installation:
        (entry,) = installation.store.audit.list_entries(Window(), action=AuditAction.TAKE_OVER.value).rows
    assert "winnow_installation.json" in entry.detail


def test_a_store_and_a_catalog_that_were_lost_are_refused_until_somebody_takes_over(
    tmp_path: Path, install: Install
) -> None:
    """Nothing says that it is the same installation."""
    make_topic("orders", tmp_path / "orders.jsonl")
    (tmp_path / "first" / "store.db").unlink()
    (tmp_path / "first" / "catalog.db").unlink()
    noted = find_id(tmp_path)
    assert "no topic in that warehouse" in winnow("topics", "create", "orders", "--partitions", "1", code=2).stderr
    with open_installation(any_installation=True) as installation:
        take_warehouse_from_others(installation)
    winnow("topics", "create", "orders", "--partitions", "1")
    assert noted != find_id(tmp_path) == find_store_id()


def test_a_topic_of_an_older_release_gets_an_installation_with_the_next_command(
    tmp_path: Path, install: Install
) -> None:
    """Neither its store nor its warehouse has an id."""
    make_topic("orders", tmp_path / "orders.jsonl")
    (tmp_path / "warehouse" / "winnow_installation.json").unlink()
    (tmp_path / "first" / "store.db").unlink()
    winnow("assess")
    assert find_id(tmp_path) == find_store_id()


def test_reading_in_another_installations_warehouse_is_said_and_not_refused(tmp_path: Path, install: Install) -> None:
    make_topic("orders", tmp_path / "orders.jsonl")
    read = winnow("read", "orders")
    assert read.stderr == ""
    with open_installation() as installation:
        installation.store.installation.replace(InstallationIdentity("another", 1))
    again = winnow("read", "orders")
    assert again.stdout == read.stdout
    assert "belongs to another installation" in again.stderr
    winnow("sweep", code=2)


def test_doctor_shows_the_id_and_says_when_it_differs(tmp_path: Path, install: Install) -> None:
    make_topic("orders", tmp_path / "orders.jsonl")
    noted = find_id(tmp_path)

    (found,) = check_installation(load_settings())
    assert (found.status, noted in found.detail) == (CheckStatus.OK, True)
    with open_installation() as installation:
        installation.store.installation.replace(InstallationIdentity("another", 1))
    (found,) = check_installation(load_settings())
    assert (found.status, found.exit_code, "another" in found.detail) == (CheckStatus.FAILURE, 2, True)
    install("second")
    (found,) = check_installation(load_settings())
    assert (found.status, "no id yet" in found.detail) == (CheckStatus.OK, True)
    assert not (tmp_path / "second" / "store.db").exists()


def test_a_long_running_process_looks_again_before_it_writes(tmp_path: Path, install: Install) -> None:
    """Another one has taken the warehouse meanwhile, as where a disk let both create the document."""
    make_topic("orders", tmp_path / "orders.jsonl")
    now_ms = [1_000_000]
    with open_installation(now_ms=lambda: now_ms[0]) as installation:
        installation.guard.require_own()
        document = installation.guard.document
        replace_installation(document, InstallationIdentity("another", 1))
        installation.guard.require_own()
        now_ms[0] += MAXIMUM_AGE_MS
        with pytest.raises(OtherInstallationError, match="belongs to another installation"):
            installation.guard.require_own()


def test_of_two_that_create_the_document_at_once_one_wins(tmp_path: Path) -> None:
    document = f"file://{tmp_path}/warehouse/winnow_installation.json"
    wanted = [InstallationIdentity(f"id-{number}", number) for number in range(8)]
    together, found = threading.Barrier(len(wanted)), []

    def create(installation: InstallationIdentity) -> None:
        together.wait()
        found.append(create_installation(document, installation))

    threads = [threading.Thread(target=create, args=(each,)) for each in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) == {read_installation(document)}
    assert not storage.create_bytes(document, b"")
    assert set(found) == {read_installation(document)}
    assert [path.name for path in (tmp_path / "warehouse").iterdir()] == ["winnow_installation.json"]


def copy_over(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
    """What a link becomes on a disk that loses its exclusiveness: the target is replaced."""
    with os.fdopen(os.open(source, os.O_RDONLY, dir_fd=src_dir_fd), "rb") as stream:
        data = stream.read()
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, dir_fd=dst_dir_fd), "wb") as stream:
        stream.write(data)


def test_where_a_disk_lets_both_create_it_only_one_goes_on(
    tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its link replaces what is there: the first one to have written it finds the other's id, and is refused."""
    monkeypatch.setattr(os, "link", copy_over)
    genuine = storage.create_bytes
    entered: list[str] = []

    def create(uri: str, data: bytes) -> bool:
        if not entered:
            entered.append(uri)
            install("second")
            winnow("topics", "create", "orders", "--partitions", "1")
            install("first")
        return genuine(uri, data)

    monkeypatch.setattr(storage, "create_bytes", create)
    winnow("topics", "create", "orders", "--partitions", "1")
    assert find_id(tmp_path) == find_store_id()
    install("second")
    refused = winnow("ingest", "files", "orders", tmp_path / "none.jsonl", code=2)
    assert "belongs to another installation" in refused.stderr


def test_a_restored_copy_is_an_installation_of_its_own(tmp_path: Path, install: Install) -> None:
    make_topic("orders", tmp_path / "orders.jsonl")
    noted = find_id(tmp_path)
    with open_installation(any_installation=True) as installation:
        begin_installation_anew(installation)
    assert noted != find_id(tmp_path) == find_store_id()
    winnow("sweep")


@pytest.mark.parametrize("content", [b"", b"[]", b'{"format_version": 1}'])
def test_a_damaged_document_is_said(tmp_path: Path, install: Install, content: bytes) -> None:
    make_topic("orders", tmp_path / "orders.jsonl")
    (tmp_path / "warehouse" / "winnow_installation.json").write_bytes(content)
    assert "Restore it from a backup" in winnow("sweep", code=2).stderr
    assert winnow("read", "orders").stdout


def test_a_newer_document_is_refused(tmp_path: Path, install: Install) -> None:
    make_topic("orders", tmp_path / "orders.jsonl")
    document = tmp_path / "warehouse" / "winnow_installation.json"
    document.write_text(document.read_text().replace('"format_version": 1', '"format_version": 2'))
    assert "newer Winnow" in winnow("sweep", code=2).stderr


def test_the_rule_holds_beside_a_rest_catalog(tmp_path: Path, install: Install) -> None:
    """Whether the catalog has topics in the warehouse is asked table by table."""
    with serve_rest_catalog() as (_, address):
        catalog = {"CATALOG__TYPE": "rest", "CATALOG__URI": address}
        install("first", **catalog)
        make_topic("orders", tmp_path / "orders.jsonl")
        install("other-store", **catalog)
        assert "took over the id" in winnow("assess").stderr
        install("second")
        winnow("assess", code=2)


@pytest.mark.parametrize("name", ["a-b", "a.b", "x" * 65, "a_latest", "a_Quarantine", "b_copies"])
def test_a_namespace_that_could_be_taken_for_another_name_is_refused(install: Install, name: str) -> None:
    install("first", NAMESPACE=name)
    assert "namespace" in winnow("settings", code=2).stderr
    install("first", NAMESPACE="a_latest_1")
    assert load_settings().namespace == "a_latest_1"


def test_an_installation_that_is_closed_leaves_no_connection_to_its_catalog(
    install: Install, postgresql_server: str
) -> None:
    url = postgresql_server.replace("postgresql://", "postgresql+psycopg://")
    install("first", CATALOG__TYPE="sql", CATALOG__URI=url)
    clients = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
    with psycopg.connect(postgresql_server, autocommit=True) as server:
        with open_installation() as installation:
            assert installation.log.names() == []
            assert server.execute(clients).fetchone() != (1,)
        deadline = time.monotonic() + 30
        while server.execute(clients).fetchone() != (1,):  # a server takes a moment to notice
            assert time.monotonic() < deadline
            time.sleep(0.02)
