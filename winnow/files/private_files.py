"""Private files and temporary folders that only their owner can read.

The umask does not matter. Such a folder (for spill, a spool, a file with secrets) is removed when its user is done;
what a killed process left is removed when the next one begins. A folder is in use while a lock (``flock``) on the file
beside it is held, and the kernel drops a lock with the process that holds it. A process id, a host name or a clock
would prove nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import os
import re
import shutil
import stat
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from winnow.errors import ConfigurationError, ServiceError

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
SPARK_LOCAL_DIRS: Final = "SPARK_LOCAL_DIRS"
"""The variable in which Spark gives its Python workers their local folders, which it removes at the end."""

_LOCK: Final = ".lock"
_OWN_NAME: Final = re.compile(r"[0-9a-f]*-[0-9a-f]{16}")
"""Of private folders: the boot and a random number."""
_LOCAL_FILE_SYSTEMS: Final = frozenset(
    {"btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
)
_MAXIMUM_CREATE_TRIES: Final = 5


@contextmanager
def make_private_folder(place: str | Path | None) -> Iterator[Path]:
    """Provide a new private folder below ``place``, removed at the end of the block; removes abandoned ones first.

    Args:
              place: a local folder, which need not exist; None: the first of Spark's local folders, else the system's
              temporary
                      folder.

    Raises:
        ServiceError: it cannot be made (no space, no right to write); the message names the place.
        ConfigurationError: the folder there belongs to another user.
    """
    with translate_disk_errors(place := str(place or find_default_place())):
        root = _open_root(Path(place))
        _remove_abandoned(root)
        lock, path = _claim_folder(root)
    yield from _hold_folder(lock, path)


@contextmanager
def make_draft_folder(place: Path) -> Iterator[Path]:
    """Provide a new private folder beside ``place``, which may be moved there; else it is removed at the end.

    Those that killed processes left beside ``place`` are removed first. Its name begins with a dot and that of
    ``place``.

    Raises:
        OSError: it cannot be made.
        ServiceError: others deleted it each time.
    """
    prefix = f".{place.name}."
    _remove_abandoned(place.parent, prefix)
    yield from _hold_folder(*_claim_folder(place.parent, prefix))


def _hold_folder(lock: int, path: Path) -> Iterator[Path]:
    owner = os.getpid()
    try:
        yield path
    finally:
        # A child forked meanwhile also leaves the block, and must not remove its parent's folder.
        if os.getpid() == owner:
            _remove(path, _locate_lock(path))
        os.close(lock)


def find_default_place() -> str:
    """Return Spark's first local folder, else the system's temporary folder."""
    return os.environ.get(SPARK_LOCAL_DIRS, "").split(",")[0] or tempfile.gettempdir()


def remove_abandoned(place: str | Path) -> int:
    """Remove the private folders below ``place`` whose users were killed; return how many.

    Does nothing where there are none, or where this process has no right to.
    """
    try:
        root = Path(place) / _name()
        return _remove_abandoned(root) if _is_ours(root) else 0
    except OSError:
        return 0


def write_file(path: Path, text: str) -> Path:
    """Create the file ``path`` with ``text``, readable only by its owner."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        os.fchmod(handle, FILE_MODE)  # the umask may have removed rights of the owner
        stream.write(text)
    return path


def create_private(path: Path) -> None:
    """Create ``path`` as an empty file that only its owner can read; an existing file stays as it is.

    The file is not opened: closing a database's file would drop the locks that this process holds on it.
    """
    with contextlib.suppress(FileExistsError):
        os.mknod(path, stat.S_IFREG | FILE_MODE)
        path.chmod(FILE_MODE)  # the umask may have removed rights of the owner


def restrict_database_access(database: Path) -> None:
    """Remove other users' rights to a database file and to those that SQLite keeps beside it.

    Files of another user, and files that cannot be changed, stay as they are.
    """
    for suffix in ("", "-wal", "-shm", "-journal"):
        path = database.with_name(f"{database.name}{suffix}")
        with contextlib.suppress(OSError):
            found = path.lstat()
            if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_mode & 0o077:
                path.chmod(stat.S_IMODE(found.st_mode) & ~0o077)


