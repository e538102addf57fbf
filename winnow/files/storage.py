"""Reads, writes, lists and deletes files in object stores and on local disk.

A path is a URI (``file:///…``, ``s3://bucket/key``) or a plain local path. Credentials come from the environment or
the instance role, never from a path, a plan or an argument (:mod:`winnow.files.object_store`).

What an object store answers instead of its data is a ServiceError that names the place; a missing file is a
FileNotFoundError there as on a disk, and what a disk answers stays the operating system's error.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from urllib.parse import unquote, urlparse

import pyarrow as pa
from pyarrow import fs

from winnow.errors import ServiceError, UsageError
from winnow.files import disk_sync, object_store


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file of a listing."""

    uri: str
    size_bytes: int


def is_local(uri: str) -> bool:
    """Whether ``uri`` names a file of this machine."""
    return urlparse(uri).scheme in ("", "file")


def is_utf8(path: str) -> bool:
    """Whether ``path`` can be written as UTF-8: names of files may hold any bytes, which Python keeps as surrogates."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def format_path(path: str) -> str:
    """``path`` fit to be shown: bytes that are not UTF-8 as escapes."""
    return path.encode(errors="surrogateescape").decode(errors="backslashreplace")


def parse_local_path(uri: str) -> Path:
    """The local path behind a ``file://`` URI or a plain path."""
    parsed = urlparse(uri)
    return Path(unquote(parsed.path)) if parsed.scheme == "file" else Path(uri)


def open_filesystem(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system of ``uri`` and the path within it.

    Raises:
        UsageError: the path is not UTF-8.
        ServiceError: the object store's client cannot be made (unknown scheme, no credentials).
    """
    if not is_utf8(uri):
        raise UsageError(
            f"The path {format_path(uri)} is not UTF-8, so Arrow cannot open it. Nothing was done there; rename the "
            "file or folder."
        )
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
    return filesystem, f"{parsed.netloc}{unquote(parsed.path)}".rstrip("/")


@contextmanager
def translate_store_errors(uri: str) -> Iterator[None]:
    """Give what the object store of ``uri`` answered the words to act on.

    Raises:
        ServiceError: it is away, refuses, or has no such bucket; other errors are let through.
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
    """Whether the bucket of ``uri`` is not there; False for local files, whose folders are made when needed.

    Raises:
        ServiceError: the object store does not answer.
    """
    if is_local(uri):
        return False
    filesystem, path = open_filesystem(uri)
    with translate_store_errors(uri):
        return bool(filesystem.get_file_info(path.split("/", 1)[0]).type == fs.FileType.NotFound)


def join(uri: str, *parts: str) -> str:
    """``uri`` with ``parts`` below it, one slash between each."""
    return "/".join([uri.rstrip("/"), *(part.strip("/") for part in parts)])


def read_bytes(uri: str) -> bytes:
    """The whole content of a small file.

    Raises:
        FileNotFoundError: there is no such file.
    """
    filesystem, path = open_filesystem(uri)
    with translate_store_errors(uri), filesystem.open_input_file(path) as stream:
        return cast(bytes, stream.read())


def write_bytes(uri: str, data: bytes) -> None:
    """Write a small file so that a reader sees all of it or nothing.

    Object stores show an object only when it is complete, and keep it from then on; on a local disk a temporary sibling
    is synced and renamed, and the folder is synced (:mod:`winnow.files.disk_sync`).
    """
    if is_local(uri):
        path = parse_local_path(uri)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        with temporary.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
        disk_sync.sync_folder(path.parent)
        return
    filesystem, path_in_store = open_filesystem(uri)
    with translate_store_errors(uri), filesystem.open_output_stream(path_in_store) as stream:
        stream.write(data)


def sync(uris: Iterable[str]) -> None:
    """Bring files that were written to disk, before anything names them: as :func:`winnow.files.disk_sync.sync_files`.

    Call it once for many files. Objects of a store are passed over: they are durable once they are complete.

    Raises:
        OSError: the disk did not take one of them.
    """
    disk_sync.sync_files(parse_local_path(uri) for uri in uris if is_local(uri))


def exists(uri: str) -> bool:
    """Whether ``uri`` is a file."""
    return read_size_bytes(uri) is not None


def read_size_bytes(uri: str) -> int | None:
    """Size of the file, None when it is not there."""
    filesystem, path = open_filesystem(uri)
    with translate_store_errors(uri):
        info = filesystem.get_file_info(path)
    return int(info.size) if info.type == fs.FileType.File else None


def delete(uri: str) -> None:
    """Remove a file; a missing one is fine."""
    filesystem, path = open_filesystem(uri)
    with translate_store_errors(uri):
        try:
            filesystem.delete_file(path)
        except FileNotFoundError:
            return
        except OSError:
            if filesystem.get_file_info(path).type != fs.FileType.NotFound:
                raise


def list_files(uri: str) -> list[FileEntry]:
    """Every file below the folder ``uri``, sorted; empty when the folder is not there."""
    filesystem, path = open_filesystem(uri)
    prefix = uri.rstrip("/")
    with translate_store_errors(uri):
        found = filesystem.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
    return sorted(
        (
            FileEntry(prefix + info.path[len(path.rstrip("/")) :], int(info.size))
            for info in found
            if info.type == fs.FileType.File
        ),
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
