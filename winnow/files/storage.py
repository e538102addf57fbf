"""Reads, writes, lists and deletes files in object stores and on local disk.

A path is a URI (``file:///…``, ``s3://bucket/key``) or a plain local path. Credentials come from the environment or
the instance role, never from a path, a plan or an argument (:mod:`winnow.files.object_store`).

An object store's error becomes a ServiceError that names the place. A missing file is a FileNotFoundError there as on a
disk; other disk errors stay the operating system's.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote, urlparse

from winnow.errors import ServiceError, UsageError
from winnow.files import disk_sync, local_tree, object_store

if TYPE_CHECKING:
    from pyarrow import fs


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file of a listing."""

    uri: str
    size_bytes: int


def is_local(uri: str) -> bool:
    """Check whether ``uri`` is a local file."""
    return urlparse(uri).scheme in ("", "file")


def is_utf8(path: str) -> bool:
    """Check whether ``path`` is valid UTF-8: Python keeps other bytes of file names as surrogates."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def format_path(path: str) -> str:
    """Return ``path`` for display: bytes that are not UTF-8 as escapes."""
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")


def parse_local_path(uri: str) -> Path:
    """Return the local path behind a ``file://`` URI or a plain path."""
    parsed = urlparse(uri)
    return Path(unquote(parsed.path)) if parsed.scheme == "file" else Path(uri)


