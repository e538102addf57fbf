"""Compares the places of files and folders, whichever way a catalog writes them: file:/ for file:///, s3a for s3."""

from __future__ import annotations

from winnow.files import object_store, storage


def is_same_place(one: str, other: str) -> bool:
    """Check whether two locations are the same folder or file, whichever way they are written."""
    return normalize_place(one) == normalize_place(other)


def is_below(place: str, folder: str) -> bool:
    """Check whether ``place`` is below ``folder`` by its name, with no step upwards; links are not looked at."""
    path, start = normalize_place(place), f"{normalize_place(folder)}/"
    return path.startswith(start) and not {"..", ".", ""} & set(path.removeprefix(start).split("/"))


def normalize_place(location: str) -> str:
    """Return one spelling for a place: a local one as its path, one in a store with one name for S3."""
    if storage.is_local(location):
        return str(storage.parse_local_path(location))
    scheme, _, rest = location.partition("://")
    return f"{'s3' if scheme in object_store.S3_SCHEMES else scheme}://{rest.rstrip('/')}"
