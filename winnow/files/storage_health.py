"""Checks that a folder of the lake can be used, and explains errors of disk, memory and object store."""

from __future__ import annotations

import errno
import shutil
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from winnow.clock import Clock
from winnow.errors import ServiceError
from winnow.files import object_store, storage

PREFIX = "winnow-doctor-"
"""Prefix of the names of probe files."""


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The result of a probe. ``ahead_ms``: the store's clock minus this machine's; None: it gives no times."""

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
            raise ServiceError(f"{uri} returned other content than was written.")
        if not _is_listed(name):
            raise ServiceError(f"{uri} does not list a file that was written and can be read.")
    finally:
        storage.delete(name)
    if storage.exists(name):
        raise ServiceError(f"{uri} still has a file after it was removed.")
    return ProbeResult(None if written_ms is None else written_ms - here_ms, measure_free_bytes(uri))


def make_file_name() -> str:
    """Return a unique file name that says who wrote it."""
    return f"{PREFIX}{uuid.uuid4().hex}"


def _is_listed(uri: str) -> bool:
    from pyarrow import fs

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
    """Return the free bytes of a local folder's disk, or of its nearest existing parent's; None for object stores."""
    if not storage.is_local(uri):
        return None
    return shutil.disk_usage(find_nearest_folder(storage.parse_local_path(uri))).free


def find_nearest_folder(path: Path) -> Path:
    """Return ``path``, or its nearest parent that is a folder."""
    return next(each for each in (path, *path.absolute().parents) if each.is_dir())


DISK_FULL: Final = "there is no space left on the disk"

MINIMUM_FREE_BYTES: Final = 64 << 20
"""A folder with less free space is named in the message about a full disk."""

_TEXT_OF_ERRNO: Final = {
    errno.ENOSPC: DISK_FULL,
    errno.EDQUOT: DISK_FULL,
    errno.EFBIG: "a file would become larger than this user may make",
    errno.EROFS: "the file system can only be read",
    errno.EACCES: "this user may not do that there (permission denied)",
    errno.EPERM: "this user may not do that there (operation not permitted)",
    errno.EIO: "the disk answered with an input/output error",
    errno.EMFILE: "this process may not open so many files (ulimit -n)",
    errno.ENFILE: "the machine has no room for more open files",
    errno.ENOMEM: "there was not enough memory",
}

_FAULT_OF_TEXT: Final = {
    "No space left on device": DISK_FULL,
    "Disk quota exceeded": DISK_FULL,
    "Read-only file system": _TEXT_OF_ERRNO[errno.EROFS],
    "Permission denied": _TEXT_OF_ERRNO[errno.EACCES],
    "File too large": _TEXT_OF_ERRNO[errno.EFBIG],
    "Input/output error": _TEXT_OF_ERRNO[errno.EIO],
    "Too many open files": _TEXT_OF_ERRNO[errno.EMFILE],
}
"""Texts in which libraries quote the operating system without its error number."""

_MEMORY_ERRORS: Final = {"MemoryError", "OutOfMemoryException", "ArrowMemoryError", "OutOfMemoryError"}

_OUT_OF_MEMORY: Final = "there was not enough memory (raise engine.memory_bytes, or lower engine.tasks)"

_UNRELATED_TO_READING: Final = frozenset(
    {DISK_FULL, _TEXT_OF_ERRNO[errno.EFBIG], _TEXT_OF_ERRNO[errno.EROFS], _OUT_OF_MEMORY}
)


def is_unrelated_to_reading(fault: str) -> bool:
    """Check whether ``fault``, of :func:`describe_machine_fault`, cannot be caused by the file that was read."""
    return fault in _UNRELATED_TO_READING


def describe_machine_fault(problem: BaseException) -> str | None:
    """Describe the fault of the machine behind ``problem`` or its causes as half a sentence; None if it has none."""
    for each in _list_causes(problem):
        if type(each).__name__ in _MEMORY_ERRORS:
            return _OUT_OF_MEMORY
        if isinstance(each, OSError):
            if each.errno in _TEXT_OF_ERRNO:
                return _TEXT_OF_ERRNO[each.errno]
            if object_store.is_store_error(each) or isinstance(each, ConnectionError | TimeoutError):
                return f"a service did not answer ({type(each).__name__})"
        if isinstance(each, OSError) or type(each).__module__.partition(".")[0] in {"duckdb", "_duckdb", "pyarrow"}:
            found = next((fault for text, fault in _FAULT_OF_TEXT.items() if text in str(each)), None)
            if found is not None:
                return found
    return None


def make_service_error(problem: BaseException, places: Sequence[str] = ()) -> ServiceError | None:
    """Make the error if the machine is to blame for ``problem``; ``places``: local folders that may be full."""
    fault = describe_machine_fault(problem)
    if fault is None:
        return None
    name = next(
        (str(each.filename) for each in _list_causes(problem) if isinstance(each, OSError) and each.filename), None
    )
    where = [f"at {name}"] if name is not None else []
    if fault == DISK_FULL:
        where += [f"{place} has {free >> 20:,} MiB free" for place, free in _describe_low_space(places)]
    place = f": {', '.join(where)}" if where else ""
    return ServiceError(
        f"{fault[:1].upper()}{fault[1:]}{place}.",
        left="What was published stays; the next run completes or closes what was not.",
        next="Fix that (winnow doctor checks every folder), then run it again.",
    )


def _list_causes(problem: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    found: BaseException | None = problem
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or found.__context__


def _describe_low_space(places: Sequence[str]) -> Iterator[tuple[str, int]]:
    for place in dict.fromkeys(places):
        free_bytes = measure_free_bytes(place) if storage.is_local(place) else None
        if free_bytes is not None and free_bytes < MINIMUM_FREE_BYTES:
            yield place, free_bytes
