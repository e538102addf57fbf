"""Opens files below the warehouse with the credentials that an Iceberg REST catalog vends for their table.

Each process asks the catalog by itself, with what its own environment says (:mod:`winnow.files.vended_places`): plans,
arguments, Spark's configuration and logs carry no credential. They stay in memory, one per table, and are asked for
again before they expire, or once the store refuses them.

A place tells its table, by Winnow's own layout: ``<warehouse>/<namespace>/<table>-<uuid>/...``. What the catalog
answers is used only if the table lies exactly there. Whatever is outside of the warehouse is opened with the process's
own access (:mod:`winnow.files.object_store`).
"""

from __future__ import annotations

import errno
import json
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

from pyarrow import fs

from winnow.clock import Clock, read_wall_clock_ms
from winnow.errors import ConfigurationError, ServiceError
from winnow.files import object_store, vended_places

MAXIMUM_MARGIN_MS: Final = 300_000
"""A credential is asked for again this long before it expires, or when half of its life is over if that is later."""
UNKNOWN_LIFETIME_MS: Final = 600_000
"""The assumed life of a credential whose catalog does not say when it expires."""
TIMEOUT_SECONDS: Final = 30

_UUID: Final = re.compile(r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_KEY, _SECRET, _TOKEN = "s3.access-key-id", "s3.secret-access-key", "s3.session-token"
_EXPIRY: Final = "s3.session-token-expires-at-ms"
_UNAUTHORIZED: Final = (401, 419)
_NOT_FOUND: Final = 404

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class TableName:
    """A table in the catalog, by its namespace and its name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}.{self.name}"


@dataclass(frozen=True, slots=True)
class Credential:
    """What a catalog vended for one table. ``properties`` has secrets, and is in no message."""

    properties: Mapping[str, str]
    obtained_at_ms: int
    expires_at_ms: int

    def __repr__(self) -> str:
        return f"Credential(expires_at_ms={self.expires_at_ms})"

    def is_due(self, now_ms: int) -> bool:
        """Check whether it should be asked for again."""
        margin_ms = min(MAXIMUM_MARGIN_MS, (self.expires_at_ms - self.obtained_at_ms) // 2)
        return now_ms >= self.expires_at_ms - margin_ms

    def has_expired(self, now_ms: int) -> bool:
        """Check whether the store takes it no longer."""
        return now_ms >= self.expires_at_ms


class _FollowNothing(urllib.request.HTTPRedirectHandler):
    """Follows no redirection, which would take the login to another host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


_OPENER: Final = urllib.request.build_opener(_FollowNothing)


class RestCatalogClient:
    """Asks an Iceberg REST catalog for tables with their credentials; needs nothing but the standard library.

    ``properties``: those of :data:`winnow.files.vended_places.PROPERTIES`.
    """

    def __init__(self, properties: Mapping[str, str], warehouse: str) -> None:
        self._properties = properties
        self._warehouse = warehouse
        self._address: str | None = None
        self._token: str | None = properties.get("token")

    @property
    def uri(self) -> str:
        """The catalog's address, for messages."""
        return self._properties["uri"]

    def load_table(self, table: TableName) -> dict[str, Any] | None:
        """Load ``table``, and have the catalog vend credentials for it; None: there is no such table.

        Raises:
            ServiceError: the catalog does not answer, or refuses.
        """
        if self._address is None:
            self._address = self._find_address()
        place = f"namespaces/{quote(table.namespace, safe='')}/tables/{quote(table.name, safe='')}"
        return self._get(f"{self._address}/{place}?snapshots=refs")

    def _find_address(self) -> str:
        """Ask the catalog where its tables are: it may have another address and a prefix for this warehouse."""
        root = f"{self.uri.rstrip('/')}/v1"
        told = self._get(f"{root}/config?{urlencode({'warehouse': self._warehouse})}")
        if told is None:
            raise ConfigurationError(
                f"The REST catalog {self.uri} has no warehouse {self._warehouse}, or is no REST catalog.",
                left="Nothing was done.",
                next="Check WINNOW_CATALOG__URI, and WINNOW_CATALOG__WAREHOUSE, the catalog's name for the warehouse.",
            )
        merged = {**(told.get("defaults") or {}), **self._properties, **(told.get("overrides") or {})}
        prefix = str(merged.get("prefix") or "").strip("/")
        address = f"{str(merged['uri']).rstrip('/')}/v1"
        return f"{address}/{prefix}" if prefix else address

    def _get(self, url: str) -> dict[str, Any] | None:
        for is_last in (False, True):
            if self._token is None and self._properties.get("credential"):
                self._token = self._log_in()
            headers = {"X-Iceberg-Access-Delegation": "vended-credentials", "Accept": "application/json"}
            if self._token is not None:
                headers["Authorization"] = f"Bearer {self._token}"
            try:
                return self._ask(urllib.request.Request(url, headers=headers))
            except urllib.error.HTTPError as problem:
                if problem.code == _NOT_FOUND:
                    return None
                if problem.code in _UNAUTHORIZED and not is_last and self._properties.get("credential"):
                    self._token = None  # it has expired
                    continue
                raise self._make_error(f"it answered with the status {problem.code}") from None
        raise AssertionError("unreachable")

    def _log_in(self) -> str:
        user, _, secret = self._properties["credential"].rpartition(":")
        form = {"grant_type": "client_credentials", "client_secret": secret, "scope": "catalog"}
        form |= {"client_id": user} if user else {}
        form |= {name: self._properties[name] for name in ("scope", "audience", "resource") if name in self._properties}
        url = self._properties.get("oauth2-server-uri") or f"{self.uri.rstrip('/')}/v1/oauth/tokens"
        try:
            answer = self._ask(urllib.request.Request(url, data=urlencode(form).encode(), method="POST"))
            return str(answer["access_token"])
        except urllib.error.HTTPError as problem:
            raise self._make_error(f"logging in was answered with the status {problem.code}") from None
        except KeyError:
            raise self._make_error("logging in gave no token") from None

    def _ask(self, request: urllib.request.Request) -> dict[str, Any]:
        try:
            with _OPENER.open(request, timeout=TIMEOUT_SECONDS) as answer:
                document = json.load(answer)
        except urllib.error.HTTPError:
            raise
        except (OSError, ValueError) as problem:
            raise self._make_error(type(problem).__name__) from None
        if not isinstance(document, dict):
            raise self._make_error("its answer is no JSON object")
        return document

    def _make_error(self, reason: str) -> ServiceError:
        return ServiceError(
            f"The REST catalog {self.uri} vended no credentials: {reason}.",
            left="Nothing was changed by that request.",
            next="Check that it runs, and WINNOW_CATALOG__TOKEN or WINNOW_CATALOG__CREDENTIAL, then run it again.",
        )


class VendedStores:
    """The S3 clients of the tables below one warehouse, each with the credentials vended for it."""

    def __init__(
        self,
        client: RestCatalogClient,
        warehouse: str,
        namespace: str,
        *,
        open_own: Callable[[str], fs.FileSystem],
        env: Mapping[str, str],
        now_ms: Clock = read_wall_clock_ms,
    ) -> None:
        self._client = client
        self._root = object_store.find_path_in_store(warehouse)
        self._scheme = warehouse.partition("://")[0]
        self._namespace = namespace
        self._open_own = open_own
        self._env = env
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._asking: dict[str, threading.Lock] = {}
        self._opened: dict[str, tuple[Credential, fs.FileSystem]] = {}

    def run(self, path: str, act: Callable[[fs.FileSystem], _Answer]) -> _Answer:
        """Return what ``act`` returns for the client of ``path``; it is tried twice if the store refuses the first.

        Raises:
            FileNotFoundError: the folder is a side table's, and there is no such table.
            ConfigurationError: no table can be there, or the catalog vends nothing for it.
            ServiceError: the catalog does not answer, or has no such table.
        """
        folder = self._find_folder(path)
        if folder is None:
            return act(self._open_own(path.partition("/")[0]))
        filesystem, is_new = self._open(folder)
        try:
            return act(filesystem)
        except OSError as problem:
            if is_new or not object_store.is_store_error(problem):
                raise
        self._forget(folder, filesystem)
        return act(self._open(folder)[0])

    def find_properties(self, path: str) -> Mapping[str, str]:
        """Return what was vended for the table whose folder ``path`` is in; nothing outside of the warehouse.

        Raises as :meth:`run`.
        """
        folder = self._find_folder(path)
        if folder is None:
            return {}
        self._open(folder)
        return self._opened[folder][0].properties

    def _find_folder(self, path: str) -> str | None:
        """Return the table's folder that ``path`` is in; None: it is not below the warehouse."""
        if path != self._root and not path.startswith(f"{self._root}/"):
            return None
        namespace, _, below = path[len(self._root) + 1 :].partition("/")
        folder = below.partition("/")[0]
        if not folder or not (namespace == self._namespace or namespace.startswith(f"{self._namespace}_")):
            shared = vended_places.find_shared_folder(self._namespace)
            raise ConfigurationError(
                f"{self._scheme}://{path} is in no table's folder, and the catalog vends credentials for tables only.",
                left="Nothing was done there.",
                next=(
                    f"Documents and plans may lie below {self._scheme}://{self._root}/{shared}. For what lists or "
                    "writes the warehouse as a whole (topics adopt, the restore of a backup), give that one command a "
                    "key of its own and WINNOW_VENDED_CREDENTIALS=false."
                ),
            )
        return f"{self._root}/{namespace}/{folder}"

    def _open(self, folder: str) -> tuple[fs.FileSystem, bool]:
        """Return the client for the table at ``folder``, and whether its credential was vended just now."""
        with self._lock:
            asking = self._asking.setdefault(folder, threading.Lock())
        with asking:  # one request for all threads that wait for it, and tables side by side
            known = self._opened.get(folder)
            if known is not None and not known[0].is_due(self._now_ms()):
                return known[1], False
            try:
                credential = self._obtain(folder)
            except ServiceError:
                if known is None or known[0].has_expired(self._now_ms()):
                    raise
                return known[1], False  # it still serves, and the catalog may be back before it expires
            self._opened[folder] = (credential, self._make_filesystem(credential))
            return self._opened[folder][1], True

    def _forget(self, folder: str, filesystem: fs.FileSystem) -> None:
        with self._lock:
            known = self._opened.get(folder)
            if known is not None and known[1] is filesystem:
                del self._opened[folder]

    def _obtain(self, folder: str) -> Credential:
        namespace, _, last = folder[len(self._root) + 1 :].partition("/")
        table = TableName(namespace, _UUID.sub("", last))
        asked_at_ms = self._now_ms()
        answer = self._client.load_table(table)
        location = str(((answer or {}).get("metadata") or {}).get("location") or "")
        if answer is None or object_store.find_path_in_store(location) != folder:
            place = f"{self._scheme}://{folder}"
            if namespace != self._namespace:
                raise FileNotFoundError(errno.ENOENT, f"The catalog has no table {table} there", place)
            raise ServiceError(
                f"The catalog has no table {table} at {place}, so it vends no credentials for that folder.",
                left="Nothing was done there.",
                next=(
                    "If the catalog was restored or replaced, put the newer one back, then run it again. To bring the "
                    "table into the catalog (topics adopt), give that one command a key of its own and "
                    "WINNOW_VENDED_CREDENTIALS=false."
                ),
            )
        properties = choose_credential(answer, location)
        if not properties.get(_KEY) or not properties.get(_SECRET):
            signs = " It signs requests instead, which Winnow does not support." if _has_signer(properties) else ""
            raise ConfigurationError(
                f"The REST catalog {self._client.uri} vends no credentials for the table {table}.{signs}",
                left="Nothing was done in its folder.",
                next=(
                    "Have the catalog vend credentials for the warehouse (its storage needs a role that it can "
                    "assume), or unset WINNOW_VENDED_CREDENTIALS and give the processes access of their own."
                ),
            )
        expiry = properties.get(_EXPIRY, "")
        expires_at_ms = int(expiry) if expiry.isdecimal() else asked_at_ms + UNKNOWN_LIFETIME_MS
        return Credential(properties, asked_at_ms, expires_at_ms)

    def _make_filesystem(self, credential: Credential) -> fs.FileSystem:
        found = {**credential.properties, **object_store.list_store_properties(self._env)}
        return fs.S3FileSystem(
            access_key=found[_KEY],
            secret_key=found[_SECRET],
            session_token=found.get(_TOKEN),
            endpoint_override=found.get("s3.endpoint"),
            region=found.get("s3.region") or found.get("client.region") or object_store.DEFAULT_REGION,
        )


def choose_credential(answer: Mapping[str, Any], location: str) -> dict[str, str]:
    """Return the properties vended for ``location``: the table's own, and over them the longest prefix that fits."""
    given = answer.get("storage-credentials") or []
    folder = f"{location.rstrip('/')}/"
    fitting = sorted(
        (each for each in given if folder.startswith(str(each.get("prefix", "")))),
        key=lambda each: len(str(each.get("prefix", ""))),
    )
    best = fitting[-1]["config"] if fitting else {}
    return {**(answer.get("config") or {}), **best}


def _has_signer(properties: Mapping[str, str]) -> bool:
    return properties.get("s3.remote-signing-enabled") == "true" or "s3.signer.uri" in properties


class VendedFileSystem(fs.FileSystemHandler):  # type: ignore[misc]
    """Arrow's file system over :class:`VendedStores`; a path is bucket and key. Streams are those of Arrow's client."""

    def __init__(self, stores: VendedStores) -> None:
        self._stores = stores

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VendedFileSystem) and other._stores is self._stores

    def __hash__(self) -> int:
        return id(self._stores)

    def find_properties(self, path: str) -> Mapping[str, str]:
        """Return what was vended for the table whose folder ``path`` is in, for a client that is not Arrow's."""
        return self._stores.find_properties(path)

    def get_type_name(self) -> str:
        """Return the name of this kind of file system."""
        return "vended-s3"

    def normalize_path(self, path: str) -> str:
        """Return ``path``: keys are what they are."""
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        """Describe files one by one; each may be another table's."""
        return [self._get_file_info(path) for path in paths]

    def _get_file_info(self, path: str) -> fs.FileInfo:
        try:
            return self._stores.run(path, lambda store: store.get_file_info(path))
        except FileNotFoundError:
            return fs.FileInfo(path, fs.FileType.NotFound)

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        """List a folder."""
        try:
            found: list[fs.FileInfo] = self._stores.run(
                selector.base_dir, lambda store: store.get_file_info(_copy_selector(selector))
            )
        except FileNotFoundError:
            if not selector.allow_not_found:
                raise
            return []
        return found

    def open_input_file(self, path: str) -> Any:
        """Open a file for reading anywhere in it."""
        return self._stores.run(path, lambda store: store.open_input_file(path))

    def open_input_stream(self, path: str) -> Any:
        """Open a file for reading from its beginning."""
        return self._stores.run(path, lambda store: store.open_input_stream(path, compression=None))

    def open_output_stream(self, path: str, metadata: Mapping[str, str]) -> Any:
        """Open a file for writing."""
        return self._run_writing(
            path, lambda store: store.open_output_stream(path, compression=None, metadata=metadata or None)
        )

    def open_append_stream(self, path: str, metadata: Mapping[str, str]) -> Any:
        """Refuse: objects are written whole."""
        raise NotImplementedError("objects of a store cannot be appended to")

    def delete_file(self, path: str) -> None:
        """Delete a file."""
        self._stores.run(path, lambda store: store.delete_file(path))

    def copy_file(self, src: str, dest: str) -> None:
        """Refuse: two tables have two credentials."""
        raise NotImplementedError("files are copied by reading and writing them")

    def move(self, src: str, dest: str) -> None:
        """Refuse: nothing is moved."""
        raise NotImplementedError("files of a table are never moved")

    def create_dir(self, path: str, recursive: bool) -> None:
        """Do nothing: a store has no folders."""

    def delete_dir(self, path: str) -> None:
        """Refuse: files are deleted by name."""
        raise NotImplementedError("files are deleted by name")

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        """Refuse: files are deleted by name."""
        raise NotImplementedError("files are deleted by name")

    def delete_root_dir_contents(self) -> None:
        """Refuse: files are deleted by name."""
        raise NotImplementedError("files are deleted by name")

    def _run_writing(self, path: str, act: Callable[[fs.FileSystem], _Answer]) -> _Answer:
        try:
            return self._stores.run(path, act)
        except FileNotFoundError as problem:
            raise ServiceError(
                f"{path} was not written: the catalog has no table there, so it vends no credentials for that folder.",
                next="Run it again; if it stays so, put back the catalog that has the table.",
            ) from problem


