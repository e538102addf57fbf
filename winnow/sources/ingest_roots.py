"""Checks that paths named by somebody else than the user of this process lie below the folders opened for that.

A command at the shell reads with the rights of whoever types it. A DAG run reads with Airflow's rights whatever a user
of Airflow names, so it may read only below the setting ``ingest.roots``, and keys only below ``erase.roots``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlparse

from winnow.errors import UsageError
from winnow.files import storage
from winnow.sources.listing import list_objects, split_glob


def check_ingest_paths(paths: Sequence[str], roots: Sequence[str]) -> None:
    """Check that everything that ``paths`` name lies below one of ``roots``.

    Local paths are followed through symbolic links, those of the files below a folder too. URIs of object stores are
    compared by scheme, bucket and prefix.

    Raises:
        UsageError: a path leads elsewhere; whether something is there is not said.
        BadInputError: there is nothing below a path that is allowed.
        ServiceError: an object store cannot be reached.
    """
    for path in paths:
        folder, _ = split_glob(path)
        if find_below_roots(folder, roots) is None:
            raise _make_root_error(path, roots)
        if storage.is_local(folder):
            for stored in list_objects([path]):
                if find_below_roots(stored.uri, roots) is None:
                    raise _make_root_error(path, roots)


def find_below_roots(path: str, roots: Sequence[str]) -> str | None:
    """Return where ``path`` leads through symbolic links if that lies below one of ``roots``; None: it does not."""
    if not storage.is_local(path):
        parsed = urlparse(path)
        parts = unquote(parsed.path).split("/")
        places = [urlparse(root) for root in roots if not storage.is_local(root)]
        is_below = ".." not in parts and any(
            (parsed.scheme, parsed.netloc) == (place.scheme, place.netloc)
            and f"{'/'.join(parts)}/".startswith(f"{place.path.rstrip('/')}/")
            for place in places
        )
        return path if is_below else None
    local = storage.parse_local_path(path)
    if not local.is_absolute():
        return None
    target = _resolve(local)
    folders = [storage.parse_local_path(root) for root in roots if storage.is_local(root)]
    return str(target) if any(target.is_relative_to(_resolve(folder)) for folder in folders) else None


def _resolve(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # a loop of links
        return Path("/nowhere")


def _make_root_error(path: str, roots: Sequence[str]) -> UsageError:
    allowed = ", ".join(roots) or "none"
    return UsageError(
        f"{storage.format_path(path)} is not below a folder that DAG runs may read ({allowed}), or a link in it leads "
        "out of there.",
        left="Nothing of this entry was ingested.",
        next="Put the files there, or add their folder to the setting ingest.roots and restart Airflow.",
    )
