"""Reads, writes, lists and deletes files in object stores and on local disk.

A path is a URI (``file:///…``, ``s3://bucket/key``) or a plain local path. Credentials come from the environment or
the instance role, never from a path, a plan or an argument (:mod:`winnow.files.object_store`).

An object store's error becomes a ServiceError that names the place. A missing file is a FileNotFoundError there as on a
disk; other disk errors stay the operating system's.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import unquote, urlparse

from winnow.errors import ServiceError, UsageError
from winnow.files import disk_sync, object_store

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
            f"The path {format_path(uri)} is not UTF-8, so Arrow cannot open it. Nothing was done there; rename the "
            "file or folder."
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
            f"The object store of {parsed.scheme}://{parsed.netloc} cannot be reached ({problem}). "
            "Check its endpoint and credentials, then run it again."
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
            f"The object store does not serve {uri} ({problem}). Check that the bucket is there, the "
            f"{'endpoint (AWS_ENDPOINT_URL_S3)' if is_s3 else 'network'} and the credentials, then run it again."
        ) from problem


def is_bucket_missing(uri: str) -> bool:
    """Check whether the bucket of ``uri`` is missing; False for local files, whose folders are created when needed.

    Raises:
        ServiceError: the object store does not answer.
    """
    if is_local(uri):
        return False
    filesystem, path = open_filesystem(uri)
    with translate_store_errors(uri):
        return _is_missing(filesystem, path.split("/", 1)[0])


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


def write_bytes(uri: str, data: bytes) -> None:
    """Write a small file so that a reader sees all of it or nothing.

    Object stores show only complete, durable objects; on a local disk a temporary sibling is synced and renamed, and
    the folder is synced (:mod:`winnow.files.disk_sync`).
    """
    if is_local(uri):
        path = parse_local_path(uri)
        _write_draft(path, data).replace(path)
        disk_sync.sync_folder(path.parent)
        return
    filesystem, path_in_store = open_filesystem(uri)
    with translate_store_errors(uri), filesystem.open_output_stream(path_in_store) as stream:
        stream.write(data)


def create_bytes(uri: str, data: bytes) -> bool:
    """Write a small file unless it exists; return whether it was written.

    On a local disk one of several processes writes it. An object store, and a disk without hard links, has no such
    operation: of several that find no file at once each writes it, and the last one counts.
    """
    if not is_local(uri):
        if exists(uri):
            return False
        write_bytes(uri, data)
        return True
    path = parse_local_path(uri)
    draft = _write_draft(path, data)
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError:
        if path.exists():
            return False
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    disk_sync.sync_folder(path.parent)
    return True


def _write_draft(path: Path, data: bytes) -> Path:
    """Write ``data`` to a new file beside ``path``, synced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with draft.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    return draft


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


def delete(uri: str) -> None:
    """Delete a file if it exists."""
    filesystem, path = open_filesystem(uri)
    with translate_store_errors(uri):
        try:
            filesystem.delete_file(path)
        except FileNotFoundError:
            return
        except OSError:
            if not _is_missing(filesystem, path):
                raise


def delete_unreferenced(uris: Iterable[str]) -> None:
    """Delete files that nothing refers to; one that cannot be deleted stays, for a sweep."""
    for uri in uris:
        with suppress(OSError, ServiceError):
            delete(uri)


def get_name(uri: str) -> str:
    """Return a file's name. Winnow's files have names that no other file has.

    So they are compared by name: a catalog or DuckDB may write the same place another way (file:/ for file:///).
    """
    return uri.rpartition("/")[2]


def list_files(uri: str) -> list[FileEntry]:
    """List all files below the folder ``uri``, sorted; empty when the folder is missing."""
    if is_local(uri) and not parse_local_path(uri).exists():
        return []
    from pyarrow import fs

    filesystem, path = open_filesystem(uri)
    prefix = uri.rstrip("/")
    with translate_store_errors(uri):
        found = filesystem.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
    return sorted(
        (FileEntry(prefix + info.path[len(path.rstrip("/")) :], int(info.size)) for info in found if info.is_file),
        key=lambda entry: entry.uri,
    )


def remove_empty_folders(uri: str) -> None:
    """Remove the local folder ``uri`` and those below it as far as they are empty; object stores have none."""
    if not is_local(uri):
        return
    for folder, _, _ in os.walk(parse_local_path(uri), topdown=False):
        with suppress(OSError):  # it is not empty, or gone already
            Path(folder).rmdir()


def remove_emptied_folders(uris: Iterable[str], below: str) -> None:
    """Remove the local folders of files that were deleted, up to the folder ``below``, as far as they are empty."""
    if not is_local(below):
        return
    top = parse_local_path(below)
    for start in {parse_local_path(uri).parent for uri in uris}:
        folder = start
        while folder != top and folder.is_relative_to(top):
            with suppress(OSError):  # it is gone already
                folder.rmdir()
            if folder.exists():
                break  # it is not empty
            folder = folder.parent


def make_parent(uri: str) -> None:
    """Create the folder of a local file; object stores need none."""
    if is_local(uri):
        parse_local_path(uri).parent.mkdir(parents=True, exist_ok=True)
