"""What happens to a lake from outside of Winnow: backups that are put back, changed bytes, commits of other engines."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Final

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.snapshots import Snapshot

from simulation.table_reader import find_path
from winnow.log.namespaces import CATALOG_NAME, DEFAULT_NAMESPACE, Namespaces
from winnow.log.state import STATE_PROPERTY
from winnow.pipeline.backup.backup_place import BackupPlace
from winnow.pipeline.backup.verify import find_copy

BACKUP_EVERY: Final = 3
"""A copy of catalog and store is made at every so many commits."""
_DATABASES: Final = ("catalog.db", "store.db")


class Accidents:
    """What can happen to the lake in ``home``. ``kept``: a folder for copies of its databases, on the same disk."""

    def __init__(self, home: Path, kept: Path) -> None:
        self._home = home
        self._kept = kept
        self.originals: dict[Path, bytes] = {}
        self.foreign_files: set[Path] = set()

    # ------------------------------------------------------------------------------------------- backups

    def back_up(self) -> None:
        """Copy catalog and store, in place of the copies of before."""
        self._kept.mkdir(exist_ok=True)
        for name in _DATABASES:
            _copy_database(self._home / name, self._kept / name)

    def has_copy(self, name: str) -> bool:
        """Whether a copy of a database was made."""
        return (self._kept / name).exists()

    def forget_catalog(self) -> None:
        """Forget the copy of the catalog, which names a table that is gone for good."""
        (self._kept / "catalog.db").unlink(missing_ok=True)

    def put_back(self, name: str) -> None:
        """Put the copy of a database back."""
        _copy_database(self._kept / name, self._home / name)

    def lose_catalog(self) -> None:
        """Take all tables out of the catalog; their files stay."""
        with closing(sqlite3.connect(self._home / "catalog.db")) as catalog, catalog:
            catalog.execute("DELETE FROM iceberg_tables")

    def find_backup(self, destination: Path, topic: str) -> tuple[str, int | None] | None:
        """Find the newest backup in a folder and a topic's snapshot in it; None: there is no backup or no topic."""
        place = BackupPlace(str(destination))
        ids = place.list_ids()
        logs = [copied.log for copied in place.read(ids[-1]).topics if copied.topic == topic] if ids else []
        if not logs:
            return None
        found = find_copy(logs[0], logs[0].metadata_location)
        assert found is not None
        metadata = json.loads(find_path(place.locate_file(found)).read_bytes())
        return ids[-1], metadata.get("current-snapshot-id")

    def lose_lake(self) -> None:
        """Take everything away but what is to be kept elsewhere: the register of erasures and their secret."""
        for path in self._home.iterdir():
            if path.is_dir() and path.name != "erasures":
                shutil.rmtree(path)
            elif path.is_file() and path.name != "erase.secret":
                path.unlink()

    def find_metadata(self, table: str, namespace: str = DEFAULT_NAMESPACE) -> Path | None:
        """Find the metadata file that the catalog names for a table of a namespace; None: it has no such."""
        query = "SELECT metadata_location FROM iceberg_tables WHERE table_namespace = ? AND table_name = ?"
        with closing(sqlite3.connect(self._home / "catalog.db")) as catalog:
            row = catalog.execute(query, (namespace, table)).fetchone()
        return None if row is None else find_path(row[0])

    # ------------------------------------------------------------------------------------------- bytes

    def damage(self, random: Random, table: str, is_complete: Callable[[Path], bool]) -> str | None:
        """Change one byte of one complete file of the warehouse, but not of a table's present metadata.

        Nor of what says whose the warehouse is: then no process would do anything any more.

        Returns its name, None: there is no such file.
        """
        inside = self._home / "warehouse"
        spared = {self.find_metadata(table), inside / Namespaces().installation}
        files = (path for path in inside.rglob("*") if path.is_file() and path not in spared)
        paths = sorted(path for path in files if path.stat().st_size and is_complete(path))
        if not paths:
            return None
        path = random.choice(paths)
        content = path.read_bytes()
        original, changed = self.originals.get(path, content), bytearray(content)
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
        path.write_bytes(changed)  # in place: other links to it change, too
        for other in paths:
            if other.stat().st_ino == path.stat().st_ino:
                self.originals.setdefault(other, original)
        return path.name

    def mend(self) -> None:
        """Give the files that still are there the bytes of before."""
        for path, content in self.originals.items():
            if path.exists():
                path.write_bytes(content)
        self.originals.clear()

    # ------------------------------------------------------------------------------------------- other engines

    def commit_as_another_engine(self, table: str, random: Random) -> tuple[str, str]:
        """Commit to a table as PyIceberg alone does: what, and the metadata file.

        Over a snapshot of its own it goes back to Winnow's newest, as the manual says.
        """
        rolled_back = self.roll_back(table)
        if rolled_back is not None:
            return "rolls back to Winnow's newest snapshot", rolled_back
        opened = self._open_catalog().load_table((DEFAULT_NAMESPACE, table))
        if opened.current_snapshot() is None or random.random() < 0.5:
            opened.transaction().set_properties({"comment": str(random.random())}).commit_transaction()
            what = "sets a comment"
        else:
            files = {task.file.file_path for task in opened.scan().plan_files()}
            row = {"partition": 0, "offset": 1 << 40, "key": b"other", "value": b"other"}
            schema = opened.schema().as_arrow()
            opened.append(pa.Table.from_pylist([row], schema=schema))
            new = {task.file.file_path for task in opened.refresh().scan().plan_files()} - files
            self.foreign_files |= set(map(find_path, new))
            what = "appends a record"
        return what, str(opened.refresh().metadata_location)

    def roll_back(self, table: str) -> str | None:
        """Go back from another engine's snapshot to Winnow's newest; return the metadata file.

        None: the newest is Winnow's, or there is no such table.
        """
        if self.find_metadata(table) is None:
            return None
        opened = self._open_catalog().load_table((DEFAULT_NAMESPACE, table))
        present = opened.current_snapshot()
        if present is None or _is_ours(present):
            return None
        ours = [each for each in opened.metadata.snapshots if _is_ours(each)]
        opened.manage_snapshots().rollback_to_snapshot(ours[-1].snapshot_id).commit()
        return str(opened.refresh().metadata_location)

    def _open_catalog(self) -> SqlCatalog:
        location = {"uri": f"sqlite:///{self._home / 'catalog.db'}", "warehouse": f"file://{self._home / 'warehouse'}"}
        return SqlCatalog(CATALOG_NAME, **location)


def _is_ours(snapshot: Snapshot) -> bool:
    return snapshot.summary is not None and STATE_PROPERTY in snapshot.summary.additional_properties


def _copy_database(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as read, closing(sqlite3.connect(target)) as written:
        read.backup(written)
