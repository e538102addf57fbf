"""Simulates a power cut of a folder: data that was not synced is lost.

In this order, as far as the machine allows:

- :class:`BlockDevice`: a file system of its own in an image file, which is copied while it is mounted, and the copy
  mounted. Needs root, ``unshare``, ext4 and a loop device. What the file system happened to write survives too.
- :class:`Recording` with a C compiler: a library loaded before all others keeps, at each ``fsync``, the content of that
  file or the entries of that folder, and nothing else survives. Stricter than any file system: a file that was synced
  is gone when its folder was not, or a folder above. It also kills the process that makes a given call.
- :class:`Recording` without one: the same for what Python syncs; SQLite's files are taken as they are.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

from tests.faults.fsync_recorder import identity, record

ROOT = Path(__file__).parents[2]
_SOURCE = Path(__file__).with_name("fsync_recorder.c")
_IMAGE_BYTES = 512 << 20
_TIMEOUT_S = 500
_COUNTED = struct.Struct("=qqq")
_SQLITE = (".db", ".db-wal", ".db-journal")


class Disk(Protocol):
    """``folder`` is on it. What runs is given a command of its own, and :meth:`cut_power` follows when it has ended."""

    folder: Path

    def run(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> str:
        """Run ``command`` to its end; what it wrote to standard output. It must succeed."""
        ...

    def cut_power(self) -> None:
        """From now on ``folder`` holds what a power cut at the end of the last command would have left."""
        ...


class Recording:
    """The strict disk: only what was synced survives. ``library`` None: as :func:`find_compiler` finds one.

    ``env``: of the processes that it watches.
    """

    def __init__(self, parent: Path, *, library: bool | None = None) -> None:
        self.folder = parent / "lake"
        self._recorded = parent / "recorded"
        self._counted = parent / "counted"
        self._counted.write_bytes(_COUNTED.pack(0, 0, 0))
        self.folder.mkdir()
        self.env = (
            self._libraries(parent) if library or (library is None and find_compiler()) else self._modules(parent)
        )
        self.forget_nothing()

    def _libraries(self, parent: Path) -> dict[str, str]:
        library = parent / "fsync_recorder.so"
        # Names are compiled in: not every program hands its environment on to those that it starts.
        names = [f'-DWATCHED="{self.folder}"', f'-DRECORDED="{self._recorded}"', f'-DCOUNTED="{self._counted}"']
        _check([find_compiler() or "cc", "-shared", "-fPIC", "-O1", *names, "-o", str(library), str(_SOURCE)])
        self._sees_sqlite = True
        return {"LD_PRELOAD": str(library)}

    def _modules(self, parent: Path) -> dict[str, str]:
        modules = parent / "modules"
        modules.mkdir()
        shutil.copy(_SOURCE.with_suffix(".py"), modules)
        (modules / "sitecustomize.py").write_text(
            "from pathlib import Path\nfrom fsync_recorder import watch\n"
            f"watch(Path({str(self.folder)!r}), Path({str(self._recorded)!r}))\n"
        )
        self._sees_sqlite = False
        return {"PYTHONPATH": str(modules)}

    def kill_at(self, call: int, *, stops: bool = False) -> None:
        """Have the process killed, or stopped, that makes the ``call``-th I/O call below :attr:`folder` from now on."""
        self._count_from(0, call, stops=stops)

    @property
    def calls(self) -> int:
        """How many there were since :meth:`kill_at`."""
        calls, _, _ = _COUNTED.unpack(self._counted.read_bytes())
        return int(calls)

    def put(self, folder: Path) -> None:
        """Let :attr:`folder` hold what the other one holds, all of it on disk."""
        self._count_from(0, 0)
        shutil.rmtree(self.folder)
        shutil.copytree(folder, self.folder)
        self.forget_nothing()

    def _count_from(self, calls: int, kill_at: int, *, stops: bool = False) -> None:
        # In place: processes that live have it mapped.
        with self._counted.open("r+b") as file:
            file.write(_COUNTED.pack(calls, kill_at, stops))

    def forget_nothing(self) -> None:
        """Let all that is there be on disk."""
        shutil.rmtree(self._recorded, ignore_errors=True)
        self._recorded.mkdir()
        for path in (self.folder, *self.folder.rglob("*")):
            descriptor = os.open(path, os.O_RDONLY)
            record(descriptor, self._recorded)
            os.close(descriptor)

    def run(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> str:
        return _check(command, {**(env or {}), **self.env})

    def cut_power(self) -> None:
        lost = self.folder.with_name("lost")
        shutil.rmtree(lost, ignore_errors=True)
        self.folder.rename(lost)
        self._restore(identity(lost), self.folder)
        if not self._sees_sqlite:
            for path in lost.rglob("*"):
                target = self.folder / path.relative_to(lost)
                if path.name.endswith(_SQLITE) and target.parent.is_dir():
                    shutil.copy(path, target)
        self.forget_nothing()

    def _restore(self, name: str, folder: Path) -> None:
        folder.mkdir()
        entries = self._recorded / name
        for line in entries.read_text().splitlines() if entries.exists() else ():
            kind, its_name, entry = line.split(" ", 2)
            if kind == "d":
                self._restore(its_name, folder / entry)
            else:
                content = self._recorded / its_name
                (folder / entry).write_bytes(content.read_bytes() if content.exists() else b"")


class BlockDevice:
    """An ext4 file system in an image file, mounted while a command runs and in sight of that command alone."""

    def __init__(self, parent: Path) -> None:
        self.folder = parent / "mounted"
        self._image, self._cut = parent / "image", parent / "image-at-the-cut"
        self.folder.mkdir()
        with self._image.open("wb") as image:
            image.truncate(_IMAGE_BYTES)
        _check(["mkfs.ext4", "-q", "-F", str(self._image)])

    def run(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> str:
        # Without commit= the file system would write everything that it knows every 5 seconds.
        script = (
            'image=$1 folder=$2 cut=$3; shift 3; mount -o loop,commit=300 "$image" "$folder"; "$@"; '
            'cp --sparse=always "$image" "$cut"'
        )
        names = [str(self._image), str(self.folder), str(self._cut)]
        return _check(
            ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script, "sh", *names, *command], env
        )

    def cut_power(self) -> None:
        self._cut.replace(self._image)


@cache
def find_compiler() -> str | None:
    """A C compiler that makes a library; None: there is none."""
    return next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)


def has_block_device(parent: Path) -> bool:
    """Whether an image can be made and mounted here."""
    tools = ("mkfs.ext4", "unshare", "mount")
    if os.geteuid() != 0 or not all(map(shutil.which, tools)):
        return False
    trial = parent / "trial"
    trial.mkdir()
    try:
        return BlockDevice(trial).run(["echo", "mounted"]) == "mounted\n"
    except AssertionError:
        return False


def choose_disk(parent: Path) -> Disk:
    """A block device where the machine lets one be made, else a recording."""
    return BlockDevice(parent) if has_block_device(parent) else Recording(parent)


def _check(command: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    paths = [str(ROOT), *([env["PYTHONPATH"]] if env and "PYTHONPATH" in env else [])]
    done = subprocess.run(
        command,
        env={**os.environ, **(env or {}), "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
    return done.stdout


def python(*arguments: str) -> list[str]:
    """A command that runs this Python."""
    return [sys.executable, *arguments]
