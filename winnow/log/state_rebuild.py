"""Rebuilds the carried state of a topic whose states are gone, from its manifests and what the metadata store knows.

Another engine's orphan removal takes documents that Iceberg does not know. The segments are intact then, and where the
log begins and ends can be proven. Everything else that a state carries is set to the safe side: what would have been
removed stays longer, and what would have been accepted is compared or refused. Each such loss is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from pyiceberg.manifest import ManifestContent

from winnow.errors import DamagedMetadataError, WinnowError
from winnow.log import head_checks
from winnow.log import state as carried
from winnow.log.document_places import DocumentPlaces
from winnow.log.manifests import list_live_manifests, list_live_segments
from winnow.log.places import is_below
from winnow.log.recorded_configuration import PARTITIONS_PROPERTY, read_configuration
from winnow.log.state import MOVE_PROPERTY, STATE_PROPERTY, UNDONE_MOVES_PROPERTY
from winnow.log.table_recovery import ChosenMetadata, find_missing_segments
from winnow.log.warehouse_survey import FoundMetadata
from winnow.values.counts import format_count
from winnow.values.model import Segment
from winnow.values.results import Receipt
from winnow.values.topic_state import Append, ErasureReference, PartitionState, SchemasReference, TopicState

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.table.snapshots import Snapshot

INGEST_PROPERTY: Final = "winnow.ingest-id"
OPERATION_PROPERTY: Final = "winnow.operation"
_UNDO: Final = "undo-ingest"


@dataclass(frozen=True)
class StoredKnowledge:
    """What the metadata store knows of the log, as of the chosen metadata (``is_current``) or before."""

    partitions: Mapping[int, PartitionState] = field(default_factory=dict)
    receipts: Sequence[Receipt] = ()
    is_current: bool = False


@dataclass(frozen=True)
class RebuiltState:
    """A state that was rebuilt. ``losses``: what of it is not what it was, in sentences. ``receipts``: oldest first."""

    state: TopicState
    segments: tuple[Segment, ...]
    losses: tuple[str, ...]
    receipts: tuple[Receipt, ...] = ()


def rebuild_state(
    topic: str,
    found: FoundMetadata,
    io: FileIO,
    stored: StoredKnowledge,
    erasures: tuple[ErasureReference, ...] = (),
    schemas: tuple[SchemasReference, ...] = (),
) -> RebuiltState:
    """Rebuild the state of the newest snapshot of ``found``; writes nothing.

    ``erasures``, ``schemas``: whose documents are there.

    Raises:
        DamagedMetadataError: the manifests or the segments are not complete either.
    """
    metadata, snapshot = found.metadata, found.snapshot
    assert metadata is not None
    if snapshot is None:
        raise DamagedMetadataError(f"Topic {topic} has no snapshot, so there is no state to rebuild.")
    segments = _list_segments(topic, metadata.location, snapshot, io)
    missing = find_missing_segments(metadata.location, segments)
    if missing:
        raise DamagedMetadataError(f"The state of topic {topic} was not rebuilt: {'; '.join(missing)}.")
    ends = _find_ends(metadata.snapshots, metadata.location, io, segments)
    count = _count_partitions(metadata.properties, [*ends, *stored.partitions])
    partitions = {
        number: _rebuild_partition(
            number, [each for each in segments if each.partition == number], ends, stored, snapshot.timestamp_ms
        )
        for number in range(count)
    }
    state = TopicState(
        topic=topic,
        partitions=partitions,
        quarantine_ingests=tuple(_list_landed(metadata.snapshots)),
        fence=found.fence,
        # Unlike any number that something was prepared under: that is prepared again.
        undone_ingests=found.sequence_number + 1,
        live=head_checks.compute_segment_digest(segments),
        configuration=read_configuration(metadata.properties),
        table_uuid=str(metadata.table_uuid),
        location=str(metadata.location),
        erasures=tuple(replace(each, fence=found.fence + 1) for each in erasures),
        schemas=schemas,
    )
    receipts = sorted((each for each in stored.receipts if each.plan_id), key=lambda each: each.finished_at_ms)
    return RebuiltState(state, tuple(segments), tuple(_list_losses(state, stored)), tuple(receipts))


def _list_segments(topic: str, location: str, snapshot: Snapshot, io: FileIO) -> list[Segment]:
    """List the live segments from the manifests, each of which lies in the table's folder.

    Raises:
        DamagedMetadataError: a manifest is gone, damaged, elsewhere, or names what Winnow did not write.
    """

    def make_error(path: str) -> DamagedMetadataError:
        return DamagedMetadataError(f"The table of topic {topic} holds a file that Winnow did not write: {path}.")

    try:
        manifests = list_live_manifests(io, snapshot)
        for each in manifests:
            if each.content != ManifestContent.DATA or not is_below(each.manifest_path, location):
                raise make_error(each.manifest_path)
        found = [segment for each in manifests for segment in list_live_segments(io, each, make_error)]
    except OSError as problem:
        raise DamagedMetadataError(
            f"The state of topic {topic} was not rebuilt: a manifest is gone ({problem})."
        ) from None
    return sorted(found, key=lambda each: (each.partition, each.first_offset))


def _find_ends(snapshots: Iterable[Snapshot], location: str, io: FileIO, segments: Sequence[Segment]) -> dict[int, int]:
    """Find the offset after the last record of each partition, in any snapshot whose manifests can be read.

    The records with the highest offsets may have left the log since.
    """
    ends: dict[int, int] = {}
    for each in (*segments, *_list_earlier_segments(snapshots, location, io)):
        ends[each.partition] = max(ends.get(each.partition, 0), each.last_offset + 1)
    return ends


def _list_earlier_segments(snapshots: Iterable[Snapshot], location: str, io: FileIO) -> Iterator[Segment]:
    known: set[str] = set()
    for snapshot in snapshots:
        try:
            manifests = list_live_manifests(io, snapshot)
            for each in manifests:
                if each.manifest_path not in known and is_below(each.manifest_path, location):
                    known.add(each.manifest_path)
                    yield from list_live_segments(io, each, DamagedMetadataError)
        except (OSError, WinnowError):
            continue


def _count_partitions(properties: Mapping[str, str], numbers: Iterable[int]) -> int:
    text = properties.get(PARTITIONS_PROPERTY, "0")
    return max([int(text) if text.isdecimal() else 0, *(number + 1 for number in numbers)])


def _rebuild_partition(
    number: int, segments: Sequence[Segment], ends: Mapping[int, int], stored: StoredKnowledge, committed_ms: int
) -> PartitionState:
    """Rebuild the state of a partition: never cleaned, so that its tombstones wait anew.

    Without the store its log starts at its first record: what was before is not accepted again.
    """
    known = stored.partitions.get(number, PartitionState())
    end = max(ends.get(number, 0), known.log_end_offset)
    first = segments[0].first_offset if segments else end
    start = known.log_start_offset if stored.is_current else max(known.log_start_offset, first)
    return PartitionState(
        log_start_offset=start,
        log_end_offset=end,
        first_dirty_offset=start,
        appends=_make_appends(number, segments, committed_ms),
        uncleanable=known.uncleanable,
        paused_since_ms=known.paused_since_ms,
        paused_by=known.paused_by,
    )


def _make_appends(number: int, segments: Sequence[Segment], committed_ms: int) -> tuple[Append, ...]:
    """Stand for the slices of the ledgers: all records as of the last commit, so that no lag ends too early."""
    if not segments:
        return ()
    records = sum(each.records for each in segments)
    return (Append(f"rebuilt-{number}", segments[0].first_offset, segments[-1].last_offset, records, committed_ms),)


def _list_landed(snapshots: Iterable[Snapshot]) -> list[str]:
    """List the ids under which records are in the quarantine and count, as the snapshots' commits name them."""
    landed: dict[str, None] = {}
    for each in snapshots:
        summary = each.summary.additional_properties if each.summary is not None else {}
        ids = [summary[name] for name in (INGEST_PROPERTY, MOVE_PROPERTY) if summary.get(name)]
        for gone in summary.get(UNDONE_MOVES_PROPERTY, "").split(","):
            landed.pop(gone, None)
        for found in ids:
            if summary.get(OPERATION_PROPERTY) == _UNDO:
                landed.pop(found, None)
            else:
                landed[found] = None
    return list(landed)


