"""Syncs local files and folders to disk before a commit refers to them, or forgets them.

Until then, written bytes, a file's entry in its folder and a new folder's entry in its parent are only in the kernel's
memory. A power cut loses them while a synced database survives and names files that are gone. So a file, its folder and
the folders above are synced.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

MAXIMUM_PARALLEL_SYNCS: Final = 16
"""Files synced in parallel: each waits for the disk, and the file system's journal writes waiting ones together."""

_UNSUPPORTED: Final = {errno.EINVAL, errno.ENOTSUP, errno.EROFS}
"""Errors of file systems that cannot sync a folder, because there is nothing to sync or it is synced at once."""

_synced_folders: set[tuple[str, int, int]] = set()
"""Folders (path, device, inode) whose entries, all the way up, this process has synced."""


def sync_files(paths: Iterable[Path]) -> None:
    """Sync the content of files, their folders and the folders above.

    When it returns, all of it survives a power cut, no matter which process wrote the files.

    Raises:
        OSError: the disk did not take it. Syncing again may then wrongly succeed: write the file again.
    """
    files = list(dict.fromkeys(paths))
    if len(files) > 1:
        with ThreadPoolExecutor(min(MAXIMUM_PARALLEL_SYNCS, len(files))) as pool:
            list(pool.map(_sync_file, files))
    else:
        for path in files:
            _sync_file(path)
    for folder in dict.fromkeys(path.parent for path in files):
        sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Sync the entries of ``folder`` and of the folders above it.

    The folders above are synced once per process, on the same file system, as far up as they can be read: the process
    that made them may have died before it synced them.

    Raises:
        OSError: the disk did not take it, or the folder cannot be read.
    """
    found = folder.resolve()
    _sync_entries(found)
    synced: list[tuple[str, int, int]] = []
    for below, above in zip((found, *found.parents), found.parents, strict=False):
        identity = _identify(below)
        if identity in _synced_folders:
            break
        try:
            if _identify(above)[1] != identity[1]:
                break
            _sync_entries(above)
        except PermissionError:
            break  # this user cannot have created anything there
        synced.append(identity)
    _synced_folders.update(synced)


def sync_deletions(folders: Iterable[Path]) -> None:
    """Sync the entries of folders from which something was deleted; of one that is gone, too, those of the one above.

    Until then a power cut brings the files back, and the record that named them may be gone.

    Raises:
        OSError: the disk did not take it.
    """
    synced: set[Path] = set()
    for folder in dict.fromkeys(folders):
        for there in (folder, *folder.parents):
            with suppress(FileNotFoundError):
                if there not in synced:
                    _sync_entries(there)
                    synced.add(there)
                break


def _identify(folder: Path) -> tuple[str, int, int]:
    status = folder.stat()
    return str(folder), status.st_dev, status.st_ino


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_entries(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as problem:
        if problem.errno not in _UNSUPPORTED:
            raise
    finally:
        os.close(descriptor)
