"""Copies the files of one topic into a backup: those that are not there yet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeGuard

from winnow.errors import DamagedBackupError, DamagedMetadataError, ForeignTableError
from winnow.files import storage
from winnow.files.file_copies import FileDigest, compute_file_digest, copy_file
from winnow.log.table import TOPIC_PROPERTY
from winnow.log.table_files import FileKind, TableFile, TableWalk, find_path_below, open_table_walk
from winnow.log.table_pointers import TableRole, TopicPointers
from winnow.pipeline.backup.backup_place import BackupPlace, CopiedFile, CopiedTable, CopiedTopic
from winnow.pipeline.parallel import iterate_parallel

Watcher = Callable[[str, int, int], None]
"""Is told what is being done, and how many bytes of it are done and in all."""


@dataclass(frozen=True, slots=True)
class _Planned:
    """A file to copy: from where to which path of the backup."""

    source: TableFile
    path: str


class TopicCopy:
    """Copies one topic as of given pointers; ``earlier``: the same topic in an earlier backup of the same place."""

    def __init__(
        self, place: BackupPlace, warehouse: str, pointers: TopicPointers, earlier: CopiedTopic | None, watch: Watcher
    ) -> None:
        self._place = place
        self._warehouse = warehouse
        self._pointers = pointers
        self._earlier = earlier
        self._watch = watch
        self.files_copied = 0
        self.bytes_copied = 0

    def run(self) -> CopiedTopic | None:
        """Copy what is not there yet; None: the topic is being removed for good, or its log is no topic's.

        Raises:
            DamagedMetadataError: a file differs from what was written, or from its entry in a manifest.
            FileNotFoundError: a file is gone: a sweep has removed it meanwhile, or it is lost.
            ForeignTableError: a table names files outside of its folder.
        """
        if self._has_all(self._earlier):
            return self._earlier
        walks = {
            role: open_table_walk(storage.read_bytes, location) for role, location in self._pointers.locations.items()
        }
        state = walks[TableRole.LOG].read_state()
        if state is not None and state.get("removed_at_ms") is not None:
            return None
        latest = walks.get(TableRole.LATEST)
        if latest is not None and latest.metadata.properties.get(TOPIC_PROPERTY) != self._pointers.topic:
            del walks[TableRole.LATEST]  # another program's table
        tables = tuple(self._describe(role, walk) for role, walk in walks.items())
        planned = [each for table in tables for each in _plan(self._pointers.topic, table, walks[table.role])]
        copied = self._copy(planned, self._find_known(tables))
        listed = self._place.write_list(copied)
        return CopiedTopic(self._pointers.topic, tables, listed, sum(file.size_bytes for file in copied))

    def _describe(self, role: TableRole, walk: TableWalk) -> CopiedTable:
        below = find_path_below(self._warehouse, walk.location)
        return CopiedTable(
            role=role,
            table_uuid=walk.table_uuid,
            location=walk.location,
            folder=below if below is not None else f"outside/{walk.table_uuid}",
            metadata_location=walk.metadata_location,
            snapshot_id=walk.metadata.current_snapshot_id,
            records=walk.count_records(),
            copies=walk.copies,
        )

    def _has_all(self, earlier: CopiedTopic | None) -> TypeGuard[CopiedTopic]:
        """Check whether the topic has not changed since the earlier backup, and all its files are still there."""
        if earlier is None or earlier.list_pointers() != self._pointers.locations:
            return False
        return len(self._find_known(earlier.tables)) == earlier.files.entries

    def _find_known(self, tables: Sequence[CopiedTable]) -> dict[str, CopiedFile]:
        """Find which files the earlier backup has, as far as they are still there; none if its list is damaged."""
        if self._earlier is None:
            return {}
        sizes: dict[str, int] = {}
        for table in tables:
            sizes |= self._place.list_sizes(table.folder)
        with suppress(DamagedBackupError):
            known = self._place.read_list(self._earlier.files)
            return {path: file for path, file in known.items() if sizes.get(path) == file.size_bytes}
        return {}

    def _copy(self, planned: Sequence[_Planned], known: Mapping[str, CopiedFile]) -> list[CopiedFile]:
        missing = [each for each in planned if each.path not in known]
        done = [known[each.path] for each in planned if each.path in known]
        total_bytes, done_bytes = sum(each.source.size_bytes or 0 for each in missing), 0
        what = f"Copying {self._pointers.topic}"
        written: list[str] = []
        self._watch(what, 0, total_bytes)
        for each, digest in iterate_parallel(self._copy_one, missing):
            if digest is None:
                continue
            written.append(self._place.locate_file(each.path))
            done.append(CopiedFile(each.path, each.source.kind.value, digest.size_bytes, digest.sha256))
            done_bytes += digest.size_bytes
            self._watch(what, done_bytes, max(total_bytes, done_bytes))
        storage.sync(written)
        return done

    def _copy_one(self, planned: _Planned) -> FileDigest | None:
        """Copy a file unless the backup has it, from a call that was killed; None: it is gone and not needed."""
        source, target = planned.source, self._place.locate_file(planned.path)
        try:
            digest = self._find_copy(source, target) or self._copy_anew(source, target)
        except FileNotFoundError:
            if source.kind is FileKind.EARLIER_METADATA:
                return None  # the table's next commits remove it, and no snapshot needs it
            raise
        _require_content(self._pointers.topic, source, digest)
        return digest

    def _find_copy(self, source: TableFile, target: str) -> FileDigest | None:
        size_bytes = storage.read_size_bytes(target)
        if size_bytes is None or (source.size_bytes is not None and size_bytes != source.size_bytes):
            return None
        found = compute_file_digest(target)
        wanted = source.sha256 or compute_file_digest(source.path).sha256
        return found if found.sha256 == wanted else None

    def _copy_anew(self, source: TableFile, target: str) -> FileDigest:
        digest = self._copy_first_good(source, target)
        self.files_copied += 1
        self.bytes_copied += digest.size_bytes
        return digest

    def _copy_first_good(self, source: TableFile, target: str) -> FileDigest:
        """Copy a file; of a document that is gone or damaged, its copy."""
        if source.copy is not None and source.sha256 is not None:
            with suppress(FileNotFoundError):
                digest = copy_file(source.path, target)
                if digest.sha256 == source.sha256:
                    return digest
            return copy_file(source.copy, target)
        return copy_file(source.path, target)


def _plan(topic: str, table: CopiedTable, walk: TableWalk) -> list[_Planned]:
    found = []
    for file in walk.list_files():
        below = find_path_below(table.location, file.path)
        if below is None:
            raise ForeignTableError(
                f"A table of topic {topic} names a file outside of its folder {table.location}: {file.path}.",
                left="Nothing was changed.",
                next="Rewrite the table by the tool that placed the file there, or take that file out of it.",
            )
        found.append(_Planned(file, f"{table.folder}/{below}"))
    return found


def _require_content(topic: str, file: TableFile, found: FileDigest) -> None:
    expected = FileDigest(found.size_bytes if file.size_bytes is None else file.size_bytes, file.sha256 or found.sha256)
    if found != expected:
        raise DamagedMetadataError(
            f"A file of topic {topic} is not the one that was committed: {file.path} has {found.size_bytes:,} "
            f"bytes{'' if found.size_bytes == expected.size_bytes else f' instead of {expected.size_bytes:,}'}.",
            next="Restore it from an earlier backup or the object store's versions.",
        )