def _list_losses(state: TopicState, stored: StoredKnowledge) -> Iterator[str]:
    ends = " ".join(
        f"{number}:{part.log_start_offset}-{part.log_end_offset}" for number, part in state.partitions.items()
    )
    if stored.partitions:
        yield f"Log start and end per partition are exact as far as manifests and the metadata store have them: {ends}"
    else:
        yield (
            f"Log start and end are those of the records that are there: {ends}. Offsets before a start are not "
            "accepted again; if records with higher offsets had left the log, its end was higher, and records before a "
            "log start that was raised into a segment are there again"
        )
    yield "Every partition counts as never compacted: it is compacted anew, and tombstones wait their whole time again"
    yield (
        "Which files were ingested is not known any more: records with offsets are compared where they come again, but "
        "a file without offsets would be appended a second time"
    )
    yield (
        f"Quarantined records are shown of the {format_count(len(state.quarantine_ingests), 'call')} that snapshots "
        "name; those of earlier calls stay in their table, unseen"
    )
    yield (
        "Which life of a Kafka topic was read is not known any more: the next ingest from Kafka compares the newest "
        "records with the brokers', and asks for --trust-offsets or --new-epoch where that decides nothing"
    )
    yield "Files that had left the log and waited to be deleted are not known any more, and stay"
    yield "The configuration is that of the table's properties; if the topic was deleted, it is there again"
    if state.erasures:
        yield f"Erasures of keys are the {len(state.erasures)} whose documents are there; a sweep looks for their files"
    if not stored.receipts:
        yield "Receipts are not known any more"
    if not stored.partitions:
        yield "Partitions that were paused are not paused any more"


def write_rebuilt(rebuilt: RebuiltState, chosen: ChosenMetadata, places: DocumentPlaces) -> None:
    """Write the rebuilt state and its receipts, and have the chosen metadata's newest snapshot name it.

    Nothing refers to the documents until that is committed.
    """
    metadata = chosen.metadata
    receipts = tuple(carried.write_receipt(places, each) for each in rebuilt.receipts)
    state = replace(rebuilt.state, receipts=receipts, copies=places.copies)
    reference = carried.write_state(places, state)
    snapshots = [
        _name_state(each, reference) if each.snapshot_id == metadata.current_snapshot_id else each
        for each in metadata.snapshots
    ]
    chosen.metadata = metadata.model_copy(update={"snapshots": snapshots})


def _name_state(snapshot: Snapshot, reference: carried.StateReference) -> Snapshot:
    assert snapshot.summary is not None
    properties = {**snapshot.summary.additional_properties, STATE_PROPERTY: reference.to_property()}
    summary = type(snapshot.summary)(snapshot.summary.operation, **properties)
    return snapshot.model_copy(update={"summary": summary})
