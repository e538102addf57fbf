"""Watches what Winnow's code opens for writing, deletes, renames and makes below a lake, by Python's audit events.

The rules here are written apart from Winnow's own: a list of the names that may go or come, and no link on the way. A
path that breaks them stops the process at that line. Only acts of Winnow count: tests damage what they like. Arrow and
DuckDB work in C++ where no event is raised; so Winnow deletes and creates local files by Python's ``os``.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]

_HEX = "[0-9a-f]{32}"
_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_PART = r"\w[\w.-]*"
_DRAFT = rf"(?:\.{_HEX})?"
_IN_TABLE = (
    rf"metadata/(?:(?:optimized-m-)?{_UUID}(?:-m\d+)?\.avro|snap-\d+-\d+-{_UUID}\.avro|\d+-{_UUID}\.metadata\.json)",
    rf"_winnow/(?:state|receipts|ingests|erasures|chains)/\.?{_PART}\.json{_DRAFT}",
    rf"data/(?:{_PART}/)*\.?{_PART}\.(?:parquet|json){_DRAFT}",
)
_FILES = {
    "warehouse": re.compile(
        rf"{_PART}/[\w.-]+/(?:{'|'.join(_IN_TABLE)})|{_PART}_deleted/\.?[\w.~-]+\.deleted{_DRAFT}"
        rf"|\.?{_PART}_(?:installation|restore)\.json{_DRAFT}|\.?winnow-doctor-[\w.-]+"
    ),
    "staging": re.compile(
        rf"plans/[\w.-]+/{_HEX}/(?:\.?plan\.json{_DRAFT}|{_PART}/\.?(?:manifest|facts)\.json{_DRAFT})"
        rf"|compare/[\w.-]+/\.?{_HEX}(?:\.result)?\.json{_DRAFT}|\.?winnow-doctor-[\w.-]+"
    ),
}
_FOLDERS = {
    "warehouse": re.compile(rf"(?:{_PART})(?:/[\w.-]+(?:/(?:metadata|_winnow(?:/\w+)?|data(?:/{_PART})*))?)?"),
    "staging": re.compile(rf"(?:plans|compare)(?:/[\w.-]+(?:/{_PART}(?:/{_PART})?)?)?"),
}
_CREATED = os.O_WRONLY | os.O_RDWR
_BY_DESCRIPTOR = os.O_EXCL | os.O_NOFOLLOW


class ForbiddenPathError(BaseException):
    """Winnow's code has touched a path that no record can name. Nothing in Winnow catches it."""


def may_be_named(lake: str, path: str) -> bool:
    """Whether a record of Winnow's can name the file ``path`` below ``lake``; with a slash at its end, the folder."""
    if path.endswith("/"):
        return _FOLDERS[lake].fullmatch(path.removesuffix("/")) is not None
    return _FILES[lake].fullmatch(path) is not None


def _find_folder(folder: int) -> str:
    return str(Path(f"/proc/self/fd/{folder}").readlink() if folder >= 0 else Path.cwd())


def _check(act: str, path: Any, folder: int, allowed: dict[str, re.Pattern[str]]) -> None:
    text = os.fsdecode(path)
    given = text if text.startswith("/") else f"{_find_folder(folder)}/{text}"
    above, _, name = given.rstrip("/").rpartition("/")
    real = f"{os.path.realpath(above)}/{name}"
    for lake, pattern in allowed.items():
        for seen in (given, real):
            home, found, below = seen.partition(f"/home/{lake}/")
            if not found:
                continue
            expected = f"{os.path.realpath(f'{home}/home/{lake}')}/{below.rstrip('/')}"
            if pattern.fullmatch(below.rstrip("/")) is None or real != expected:
                raise ForbiddenPathError(f"{act}: {seen!r} ({given!r} is {real!r})")


def _is_winnows() -> bool:
    """Whether the call comes from Winnow's code, or a library's that Winnow called, and not from a test's."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(f"{ROOT}/tests/") and name != __file__:
            return False
        if name.startswith(f"{ROOT}/winnow/"):
            return True
        frame = frame.f_back
    return False


def _watch_open(path: Any, mode: Any, flags: Any) -> None:
    if not isinstance(flags, int) or not flags & _CREATED or isinstance(path, int):
        return
    if not os.fsdecode(path).startswith("/") and flags & _BY_DESCRIPTOR == _BY_DESCRIPTOR:
        return  # below a descriptor, of which the event does not tell: made anew, and through no link
    _check("open", path, -1, _FILES)


def _watch_rename(src: Any, dst: Any, of_src: int, of_dst: int) -> None:
    _check("rename", src, of_src, _FILES)
    _check("rename", dst, of_dst, _FILES)


_EVENTS: dict[str, Callable[..., None]] = {
    "open": _watch_open,
    "os.remove": lambda path, folder: _check("remove", path, folder, _FILES),
    "os.rmdir": lambda path, folder: _check("rmdir", path, folder, _FOLDERS),
    "os.mkdir": lambda path, mode, folder: _check("mkdir", path, folder, _FOLDERS),
    "os.rename": _watch_rename,
    "os.link": lambda src, dst, of_src, of_dst: _check("link", dst, of_dst, {}),
    "os.symlink": lambda src, dst, folder: _check("symlink", dst, folder, {}),
    "os.truncate": lambda path, length: None if isinstance(path, int) else _check("truncate", path, -1, _FILES),
}
_installed: list[bool] = []
_watching: list[bool] = []
_busy = threading.local()


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    watch = _EVENTS.get(event)
    if watch is None or not _watching or getattr(_busy, "now", False):
        return
    _busy.now = True  # what the check itself does is not watched
    try:
        if _is_winnows():
            watch(*arguments)
    finally:
        _busy.now = False


def install() -> None:
    """Watch this process, and those that it forks, from now on."""
    if not _installed:
        sys.addaudithook(_hear)  # it cannot be removed
        _installed.append(True)
    _watching[:] = [True]


@contextmanager
def watch_paths() -> Iterator[None]:
    """Watch this process for as long as the block runs."""
    install()
    try:
        yield
    finally:
        _watching.clear()
