"""Whether a folder of the lake takes, gives back, lists and removes a file; and what its clock says."""

from __future__ import annotations

import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

from pyarrow import fs

from winnow.clock import Clock
from winnow.errors import ServiceError
from winnow.files import storage

PREFIX = "winnow-doctor-"
"""How the files are called that are written and removed again."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """``ahead_ms``: how far the store's clock is ahead of this machine's; None: it gives no times."""

    ahead_ms: int | None
    free_bytes: int | None


def probe_folder(uri: str, now_ms: Clock) -> ProbeResult:
    """Write, read, list and remove a small file below ``uri``.

    Raises:
        OSError: one of them was refused.
        ServiceError: the object store cannot be reached, or gave back something else.
    """
    name = storage.join(uri, make_file_name())
    content = b"written by winnow doctor"
    before_ms = now_ms()
    storage.write_bytes(name, content)
    try:
        here_ms = (before_ms + now_ms()) // 2
        written_ms = _read_modified_ms(name)
        if storage.read_bytes(name) != content:
            raise ServiceError(f"{uri} gave back another content than was written.")
        if not _is_listed(name):
            raise ServiceError(f"{uri} does not list a file that was written and can be read.")
    finally:
        storage.delete(name)
    if storage.exists(name):
        raise ServiceError(f"{uri} still has a file after it was removed.")
    return ProbeResult(None if written_ms is None else written_ms - here_ms, measure_free_bytes(uri))


def make_file_name() -> str:
    """A file name that nothing else has, and that says who wrote it."""
    return f"{PREFIX}{uuid.uuid4().hex}"


def _is_listed(uri: str) -> bool:
    filesystem, path = storage.open_filesystem(uri)
    folder, _, name = path.rpartition("/")
    with storage.translate_store_errors(uri):
        return name in {info.base_name for info in filesystem.get_file_info(fs.FileSelector(folder))}


def _read_modified_ms(uri: str) -> int | None:
    filesystem, path = storage.open_filesystem(uri)
    with storage.translate_store_errors(uri):
        modified_ns = filesystem.get_file_info(path).mtime_ns
    return None if modified_ns is None else int(modified_ns) // 1_000_000


def measure_free_bytes(uri: str) -> int | None:
    """Free space on the disk of a local folder, or of the nearest folder above that is there; None elsewhere."""
    if not storage.is_local(uri):
        return None
    return shutil.disk_usage(find_nearest_folder(storage.parse_local_path(uri))).free


def find_nearest_folder(path: Path) -> Path:
    """``path``, or the first folder above it that is there."""
    return next(each for each in (path, *path.absolute().parents) if each.is_dir())
