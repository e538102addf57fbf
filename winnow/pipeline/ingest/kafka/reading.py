"""Decides which offsets of a Kafka topic an ingest call reads, or why it must not. Pure.

The log's own end says where to go on, so a call that died or ran twice changes nothing. Whatever would make the log
disagree with the topic unnoticed is refused: another topic of that name, offsets set back, records that the brokers
deleted before they were read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from winnow.errors import BadInputError, ServiceError, UsageError, WinnowError, join_first
from winnow.kafka.cluster import BrokerTopic
from winnow.kafka.offset_syncs import MirrorOrigin
from winnow.kafka.range_reader import BrokerRange
from winnow.pipeline.ingest.kafka.divergence import Comparison, Divergence, make_divergence_error
from winnow.pipeline.ingest.log_cut import RemovedRecords
from winnow.sources.input_errors import NOTHING_INGESTED
from winnow.values.epochs import Epoch, LeaderEpoch, append_leader_epochs, shorten_leader_epochs
from winnow.values.model import OffsetRange
from winnow.values.topic_state import PartitionState, TopicState

MAXIMUM_NAMED = 5
KEEP = "keep"
"""Keep the records that the brokers lost, and append theirs as a new epoch."""
TAKE = "take"
"""Remove the records that the brokers lost, and take theirs in their place."""
DIVERGED_CHOICES = (KEEP, TAKE)


@dataclass(frozen=True, slots=True)
class ReadingRules:
    """What the user decided. ``accepts_gap``: go on although the brokers deleted records before they were read.

    ``begins_epoch``: the topic was created again, or is a mirror: go on at the end of the log. ``accepts_overlap``:
    begin that epoch although the brokers hold records that the log has already, or older ones. ``trusts_offsets``: the
    records of files, with which the log ends, are of this topic, although nothing is left at the brokers to compare.
    ``mirror_of``: what the topic of a new epoch is a mirror of; None: nobody said that it is one.
    ``diverged``: where the brokers lost the end of a partition, one of :data:`DIVERGED_CHOICES`; None: refuse it.
    ``agreed``: what may leave the log with :data:`TAKE`, and nothing else; None: whatever it is.
    """

    accepts_gap: bool = False
    begins_epoch: bool = False
    accepts_overlap: bool = False
    trusts_offsets: bool = False
    diverged: str | None = None
    agreed: tuple[RemovedRecords, ...] | None = None
    mirror_of: MirrorOrigin | None = None


@dataclass(frozen=True, slots=True)
class KafkaReading:
    """What one call reads of a topic.

    ``ranges``: the offsets to read, none of them empty. ``epoch``: the newest epoch as it is once they are read.
    ``number``: of that epoch, from 1. ``is_new``: whether this call begins it. ``gaps``: per partition the offsets at
    the brokers that are lost. ``unproven``: per partition the offset of the log from which on its records came from
    files: whether they are of this topic is still to be shown. ``is_due``: whether there is anything to commit.
    ``skipped``: per partition the offsets at the brokers that are passed over, as the log has their records.
    ``divergences``: where the epoch leaves the one before. ``continued``: partitions whose log ends with what was read
    from brokers. ``mirror_of``: of a new epoch, the topic that this one mirrors, if that was said.
    """

    topic: BrokerTopic
    ranges: tuple[BrokerRange, ...]
    epoch: Epoch
    number: int
    is_new: bool
    gaps: Mapping[int, OffsetRange]
    unproven: Mapping[int, int]
    is_due: bool
    skipped: Mapping[int, OffsetRange] = field(default_factory=dict)
    divergences: tuple[Divergence, ...] = ()
    continued: frozenset[int] = frozenset()
    mirror_of: str | None = None

    @property
    def begins_next_epoch(self) -> bool:
        """Whether this call begins an epoch of another topic behind that of the one before."""
        return self.is_new and self.number > 1 and not self.divergences

    @property
    def offsets(self) -> int:
        """Offsets that are to be read: more than there are records, as some hold none."""
        return sum(each.end - each.start for each in self.ranges)


def include_partitions(state: TopicState, topic: BrokerTopic) -> TopicState:
    """Return ``state`` as it is once the log has been given all partitions of ``topic``."""
    return replace(state, partitions={**{number: PartitionState() for number in topic.partitions}, **state.partitions})


def plan_reading(
    state: TopicState, topic: BrokerTopic, rules: ReadingRules, compared: Comparison | None = None
) -> KafkaReading:
    """Decide what a call reads of ``topic`` into the log in ``state``, which has all of its partitions.

    ``compared``: what comparing both showed.

    Raises:
        BadInputError: records would be lost, or those of another topic taken for newer ones.
        UsageError: a new epoch was asked for, and there is no reason for one.
        ServiceError: the brokers' answer leaves partitions out.
    """
    if not is_another_topic(state, topic):
        _require_all_partitions(state, topic)
    epochs = _complete_epochs(state, topic)
    newest = epochs[-1]
    divergences = () if compared is None else compared.divergences
    if divergences:
        if rules.diverged != KEEP:
            raise make_divergence_error(state, topic, divergences)
        newest = _begin_at_divergences(state, newest, divergences)
        epochs = (*epochs, newest)
    is_same = newest.topic_id is not None and newest.topic_id == topic.topic_id
    back = _find_set_back(state, newest, topic)
    if is_same and back:
        raise _make_lost_records_error(state.topic, topic, back)
    moved = _describe_change(state, newest, topic, back)
    if moved is not None and not rules.begins_epoch:
        raise BadInputError(
            moved,
            left=NOTHING_INGESTED,
            next=(
                "If the topic was deleted and created again, or this is a mirror of it, the log can go on with it "
                f"where it ended: winnow ingest kafka {state.topic} --new-epoch compares the two, says what that "
                "does, and asks. Otherwise ingest it into another topic."
            ),
        )
    if rules.begins_epoch:
        if is_same:
            raise UsageError(
                f"Topic {topic.name} is the one that {state.topic} holds (topic id {newest.topic_id}): there is no "
                "new epoch to begin.",
                left=NOTHING_INGESTED,
                next="Leave --new-epoch out.",
            )
        bases = {number: partition.log_end_offset for number, partition in state.partitions.items()}
        newest = Epoch(topic.name, topic.topic_id, bases)
        epochs = (*epochs, newest)
    ranges, gaps = _list_ranges(state, newest, topic, is_first=len(epochs) == 1)
    if gaps and not rules.accepts_gap:
        raise _make_gap_error(state.topic, topic, gaps)
    from_files = _list_unproven(state, newest)
    unproven = {} if rules.trusts_offsets or rules.begins_epoch else from_files
    positions = {} if compared is None else compared.positions
    ranges = tuple(replace(each, after=_find_position(each, topic, newest, positions)) for each in ranges)
    ends = {number: part.stable_offset + newest.get_base(number) for number, part in topic.partitions.items()}
    after = replace(newest, topic=topic.name, topic_id=topic.topic_id or newest.topic_id, ends=ends)
    known = state.epochs[-1] if state.epochs else None
    return KafkaReading(
        topic=topic,
        ranges=ranges,
        epoch=after,
        number=len(epochs),
        is_new=rules.begins_epoch or bool(divergences) or not state.epochs,
        gaps=gaps,
        unproven=unproven,
        is_due=bool(ranges) or known != after,
        divergences=divergences,
        continued=frozenset(state.partitions.keys() - from_files.keys()),
        mirror_of=None if rules.mirror_of is None or not rules.begins_epoch else rules.mirror_of.topic,
    )


def is_another_topic(state: TopicState, topic: BrokerTopic) -> bool:
    """Check whether ``topic`` was created again, or is a mirror: its id is not that of the log's newest epoch."""
    known = state.epochs[-1].topic_id if state.epochs else None
    return known is not None and topic.topic_id is not None and known != topic.topic_id


