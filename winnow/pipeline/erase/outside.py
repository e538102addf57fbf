"""Names the places that may hold the same records and that Winnow does not reach, each with what to do there."""

from __future__ import annotations

from collections.abc import Iterator

from winnow.engine.read_plans import READ_JOB, locate_read_files
from winnow.files import storage
from winnow.pipeline.installation import Installation
from winnow.store.audit import AuditAction
from winnow.store.rows import Window
from winnow.values.topic_state import TopicState

MAXIMUM_ENTRIES = 50
"""Maximum backups and restores that are named, the newest."""


def list_outside_places(installation: Installation, state: TopicState) -> Iterator[str]:
    """List the places outside of the topic's own tables, from its ledgers and the audit log."""
    topic = state.topic
    if state.ingests or state.older_ingests is not None:
        yield (
            f"What was ingested into {topic} (winnow ingest list {topic}): delete the records there; if they are "
            "ingested again, they are left out here."
        )
    if state.epochs:
        yield f"The Kafka topic that {topic} is read from: produce a tombstone for each key there."
    if installation.settings.erase.trust_bucket_deletes and not storage.is_local(installation.settings.warehouse):
        yield (
            "Earlier versions of the deleted objects, if the store could not be asked for them: that it keeps none is "
            "declared (erase.trust_bucket_deletes)."
        )
    staged = locate_read_files(installation.settings.staging, topic)
    for folder in sorted({file.uri.rpartition("/")[0] for file in _list_read_files(installation, staged)}):
        yield (
            f"Files of a reading on Spark that is at work or was killed ({folder}): a sweep deletes them after the "
            "topic's grace. Delete the folder if they have to go sooner, or if no note lies beside it."
        )
    window = Window(size=MAXIMUM_ENTRIES)
    for entry in installation.store.audit.list_entries(window, topic=topic, action=AuditAction.RESTORE_RECORDS).rows:
        yield f"A Kafka topic that records were restored to ({entry.detail}): produce a tombstone for each key there."
    for backup in _list_backups(installation):
        yield f"A backup ({backup}): make another one, then delete this one: winnow backup erase"


def _list_read_files(installation: Installation, begin: str) -> Iterator[storage.FileEntry]:
    found = storage.list_files(storage.join(installation.settings.staging, READ_JOB))
    return (file for file in found if file.uri.startswith(begin))


def _list_backups(installation: Installation) -> list[str]:
    """List the backups that the audit log names and that were not deleted since, the newest."""
    window = Window(size=MAXIMUM_ENTRIES)
    audit = installation.store.audit
    deleted = audit.list_entries(window, action=AuditAction.DELETE_BACKUP).rows
    gone = {entry.detail.rpartition(": ")[0] for entry in deleted}
    made = [entry.detail for entry in audit.list_entries(window, action=AuditAction.BACK_UP).rows]
    return [detail for detail in made if detail.rpartition(": ")[0] not in gone]


def count_backups(installation: Installation) -> int:
    """Count the backups that the audit log names, :data:`MAXIMUM_ENTRIES` at most."""
    return len(_list_backups(installation))
