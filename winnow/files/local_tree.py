"""Lists, creates and deletes local files below one root, through no link.

Whoever may write somewhere below the root can put a link in the place of a folder, at any time. So each folder on the
way is opened from the one above it, without following a link, and what is done in it is done by that descriptor: a
folder that is swapped between a check and an act redirects nothing. The root itself is opened by its real path, since
an administrator may have linked it to another disk.
"""

from __future__ import annotations

import errno
import os
import stat
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from winnow.errors import LinkedFolderError

MAXIMUM_DEPTH: Final = 12
"""Folders below a root that are looked into: Winnow's own files are at most six deep."""

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_FOLDER: Final = frozenset({errno.ELOOP, errno.ENOTDIR})


@dataclass(frozen=True, slots=True)
class FoundFile:
    """One entry below a folder. ``size_bytes`` None: it is no plain file, but a link, a device, a folder too deep."""

    path: str
    size_bytes: int | None


class _NotAFolderError(Exception):
    """A folder on the way is a link, or no folder at all."""


def list_entries(root: Path, parts: Sequence[str]) -> Iterator[FoundFile]:
    """List everything but folders below the folder ``parts`` of ``root``; paths are below that folder.

    A missing folder has no entries. If the folder, or one on the way to it, is no real folder, it is the only entry,
    as ``.``.
    """
    try:
        with _open_folder(root, parts) as folder:
            yield from _walk(folder, "", MAXIMUM_DEPTH)
    except (FileNotFoundError, NotADirectoryError):  # the latter: a file stands in the place of the root, or above it
        return
    except _NotAFolderError:
        yield FoundFile(".", None)


def _walk(folder: int, before: str, depth: int) -> Iterator[FoundFile]:
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        path = f"{before}{entry.name}"
        try:
            status = os.stat(entry.name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode) and depth > 1:
                with _step(folder, entry.name) as below:
                    yield from _walk(below, f"{path}/", depth - 1)
            else:
                yield FoundFile(path, status.st_size if stat.S_ISREG(status.st_mode) else None)
        except FileNotFoundError:
            continue  # another process has deleted it
        except _NotAFolderError:
            yield FoundFile(path, None)


def delete_file(root: Path, parts: Sequence[str]) -> bool:
    """Delete the plain file ``parts`` below ``root``; return whether it is gone. What is no plain file stays.

    Raises:
        OSError: this user may not, or the disk refuses.
    """
    try:
        with _open_folder(root, parts[:-1]) as folder:
            if not stat.S_ISREG(os.stat(parts[-1], dir_fd=folder, follow_symlinks=False).st_mode):
                return False
            os.unlink(parts[-1], dir_fd=folder)
    except FileNotFoundError:
        return True
    except _NotAFolderError:
        return False
    return True


def remove_empty_folders(root: Path, parts: Sequence[str], is_own: Callable[[str], bool]) -> None:
    """Remove the folder ``parts`` of ``root`` and those below it that ``is_own`` names, as far as they are empty.

    ``is_own`` is given their paths below that folder.
    """
    with suppress(OSError, _NotAFolderError):
        with _open_folder(root, parts) as folder:
            _empty(folder, "", is_own, MAXIMUM_DEPTH)
        _remove_folder(root, parts)


def _empty(folder: int, before: str, is_own: Callable[[str], bool], depth: int) -> None:
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False) and is_own(before + entry.name)]
    for name in names if depth else ():
        with suppress(OSError, _NotAFolderError):  # it is not empty, or gone already
            with _step(folder, name) as below:
                _empty(below, f"{before}{name}/", is_own, depth - 1)
            os.rmdir(name, dir_fd=folder)


def remove_emptied_parents(root: Path, parts: Sequence[str]) -> None:
    """Remove the folder ``parts`` of ``root``, then those above it, up to the first that is not empty."""
    for depth in range(len(parts), 0, -1):
        try:
            _remove_folder(root, parts[:depth])
        except FileNotFoundError:
            continue  # it is gone already
        except (OSError, _NotAFolderError):
            return


