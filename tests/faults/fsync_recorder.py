"""Python version of fsync_recorder.c for machines without a compiler; does not see SQLite's syncs."""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path

_AT_FDCWD, _AT_EMPTY_PATH, _AT_SYMLINK_NOFOLLOW = -100, 0x1000, 0x100
_BASIC_STATS_AND_BIRTH = 0x7FF | 0x800


def _identity(folder: int, name: str, flags: int) -> str:
    """Inode and birth time: inodes are used again."""
    found = (ctypes.c_ubyte * 256)()
    if ctypes.CDLL(None).statx(folder, os.fsencode(name), flags, _BASIC_STATS_AND_BIRTH, found):
        raise FileNotFoundError(name)
    raw = bytes(found)
    inode, seconds = (int.from_bytes(raw[at : at + 8], "little") for at in (32, 80))
    return f"{inode}-{seconds}-{int.from_bytes(raw[88:92], 'little')}"


def identity(path: Path) -> str:
    """How the recording names the file or folder at ``path``."""
    return _identity(_AT_FDCWD, str(path), _AT_SYMLINK_NOFOLLOW)


def record(descriptor: int, recorded: Path) -> None:
    """Keep what the file or folder behind ``descriptor`` holds now."""
    link = f"/proc/self/fd/{descriptor}"
    name = _identity(descriptor, "", _AT_EMPTY_PATH)
    part = recorded / f"part-{threading.get_native_id()}-{name}"
    if Path(link).is_dir():
        lines = []
        with os.scandir(link) as entries:
            for entry in entries:
                kind = "d" if entry.is_dir(follow_symlinks=False) else "f"
                lines.append(f"{kind} {identity(Path(link, entry.name))} {entry.name}\n")
        part.write_text("".join(lines))
    else:
        part.write_bytes(Path(link).read_bytes())
    part.replace(recorded / name)


def watch(watched: Path, recorded: Path) -> None:
    """From now on, keep what this process syncs below ``watched``."""

    def recording(genuine: object) -> object:
        def call(descriptor: object) -> None:
            number = descriptor if isinstance(descriptor, int) else descriptor.fileno()  # type: ignore[attr-defined]
            if Path(f"/proc/self/fd/{number}").readlink().is_relative_to(watched):
                record(number, recorded)
            genuine(number)  # type: ignore[operator]

        return call

    os.fsync = recording(os.fsync)  # type: ignore[assignment]
    os.fdatasync = recording(os.fdatasync)  # type: ignore[assignment]
