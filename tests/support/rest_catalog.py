"""Iceberg REST catalog over real HTTP, with the parts of the specification that Winnow uses.

PyIceberg's RestCatalog talks to it over a socket. It checks the requirements of a commit and applies its updates with
PyIceberg's own code, both under a lock, and remembers what each commit asked for.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.serializers import FromInputFile, ToOutputFile
from pyiceberg.table import CommitTableRequest
from pyiceberg.table.metadata import TableMetadata, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import update_table_metadata

Answer = tuple[int, dict[str, Any] | None]


class RestCatalogServer:
    """The tables of one catalog.

    ``commits``: the body of every commit that was asked for, in their order. ``repeats``: commits arrive twice, and the
    second answer is the one that is given. ``chooses``: the folder in which the catalog places tables by itself, by
    their names, as a catalog does that knows no create transaction. ``ignores_case``: a table is found by its name in
    any case.
    """

    def __init__(self) -> None:
        self.commits: list[dict[str, Any]] = []
        self.repeats = False
        self.chooses: str | None = None
        self.ignores_case = False
        self._lock = threading.Lock()
        self._namespaces: set[str] = set()
        self.tables: dict[tuple[str, str], tuple[TableMetadata, str]] = {}
        self._views: dict[tuple[str, str], dict[str, Any]] = {}

    def forget_tables(self) -> None:
        """Lose all tables; their files stay."""
        self.tables.clear()

    def answer(self, method: str, path: str, body: dict[str, Any]) -> Answer:
        """The status and the document for one request."""
        place = path.strip("/").split("/")
        place[4:] = map(self._fold, place[4:])
        match method, place:
            case "GET", ["v1", "config"]:
                return 200, {"defaults": {"view-endpoints-supported": "true"}, "overrides": {}}
            case "POST", ["v1", "namespaces"]:
                name = ".".join(body["namespace"])
                if name in self._namespaces:
                    return _error(409, "AlreadyExistsException")
                self._namespaces.add(name)
                return 200, {"namespace": body["namespace"], "properties": {}}
            case "GET" | "HEAD", ["v1", "namespaces", name]:
                return (200, {"namespace": [name], "properties": {}}) if name in self._namespaces else _missing()
            case "GET", ["v1", "namespaces", name, "tables"]:
                found = [{"namespace": [name], "name": table} for space, table in self.tables if space == name]
                return 200, {"identifiers": found}
            case "POST", ["v1", "namespaces", name, "tables"]:
                return self._create(name, body)
            case "GET" | "HEAD", ["v1", "namespaces", name, "tables", table]:
                return (200, self._loaded(name, table)) if (name, table) in self.tables else _missing()
            case "POST", ["v1", "namespaces", name, "tables", table]:
                if self.repeats:
                    self._commit(name, table, body)
                return self._commit(name, table, body)
        return self._answer_others(method, place, body)

    def _fold(self, name: str) -> str:
        return name.lower() if self.ignores_case else name

    def _answer_others(self, method: str, place: list[str], body: dict[str, Any]) -> Answer:
        match method, place:
            case "DELETE", ["v1", "namespaces", name, "tables", table]:
                return (204, None) if self.tables.pop((name, table), None) is not None else _missing()
            case "POST", ["v1", "namespaces", name, "register"]:
                return self._register(name, body)
            case "POST", ["v1", "namespaces", name, "views"]:
                return self._create_view(name, body)
            case _, ["v1", "namespaces", name, "views", view]:
                return self._answer_view(method, name, view)
        return _error(404, "NoSuchEndpoint")

    def _create_view(self, name: str, body: dict[str, Any]) -> Answer:
        if (name, body["name"]) in self._views:
            return _error(409, "AlreadyExistsException")
        version = body["view-version"]
        location = f"memory://views/{name}/{body['name']}"
        metadata = {
            "view-uuid": str(uuid.uuid4()),
            "format-version": 1,
            "location": location,
            "schemas": [body["schema"]],
            "current-version-id": version["version-id"],
            "versions": [version],
            "version-log": [{"timestamp-ms": version["timestamp-ms"], "version-id": version["version-id"]}],
            "properties": body.get("properties") or {},
        }
        self._views[name, body["name"]] = {
            "metadata-location": f"{location}/{uuid.uuid4()}.metadata.json",
            "metadata": metadata,
            "config": {},
        }
        return 200, self._views[name, body["name"]]

    def _answer_view(self, method: str, name: str, view: str) -> Answer:
        if (name, view) not in self._views:
            return _error(404, "NoSuchViewException")
        if method == "DELETE":
            del self._views[name, view]
            return 204, None
        return 200, self._views[name, view]

    def _create(self, name: str, body: dict[str, Any]) -> Answer:
        request = CreateTableRequest.model_validate(body)
        if (name, request.name) in self.tables:
            return _error(409, "AlreadyExistsException")
        assert request.location is not None
        assert request.partition_spec is not None
        metadata = new_table_metadata(
            location=request.location if self.chooses is None else f"{self.chooses}/{name}/{request.name}",
            schema=request.table_schema,
            partition_spec=request.partition_spec,
            sort_order=request.write_order or UNSORTED_SORT_ORDER,
            properties=request.properties,
        )
        self.tables[name, request.name] = (metadata, _write(metadata))
        return 200, self._loaded(name, request.name)

    def _register(self, name: str, body: dict[str, Any]) -> Answer:
        if (name, body["name"]) in self.tables:
            return _error(409, "AlreadyExistsException")
        location = body["metadata-location"]
        metadata = FromInputFile.table_metadata(PyArrowFileIO().new_input(location))
        self.tables[name, body["name"]] = (metadata, location)
        return 200, self._loaded(name, body["name"])

    def _commit(self, name: str, table: str, body: dict[str, Any]) -> Answer:
        request = CommitTableRequest.model_validate(body)
        with self._lock:
            if any(each.type == "assert-create" for each in request.requirements):
                return self._create_by_commit(name, table, request)
            self.commits.append(body)
            metadata, location = self.tables[name, table]
            try:
                for requirement in request.requirements:
                    requirement.validate(metadata)
            except CommitFailedException as problem:
                return _error(409, "CommitFailedException", str(problem))
            updated = update_table_metadata(
                metadata, request.updates, enforce_validation=True, metadata_location=location
            )
            self.tables[name, table] = (updated, _write(updated))
        return 200, self._loaded(name, table)

    def _create_by_commit(self, name: str, table: str, request: CommitTableRequest) -> Answer:
        """The end of a create transaction, or the refusal of a server that does not know it."""
        if (name, table) in self.tables:
            return _error(409, "CommitFailedException", "Table already exists")
        if self.chooses is not None:
            return _error(404, "NoSuchTableException")
        created = update_table_metadata(
            MetastoreCatalog._empty_table_metadata(), request.updates, enforce_validation=True
        )
        self.tables[name, table] = (created, _write(created))
        return 200, self._loaded(name, table)

    def _loaded(self, name: str, table: str) -> dict[str, Any]:
        metadata, location = self.tables[name, table]
        return {
            "metadata-location": location,
            "metadata": json.loads(metadata.model_dump_json()),
            "config": {},
        }


def _write(metadata: TableMetadata) -> str:
    folder = Path(f"{metadata.location.removeprefix('file://')}/metadata")
    folder.mkdir(parents=True, exist_ok=True)
    number = len(list(folder.glob("*.metadata.json")))
    location = f"{metadata.location}/metadata/{number:05d}-{uuid.uuid4()}.metadata.json"
    ToOutputFile.table_metadata(metadata, PyArrowFileIO().new_output(location))
    return location


def _missing() -> Answer:
    return _error(404, "NoSuchTableException")


def _error(status: int, kind: str, message: str = "") -> Answer:
    return status, {"error": {"message": message or kind, "type": kind, "code": status}}


@contextmanager
def serve_rest_catalog() -> Iterator[tuple[RestCatalogServer, str]]:
    """A catalog, and its address, until the block ends."""
    catalog = RestCatalogServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else {}
            status, document = catalog.answer(self.command, self.path.partition("?")[0], body)
            data = b"" if document is None or self.command == "HEAD" else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_HEAD = do_DELETE = _serve  # noqa: N815 - the names that http.server looks for

        def log_message(self, *_: object) -> None:
            """Nothing: tests say what went wrong."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield catalog, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
