"""Brings a topic back into the catalog from the warehouse alone, where the catalog is lost or older.

What lies in the table's folder is surveyed and followed to its last file before anything changes; a dry run shows it.
Then the side tables are entered, then one commit makes the chosen metadata the topic's head, and the metadata store is
rebuilt. That commit decides; killed at any line, the next call completes the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from winnow.errors import ServiceError, UnknownTopicError, UsageError, WinnowError
from winnow.files import storage
from winnow.log.deleted_topics import note_deleted
from winnow.log.erasures import find_erasures
from winnow.log.head import Head
from winnow.log.kept_schemas import find_kept_schemas
from winnow.log.raised_head import KnownNumbers, make_raised_change
from winnow.log.side_table_recovery import SideTable, land_side_table, plan_side_table
from winnow.log.state_rebuild import RebuiltState, StoredKnowledge, rebuild_state, write_rebuilt
from winnow.log.table_recovery import (
    CatalogEntry,
    ChosenMetadata,
    Land,
    LeavesOut,
    ProvenLog,
    SwapsMetadata,
    drop_unreadable_snapshots,
    land_as_new_entry,
    land_in_entry,
    land_through_catalog,
    prove_log,
)
from winnow.log.warehouse_survey import FoundMetadata, WarehouseSurvey, read_metadata_number, survey_table
from winnow.pipeline.installation import Installation
from winnow.pipeline.topics.audit import record_action
from winnow.pipeline.topics.leases import hold_lease
from winnow.pipeline.topics.older_worlds import UNCHANGED, OlderWorld
from winnow.pipeline.topics.stored_rows import rebuild_store
from winnow.report.events import log_event
from winnow.store.audit import AuditAction
from winnow.values.counts import format_count
from winnow.values.topic_state import TopicHead

if TYPE_CHECKING:
    from winnow.log.table_recovery import FileAccess

OPERATION: Final = "winnow.operation"


@dataclass(frozen=True, slots=True)
class FoundSnapshot:
    """The newest snapshot of one metadata file in the table's folder.

    ``standing``: ``current`` (the topic's head after this command), ``earlier``, ``given up`` (it landed, and is not in
    the chosen history), ``not proven`` (nothing says whether it landed) or ``not landed`` (another commit came first).
    ``log_end_offsets``: per partition; None where its state cannot be read.
    """

    metadata_location: str
    standing: str
    snapshot_id: str | None
    sequence_number: int
    committed_at_ms: int
    operation: str
    records: int | None
    log_end_offsets: dict[int, int] | None


@dataclass(frozen=True, slots=True)
class SetAside:
    """A metadata file that cannot be the table's, and why."""

    metadata_location: str
    reason: str


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What a recovery found, and did. Nothing was changed unless ``was_run``.

    ``catalog_metadata``: what the catalog named before; None: it had no such topic. ``chosen_metadata`` None: nothing
    could be chosen, ``undecided`` says why. ``is_landed``: the chosen one is proven to have landed; otherwise it is the
    only commit over the newest that is. ``problems``: what the chosen one lacks. ``was_needed`` False: the catalog has
    the newest already.
    """

    topic: str
    location: str
    table_uuid: str | None
    catalog_metadata: str | None
    chosen_metadata: str | None
    is_landed: bool
    was_needed: bool
    was_run: bool
    undecided: str | None
    problems: tuple[str, ...]
    snapshots: tuple[FoundSnapshot, ...]
    set_aside: tuple[SetAside, ...]
    side_tables: tuple[SideTable, ...]
    notices: tuple[str, ...]
    snapshot_id: str | None = None
    fence: int | None = None


@dataclass(frozen=True)
class TopicRecovery:
    """Everything that was found of a topic before anything is changed."""

    installation: Installation
    topic: str
    location: str
    entry: CatalogEntry
    io: FileAccess
    survey: WarehouseSurvey
    chosen: FoundMetadata | None
    proof: ProvenLog | None
    undecided: str | None = None
    side_tables: tuple[SideTable, ...] = ()
    rebuilt: RebuiltState | None = None
    notices: list[str] = field(default_factory=list)

    @property
    def identifier(self) -> tuple[str, str]:
        """The topic's name in the catalog."""
        return self.installation.log.identify(self.topic)

    @property
    def is_done(self) -> bool:
        """Whether the catalog names the chosen metadata, or those that a recovery made of them, and none are newer."""
        present = _find(self.survey, self.entry.metadata_location)
        if present is None or self.chosen is None or self.chosen.name not in (present.name, present.previous):
            return False
        if self.rebuilt is not None:
            return False
        is_made = self.chosen.name == present.name or _get_operation(present) in _OPERATIONS
        return is_made and all(each.rank[:2] <= present.rank[:2] for each in self.survey.landed)


_OPERATIONS: Final = (AuditAction.RECOVER.value, AuditAction.ADOPT.value)


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


