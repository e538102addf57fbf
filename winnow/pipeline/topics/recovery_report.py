"""Describes what a recovery found of a topic, what it takes, and what it leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from winnow.log.side_table_recovery import SideTable
from winnow.log.warehouse_survey import FoundMetadata
from winnow.pipeline.topics.recovery_survey import TopicRecovery, get_operation
from winnow.values.counts import format_count

if TYPE_CHECKING:
    pass


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
        operation=get_operation(each),
        records=records if snapshot is not None else 0,
        log_end_offsets=ends,
    )


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
