"""Archives of the classes that JVMs of this environment load, so that they map them instead of reading jars (JEP 350).

A JVM starts with about half of the work. An archive belongs to one Java and one set of jars, which name it; the JVM
checks that again and goes without an archive that does not fit. It rests in the environment, and goes with it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Final

QUIET: Final = "-Xlog:cds*=off"
"""The JVM warns of each class that it leaves out, and of an archive that does not fit."""


def locate_archive(name: str, java: Path, jars: Iterable[Path]) -> Path:
    """Locate the archive of what loads classes of ``jars``, whether there is one or not."""
    told = hashlib.sha256()
    for path in (java, *jars):
        file = path.stat()
        told.update(f"{path} {file.st_size} {file.st_mtime_ns}\n".encode())
    return Path(sysconfig.get_path("data")) / ".class-archives" / f"{name}-{told.hexdigest()[:16]}.jsa"


def format_options_to_write(draft: Path) -> list[str]:
    """Return the options of a JVM that writes its archive as it ends."""
    return [f"-XX:ArchiveClassesAtExit={draft}", QUIET]


def format_options_to_use(archive: Path) -> list[str]:
    """Return the options of a JVM that uses ``archive``; none where it does not exist."""
    return [f"-XX:SharedArchiveFile={archive}", QUIET] if archive.exists() else []


def keep_archive(draft: Path, archive: Path) -> None:
    """Put what a JVM has written in its place; nothing happens where it wrote none, or the environment is others'."""
    with contextlib.suppress(OSError):
        archive.parent.mkdir(exist_ok=True)
        beside = archive.with_suffix(f".{os.getpid()}")
        shutil.move(draft, beside)
        beside.replace(archive)
        name, _, _ = archive.stem.rpartition("-")
        for other in archive.parent.glob(f"{name}-????????????????.jsa"):
            if other != archive:
                other.unlink(missing_ok=True)  # of other jars