def open_filesystem(uri: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of ``uri`` and the path within it.

    Raises:
        UsageError: the path is not UTF-8.
        ServiceError: the object store's client cannot be made (unknown scheme, no credentials).
    """
    if not is_utf8(uri):
        raise UsageError(
            f"The path {format_path(uri)} is not UTF-8, so Arrow cannot open it.",
            left="Nothing was done there; rename the file or folder.",
        )
    # A sixth of a second with what it brings; commands that only ask the catalog and the store go without.
    import pyarrow as pa
    from pyarrow import fs

    if is_local(uri):
        return fs.LocalFileSystem(), str(parse_local_path(uri))
    parsed = urlparse(uri)
    try:
        filesystem = object_store.open_remote_filesystem(uri)
    except (OSError, pa.ArrowException) as problem:
        raise ServiceError(
            f"The object store of {parsed.scheme}://{parsed.netloc} cannot be reached ({problem}).",
            next="Check its endpoint and credentials, then run it again.",
        ) from problem
    return filesystem, object_store.find_path_in_store(uri)


@contextmanager
def translate_store_errors(uri: str) -> Iterator[None]:
    """Turn errors of the object store of ``uri`` into a message that says what to check.

    Raises:
        ServiceError: it is unreachable, refuses, or has no such bucket; other errors pass through.
    """
    try:
        yield
    except OSError as problem:
        if is_local(uri) or not object_store.is_store_error(problem):
            raise
        is_s3 = urlparse(uri).scheme in object_store.S3_SCHEMES
        raise ServiceError(
            f"The object store does not serve {uri} ({problem}).",
            next=(
                f"Check that the bucket is there, the {'endpoint (AWS_ENDPOINT_URL_S3)' if is_s3 else 'network'} and "
                "the credentials, then run it again."
            ),
        ) from problem


def _is_missing(filesystem: fs.FileSystem, path: str) -> bool:
    from pyarrow import fs

    return bool(filesystem.get_file_info(path).type == fs.FileType.NotFound)


def join(uri: str, *parts: str) -> str:
    """Return ``uri`` with ``parts`` below it, one slash between each."""
    return "/".join([uri.rstrip("/"), *(part.strip("/") for part in parts)])


def read_bytes(uri: str) -> bytes:
    """Return the whole content of a small file.

    Raises:
        FileNotFoundError: there is no such file.
    """
    filesystem, path = open_filesystem(uri)
    with translate_store_errors(uri), filesystem.open_input_file(path) as stream:
        return cast(bytes, stream.read())


_PLAIN_PATH: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.=-]*(?:/[A-Za-z0-9_][A-Za-z0-9_.=-]*)*")
"""A path that is the same however it is written."""


def find_path_below(root: str, uri: str) -> str | None:
    """Return the path of ``uri`` below the folder ``root``, however both are written.

    None: it is elsewhere, is the folder itself, or has a part (empty, ``.``, ``..``) that can lead elsewhere.
    """
    prefix = f"{root.rstrip('/')}/"
    if uri.startswith(prefix) and _PLAIN_PATH.fullmatch(uri, len(prefix)):
        return uri[len(prefix) :]
    top, found = _locate(root), _locate(uri)
    folder = f"{top[2].rstrip('/')}/"
    if top[:2] != found[:2] or not found[2].startswith(folder):
        return None
    below = found[2][len(folder) :]
    return below if all(part not in {"", ".", ".."} and "\0" not in part for part in below.split("/")) else None


def _locate(uri: str) -> tuple[str, str, str]:
    """Return scheme, authority and path of ``uri`` in the one way in which places are compared."""
    if is_local(uri):
        return "file", "", str(parse_local_path(uri))
    parsed = urlparse(uri)
    family = next((each for each in _FAMILIES if parsed.scheme in each), frozenset({parsed.scheme}))
    return min(family), parsed.netloc, object_store.find_path_in_store(uri)


_FAMILIES: Final = (object_store.S3_SCHEMES, object_store.GCS_SCHEMES, object_store.AZURE_SCHEMES)
"""Schemes that name the same store."""


def _split(uri: str, below: str | None) -> tuple[Path, list[str]]:
    """Return the root on the local disk, and the parts of the path of ``uri`` below it; default: its own folder.

    Raises:
        UsageError: it is not below that root.
    """
    if below is None:
        path = parse_local_path(uri)
        return path.parent, [path.name]
    found = find_path_below(below, uri)
    if found is None:
        raise UsageError(f"{format_path(uri)} is not below {below}, so nothing was done there.")
    return parse_local_path(below), found.split("/")


def write_bytes(uri: str, data: bytes, *, below: str | None = None) -> None:
    """Write a small file so that a reader sees all of it or nothing.

    Object stores show only complete, durable objects; on a local disk a temporary sibling is synced and renamed, and
    the folder is synced (:mod:`winnow.files.disk_sync`). ``below``: the root under which no folder may be a link;
    default: the file's own folder.

    Raises:
        LinkedFolderError: a folder below the root is a link; nothing was written.
    """
    if is_local(uri):
        local_tree.write_file(*_split(uri, below), data)
        disk_sync.sync_folder(parse_local_path(uri).parent)
        return
    filesystem, path_in_store = open_filesystem(uri)
    with translate_store_errors(uri), filesystem.open_output_stream(path_in_store) as stream:
        stream.write(data)


def create_bytes(uri: str, data: bytes) -> bool:
    """Write a small file unless it exists; return whether it was written.

    On a local disk one of several processes writes it. An object store, and a disk without hard links, has no such
    operation: of several that find no file at once each writes it, and the last one counts.
    """
    if is_local(uri):
        written = local_tree.write_new_file(*_split(uri, None), data)
        disk_sync.sync_folder(parse_local_path(uri).parent)
        return written
    if exists(uri):
        return False
    write_bytes(uri, data)
    return True


def create_file(uri: str, *, below: str | None = None) -> Any:
    """Create a file, with its folders, and return Arrow's stream to write it. ``below``: as for :func:`write_bytes`.

    Raises:
        LinkedFolderError: a folder below the root is a link; nothing was written.
    """
    if not is_local(uri):
        filesystem, path_in_store = open_filesystem(uri)
        return filesystem.open_output_stream(path_in_store)
    import pyarrow as pa

    descriptor = local_tree.create_file(*_split(uri, below), replace=True)
    return pa.PythonFile(io.BufferedWriter(io.FileIO(descriptor, "wb"), BUFFER_BYTES), mode="w")


BUFFER_BYTES: Final = 1 << 20


def sync(uris: Iterable[str]) -> None:
    """Sync written files to disk before anything names them (:func:`winnow.files.disk_sync.sync_files`).

    Call it once for many files. Objects of a store are skipped: they are durable once complete.

    Raises:
        OSError: the disk did not take one of them.
    """
    disk_sync.sync_files(parse_local_path(uri) for uri in uris if is_local(uri))


def exists(uri: str) -> bool:
    """Check whether ``uri`` is a file."""
    return read_size_bytes(uri) is not None


def read_size_bytes(uri: str) -> int | None:
    """Return the size of the file, None when it is missing."""
    filesystem, path = open_filesystem(uri)
    with translate_store_errors(uri):
        info = filesystem.get_file_info(path)
    return int(info.size) if info.is_file else None


def delete(uri: str, *, below: str | None = None) -> bool:
    """Delete a file; return whether it is gone.

    ``below``: the root of the record that names the file; default: its own folder. A file that is not below it, or
    behind a link, stays, and so does what is no plain file.

    Raises:
        OSError: this user may not, or the disk refuses.
        ServiceError: the object store does not answer.
    """
    if below is not None and find_path_below(below, uri) is None:
        return False
    if is_local(uri):
        return local_tree.delete_file(*_split(uri, below))
    filesystem, path = open_filesystem(uri)
    with translate_store_errors(uri):
        try:
            filesystem.delete_file(path)
        except FileNotFoundError:
            return True
        except OSError:
            if not _is_missing(filesystem, path):
                raise
    return True


def delete_unreferenced(uris: Iterable[str], *, below: str | None = None) -> None:
    """Delete files that nothing refers to; one that cannot be deleted stays, for a sweep."""
    for uri in uris:
        with suppress(OSError, ServiceError):
            delete(uri, below=below)


def sync_deletions(uris: Iterable[str]) -> None:
    """Make the deletion of local files survive a power cut, before the last record that names them goes.

    Raises:
        OSError: the disk did not take it.
    """
    disk_sync.sync_deletions(parse_local_path(uri).parent for uri in uris if is_local(uri))


def get_name(uri: str) -> str:
    """Return a file's name. Winnow's files have names that no other file has.

    So they are compared by name: a catalog or DuckDB may write the same place another way (file:/ for file:///).
    """
    return uri.rpartition("/")[2]


def list_files(uri: str) -> list[FileEntry]:
    """List all plain files below the folder ``uri``, sorted; empty when it is missing. Links are not followed."""
    return list(list_named_files(uri, "", lambda _: True).files)


@dataclass(frozen=True, slots=True)
class Listing:
    """The files below a folder: those that their writer names so, and whatever else lies there, for display."""

    files: tuple[FileEntry, ...]
    others: tuple[str, ...]


def list_named_files(root: str, folder: str, is_named: Callable[[str], bool]) -> Listing:
    """List the plain files below ``folder`` of ``root`` whose path below that folder ``is_named``, through no link.

    ``folder``: its path below the root; empty: the root. A missing folder is empty.
    """
    top = join(root, folder) if folder else root.rstrip("/")
    files: list[FileEntry] = []
    others: list[str] = []
    for path, size_bytes in _list_entries(root, folder):
        if size_bytes is not None and is_named(path):
            files.append(FileEntry(f"{top}/{path}", size_bytes))
        else:
            others.append(format_path(f"{top}/{path}"))
    return Listing(tuple(sorted(files, key=lambda entry: entry.uri)), tuple(sorted(others)))


def _list_entries(root: str, folder: str) -> Iterator[tuple[str, int | None]]:
    if is_local(root):
        for found in local_tree.list_entries(parse_local_path(root), folder.split("/") if folder else ()):
            yield found.path, found.size_bytes
        return
    from pyarrow import fs

    filesystem, path = open_filesystem(join(root, folder) if folder else root)
    top = f"{path.rstrip('/')}/"
    with translate_store_errors(root):
        found_infos = filesystem.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
    for info in found_infos:
        if info.type != fs.FileType.Directory:
            yield info.path[len(top) :], int(info.size) if info.is_file else None


def list_folders(uri: str) -> list[str]:
    """List the folders directly below the folder ``uri``, sorted; no links, and none when it is missing."""
    if is_local(uri):
        path = parse_local_path(uri)
        if not path.is_dir():
            return []
        with os.scandir(path) as entries:
            return sorted(join(uri, each.name) for each in entries if each.is_dir(follow_symlinks=False))
    from pyarrow import fs

    filesystem, path_in_store = open_filesystem(uri)
    with translate_store_errors(uri):
        found = filesystem.get_file_info(fs.FileSelector(path_in_store, allow_not_found=True))
    return sorted(join(uri, info.base_name) for info in found if info.type == fs.FileType.Directory)


def remove_empty_folders(root: str, folder: str, is_own: Callable[[str], bool]) -> None:
    """Remove the local ``folder`` of ``root``, and those below it that ``is_own`` names, as far as they are empty.

    ``folder``: its path below the root; ``is_own`` is given paths below that. Object stores have no folders.
    """
    if is_local(root):
        local_tree.remove_empty_folders(parse_local_path(root), folder.split("/"), is_own)


def remove_empty_root(root: str) -> None:
    """Remove the local folder ``root`` if it is empty and no link; object stores have none."""
    if is_local(root):
        local_tree.remove_empty_folder(parse_local_path(root))


def remove_emptied_folders(uris: Iterable[str], below: str) -> None:
    """Remove the local folders of files that were deleted, up to the folder ``below``, as far as they are empty."""
    if not is_local(below):
        return
    found = (find_path_below(below, uri) for uri in uris)
    for parts in sorted({tuple(path.split("/")[:-1]) for path in found if path is not None}, reverse=True):
        local_tree.remove_emptied_parents(parse_local_path(below), parts)
