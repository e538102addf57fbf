"""What a library's exception says of the machine: a full disk, a folder that may not be written, memory, a store.

Such a failure says nothing about the data, and ends when somebody makes room; so it is never called unexpected.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from typing import Final

from winnow.errors import ServiceError
from winnow.files import object_store, probe, storage

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
        free_bytes = probe.measure_free_bytes(place) if storage.is_local(place) else None
        if free_bytes is not None and free_bytes < MINIMUM_FREE_BYTES:
            yield place, free_bytes