def _copy_selector(selector: fs.FileSelector) -> fs.FileSelector:
    return fs.FileSelector(selector.base_dir, recursive=selector.recursive, allow_not_found=selector.allow_not_found)


def open_vended_filesystem(env: Mapping[str, str], open_own: Callable[[str], fs.FileSystem]) -> fs.FileSystem:
    """Open the file system of everything on S3, as ``env`` says.

    ``open_own`` opens a bucket with the process's own access, for what is outside of the warehouse.

    Raises:
        ConfigurationError: ``env`` does not say which catalog to ask, or for which warehouse.
    """
    names = vended_places.PROPERTIES
    properties = {name: env[variable] for name in names if env.get(variable := vended_places.name_variable(name))}
    warehouse = env.get(vended_places.WAREHOUSE, "").rstrip("/")
    if "uri" not in properties or not warehouse:
        missing = vended_places.WAREHOUSE if "uri" in properties else vended_places.name_variable("uri")
        raise ConfigurationError(
            f"{vended_places.SWITCH} is set in this process's environment, and {missing} is not, so it cannot ask the "
            "catalog for credentials.",
            left="Nothing was opened.",
            next="Give the machines of Spark's tasks the same variables as the driver has.",
        )
    client = RestCatalogClient(properties, properties.get("warehouse", warehouse))
    namespace = env.get(vended_places.NAMESPACE) or "winnow"
    return fs.PyFileSystem(VendedFileSystem(VendedStores(client, warehouse, namespace, open_own=open_own, env=env)))
