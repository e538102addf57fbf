"""Notes of jobs whose result is for one call alone: a call that is killed leaves its note, which names their files.

The note lies in the staging area before the job's plan does, and goes after the last file. Nothing refers to a plan, a
result or a staged file but the call, so no commit has to come before they are deleted: a call that is slower than
others think finds them gone, says so, and has changed nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from winnow.clock import DAY_MS
from winnow.engine.job_documents import locate_job_plan, remove_job_documents, write_job_document
from winnow.engine.latest_plans import LATEST_JOB
from winnow.engine.read_plans import READ_JOB, locate_read_files
from winnow.errors import WinnowError
from winnow.files import storage
from winnow.files.file_names import is_job_document, is_job_note, is_staged_reading
from winnow.values import documents

NOTES: Final = "notes"
"""The folder of notes in the staging area."""

MANY_TOPICS_GRACE_MS: Final = 7 * DAY_MS
"""The files of a job for many topics stay so long; those of one topic for the grace of that."""


@dataclass(frozen=True, slots=True)
class JobNote:
    """A job that began ``began_ms``, by the clock of the machine that does it. ``topic``: empty if it is for many."""

    job: str
    topic: str
    plan_id: str
    began_ms: int
    format_version: int = 1


@dataclass(frozen=True, slots=True)
class SweptJobs:
    """What was deleted of jobs; ``unnamed``: what lies in their folders and is not theirs, which stays."""

    files_deleted: int = 0
    bytes_deleted: int = 0
    unnamed: tuple[str, ...] = ()


def write_job_note(staging: str, note: JobNote) -> None:
    """Write ``note``, before anything that it names.

    Raises:
        OSError, ServiceError: it cannot be written.
    """
    write_job_document(_locate_note(staging, note), note)


def end_job(staging: str, note: JobNote) -> None:
    """Remove a job's plan, its result and what tasks listed for others, and then its note.

    A note stays where it has staged files, or had lists: tasks may outlive their application and leave another.
    """
    plan = locate_job_plan(staging, note.job, note.plan_id)
    remove_job_documents(plan)
    lists = []
    if note.job == LATEST_JOB:
        lists = [entry.uri for entry in _list_named(staging, note)[0]]
        storage.delete_unreferenced(lists, below=staging)
    is_read = note.job == READ_JOB and storage.list_files(locate_read_files(staging, note.topic, note.plan_id))
    if not lists and not is_read:
        storage.sync_deletions([plan])
        storage.delete_unreferenced([_locate_note(staging, note)], below=staging)


def remove_staged_files(staging: str, note: JobNote) -> None:
    """Remove all that tasks of a reading wrote, also attempts of which nothing came, and then its note."""
    folder = locate_read_files(staging, note.topic, note.plan_id)
    files = [entry.uri for entry in storage.list_files(folder)]
    storage.delete_unreferenced(files, below=staging)
    storage.remove_empty_root(folder)
    storage.sync_deletions(files)
    end_job(staging, note)


def sweep_jobs(staging: str, topic: str, now_ms: int, grace_ms: int | None) -> SweptJobs:
    """Delete the files of jobs of ``topic`` whose call was killed, once ``grace_ms`` have passed since they began.

    Also those for many topics, after a grace of their own. ``grace_ms`` None: those of all jobs of a topic that is
    removed. Else a note goes with the first call that finds nothing else of its job: tasks may outlive who submitted
    them.

    Raises:
        OSError, ServiceError: the staging area cannot be read or written.
    """
    deleted: list[storage.FileEntry] = []
    unnamed: list[str] = []
    notes = storage.join(staging, NOTES)
    begins = tuple(f"{notes}/{each}@" for each in (topic, "") if each or grace_ms is not None)
    for entry in storage.list_named_files(staging, NOTES, is_job_note).files:
        if not entry.uri.startswith(begins):
            continue
        note = _read_note(entry.uri)
        if note is None or _locate_note(staging, note) != entry.uri:
            unnamed.append(storage.format_path(entry.uri))
            continue
        if grace_ms is not None and now_ms - note.began_ms < (grace_ms if note.topic else MANY_TOPICS_GRACE_MS):
            continue
        named, others = _list_named(staging, note)
        unnamed += others
        gone = [file for file in named if storage.delete(file.uri, below=staging)]
        storage.remove_emptied_folders((file.uri for file in gone), staging)
        storage.sync_deletions(file.uri for file in gone)
        deleted += gone
        is_last = grace_ms is None or not named
        if is_last and not others and storage.delete(entry.uri, below=staging):
            deleted.append(entry)
    return SweptJobs(len(deleted), sum(file.size_bytes for file in deleted), tuple(unnamed))


def _locate_note(staging: str, note: JobNote) -> str:
    return storage.join(staging, NOTES, f"{note.topic}@{note.job}@{note.plan_id}.json")


def _read_note(uri: str) -> JobNote | None:
    try:
        return documents.load_json(JobNote, storage.read_bytes(uri))
    except (WinnowError, FileNotFoundError):
        return None  # somebody else's, or its job has just ended


def _list_named(staging: str, note: JobNote) -> tuple[list[storage.FileEntry], list[str]]:
    """List what ``note`` names, and what else lies in its folder."""
    staged = f"{storage.get_name(locate_read_files(staging, note.topic, note.plan_id))}/"
    job_folder = storage.join(staging, note.job)

    def is_named(path: str) -> bool:
        return is_job_document(path, note.plan_id) or (path.startswith(staged) and is_staged_reading(path))

    listing = storage.list_named_files(staging, note.job, is_named)
    begin = storage.format_path(f"{job_folder}/{staged}")
    return list(listing.files), [path for path in listing.others if path.startswith(begin)]