def skip_known(reading: KafkaReading, positions: Mapping[int, int]) -> KafkaReading:
    """Return ``reading`` without what the log has already.

    ``positions``: per partition the offset at the brokers behind the last record that the log has. The log's offsets of
    what is skipped stay empty, so that an offset at the brokers is that of the log less the epoch's base.
    """
    offsets = {
        number: OffsetRange(reading.topic.partitions[number].start_offset, position)
        for number, position in sorted(positions.items())
        if position > reading.topic.partitions[number].start_offset
    }
    ranges = [
        replace(part, start=max(part.start, offsets[part.partition].end)) if part.partition in offsets else part
        for part in reading.ranges
    ]
    return replace(reading, ranges=tuple(part for part in ranges if part.start < part.end), skipped=offsets)


def advance_epochs(
    state: TopicState,
    reading: KafkaReading,
    ingest_id: str,
    leader_epochs: Mapping[int, tuple[LeaderEpoch, ...]],
) -> TopicState:
    """Return ``state`` with the epochs as they are once ``reading`` is committed by the call ``ingest_id``.

    ``leader_epochs``: of the records that were read, per partition.
    """
    before = _complete_epochs(state, reading.topic)
    known = dict(reading.epoch.leader_epochs)
    for partition, observed in leader_epochs.items():
        joins = partition in reading.continued
        known[partition] = append_leader_epochs(known.get(partition, ()), observed, joins=joins)
    epoch = replace(reading.epoch, leader_epochs={partition: parts for partition, parts in known.items() if parts})
    if reading.is_new:
        epoch = replace(epoch, ingest_id=ingest_id)
    return replace(state, epochs=(*before[: reading.number - 1], epoch))


