"""Syncs local files and folders to disk before a commit refers to them.

Until it is synced, what was written is in the kernel's memory, and so is the entry by which a file is found in its
folder, and a new folder in the one above. A power cut takes all of it, while a database that was synced survives and
names what is gone. So a file is synced, its folder, and the folders above.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

MAXIMUM_PARALLEL_SYNCS: Final = 16
"""Files that are synced side by side: each waits for the disk, and a journal writes those that wait in one go."""

_UNSUPPORTED: Final = {errno.EINVAL, errno.ENOTSUP, errno.EROFS}
"""What file systems answer that cannot sync a folder, because there is nothing to sync or it is synced at once."""

_synced_folders: set[tuple[str, int, int]] = set()
"""Folders (path, device, inode) whose own entries, all the way up, this process has synced."""


def sync_files(paths: Iterable[Path]) -> None:
    """Bring the content of files to disk, and every folder on the way to them.

    Returns when all of it would survive a power cut. Whoever wrote a file, and in which process, is the same to the
    kernel.

    Raises:
        OSError: the disk did not take it. Syncing again may then wrongly succeed: write the file anew.
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
    """Bring the entries of ``folder`` to disk, and those of the folders above by which it is found.

    The folders above are synced once per process, on the same file system, as far up as they may be read; whoever made
    them may have died before it synced them.

    Raises:
        OSError: the disk did not take it, or the folder cannot be read.
    """
    found = folder.resolve()
    _sync_entries(found)
    passed: list[tuple[str, int, int]] = []
    for below, above in zip((found, *found.parents), found.parents, strict=False):
        identity = _identify(below)
        if identity in _synced_folders:
            break
        try:
            if _identify(above)[1] != identity[1]:
                break
            _sync_entries(above)
        except PermissionError:
            break  # nor could this user have made anything there
        passed.append(identity)
    _synced_folders.update(passed)


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
