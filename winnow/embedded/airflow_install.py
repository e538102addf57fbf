"""Puts Winnow's DAGs and plugin into the folders of an Airflow that runs already, as copies or as links.

The DAGs go into a folder of their own, ``winnow_dags``, below Airflow's DAG folder; the plugin's file and its package
go beside other plugins. A record (:data:`RECORD_NAME`, with the sha256 of each file) lies in both, so a later
installation knows what it may replace. Every file is moved into place whole, hidden files too.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from winnow import __version__
from winnow.embedded.bundle import find_bundled_folder
from winnow.errors import UsageError

DAGS_NAME: Final = "winnow_dags"
"""Not ``winnow``: Airflow puts its DAG folder on the path of imports."""

RECORD_NAME: Final = ".winnow-installed.json"
"""The record's name: hidden, so that neither DAG processor nor plugin loader reads it."""

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Placement:
    """Where one part goes. ``target`` lies directly in the folder ``root``, which is Airflow's own.

    ``source`` is a folder or a file of this installation; ``record`` is where the record of the part is kept.
    """

    source: Path
    root: Path
    name: str
    record: Path

    @property
    def target(self) -> Path:
        """The folder or file in Airflow's folder."""
        return self.root / self.name


@dataclass(frozen=True, slots=True)
class InstalledFiles:
    """What was done: how many files were written, how many were there already, how many of an earlier one went."""

    placements: tuple[Placement, ...]
    is_linked: bool
    written: int = 0
    unchanged: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """How the files in Airflow's folders compare with those of this installation.

    ``version``: the Winnow that the record names, None without a record. ``differing``: targets that are missing, or
    have another content; ``is_linked``: nothing is copied; ``is_absent``: nothing was ever installed there.
    """

    version: str | None = None
    differing: list[Path] = field(default_factory=list)
    is_linked: bool = False
    is_absent: bool = False


def list_placements(dags: Path, plugins: Path) -> tuple[Placement, ...]:
    """List what goes into Airflow's folders ``dags`` and ``plugins``.

    Raises:
        ConfigurationError: this installation of Winnow is incomplete.
    """
    dags, plugins = dags.absolute(), plugins.absolute()
    of_plugins = plugins / "winnow_airflow" / RECORD_NAME
    bundled = find_bundled_folder("plugins")
    return (
        # The plugin first: the DAGs import it.
        Placement(bundled / "winnow_airflow", plugins, "winnow_airflow", of_plugins),
        Placement(bundled / "winnow_plugin.py", plugins, "winnow_plugin.py", of_plugins),
        Placement(find_bundled_folder("dags"), dags, DAGS_NAME, dags / DAGS_NAME / RECORD_NAME),
    )


def install(dags: Path, plugins: Path, *, link: bool) -> InstalledFiles:
    """Copy or link Winnow's files into Airflow's folders; a second call changes nothing.

    What is not Winnow's, or was changed by hand, is found before anything is written.

    Raises:
        UsageError: such a file is in the way, or a folder cannot be written to; the message names it.
        ConfigurationError: this installation of Winnow is incomplete.
    """
    placements = list_placements(dags, plugins)
    for placement in placements:
        if _is_bundle(placement):
            raise UsageError(
                f"{placement.root} is a folder of this installation of Winnow, so Airflow reads its files already.",
                left="Nothing was changed.",
                next="Name the folders of another Airflow.",
            )
    foreign = [path for placement in placements for path in _list_foreign(placement, link=link)]
    if foreign:
        more = f" and {len(foreign) - _SHOWN:,} more" if len(foreign) > _SHOWN else ""
        raise UsageError(
            f"{', '.join(map(str, foreign[:_SHOWN]))}{more} would be replaced, but did not come from Winnow or was "
            "changed since.",
            left="Nothing was changed.",
            next="Move it away, then run it again.",
        )
    try:
        return _link_all(placements) if link else _copy_all(placements)
    except OSError as problem:
        raise UsageError(
            f"{problem.filename or 'A file'} cannot be written: {problem.strerror or problem}.",
            left="Files before it are in place, and running it again completes them.",
            next="Give this user access to the folder first.",
        ) from problem


def compare_installed(dags: Path, plugins: Path) -> Comparison:
    """Compare what Airflow's folders hold with this installation; changes nothing."""
    placements = list_placements(dags, plugins)
    # Airflow may read the installation's own folders.
    placements = tuple(each for each in placements if not _is_bundle(each))
    if not placements:
        return Comparison(is_linked=True)
    if not any(os.path.lexists(placement.target) for placement in placements):
        return Comparison(is_absent=True)
    versions = {_read_record(placement.record).get("winnow") for placement in placements}
    differing = [
        target
        for placement in placements
        for target, source in _list_files(placement).items()
        if _hash_file(target) != _hash_file(source)
    ]
    linked = all(placement.target.resolve() == placement.source.resolve() for placement in placements)
    named = sorted(str(version) for version in versions if version)
    return Comparison(" and ".join(named) or None, differing, is_linked=linked)


