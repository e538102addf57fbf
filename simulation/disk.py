"""A local disk that forgets what was not synced when the power goes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random
from typing import Final

_DATABASES: Final = (".db", ".db-wal", ".db-shm", ".lock")
"""SQLite syncs by itself, out of sight; its files keep what was committed."""


class SyncedDisk:
    """What of the files below ``root`` would outlive a power cut."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._contents: dict[int, int] = {}
        self._entries: dict[int, set[tuple[str, int]]] = {}

    def note_sync(self, descriptor: int) -> None:
        """Remember that a file, or the entries of a folder, were synced."""
        status = os.fstat(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.is_dir():
            with os.scandir(path) as entries:
                self._entries[status.st_ino] = {(entry.name, entry.inode()) for entry in entries}
        else:
            self._contents[status.st_ino] = status.st_size

    def cut_power(self, random: Random) -> list[str]:
        """Lose a random choice of what was not synced; return the paths below the root, each with what became of it."""
        lost: list[str] = []
        self._cut(self._root, random, lost)
        return lost

    def _cut(self, folder: Path, random: Random, lost: list[str]) -> None:
        durable = self._entries.get(folder.stat().st_ino, set())
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
            path = Path(entry.path)
            if entry.name.endswith(_DATABASES):
                continue
            if (entry.name, entry.inode()) not in durable and random.random() < 0.7:
                lost.append(f"{path.relative_to(self._root)} is gone")
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(path)
                else:
                    path.unlink()
            elif entry.is_dir(follow_symlinks=False):
                self._cut(path, random, lost)
            elif entry.stat().st_size > self._contents.get(entry.inode(), 0) and random.random() < 0.7:
                lost.append(f"{path.relative_to(self._root)} is torn")
                os.truncate(path, random.randrange(entry.stat().st_size))
