"""Finds what the warehouse has of a topic, and which metadata a recovery takes. Nothing is changed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from winnow.errors import UsageError
from winnow.files import storage
from winnow.files.quarantine_files import may_contain_ingest
from winnow.log.erasures import find_erasures
from winnow.log.head import Head
from winnow.log.kept_schemas import find_kept_schemas
from winnow.log.side_table_recovery import SideTable, plan_side_table
from winnow.log.state_rebuild import RebuiltState, StoredKnowledge, rebuild_state
from winnow.log.table_recovery import (
    CatalogEntry,
    ChosenMetadata,
    Land,
    LeavesOut,
    ProvenLog,
    prove_log,
)
from winnow.log.warehouse_survey import FoundMetadata, WarehouseSurvey, survey_table
from winnow.pipeline.installation import Installation
from winnow.store.audit import AuditAction
from winnow.values.topic_state import TopicHead

if TYPE_CHECKING:
    from winnow.log.table_recovery import FileAccess

OPERATION: Final = "winnow.operation"


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
        is_made = self.chosen.name == present.name or get_operation(present) in _OPERATIONS
        return is_made and all(each.rank[:2] <= present.rank[:2] for each in self.survey.landed)


_OPERATIONS: Final = (AuditAction.RECOVER.value, AuditAction.ADOPT.value)


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
    recorded = [each.metadata_location for each in list_recorded(installation, topic, entry.table_uuid)]
    known = [each for each in (entry.metadata_location, *recorded) if each]
    survey = survey_table(io, location, table_uuid=entry.table_uuid, known=known)
    survey = _keep_one_table(survey, metadata)
    chosen, undecided = _choose(survey, metadata)
    found = TopicRecovery(installation, topic, location, entry, io, survey, chosen, None, undecided)
    if chosen is None:
        return found
    proof = prove_log(installation.log.open_over(open_chosen(found), topic), chosen)
    found = replace(found, proof=proof, side_tables=plan_side_tables(installation, topic, proof.head, io))
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
    recorded = list_recorded(found.installation, topic, found.chosen.table_uuid)
    if not recorded or recorded[-1].last_sequence_number > found.chosen.sequence_number:
        return StoredKnowledge()
    is_current = recorded[-1].last_sequence_number == found.chosen.sequence_number
    return StoredKnowledge(projection.list_states(topic), tuple(projection.list_receipts(topic)), is_current)


def list_recorded(installation: Installation, topic: str, table_uuid: str | None) -> list[TopicHead]:
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


def open_chosen(found: TopicRecovery, land: Land | None = None, hides: LeavesOut | None = None) -> ChosenMetadata:
    """Open the chosen metadata as if they were the table's. ``land``: how the catalog gets to them."""
    assert found.chosen is not None
    return ChosenMetadata(found.installation.log.catalog, found.identifier, found.chosen, found.io, land, hides)


def plan_side_tables(
    installation: Installation, topic: str, head: Head | None, io: FileAccess
) -> tuple[SideTable, ...]:
    """Plan which side tables of the log at ``head`` are entered into the catalog with it."""
    if head is None:
        return ()
    logs, visible = installation.log, frozenset(head.state.quarantine_ingests)
    planned = []
    for identifier, location in logs.list_side_places(topic, head):
        is_needed = partial(may_contain_ingest, location=location, ingest_ids=visible)
        counts = identifier[0] == logs.namespaces.quarantine and visible
        planned.append(plan_side_table(logs.catalog, identifier, io, location, is_needed if counts else None))
    return tuple(table for table in planned if table is not None)


def get_operation(metadata: FoundMetadata) -> str:
    """Return what the newest commit of ``metadata`` says that it did."""
    snapshot = metadata.snapshot
    if snapshot is None:
        return "create"
    summary = snapshot.summary.additional_properties if snapshot.summary is not None else {}
    return str(summary.get(OPERATION) or (snapshot.summary.operation.value if snapshot.summary is not None else ""))