def _list_files(placement: Placement) -> dict[Path, Path]:
    """The files of ``placement`` by where they go; what Python compiles is made again there."""
    if placement.source.is_file():
        return {placement.target: placement.source}
    return {
        placement.target / path.relative_to(placement.source): path
        for path in sorted(placement.source.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts and path.name != RECORD_NAME
    }


def _list_foreign(placement: Placement, *, link: bool) -> list[Path]:
    """The files that this placement would replace or remove, and that no installation of Winnow wrote."""
    target = placement.target
    if not os.path.lexists(target):
        return []
    if target.is_symlink():
        return [] if _is_own_link(placement) else [target]
    wanted, known = _list_files(placement), _read_known(placement)
    if target.is_dir() != placement.source.is_dir():
        return [target]
    there: Iterable[Path] = wanted
    if link:
        # The whole folder makes way for the link.
        there = [path for path in target.rglob("*") if "__pycache__" not in path.parts and not path.is_dir()]
        there = [path for path in there if path != placement.record] if target.is_dir() else [target]
    return [
        path
        for path in there
        if os.path.lexists(path)
        and (found := _hash_file(path)) not in known.get(path, ())
        and not (path in wanted and found == _hash_file(wanted[path]))
    ]


def _is_bundle(placement: Placement) -> bool:
    """Check whether Airflow's folder is that of this installation, so that nothing needs to go there."""
    source = placement.source.resolve()
    return placement.root.resolve() in (source, source.parent)


def _is_own_link(placement: Placement) -> bool:
    # Of whichever environment: an earlier one may be gone.
    there = placement.target.readlink()
    return there == placement.source or "/winnow/_bundled/" in there.as_posix()


def _copy_all(placements: tuple[Placement, ...]) -> InstalledFiles:
    written = unchanged = removed = 0
    for placement in placements:
        if placement.target.is_symlink():
            placement.target.unlink()
    for record in dict.fromkeys(placement.record for placement in placements):
        parts = [placement for placement in placements if placement.record == record]
        files = {target: source for placement in parts for target, source in _list_files(placement).items()}
        hashes = {str(target.relative_to(parts[0].root)): [_hash_file(source)] for target, source in files.items()}
        before = _read_record(record)
        old = before.get("files", {})
        if before != (wanted := {"winnow": __version__, "files": hashes}):
            # First with the hashes of both: after a crash, files of either are known.
            both = {name: sorted({*old.get(name, []), *hashes.get(name, [])}) for name in {*old, *hashes}}
            _write_record(record, {"winnow": before.get("winnow"), "files": both})
        for target, source in files.items():
            if _hash_file(target) == _hash_file(source):
                unchanged += 1
                continue
            _copy_file(source, target)
            written += 1
        for name in sorted(set(old) - set(hashes)):
            gone = parts[0].root / name
            if _hash_file(gone) in old[name]:
                gone.unlink()
                removed += 1
        if before != wanted:
            _write_record(record, wanted)
    return InstalledFiles(placements, is_linked=False, written=written, unchanged=unchanged, removed=removed)


def _link_all(placements: tuple[Placement, ...]) -> InstalledFiles:
    written = unchanged = removed = 0
    for placement in placements:
        target = placement.target
        if target.is_symlink() and target.readlink() == placement.source:
            unchanged += 1
            continue
        if target.is_dir() and not target.is_symlink():
            removed += len(_list_files(placement))
            shutil.rmtree(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{os.getpid()}")
        draft.symlink_to(placement.source)
        draft.replace(target)
        written += 1
    return InstalledFiles(placements, is_linked=True, written=written, unchanged=unchanged, removed=removed)


def _copy_file(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(prefix=f".{target.name}-", suffix=".draft", dir=target.parent)
    os.close(handle)
    try:
        shutil.copyfile(source, draft)
        Path(draft).chmod(0o644)
        Path(draft).replace(target)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def _hash_file(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def _read_known(placement: Placement) -> dict[Path, list[str]]:
    files = _read_record(placement.record).get("files", {})
    return {placement.root / name: hashes for name, hashes in files.items()}


def _read_record(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("files", {}), dict) else {}


def _write_record(path: Path, document: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(document, sort_keys=True, indent=1) + "\n", encoding="utf-8")
    draft.replace(path)