def _begin_at_divergences(state: TopicState, epoch: Epoch, divergences: Sequence[Divergence]) -> Epoch:
    """Make the epoch that goes on at the end of the log with what the brokers have from the divergences on."""
    log_ends = {number: partition.log_end_offset for number, partition in state.partitions.items()}
    left = {each.partition: each.offset for each in divergences}
    return replace(
        epoch,
        bases={**epoch.bases, **{number: log_ends[number] - offset for number, offset in left.items()}},
        begins=log_ends,
        ends={**epoch.ends, **{number: log_ends[number] for number in left}},
        leader_epochs={
            number: shorten_leader_epochs(parts, left[number]) if number in left else parts
            for number, parts in epoch.leader_epochs.items()
        },
    )


def _find_position(
    wanted: BrokerRange, topic: BrokerTopic, epoch: Epoch, positions: Mapping[int, LeaderEpoch]
) -> LeaderEpoch | None:
    """Find the newest record before a range that the brokers can still be asked about; None if none is known."""
    position = positions.get(wanted.partition, epoch.find_leader_epoch(wanted.partition))
    begin = topic.partitions[wanted.partition].start_offset
    return position if position is not None and begin <= position.end <= wanted.start else None


def _complete_epochs(state: TopicState, topic: BrokerTopic) -> tuple[Epoch, ...]:
    """Return the epochs of ``state``; a log that no broker was read into has one that nothing is known of."""
    if state.epochs:
        return state.epochs
    is_empty = all(not each.log_end_offset for each in state.partitions.values())
    return (Epoch(topic.name, topic.topic_id) if is_empty else Epoch(),)


def _require_all_partitions(state: TopicState, topic: BrokerTopic) -> None:
    missing = [n for n, each in state.partitions.items() if n not in topic.partitions and each.log_end_offset]
    if missing and (not state.epochs or any(number in state.epochs[-1].ends for number in missing)):
        if state.epochs and topic.topic_id is not None and state.epochs[-1].topic_id == topic.topic_id:
            raise ServiceError(
                f"Topic {topic.name} is the same one as before (topic id {topic.topic_id}), and partition "
                f"{missing[0]} is missing from the brokers' answer; Kafka never removes partitions.",
                left=NOTHING_INGESTED,
                next="Run it again.",
            )
        raise BadInputError(
            f"Topic {topic.name} has {len(topic.partitions)} partitions at its brokers, but {state.topic} has records "
            f"in partition {missing[0]}: this is another topic, or it was created again.",
            left=NOTHING_INGESTED,
            next="Ingest it into another topic.",
        )


