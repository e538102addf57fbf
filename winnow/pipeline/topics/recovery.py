"""Brings a topic back into the catalog from the warehouse alone, where the catalog is lost or older.

What lies in the table's folder is surveyed and followed to its last file before anything changes; a dry run shows it.
Then the side tables are entered, then one commit makes the chosen metadata the topic's head, and the metadata store is
rebuilt. That commit decides; killed at any line, the next call completes the rest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from winnow.errors import ServiceError, UnknownTopicError, UsageError, WinnowError
from winnow.files import storage
from winnow.log.deleted_topics import note_deleted
from winnow.log.head import Head
from winnow.log.raised_head import KnownNumbers, make_raised_change
from winnow.log.side_table_recovery import land_side_table
from winnow.log.state_rebuild import RebuiltState, write_rebuilt
from winnow.log.table_recovery import (
    ChosenMetadata,
    Land,
    SwapsMetadata,
    drop_unreadable_snapshots,
    land_as_new_entry,
    land_in_entry,
    land_through_catalog,
    prove_log,
)
from winnow.log.warehouse_survey import read_metadata_number
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.audit import record_action
from winnow.pipeline.topics.leases import hold_lease
from winnow.pipeline.topics.older_worlds import UNCHANGED, OlderWorld
from winnow.pipeline.topics.recovery_report import RecoveryReport, describe_recovery
from winnow.pipeline.topics.recovery_survey import (
    TopicRecovery,
    list_recorded,
    look_at_table,
    open_chosen,
    plan_side_tables,
)
from winnow.pipeline.topics.stored_rows import rebuild_store
from winnow.report.events import log_event
from winnow.store.audit import AuditAction

if TYPE_CHECKING:
    pass


def recover_topic(
    installation: Installation,
    topic: str,
    *,
    metadata: str | None = None,
    rebuild: bool = False,
    run: bool = False,
    older: OlderWorld = UNCHANGED,
) -> RecoveryReport:
    """Make the newest complete metadata in the folder of ``topic`` the catalog's, above everything that is known.

    Repeating it changes nothing. ``metadata``: the metadata file to take, by name or location; None: the newest that is
    proven. ``rebuild``: if the state is gone, rebuild it. ``run`` False: only look. ``older``: what the commit does
    again.

    Raises:
        UnknownTopicError: the catalog has no such topic: adopt it.
        UsageError: nothing could be chosen, or ``metadata`` is none of the table's.
        DamagedMetadataError: the chosen metadata are not complete.
        CommitConflictError, CommitUnknownError, ServiceError, TopicBusyError: see
            :meth:`winnow.log.topic_log.TopicLog.commit`.
    """
    if not run:
        return describe_recovery(_look_at_entry(installation, topic, metadata, rebuild=rebuild))
    with hold_lease(installation, topic):
        return run_recovery(_look_at_entry(installation, topic, metadata, rebuild=rebuild), AuditAction.RECOVER, older)


def _look_at_entry(installation: Installation, topic: str, metadata: str | None, *, rebuild: bool) -> TopicRecovery:
    entry = installation.log.find_entry(topic)
    if entry.location is None:
        raise UnknownTopicError(
            f"The catalog has no topic {topic}.",
            next=f"If it was lost, enter its table from the warehouse: winnow topics adopt {topic} LOCATION",
        )
    return look_at_table(installation, topic, entry.location, entry, metadata=metadata, rebuild=rebuild)


def run_recovery(found: TopicRecovery, action: AuditAction, older: OlderWorld = UNCHANGED) -> RecoveryReport:
    """Do what was found to be done; raises as :func:`recover_topic`."""
    if found.chosen is None or found.proof is None:
        raise UsageError(
            f"Topic {found.topic} was left as it is.",
            next=found.undecided or "",
        )
    found.installation.log.confirm_writing()
    if found.is_done:
        found.proof.require_complete()
        _enter_side_tables(found)
        _record_head(found, found.installation.log.open(found.topic).head(even_deleted=True))
        _rebuild(found)
        return replace(describe_recovery(found), was_run=True)
    known = _find_known_numbers(found)
    chosen = open_chosen(found, _choose_landing(found, known), older)
    if found.rebuilt is not None:
        found = _write_rebuilt(found, found.rebuilt, chosen)
    assert found.proof is not None
    head = found.proof.require_complete()
    drop_unreadable_snapshots(chosen)
    log = found.installation.log.open_over(chosen, found.topic)
    older.look(log, log.head(even_deleted=True))
    if head.state.deleted_at_ms is not None:
        note_deleted(found.installation.log.deleted_notes, found.topic)
    if older.is_behind:
        found = _leave_out_latest(found)
    _enter_side_tables(found)
    committed = older.commit(log, lambda current: make_raised_change(current, known, action.value), even_deleted=True)
    log_event(
        "topic_recovered",
        found.topic,
        action=action.value,
        snapshot_id=str(committed.snapshot_id),
        fence=committed.head.fence,
    )
    _record_head(found, committed.head)
    record_action(found.installation, action, found.topic, detail=_describe_choice(found))
    _rebuild(found)
    report = replace(describe_recovery(found), was_run=True)
    return replace(report, snapshot_id=str(committed.snapshot_id), fence=committed.head.fence)


def _write_rebuilt(found: TopicRecovery, rebuilt: RebuiltState, chosen: ChosenMetadata) -> TopicRecovery:
    """Write the rebuilt state, and follow the chosen metadata with it as if it had been committed."""
    assert found.chosen is not None
    places = found.installation.log.locate_documents(found.topic, found.location, str(found.chosen.table_uuid))
    write_rebuilt(rebuilt, chosen, places)
    proof = prove_log(found.installation.log.open_over(chosen, found.topic), found.chosen)
    sides = plan_side_tables(found.installation, found.topic, proof.head, found.io)
    return replace(found, proof=proof, side_tables=sides)


def _choose_landing(found: TopicRecovery, known: KnownNumbers) -> Land:
    """Choose how the catalog gets to the chosen metadata in one step."""
    catalog, number = found.installation.log.catalog, known.metadata_number + 1
    if found.entry.metadata_location is None:
        return land_as_new_entry(catalog, found.identifier, found.io, number)
    if isinstance(catalog, SwapsMetadata):
        return land_in_entry(catalog, found.identifier, found.entry.metadata_location, found.io, number)
    assert found.entry.table is not None
    assert found.chosen is not None
    return land_through_catalog(catalog, found.entry.table, found.chosen)


def _find_known_numbers(found: TopicRecovery) -> KnownNumbers:
    """Find the highest numbers that the table's folder and the metadata store know."""
    survey, chosen = found.survey, found.chosen
    assert chosen is not None
    opened = found.installation.store.ingests.list_open(found.topic)
    recorded = list_recorded(found.installation, found.topic, chosen.table_uuid)
    return KnownNumbers(
        sequence_number=max([survey.highest_sequence_number, *(each.last_sequence_number for each in recorded)]),
        metadata_number=max(
            [survey.highest_metadata_number, *(read_metadata_number(each.metadata_location) for each in recorded)]
        ),
        fence=max([survey.highest_fence, *(each.fence for each in recorded)]),
        ingest_number=max(
            [
                survey.highest_ingest_number,
                *(each.number for each in opened),
                *(each.ingest_number for each in recorded),
            ]
        ),
    )