@contextmanager
def translate_disk_errors(place: str | Path, setting: str = "WINNOW_ENGINE__SPILL_FOLDER") -> Iterator[None]:
    """Turn errors of the disk below ``place`` into a message that names ``setting``, which decides the place.

    Raises:
        ServiceError: the disk is full, or ``place`` cannot be written to; other errors are let through.
    """
    try:
        yield
    except OSError as problem:
        if problem.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise ServiceError(
                f"There is no space left below {place}.",
                next=f"Make room there, or point {setting} at a larger disk, then run it again.",
            ) from problem
        if problem.errno in {errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO}:
            raise ServiceError(
                f"{place} cannot be written to ({problem.strerror}).",
                next=f"Make it writable for this user, or point {setting} at another place, then run it again.",
            ) from problem
        raise


def _name() -> str:
    return f"winnow-{os.geteuid()}"


def _is_ours(root: Path) -> bool:
    try:
        found = root.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _open_root(place: Path) -> Path:
    """Return this user's folder below ``place``, which holds the private folders; create it if missing."""
    root = place / _name()
    place.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        root.mkdir(FOLDER_MODE)
    if not _is_ours(root):
        # In a world-writable folder anybody may have created it, to read what is kept there.
        raise ConfigurationError(
            f"{root} is not a folder of this user, so no private files are put there and nothing was started.",
            next="Remove it, or point WINNOW_ENGINE__SPILL_FOLDER at another folder.",
        )
    root.chmod(FOLDER_MODE)
    return root


def _claim_folder(root: Path, prefix: str = "") -> tuple[int, Path]:
    """Create a folder below ``root`` and return it with the lock that marks it as in use."""
    for _ in range(_MAXIMUM_CREATE_TRIES):
        path = root / f"{prefix}{_read_boot_id()}-{uuid.uuid4().hex[:16]}"
        lock = os.open(_locate_lock(path), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        try:
            # Another process may have seen the file before it was locked, taken it for abandoned and removed it.
            if _try_lock(lock) and _is_same_file(lock, _locate_lock(path)):
                path.mkdir(FOLDER_MODE)
                path.chmod(FOLDER_MODE)
                return lock, path
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)
    raise ServiceError(
        f"No private folder could be made below {root}: others deleted it each time.",
        next="Run it again.",
    )


def _remove_abandoned(root: Path, prefix: str = "") -> int:
    removed = 0
    for lock_path in sorted(root.glob(f"{glob.escape(prefix)}*{_LOCK}")):
        path = lock_path.with_name(lock_path.name.removesuffix(_LOCK))
        # Whatever else is beside a folder of the user's choice is the user's.
        name = path.name.removeprefix(prefix)
        if _OWN_NAME.fullmatch(name) is None or not _is_lock_reliable(path.with_name(name)):
            continue
        try:
            lock = os.open(lock_path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # its user has just removed it
        try:
            if _try_lock(lock) and _is_same_file(lock, lock_path):
                _remove(path, lock_path)
                removed += 1
        finally:
            os.close(lock)
    return removed


def _remove(path: Path, lock_path: Path) -> None:
    # The lock last: a folder without a lock file would never be removed.
    shutil.rmtree(path, ignore_errors=True)
    if not path.exists():
        with contextlib.suppress(OSError):
            lock_path.unlink()


def _locate_lock(path: Path) -> Path:
    return path.with_name(f"{path.name}{_LOCK}")


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_same_file(lock: int, path: Path) -> bool:
    """Check whether ``path`` names the file that ``lock`` has open."""
    try:
        return os.path.samestat(os.fstat(lock), path.stat())
    except FileNotFoundError:
        return False


def _is_lock_reliable(path: Path) -> bool:
    """Check whether getting a folder's lock proves that nobody uses it.

    On a local file system all users ask the same kernel. A shared one may keep locks per machine, so there only folders
    made under this kernel since its start count.
    """
    boot = _read_boot_id()
    return _find_file_system(path.parent) in _LOCAL_FILE_SYSTEMS or (bool(boot) and path.name.startswith(f"{boot}-"))


@cache
def _read_boot_id() -> str:
    """Return the id of this boot of the kernel; empty where it is unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")[:16]
    except OSError:
        return ""


@cache
def _find_file_system(path: Path) -> str:
    """Return the type of the file system of ``path``; empty where it is unknown."""
    try:
        lines = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return ""
    real, found, longest = path.resolve(), "", -1
    for line in lines:
        before, _, after = line.partition(" - ")
        point = Path(before.split()[4].encode().decode("unicode_escape"))
        if len(point.parts) >= longest and real.is_relative_to(point):
            found, longest = after.split()[0], len(point.parts)
    return found
