"""The archive of the classes that Spark's driver loads, so that its JVM maps them instead of reading jars (JEP 350).

The JVM of the first application writes it at its end; later ones start faster by a third. It belongs to one Java, one
set of jars and one set of options, which name it; the JVM checks that again and goes without an archive that does not
fit. It rests in ``$XDG_CACHE_HOME/winnow/class-archives`` (``~/.cache`` without it), a folder that only its owner can
write to, since a JVM runs what is in it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from winnow.errors import WinnowError
from winnow.files.private_files import make_private_folder

KEPT: Final = 3
"""Archives that stay, the newest; each has about 60 MB."""

MAXIMUM_TRIES: Final = 3
"""Applications that may end without an archive before no further one is asked for it."""

_OWN_CHOICES: Final = ("-Xshare", "SharedArchiveFile", "ArchiveClassesAtExit", "AutoCreateSharedArchive")
"""Parts of options by which somebody has chosen an archive, or none."""

_OPTION_VARIABLES: Final = ("JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
"""Variables with further options of the driver's JVM, which starts with one choice of an archive at most."""

_QUIET: Final = "-Xlog:cds*=off"
"""The JVM warns of each class that it leaves out, and of an archive that does not fit."""


@contextmanager
def use_class_archive(options: str, env: Mapping[str, str]) -> Iterator[str]:
    """Yield the driver's JVM ``options`` with those for its archive, for the time that the JVM runs.

    The first time the JVM writes the archive as it ends. Where that came to nothing (it was killed, it cannot, there is
    no room), it is tried :data:`MAXIMUM_TRIES` times. ``options`` that choose an archive themselves stay as they are,
    and so do all where the cache cannot be used.
    """
    folder = _open_folder(env)
    all_options = " ".join([options, *(env.get(name, "") for name in _OPTION_VARIABLES)])
    is_chosen = any(part in all_options for part in _OWN_CHOICES)
    name = None if folder is None or is_chosen else name_archive(options, env)
    if folder is None or name is None or _count_tries(tries := folder / f"{name}.tries") >= MAXIMUM_TRIES:
        yield options
        return
    archive = folder / f"{name}.jsa"
    if archive.exists():
        with suppress(OSError):
            os.utime(archive)
        yield f"{options} -XX:SharedArchiveFile={archive} {_QUIET}".strip()
        return
    with _open_draft_folder(folder) as own:
        if own is None:
            yield options
            return
        draft = own / f"{name}.draft"
        yield f"{options} -XX:ArchiveClassesAtExit={draft} {_QUIET}".strip()
        with suppress(OSError):
            if draft.exists():
                draft.replace(archive)
                tries.unlink(missing_ok=True)
                _remove_old(folder)
            else:
                with tries.open("ab") as stream:
                    stream.write(b".")


@contextmanager
def _open_draft_folder(folder: Path) -> Iterator[Path | None]:
    """Provide a folder of this process alone, since several may be the first; None if it cannot be made.

    It is locked while it is in use. Those of processes that were killed are removed with the drafts in them.
    """
    with ExitStack() as stack:
        try:
            own = stack.enter_context(make_private_folder(folder))
        except WinnowError:
            yield None
            return
        yield own


def name_archive(options: str, env: Mapping[str, str]) -> str | None:
    """Name the archive of this Java, this Spark and these options.

    None where Java or Spark cannot be found, and where Spark has a folder with configuration: it is on the JVM's class
    path, and a JVM that is to write an archive then ends with an error.
    """
    java, jars = _find_java(env), _find_jars(env)
    if java is None or jars is None or _has_configuration(env, jars):
        return None
    told = hashlib.sha256(f"{java}\n{_describe(java)}\n{options}\n".encode())
    for jar in sorted(jars.glob("*.jar")):
        told.update(f"{jar}\n{_describe(jar)}\n".encode())
    return told.hexdigest()[:32]


def _count_tries(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _find_java(env: Mapping[str, str]) -> Path | None:
    home = env.get("JAVA_HOME")
    found = f"{home}/bin/java" if home else shutil.which("java", path=env.get("PATH"))
    return Path(found).resolve() if found and Path(found).exists() else None


def _find_jars(env: Mapping[str, str]) -> Path | None:
    home = env.get("SPARK_HOME")
    spec = None if home else find_spec("pyspark")
    folder = Path(home) if home else None if spec is None or spec.origin is None else Path(spec.origin).parent
    return None if folder is None or not (folder / "jars").is_dir() else (folder / "jars").resolve()


def _has_configuration(env: Mapping[str, str], jars: Path) -> bool:
    folders = [env.get("SPARK_CONF_DIR") or jars.parent / "conf", env.get("HADOOP_CONF_DIR"), env.get("YARN_CONF_DIR")]
    return any(Path(folder).is_dir() and any(Path(folder).iterdir()) for folder in folders if folder)


def _describe(path: Path) -> str:
    found = path.stat()
    return f"{found.st_size} {found.st_mtime_ns}"


def _open_folder(env: Mapping[str, str]) -> Path | None:
    """Make the folder of archives, if need be; None if it cannot be made, or others could write to it."""
    try:
        cache = Path(env.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = cache / "winnow" / "class-archives"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = folder.stat()
    except (OSError, RuntimeError):
        return None
    is_private = found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    # Spaces would split the option.
    return folder if is_private and os.access(folder, os.W_OK) and not any(c.isspace() for c in str(folder)) else None


def _remove_old(folder: Path) -> None:
    """Remove all but the newest archives and counts of tries.

    Whoever misses one of them afterwards tries again, and that is all.
    """
    for pattern in ("*.jsa", "*.tries"):
        newest = sorted(folder.glob(pattern), key=lambda path: path.stat().st_mtime_ns, reverse=True)
        for path in newest[KEPT:]:
            path.unlink(missing_ok=True)