def _find_set_back(state: TopicState, epoch: Epoch, topic: BrokerTopic) -> list[str]:
    """Say of each partition that ends at its brokers below what the log holds of it, where."""
    return [
        f"{topic.name}-{number} ends at offset {found.stable_offset}, but {state.topic}-{number} holds it up to offset "
        f"{state.partitions[number].log_end_offset - epoch.get_base(number)}"
        for number, found in sorted(topic.partitions.items())
        if number in state.partitions
        and found.stable_offset + epoch.get_base(number) < state.partitions[number].log_end_offset
    ]


def _make_lost_records_error(name: str, topic: BrokerTopic, back: Sequence[str]) -> WinnowError:
    """Make the error about a topic that is the same one and ends earlier than it did."""
    return BadInputError(
        f"The brokers have lost records of topic {topic.name}, which is the same one as before (topic id "
        f"{topic.topic_id}): {join_first(back, MAXIMUM_NAMED)}.",
        left=NOTHING_INGESTED,
        next=(
            f"What {name} holds stays. An unclean leader election or a lost disk does that; if a complete replica "
            "comes back, run it again. A new epoch would append again what is here, so there is none of the same "
            "topic."
        ),
    )


def _describe_change(state: TopicState, epoch: Epoch, topic: BrokerTopic, back: Sequence[str]) -> str | None:
    """Say why ``topic`` cannot be the one of ``epoch``; None if it may be. ``back``: what was set back."""
    if is_another_topic(state, topic):
        fewer = len(topic.partitions) < len(state.partitions)
        partitions = f" It has {len(topic.partitions)} partitions, and {state.topic} has {len(state.partitions)}."
        return (
            f"Topic {topic.name} is another one than was ingested into {state.topic} before: its topic id is "
            f"{topic.topic_id}, and was {epoch.topic_id}.{partitions if fewer else ''}"
        )
    if back:
        return f"The offsets of topic {topic.name} were set back: {join_first(back, MAXIMUM_NAMED)}."
    return None


def _list_ranges(
    state: TopicState, epoch: Epoch, topic: BrokerTopic, *, is_first: bool
) -> tuple[tuple[BrokerRange, ...], dict[int, OffsetRange]]:
    ranges = []
    gaps = {}
    for number, found in sorted(topic.partitions.items()):
        base = epoch.get_base(number)
        position = state.partitions[number].log_end_offset - base
        start = max(position, found.start_offset)
        # Partitions of a topic that is looked at for the first time begin where its brokers begin. One that was added
        # since began at offset 0.
        is_known = bool(epoch.ends) or (is_first and position > 0)
        if start > position and is_known:
            gaps[number] = OffsetRange(position, start)
        if start < found.stable_offset:
            ranges.append(BrokerRange(topic.name, number, start, found.stable_offset, base))
    return tuple(ranges), gaps


def _make_gap_error(name: str, topic: BrokerTopic, gaps: Mapping[int, OffsetRange]) -> BadInputError:
    lost = [f"{topic.name}-{n} from {gap.start} to {gap.end - 1}" for n, gap in sorted(gaps.items())]
    return BadInputError(
        "The brokers deleted records before they were read (retention or delete-records); offsets lost: "
        f"{join_first(lost, MAXIMUM_NAMED)}.",
        left=NOTHING_INGESTED,
        next=(
            "Ingest them from a backup, if there is one. To go on without them, which is recorded: winnow ingest "
            f"kafka {name} --accept-gap"
        ),
    )


def _list_unproven(state: TopicState, epoch: Epoch) -> dict[int, int]:
    return {
        number: max(epoch.ends.get(number, 0), epoch.get_base(number))
        for number, each in sorted(state.partitions.items())
        if each.log_end_offset > max(epoch.ends.get(number, 0), epoch.get_base(number))
    }
