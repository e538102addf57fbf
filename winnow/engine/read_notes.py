"""Notes of readings that have their files staged: a reading that is killed leaves its note, which names these files.

The note lies beside the reading's folder before the first file does, and goes after the last one. Nothing refers to
staged files but the reading itself, so no commit has to come before they are deleted: one that is slower than others
think finds its files gone, says so and leaves an empty folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from winnow.engine.job_documents import locate_job_plan, locate_job_result, write_job_document
from winnow.engine.read_plans import READ_JOB, ReadPlan, locate_read_files
from winnow.errors import WinnowError
from winnow.files import storage
from winnow.files.file_names import is_staged_reading
from winnow.values import documents

_SUFFIX: Final = ".json"


@dataclass(frozen=True, slots=True)
class ReadNote:
    """A reading that began ``began_ms``, by the clock of the machine that does it."""

    topic: str
    plan_id: str
    began_ms: int
    format_version: int = 1


@dataclass(frozen=True, slots=True)
class SweptReadings:
    """What was deleted of readings; ``unnamed``: what lies in their folders and is not theirs, which stays."""

    files_deleted: int = 0
    bytes_deleted: int = 0
    unnamed: tuple[str, ...] = ()


def write_read_note(plan: ReadPlan, began_ms: int) -> None:
    """Write the note of ``plan``, before its tasks write files below its folder in the staging area, its root.

    Raises:
        OSError, ServiceError: it cannot be written.
    """
    write_job_document(f"{plan.folder}{_SUFFIX}", ReadNote(plan.topic, plan.plan_id, began_ms))


def remove_read_files(plan: ReadPlan) -> None:
    """Remove all that tasks wrote below the plan's folder, also attempts of which nothing came, and then its note."""
    files = [entry.uri for entry in storage.list_files(plan.folder)]
    storage.delete_unreferenced(files, below=plan.root)
    storage.remove_empty_root(plan.folder)
    if not storage.list_files(plan.folder):
        storage.sync_deletions(files)
        storage.delete_unreferenced([f"{plan.folder}{_SUFFIX}"], below=plan.root)


def sweep_read_files(staging: str, topic: str, began_before_ms: int | None) -> SweptReadings:
    """Delete the files of readings of ``topic`` that began before then and were killed; None: of all of them.

    None is for a topic that is removed. Else a note goes with the first call that finds nothing else of its reading:
    tasks may outlive who submitted them.

    Raises:
        OSError, ServiceError: the staging area cannot be read or written.
    """
    listing = storage.list_named_files(staging, READ_JOB, is_staged_reading)
    entries = {entry.uri: entry for entry in listing.files}
    begin = locate_read_files(staging, topic)
    deleted: list[storage.FileEntry] = []
    unnamed: list[str] = []
    for uri in (uri for uri in entries if uri.startswith(begin) and uri.endswith(_SUFFIX)):
        plan_id = uri.removeprefix(begin).removesuffix(_SUFFIX)
        note = _read_note(uri)
        if note is None or (note.topic, note.plan_id) != (topic, plan_id):
            unnamed.append(storage.format_path(uri))
            continue
        if began_before_ms is not None and note.began_ms > began_before_ms:
            continue
        folder = f"{locate_read_files(staging, topic, plan_id)}/"
        plan = locate_job_plan(staging, READ_JOB, plan_id)
        going = [entry for place, entry in entries.items() if place.startswith(folder)]
        going += [entries[place] for place in (plan, locate_job_result(plan)) if place in entries]
        others = [path for path in listing.others if path.startswith(storage.format_path(folder))]
        unnamed += others
        gone = [entry for entry in going if storage.delete(entry.uri, below=staging)]
        storage.remove_emptied_folders((entry.uri for entry in gone), staging)
        storage.sync_deletions(entry.uri for entry in gone)
        deleted += gone
        is_last = began_before_ms is None or not going
        if is_last and not others and storage.delete(uri, below=staging):
            deleted.append(entries[uri])
    return SweptReadings(len(deleted), sum(entry.size_bytes for entry in deleted), tuple(unnamed))


def _read_note(uri: str) -> ReadNote | None:
    try:
        return documents.load_json(ReadNote, storage.read_bytes(uri))
    except (WinnowError, FileNotFoundError):
        return None  # somebody else's, or its reading has just ended