def look_at_table(
    installation: Installation,
    topic: str,
    location: str,
    entry: CatalogEntry,
    *,
    metadata: str | None,
    rebuild: bool = False,
) -> TopicRecovery:
    """Survey the table at ``location``, choose its metadata, and follow them to the last file."""
    io = entry.table.io if entry.table is not None else installation.log.open_files(location)
    recorded = [each.metadata_location for each in _list_recorded(installation, topic, entry.table_uuid)]
    known = [each for each in (entry.metadata_location, *recorded) if each]
    survey = survey_table(io, location, table_uuid=entry.table_uuid, known=known)
    survey = _keep_one_table(survey, metadata)
    chosen, undecided = _choose(survey, metadata)
    found = TopicRecovery(installation, topic, location, entry, io, survey, chosen, None, undecided)
    if chosen is None:
        return found
    proof = prove_log(installation.log.open_over(_open_chosen(found), topic), chosen)
    found = replace(found, proof=proof, side_tables=_plan_side_tables(installation, topic, proof.head, io))
    return replace(found, rebuilt=_rebuild_state(found)) if rebuild and proof.head is None else found


def _rebuild_state(found: TopicRecovery) -> RebuiltState:
    assert found.chosen is not None
    places = found.installation.log.locate_documents(found.topic, found.location, str(found.chosen.table_uuid))
    table_uuid = str(found.chosen.table_uuid)
    erasures = find_erasures(found.topic, places, table_uuid)
    schemas = find_kept_schemas(found.topic, places, table_uuid)
    return rebuild_state(found.topic, found.chosen, found.io, _find_stored(found), erasures, schemas)


def _find_stored(found: TopicRecovery) -> StoredKnowledge:
    """Find what the metadata store knows of the log, if it is not ahead of the chosen metadata."""
    assert found.chosen is not None
    projection, topic = found.installation.store.projection, found.topic
    recorded = _list_recorded(found.installation, topic, found.chosen.table_uuid)
    if not recorded or recorded[-1].last_sequence_number > found.chosen.sequence_number:
        return StoredKnowledge()
    is_current = recorded[-1].last_sequence_number == found.chosen.sequence_number
    return StoredKnowledge(projection.list_states(topic), tuple(projection.list_receipts(topic)), is_current)


def _list_recorded(installation: Installation, topic: str, table_uuid: str | None) -> list[TopicHead]:
    """List the heads of the table that the metadata store recorded after commits; of any table if it is not known."""
    lives = installation.store.topic_heads.list_lives(topic) if installation.store.exists else ()
    return [each for each in lives if table_uuid in (None, each.table_uuid)]


def _keep_one_table(survey: WarehouseSurvey, metadata: str | None) -> WarehouseSurvey:
    """Leave out the metadata files of other tables, where the folder has those of several."""
    wanted = _find(survey, metadata)
    uuids = {each.table_uuid for each in survey.candidates}
    if wanted is None or len(uuids) == 1:
        return survey
    own = tuple(each for each in survey.found if each.table_uuid == wanted.table_uuid or each.fault is not None)
    return WarehouseSurvey(survey.location, own, survey.known)


def _choose(survey: WarehouseSurvey, metadata: str | None) -> tuple[FoundMetadata | None, str | None]:
    """Choose the metadata to take, or say why none can be chosen.

    Raises:
        UsageError: ``metadata`` is none of the table's.
    """
    if metadata is not None:
        return _find_wanted(survey, metadata), None
    if not survey.candidates:
        return None, f"No metadata file of a topic's table is in {survey.location}/metadata."
    uuids = {each.table_uuid for each in survey.candidates}
    if len(uuids) > 1:
        return None, f"The folder has metadata files of {len(uuids)} tables. Choose one with --metadata FILE."
    if survey.rivals:
        return None, (
            "Two histories were committed, and nothing says which of them counts: a catalog was put back and written "
            "to. Choose one with --metadata FILE."
        )
    if survey.newest is None:
        return None, (
            f"{len(survey.unproven)} metadata files could be the newest one, and nothing says which of them landed. "
            "Choose one with --metadata FILE; the newest one that is proven is "
            f"{survey.landed[-1].name if survey.landed else 'none'}."
        )
    return survey.newest, None


def _find_wanted(survey: WarehouseSurvey, metadata: str) -> FoundMetadata:
    found = _find(survey, metadata)
    if found is None:
        raise UsageError(
            f"There is no metadata file {metadata} in {survey.location}/metadata.",
            left="Nothing was changed.",
        )
    if found.fault is not None:
        raise UsageError(
            f"The metadata file {found.location} was not taken: {found.fault}.",
            left="Nothing was changed.",
        )
    return found


def _find(survey: WarehouseSurvey, metadata: str | None) -> FoundMetadata | None:
    name = storage.get_name(metadata or "")
    return next((each for each in survey.found if each.name == name), None)


