"""Deletes the backups of a folder that still hold records of erased keys.

A backup is free of an erasure if the topic's state in it says that the erasure's files were deleted. Every other backup
of that life of the topic goes: its document first, then the files that no remaining backup names. Files are shared by
the backups of a folder, so a record of what goes is written before anything is deleted, and a backup that is being made
meanwhile is given up when it finds that record. One of the two sees the other: the record is written before the backups
are listed, and a backup's document before the records are listed. A call that finds its records gone before a deletion
was overtaken by another one, which has completed it: it deletes nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from winnow.config.masking import mask
from winnow.errors import DamagedBackupError, EraseRefusedError, KeptVersionsError, RunAgainError
from winnow.files import storage
from winnow.log.table_files import open_table_walk
from winnow.pipeline.admin.erased_versions import open_versions
from winnow.pipeline.admin.erasure_progress import open_register
from winnow.pipeline.backup.backup_place import Backup, BackupPlace, CopiedTopic, make_damage_error
from winnow.pipeline.backup.create import make_owner
from winnow.pipeline.backup.topic_copies import Watcher
from winnow.pipeline.backup.verify import find_copy
from winnow.pipeline.installation import Installation
from winnow.pipeline.parallel import iterate_parallel
from winnow.pipeline.topics.audit import record_action
from winnow.store.audit import AuditAction
from winnow.values.counts import format_count

_KEPT: Final = "No backup was deleted."


@dataclass(frozen=True, slots=True)
class HeldErasure:
    """Records of an erasure that a backup still holds."""

    backup_id: str
    topic: str
    erasure_id: str


@dataclass(frozen=True, slots=True)
class ErasedBackups:
    """What became of the backups of a folder.

    ``held``: the erasures that the deleted backups held, or would with ``is_preview``. ``deleted``: ids of backups.
    ``kept``: ids of those that hold nothing erased. ``last_copies``: topics of the deleted backups that the newest kept
    one does not have. ``files``, ``size_bytes``: that no kept backup names.
    """

    destination: str
    is_preview: bool
    held: tuple[HeldErasure, ...]
    deleted: tuple[str, ...]
    kept: tuple[str, ...]
    last_copies: tuple[str, ...]
    files: int
    size_bytes: int


def erase_backups(
    installation: Installation,
    destination: str,
    *,
    is_preview: bool = False,
    with_last_copies: bool = False,
    watch: Watcher = lambda what, done, total: None,
) -> ErasedBackups:
    """Delete the backups in ``destination`` that hold records of keys that were erased since. Repeating it is harmless.

    Args:
        installation: whose backups they are.
        destination: the folder.
        is_preview: delete nothing.
        with_last_copies: also where the newest backup that stays lacks a topic of one that goes.
        watch: is told the progress.

    Raises:
        UsageError: there are no backups of this installation.
        EraseRefusedError: no complete newer backup would stay, or it lacks a topic; nothing was deleted.
        KeptVersionsError: the object store keeps what is deleted; nothing was deleted.
        DamagedBackupError: a backup's document is damaged, so what it holds cannot be told; nothing was deleted.
        ConfigurationError: the register of erasures has nothing of a topic with erasures.
        ServiceError: a store, the catalog or the register cannot be reached. Run it again.
    """
    place = BackupPlace(destination)
    place.require_owner(make_owner(installation))
    erasures = _read_erasures(installation)
    backups = {backup_id: place.read(backup_id) for backup_id in place.list_ids()}
    held = tuple(each for name, backup in backups.items() for each in _list_held(place, name, backup, erasures))
    going = sorted({each.backup_id for each in held})
    begun = place.read_going()
    staying = {name: backup for name, backup in backups.items() if name not in going and name not in begun}
    missing = _list_last_copies([backups[name] for name in going], staying)
    if going:
        _require_newer(place, going, staying, missing, with_last_copies=with_last_copies)
        _require_final_deletes(installation, place)
    marked = {**begun, **{name: backups[name] for name in going}}
    paths = _list_files_to_delete(place, marked.values()) - _list_files(place, staying.values())
    size_bytes = sum(_list_sizes(place, marked.values(), paths).values())
    if not is_preview:
        for name in going:
            place.mark_going(name)
        _delete(installation, place, marked, watch)
    return ErasedBackups(
        place.uri, is_preview, held, tuple(sorted(marked)), tuple(staying), missing, len(paths), size_bytes
    )


def _read_erasures(installation: Installation) -> Mapping[tuple[str, str], Set[str]]:
    """Return the ids of the erasures of each life of a topic, from the newest heads and the register; no lifting."""
    register = open_register(installation)
    heads = [installation.log.open(topic).head(even_deleted=True) for topic in installation.log.names()]
    known = {(head.state.topic, head.table_uuid): head.state.erasures for head in heads if head.state.erasures}
    found = {}
    for topic, table_uuid in {*register.list_lives(), *known}:
        references = known.get((topic, table_uuid), ())
        later = register.read_later(topic, table_uuid, {each.erasure_id for each in references}, left=_KEPT)
        found[topic, table_uuid] = {
            *(reference.erasure_id for reference in references if not reference.lifts),
            *(document.erasure_id for document in later if not document.lifts),
        }
    return found


def _list_held(
    place: BackupPlace, backup_id: str, backup: Backup, erasures: Mapping[tuple[str, str], Set[str]]
) -> Iterator[HeldErasure]:
    for topic in backup.topics:
        known = erasures.get((topic.topic, topic.log.table_uuid), frozenset())
        for erasure_id in sorted(known - _read_completed(place, topic)) if known else ():
            yield HeldErasure(backup_id, topic.topic, erasure_id)


def _read_completed(place: BackupPlace, topic: CopiedTopic) -> set[str]:
    """Return the erasures whose files were all deleted when the topic was copied, as its state in the backup says."""

    def read(path: str) -> bytes:
        copy = find_copy(topic.log, path)
        if copy is None:
            raise FileNotFoundError(path)
        return storage.read_bytes(place.locate_file(copy))

    try:
        state = open_table_walk(read, topic.log.metadata_location).read_state() or {}
    except FileNotFoundError as problem:
        raise make_damage_error(str(problem), "is missing") from problem
    return {each["erasure_id"] for each in state.get("erasures", ()) if each.get("deleted_at_ms") is not None}


def _list_last_copies(going: Sequence[Backup], staying: Mapping[str, Backup]) -> tuple[str, ...]:
    """List the topics that backups to be deleted have, and the newest that stays does not."""
    newest = staying[max(staying)].topics if staying else ()
    there = {(topic.topic, topic.log.table_uuid) for topic in newest}
    return tuple(
        sorted({t.topic for backup in going for t in backup.topics if (t.topic, t.log.table_uuid) not in there})
    )


def _require_newer(
    place: BackupPlace,
    going: Sequence[str],
    staying: Mapping[str, Backup],
    missing: Sequence[str],
    *,
    with_last_copies: bool,
) -> None:
    newest = max(staying, default="")
    if newest < going[-1]:
        raise EraseRefusedError(
            f"{place.uri} has no backup newer than {going[-1]}, which holds erased records.",
            left=_KEPT,
            next=f"Make one first: winnow backup create {place.uri}",
        )
    sizes = _list_sizes(place, [staying[newest]], None)
    gone = sum(path not in sizes for path in _list_files(place, [staying[newest]]))
    if gone:
        raise make_damage_error(place.locate(f"backups/{newest}.json"), f"names {format_count(gone, 'missing file')}")
    if missing and not with_last_copies:
        raise EraseRefusedError(
            f"The newest backup that would stay in {place.uri}, {newest}, does not have {', '.join(missing[:5])}, of "
            "which a backup to be deleted has a copy.",
            left=_KEPT,
            next=(
                "Bring such a topic into order and make a backup, or give its last copy up with --with-last-copies if "
                "it was deleted for good."
            ),
        )


def _require_final_deletes(installation: Installation, place: BackupPlace) -> None:
    try:
        folder = open_versions(installation, place.locate("files"))
        if folder is not None and folder.keeps_versions:
            folder.require_removable("none.parquet", installation.now_ms())
    except KeptVersionsError as problem:
        raise KeptVersionsError(problem.what, left=_KEPT, next=problem.next) from problem


def _delete(installation: Installation, place: BackupPlace, marked: Mapping[str, Backup], watch: Watcher) -> None:
    """Delete the marked backups, and what no other one names by now. A call that was killed is completed by the next.

    Raises:
        RunAgainError: an earlier version of a file is left in the object store, or another call completed this one.
        DamagedBackupError: a backup that was made meanwhile lacks a file.
    """
    if not marked:
        return
    for name in marked:
        place.delete_document(name)
    # Listed after the marks were written: a backup that is not among them yet sees the marks, and is given up.
    ids = place.list_ids()
    remaining = [place.read(name) for name in ids]
    gone = _list_files_to_delete(place, marked.values()) - _list_files(place, remaining)
    documents = _list_documents(marked.values()) - _list_documents(remaining)
    try:
        _delete_all(place, marked, [f"files/{path}" for path in sorted(gone)], watch)
        _delete_versions(installation, place, gone)
        _delete_all(place, marked, sorted(documents), lambda what, done, total: None)
    finally:
        _require_whole(place, [name for name in place.list_ids() if name not in ids], gone)
    for name in marked:
        detail = f"{name} in {mask('backup', place.uri)}: held erased records"
        record_action(installation, AuditAction.DELETE_BACKUP, "", detail=detail)
        place.unmark_going(name)


def _delete_all(place: BackupPlace, marked: Mapping[str, Backup], paths: Sequence[str], watch: Watcher) -> None:
    """Delete ``paths``, each only while all of ``marked`` are on record: then no backup made meanwhile can need it."""

    def delete(uri: str) -> None:
        if not place.list_going().issuperset(marked):
            raise RunAgainError(
                f"Another call has deleted backups in {place.uri} meanwhile.",
                left="This call deleted nothing more.",
                next=f"See what is left: winnow backup erase {place.uri} --list",
            )
        storage.delete(uri, below=place.uri)

    uris = [place.locate(path) for path in paths]
    for done, _ in enumerate(iterate_parallel(delete, uris), 1):
        watch("Deleting files", done, len(uris))
    storage.sync_deletions(uris)


def _require_whole(place: BackupPlace, backups: Sequence[str], deleted: Set[str]) -> None:
    """Check that none of ``backups``, which were made meanwhile, names what was deleted.

    Raises:
        DamagedBackupError: one does: this call stood still amid a deletion while another one completed it.
    """
    for name in backups:
        files = _list_files(place, [place.read(name)]) & deleted
        lost = sum(not storage.exists(place.locate_file(path)) for path in files)
        if lost:
            document = place.locate(f"backups/{name}.json")
            raise DamagedBackupError(
                f"The backup {document} was made while backups were deleted by two calls, and lacks "
                f"{format_count(lost, 'file')} that one of them deleted.",
                left="The lake has them, and no other backup needs them.",
                next=f"Make another one: winnow backup create {place.uri}",
            )


def _delete_versions(installation: Installation, place: BackupPlace, gone: Set[str]) -> None:
    folder = open_versions(installation, place.locate("files"))
    left = folder.remove_old_versions(gone.__contains__) if folder is not None and folder.keeps_versions else 0
    if left:
        raise RunAgainError(
            f"{format_count(left, 'earlier version')} of deleted files of backups stayed in {place.uri}.",
            left="The backups are deleted.",
            next=f"Run it again: winnow backup erase {place.uri}",
        )


def _list_files(place: BackupPlace, backups: Iterable[Backup]) -> set[str]:
    lists = {topic.files for backup in backups for topic in backup.topics}
    return {path for each in lists for path in place.read_list(each)}


def _list_files_to_delete(place: BackupPlace, marked: Iterable[Backup]) -> set[str]:
    """List the files of marked backups; a list that is gone already was deleted after its files."""
    lists = {topic.files for backup in marked for topic in backup.topics}
    there = [each for each in lists if storage.exists(place.locate(each.path))]
    return {path for each in there for path in place.read_list(each)}


def _list_documents(backups: Iterable[Backup]) -> set[str]:
    found = {topic.files.path for backup in backups for topic in backup.topics}
    return found | {part.path for backup in backups for table in backup.store for part in table.parts}


def _list_sizes(place: BackupPlace, backups: Iterable[Backup], wanted: Set[str] | None) -> dict[str, int]:
    """List the sizes of the ``wanted`` files that are there, of the tables of ``backups``; None: all."""
    folders = {table.folder for backup in backups for topic in backup.topics for table in topic.tables}
    sizes: dict[str, int] = {}
    for folder in sorted(folders):
        sizes |= place.list_sizes(folder)
    return sizes if wanted is None else {path: size for path, size in sizes.items() if path in wanted}