def remove_empty_folder(root: Path) -> None:
    """Remove the folder ``root`` itself if it is empty and no link."""
    with suppress(OSError), _open_folder(root.parent, ()) as above:
        os.rmdir(root.name, dir_fd=above)


def _remove_folder(root: Path, parts: Sequence[str]) -> None:
    with _open_folder(root, parts[:-1]) as above:
        os.rmdir(parts[-1], dir_fd=above)


def create_file(root: Path, parts: Sequence[str], *, replace: bool) -> int:
    """Create the file ``parts`` below ``root``, with its folders; return a descriptor to write it.

    A file that has the name is never opened: it may be another name of a file elsewhere. With ``replace`` its entry
    goes first.

    Raises:
        LinkedFolderError: a folder on the way is a link.
        FileExistsError: the file exists, and ``replace`` is not set.
    """
    with _open_writable(root, parts[:-1]) as folder:
        try:
            return os.open(parts[-1], _NEW_FILE, 0o666, dir_fd=folder)
        except FileExistsError:
            if not replace:
                raise
            os.unlink(parts[-1], dir_fd=folder)
            return os.open(parts[-1], _NEW_FILE, 0o666, dir_fd=folder)


def write_file(root: Path, parts: Sequence[str], data: bytes) -> None:
    """Write ``data`` to the file ``parts`` below ``root``: a synced draft beside it gets its name.

    Raises:
        LinkedFolderError: a folder on the way is a link.
    """
    with _open_writable(root, parts[:-1]) as folder:
        os.replace(_write_draft(folder, parts[-1], data), parts[-1], src_dir_fd=folder, dst_dir_fd=folder)


def write_new_file(root: Path, parts: Sequence[str], data: bytes) -> bool:
    """Write as :func:`write_file`, unless the name is taken; return whether it was written.

    Of several at once one writes it. Where the disk has no hard links, each that finds no file writes it.

    Raises:
        LinkedFolderError: a folder on the way is a link.
    """
    name = parts[-1]
    with _open_writable(root, parts[:-1]) as folder:
        draft = _write_draft(folder, name, data)
        try:
            os.link(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        except FileExistsError:
            return False
        except OSError:
            with suppress(FileNotFoundError):
                os.stat(name, dir_fd=folder, follow_symlinks=False)
                return False
            os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(draft, dir_fd=folder)
    return True


def _write_draft(folder: int, name: str, data: bytes) -> str:
    draft = f".{name}.{uuid.uuid4().hex}"
    with os.fdopen(os.open(draft, _NEW_FILE, 0o666, dir_fd=folder), "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    return draft


@contextmanager
def _open_writable(root: Path, parts: Sequence[str]) -> Iterator[int]:
    root.mkdir(parents=True, exist_ok=True)
    try:
        with _open_folder(root, parts, create=True) as folder:
            yield folder
    except _NotAFolderError as problem:
        raise LinkedFolderError(
            f"{problem} is a link, or no folder, so nothing was written there: below {root} Winnow follows no links.",
            next=(
                "Find out what else writes there, remove it or put the folder that it leads to in its place, then run "
                "it again."
            ),
        ) from None


@contextmanager
def _open_folder(root: Path, parts: Sequence[str], *, create: bool = False) -> Iterator[int]:
    """Open the folder ``parts`` below ``root``, one after the other.

    Raises:
        FileNotFoundError: it is missing.
        _NotAFolderError: with its path: it is a link, or no folder.
    """
    folder = os.open(os.path.realpath(root), _FOLDER)
    try:
        for depth, part in enumerate(parts):
            if create:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
            below = _open_below(folder, part, str(root.joinpath(*parts[: depth + 1])))
            os.close(folder)
            folder = below
        yield folder
    finally:
        os.close(folder)


@contextmanager
def _step(folder: int, name: str) -> Iterator[int]:
    below = _open_below(folder, name, name)
    try:
        yield below
    finally:
        os.close(below)


def _open_below(folder: int, name: str, shown: str) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except OSError as problem:
        if problem.errno in _NO_FOLDER:
            raise _NotAFolderError(shown) from None
        raise