def _describe_choice(found: TopicRecovery) -> str:
    assert found.chosen is not None
    before = storage.get_name(found.entry.metadata_location or "no entry")
    return f"{found.chosen.name} over {before} in {found.location}"


def _enter_side_tables(found: TopicRecovery) -> None:
    assert found.proof is not None
    assert found.proof.head is not None
    places = {
        ".".join(each): each for each, _ in found.installation.log.list_side_places(found.topic, found.proof.head)
    }
    for side in found.side_tables:
        land_side_table(found.installation.log.catalog, places[side.name], side)


def _leave_out_latest(found: TopicRecovery) -> TopicRecovery:
    """Leave out the table of the latest state, whose rows may be of what is to be done again; it is written anew."""
    latest = found.installation.log.latest_table(found.topic).name
    return replace(found, side_tables=tuple(each for each in found.side_tables if each.name != latest))


def _record_head(found: TopicRecovery, head: Head) -> None:
    """Record the head in the metadata store, as that of the topic's newest life: the table is the topic's again."""
    found.installation.log.open(found.topic).record(head)
    found.installation.store.topic_heads.begin_life(found.topic, head.table_uuid)


def _rebuild(found: TopicRecovery) -> None:
    """Rebuild the topic's rows in the metadata store; a failure is a notice, since the catalog is right."""
    head = found.installation.log.open(found.topic).head(even_deleted=True)
    if head.state.deleted_at_ms is not None:
        return
    try:
        rebuild_store(found.installation, [found.topic])
    except ServiceError:
        raise
    except WinnowError as problem:
        found.notices.append(
            f"The metadata store was not rebuilt: {problem} Then run: winnow store rebuild {found.topic}"
        )
