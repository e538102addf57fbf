"""Checks that a folder of the lake can be used, and explains errors of disk, memory and object store."""

from __future__ import annotations

import errno
import shutil
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyarrow import fs

from winnow.clock import Clock
from winnow.errors import ServiceError
from winnow.files import object_store, storage

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


DISK_FULL: Final = "there is no space left on the disk"

MINIMUM_FREE_BYTES: Final = 64 << 20
"""Maximum free space of a folder that is named where a disk is full."""

_WORDS: Final = {
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

_TEXTS: Final = {
    "No space left on device": DISK_FULL,
    "Disk quota exceeded": DISK_FULL,
    "Read-only file system": _WORDS[errno.EROFS],
    "Permission denied": _WORDS[errno.EACCES],
    "File too large": _WORDS[errno.EFBIG],
    "Input/output error": _WORDS[errno.EIO],
    "Too many open files": _WORDS[errno.EMFILE],
}
"""How libraries quote the operating system where they drop its number."""

_MEMORY: Final = {"MemoryError", "OutOfMemoryException", "ArrowMemoryError", "OutOfMemoryError"}

_NO_MEMORY: Final = "there was not enough memory (raise engine.memory_bytes, or lower engine.tasks)"

_NOT_OF_READING: Final = frozenset({DISK_FULL, _WORDS[errno.EFBIG], _WORDS[errno.EROFS], _NO_MEMORY})


def is_unrelated_to_reading(said: str) -> bool:
    """Whether ``said``, of :func:`words`, cannot come of a file that was read: no file is to be suspected."""
    return said in _NOT_OF_READING


def describe_machine_fault(problem: BaseException) -> str | None:
    """What ``problem``, or what led to it, says of the machine, as half a sentence; None: nothing."""
    for each in _list_causes(problem):
        if type(each).__name__ in _MEMORY:
            return _NO_MEMORY
        if isinstance(each, OSError):
            if each.errno in _WORDS:
                return _WORDS[each.errno]
            if object_store.is_store_error(each) or isinstance(each, ConnectionError | TimeoutError):
                return f"a service did not answer ({type(each).__name__})"
        if isinstance(each, OSError) or type(each).__module__.partition(".")[0] in {"duckdb", "_duckdb", "pyarrow"}:
            found = next((said for text, said in _TEXTS.items() if text in str(each)), None)
            if found is not None:
                return found
    return None


def make_service_error(problem: BaseException, places: Sequence[str] = ()) -> ServiceError | None:
    """``problem`` as the error to report if the machine is to blame; ``places``: local folders that may be full."""
    said = describe_machine_fault(problem)
    if said is None:
        return None
    name = next(
        (str(each.filename) for each in _list_causes(problem) if isinstance(each, OSError) and each.filename), None
    )
    where = [f"at {name}"] if name is not None else []
    if said == DISK_FULL:
        where += [f"{place} has {free >> 20:,} MiB free" for place, free in _describe_low_space(places)]
    place = f": {', '.join(where)}" if where else ""
    return ServiceError(
        f"{said[:1].upper()}{said[1:]}{place}. What was published stays, and what was not is settled by the next run. "
        "Mend that (winnow doctor looks at every folder), then run it again."
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