def _open_chosen(found: TopicRecovery, land: Land | None = None, hides: LeavesOut | None = None) -> ChosenMetadata:
    assert found.chosen is not None
    return ChosenMetadata(found.installation.log.catalog, found.identifier, found.chosen, found.io, land, hides)


def _plan_side_tables(
    installation: Installation, topic: str, head: Head | None, io: FileAccess
) -> tuple[SideTable, ...]:
    if head is None:
        return ()
    places = installation.log.list_side_places(topic, head)
    planned = (plan_side_table(installation.log.catalog, identifier, io, location) for identifier, location in places)
    return tuple(table for table in planned if table is not None)


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
    chosen = _open_chosen(found, _choose_landing(found, known), older)
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
    sides = _plan_side_tables(found.installation, found.topic, proof.head, found.io)
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
    recorded = _list_recorded(found.installation, found.topic, chosen.table_uuid)
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


def describe_recovery(found: TopicRecovery) -> RecoveryReport:
    """Describe what was found, and what would be done."""
    chosen, proof = found.chosen, found.proof
    return RecoveryReport(
        topic=found.topic,
        location=found.location,
        table_uuid=chosen.table_uuid if chosen is not None else None,
        catalog_metadata=found.entry.metadata_location,
        chosen_metadata=chosen.location if chosen is not None else None,
        is_landed=chosen in found.survey.landed,
        was_needed=not found.is_done,
        was_run=False,
        undecided=found.undecided,
        problems=proof.problems if proof is not None and found.rebuilt is None else (),
        snapshots=tuple(_describe_snapshot(found, each) for each in found.survey.candidates),
        set_aside=tuple(SetAside(each.location, each.fault) for each in found.survey.found if each.fault is not None),
        side_tables=found.side_tables,
        notices=(*found.notices, *_list_notices(found)),
    )


def _describe_snapshot(found: TopicRecovery, each: FoundMetadata) -> FoundSnapshot:
    assert each.metadata is not None
    snapshot, state = each.snapshot, found.survey.states.get(each.name)
    ends = {number: part.log_end_offset for number, part in state.partitions.items()} if state is not None else None
    records = state.live.records if state is not None and state.live is not None else None
    return FoundSnapshot(
        metadata_location=each.location,
        standing=_describe_standing(found, each),
        snapshot_id=str(snapshot.snapshot_id) if snapshot is not None else None,
        sequence_number=each.sequence_number,
        committed_at_ms=snapshot.timestamp_ms if snapshot is not None else each.metadata.last_updated_ms,
        operation=_get_operation(each),
        records=records if snapshot is not None else 0,
        log_end_offsets=ends,
    )


def _get_operation(each: FoundMetadata) -> str:
    snapshot = each.snapshot
    if snapshot is None:
        return "create"
    summary = snapshot.summary.additional_properties if snapshot.summary is not None else {}
    return str(summary.get(OPERATION) or (snapshot.summary.operation.value if snapshot.summary is not None else ""))


def _describe_standing(found: TopicRecovery, each: FoundMetadata) -> str:
    chosen, survey = found.chosen, found.survey
    if chosen is not None and each.name == chosen.name:
        return "current"
    if each in survey.unproven:
        return "not proven"
    if each not in survey.landed:
        return "not landed"
    if chosen is None or each.name in chosen.history:
        return "earlier"
    oldest = next((one for one in survey.candidates if one.name in chosen.history), chosen)
    return "given up" if each.rank > oldest.rank else "earlier"


def _list_notices(found: TopicRecovery) -> Iterator[str]:
    chosen, survey = found.chosen, found.survey
    if chosen is None:
        return
    if found.rebuilt is not None:
        yield from found.rebuilt.losses
    elif found.proof is not None and found.proof.head is None:
        yield (
            "Its state is gone, or is not what was committed. If it cannot be put back, one can be rebuilt from the "
            f"manifests: winnow topics recover {found.topic} --rebuild-state"
        )
    if chosen in survey.unproven:
        yield (
            f"Nothing says whether the commit of {chosen.name} landed; it is the only one over the newest that did, "
            "and is taken: either its caller was told that it landed, or it is what somebody asked for and nothing "
            "came after it. To leave it out: --metadata "
            f"{survey.landed[-1].name if survey.landed else 'FILE'}"
        )
    others = [each for each in survey.unproven if each.name != chosen.name]
    if others:
        yield (
            f"Left out, since nothing says that they landed: {format_count(len(others), 'newer metadata file')}, such "
            f"as {others[-1].name}. To take it: --metadata {others[-1].name}"
        )
    given_up = [each for each in survey.landed if _describe_standing(found, each) == "given up"]
    if given_up:
        yield (
            f"Given up: {format_count(len(given_up), 'commit')} that landed, the newest with sequence number "
            f"{given_up[-1].sequence_number}: {given_up[-1].name}. Their files stay where they are."
        )
