"""Lists the stored objects of an archive: files, folders with all that is below them, globs, in object stores too.

Left out are hidden files and folders (a name that begins with a dot), what sinks write beside data
(:data:`SIDECARS`), Spark's checkpoints, files of batches that Spark's file sink did not finish, and what the caller
excludes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import quote

from pyarrow import fs

from winnow.files import storage
from winnow.sources.input_errors import make_file_error, make_read_error, require_decodable
from winnow.sources.objects import StoredObject
from winnow.sources.spark_sink import find_checkpoints, find_sink_folders
from winnow.sources.table_folders import PARTITIONED_MARKERS, find_table_folders, find_table_of

SIDECARS: Final = frozenset(
    {
        "_SUCCESS",
        "_temporary",
        "+tmp",
        "_spark_metadata",
        "_metadata",
        "_common_metadata",
        "_committed",
        "_started",
    }
)
"""Names of files and folders that hold no records. ``_committed`` and ``_started`` have a number behind them."""
_WILDCARD = re.compile(r"[*?\[]")
_NUMBERED_SIDECAR = re.compile(r"_(committed|started)_[0-9]+")


class Listing:
    """Lists paths of one call: each once, however often its objects are asked for."""

    def __init__(self) -> None:
        self._listed: dict[tuple[str, tuple[str, ...]], list[StoredObject]] = {}

    def list_objects(self, paths: Sequence[str], exclude: Sequence[str] = ()) -> list[StoredObject]:
        """List the objects of ``paths``, sorted by their names, each once.

        Args:
            paths: files, folders and globs (``*`` and ``?`` within one name, ``**`` over any folders), as URIs or local
                paths.
            exclude: globs; an object is left out if one of them matches its name or the end of its path.

        Raises:
            BadInputError: a path names nothing, or its name is not UTF-8, or it holds a lake table.
            ServiceError: an object store cannot be reached.
        """
        left_out = [_compile_glob(f"**/{glob}") for glob in exclude]
        kept: dict[str, StoredObject] = {}
        for path in paths:
            if (path, tuple(exclude)) not in self._listed:
                self._listed[path, tuple(exclude)] = list(_list_path(path, left_out))
            listed = self._listed[path, tuple(exclude)]
            if not listed:
                raise make_file_error(path, "there is nothing to read", "check the path; hidden files are left out")
            for stored in listed:
                if not any(pattern.fullmatch(f"/{stored.uri.lstrip('/')}") for pattern in left_out):
                    kept[stored.uri] = stored
        return sorted(kept.values(), key=lambda stored: stored.uri)


def list_objects(paths: Sequence[str], exclude: Sequence[str] = ()) -> list[StoredObject]:
    """List the objects of ``paths`` once; arguments and errors as of :meth:`Listing.list_objects`."""
    return Listing().list_objects(paths, exclude)


def _list_path(path: str, left_out: Sequence[re.Pattern[str]]) -> Iterator[StoredObject]:
    require_decodable(path)
    base, glob = split_glob(path)
    filesystem, name = storage.open_filesystem(base)
    try:
        with storage.translate_store_errors(base):
            info = filesystem.get_file_info(name)
            if info.type == fs.FileType.File and not glob:
                yield _make_stored(path, info)
                return
            if info.type == fs.FileType.Directory:
                _require_no_table_above(base, filesystem, name)
                yield from _list_folder(base, filesystem, name, glob, left_out)
                return
    except UnicodeDecodeError:
        raise make_file_error(
            path, "the folder holds a file whose name is not UTF-8", "rename that file, or name the others one by one"
        ) from None
    except OSError:
        raise make_read_error(path, "it cannot be read", "check its permissions") from None
    raise make_file_error(path, "there is no such file or folder", "check the path")


def _list_folder(
    base: str, filesystem: fs.FileSystem, name: str, glob: str, left_out: Sequence[re.Pattern[str]]
) -> Iterator[StoredObject]:
    wanted = _compile_glob(glob) if glob else None
    listed = filesystem.get_file_info(fs.FileSelector(name, recursive=True))
    below = [info.path[len(name) :].lstrip("/") for info in listed]
    tables = find_table_folders(below)
    checkpoints = find_checkpoints(below)
    logged = [path for path in below if not any(pattern.fullmatch(f"/{path}") for pattern in left_out)]
    sinks = find_sink_folders(filesystem, name, logged)
    for info in listed:
        inside = info.path[len(name) :].lstrip("/")
        if info.type != fs.FileType.File or any(is_sidecar(part) for part in inside.split("/")):
            continue
        if any(not folder or inside.startswith(folder + "/") for folder in checkpoints):
            continue
        sink = next((sink for sink in sinks if sink.holds(inside)), None)
        if sink is not None and inside.rpartition("/")[2] not in sink.committed:
            continue
        # A glob may name a folder, which stands for all below it.
        parts = inside.split("/")
        if wanted is None or any(wanted.fullmatch("/".join(parts[:count])) for count in range(1, len(parts) + 1)):
            table = find_table_of(inside, tables)
            if table is not None:
                raise table.make_error(base)
            # A URI is unquoted when it is opened; a plain path is not.
            yield _make_stored(storage.join(base, quote(inside) if "://" in base else inside), info)


def _require_no_table_above(base: str, filesystem: fs.FileSystem, name: str) -> None:
    """Refuse folders like ``day=2026-03-01`` of a table of Delta Lake or Hudi, whose log lies above them.

    Raises:
        BadInputError: there is such a log.
    """
    above, place = name.rstrip("/"), base.rstrip("/")
    while "=" in above.rpartition("/")[2]:
        above, place = above.rpartition("/")[0], place.rpartition("/")[0]
    if above == name.rstrip("/"):
        return
    markers = [f"{above}/{marker}" for marker in PARTITIONED_MARKERS]
    found = [info.path for info in filesystem.get_file_info(markers) if info.type == fs.FileType.Directory]
    for table in find_table_folders(f"{path.rpartition('/')[2]}/0.json" for path in found):
        raise table.make_error(place)


def is_sidecar(name: str) -> bool:
    """Check whether a file or folder called ``name`` holds no records."""
    return name.startswith(".") or name in SIDECARS or _NUMBERED_SIDECAR.fullmatch(name) is not None


def _make_stored(uri: str, info: fs.FileInfo) -> StoredObject:
    return StoredObject(uri, int(info.size or 0), None if info.mtime_ns is None else int(info.mtime_ns))


def split_glob(path: str) -> tuple[str, str]:
    """Split ``path`` into the folder before its first wildcard and the glob below that, empty without a wildcard."""
    found = _WILDCARD.search(path.partition("://")[2] or path)
    if found is None:
        return path, ""
    place = len(path) - len(path.partition("://")[2] or path) + found.start()
    folder, _, rest = path[:place].rpartition("/")
    return folder or ("/" if path.startswith("/") else "."), rest + path[place:]


def _compile_glob(glob: str) -> re.Pattern[str]:
    parts = []
    for piece in re.split(r"(\*\*/|\*\*|\*|\?|\[[^\]]+\])", glob):
        known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(piece)
        if known is None:
            known = piece if re.fullmatch(r"\[.+\]", piece) else re.escape(piece)
        parts.append(known.replace("[!", "[^", 1) if known.startswith("[!") else known)
    return re.compile("".join(parts), re.DOTALL)
