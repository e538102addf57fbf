"""From what a user names to the files that are read, in order."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from pyarrow import fs

from winnow.files import storage
from winnow.sources.refusals import make_read_error, refuse_file, refuse_undecodable

JSON_LINES = (".jsonl", ".jsonl.gz", ".json")
PARQUET = (".parquet",)
KNOWN = JSON_LINES + PARQUET


def expand_paths(paths: Sequence[str]) -> list[str]:
    """The files behind ``paths``, in the order given.

    A folder stands for the files directly in it whose name ends in :data:`KNOWN`, sorted by name; hidden ones and those
    that begin with ``_`` (as Spark's ``_SUCCESS``) are left out. Paths may be URIs.

    Raises:
        BadInputError: a path is not there, a folder holds no such file, or a file's name ends otherwise.
        ServiceError: an object store cannot be reached.
    """
    return [file for path in paths for file in _expand_path(path)]


def check_suffix(path: str) -> None:
    """Refuse a file whose name does not say what it holds.

    Raises:
        BadInputError: the name ends in none of :data:`KNOWN`.
    """
    if not path.endswith(KNOWN):
        raise refuse_file(path, "the name does not say what the file holds", f"it must end in {_filter_known()}")


def _expand_path(path: str) -> list[str]:
    refuse_undecodable(path)
    filesystem, name = storage.open_filesystem(path)
    try:
        with storage.translate_store_errors(path):
            kind = filesystem.get_file_info(name).type
        if kind == fs.FileType.Directory:
            return _list_folder(path, filesystem, name)
    except UnicodeDecodeError:
        raise refuse_file(
            path, "the folder holds a file whose name is not UTF-8", "rename that file, or name the others one by one"
        ) from None
    except OSError:
        raise make_read_error(path, "it cannot be looked at", "check its permissions") from None
    if kind == fs.FileType.NotFound:
        raise refuse_file(path, "there is no such file or folder", "check the path")
    if kind != fs.FileType.File:
        raise refuse_file(path, "this is neither a file nor a folder", "name a file or a folder of files")
    check_suffix(path)
    return [path]


def _list_folder(path: str, filesystem: fs.FileSystem, name: str) -> list[str]:
    found = sorted(
        entry.base_name
        for entry in filesystem.get_file_info(fs.FileSelector(name))
        if entry.type == fs.FileType.File
        and entry.base_name.endswith(KNOWN)
        and not entry.base_name.startswith((".", "_"))
    )
    if not found:
        raise refuse_file(
            path,
            f"the folder holds no file that ends in {_filter_known()}",
            "folders below it are not looked into; name them",
        )
    # A URI is unquoted when it is opened, a plain path is not.
    return [storage.join(path, quote(file) if "://" in path else file) for file in found]


def _filter_known() -> str:
    return ", ".join(KNOWN[:-1]) + f" or {KNOWN[-1]}"
