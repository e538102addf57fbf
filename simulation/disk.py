"""A local disk that forgets what was not synced when the power goes: new files, their content, and deletions."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Final

from simulation.table_reader import find_path
from winnow.files.storage import FileEntry, Listing

_DATABASES: Final = (".db", ".db-wal", ".db-shm", ".db-journal", ".lock")
"""SQLite syncs by itself, out of sight; its files keep what was committed."""
_CHANGE_PROBABILITY: Final = 0.7
"""Probability that a change that was not synced is lost; the others reached the disk by chance."""


class SyncedDisk:
    """What of the files below ``root`` would outlive a power cut.

    Args:
        root: the folder that processes write to.
        kept: a folder beside it, on the same disk, for deleted files that may come back.
        read_ms: the time.
    """

    def __init__(self, root: Path, kept: Path, read_ms: Callable[[], int] = lambda: 0) -> None:
        self._root = root
        self._kept = kept
        self._read_ms = read_ms
        self._synced_ms: dict[int, int] = {}
        self._gone: dict[Path, tuple[int, int]] = {}
        self._contents: dict[int, int] = {}
        self._entries: dict[int, set[tuple[str, int]]] = {}
        self._deleted: dict[Path, Path] = {}

    def note_sync(self, descriptor: int) -> None:
        """Remember that a file, or the entries of a folder, were synced."""
        status = os.fstat(descriptor)
        path = _find_open_path(descriptor)
        if path.is_dir():
            self._entries[status.st_ino] = {(entry.name, entry.inode()) for entry in os.scandir(path)}
            self._deleted = {gone: copy for gone, copy in self._deleted.items() if gone.parent != path}
        else:
            self._contents[status.st_ino] = status.st_size
            self._synced_ms.setdefault(status.st_ino, self._read_ms())

    def forget(self) -> None:
        """Forget all files: they are gone."""
        for known in (self._contents, self._entries, self._deleted, self._synced_ms, self._gone):
            known.clear()

    def is_durable(self, path: Path) -> bool:
        """Whether a file is complete, and would outlive a power cut under this name."""
        status, folder = path.stat(), path.parent.stat().st_ino
        is_named = (path.name, status.st_ino) in self._entries.get(folder, ())
        return is_named and self._contents.get(status.st_ino) == status.st_size

    def note_deletion(self, name: str | os.PathLike[str], folder: int | None) -> None:
        """Remember a file that is about to be deleted; ``folder``: the descriptor that ``name`` is relative to."""
        path = Path(name) if folder is None else _find_open_path(folder) / name
        if not path.is_relative_to(self._root) or path.name.endswith(_DATABASES):
            return
        status = path.lstat()
        self._synced_ms.pop(status.st_ino, None)  # a new file may have its number
        self._gone[path] = (status.st_size, self._read_ms())
        parent = path.parent.stat().st_ino
        if (path.name, status.st_ino) in self._entries.get(parent, ()) and path.is_file():
            self._kept.mkdir(exist_ok=True)
            copy = self._kept / str(len(list(self._kept.iterdir())))
            copy.hardlink_to(path)
            self._deleted[path] = copy

    def make_older(self, listing: Listing, top: str, is_named: Callable[[str], bool], age_ms: int) -> Listing:
        """Return ``listing``, of the folder ``top``, as it was ``age_ms`` ago: a store that answers from a copy."""
        if not find_path(top).is_relative_to(self._root):
            return listing
        since_ms = self._read_ms() - age_ms
        files = [file for file in listing.files if self._read_written_ms(find_path(file.uri)) <= since_ms]
        there = {file.uri for file in listing.files}
        for path, (size_bytes, gone_ms) in self._gone.items():
            uri = path.as_uri()
            if gone_ms > since_ms and uri.startswith(f"{top}/") and is_named(uri[len(top) + 1 :]) and uri not in there:
                files.append(FileEntry(uri, size_bytes))
        return Listing(tuple(sorted(files, key=lambda file: file.uri)), listing.others)

    def _read_written_ms(self, path: Path) -> int:
        return self._synced_ms.get(path.stat().st_ino, self._read_ms())

    @contextmanager
    def sync_new_files(self) -> Iterator[None]:
        """Count the files that appear during the block as synced: another engine's, on a machine of its own."""
        before = set(self._root.rglob("*"))
        yield
        for path in set(self._root.rglob("*")) - before:
            status, folder = path.stat(), path.parent.stat().st_ino
            self._entries.setdefault(folder, set()).add((path.name, status.st_ino))
            if path.is_file():
                self._contents[status.st_ino] = status.st_size

    def cut_power(self, random: Random) -> list[str]:
        """Lose a random choice of what was not synced; return the paths below the root, each with what became of it."""
        changes: list[str] = []
        self._cut(self._root, random, changes)
        for path, copy in sorted(self._deleted.items()):
            if path.parent.is_dir() and not path.exists() and random.random() < _CHANGE_PROBABILITY:
                path.hardlink_to(copy)
                changes.append(f"{path.relative_to(self._root)} is back")
        self._deleted.clear()
        return changes

    def _cut(self, folder: Path, random: Random, changes: list[str]) -> None:
        durable = self._entries.get(folder.stat().st_ino, set())
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            path = Path(entry.path)
            if entry.name.endswith(_DATABASES):
                continue
            if (entry.name, entry.inode()) not in durable and random.random() < _CHANGE_PROBABILITY:
                changes.append(f"{path.relative_to(self._root)} is gone")
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(path)
                else:
                    path.unlink()
            elif entry.is_dir(follow_symlinks=False):
                self._cut(path, random, changes)
            elif entry.stat().st_size > self._contents.get(entry.inode(), 0) and random.random() < _CHANGE_PROBABILITY:
                changes.append(f"{path.relative_to(self._root)} is torn")
                os.truncate(path, random.randrange(entry.stat().st_size))


def _find_open_path(descriptor: int) -> Path:
    return Path(f"/proc/self/fd/{descriptor}").readlink()
